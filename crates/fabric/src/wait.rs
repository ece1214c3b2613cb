//! Waiting for a peer: look again for a moment, then sleep.
//!
//! To be woken costs more than a short answer takes, so a waiter that expects one soon had better look again and again. But
//! two that do so on one core keep each other from answering, and one that looks in vain only burns time. So
//!
//! - nobody spins where there is a single core, and over all connections of a process at most half of the cores do;
//! - a wait spins only if those before it were short, and then at most for twice as long as they took;
//! - who gives way between two looks and comes back late shares its core with others, who then run for milliseconds. It sleeps
//!   at once, and in its next waits, too: a sleeper is woken when its answer comes, whoever else wants the core.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Waits longer than this are slept through.
const SHORT: Duration = Duration::from_micros(120);

/// Who gives way and is back later than this has let somebody else run.
const LATE: Duration = Duration::from_micros(50);

/// Waits that are slept through after that, at first and at most.
const REST: std::ops::RangeInclusive<u32> = 16..=4096;

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
    /// Waits that are slept through, since the core is shared.
    rest: u32,
    /// How many they are when that shows the next time.
    next_rest: u32,
}

impl Default for Patience {
    fn default() -> Self {
        Self::among(most())
    }
}

impl Patience {
    fn among(most: usize) -> Self {
        Self { expected: SHORT / 2, most, rest: 0, next_rest: *REST.start() }
    }

    /// Until when to spin in a wait that begins now, while the guard lives. Nothing: not at all.
    pub(crate) fn spin(&mut self, now: Instant) -> Option<Spin> {
        if self.rest > 0 {
            self.rest -= 1;
            return None;
        }
        if self.most == 0 || self.expected > SHORT {
            return None;
        }
        if SPINNING.fetch_add(1, Ordering::Relaxed) >= self.most {
            SPINNING.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        Some(Spin { until: now + (self.expected * 2).min(SHORT), shared: false })
    }

    /// Takes note of a spin that has ended.
    pub(crate) fn spun(&mut self, spin: &Spin) {
        if spin.shared {
            self.rest = self.next_rest;
            self.next_rest = (self.next_rest * 2).min(*REST.end());
        } else {
            // Slowly: in a busy time most spins go well, and those that do not cost as much as a hundred others gain.
            self.next_rest = (self.next_rest - self.next_rest / 16).max(*REST.start());
        }
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
    /// Somebody else has run on this core.
    shared: bool,
}

impl Spin {
    /// Gives way for a moment; false when it has been long enough, or somebody else has taken the core.
    pub(crate) fn again(&mut self) -> bool {
        let before = Instant::now();
        std::thread::yield_now();
        let now = Instant::now();
        self.shared = now - before > LATE;
        !self.shared && now < self.until
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
    fn who_shares_its_core_sleeps_for_some_waits_and_for_more_if_that_goes_on() {
        let (now, mut patience) = (Instant::now(), Patience::among(usize::MAX));
        let slept = |patience: &mut Patience| (0..10_000).take_while(|_| patience.spin(now).is_none()).count();
        let spin = |patience: &mut Patience, shared| {
            let mut spin = patience.spin(now).expect("it is not resting");
            spin.shared = shared;
            patience.spun(&spin);
        };
        assert_eq!(slept(&mut patience), 0);
        spin(&mut patience, true);
        assert_eq!(slept(&mut patience), 16);
        spin(&mut patience, true);
        assert_eq!(slept(&mut patience), 32);
        for _ in 0..20 {
            spin(&mut patience, true);
            slept(&mut patience);
        }
        spin(&mut patience, true);
        assert_eq!(slept(&mut patience), 4096, "and for no more than that");
        (0..200).for_each(|_| spin(&mut patience, false));
        spin(&mut patience, true);
        assert_eq!(slept(&mut patience), 16, "a quiet time is learnt, too");
    }

    #[test]
    fn no_more_spin_than_may() {
        let most = SPINNING.load(Ordering::Relaxed) + 2;
        let mut patience = Patience::among(most);
        let spins: Vec<_> = (0..=most).map(|_| patience.spin(Instant::now())).collect();
        assert!(spins.iter().any(Option::is_none));
    }
}
