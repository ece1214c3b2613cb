//! What is written to the fast device, and how much of it may be: flash takes so many bytes in its life.
//!
//! Writes of volumes are done whatever they cost. What would come to the device to be read from there comes only while there is allowance left, which grows with the time and
//! is at most that of an hour.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;

/// Seconds of a day, and of how much of it the allowance is at most.
const DAY: f64 = 86_400.0;
const MOST: f64 = 3_600.0;

#[derive(Debug)]
pub(crate) struct Wear {
    written: AtomicU64,
    budget: Option<Mutex<Budget>>,
}

#[derive(Debug)]
struct Budget {
    /// Bytes a second.
    rate: f64,
    /// Bytes that may come now; less than none where writes took more.
    allowance: f64,
    when: Instant,
}

impl Wear {
    /// With so many bytes a day, or without a limit.
    pub(crate) fn new(a_day: Option<u64>) -> Self {
        let budget = a_day.map(|bytes| {
            let rate = bytes as f64 / DAY;
            Mutex::new(Budget { rate, allowance: rate * MOST, when: Instant::now() })
        });
        Self { written: AtomicU64::new(0), budget }
    }

    /// So many bytes were written.
    pub(crate) fn note(&self, bytes: usize) {
        self.written.fetch_add(bytes as u64, Ordering::Relaxed);
        if let Some(budget) = &self.budget {
            budget.lock().allowance -= bytes as f64;
        }
    }

    /// Whether anything may come.
    pub(crate) fn allows(&self) -> bool {
        self.budget.as_ref().is_none_or(|budget| budget.lock().is_left(Instant::now()))
    }

    /// Bytes written since the pool was opened.
    pub(crate) fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }
}

impl Budget {
    fn is_left(&mut self, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.when).as_secs_f64();
        self.when = now;
        self.allowance = (self.allowance + passed * self.rate).min(self.rate * MOST);
        self.allowance > 0.0
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_comes_keeps_to_the_allowance_and_grows_with_the_time() {
        let wear = Wear::new(Some(24 * 1_000_000));
        assert!(wear.allows());
        wear.note(999_000);
        assert!(wear.allows());
        // A write is done whatever it costs.
        wear.note(1_001_000);
        assert!(!wear.allows());
        assert_eq!(wear.written(), 2_000_000);
        let Some(budget) = &wear.budget else { panic!("it has one") };
        let mut budget = budget.lock();
        let begun = budget.when;
        assert!(!budget.is_left(begun + Duration::from_mins(59)));
        assert!(budget.is_left(begun + Duration::from_mins(61)));
        // Days without work do not add up.
        assert!(budget.is_left(begun + Duration::from_hours(100)));
        assert!(budget.allowance <= 1_000_001.0);
    }

    #[test]
    fn without_a_limit_everything_comes() {
        let wear = Wear::new(None);
        wear.note(usize::MAX / 4);
        assert!(wear.allows());
    }
}
