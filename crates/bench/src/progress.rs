//! How far a workload is, for a person who waits.

/// Hears how far the work is.
pub trait Progress {
    /// `done` of `of` parts are finished; `now` says in a few words what comes next.
    fn step(&mut self, now: &str, done: u64, of: u64);
}

/// Hears nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn step(&mut self, _now: &str, _done: u64, _of: u64) {}
}
