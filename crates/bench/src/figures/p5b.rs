//! The experiments of paper 5, chapter 3: database servers on volumes over a fast and a slow device, by what is prefetched, and for how much of the time.

mod charts;
mod findings;
mod page;
mod paper;

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use ishigaki_base::ByteSize;

use crate::volumes::{self, Mode, Size, Way};
use crate::{Line, Origin, Progress, Result};

pub(super) use charts::charts;
pub(super) use page::page;

/// The share of the time where it is fixed and nothing is compared about it, as in the paper's figure 3.7.
const SHARE: f64 = 0.4;

/// Bytes that are brought together, where nothing is compared about them, as in the paper's figures 3.9 to 3.11.
const UNIT: ByteSize = ByteSize::mib(3);

/// What is measured beside each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The slow device alone.
    None,
    /// A cache of blocks that knows nothing.
    Rival,
    /// The service without prefetch.
    Demand,
    /// Prefetch of pieces of the disk.
    Plain,
    /// Prefetch of pieces of files, for each fixed share of the time.
    Fixed,
    /// Prefetch of pieces of files, for a share that follows what it brings.
    Adaptive,
    /// Prefetch of smaller and larger pieces, of files and of the disk.
    Units,
}

impl Part {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::None, Self::Rival, Self::Demand, Self::Plain, Self::Fixed, Self::Adaptive, Self::Units];
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Rival => "rival",
            Self::Demand => "demand",
            Self::Plain => "plain",
            Self::Fixed => "fixed",
            Self::Adaptive => "adaptive",
            Self::Units => "units",
        })
    }
}

impl FromStr for Part {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = || Self::ALL.map(|part| part.to_string()).join(", ");
        let found = Self::ALL.into_iter().find(|part| part.to_string() == text);
        found.ok_or_else(|| format!("there are {}, not `{text}`", known()))
    }
}

/// How much of it is measured.
#[derive(Clone, Debug)]
pub struct Scale {
    /// What is compared.
    pub parts: Vec<Part>,
    /// Sizes of the fast device, in fifteenths of the data.
    pub fifteenths: Vec<u32>,
    /// Shares of the time that are fixed.
    pub shares: Vec<f64>,
    /// The servers, their data and their load.
    pub size: Size,
    /// Runs of each.
    pub rounds: usize,
}

impl Scale {
    /// Figures to be kept: some four hours in three rounds, of which the smaller and larger pieces take a quarter; 12 GB of memory.
    pub fn standard() -> Self {
        Self {
            parts: Part::ALL.to_vec(),
            fifteenths: vec![1, 2],
            shares: vec![0.2, 0.4, 0.6, 0.8],
            size: Size::default(),
            rounds: 3,
        }
    }

    /// A minute or two, which show that everything works and nothing else.
    pub fn smoke() -> Self {
        Self {
            parts: vec![Part::None, Part::Rival, Part::Adaptive],
            fifteenths: vec![2],
            shares: vec![SHARE],
            size: Size {
                data: ByteSize::mib(60),
                servers: 1,
                phase: Duration::from_millis(200),
                sets: 1,
                workers: 2,
                ..Size::default()
            },
            rounds: 1,
        }
    }

    /// Every way of these parts, each once.
    fn ways(&self) -> Vec<Way> {
        let largest = self.fifteenths.iter().copied().max().unwrap_or(0);
        let chunk = ByteSize::mib(1);
        let way = |mode, fifteenths| Way {
            mode,
            fifteenths,
            chunk,
            unit: (UNIT.as_u64() / chunk.as_u64()) as usize,
            traced: fifteenths == largest || mode == Mode::Adaptive,
        };
        let each = |mode| self.fifteenths.iter().map(move |&fifteenths| way(mode, fifteenths));
        let mut ways = Vec::new();
        for part in &self.parts {
            match part {
                Part::None => ways.push(way(Mode::None, 0)),
                Part::Rival => ways.extend(each(Mode::Rival)),
                Part::Demand => ways.extend(each(Mode::OnDemand)),
                Part::Plain => ways.extend(each(Mode::Plain(SHARE))),
                Part::Fixed => ways.extend(self.shares.iter().flat_map(|&share| each(Mode::Layout(share)))),
                Part::Adaptive => ways.extend(each(Mode::Adaptive)),
                Part::Units => ways.extend(units(largest)),
            }
        }
        ways
    }
}

/// Smaller and larger pieces than [`UNIT`]. One of a single chunk is the same in a file and on the disk.
fn units(fifteenths: u32) -> Vec<Way> {
    let (half, whole) = (ByteSize::kib(512), ByteSize::mib(1));
    let way = |mode, chunk, unit| Way { mode, fifteenths, chunk, unit, traced: false };
    let mut ways = vec![way(Mode::Layout(SHARE), half, 1), way(Mode::Layout(SHARE), whole, 1)];
    for unit in [2, 4] {
        ways.extend([Mode::Plain(SHARE), Mode::Layout(SHARE)].map(|mode| way(mode, whole, unit)));
    }
    ways
}

/// What is measured, and where.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How much of it.
    pub scale: Scale,
    /// A directory for mounts, through which the servers' user may pass.
    pub scratch: PathBuf,
    /// Where the figures come from.
    pub origin: Origin,
    /// When set, all ends as soon as it can, and nothing stays behind.
    pub stop: &'static AtomicBool,
}

/// The experiments (P5b.5). What they take of the host, [`volumes::missing`] tells.
pub fn run(settings: &Settings, progress: &mut dyn Progress) -> Result<Vec<Line>> {
    let Settings { scale, scratch, origin, stop } = settings.clone();
    let ways = scale.ways();
    let settings = volumes::Settings { ways, size: scale.size, rounds: scale.rounds, scratch, origin, stop };
    volumes::run(&settings, progress)
}
