//! Waiting for a peer: look again for a moment, then sleep.
//!
//! To be woken costs more than a short answer takes, so a waiter that expects one soon had better look again and again. But
//! two that do so on one core keep each other from answering, and one that looks in vain only burns time. So
//!
//! - nobody spins where there is a single core, and over all connections of a process at most half of the cores do;
//! - a wait spins only if those before it were short, and then at most for twice as long as they took.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Waits longer than this are slept through.
const SHORT: Duration = Duration::from_micros(120);

/// Threads of this process that are spinning.
static SPINNING: AtomicUsize = AtomicUsize::new(0);

/// How many may.
fn most() -> usize {
    static MOST: OnceLock<usize> = OnceLock::new();
    *MOST.get_or_init(|| std::thread::available_parallelism().map_or(0, |cores| cores.get() / 2))
}

/// What one waiter has learnt of its peer.
#[derive(Debug)]
pub(crate) struct Patience {
    /// How long waits took lately.
    expected: Duration,
    most: usize,
}

impl Default for Patience {
    fn default() -> Self {
        Self::among(most())
    }
}

impl Patience {
    fn among(most: usize) -> Self {
        Self { expected: SHORT / 2, most }
    }

    /// Until when to spin in a wait that begins now, while the guard lives. Nothing: not at all.
    pub(crate) fn spin(&self, now: Instant) -> Option<Spin> {
        if self.most == 0 || self.expected > SHORT {
            return None;
        }
        if SPINNING.fetch_add(1, Ordering::Relaxed) >= self.most {
            SPINNING.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        Some(Spin { until: now + (self.expected * 2).min(SHORT) })
    }

    /// Takes note of how long a wait took, slept through or not.
    pub(crate) fn learn(&mut self, took: Duration) {
        // An eighth of the way towards the new one, which a single slow answer must not outweigh.
        self.expected = (self.expected * 7 + took.min(SHORT * 4)) / 8;
    }
}

/// A wait that spins.
#[derive(Debug)]
pub(crate) struct Spin {
    until: Instant,
}

impl Spin {
    /// Gives way for a moment; false when it has been long enough.
    pub(crate) fn again(&self) -> bool {
        std::thread::yield_now();
        Instant::now() < self.until
    }
}

impl Drop for Spin {
    fn drop(&mut self) {
        SPINNING.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_spins_on_a_single_core_or_after_long_waits_and_somebody_does_after_short_ones() {
        let now = Instant::now();
        assert!(Patience::among(0).spin(now).is_none());
        // More than may: whatever other tests do at the moment, all of these are refused at some point.
        let mut patience = Patience::among(usize::MAX);
        assert!(patience.spin(now).is_some());
        for _ in 0..64 {
            patience.learn(Duration::from_millis(1));
        }
        assert!(patience.spin(now).is_none());
        for _ in 0..64 {
            patience.learn(Duration::from_micros(5));
        }
        let spin = patience.spin(now).expect("answers are quick again");
        assert!(spin.until <= now + Duration::from_micros(12), "and it does not spin for long");
    }

    #[test]
    fn no_more_spin_than_may() {
        let most = SPINNING.load(Ordering::Relaxed) + 2;
        let patience = Patience::among(most);
        let spins: Vec<_> = (0..=most).map(|_| patience.spin(Instant::now())).collect();
        assert!(spins.iter().any(Option::is_none));
    }
}
