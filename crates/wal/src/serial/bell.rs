//! How the commit thread sleeps and who wakes it.
//!
//! Two depths. It *dozes* while records wait for nobody in particular: until a group's time is over, or somebody cannot
//! wait for that. It *sleeps* when there are no records at all, until one comes. Whoever has reason to rings; while the
//! thread is awake that costs him one look at a line that hardly ever changes.

use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// How deep the thread sleeps.
const AWAKE: u8 = 0;
const DOZING: u8 = 1;
const ASLEEP: u8 = 2;

/// One thread's bell.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Bell {
    depth: AtomicU8,
    rung: Mutex<bool>,
    changed: Condvar,
}

impl Bell {
    /// Wakes the thread, however deep it sleeps.
    pub(crate) fn ring(&self) {
        if self.depth.load(Ordering::SeqCst) != AWAKE && self.depth.swap(AWAKE, Ordering::SeqCst) != AWAKE {
            *self.rung.lock() = true;
            self.changed.notify_one();
        }
    }

    /// Wakes the thread if it sleeps for lack of records. Called with the buffer's lock held.
    pub(crate) fn nudge(&self) {
        if self.depth.load(Ordering::Relaxed) == ASLEEP {
            self.ring();
        }
    }

    /// Says that the thread is about to doze. What it was not to miss must be looked at after this.
    pub(crate) fn doze(&self) {
        self.depth.store(DOZING, Ordering::SeqCst);
    }

    /// Says that the thread is about to sleep. Called with the buffer's lock held and no record in the buffer: whoever
    /// draws next sees it.
    pub(crate) fn fall_asleep(&self) {
        self.depth.store(ASLEEP, Ordering::SeqCst);
    }

    /// Takes the word back.
    pub(crate) fn stay_awake(&self) {
        self.depth.store(AWAKE, Ordering::SeqCst);
    }

    /// Returns when somebody rings, or after a while. True when it was a ring.
    pub(crate) fn listen(&self, longest: Option<Duration>) -> bool {
        let mut rung = self.rung.lock();
        if let Some(longest) = longest {
            self.changed.wait_while_for(&mut rung, |rung| !*rung, longest);
        } else {
            self.changed.wait_while(&mut rung, |rung| !*rung);
        }
        self.stay_awake();
        std::mem::take(&mut rung)
    }
}
