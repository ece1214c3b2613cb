//! `wal`: the log by itself under the workloads of the parallel log's paper: U-1, U-10 and TPC-C's New-Order (P1.12, P1.13).
//!
//! U-1 and U-10 have 65,536 pages with one 32-bit integer each; a transaction adds one to a random page, or to ten. A
//! New-Order changes, inserts and logs what TPC-C's does, and depends on the same earlier ones. All work under strict
//! two-phase locking on pages or rows; a log record has the bytes that the paper's BEGIN, UPDATE and COMMIT records have
//! together. Locks are released when the record has its LSN; the worker goes on with its next transaction and acknowledges
//! those that have become durable meanwhile (early lock release and flush pipelining, P-WAL section 3.2). So each worker
//! stands for as many clients as it may have transactions outstanding, and that is the same for every log.
//!
//! Everything that is to be compared runs in one call, in an order drawn anew for each round, and after each run the bare
//! device writes as many bytes at a time with as many threads. A run counts only if the log, opened again, gives back what
//! it acknowledged:
//!
//! ```text
//! workers ──▶ rows (locks, last writers) ──▶ log ──▶ counting directory ──▶ target
//!    │                                                                        │ close, open, replay
//!    └── acknowledged: which, how many, after how long ──▶ check ◀── ledger ◀─┘
//! ```

mod check;
mod marks;
mod new_order;
mod record;
mod round;
mod rows;
mod worker;
mod workload;

use std::time::Duration;

use ishigaki_wal::{self as wal, CommitRule, LogKind};

use crate::outstanding::usual_outstanding;
use crate::rounds;
use crate::{Case, Error, Line, Metric, Origin, Progress, Result, Target};
use round::{Outcome, Point};

pub use workload::Workload;

/// The workload's name in figures and errors.
const NAME: &str = "wal";

/// Every kind of log.
pub const LOGS: [LogKind; 3] = [LogKind::Parallel, LogKind::Serial, LogKind::EPOCH];

/// Every rule.
pub const COMMITS: [CommitRule; 2] = [CommitRule::Watermark, CommitRule::Dependencies];

/// One side of the comparison: a kind of log under a commit rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variant {
    /// How records get to the medium.
    pub log: LogKind,
    /// When they are acknowledged.
    pub commit: CommitRule,
}

impl Variant {
    /// Every log under every rule.
    pub fn product(logs: &[LogKind], commits: &[CommitRule]) -> Vec<Self> {
        logs.iter().flat_map(|&log| commits.iter().map(move |&commit| Self { log, commit })).collect()
    }
}

/// What is measured, and how long. Each workload runs with each variant, number of workers and group.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Default: U-1.
    pub workloads: Vec<Workload>,
    /// Default: the parallel log under both rules.
    pub variants: Vec<Variant>,
    /// Threads; each has a stream of its own where the log has several. Default 1, 2 and 4.
    pub workers: Vec<usize>,
    /// Transactions in a stream's buffer that make it write. Default 16, as in the paper.
    pub groups: Vec<usize>,
    /// Transactions that a worker may have outstanding before it waits for the oldest. Default: four groups, and under
    /// epochs as many as it can.
    pub outstanding: Option<usize>,
    /// Measured time of each run, and of the bare device after it. Default 2 s.
    pub duration: Duration,
    /// Runs of each case. Default 5.
    pub rounds: usize,
    /// The rest of the log's settings: kind, rule, streams and group are those of the case, and its space is not bounded.
    pub log: wal::Settings,
    /// What is written to.
    pub target: Target,
    /// Where the figures come from; its seed draws rows and order.
    pub origin: Origin,
}

impl Settings {
    /// The defaults, for a medium.
    pub fn new(target: Target, origin: Origin) -> Self {
        Self {
            workloads: vec![Workload::U1],
            variants: Variant::product(&[LogKind::Parallel], &COMMITS),
            workers: vec![1, 2, 4],
            groups: vec![16],
            outstanding: None,
            duration: Duration::from_secs(2),
            rounds: 5,
            log: wal::Settings::default(),
            target,
            origin,
        }
    }

    fn validate(&self) -> Result<()> {
        let invalid = |setting, reason: &str| Err(Error::invalid(setting, reason));
        if self.workloads.is_empty() {
            return invalid("workload", "give at least one of u1, u10 and tpcc");
        }
        self.workloads.iter().try_for_each(|workload| workload.validate())?;
        if self.variants.is_empty() {
            return invalid("log", "give at least one log and one commit rule");
        }
        rounds::check_workers(&self.workers)?;
        if self.groups.is_empty() || self.groups.iter().any(|group| !(1..=4096).contains(group)) {
            return invalid("group", "give one or more counts of transactions from 1 to 4096, such as 16");
        }
        if self.outstanding == Some(0) {
            return invalid("outstanding", "a worker has at least one transaction outstanding");
        }
        rounds::check(self.rounds, self.duration)?;
        self.target.check_empty()
    }

    fn points(&self) -> Vec<Point> {
        let mut points = Vec::new();
        for &workload in &self.workloads {
            for &workers in &self.workers {
                for &group in &self.groups {
                    points.extend(self.variants.iter().map(|&variant| {
                        let outstanding = self.outstanding.unwrap_or(usual_outstanding(variant.log, group));
                        Point { workload, variant, workers, group, outstanding }
                    }));
                }
            }
        }
        points
    }
}

/// Measures and checks. The figures come case by case: by workload, workers, group and variant.
pub fn run(settings: &Settings, progress: &mut dyn Progress) -> Result<Vec<Line>> {
    settings.validate()?;
    let points = settings.points();
    let mut outcomes: Vec<Vec<Outcome>> = points.iter().map(|_| Vec::new()).collect();
    let (mut done, of) = (0, (points.len() * settings.rounds) as u64);
    for round in 0..settings.rounds {
        let mut order: Vec<usize> = (0..points.len()).collect();
        settings.origin.seed.derive(round as u64).generator().shuffle(&mut order);
        for place in order {
            progress.step(&format!("round {}, {}", round + 1, points[place]), done, of);
            outcomes[place].push(round::run(settings, &points[place], round)?);
            done += 1;
        }
    }
    progress.step("done", done, of);
    Ok(points.iter().zip(&outcomes).flat_map(|(point, outcomes)| figures(settings, point, outcomes)).collect())
}

type Figure = fn(&Outcome) -> f64;

const FIGURES: [(Metric, Figure); 9] = [
    (Metric::Throughput, |outcome| outcome.throughput),
    (Metric::Bandwidth, |outcome| outcome.bandwidth),
    (Metric::ShareOfDevice, |outcome| outcome.share_of_device),
    (Metric::LatencyP50, |outcome| outcome.known[0]),
    (Metric::LatencyP99, |outcome| outcome.known[1]),
    (Metric::UntilFlushedP50, |outcome| outcome.flushed[0]),
    (Metric::UntilFlushedP99, |outcome| outcome.flushed[1]),
    (Metric::ShareOfWaiting, |outcome| outcome.share_of_waiting),
    (Metric::Writes, |outcome| outcome.writes),
];

fn figures(settings: &Settings, point: &Point, outcomes: &[Outcome]) -> Vec<Line> {
    let case = Case::from_iter([
        ("workload".to_owned(), point.workload.to_string().into()),
        ("log".to_owned(), point.variant.log.to_string().into()),
        ("commit".to_owned(), point.variant.commit.to_string().into()),
        ("workers".to_owned(), point.workers.into()),
        ("group".to_owned(), point.group.into()),
        ("device".to_owned(), settings.target.name().into()),
        ("outstanding".to_owned(), point.outstanding.into()),
    ]);
    let line = |(metric, figure): (Metric, Figure)| {
        Line::new(NAME, case.clone(), metric, outcomes.iter().map(figure).collect(), &settings.origin)
    };
    FIGURES.into_iter().map(line).collect()
}
