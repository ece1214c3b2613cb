//! Those who wait until their record is durable, in the order of what they wait for.
//!
//! A chunk wakes exactly those whose record it made durable: everybody sleeps on a token of his own.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::thread::{self, Thread};

use ishigaki_base::Lsn;
use parking_lot::Mutex;

/// Sleeping threads. May be shared by any number of them.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    sleeping: Mutex<BinaryHeap<Waiter>>,
}

/// Ordered so that the heap's greatest is the one with the smallest LSN.
#[derive(Debug)]
struct Waiter {
    lsn: Lsn,
    thread: Thread,
}

impl Waiters {
    /// Sleeps until `over` holds, which [`wake`](Self::wake) for `lsn` or [`wake_all`](Self::wake_all) makes known.
    pub(crate) fn sleep(&self, lsn: Lsn, over: impl Fn() -> bool) {
        {
            let mut sleeping = self.sleeping.lock();
            // Under the lock: whoever makes it true wakes after this.
            if over() {
                return;
            }
            sleeping.push(Waiter { lsn, thread: thread::current() });
        }
        while !over() {
            thread::park();
        }
    }

    /// Wakes who waits for an LSN up to `durable`, and nobody else.
    pub(crate) fn wake(&self, durable: Lsn) {
        let mut woken = Vec::new();
        {
            let mut sleeping = self.sleeping.lock();
            while sleeping.peek().is_some_and(|waiter| waiter.lsn <= durable) {
                woken.extend(sleeping.pop());
            }
        }
        for waiter in woken {
            waiter.thread.unpark();
        }
    }

    /// Wakes everybody: the log has failed, or its thread is gone.
    pub(crate) fn wake_all(&self) {
        self.wake(Lsn::MAX);
    }
}

impl Ord for Waiter {
    fn cmp(&self, other: &Self) -> Ordering {
        other.lsn.cmp(&self.lsn)
    }
}

impl PartialOrd for Waiter {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Waiter {
    fn eq(&self, other: &Self) -> bool {
        self.lsn == other.lsn
    }
}

impl Eq for Waiter {}
