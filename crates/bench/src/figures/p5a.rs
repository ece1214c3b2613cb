//! The experiments of paper 5, chapter 2: a file server is replaced by one that serves at once. Here: the cut-over, and the total time beside rsync.

mod charts;
mod page;
mod paper;

use std::path::PathBuf;

use crate::migration::tree::{Shape, Shrink};
use crate::migration::{self, Link};
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
    /// Whether the first data set is brought over the long link too.
    pub wan: bool,
    /// How much smaller they are than the paper's.
    pub shrink: Shrink,
    /// Runs of each side.
    pub rounds: usize,
}

impl Scale {
    /// Figures to be kept: some ten minutes, and 1 GB of disk.
    pub fn standard() -> Self {
        let shrink = Shrink { files: 50.0, bytes: 20.0 };
        Self { cut_over: Some(1.0), trees: Shape::OF_PAPER.to_vec(), wan: true, shrink, rounds: 3 }
    }

    /// Some seconds, which show that everything works and nothing else.
    pub fn smoke() -> Self {
        let shrink = Shrink { files: 20_000.0, bytes: 100.0 };
        Self { cut_over: Some(1000.0), trees: vec![Shape::Small, Shape::Media], wan: true, shrink, rounds: 1 }
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
}

/// The experiments (P5a.8), as far as they are here. Takes root, NFS-Ganesha and rsync.
pub fn run(settings: &Settings, progress: &mut dyn Progress) -> Result<Vec<Line>> {
    let Scale { cut_over, trees, wan, shrink, rounds } = settings.scale.clone();
    let links =
        |shape: &Shape| if wan && *shape == Shape::Small { vec![Link::Lan, Link::Wan] } else { vec![Link::Lan] };
    let trees = trees.iter().map(|shape| (*shape, links(shape))).collect();
    let (scratch, origin) = (settings.scratch.clone(), settings.origin.clone());
    migration::run(&migration::Settings { cut_over, trees, shrink, rounds, scratch, origin }, progress)
}
