//! Database servers on volumes over a fast and a slow device, between which load shifts: what gets done by what is brought to the fast one, and when (paper 5,
//! section 3.7: P5b.5).
//!
//! ```text
//!  workers ─▶ a server of a group, drawn by the phase ─▶ ext4 ─▶ block device ─▶ volume ─┬▶ modelled SSD, one for all
//!                │                                         ▲                             └▶ modelled HDD, one head for all
//!                └ transactions                            └ FIEMAP ─▶ agent, one a server ─▶ the volumes' service
//! ```
//!
//! The servers are Debian's `PostgreSQL`. Their databases are made once, without any model, and each run begins with a copy of them. What a server's processes and the
//! page cache of its files take is bounded, so that reads come to the volume. A worker draws a server for each transaction, by the shares of the phase, so that a slow
//! group holds all back, as TPCx-V has it. At the end the databases are counted, by a service that was started anew on the devices without the model: what was
//! acknowledged must be there.
//!
//! Parts: `database` makes the databases, `stand` is what runs for one case, `load` draws and counts transactions over `session`s, `bounds` holds memory back,
//! `agents` tell the service what they know, `rival` is a cache of blocks without any knowledge.

mod agents;
mod bounds;
mod database;
mod load;
mod rival;
mod session;
mod stand;

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fastrand::Rng;
use ishigaki_base::ByteSize;
use ishigaki_base::random::Seed;
use ishigaki_servers::Kind;
use serde_json::json;

use self::database::Databases;
use self::load::Run;
use crate::{Case, Error, Line, Metric, Origin, Progress, Result};

/// Transactions over both test sets, by how blocks come to the fast device.
pub const WORK: &str = "volumes-work";
/// The same over time, in halves of a phase.
pub const TIME: &str = "volumes-time";
/// What a ratio of [`TIME`] is.
pub const SHARE: &str = "share of prefetch";
/// What a ratio of [`WORK`] is.
pub const READS: &str = "reads of all requests";

/// How blocks come to the fast device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mode {
    /// There is none.
    None,
    /// A cache of blocks of 4 KiB, which knows nothing: blocks come when they are read or written. As `FlashCache` does.
    Rival,
    /// The volumes' service without prefetch: blocks come when they are read or written.
    OnDemand,
    /// Prefetched too, for a fixed share of the time, in pieces of the disk.
    Plain(f64),
    /// Prefetched too, for a fixed share of the time, in pieces of files.
    Layout(f64),
    /// Prefetched too, in pieces of files, for a share of the time that follows what it brings.
    Adaptive,
}

impl Mode {
    /// As cases call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Rival => "block cache",
            Self::OnDemand => "on demand",
            Self::Plain(_) => "plain",
            Self::Layout(_) => "layout",
            Self::Adaptive => "adaptive",
        }
    }

    /// The share that is fixed.
    pub fn share(self) -> Option<f64> {
        match self {
            Self::Plain(share) | Self::Layout(share) => Some(share),
            _ => None,
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.share() {
            Some(share) => write!(f, "{} r={share}", self.name()),
            None => f.write_str(self.name()),
        }
    }
}

/// One way to serve the volumes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Way {
    /// How blocks come to the fast device.
    pub mode: Mode,
    /// The size of the fast device, in fifteenths of the data.
    pub fifteenths: u32,
    /// In which the fast device is given out.
    pub chunk: ByteSize,
    /// Chunks that are brought together.
    pub unit: usize,
    /// Whether what it does over time is told.
    pub traced: bool,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}/15, {} x {}", self.mode, self.fifteenths, self.unit, self.chunk)
    }
}

/// How much is measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Size {
    /// Bytes of all tables together, as they are shared out among the groups.
    pub data: ByteSize,
    /// Servers of each of the four groups.
    pub servers: usize,
    /// What a server has as the page cache of its files, in hundredths of its data.
    pub cached_percent: u32,
    /// How long each of the ten phases takes.
    pub phase: Duration,
    /// How often the ten phases are gone through.
    pub sets: usize,
    /// The prefetcher's window.
    pub window: Duration,
    /// Who do transactions.
    pub workers: usize,
    /// Transactions that write, of 100.
    pub writing_percent: u32,
    /// The hot part of each table, and transactions that go there, of 100.
    pub hot_percent: (u32, u32),
}

impl Default for Size {
    /// 960 MiB in four servers, two sets of ten phases of 10 s.
    fn default() -> Self {
        Self {
            data: ByteSize::mib(960),
            servers: 1,
            cached_percent: 2,
            phase: Duration::from_secs(10),
            sets: 2,
            window: Duration::from_secs(1),
            workers: 8,
            writing_percent: 6,
            hot_percent: (15, 90),
        }
    }
}

/// What is measured.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The ways that are compared.
    pub ways: Vec<Way>,
    /// How large, and how long.
    pub size: Size,
    /// Runs of each.
    pub rounds: usize,
    /// A directory for mounts, through which the servers' user may pass.
    pub scratch: PathBuf,
    /// Where the figures come from.
    pub origin: Origin,
    /// When set, all ends as soon as it can, and nothing stays behind.
    pub stop: &'static AtomicBool,
}

impl Settings {
    fn go_on(&self) -> Result<()> {
        if self.stop.load(Ordering::Acquire) { Err(ishigaki_servers::Error::Stopped.into()) } else { Ok(()) }
    }
}

/// What is missing here: root, `PostgreSQL`, or a way to bound memory.
pub fn missing() -> Option<String> {
    Kind::PostgreSql.user().err().map(|error| error.to_string()).or_else(bounds::missing)
}

/// Runs each way as often as there are rounds, in an order drawn anew for each.
pub fn run(settings: &Settings, progress: &mut dyn Progress) -> Result<Vec<Line>> {
    if settings.rounds == 0 || settings.ways.is_empty() {
        return Err(Error::invalid("rounds", "at least one round of one way is needed"));
    }
    let user = Kind::PostgreSql.user()?;
    if let Some(missing) = missing() {
        return Err(Error::invalid("memory", missing));
    }
    let ways = &settings.ways;
    let all = (ways.len() * settings.rounds) as u64;
    progress.step("making the databases", 0, all);
    let databases = Databases::make(settings, user)?;
    let mut random = Rng::with_seed(settings.origin.seed.0);
    let mut runs: Vec<Vec<Run>> = ways.iter().map(|_| Vec::new()).collect();
    let mut done = 0;
    for round in 0..settings.rounds {
        let mut order: Vec<usize> = (0..ways.len()).collect();
        random.shuffle(&mut order);
        for place in order {
            settings.go_on()?;
            progress.step(&ways[place].to_string(), done, all);
            let seed = Seed(settings.origin.seed.0 + round as u64);
            let run = stand::run(settings, &databases, &ways[place], seed)?;
            progress.step(&format!("{}: {}", ways[place], run), done, all);
            runs[place].push(run);
            done += 1;
        }
    }
    let told = |(way, runs): (&Way, &Vec<Run>)| lines(settings, &databases, way, runs);
    Ok(ways.iter().zip(&runs).flat_map(told).collect())
}

fn lines(settings: &Settings, databases: &Databases, way: &Way, runs: &[Run]) -> Vec<Line> {
    let Size { data, servers, cached_percent, phase, sets, window, workers, writing_percent, .. } = settings.size;
    let case = json!({
        "mode": way.mode.name(), "share": way.mode.share(), "fifteenths": way.fifteenths,
        "chunk": way.chunk.as_u64(), "unit": way.unit as u64 * way.chunk.as_u64(),
        "data": data.as_u64(), "servers": servers * load::GROUPS, "cached_percent": cached_percent,
        "phase": phase.as_secs_f64(), "sets": sets, "window": window.as_secs_f64(), "workers": workers, "writing_percent": writing_percent,
        "extents": databases.extents(),
    });
    let case = || case.as_object().cloned().unwrap_or_default();
    let line = |bench: &str, case: Case, metric, of: &dyn Fn(&Run) -> f64| {
        Line::new(bench, case, metric, runs.iter().map(of).collect(), &settings.origin)
    };
    let with = |key: &str, value: serde_json::Value| {
        let mut case = case();
        case.insert(key.to_owned(), value);
        case
    };
    let mut lines = vec![
        line(WORK, case(), Metric::Throughput, &Run::throughput),
        line(WORK, case(), Metric::HitRatio, &Run::hit_ratio),
        line(WORK, with("of", json!(READS)), Metric::Ratio, &Run::reads),
    ];
    let parts = if way.traced { sets * load::PHASES * 2 } else { 0 };
    for part in 0..parts {
        let when = with("half_phase", json!(part));
        lines.push(line(TIME, when.clone(), Metric::Throughput, &|run| run.parts[part].throughput));
        lines.push(line(TIME, when.clone(), Metric::HitRatio, &|run| run.parts[part].hit_ratio));
        let mut share = when;
        share.insert("of".to_owned(), json!(SHARE));
        lines.push(line(TIME, share, Metric::Ratio, &|run| run.parts[part].share));
    }
    lines
}
