//! What is counted, and what could not be done.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// How far a migration is. Files and bytes are those of directories that are listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Directories that are known.
    pub directories: u64,
    /// Directories whose names are here.
    pub listed: u64,
    /// Files with data that are known.
    pub files: u64,
    /// Files that are whole here, or that clients have removed the need for.
    pub whole: u64,
    /// Bytes of the files that are known.
    pub bytes: u64,
    /// Bytes that need not be copied any more.
    pub here: u64,
    /// Bytes that this process has copied.
    pub copied: u64,
    /// Calls that wait for a source that does not answer.
    pub waiting: u64,
    /// Objects with a [`Problem`].
    pub problems: u64,
}

/// Something that could not be copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The path at the source.
    pub path: PathBuf,
    /// What and why.
    pub message: String,
    /// The object changed at the source after the migration began.
    pub conflict: bool,
}

#[derive(Default)]
pub(super) struct Counters {
    pub(super) directories: AtomicU64,
    pub(super) listed: AtomicU64,
    pub(super) files: AtomicU64,
    pub(super) whole: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) here: AtomicU64,
    pub(super) copied: AtomicU64,
    waiting: AtomicU64,
    /// Clients that wait for anything to be brought: the crawler lets them go first.
    demand: AtomicU64,
    problems: Mutex<BTreeMap<(u32, PathBuf), Problem>>,
}

/// A call waits while it lives.
pub(super) struct Waiting<'a>(&'a AtomicU64);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Counters {
    pub(super) fn add(counter: &AtomicU64, more: u64) {
        counter.fetch_add(more, Ordering::Relaxed);
    }

    pub(super) fn waiting(&self) -> Waiting<'_> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        Waiting(&self.waiting)
    }

    pub(super) fn demand(&self) -> Waiting<'_> {
        self.demand.fetch_add(1, Ordering::Relaxed);
        Waiting(&self.demand)
    }

    pub(super) fn is_in_demand(&self) -> bool {
        self.demand.load(Ordering::Relaxed) > 0
    }

    /// Nothing is missing any more.
    pub(super) fn all_here(&self) {
        self.whole.store(self.files.load(Ordering::Relaxed), Ordering::Relaxed);
        self.here.store(self.bytes.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Takes what an earlier process has counted.
    pub(super) fn restore(&self, totals: Progress) {
        for (counter, total) in [
            (&self.directories, totals.directories),
            (&self.listed, totals.listed),
            (&self.files, totals.files),
            (&self.whole, totals.whole),
            (&self.bytes, totals.bytes),
            (&self.here, totals.here),
        ] {
            counter.store(total, Ordering::Relaxed);
        }
    }

    pub(super) fn problem(&self, source: u32, problem: Problem) {
        tracing::warn!(path = %problem.path.display(), "{}", problem.message);
        self.problems.lock().insert((source, problem.path.clone()), problem);
    }

    pub(super) fn no_problem(&self, source: u32, path: &std::path::Path) {
        let mut problems = self.problems.lock();
        if !problems.is_empty() {
            problems.remove(&(source, path.to_owned()));
        }
    }

    pub(super) fn problems(&self) -> Vec<Problem> {
        self.problems.lock().values().cloned().collect()
    }

    fn problems_by_source(&self) -> Vec<(u32, Problem)> {
        self.problems.lock().iter().map(|((source, _), problem)| (*source, problem.clone())).collect()
    }

    pub(super) fn now(&self) -> Progress {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Progress {
            directories: read(&self.directories),
            listed: read(&self.listed),
            files: read(&self.files),
            whole: read(&self.whole),
            bytes: read(&self.bytes),
            here: read(&self.here),
            copied: read(&self.copied),
            waiting: read(&self.waiting),
            problems: self.problems.lock().len() as u64,
        }
    }
}

impl<D: crate::destination::Destination> super::Engine<D> {
    /// How far it is.
    pub fn progress(&self) -> Progress {
        self.counters.now()
    }

    /// The same, each with the number of its source.
    pub fn problems_by_source(&self) -> Vec<(u32, Problem)> {
        self.counters.problems_by_source()
    }

    /// What could not be copied, by path.
    pub fn problems(&self) -> Vec<Problem> {
        self.counters.problems()
    }
}
