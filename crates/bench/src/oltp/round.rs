//! One run of one case: a fresh database, filled, worked on, checked.

use std::sync::Arc;
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

/// All workers beside each other.
fn work<E: Experiment>(
    sweep: &Sweep,
    point: &Point,
    experiment: &E,
    database: &Database,
    seed: Seed,
) -> Result<(Outcome, Vec<E::Client>), Stop> {
    let kinds = experiment.kinds().len();
    let worker = |number: u32| {
        let seed = seed.derive(u64::from(number));
        let client = experiment.client(database, number, seed)?;
        Ok(Worker::new(database.session(), client, point.outstanding, kinds, seed.derive(0).generator()))
    };
    let workers: Result<Vec<_>, Stop> = (0..point.workers as u32).map(worker).collect();
    let mut workers = workers?;
    let body = |worker| {
        let worker: &mut Worker<E::Client> = worker;
        move |round: &Round| worker.work(round.times()).map(|times| vec![times])
    };
    let run = Pace::new(sweep.duration).threads(workers.iter_mut().map(body).collect())?;
    let mut tally = Tally::new(kinds);
    for worker in &workers {
        tally.add(&worker.tally);
    }
    let outcome = Outcome { tally, elapsed: run.elapsed, bytes_per_commit: 0.0, writes_per_commit: 0.0 };
    Ok((outcome, workers.into_iter().map(|worker| worker.client).collect()))
}
