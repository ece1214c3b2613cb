//! How the commit thread sleeps and who wakes it.
//!
//! Two depths. It *dozes* while records wait for nobody in particular: until a group's time is over, or somebody cannot
//! wait for that. It *sleeps* when there are no records at all, until one comes. Whoever has reason to rings; while the
//! thread is awake that costs him one look at a line that hardly ever changes.

use std::sync::atomic::{AtomicU8, Ordering};
use std::thread::{self, Thread};
use std::time::Duration;

use parking_lot::Mutex;

/// How deep the thread sleeps.
const AWAKE: u8 = 0;
const DOZING: u8 = 1;
const ASLEEP: u8 = 2;

/// One thread's alarm.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Alarm {
    depth: AtomicU8,
    sleeper: Mutex<Option<Thread>>,
}

impl Alarm {
    /// Says who is woken.
    pub(crate) fn hang(&self, sleeper: Thread) {
        *self.sleeper.lock() = Some(sleeper);
    }

    /// Wakes the thread, however deep it sleeps.
    pub(crate) fn ring(&self) {
        if self.depth.load(Ordering::SeqCst) != AWAKE
            && self.depth.swap(AWAKE, Ordering::SeqCst) != AWAKE
            && let Some(sleeper) = &*self.sleeper.lock()
        {
            sleeper.unpark();
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
        match longest {
            Some(longest) => thread::park_timeout(longest),
            None => thread::park(),
        }
        self.depth.swap(AWAKE, Ordering::SeqCst) == AWAKE
    }
}
