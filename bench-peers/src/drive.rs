//! How clients are driven: who calls an engine, for how long, and what is measured of it.
//!
//! A [`Store`](crate::engine::Store) chooses its driver. [`threads`] gives each client a thread of its own that blocks
//! until its transaction is durable. [`tasks`] is for an engine whose acknowledgements can be awaited: its clients are
//! tasks, and few threads run all of them. Either way each client has one transaction under way, and the time of a
//! transaction goes from its begin until its client knows that it is durable.
//!
//! The tasks of a thread lie in a `FuturesUnordered` under `futures`' `block_on`: waking is a push onto a queue without a
//! lock and at most one unparking of the thread for all that are woken together, and tasks may borrow. For tasks that give
//! way once and are then woken in groups by another thread, as these are, it took 0.2 to 0.3 µs of the processor for each
//! operation: as much as `LocalPool`, which is the same thing with a box for each task, while `async-executor`'s local one
//! took a quarter to two thirds more.

use std::time::Duration;

use anyhow::Result;
use futures::TryStreamExt;
use futures::executor::block_on;
use futures::stream::FuturesUnordered;
use ishigaki_base::random::Seed;
use ishigaki_bench::pace::{Pace, Round, Run, Times};

use crate::workload::{History, Row, Transactions, Workload};

/// What the clients of one run do, and how long.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) workload: Workload,
    pub(crate) clients: usize,
    /// Of the rows and of every client's transactions.
    pub(crate) seed: Seed,
    pub(crate) pace: Pace,
}

impl Plan {
    /// A quarter of `measured`, at most half a second, goes by before.
    pub(crate) fn new(workload: Workload, clients: usize, seed: Seed, measured: Duration) -> Self {
        let pace = Pace { warm: (measured / 4).min(Duration::from_millis(500)), measured };
        Self { workload, clients, seed, pace }
    }

    /// What client `number` does.
    fn transactions(&self, number: usize) -> Transactions {
        Transactions::new(self.workload, self.seed, number, self.clients)
    }

    /// What must be found in the store after the run.
    pub(crate) fn history(&self, run: &Run) -> History {
        History { workload: self.workload, seed: self.seed, done: run.done.clone() }
    }
}

/// Runs every client in a thread of its own. `client` makes, for a client's number, what commits one transaction and
/// returns when it is durable. The first error ends the run.
pub(crate) fn threads<C>(plan: &Plan, client: impl Fn(usize) -> Result<C>) -> Result<Run>
where
    C: FnMut(&[Row]) -> Result<()> + Send,
{
    let body = |number| {
        let (mut commit, mut transactions) = (client(number)?, plan.transactions(number));
        Ok(move |round: &Round| {
            let mut times = round.times();
            loop {
                let rows = transactions.next();
                let Some(begun) = times.begin() else { return Ok(vec![times]) };
                commit(rows)?;
                times.end(begun);
            }
        })
    };
    plan.pace.threads((0..plan.clients).map(body).collect::<Result<Vec<_>>>()?)
}

/// Runs every client as a task, and all tasks on so many threads, each of which keeps its own. `client` makes, for a
/// client's number, what commits one transaction and is ready when it is durable. The first error ends the run.
pub(crate) fn tasks<C>(plan: &Plan, threads: usize, client: impl Fn(usize) -> Result<C>) -> Result<Run>
where
    C: AsyncFnMut(&[Row]) -> Result<()> + Send,
{
    let threads = threads.min(plan.clients);
    let first = |thread: usize| thread * plan.clients / threads;
    let body = |thread| {
        let numbers = first(thread)..first(thread + 1);
        let clients: Vec<_> =
            numbers.map(|number| Ok((client(number)?, plan.transactions(number)))).collect::<Result<_>>()?;
        Ok(move |round: &Round| {
            let mut times: Vec<Times> = clients.iter().map(|_| round.times()).collect();
            let tasks: FuturesUnordered<_> = times
                .iter_mut()
                .zip(clients)
                .map(|(times, (commit, transactions))| task(times, commit, transactions))
                .collect();
            block_on(tasks.try_collect::<()>())?;
            Ok(times)
        })
    };
    plan.pace.threads((0..threads).map(body).collect::<Result<Vec<_>>>()?)
}

async fn task(
    times: &mut Times,
    mut commit: impl AsyncFnMut(&[Row]) -> Result<()>,
    mut transactions: Transactions,
) -> Result<()> {
    loop {
        let rows = transactions.next();
        let Some(begun) = times.begin() else { return Ok(()) };
        commit(rows).await?;
        times.end(begun);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::future::poll_fn;
    use std::task::Poll;
    use std::thread::{self, ThreadId};
    use std::time::Instant;

    use anyhow::bail;
    use parking_lot::Mutex;

    fn plan(measured: Duration) -> Plan {
        Plan::new(Workload::One, 5, Seed(5), measured)
    }

    /// Gives way to the other tasks once.
    async fn give_way() {
        let gave = Cell::new(false);
        poll_fn(|context| {
            context.waker().wake_by_ref();
            if gave.replace(true) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    #[test]
    fn the_error_of_one_client_ends_the_run_of_threads_and_of_tasks() {
        let fails = |number: usize, turn: u32| {
            if number == 1 && turn == 4 {
                bail!("on purpose");
            }
            Ok(())
        };
        let plan = plan(Duration::from_mins(1));
        let started = Instant::now();
        let thread = |number| {
            let mut turn = 0;
            Ok(move |_: &[Row]| {
                turn += 1;
                thread::sleep(Duration::from_micros(100));
                fails(number, turn)
            })
        };
        assert_eq!(threads(&plan, thread).unwrap_err().to_string(), "on purpose");
        let task = |number| {
            let mut turn = 0;
            Ok(async move |_: &[Row]| {
                turn += 1;
                give_way().await;
                fails(number, turn)
            })
        };
        assert_eq!(tasks(&plan, 2, task).unwrap_err().to_string(), "on purpose");
        assert!(started.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn tasks_take_turns_and_stay_on_their_thread() {
        let seen: Mutex<Vec<(ThreadId, usize)>> = Mutex::default();
        let client = |number| {
            let seen = &seen;
            Ok(async move |_: &[Row]| {
                give_way().await;
                seen.lock().push((thread::current().id(), number));
                Ok(())
            })
        };
        let run = tasks(&plan(Duration::from_millis(20)), 2, client).unwrap();
        assert_eq!(run.done.len(), 5);
        assert!(run.done.iter().all(|done| *done > 0));
        let seen = seen.into_inner();
        let mut threads: Vec<(usize, ThreadId)> = seen.iter().map(|(thread, number)| (*number, *thread)).collect();
        threads.sort_by_key(|(number, _)| *number);
        threads.dedup();
        let clients: Vec<usize> = threads.iter().map(|(number, _)| *number).collect();
        assert_eq!(clients, [0, 1, 2, 3, 4], "every client ran on one thread only");
        let thread = |client: usize| threads[client].1;
        assert_eq!(thread(0), thread(1));
        assert_eq!((thread(2), thread(3)), (thread(4), thread(4)));
        assert_ne!(thread(0), thread(4));
        // Of the first thread's two tasks none runs twice before the other, while both have work.
        let mut turns = seen.iter().filter(|(id, _)| *id == thread(0)).map(|(_, number)| *number).take(100);
        let pairs: Vec<(usize, usize)> = std::iter::from_fn(|| turns.next().zip(turns.next())).collect();
        assert!(pairs.len() > 10 && pairs.iter().all(|(one, other)| one != other), "{pairs:?}");
    }
}
