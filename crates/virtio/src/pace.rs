//! Whether a request is answered by the thread that takes it from the queue, or handed over to a worker.
//!
//! Handing over wakes another thread, which takes as long as a memory needs for several requests. On the other side, what waits for a drive must not hold up what comes
//! behind it, and a guest that asks for several things at a time gets them sooner by several threads, and takes several answers at once. So the thread answers a request
//! itself if the guest waits for each of its requests ([`Turns`]), the device says that nothing slow is needed for it, and such ones have taken less time of late than handing
//! them over ([`Pace`]).

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What handing over takes, in nanoseconds: two changes of threads.
const HANDING_OVER: u64 = 12_000;

/// One of how many requests a mean is made of.
const OF: u64 = 16;

/// How long requests take of which nothing slow is needed.
#[derive(Debug)]
pub(crate) struct Pace {
    /// A mean of late, in nanoseconds.
    mean: AtomicU64,
}

impl Pace {
    /// One of which nothing is known: too slow.
    pub(crate) fn new() -> Self {
        Self { mean: AtomicU64::new(HANDING_OVER * 2) }
    }

    /// Whether such a request takes less time than handing it over.
    pub(crate) fn is_quick(&self) -> bool {
        self.mean.load(Ordering::Relaxed) < HANDING_OVER
    }

    /// One has taken so long. Where its thread had to wait for a processor, that says little.
    pub(crate) fn took(&self, time: Duration) {
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).min(HANDING_OVER * OF);
        let mean = self.mean.load(Ordering::Relaxed);
        // Another thread's may be lost.
        self.mean.store((mean * (OF - 1) + nanoseconds) / OF, Ordering::Relaxed);
    }
}

/// So many that came one after the other say that the guest waits for each.
const IN_TURN: u32 = 8;

/// So many are kept at most before it is looked again: one that is answered at once looks as if the guest had waited for it.
const KEPT: u32 = 128;

/// Whether a guest makes a request only when the one before it is answered.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    /// Requests of late that came so, [`IN_TURN`] at most.
    in_turn: u32,
    /// Requests that were kept since that was seen.
    kept: u32,
}

impl Turns {
    /// Some have come: a single one while no other one was under way, or not.
    pub(crate) fn came(&mut self, is_alone: bool) {
        self.in_turn = if is_alone { (self.in_turn + 1).min(IN_TURN) } else { 0 };
    }

    /// Whether it does.
    pub(crate) fn are_taken(&self) -> bool {
        self.in_turn == IN_TURN
    }

    /// One is answered at once.
    pub(crate) fn kept(&mut self) {
        self.kept += 1;
        if self.kept == KEPT {
            *self = Self::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_seen_and_looked_for_again() {
        let mut turns = Turns::default();
        (0..IN_TURN - 1).for_each(|_| turns.came(true));
        assert!(!turns.are_taken(), "it may be by chance");
        turns.came(true);
        assert!(turns.are_taken());
        for _ in 0..KEPT - 1 {
            turns.came(true);
            turns.kept();
        }
        assert!(turns.are_taken());
        turns.kept();
        assert!(!turns.are_taken(), "what is answered at once always seems to be waited for");
        (0..IN_TURN).for_each(|_| turns.came(true));
        assert!(turns.are_taken());
        turns.came(false);
        assert!(!turns.are_taken(), "several at a time");
    }

    #[test]
    fn it_is_quick_while_most_are() {
        let pace = Pace::new();
        assert!(!pace.is_quick(), "nothing is known");
        (0..50).for_each(|_| pace.took(Duration::from_micros(1)));
        assert!(pace.is_quick());
        pace.took(Duration::from_secs(1));
        assert!(!pace.is_quick(), "for a while");
        (0..30).for_each(|_| pace.took(Duration::from_micros(1)));
        assert!(pace.is_quick());
        (0..30).for_each(|_| pace.took(Duration::from_micros(80)));
        assert!(!pace.is_quick(), "a drive");
    }
}
