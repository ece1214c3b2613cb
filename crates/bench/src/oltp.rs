//! What workloads of transactions have in common: engines to compare, workers, figures.
//!
//! A workload says how its tables are filled, what its clients do one after the other, and how to tell that the result is
//! right. Each run has a fresh database, which is filled, worked on, and checked; where the medium keeps what it is given,
//! the database is closed and opened again in between, so that what is checked came from the log:
//!
//! ```text
//! populate ──▶ clients (a thread each): draw, attempt until it commits ──▶ tickets ──▶ acknowledged
//!                                                                                          │
//! check  ◀── open again ◀── close ◀───────────────────────────────────────────────────────┘
//! ```
//!
//! A worker goes on with its next transaction while up to so many are not durable yet (flush pipelining, P-WAL section
//! 3.2), and acknowledges them in the order of their commits; with one outstanding it waits for each. A transaction that
//! gives way to another is attempted again with the same input and its old age until it commits. Its time goes from the
//! first attempt to its acknowledgement.

mod client;
mod engine;
mod fill;
mod round;
mod tally;

use std::time::Duration;

use ishigaki_base::random::Seed;
use ishigaki_txn::Database;

use crate::rounds;
use crate::{Case, Error, Line, Origin, Progress, Result, Target};
use round::{Outcome, Point};

pub(crate) use client::{Client, Ended, Stop, Worker};
pub use engine::{Choices, Engine};
pub(crate) use fill::{Batch, fill};

/// Which engines work how, on what, and how long. Each workload runs with each engine, number of workers and number of
/// outstanding transactions.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// The engines that are compared. Default: one, with the defaults of log and transactions.
    pub engines: Vec<Engine>,
    /// Threads, each with a session and a stream of the log of its own. Default 1.
    pub workers: Vec<usize>,
    /// Transactions that a worker may have outstanding; with 1 it waits for each. Default: none given, which means what each
    /// engine says.
    pub outstanding: Vec<usize>,
    /// Measured time of each run. Default 10 s.
    pub duration: Duration,
    /// Runs of each case. Default 3.
    pub rounds: usize,
    /// What is written to.
    pub target: Target,
    /// Where the figures come from; its seed draws data, transactions and order.
    pub origin: Origin,
}

impl Sweep {
    /// The defaults, for a medium.
    pub fn new(target: Target, origin: Origin) -> Self {
        Self {
            engines: vec![Engine::default()],
            workers: vec![1],
            outstanding: Vec::new(),
            duration: Duration::from_secs(10),
            rounds: 3,
            target,
            origin,
        }
    }

    fn validate(&self) -> Result<()> {
        let invalid = |setting, reason: &str| Err(Error::invalid(setting, reason));
        if self.engines.is_empty() {
            return invalid("log", "give at least one log and one commit rule");
        }
        rounds::check_workers(&self.workers)?;
        if self.outstanding.contains(&0) || self.engines.iter().any(|engine| engine.outstanding == Some(0)) {
            return invalid("outstanding", "a worker has at least one transaction outstanding");
        }
        rounds::check(self.rounds, self.duration)?;
        self.target.check_empty()
    }

    /// All cases of so many experiments.
    fn points(&self, experiments: usize) -> Vec<Point> {
        let mut points = Vec::new();
        for experiment in 0..experiments {
            for &workers in &self.workers {
                for (engine, settings) in self.engines.iter().enumerate() {
                    let usual = [settings.usual_outstanding()];
                    let counts = if self.outstanding.is_empty() { &usual } else { self.outstanding.as_slice() };
                    points.extend(counts.iter().map(|&outstanding| Point { experiment, workers, engine, outstanding }));
                }
            }
        }
        points
    }

    /// Measures and checks each experiment in every case, all of them in each round, in an order drawn anew for it.
    pub(crate) fn run<E: Experiment>(
        &self,
        name: &'static str,
        experiments: &[E],
        progress: &mut dyn Progress,
    ) -> Result<Vec<Line>> {
        self.validate()?;
        let points = self.points(experiments.len());
        let mut outcomes: Vec<Vec<Outcome>> = points.iter().map(|_| Vec::new()).collect();
        let (mut done, of) = (0, (points.len() * self.rounds) as u64);
        for round in 0..self.rounds {
            let mut order: Vec<usize> = (0..points.len()).collect();
            let seed = self.origin.seed.derive(round as u64);
            seed.generator().shuffle(&mut order);
            for place in order {
                let point = &points[place];
                let experiment = &experiments[point.experiment];
                let mut tell = |now: &str| {
                    progress.step(
                        &format!("round {}, {}: {now}", round + 1, self.describe(point, experiment)),
                        done,
                        of,
                    );
                };
                outcomes[place].push(round::run(self, name, point, experiment, seed, &mut tell)?);
                done += 1;
            }
        }
        progress.step("done", done, of);
        let lines = |(point, outcomes): (&Point, &Vec<Outcome>)| {
            let experiment = &experiments[point.experiment];
            tally::lines(name, &self.case(point, experiment), experiment.kinds(), outcomes, &self.origin)
        };
        Ok(points.iter().zip(&outcomes).flat_map(lines).collect())
    }

    fn case<E: Experiment>(&self, point: &Point, experiment: &E) -> Case {
        let mut case = experiment.case();
        case.insert("workers".to_owned(), point.workers.into());
        case.extend(self.engines[point.engine].case.clone());
        case.insert("outstanding".to_owned(), point.outstanding.into());
        case.insert("device".to_owned(), self.target.name().into());
        case
    }

    /// The case for a person who waits.
    fn describe<E: Experiment>(&self, point: &Point, experiment: &E) -> String {
        let plain = |value: &serde_json::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let case = self.case(point, experiment);
        let words: Vec<String> = case.iter().map(|(key, value)| format!("{key}={}", plain(value))).collect();
        words.join(" ")
    }
}

/// A workload of transactions.
pub(crate) trait Experiment: Sync {
    /// What one worker does.
    type Client: Client + Send;

    /// The types of its transactions, as figures call them.
    fn kinds(&self) -> &'static [&'static str];

    /// What distinguishes it from the others of its sort.
    fn case(&self) -> Case;

    /// Makes and fills the tables of an empty database.
    fn populate(&self, database: &Database, tell: &mut dyn FnMut(&str)) -> Result<(), Stop>;

    /// The worker of that number.
    fn client(&self, database: &Database, number: u32, seed: Seed) -> Result<Self::Client, Stop>;

    /// Whether the database holds what it should now that everything that the clients did was acknowledged.
    fn check(&self, database: &Database, clients: &[Self::Client]) -> Result<(), Stop>;
}
