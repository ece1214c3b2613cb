//! Runs workers beside each other for a while and takes their times.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::Result;
use crate::latency::Latencies;

/// How long a round takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// Not measured: threads start, caches and the medium's queue fill.
    warm: Duration,
    /// Measured.
    measured: Duration,
}

/// What came of a round.
pub(super) struct Run {
    /// Of the operations that began in the measured time.
    pub(super) latencies: Latencies,
    /// From the first measured operation's begin to the last one's end.
    elapsed: Duration,
    /// Operations of each worker, measured or not.
    pub(super) done: Vec<u64>,
}

impl Run {
    pub(super) fn throughput(&self) -> f64 {
        self.latencies.count() as f64 / self.elapsed.as_secs_f64()
    }
}

impl Pace {
    /// A tenth more than `measured`, at most half a second, goes by before.
    pub(super) fn new(measured: Duration) -> Self {
        Self { warm: (measured / 10).min(Duration::from_millis(500)), measured }
    }

    /// Calls each worker with 0, 1, 2, … in a thread of its own until the time is over or one of them fails.
    pub(super) fn run<W: FnMut(u64) -> Result<()> + Send>(self, workers: Vec<W>) -> Result<Run> {
        let together = Barrier::new(workers.len());
        let failed = AtomicBool::new(false);
        let parts: Vec<Result<Part>> = std::thread::scope(|scope| {
            let threads: Vec<_> = workers
                .into_iter()
                .map(|worker| {
                    scope.spawn(|| {
                        together.wait();
                        let part = self.work(worker, &failed);
                        if part.is_err() {
                            failed.store(true, Ordering::Relaxed);
                        }
                        part
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().expect("a worker returns its errors")).collect()
        });
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

    fn work<W: FnMut(u64) -> Result<()>>(self, mut worker: W, failed: &AtomicBool) -> Result<Part> {
        let first = Instant::now() + self.warm;
        let end = first + self.measured;
        let mut part = Part { latencies: Latencies::new(), done: 0, first, last: first };
        let mut before = Instant::now();
        // At least one measured operation, however slow the medium.
        while (before < end || part.latencies.count() == 0) && !failed.load(Ordering::Relaxed) {
            worker(part.done)?;
            let after = Instant::now();
            if before >= first {
                part.latencies.record(after - before);
                part.last = after;
            }
            part.done += 1;
            before = after;
        }
        Ok(part)
    }
}

struct Part {
    latencies: Latencies,
    done: u64,
    first: Instant,
    last: Instant,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;

    #[test]
    fn throughput_and_latency_agree() {
        let nap = Duration::from_millis(2);
        let worker = || {
            move |_| {
                std::thread::sleep(nap);
                Ok(())
            }
        };
        let run = Pace::new(Duration::from_millis(100)).run(vec![worker(), worker()]).unwrap();
        assert!(run.latencies.quantile(0.5) >= nap.as_secs_f64() * 0.99);
        assert!(run.throughput() > 10.0 && run.throughput() <= 1001.0);
        assert!(run.done.iter().sum::<u64>() >= run.latencies.count());
    }

    #[test]
    fn the_error_of_one_worker_ends_the_round() {
        let worker = |fails: bool| {
            move |turn: u64| {
                std::thread::sleep(Duration::from_micros(100));
                if fails && turn == 3 {
                    return Err(Error::Invalid { setting: "turn", reason: "on purpose".to_owned() });
                }
                Ok(())
            }
        };
        let started = Instant::now();
        let result = Pace::new(Duration::from_mins(1)).run(vec![worker(true), worker(false)]);
        assert!(matches!(result, Err(Error::Invalid { .. })));
        assert!(started.elapsed() < Duration::from_secs(30));
    }
}
