//! The one word by which a node is locked, validated and told apart from what it was before.
//!
//! ```text
//!  63                                   2    1     0
//! ┌──────────────────────────────────────┬──────┬──────┐
//! │ how often the node has changed       │ void │ held │
//! └──────────────────────────────────────┴──────┴──────┘
//! ```
//!
//! A reader takes a [`Stamp`] of a node that nobody holds, reads what it likes, and then [checks](Version::check) that the
//! word is still the same: if so, nothing of what it read was being changed. If not, it begins again. A writer turns its
//! stamp into a lock by one compare-and-swap, which fails if anything has changed since; so whatever it has read by then is
//! still true. Only a lock under which something changed leaves a new count behind.
//!
//! A node that was taken out of the tree is void until it is used again. Its count goes on through all its lives, so a
//! stamp never fits twice.
//!
//! The order of memory is that of a sequence lock (Boehm, "Can seqlocks get along with programming language memory
//! models?", MSPC 2012): all words of a node are atomics, read and written relaxed. A release fence behind the lock and an
//! acquire fence in front of the check make a reader that has seen any write also see the lock.

use ishigaki_base::sync::atomic::{AtomicU64, Ordering, fence};
use ishigaki_base::sync::thread;

const HELD: u64 = 1;
const VOID: u64 = 2;
const CHANGE: u64 = 4;

/// How often a reader looks at a held word before it gives way.
const SPINS: u32 = if cfg!(loom) { 0 } else { 64 };

/// What a node's word was when nobody held it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp(pub(crate) u64);

/// What was read may be torn or out of date: begin again.
#[derive(Debug)]
pub(crate) struct Restart;

/// A node's word.
#[derive(Debug)]
#[cfg_attr(not(loom), derive(zerocopy::FromZeros))]
pub(crate) struct Version(AtomicU64);

impl Version {
    /// For a node that is in no tree yet.
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// The stamp as it is now, once nobody holds the node.
    #[inline]
    pub(crate) fn read(&self) -> Result<Stamp, Restart> {
        let word = self.0.load(Ordering::Acquire);
        if word & (HELD | VOID) == 0 { Ok(Stamp(word)) } else { self.wait(word) }
    }

    #[cold]
    fn wait(&self, mut word: u64) -> Result<Stamp, Restart> {
        let mut spins = 0;
        while word & HELD != 0 {
            if spins < SPINS {
                spins += 1;
                std::hint::spin_loop();
            } else {
                thread::yield_now();
            }
            word = self.0.load(Ordering::Acquire);
        }
        if word & VOID == 0 { Ok(Stamp(word)) } else { Err(Restart) }
    }

    /// Everything that was read since `stamp` was taken was true at one moment.
    #[inline]
    pub(crate) fn check(&self, stamp: Stamp) -> Result<(), Restart> {
        fence(Ordering::Acquire);
        if self.0.load(Ordering::Relaxed) == stamp.0 { Ok(()) } else { Err(Restart) }
    }

    /// The node holds the same keys as when `stamp` was taken. A node that is held just now counts as changed.
    #[inline]
    pub(crate) fn is(&self, stamp: Stamp) -> bool {
        self.check(stamp).is_ok()
    }

    /// Locks the node, if it has not changed since `stamp`.
    #[inline]
    pub(crate) fn lock(&self, stamp: Stamp) -> Result<(), Restart> {
        match self.0.compare_exchange(stamp.0, stamp.0 | HELD, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => {
                fence(Ordering::Release);
                Ok(())
            }
            Err(_) => Err(Restart),
        }
    }

    /// Unlocks a node in which nothing changed.
    #[inline]
    pub(crate) fn unlock(&self, stamp: Stamp) {
        self.0.store(stamp.0, Ordering::Release);
    }

    /// Unlocks a node that changed; returns the stamp that it has from now on.
    #[inline]
    pub(crate) fn unlock_changed(&self, stamp: Stamp) -> Stamp {
        let next = stamp.0 + CHANGE;
        self.0.store(next, Ordering::Release);
        Stamp(next)
    }

    /// Unlocks a node that is not part of the tree any more.
    pub(crate) fn unlock_void(&self, stamp: Stamp) {
        self.0.store((stamp.0 + CHANGE) | VOID, Ordering::Release);
    }

    /// Begins a new life: whoever still reads the node for what it was will notice. Only for a node that no one else can
    /// lock, which is void or was never used.
    pub(crate) fn revive(&self) -> Stamp {
        let next = (self.0.load(Ordering::Relaxed) & !VOID) + CHANGE;
        self.0.store(next | HELD, Ordering::Relaxed);
        fence(Ordering::Release);
        Stamp(next - CHANGE)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_fits_until_something_changes() {
        let version = Version::new();
        let stamp = version.read().unwrap();
        version.lock(stamp).unwrap();
        assert!(version.check(stamp).is_err() && version.lock(stamp).is_err());
        version.unlock(stamp);
        assert!(version.is(stamp));
        version.lock(stamp).unwrap();
        let next = version.unlock_changed(stamp);
        assert!(!version.is(stamp) && version.is(next) && version.lock(stamp).is_err());
    }

    #[test]
    fn no_stamp_of_an_earlier_life_fits_a_later_one() {
        let version = Version::new();
        let first = version.read().unwrap();
        version.lock(first).unwrap();
        version.unlock_void(first);
        assert!(version.read().is_err() && !version.is(first));
        let held = version.revive();
        assert!(!version.is(first) && version.lock(first).is_err());
        let second = version.unlock_changed(held);
        assert_eq!(version.read().unwrap(), second);
        assert_ne!(first, second);
    }
}
