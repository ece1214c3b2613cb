//! `commit`: how long a small transaction takes until it is durable, beside what the bare device takes for the same bytes.
//!
//! Every round of a session count runs twice, engine and device, in alternating order:
//!
//! - *engine*: a fresh database; each session puts one new key a transaction and waits until it is durable. Afterwards the
//!   database is closed, opened again and read: every acknowledged put must be there, with its bytes.
//! - *device*: as many threads, each writing blocks of the size that the engine's commit of one such transaction takes
//!   (measured on the engine before) one after the other over a preallocated device of its own, each write durable before the
//!   next. Afterwards the last block of each thread is read back.
//!
//! Each side first runs a little without being measured. The measured directory is a fresh one below the given one, on the
//! same medium, and is removed at the end; after a wrong result it stays.

mod device;
mod engine;

use std::path::PathBuf;
use std::time::Duration;

use ishigaki_base::ByteSize;
use ishigaki_wal as wal;

use crate::pace::Pace;
use crate::rounds;
use crate::site::Site;
use crate::{Case, Error, Line, Metric, Origin, Progress, Result, Rounds};

/// The workload's name in figures and errors.
const NAME: &str = "commit";

/// What is measured, and how long.
#[derive(Clone, Debug)]
pub struct Settings {
    /// A directory on the medium to be measured; made if it is not there.
    pub data: PathBuf,
    /// How many sessions commit beside each other; each count is measured on its own. Default 1, 4 and 16.
    pub sessions: Vec<usize>,
    /// Measured time of each round of each side. Default 2 s.
    pub duration: Duration,
    /// Rounds of each side. Default 5.
    pub rounds: usize,
    /// Bytes of the value that a transaction puts. Default 100.
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
            sessions: vec![1, 4, 16],
            duration: Duration::from_secs(2),
            rounds: 5,
            value: ByteSize::b(100),
            log: wal::Settings::default(),
            origin,
        }
    }

    fn validate(&self) -> Result<()> {
        let invalid = |setting, reason: &str| Err(Error::invalid(setting, reason));
        if self.sessions.is_empty() || self.sessions.iter().any(|count| !(1..=1024).contains(count)) {
            return invalid("sessions", "give one or more counts from 1 to 1024, such as 1,4,16");
        }
        rounds::check(self.rounds, self.duration)?;
        if self.value > ByteSize::mib(1) {
            return invalid("value", "the transactions of this workload are small; give at most 1 MiB");
        }
        Ok(())
    }
}

/// Measures and checks. The figures come in the order of the session counts: engine, device, then one against the other.
pub fn run(settings: &Settings, progress: &mut dyn Progress) -> Result<Vec<Line>> {
    settings.validate()?;
    Site::new(&settings.data, NAME)?.used_by(|site| measure(settings, site, progress))
}

fn measure(settings: &Settings, site: &Site, progress: &mut dyn Progress) -> Result<Vec<Line>> {
    let of = (settings.sessions.len() * settings.rounds * 2) as u64;
    let mut done = 0;
    progress.step("looking at one commit", done, of);
    let most = settings.sessions.iter().copied().max().unwrap_or(1);
    let bytes = engine::bytes_of_commit(settings, site)?;
    let mut device = device::Bare::new(settings, site, most, bytes)?;
    let mut lines = Vec::new();
    for &sessions in &settings.sessions {
        let (mut engine, mut bare, mut writes) = (Rounds::default(), Rounds::default(), Vec::new());
        for round in 0..settings.rounds {
            // Engine first, device first, engine first, …: a drift of the medium falls on both.
            for side in [round % 2, (round + 1) % 2] {
                let name = ["engine", "device"][side];
                progress.step(&format!("{sessions} sessions, round {}, {name}", round + 1), done, of);
                let pace = Pace::new(settings.duration);
                if side == 0 {
                    let (run, per_commit) = engine::round(settings, site, sessions, round, pace)?;
                    engine.add(&run);
                    writes.push(per_commit);
                } else {
                    bare.add(&device.round(sessions, pace)?);
                }
                done += 1;
            }
        }
        lines.extend(figures(settings, sessions, device.bytes(), &engine, &bare, writes));
    }
    progress.step("done", done, of);
    Ok(lines)
}

fn figures(
    settings: &Settings,
    sessions: usize,
    bytes: usize,
    engine: &Rounds,
    bare: &Rounds,
    writes: Vec<f64>,
) -> Vec<Line> {
    let case = |target: &str, of: Option<&str>| {
        let mut case = Case::new();
        case.insert("sessions".to_owned(), sessions.into());
        case.insert("target".to_owned(), target.into());
        case.insert("value".to_owned(), settings.value.0.into());
        case.insert("write".to_owned(), bytes.into());
        if let Some(of) = of {
            case.insert("of".to_owned(), of.into());
        }
        case
    };
    let line = |case, metric, runs| Line::new(NAME, case, metric, runs, &settings.origin);
    let mut lines = Vec::new();
    for (target, rounds) in [("engine", engine), ("device", bare)] {
        lines.extend(rounds.lines(NAME, &case(target, None), &settings.origin));
    }
    let over = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a / b).collect::<Vec<f64>>();
    lines.push(line(case("engine", None), Metric::Writes, writes));
    let p50 = over(&engine.quantiles[0], &bare.quantiles[0]);
    lines.push(line(case("engine/device", Some("latency_p50")), Metric::Ratio, p50));
    let share = over(&engine.throughput, &bare.throughput);
    lines.push(line(case("engine/device", Some("throughput")), Metric::ShareOfDevice, share));
    lines
}
