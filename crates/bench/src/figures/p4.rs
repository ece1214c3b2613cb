//! The experiments of paper 4: database servers that insert, each with a log of its own or all with one, by servers and by the
//! size of a transaction, on every disk given; and the one log's ways of waiting under commits that come in different ways.

mod charts;
mod findings;
mod page;
mod paper;

use std::time::Duration;

use ishigaki_device::Medium;
use ishigaki_logpool::Waiting;
use ishigaki_servers::Kind;

use super::Compared;
use crate::arrivals::{self, Pattern};
use crate::inserts::{self, Disk, Side};
use crate::{Line, Progress, Result, Stage};

pub(super) use charts::charts;
pub(super) use page::page;

/// How much of it is measured.
#[derive(Clone, Debug)]
pub struct Scale {
    /// How many servers insert beside each other; the paper's for each disk if it is not given.
    pub servers: Option<Vec<usize>>,
    /// Transactions of each server in each load; fewer on a slow disk than on others if it is not given.
    pub transactions: Option<usize>,
    /// Integers of a transaction.
    pub integers: Vec<usize>,
    /// Names of the sides that are compared; all if it is not given.
    pub sides: Option<Vec<String>>,
    /// Runs of each side.
    pub rounds: usize,
    /// Commits of each member, under the patterns of arrivals, on a slow disk and on others.
    pub commits: [usize; 2],
}

impl Scale {
    /// Figures to be kept.
    pub fn standard() -> Self {
        Self {
            servers: None,
            transactions: None,
            integers: vec![2, 12, 20, 50],
            sides: None,
            rounds: 3,
            commits: [300, 8000],
        }
    }

    /// A minute, which shows that everything works and nothing else.
    pub fn smoke() -> Self {
        Self {
            servers: Some(vec![1, 2]),
            transactions: Some(5),
            integers: vec![2, 50],
            sides: Some(vec!["separate".to_owned(), "auto".to_owned()]),
            rounds: 1,
            commits: [5, 50],
        }
    }

    fn servers(&self, disk: &Disk) -> Vec<usize> {
        let usual = || if disk.is_slow() { vec![1, 2, 3, 4] } else { vec![1, 2, 4, 8] };
        self.servers.clone().unwrap_or_else(usual)
    }

    fn transactions(&self, disk: &Disk) -> usize {
        self.transactions.unwrap_or(if disk.is_slow() { 100 } else { 1000 })
    }

    /// Those of the names that are given.
    fn sides(&self, disk: &Disk) -> Result<Vec<Side>> {
        disk.named(self.sides.as_deref())
    }
}

/// What is measured; without kinds of servers, only how commits come.
pub type Settings = Compared<Scale>;

/// The experiments (P4.1 to P4.4, P4.7), and what they lack (P4.B2, P4.B4).
pub fn run(settings: &Settings, progress: &mut dyn Progress) -> Result<Vec<Line>> {
    settings.check(settings.scale.sides.as_deref())?;
    let mut lines = Vec::new();
    for disk in &settings.disks {
        for &kind in &settings.kinds {
            let stage = &mut Stage::new(format!("{kind} on {disk}"), progress);
            lines.extend(inserts::run(&of_servers(settings, disk, kind)?, stage)?);
        }
        if let Disk::Emulated(medium) = disk {
            let stage = &mut Stage::new(format!("on {disk}"), progress);
            lines.extend(arrivals::run(&of_arrivals(settings, disk, medium)?, stage)?);
        }
    }
    Ok(lines)
}

fn of_servers(settings: &Settings, disk: &Disk, kind: Kind) -> Result<inserts::Settings> {
    let scale = &settings.scale;
    Ok(inserts::Settings {
        kind,
        disk: disk.clone(),
        servers: scale.servers(disk),
        integers: scale.integers.clone(),
        transactions: scale.transactions(disk),
        rounds: scale.rounds,
        sides: scale.sides(disk)?,
        host: settings.host.clone(),
    })
}

fn of_arrivals(settings: &Settings, disk: &Disk, medium: &Medium) -> Result<arrivals::Settings> {
    let way = |side: Side| match side {
        Side::Separate => None,
        Side::Pool(waiting) => Some(waiting),
    };
    let ways: Vec<Waiting> = settings.scale.sides(disk)?.into_iter().filter_map(way).collect();
    let (place, pause) = if disk.is_slow() { (0, 40_000) } else { (1, 1_000) };
    Ok(arrivals::Settings {
        medium: medium.clone(),
        ways,
        patterns: Pattern::ALL.to_vec(),
        commits: settings.scale.commits[place],
        rounds: settings.scale.rounds,
        pause: Duration::from_micros(pause),
        origin: settings.host.origin.clone(),
        stop: settings.host.stop,
    })
}
