//! A bell that sleeping threads wait for: they wake without queueing for any lock.
//!
//! A condition variable hands its lock to one woken thread after the other. Those who wait for a group have nothing to do
//! under a lock when it is durable; with a bell they all run at once. Whoever rings has better things to do than to wake
//! many: it wakes one, and that one wakes the others.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Rings; each ring changes its count.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    rings: AtomicU32,
    /// Threads that sleep or are about to.
    sleepers: AtomicU32,
    /// Whoever wakes next wakes the others.
    passes_on: AtomicBool,
}

impl Bell {
    /// How often it has rung: to be read before the last look at what is waited for.
    pub(crate) fn rings(&self) -> u32 {
        self.rings.load(Ordering::SeqCst)
    }

    /// Sleeps unless it has rung since it had rung `seen` times. May return early.
    pub(crate) fn wait(&self, seen: u32) {
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        atomic_wait::wait(&self.rings, seen);
        let others = self.sleepers.fetch_sub(1, Ordering::SeqCst) - 1;
        if self.passes_on.load(Ordering::SeqCst) && self.passes_on.swap(false, Ordering::SeqCst) && others > 0 {
            atomic_wait::wake_all(&raw const self.rings);
        }
    }

    /// Wakes everybody.
    pub(crate) fn ring(&self) {
        self.passes_on.store(true, Ordering::SeqCst);
        self.ring_for_one();
    }

    /// Wakes one.
    pub(crate) fn ring_for_one(&self) {
        self.rings.fetch_add(1, Ordering::SeqCst);
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            atomic_wait::wake_one(&raw const self.rings);
        }
    }
}
