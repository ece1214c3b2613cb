//! Compares the destination with its sources, both ways: every name, every attribute, every byte.
//!
//! It knows nothing of what the engine has recorded. Both sides are read as [`Source`]s: the old servers as they are configured, and the destination
//! as a plain directory ([`PathSource`]), behind the door's back. Neither is changed.
//!
//! ```text
//!   source ──list, attributes, extras, read──┐
//!                                            ├──▶ per directory: names, then each pair ──▶ Difference …  ──▶ Report
//!   destination ────────────"────────────────┘
//! ```
//!
//! What clients have changed through the door since the cut-over is a difference, too: the source does not have it. Times of last access,
//! sizes of directories and counts of names are not compared; that two names are one file is.
//!
//! Parts: `tree` walks, `pair` compares two objects, `bytes` two files, `links` which names are one file, `report` is what comes of it.

mod bytes;
mod links;
mod pair;
mod report;
mod tree;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ishigaki_migrate::destination::local::Local;
use ishigaki_migrate::engine::{Engine, Roots};
use ishigaki_migrate::source::path::PathSource;
use ishigaki_migrate::source::{Cancel, Source};
use parking_lot::Mutex;

use self::links::Links;
use crate::{Config, Error, Result};

pub use report::{Difference, Kind, Report};

/// Threads that compare, each with a directory.
const MOST_THREADS: usize = 64;

/// One comparison.
struct Comparison<'a> {
    config: &'a Config,
    old: Vec<Arc<dyn Source>>,
    roots: Roots,
    new: PathSource,
    /// The engine's mark on what is not yet here.
    mark: std::ffi::OsString,
    links: Mutex<Links>,
    report: Mutex<Report>,
    progress: &'a Progress,
    cancel: &'a Cancel,
}

/// How far a comparison is.
#[derive(Debug, Default)]
pub struct Progress {
    directories: AtomicU64,
    files: AtomicU64,
    bytes: AtomicU64,
}

impl Progress {
    /// Directories that were compared.
    pub fn directories(&self) -> u64 {
        self.directories.load(Ordering::Relaxed)
    }

    /// Other objects.
    pub fn files(&self) -> u64 {
        self.files.load(Ordering::Relaxed)
    }

    /// Bytes of files.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

/// Compares. The service may run meanwhile, but clients that write make differences.
///
/// # Errors
///
/// [`Error::Source`] if a source can not be reached, [`Error::Destination`] if the destination can not be read, [`Error::Cancelled`]. Single objects that
/// can not be read are differences.
pub fn verify(config: &Config, cancel: &Cancel, progress: &Progress) -> Result<Report> {
    config.validate_sides()?;
    let old = config.sources.iter().map(|source| source.from.open(cancel)).collect::<Result<Vec<_>>>()?;
    let failed = |cause| Error::Destination { path: config.to.clone(), cause };
    let new = PathSource::open(&config.to).map_err(|error| failed(std::io::Error::other(error.message)))?;
    let comparison = Comparison {
        config,
        old,
        roots: Engine::roots(&Local::open(&config.to).map_err(failed)?)?,
        new,
        mark: config.settings().attribute,
        links: Mutex::default(),
        report: Mutex::default(),
        progress,
        cancel,
    };
    comparison.walk(config.parallel.clamp(1, MOST_THREADS))?;
    Ok(comparison.end())
}

impl Comparison<'_> {
    fn tell(&self, difference: Difference) {
        self.report.lock().differences.push(difference);
    }

    /// What the migration keeps for itself at the destination: nothing of a source may take its place.
    fn leave_out(&self, path: &Path, what: &str) {
        self.report.lock().left_out.push(Difference::new(path, Kind::LeftOut, what, ""));
    }

    fn end(self) -> Report {
        let mut report = self.report.into_inner();
        let progress = self.progress;
        (report.directories, report.files, report.bytes) = (progress.directories(), progress.files(), progress.bytes());
        report.differences.extend(self.links.into_inner().differences());
        report.differences.sort();
        report.left_out.sort();
        report
    }
}
