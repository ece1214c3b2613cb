//! Holds the crawler back to a bandwidth.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::source::Cancel;

/// So much may be caught up with at once.
const SLACK: Duration = Duration::from_millis(100);

pub(super) struct Pace {
    bandwidth: Option<u64>,
    /// One caller waits for its bytes, the others for their turn: nothing is promised to them yet, and one that comes first may come soon.
    turn: Mutex<()>,
    /// When what was taken so far will have been paid for.
    paid: Mutex<Instant>,
}

impl Pace {
    pub(super) fn new(bandwidth: Option<u64>) -> Self {
        Self { bandwidth, turn: Mutex::default(), paid: Mutex::new(Instant::now()) }
    }

    /// Waits until so many bytes more fit into the bandwidth.
    pub(super) fn take(&self, bytes: u64, cancel: &Cancel) {
        let Some(bandwidth) = self.bandwidth else { return };
        let _turn = self.turn.lock();
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

    #[test]
    fn bytes_are_promised_to_one_caller_at_a_time() {
        let (pace, cancel) = (Pace::new(Some(1_000_000)), Cancel::new());
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| pace.take(60_000_000, &cancel));
            }
            std::thread::sleep(Duration::from_millis(200));
            let ahead = pace.paid.lock().saturating_duration_since(Instant::now());
            cancel.cancel();
            assert!(ahead <= Duration::from_mins(1), "{ahead:?}");
        });
    }
}
