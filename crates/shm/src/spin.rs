//! When to poll for what the other process is about to do, and when to sleep.
//!
//! Sleeping costs two system calls and the time that a thread takes to wake up; polling costs a core. So it pays for what comes
//! sooner than waking up takes, and only if there is a core for the other side. How long things took lately tells.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{available_parallelism, yield_now};
use std::time::{Duration, Instant};

/// Nobody polls for longer: about what waking up takes.
const BUDGET: Duration = Duration::from_micros(50);

/// How much one time counts in the mean: an eighth.
const WEIGHT: u64 = 8;

/// Whether to poll, for one at a time.
#[derive(Debug)]
pub(crate) struct Spin {
    /// The mean of the last times, in nanoseconds.
    mean: AtomicU64,
    /// Somebody polls.
    taken: AtomicBool,
    has_cores: bool,
}

impl Spin {
    pub(crate) fn new() -> Self {
        let has_cores = available_parallelism().is_ok_and(|cores| cores.get() > 1);
        Self { mean: AtomicU64::new(0), taken: AtomicBool::new(false), has_cores }
    }

    /// Polls until it is done, if that has been soon lately and nobody else polls. True if it is done.
    pub(crate) fn poll(&self, is_done: impl Fn() -> bool) -> bool {
        let pays = self.has_cores && self.mean.load(Ordering::Relaxed) < BUDGET.as_nanos() as u64;
        if !pays || self.taken.swap(true, Ordering::Relaxed) {
            return is_done();
        }
        let began = Instant::now();
        let done = loop {
            if is_done() {
                break true;
            }
            if began.elapsed() > BUDGET {
                break false;
            }
            yield_now();
        };
        self.taken.store(false, Ordering::Relaxed);
        done
    }

    /// It took so long, polled for or not.
    pub(crate) fn took(&self, time: Duration) {
        let time = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).min(1_000_000_000);
        let mean = self.mean.load(Ordering::Relaxed);
        self.mean.store(mean - mean / WEIGHT + time / WEIGHT, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn polls(spin: &Spin) -> bool {
        let asked = Cell::new(0);
        spin.poll(|| {
            asked.set(asked.get() + 1);
            asked.get() > 3
        });
        asked.get() > 1
    }

    #[test]
    fn what_takes_long_is_not_polled_for_until_it_comes_soon_again() {
        let spin = Spin { has_cores: true, ..Spin::new() };
        assert!(polls(&spin));
        (0..4).for_each(|_| spin.took(Duration::from_millis(8)));
        assert!(!polls(&spin));
        (0..64).for_each(|_| spin.took(Duration::from_micros(10)));
        assert!(polls(&spin));
        let alone = Spin { has_cores: false, ..Spin::new() };
        assert!(!polls(&alone));
    }
}
