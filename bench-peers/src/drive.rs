//! How clients are driven: who calls an engine, for how long, and what is measured of it.
//!
//! A [`Store`](crate::engine::Store) chooses its driver. [`threads`] gives each client a thread of its own that blocks
//! until its transaction is durable. An engine whose acknowledgements can be awaited may bring another driver, as long as
//! it has the same number of clients, each with one transaction under way, and answers with the same [`Run`].

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use ishigaki_base::random::Seed;

use crate::latency::Latencies;
use crate::workload::{History, Row, Transactions, Workload};

/// What the clients of one run do, and how long.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) workload: Workload,
    pub(crate) clients: usize,
    /// Of the rows and of every client's transactions.
    pub(crate) seed: Seed,
    /// Not measured: threads start, caches and the medium's queue fill.
    pub(crate) warm: Duration,
    /// Measured.
    pub(crate) measured: Duration,
}

impl Plan {
    /// A quarter of `measured`, at most half a second, goes by before.
    pub(crate) fn new(workload: Workload, clients: usize, seed: Seed, measured: Duration) -> Self {
        Self { workload, clients, seed, warm: (measured / 4).min(Duration::from_millis(500)), measured }
    }

    /// What client `number` does.
    pub(crate) fn transactions(&self, number: usize) -> Transactions {
        Transactions::new(self.workload, self.seed, number, self.clients)
    }
}

/// What came of a run.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    /// Of the transactions that began in the measured time.
    pub(crate) latencies: Latencies,
    /// From the first measured transaction's begin to the last one's end.
    pub(crate) elapsed: Duration,
    /// Of each client, how many transactions were acknowledged, measured or not.
    pub(crate) done: Vec<u64>,
}

impl Run {
    pub(crate) fn throughput(&self) -> f64 {
        self.latencies.count() as f64 / self.elapsed.as_secs_f64()
    }

    /// What must be found in the store now.
    pub(crate) fn history(&self, plan: &Plan) -> History {
        History { workload: plan.workload, seed: plan.seed, done: self.done.clone() }
    }
}

/// Runs every client in a thread of its own. `client` makes, for a client's number, what commits one transaction and
/// returns when it is durable. The first error ends the run.
pub(crate) fn threads<C>(plan: &Plan, client: impl Fn(usize) -> Result<C>) -> Result<Run>
where
    C: FnMut(&[Row]) -> Result<()> + Send,
{
    let clients = (0..plan.clients).map(client).collect::<Result<Vec<C>>>()?;
    let (together, failed) = (Barrier::new(clients.len()), AtomicBool::new(false));
    let parts: Vec<Result<Part>> = std::thread::scope(|scope| {
        let (together, failed) = (&together, &failed);
        let run = |(number, commit): (usize, C)| {
            let transactions = plan.transactions(number);
            scope.spawn(move || {
                together.wait();
                let part = work(plan, transactions, commit, failed);
                failed.fetch_or(part.is_err(), Ordering::Relaxed);
                part
            })
        };
        let threads: Vec<_> = clients.into_iter().enumerate().map(run).collect();
        threads.into_iter().map(|thread| thread.join().expect("a client returns its errors")).collect()
    });
    sum(parts)
}

/// The part of one client.
struct Part {
    latencies: Latencies,
    done: u64,
    first: Instant,
    last: Instant,
}

fn work(
    plan: &Plan,
    mut transactions: Transactions,
    mut commit: impl FnMut(&[Row]) -> Result<()>,
    failed: &AtomicBool,
) -> Result<Part> {
    let first = Instant::now() + plan.warm;
    let end = first + plan.measured;
    let mut part = Part { latencies: Latencies::new(), done: 0, first, last: first };
    // At least one measured transaction, however slow the engine.
    while !failed.load(Ordering::Relaxed) {
        let rows = transactions.next();
        let before = Instant::now();
        if before >= end && part.latencies.count() > 0 {
            break;
        }
        commit(rows)?;
        part.done += 1;
        if before >= first {
            let after = Instant::now();
            part.latencies.record(after - before);
            part.last = after;
        }
    }
    Ok(part)
}

fn sum(parts: Vec<Result<Part>>) -> Result<Run> {
    let mut run = Run { latencies: Latencies::new(), elapsed: Duration::ZERO, done: Vec::new() };
    let (mut first, mut last): (Option<Instant>, Option<Instant>) = (None, None);
    for part in parts {
        let part = part?;
        run.latencies.add(&part.latencies);
        run.done.push(part.done);
        first = first.into_iter().chain([part.first]).min();
        last = last.into_iter().chain([part.last]).max();
    }
    run.elapsed = last.zip(first).map_or(Duration::ZERO, |(last, first)| last - first);
    Ok(run)
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::bail;

    fn plan(measured: Duration) -> Plan {
        Plan::new(Workload::One, 3, Seed(5), measured)
    }

    #[test]
    fn throughput_and_latency_agree() {
        let nap = Duration::from_millis(2);
        let client = |_| {
            Ok(move |_: &[Row]| {
                std::thread::sleep(nap);
                Ok(())
            })
        };
        let run = threads(&plan(Duration::from_millis(100)), client).unwrap();
        assert!(run.latencies.quantile(0.5) >= nap.as_secs_f64() * 0.99);
        assert!(run.throughput() > 10.0 && run.throughput() <= 1501.0);
        assert!(run.done.iter().sum::<u64>() > run.latencies.count(), "the warm part is done and not measured");
    }

    #[test]
    fn the_error_of_one_client_ends_the_run() {
        let client = |number| {
            let mut turn = 0;
            Ok(move |_: &[Row]| {
                turn += 1;
                std::thread::sleep(Duration::from_micros(100));
                if number == 1 && turn == 4 {
                    bail!("on purpose");
                }
                Ok(())
            })
        };
        let started = Instant::now();
        assert_eq!(threads(&plan(Duration::from_mins(1)), client).unwrap_err().to_string(), "on purpose");
        assert!(started.elapsed() < Duration::from_secs(30));
    }
}
