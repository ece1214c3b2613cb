//! How fast data comes.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Over which time it is measured.
const WINDOW: Duration = Duration::from_secs(15);

/// Counts of bytes, and when they were read.
#[derive(Default)]
pub(super) struct Rate {
    samples: VecDeque<(Instant, u64)>,
}

impl Rate {
    /// So many bytes have come by then.
    pub(super) fn sample(&mut self, now: Instant, bytes: u64) {
        self.samples.push_back((now, bytes));
        // One that is older stays, so that the window is full.
        while self.samples.get(1).is_some_and(|(at, _)| now.duration_since(*at) >= WINDOW) {
            self.samples.pop_front();
        }
    }

    /// Bytes a second.
    pub(super) fn now(&self) -> u64 {
        let (Some(first), Some(last)) = (self.samples.front(), self.samples.back()) else { return 0 };
        let seconds = last.0.duration_since(first.0).as_secs_f64();
        if seconds > 0.0 { (last.1.saturating_sub(first.1) as f64 / seconds) as u64 } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_the_last_seconds() {
        let (mut rate, began) = (Rate::default(), Instant::now());
        assert_eq!(rate.now(), 0);
        for second in 0..=10 {
            rate.sample(began + Duration::from_secs(second), second * 100);
        }
        assert_eq!(rate.now(), 100);
        for second in 11..=60 {
            rate.sample(began + Duration::from_secs(second), 1000);
        }
        assert_eq!((rate.now(), rate.samples.len()), (0, 16));
    }
}
