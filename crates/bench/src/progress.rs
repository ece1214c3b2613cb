//! How far a workload is, for a person who waits.

/// Hears how far the work is.
pub trait Progress {
    /// `done` of `of` parts are finished; `now` says in a few words what comes next.
    fn step(&mut self, now: &str, done: u64, of: u64);
}

/// One experiment among several: puts which one it is before what it says.
pub struct Stage<'a> {
    before: String,
    progress: &'a mut dyn Progress,
}

impl<'a> Stage<'a> {
    /// Of `progress`, which hears of all of them.
    pub fn new(before: impl Into<String>, progress: &'a mut dyn Progress) -> Self {
        Self { before: before.into(), progress }
    }
}

impl Progress for Stage<'_> {
    fn step(&mut self, now: &str, done: u64, of: u64) {
        self.progress.step(&format!("{}: {now}", self.before), done, of);
    }
}

impl std::fmt::Debug for Stage<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stage").field("before", &self.before).finish_non_exhaustive()
    }
}

/// Hears nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn step(&mut self, _now: &str, _done: u64, _of: u64) {}
}
