//! Holds the crawler back to a bandwidth.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::source::Cancel;

/// So much may be caught up with at once.
const SLACK: Duration = Duration::from_millis(100);

pub(super) struct Pace {
    bandwidth: Option<u64>,
    /// When what was taken so far will have been paid for.
    paid: Mutex<Instant>,
}

impl Pace {
    pub(super) fn new(bandwidth: Option<u64>) -> Self {
        Self { bandwidth, paid: Mutex::new(Instant::now()) }
    }

    /// Waits until so many bytes more fit into the bandwidth.
    pub(super) fn take(&self, bytes: u64, cancel: &Cancel) {
        let Some(bandwidth) = self.bandwidth else { return };
        let wait = {
            let mut paid = self.paid.lock();
            let now = Instant::now();
            *paid = (*paid).max(now.checked_sub(SLACK).unwrap_or(now))
                + Duration::from_secs_f64(bytes as f64 / bandwidth.max(1) as f64);
            paid.saturating_duration_since(now)
        };
        if !wait.is_zero() {
            cancel.wait(wait);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_take_the_time_that_the_bandwidth_says() {
        let pace = Pace::new(Some(1_000_000));
        let began = Instant::now();
        for _ in 0..20 {
            pace.take(20_000, &Cancel::new());
        }
        assert!(began.elapsed() > Duration::from_millis(250), "{:?}", began.elapsed());
    }
}
