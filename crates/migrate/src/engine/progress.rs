//! What is counted, and what could not be done.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

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
    /// What and why, without the path.
    pub message: String,
    /// The object changed at the source after the migration began.
    pub conflict: bool,
    /// Nothing stands for it here. It stays a problem until a person [accepts](super::Engine::accept) that.
    pub left_out: bool,
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
            problems: 0,
        }
    }
}

impl<D: crate::destination::Destination> super::Engine<D> {
    /// How far it is.
    pub fn progress(&self) -> Progress {
        Progress { problems: self.queue.problem_count() as u64, ..self.counters.now() }
    }

    /// The same, each with the number of its source.
    pub fn problems_by_source(&self) -> Vec<(u32, Problem)> {
        self.queue.problems()
    }

    /// What could not be copied, by path.
    pub fn problems(&self) -> Vec<Problem> {
        self.queue.problems().into_iter().map(|(_, problem)| problem).collect()
    }

    /// A person accepts that an object of the source was left out; whether it was. Durable as everything, by the next [`settle`](Self::settle).
    pub fn accept(&self, source: u32, path: &std::path::Path) -> bool {
        let left_out = |(of, problem): (u32, Problem)| of == source && problem.path == path && problem.left_out;
        self.queue.problems().into_iter().any(left_out) && self.queue.no_problem(source, path)
    }

    pub(super) fn problem(&self, source: u32, problem: Problem) {
        let mut problem = self.told_ahead(problem);
        // The message is shown beside the path, and is often an error's, which names it, too.
        let named = format!("{}: ", problem.path.display());
        while problem.message.starts_with(&named) {
            problem.message.drain(..named.len());
        }
        let (path, message) = (problem.path.clone(), problem.message.clone());
        // What was not copied ahead is told at the end, and tried again.
        if self.queue.problem(source, problem) && self.settings.ahead.is_none() {
            tracing::warn!(path = %path.display(), "{message}");
        }
    }

    pub(super) fn no_problem(&self, source: u32, path: &std::path::Path) {
        self.queue.no_problem(source, path);
    }

    /// Forgets problems, conflicts too, of what clients have removed. Looks through the whole destination if there are any.
    ///
    /// # Errors
    ///
    /// Of the destination.
    pub fn forget_removed(&self) -> super::Result<()> {
        if self.queue.problems().iter().all(|(_, problem)| problem.left_out) {
            return Ok(());
        }
        let mut stubs = std::collections::HashSet::new();
        self.each_stub(&mut |record| {
            stubs.insert((record.source, record.location.path));
        })?;
        self.queue.keep_problems_of(&stubs);
        Ok(())
    }
}
