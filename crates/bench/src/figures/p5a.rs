//! The experiments of paper 5, chapter 2: a file server is replaced by one that serves at once. The cut-over, the total time beside rivals, the first access,
//! clients' work before, during and after, and how long clients wait while the migration is under way.

mod charts;
mod findings;
mod page;
mod paper;

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use crate::migration::tree::{Shape, Shrink};
use crate::migration::{self, FirstAccess, Link, Response, Work};
use crate::{Line, Origin, Progress, Result};

pub(super) use charts::charts;
pub(super) use page::page;

/// How much of it is measured.
#[derive(Clone, Debug)]
pub struct Scale {
    /// How many times fewer files than 100,000 the server of the cut-over has; `None` leaves the cut-over out.
    pub cut_over: Option<f64>,
    /// The data sets that are brought whole.
    pub trees: Vec<Shape>,
    /// Whether the first data set is brought over the long link too, and files are opened over it.
    pub wan: bool,
    /// How many directories lie on the way to a file that is opened first; none leave it out.
    pub depths: Vec<usize>,
    /// How many names each of them has.
    pub widths: Vec<usize>,
    /// What clients get done; `None` leaves it out.
    pub work: Option<Work>,
    /// How many files clients open while a migration is under way; none leave it out.
    pub opened: usize,
    /// How much smaller they are than the paper's.
    pub shrink: Shrink,
    /// Runs of each side.
    pub rounds: usize,
}

impl Scale {
    /// Figures to be kept: some forty minutes, and 2 GB of disk.
    pub fn standard() -> Self {
        Self {
            cut_over: Some(1.0),
            trees: Shape::OF_PAPER.to_vec(),
            wan: true,
            depths: vec![1, 2, 4, 8, 12, 16],
            widths: vec![10, 100, 1000],
            work: Some(Work { large: 64 << 20, sessions: vec![1, 4], threads: 4, loops: 2000 }),
            opened: 200,
            shrink: Shrink { files: 50.0, bytes: 20.0 },
            rounds: 3,
        }
    }

    /// A minute, which shows that everything works and nothing else.
    pub fn smoke() -> Self {
        Self {
            cut_over: Some(1000.0),
            trees: vec![Shape::Small, Shape::Media],
            wan: true,
            depths: vec![1, 3],
            widths: vec![10],
            work: Some(Work { large: 1 << 20, sessions: vec![1], threads: 2, loops: 5 }),
            opened: 5,
            shrink: Shrink { files: 20_000.0, bytes: 100.0 },
            rounds: 1,
        }
    }
}

/// What is measured, and where.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How much of it.
    pub scale: Scale,
    /// A directory for trees, destinations and mounts.
    pub scratch: PathBuf,
    /// Where the figures come from.
    pub origin: Origin,
    /// When set, all ends as soon as it can, and nothing stays behind.
    pub stop: &'static AtomicBool,
}

/// The experiments (P5a.8). What they take of the host, [`migration::missing`] tells.
pub fn run(settings: &Settings, progress: &mut dyn Progress) -> Result<Vec<Line>> {
    let Settings { scale, scratch, origin, stop } = settings.clone();
    let both = if scale.wan { vec![Link::Lan, Link::Wan] } else { vec![Link::Lan] };
    let links = |shape: &Shape| if *shape == Shape::Small { both.clone() } else { vec![Link::Lan] };
    let trees = scale.trees.iter().map(|shape| (*shape, links(shape))).collect();
    let has_first = !scale.depths.is_empty() && !scale.widths.is_empty();
    let settings = migration::Settings {
        cut_over: scale.cut_over,
        trees,
        first_access: has_first.then(|| FirstAccess {
            depths: scale.depths,
            widths: scale.widths,
            links: both.clone(),
        }),
        work: scale.work,
        response: (scale.opened > 0).then(|| Response { files: scale.opened, links: vec![Link::Lan] }),
        shrink: scale.shrink,
        rounds: scale.rounds,
        scratch,
        origin,
        stop,
    };
    migration::run(&settings, progress)
}
