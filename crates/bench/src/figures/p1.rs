//! The experiments of paper 1: the device test, U-1, U-10 and New-Order on every log, and long writing.

mod charts;
mod page;
mod paper;

use std::time::Duration;

use ishigaki_base::ByteSize;
use ishigaki_device::ProbeSettings;
use ishigaki_wal::{self as engine, LogKind};

use crate::wal::{COMMITS, LOGS, Variant, Workload};
use crate::{Line, Origin, Progress, Result, Stage, Target, long, media, wal};

pub(super) use charts::charts;
pub(super) use page::page;

/// How much of it is measured.
#[derive(Clone, Debug)]
pub struct Scale {
    /// Measured time of each run of the log, and of the device beside it.
    pub duration: Duration,
    /// Runs of each case.
    pub rounds: usize,
    /// Workers of the log.
    pub workers: Vec<usize>,
    /// Threads of the device test.
    pub threads: Vec<usize>,
    /// Bytes of a write in the device test.
    pub sizes: Vec<ByteSize>,
    /// Time of each case of the device test in each round.
    pub probe: Duration,
    /// How long each side of long writing is written. Zero leaves it out.
    pub long: Duration,
    /// The interval of its figures.
    pub interval: Duration,
    /// Its workers.
    pub writers: usize,
    /// Bytes over all of them after which the log's space is freed.
    pub free_after: ByteSize,
}

impl Scale {
    /// Figures to be kept: a good half hour for each medium.
    pub fn standard() -> Self {
        let kib = [4, 8, 16, 32, 64, 128].map(ByteSize::kib);
        Self {
            duration: Duration::from_secs(2),
            rounds: 5,
            workers: vec![1, 2, 4, 8, 16],
            threads: vec![1, 2, 4, 8, 16],
            sizes: [ByteSize::b(512)].into_iter().chain(kib).collect(),
            probe: Duration::from_millis(500),
            long: Duration::from_mins(2),
            interval: Duration::from_secs(1),
            writers: 16,
            free_after: ByteSize::mib(128),
        }
    }

    /// A second or two for each fast medium, which shows that everything works and nothing else.
    pub fn smoke() -> Self {
        Self {
            duration: Duration::from_millis(10),
            rounds: 1,
            workers: vec![1, 2],
            threads: vec![1, 2],
            sizes: vec![ByteSize::kib(4), ByteSize::kib(8)],
            probe: Duration::from_millis(5),
            long: Duration::from_millis(60),
            interval: Duration::from_millis(10),
            writers: 2,
            free_after: ByteSize::kib(256),
        }
    }
}

/// What is measured of a paper.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How much of it.
    pub scale: Scale,
    /// On which media; each has its own plots.
    pub targets: Vec<Target>,
    /// The log's settings beside those that the experiments set.
    pub log: engine::Settings,
    /// The sides of long writing.
    pub sides: Vec<long::Side>,
    /// Where the figures come from.
    pub origin: Origin,
}

/// The experiments of paper 1 (P1.11 to P1.13): the device test, U-1, U-10 and New-Order on every log, and long
/// writing, whose space `free` makes free.
pub fn run(settings: &Settings, free: &long::Free<'_>, progress: &mut dyn Progress) -> Result<Vec<Line>> {
    let Settings { scale, targets, log, sides, origin } = settings;
    let mut lines = Vec::new();
    for target in targets {
        let probing = ProbeSettings {
            threads: scale.threads.clone(),
            sizes: scale.sizes.clone(),
            duration: scale.probe,
            rounds: scale.rounds,
            seed: origin.seed,
            ..ProbeSettings::default()
        };
        lines.extend(media::run(
            &probing,
            target,
            origin,
            &mut Stage::new(format!("device test on {}", target.name()), progress),
        )?);
        let workload = wal::Settings {
            workloads: Workload::ALL.to_vec(),
            variants: variants(),
            workers: scale.workers.clone(),
            duration: scale.duration,
            rounds: scale.rounds,
            log: log.clone(),
            ..wal::Settings::new(target.clone(), origin.clone())
        };
        lines.extend(wal::run(&workload, &mut Stage::new(format!("log on {}", target.name()), progress))?);
        if scale.long.is_zero() || sides.is_empty() {
            continue;
        }
        let writing = long::Settings {
            workers: scale.writers,
            duration: scale.long,
            interval: scale.interval,
            free_after: scale.free_after,
            ..long::Settings::new(sides.clone(), target.clone(), origin.clone())
        };
        lines.extend(long::run(
            &writing,
            free,
            &mut Stage::new(format!("long writing on {}", target.name()), progress),
        )?);
    }
    Ok(lines)
}

/// Every log; both rules where the rule makes a difference.
fn variants() -> Vec<Variant> {
    let rules = |log| if log == LogKind::Parallel { &COMMITS[..] } else { &COMMITS[..1] };
    LOGS.iter().flat_map(|&log| Variant::product(&[log], rules(log))).collect()
}
