//! One run of one case: a fresh database, filled, worked on, checked.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ishigaki_base::random::Seed;
use ishigaki_device::Directory;
use ishigaki_txn::Database;

use super::client::{Stop, Worker};
use super::tally::Tally;
use super::{Experiment, Sweep};
use crate::counting::Counting;
use crate::pace::{Pace, Round};
use crate::{Error, Result};

/// One case.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    /// Which experiment, by its place.
    pub(super) experiment: usize,
    pub(super) workers: usize,
    /// Which engine, by its place.
    pub(super) engine: usize,
    pub(super) outstanding: usize,
}

/// What one run gave.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub(super) tally: Tally,
    /// From the first measured transaction's begin to the last one's end.
    pub(super) elapsed: Duration,
    /// Bytes that the device was given, and writes, for each transaction that committed, measured or not.
    pub(super) bytes_per_commit: f64,
    pub(super) writes_per_commit: f64,
    /// Processor time of the workers for each transaction that committed, measured or not, in seconds.
    pub(super) processor_per_commit: f64,
}

pub(super) fn run<E: Experiment>(
    sweep: &Sweep,
    name: &'static str,
    point: &Point,
    experiment: &E,
    seed: Seed,
    tell: &mut dyn FnMut(&str),
) -> Result<Outcome> {
    let told = |stop| match stop {
        Stop::Engine(error) => Error::Engine(error),
        Stop::Wrong(reason) => sweep.target.wrong(name, reason),
    };
    let settings = sweep.engines[point.engine].settings(point.workers);
    let counting = Arc::new(Counting::new(Arc::clone(sweep.target.directory())));
    let open = || Database::open_in(Arc::clone(&counting) as Arc<dyn Directory>, settings.clone());

    tell("filling");
    let mut database = open()?;
    experiment.populate(&database, tell).map_err(told)?;
    database.log().flush()?;
    let before = counting.count();

    tell("working");
    let seed = seed.derive(point.workers as u64);
    let (outcome, clients) = work(sweep, point, experiment, &database, seed).map_err(told)?;
    database.log().flush()?;
    let count = counting.count().since(before);

    if !sweep.target.forgets() {
        tell("opening again");
        database.close()?;
        database = open()?;
    }
    tell("checking");
    experiment.check(&database, &clients).map_err(told)?;
    database.close()?;
    sweep.target.clear()?;
    let per_commit = |count: u64| count as f64 / outcome.tally.committed.max(1) as f64;
    Ok(Outcome { bytes_per_commit: per_commit(count.bytes), writes_per_commit: per_commit(count.writes), ..outcome })
}

/// The workers, each with a session on a stream of its own. Sessions take streams in turn, and whoever makes a client may
/// take one: so the clients come first.
fn team<E: Experiment>(
    point: &Point,
    experiment: &E,
    database: &Database,
    seed: Seed,
) -> Result<Vec<Worker<E::Client>>, Stop> {
    let seed = |number: u32| seed.derive(u64::from(number));
    let numbers = 0..point.workers as u32;
    let clients: Result<Vec<_>, Stop> =
        numbers.clone().map(|number| experiment.client(database, number, seed(number))).collect();
    let worker = |(client, number)| {
        let random = seed(number).derive(0).generator();
        Worker::new(database.session(), client, point.outstanding, experiment.kinds().len(), random)
    };
    Ok(clients?.into_iter().zip(numbers).map(worker).collect())
}

/// All workers beside each other.
fn work<E: Experiment>(
    sweep: &Sweep,
    point: &Point,
    experiment: &E,
    database: &Database,
    seed: Seed,
) -> Result<(Outcome, Vec<E::Client>), Stop> {
    let kinds = experiment.kinds().len();
    let mut workers = team(point, experiment, database, seed)?;
    let spent = AtomicU64::new(0);
    let body = |worker| {
        let worker: &mut Worker<E::Client> = worker;
        let spent = &spent;
        move |round: &Round| {
            let before = processor_time();
            let times = worker.work(round.times());
            spent.fetch_add(processor_time().saturating_sub(before).as_nanos() as u64, Ordering::Relaxed);
            times.map(|times| vec![times])
        }
    };
    let run = Pace::new(sweep.duration).threads(workers.iter_mut().map(body).collect())?;
    let mut tally = Tally::new(kinds);
    for worker in &workers {
        tally.add(&worker.tally);
    }
    let spent = Duration::from_nanos(spent.into_inner());
    let outcome = Outcome {
        elapsed: run.elapsed,
        bytes_per_commit: 0.0,
        writes_per_commit: 0.0,
        processor_per_commit: spent.as_secs_f64() / tally.committed.max(1) as f64,
        tally,
    };
    Ok((outcome, workers.into_iter().map(|worker| worker.client).collect()))
}

/// What the calling thread has had of a processor.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Case;
    use crate::oltp::{Client, Ended, Engine};
    use ishigaki_device::MemoryDirectory;
    use ishigaki_txn::Transaction;
    use std::collections::BTreeSet;

    /// Does nothing, and looks at the database before.
    struct Idle;

    impl Client for Idle {
        type Receipt = ();

        fn draw(&mut self) -> usize {
            0
        }

        fn attempt(&mut self, _: &mut Transaction) -> Result<Ended<()>, Stop> {
            Ok(Ended::Commit(()))
        }

        fn acknowledge(&mut self, (): ()) -> Result<(), Stop> {
            Ok(())
        }
    }

    impl Experiment for Idle {
        type Client = Self;

        fn kinds(&self) -> &'static [&'static str] {
            &["idle"]
        }

        fn case(&self) -> Case {
            Case::new()
        }

        fn populate(&self, _: &Database, _: &mut dyn FnMut(&str)) -> Result<(), Stop> {
            Ok(())
        }

        fn client(&self, database: &Database, _: u32, _: Seed) -> Result<Self, Stop> {
            database.session().run(Transaction::tables)?;
            Ok(Self)
        }

        fn check(&self, _: &Database, _: &[Self]) -> Result<(), Stop> {
            Ok(())
        }
    }

    #[test]
    fn each_worker_has_a_stream_of_its_own() {
        for workers in [1, 2, 5] {
            let settings = Engine::default().settings(workers);
            let database = Database::open_in(Arc::new(MemoryDirectory::new()), settings).unwrap();
            let point = Point { experiment: 0, workers, engine: 0, outstanding: 1 };
            let team = team(&point, &Idle, &database, Seed(1)).unwrap();
            // A session shows its stream.
            let streams: BTreeSet<String> = team.iter().map(|worker| format!("{:?}", worker.session())).collect();
            assert_eq!(streams.len(), workers, "{streams:?}");
        }
    }
}
