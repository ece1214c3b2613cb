//! Waiting for what comes soon: look again for a moment, then sleep.
//!
//! To be woken costs more than a short answer takes, so a waiter that expects one soon had better look again and again. But
//! two that do so on one core keep each other from answering, and one that looks in vain only burns time. So
//!
//! - nobody spins where there is a single core, and over all connections of a process at most half of the cores do;
//! - a waiter learns how long its waits take, and spins for as long as that has paid lately: what sleeping would have cost, in the
//!   waits that end by then, must outweigh the time burnt in all of them;
//! - who gives way between two looks and comes back late shares its core with others, who then run for milliseconds. It sleeps
//!   at once, and in its next waits, too: a sleeper is woken when its answer comes, whoever else wants the core.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// What it costs to sleep and be woken, in microseconds: about what a virtual machine takes to leave and enter its idle state.
const WAKE: u64 = 30;

/// A microsecond of looking is worth so much less than one by which an answer comes earlier.
const CHEAPER: u64 = 12;

/// Limits to choose from, in microseconds.
const LIMITS: [u64; 9] = [8, 16, 32, 64, 96, 128, 192, 256, 384];

/// What a wait counts when it is new, and which part of all counts is forgotten with each.
const NEW: u32 = 1 << 10;
const FORGET: u32 = 32;

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

/// What one waiter has learnt of what it waits for.
/// ```
/// use std::time::{Duration, Instant};
/// use ishigaki_fabric::Patience;
///
/// # let mut countdown = 3;
/// # let mut has_come = || { countdown -= 1; countdown == 0 };
/// # let sleep_until_it_has_come = || ();
/// let (mut patience, begin) = (Patience::default(), Instant::now());
/// let mut here = false;
/// if let Some(mut spin) = patience.spin(begin) {
///     here = has_come();
///     while !here && spin.again() {
///         here = has_come();
///     }
///     patience.spun(&spin);
/// }
/// if !here {
///     sleep_until_it_has_come();
/// }
/// patience.learn(begin.elapsed());
/// ```
#[derive(Debug)]
pub struct Patience {
    /// Waits, by the first limit within which they ended; the last ones took longer. Older ones count less.
    waits: [u32; LIMITS.len() + 1],
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
        // As if there had been some of about 50 microseconds.
        let mut waits = [0; LIMITS.len() + 1];
        waits[3] = 4 * NEW;
        Self { waits, most, rest: 0, next_rest: *REST.start() }
    }

    /// How to spin in a wait that begins now. Nothing: not at all.
    pub fn spin(&mut self, now: Instant) -> Option<Spin> {
        if self.rest > 0 {
            self.rest -= 1;
            return None;
        }
        let limit = if self.most == 0 { None } else { self.limit() };
        let until = now + limit?;
        if SPINNING.fetch_add(1, Ordering::Relaxed) >= self.most {
            SPINNING.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        Some(Spin { until, shared: false })
    }

    /// For how long spinning pays best.
    fn limit(&self) -> Option<Duration> {
        let all: u64 = self.waits.iter().map(|&count| u64::from(count)).sum();
        let (mut ended, mut burnt, mut best) = (0, 0, (0, None));
        for (&count, limit) in self.waits.iter().zip(LIMITS) {
            ended += u64::from(count);
            // As if each had ended just at its limit: so the last one in question is not cut off too early.
            burnt += u64::from(count) * limit;
            let (gain, price) = (ended * WAKE * CHEAPER, burnt + (all - ended) * limit);
            if gain > price && gain - price > best.0 {
                best = (gain - price, Some(Duration::from_micros(limit)));
            }
        }
        best.1
    }

    /// Takes note of a spin that has ended.
    pub fn spun(&mut self, spin: &Spin) {
        if spin.shared {
            self.rest = self.next_rest;
            self.next_rest = (self.next_rest * 2).min(*REST.end());
        } else {
            // Slowly: in a busy time most spins go well, and those that do not cost as much as a hundred others gain.
            self.next_rest = (self.next_rest - self.next_rest / 16).max(*REST.start());
        }
    }

    /// Takes note of how long a wait took, slept through or not.
    pub fn learn(&mut self, took: Duration) {
        self.waits.iter_mut().for_each(|count| *count -= *count / FORGET);
        let took = took.as_micros();
        let place = LIMITS.iter().position(|&limit| took < u128::from(limit)).unwrap_or(LIMITS.len());
        self.waits[place] += NEW;
    }
}

/// A wait that spins. One of few: others may not meanwhile.
#[derive(Debug)]
pub struct Spin {
    until: Instant,
    /// Somebody else has run on this core.
    shared: bool,
}

impl Spin {
    /// Gives way for a moment; false when it has been long enough, or somebody else has taken the core.
    pub fn again(&mut self) -> bool {
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

    fn learnt(waits: &[(usize, u64)]) -> Patience {
        let mut patience = Patience::among(usize::MAX);
        // In turns, as they may come.
        for turn in 0..256 {
            let waits = waits.iter().filter(|(every, _)| turn % every == 0);
            waits.for_each(|(_, took)| patience.learn(Duration::from_micros(*took)));
        }
        patience
    }

    #[test]
    fn nobody_spins_on_a_single_core_or_after_long_waits_and_somebody_does_after_short_ones() {
        let now = Instant::now();
        assert!(Patience::among(0).spin(now).is_none());
        assert!(Patience::among(usize::MAX).spin(now).is_some());
        let mut patience = learnt(&[(1, 1000)]);
        assert!(patience.spin(now).is_none());
        for _ in 0..64 {
            patience.learn(Duration::from_micros(5));
        }
        let spin = patience.spin(now).expect("answers are quick again");
        assert!(spin.until <= now + Duration::from_micros(16), "and it does not spin for long");
    }

    #[test]
    fn a_spin_ends_where_more_of_it_has_not_paid() {
        let limit = |waits: &[(usize, u64)]| learnt(waits).limit().map(|limit| limit.as_micros());
        assert_eq!(limit(&[(1, 150)]), Some(192), "a disk's answer");
        assert_eq!(limit(&[(1, 300)]), None, "all of it would be burnt, for the tenth part of it");
        assert_eq!(limit(&[(1, 20), (1, 5000)]), Some(32), "what is quick is waited for, and not what is slow");
        assert_eq!(limit(&[(1, 5000), (40, 20)]), None, "it is seldom quick");
        assert_eq!(limit(&[(1, 90), (8, 400)]), Some(96));
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
