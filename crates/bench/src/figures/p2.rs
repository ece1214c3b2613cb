//! The experiments of paper 2: TPC-C's New-Order on TicToc, locks released early or when durable, with groups and without,
//! by log latency, warehouses and workers.
//!
//! As there, a worker writes a group and waits for it: as many transactions may be outstanding as a group has, so without
//! groups it waits for each. Their tables are arrays and nothing is inserted; in the middle of their latencies and warehouses
//! stand New-Order with its inserts and the full mix beside it. All that is measured on one medium alternates.

mod charts;
mod findings;
mod page;
mod paper;

use std::num::NonZero;
use std::time::Duration;

use ishigaki_txn::{ProtocolKind, Release};

use crate::oltp::{Choices, Engine, Sweep};
use crate::tpcc::{self, Mix};
use crate::{Line, Origin, Progress, Result, Stage, Target};

pub(super) use charts::charts;
pub(super) use page::page;

/// Transactions of a group, and none.
const GROUPS: [usize; 2] = [1, 16];

/// How much of it is measured.
#[derive(Clone, Debug)]
pub struct Scale {
    /// Measured time of each run.
    pub duration: Duration,
    /// Runs of each case.
    pub rounds: usize,
    /// Workers, each with a session and a stream of the log of its own.
    pub workers: Vec<usize>,
    /// Warehouses.
    pub warehouses: Vec<u16>,
    /// Rows of a warehouse.
    pub tables: tpcc::Scale,
}

impl Scale {
    /// Figures to be kept. Filling and checking takes longer than the runs.
    pub fn standard() -> Self {
        Self {
            duration: Duration::from_secs(2),
            rounds: 3,
            workers: vec![1, 2, 4],
            warehouses: vec![1, 4, 10],
            tables: tpcc::Scale::SPECIFICATION,
        }
    }

    /// A few seconds for each medium, with small tables, which shows that everything works and nothing else.
    pub fn smoke() -> Self {
        Self {
            duration: Duration::from_millis(10),
            rounds: 1,
            workers: vec![1, 2],
            warehouses: vec![1, 2],
            tables: tpcc::Scale::divided(NonZero::<u32>::MAX),
        }
    }
}

/// What is measured.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How much of it.
    pub scale: Scale,
    /// On which media: the latencies of the log. The one in the middle has the other mixes too.
    pub targets: Vec<Target>,
    /// The engine's settings beside those that the experiments set.
    pub engine: ishigaki_txn::Settings,
    /// Where the figures come from.
    pub origin: Origin,
}

/// The experiments (P2.2, P2.5, P2.6), and their workload without its reduction beside it (P2.B1).
pub fn run(settings: &Settings, progress: &mut dyn Progress) -> Result<Vec<Line>> {
    let Settings { scale, targets, origin, .. } = settings;
    let engines = variants(&settings.engine);
    let mut lines = Vec::new();
    for (place, target) in targets.iter().enumerate() {
        let mut works: Vec<_> = scale.warehouses.iter().map(|&count| (Mix::NewOrderNoInsert, count)).collect();
        let middle = scale.warehouses.get(scale.warehouses.len() / 2).filter(|_| place == targets.len() / 2);
        works.extend(middle.into_iter().flat_map(|&count| [(Mix::NewOrder, count), (Mix::Full, count)]));
        let sweep = Sweep {
            engines: engines.clone(),
            workers: scale.workers.clone(),
            duration: scale.duration,
            rounds: scale.rounds,
            ..Sweep::new(target.clone(), origin.clone())
        };
        lines.extend(tpcc::run_each(
            &works,
            scale.tables,
            &sweep,
            &mut Stage::new(format!("TPC-C on {}", target.name()), progress),
        )?);
    }
    Ok(lines)
}

/// Normal and early release, each without groups and with them.
fn variants(engine: &ishigaki_txn::Settings) -> Vec<Engine> {
    let choices = Choices {
        protocols: vec![ProtocolKind::TicToc],
        releases: vec![Release::Normal, Release::Early],
        groups: GROUPS.to_vec(),
        ..Choices::default()
    };
    let with = |engine: Engine| Engine { outstanding: Some(engine.settings.log.group.transactions), ..engine };
    choices.engines(engine).into_iter().map(with).collect()
}
