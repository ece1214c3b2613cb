//! Polling for as long as it pays.
//!
//! Who waits for somebody else's write can sleep, and then it takes a while to wake up, or poll, and then it takes a core.
//! Polling pays when the answer comes soon and when there is a core to spare. Whether it came soon is counted; after
//! polls in vain the next ones are left out, more of them each time.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::thread::{self, available_parallelism};
use std::time::{Duration, Instant};

/// Nobody polls for longer than this: about what waking up twice takes.
const BUDGET: Duration = Duration::from_micros(120);

/// The most polls that are left out in a row.
const MOST_LEFT_OUT: u32 = 1024;

/// Whether to poll.
#[derive(Debug)]
pub(super) struct Polling {
    on: bool,
    /// Threads that may poll at once.
    seats: usize,
    taken: AtomicUsize,
    /// Polls to be left out.
    left_out: AtomicU32,
    /// How many are left out after the next one in vain.
    penalty: AtomicU32,
}

impl Polling {
    pub(super) fn new(on: bool) -> Self {
        // One core is for whoever writes.
        let seats = available_parallelism().map_or(1, usize::from) - 1;
        let (taken, left_out, penalty) = (AtomicUsize::new(0), AtomicU32::new(0), AtomicU32::new(1));
        Self { on, seats, taken, left_out, penalty }
    }

    pub(super) fn is_on(&self) -> bool {
        self.on
    }

    /// Whether to poll for something that takes so long. If so, [`poll`](Self::poll) must follow.
    pub(super) fn pays(&self, expected: Duration) -> bool {
        if !self.on || expected > BUDGET {
            return false;
        }
        if self.left_out.load(Ordering::Relaxed) > 0 {
            self.left_out.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        if self.taken.fetch_add(1, Ordering::Relaxed) < self.seats {
            return true;
        }
        self.taken.fetch_sub(1, Ordering::Relaxed);
        false
    }

    /// Polls until it is done or has taken too long.
    pub(super) fn poll(&self, done: impl Fn() -> bool) {
        let began = Instant::now();
        let came = loop {
            if done() {
                break true;
            }
            if began.elapsed() > BUDGET {
                break false;
            }
            thread::yield_now();
        };
        self.taken.fetch_sub(1, Ordering::Relaxed);
        let penalty = self.penalty.load(Ordering::Relaxed);
        if came {
            self.penalty.store((penalty / 2).max(1), Ordering::Relaxed);
        } else {
            self.left_out.store(penalty, Ordering::Relaxed);
            self.penalty.store((penalty * 2).min(MOST_LEFT_OUT), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polls_in_vain_become_rare_and_come_back_when_they_pay() {
        let polling = Polling { seats: 1, ..Polling::new(true) };
        let poll = |done: bool| {
            let mut asked = 1;
            while !polling.pays(Duration::from_micros(50)) {
                asked += 1;
            }
            polling.poll(|| done);
            asked
        };
        let in_vain: Vec<i32> = (0..5).map(|_| poll(false)).collect();
        assert_eq!(in_vain, [1, 2, 3, 5, 9]);
        poll(true);
        let paid: Vec<i32> = (0..3).map(|_| poll(true)).collect();
        assert_eq!(paid, [1, 1, 1]);
    }

    #[test]
    fn nobody_polls_for_a_slow_medium_or_without_a_core_to_spare() {
        let polling = Polling { seats: 1, ..Polling::new(true) };
        assert!(!polling.pays(Duration::from_millis(8)));
        assert!(polling.pays(Duration::from_micros(20)) && !polling.pays(Duration::from_micros(20)));
        polling.poll(|| true);
        assert!(polling.pays(Duration::from_micros(20)));
    }
}
