//! Ending calls that wait.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Tells calls to end. Clones are one.
#[derive(Clone, Debug, Default)]
pub struct Cancel {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    cancelled: AtomicBool,
    lock: Mutex<()>,
    rings: Condvar,
}

impl Cancel {
    /// One that has not been told yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends all calls that look at it, for good.
    pub fn cancel(&self) {
        let _held = self.shared.lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.shared.cancelled.store(true, Ordering::Release);
        self.shared.rings.notify_all();
    }

    /// Whether calls are to end.
    pub fn is_cancelled(&self) -> bool {
        self.shared.cancelled.load(Ordering::Acquire)
    }

    /// Waits for so long, or less if it is cancelled; whether it is.
    pub fn wait(&self, time: Duration) -> bool {
        let until = Instant::now().checked_add(time);
        let mut held = self.shared.lock.lock().unwrap_or_else(PoisonError::into_inner);
        while !self.is_cancelled() {
            let left = until.map_or(time, |until| until.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                break;
            }
            (held, _) = self.shared.rings.wait_timeout(held, left).unwrap_or_else(PoisonError::into_inner);
        }
        self.is_cancelled()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_when_it_is_cancelled() {
        let cancel = Cancel::new();
        assert!(!cancel.wait(Duration::from_millis(1)));
        let other = cancel.clone();
        let began = Instant::now();
        let waiter = std::thread::spawn(move || other.wait(Duration::from_mins(1)));
        cancel.cancel();
        assert!(waiter.join().expect("waits"));
        assert!(began.elapsed() < Duration::from_secs(30));
    }
}
