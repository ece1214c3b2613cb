//! The word of a record: lock, life and validity of its version in 64 bits (TicToc, section 3.2).
//!
//! ```text
//!  63     62      61    60        48 47                     0
//! ┌──────┬───────┬─────┬────────────┬────────────────────────┐
//! │ lock │ absent│ dead│ rts − wts  │          wts           │
//! └──────┴───────┴─────┴────────────┴────────────────────────┘
//! ```
//!
//! A version is *valid* from `wts`, the timestamp of who wrote it, to `rts`, the largest timestamp of who read it. Whoever
//! writes the next one takes a timestamp behind `rts`; so within the range a transaction may read it whatever happens.
//!
//! - *Reading* writes nothing: the word, then the version, then the word again; if that is the same and not locked, what was
//!   read belongs together.
//! - *Extending* `rts` is one compare-and-swap. If the difference no longer fits, `wts` moves up behind it: the range then
//!   says less than is true, which costs those who have read the version a needless conflict (one extension in 8192).
//! - *Locking* is a compare-and-swap too; nobody waits in it.
//!
//! `wts` only grows, whatever becomes of a key: it tells one version of a key from another. Timestamps are counted from zero
//! each time that a database is opened. 2^48 of them last for 8 years if a million transactions a second each overwrite what
//! the one before has written, which is the fastest way to use them up; then commits are refused, and opening again helps.

use ishigaki_base::sync::atomic::{AtomicU64, Ordering, fence};

/// A moment of the order in which transactions commit.
pub type Timestamp = u64;

const WTS_BITS: u32 = 48;
const DELTA_BITS: u32 = 13;
const DELTA: u64 = (1 << DELTA_BITS) - 1;
const LOCK: u64 = 1 << 63;
const ABSENT: u64 = 1 << 62;
const DEAD: u64 = 1 << 61;

/// The last timestamp that a transaction can commit with.
pub(crate) const LAST: Timestamp = (1 << WTS_BITS) - 1;

/// What a word says at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp(u64);

impl Stamp {
    /// Of a version valid at `wts` only.
    #[inline]
    pub fn new(wts: Timestamp, absent: bool) -> Self {
        Self(wts | if absent { ABSENT } else { 0 })
    }

    /// When the version was written.
    #[inline]
    pub fn wts(self) -> Timestamp {
        self.0 & LAST
    }

    /// Up to when the version is valid, at least.
    #[inline]
    pub fn rts(self) -> Timestamp {
        self.wts() + (self.0 >> WTS_BITS & DELTA)
    }

    /// Somebody is writing, or about to.
    #[inline]
    pub fn is_locked(self) -> bool {
        self.0 & LOCK != 0
    }

    /// There is no value.
    #[inline]
    pub fn is_absent(self) -> bool {
        self.0 & ABSENT != 0
    }

    /// The record has left the index.
    #[inline]
    pub fn is_dead(self) -> bool {
        self.0 & DEAD != 0
    }

    /// The same version, valid up to `rts` if it is not yet.
    #[must_use]
    pub fn extended(self, rts: Timestamp) -> Self {
        if rts <= self.rts() {
            return self;
        }
        // By as little as leaves room again: the next overflow is far away then.
        let delta = (rts - self.wts()) & DELTA;
        Self(self.0 & (LOCK | ABSENT | DEAD) | delta << WTS_BITS | (rts - delta))
    }

    /// The same and locked.
    #[must_use]
    #[inline]
    pub fn locked(self) -> Self {
        Self(self.0 | LOCK)
    }

    /// The same and not locked.
    #[must_use]
    #[inline]
    pub fn unlocked(self) -> Self {
        Self(self.0 & !LOCK)
    }

    /// The same, not locked, and dead.
    #[must_use]
    pub fn dead(self) -> Self {
        Self(self.0 & !LOCK | DEAD)
    }

    /// True if both are of the same version of one key.
    #[inline]
    pub fn is_same_version(self, other: Self) -> bool {
        (self.0 ^ other.0) & (ABSENT | DEAD | LAST) == 0
    }
}

/// Why a version could not be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Another transaction has it locked.
    Locked,
    /// It is not the newest one any more, or the record has left the index.
    Changed,
}

/// The word itself.
#[derive(Debug, Default)]
#[cfg_attr(not(loom), derive(zerocopy::FromZeros))]
pub struct Word(AtomicU64);

impl Word {
    /// A word that says so.
    pub fn new(stamp: Stamp) -> Self {
        Self(AtomicU64::new(stamp.0))
    }

    /// What it says now.
    #[inline]
    pub fn load(&self) -> Stamp {
        Stamp(self.0.load(Ordering::Acquire))
    }

    /// Looks at what the word protects. `None` if somebody was writing meanwhile, and `look` may then have seen parts of two
    /// versions. Whoever has the lock has a release fence between locking and writing: then, if `look` saw anything of a new
    /// version, the second look at the word, behind an acquire fence, sees the lock that was taken before.
    #[inline]
    pub fn read<R>(&self, look: impl FnOnce() -> R) -> Option<(Stamp, R)> {
        let before = self.load();
        if before.is_locked() {
            return None;
        }
        let seen = look();
        fence(Ordering::Acquire);
        let after = Stamp(self.0.load(Ordering::Relaxed));
        (!after.is_locked() && after.is_same_version(before)).then_some((after, seen))
    }

    /// Takes the lock; what it said before. Never waits for somebody else's.
    pub fn try_lock(&self) -> Result<Stamp, Refused> {
        self.try_lock_if(|now| !now.is_dead())
    }

    /// Takes the lock if the version is still that one, and does not touch it if not.
    #[inline]
    pub(crate) fn try_lock_version(&self, seen: Stamp) -> Result<Stamp, Refused> {
        self.try_lock_if(|now| now.is_same_version(seen))
    }

    #[inline]
    fn try_lock_if(&self, is_right: impl Fn(Stamp) -> bool) -> Result<Stamp, Refused> {
        let mut stamp = self.load();
        loop {
            if !is_right(stamp) {
                return Err(Refused::Changed);
            }
            if stamp.is_locked() {
                return Err(Refused::Locked);
            }
            match self.exchange(stamp, stamp.locked()) {
                Ok(()) => return Ok(stamp),
                Err(now) => stamp = now,
            }
        }
    }

    /// Makes the version that `seen` is of valid up to `rts`. Somebody else's lock is in the way only if it is not yet: he
    /// will commit behind what it is valid for.
    #[inline]
    pub fn extend(&self, seen: Stamp, rts: Timestamp) -> Result<(), Refused> {
        let mut stamp = self.load();
        loop {
            if !stamp.is_same_version(seen) {
                return Err(Refused::Changed);
            }
            if stamp.rts() >= rts {
                return Ok(());
            }
            if stamp.is_locked() {
                return Err(Refused::Locked);
            }
            match self.exchange(stamp, stamp.extended(rts)) {
                Ok(()) => return Ok(()),
                Err(now) => stamp = now,
            }
        }
    }

    /// Locks the word of a record that no key has, for a key that it is to be the record of. Nothing that was seen of its last
    /// key is the same version as anything to come, since timestamps go on from there. Says from where on.
    ///
    /// Who has seen it before finds it dead until now, and locked from now on.
    pub(crate) fn begin_again(&self) -> Timestamp {
        let least = self.next_life();
        self.store(Stamp::new(least, true).locked());
        least
    }

    /// From where on the timestamps of the next key's versions go, of a record that no key has.
    pub(crate) fn next_life(&self) -> Timestamp {
        let now = self.load();
        now.wts() + u64::from(now.is_dead())
    }

    /// True if the record of a key that is gone can be another key's.
    pub(crate) fn can_begin_again(&self) -> bool {
        self.load().wts() < LAST
    }

    /// Says that there is another version, of a key that is there. For whoever may write while nobody reads by the word.
    pub(crate) fn renew(&self) {
        self.store(Stamp::new((self.load().wts() + 1) & LAST, false));
    }

    /// Says something new. Only for whoever has the lock, or the record for himself.
    #[inline]
    pub fn store(&self, stamp: Stamp) {
        self.0.store(stamp.0, Ordering::Release);
    }

    #[inline]
    fn exchange(&self, from: Stamp, to: Stamp) -> Result<(), Stamp> {
        let exchanged = self.0.compare_exchange_weak(from.0, to.0, Ordering::AcqRel, Ordering::Acquire);
        exchanged.map(drop).map_err(Stamp)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_keeps_all_that_it_says() {
        let stamp = Stamp::new(LAST - DELTA, true).extended(LAST).locked();
        assert_eq!((stamp.wts(), stamp.rts()), (LAST - DELTA, LAST));
        assert!(stamp.is_locked() && stamp.is_absent() && !stamp.is_dead());
        let dead = stamp.dead();
        assert!(!dead.is_locked() && dead.is_absent() && dead.is_dead());
        assert_eq!(dead.rts(), LAST);
    }

    #[test]
    fn a_difference_that_does_not_fit_moves_the_beginning() {
        let stamp = Stamp::new(5, false);
        assert_eq!(stamp.extended(5 + DELTA).wts(), 5);
        let moved = stamp.extended(6 + DELTA);
        assert_eq!((moved.wts(), moved.rts()), (6 + DELTA, 6 + DELTA));
        assert!(!moved.is_same_version(stamp), "it can not be told from another version any more");
        let next = moved.extended(moved.rts() + DELTA);
        assert!(next.is_same_version(moved), "there is room again");
        let far = stamp.extended(LAST);
        assert!(far.rts() == LAST && (LAST - DELTA..=LAST).contains(&far.wts()));
        assert_eq!(far.extended(7), far, "a range never shrinks");
    }

    #[test]
    fn who_is_locked_out_is_told_why() {
        let word = Word::new(Stamp::new(3, false).extended(5));
        let seen = word.try_lock().unwrap();
        assert_eq!(word.try_lock(), Err(Refused::Locked));
        assert_eq!(word.read(|| ()), None);
        assert_eq!(word.extend(seen, 5), Ok(()), "whoever has the lock will commit behind 5");
        assert_eq!(word.extend(seen, 6), Err(Refused::Locked));
        word.store(Stamp::new(6, false));
        assert_eq!(word.extend(seen, 4), Err(Refused::Changed));
        word.store(word.load().dead());
        assert_eq!(word.try_lock(), Err(Refused::Changed));
    }
}
