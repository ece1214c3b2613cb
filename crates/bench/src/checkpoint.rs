//! `checkpoint`: what a checkpoint that is being made costs the transactions beside it.
//!
//! A database is filled once. Every round of a session count then runs twice, in alternating order: *alone*, while no
//! checkpoint is made, and *beside*, while one is made after the other. Each session puts a new value under one of its own keys,
//! drawn by a hash of the put's number, and waits until that is durable. At the end the database is closed, opened again and
//! read: under each key is the last value that was acknowledged.

use std::ops::{Bound, ControlFlow};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ishigaki_base::ByteSize;
use ishigaki_device::FileDirectory;
use ishigaki_txn::{self as txn, CheckpointSettings, Database, Session, TableId, Transaction};
use ishigaki_wal as wal;

use crate::pace::{Pace, Run};
use crate::rounds;
use crate::site::Site;
use crate::{Case, Error, Line, Metric, Origin, Progress, Result, Rounds};

/// The workload's name in figures and errors.
const NAME: &str = "checkpoint";

/// The table that is put into.
const TABLE: &str = "rows";

/// Rows that one transaction puts while the database is filled.
const BATCH: u64 = 1000;

/// What is measured, and how long.
#[derive(Clone, Debug)]
pub struct Settings {
    /// A directory on the medium to be measured; made if it is not there.
    pub data: PathBuf,
    /// How many sessions commit beside each other; each count is measured on its own. Default 1 and 4.
    pub sessions: Vec<usize>,
    /// Measured time of each round of each side. Default 2 s.
    pub duration: Duration,
    /// Rounds of each side. Default 5.
    pub rounds: usize,
    /// Bytes of all values, which a checkpoint writes down. Default 256 MiB.
    pub filled: ByteSize,
    /// Bytes of a value. Default 100.
    pub value: ByteSize,
    /// The engine's log.
    pub log: wal::Settings,
    /// Where the figures come from.
    pub origin: Origin,
}

impl Settings {
    /// The defaults, for a medium.
    pub fn new(data: impl Into<PathBuf>, origin: Origin) -> Self {
        Self {
            data: data.into(),
            sessions: vec![1, 4],
            duration: Duration::from_secs(2),
            rounds: 5,
            filled: ByteSize::mib(256),
            value: ByteSize::b(100),
            log: wal::Settings::default(),
            origin,
        }
    }

    fn validate(&self) -> Result<()> {
        rounds::check_workers(&self.sessions)?;
        rounds::check(self.rounds, self.duration)?;
        if !(8..=ByteSize::mib(1).0).contains(&self.value.0) {
            return Err(Error::invalid("value", "a value holds the number of its put; give 8 bytes to 1 MiB"));
        }
        if self.sessions.iter().any(|&sessions| self.rows() < sessions as u64) {
            return Err(Error::invalid(
                "filled",
                "each session needs a row of its own; fill more, or give fewer sessions",
            ));
        }
        Ok(())
    }

    fn rows(&self) -> u64 {
        self.filled.0 / self.value.0
    }
}

/// Whether checkpoints are made while transactions run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Alone,
    Beside,
}

impl Side {
    fn name(self) -> &'static str {
        match self {
            Self::Alone => "alone",
            Self::Beside => "beside",
        }
    }
}

/// Measures and checks. The figures come in the order of the session counts: alone, beside, then one against the other.
pub fn run(settings: &Settings, progress: &mut dyn Progress) -> Result<Vec<Line>> {
    settings.validate()?;
    Site::new(&settings.data, NAME)?.used_by(|site| measure(settings, site, progress))
}

fn measure(settings: &Settings, site: &Site, progress: &mut dyn Progress) -> Result<Vec<Line>> {
    let of = 2 + (settings.sessions.len() * settings.rounds * 2) as u64;
    let mut done = 0;
    let mut step = |name: &str| {
        progress.step(name, done, of);
        done += 1;
    };
    step("filling the database");
    let rows = Rows::filled(settings, site)?;
    let mut lines = Vec::new();
    for &sessions in &settings.sessions {
        let (mut alone, mut beside, mut checkpoints) = (Rounds::default(), Rounds::default(), Vec::new());
        for round in 0..settings.rounds {
            let sides = if round % 2 == 0 { [Side::Alone, Side::Beside] } else { [Side::Beside, Side::Alone] };
            for side in sides {
                step(&format!("{sessions} sessions, round {}, {}", round + 1, side.name()));
                let (run, made) = rows.round(sessions, side, Pace::new(settings.duration))?;
                match side {
                    Side::Alone => alone.add(&run),
                    Side::Beside => {
                        beside.add(&run);
                        checkpoints.push(made);
                    }
                }
            }
        }
        lines.extend(figures(settings, sessions, &alone, &beside, checkpoints));
    }
    step("opening the database again");
    rows.check(settings, site)?;
    Ok(lines)
}

fn figures(settings: &Settings, sessions: usize, alone: &Rounds, beside: &Rounds, checkpoints: Vec<f64>) -> Vec<Line> {
    let case = |target: &str, of: Option<&str>| {
        let mut case = Case::new();
        case.insert("sessions".to_owned(), sessions.into());
        case.insert("target".to_owned(), target.into());
        case.insert("value".to_owned(), settings.value.0.into());
        case.insert("filled".to_owned(), settings.filled.0.into());
        if let Some(of) = of {
            case.insert("of".to_owned(), of.into());
        }
        case
    };
    let line = |case, metric, runs| Line::new(NAME, case, metric, runs, &settings.origin);
    let mut lines = Vec::new();
    for (side, rounds) in [(Side::Alone, alone), (Side::Beside, beside)] {
        lines.extend(rounds.lines(NAME, &case(side.name(), None), &settings.origin));
    }
    lines.push(line(case("checkpoint", None), Metric::Elapsed, checkpoints));
    let over = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a / b).collect::<Vec<f64>>();
    let throughput = over(&beside.throughput, &alone.throughput);
    lines.push(line(case("beside/alone", Some("throughput")), Metric::Ratio, throughput));
    let p99 = over(&beside.quantiles[1], &alone.quantiles[1]);
    lines.push(line(case("beside/alone", Some("latency_p99")), Metric::Ratio, p99));
    lines
}

/// The filled database, and what was last acknowledged of each row.
struct Rows {
    database: Database,
    table: TableId,
    value: usize,
    last: Vec<AtomicU64>,
    /// Of all puts; each has a number of its own.
    puts: AtomicU64,
}

impl Rows {
    fn filled(settings: &Settings, site: &Site) -> Result<Self> {
        let database = open(settings, site)?;
        let session = database.session();
        let table = session.run(|transaction| transaction.create_table(TABLE))?;
        let count = settings.rows();
        let mut value = vec![0; settings.value.0 as usize];
        settings.origin.seed.generator().fill(&mut value);
        value[..8].fill(0);
        for first in (0..count).step_by(BATCH as usize) {
            let put = |transaction: &mut Transaction| {
                let rows = first..count.min(first + BATCH);
                rows.into_iter().try_for_each(|row| transaction.put(table, &row.to_be_bytes(), &value))
            };
            session.run(put)?;
        }
        let last = (0..count).map(|_| AtomicU64::new(0)).collect();
        // So that the first measured one does not write more than the others.
        database.checkpoint()?;
        Ok(Self { database, table, value: value.len(), last, puts: AtomicU64::new(0) })
    }

    /// One round; also answers the mean time of the checkpoints that were begun in it.
    fn round(&self, sessions: usize, side: Side, pace: Pace) -> Result<(Run, f64)> {
        let workers: Vec<_> = (0..sessions as u64)
            .map(|at| {
                let session = self.database.session();
                let mut value = vec![0; self.value];
                move |sequence: u64| self.put(&session, at, sessions as u64, sequence, &mut value)
            })
            .collect();
        let over = AtomicBool::new(side == Side::Alone);
        let (run, made) = std::thread::scope(|scope| {
            let checkpoints = scope.spawn(|| {
                let (began, mut made) = (Instant::now(), 0);
                while !over.load(Ordering::Relaxed) {
                    self.database.checkpoint()?;
                    made += 1;
                }
                Ok::<_, Error>(began.elapsed().as_secs_f64() / f64::from(made.max(1)))
            });
            let run = pace.run(workers);
            over.store(true, Ordering::Relaxed);
            (run, checkpoints.join().expect("a checkpoint returns its errors"))
        });
        Ok((run?, made?))
    }

    fn put(&self, session: &Session, at: u64, of: u64, sequence: u64, value: &mut [u8]) -> Result<()> {
        let own = self.last.len() as u64 / of;
        let row = (sequence.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16) % own * of + at;
        let put = 1 + self.puts.fetch_add(1, Ordering::Relaxed);
        value[..8].copy_from_slice(&put.to_be_bytes());
        session.run(|transaction: &mut Transaction| transaction.put(self.table, &row.to_be_bytes(), value))?;
        self.last[row as usize].store(put, Ordering::Relaxed);
        Ok(())
    }

    fn check(self, settings: &Settings, site: &Site) -> Result<()> {
        self.database.close()?;
        let database = open(settings, site)?;
        let wrong = database.session().run(|transaction| -> txn::Result<Option<String>> {
            let (mut row, mut wrong) = (0, None);
            transaction.scan(self.table, (Bound::Unbounded, Bound::Unbounded), |key, value| {
                let last = self.last.get(row as usize).map(|last| last.load(Ordering::Relaxed).to_be_bytes());
                if key != u64::to_be_bytes(row) || value.get(..8) != last.as_ref().map(<[u8; 8]>::as_slice) {
                    wrong = Some(format!("row {row} is not there, or has not the value that was acknowledged last"));
                    return ControlFlow::Break(());
                }
                row += 1;
                ControlFlow::Continue(())
            })?;
            let all = self.last.len() as u64;
            Ok(wrong.or_else(|| (row != all).then(|| format!("there are {row} rows instead of {all}"))))
        })?;
        database.close()?;
        let path = || site.path().to_owned();
        wrong.map_or(Ok(()), |reason| Err(Error::Wrong { workload: NAME, reason, path: path() }))
    }
}

fn open(settings: &Settings, site: &Site) -> Result<Database> {
    let settings = txn::Settings {
        log: settings.log.clone(),
        checkpoint: CheckpointSettings { automatic: false, ..CheckpointSettings::default() },
        ..txn::Settings::default()
    };
    let directory = Arc::new(FileDirectory::open(site.join("database"))?);
    Ok(Database::open_in(directory, settings)?)
}
