//! Callers that wait for a place in some connection.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use super::held;

/// Tells those that wait for a place in some connection.
#[derive(Default)]
pub(in crate::source) struct Room {
    waiting: AtomicUsize,
    lock: Mutex<()>,
    rings: Condvar,
}

impl Room {
    pub(in crate::source) fn wait(&self, time: Duration) {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        drop(self.rings.wait_timeout(held(&self.lock), time));
        self.waiting.fetch_sub(1, Ordering::SeqCst);
    }

    pub(in crate::source) fn ring(&self) {
        // One that begins to wait just now wakes up by its time.
        if self.waiting.load(Ordering::SeqCst) > 0 {
            drop(held(&self.lock));
            self.rings.notify_all();
        }
    }
}
