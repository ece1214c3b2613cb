//! The memory budget: one number for everything that grows with the data.
//!
//! What is counted is what is known to be held: keys, values, records with their place in the index, and the write sets of
//! transactions. It is an estimate of the allocator's work, not a measurement of it; locks held for reading, the log's
//! buffers and memory that waits for its epoch to pass are not in it.
//!
//! Bytes are reserved before anything is done with them, so a refusal has no effect to undo. A transaction reserves through
//! its [`Purse`], in steps, so that small transactions touch the shared counter twice, not once per write. Bytes that a
//! commit leaves in a table pass to that table, which gives them back when it is dropped.

use std::mem::size_of;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use ishigaki_base::ByteSize;
use parking_lot::Mutex;

use crate::key::Key;
use crate::protocol::RecordLock;
use crate::version::Version;
use crate::{Error, Result};

/// Memory in use, and the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryUse {
    /// Taken by keys, values, records and write sets.
    pub used: ByteSize,
    /// Kept by tables for keys to come: records whose keys are gone. It comes back when the table is dropped.
    pub spare: ByteSize,
    /// Taken by old versions of rows that a snapshot needs: at most [`Settings::snapshot_memory`](crate::Settings). They
    /// give way where the rest needs the budget.
    pub old: ByteSize,
    /// The most that all of these may be together.
    pub budget: ByteSize,
}

/// The budget of one database.
#[derive(Debug)]
pub(crate) struct Memory {
    budget: u64,
    used: AtomicU64,
    spare: AtomicU64,
    old: AtomicU64,
    /// What the lock of each record takes, if there are any.
    lock: u64,
    floats: Mutex<Vec<Weak<Float>>>,
}

/// What a session has reserved and no transaction of it needs just now. It counts as in use only for the budget, and comes
/// back when the budget is short.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Float {
    bytes: AtomicU64,
    memory: Weak<Memory>,
}

impl Float {
    /// The most that a session keeps.
    const KEPT: u64 = 64 << 10;

    fn take(&self) -> u64 {
        if self.bytes.load(Ordering::Relaxed) == 0 { 0 } else { self.bytes.swap(0, Ordering::Relaxed) }
    }
}

impl Drop for Float {
    fn drop(&mut self) {
        if let Some(memory) = self.memory.upgrade() {
            memory.release(self.take());
        }
    }
}

impl Memory {
    pub(crate) fn new(budget: ByteSize) -> Self {
        Self {
            budget: budget.as_u64(),
            used: AtomicU64::new(0),
            spare: AtomicU64::new(0),
            old: AtomicU64::new(0),
            lock: 0,
            floats: Mutex::default(),
        }
    }

    /// The same, with a lock for each record.
    pub(crate) fn with_locks(self) -> Self {
        Self { lock: size_of::<RecordLock>() as u64, ..self }
    }

    /// What a record costs of so many bytes.
    pub(crate) fn record(&self, bytes: u64) -> u64 {
        bytes + self.lock
    }

    pub(crate) fn usage(&self) -> MemoryUse {
        let floats: u64 = self.floats().iter().map(|float| float.bytes.load(Ordering::Relaxed)).sum();
        let used = self.used.load(Ordering::Relaxed).saturating_sub(floats);
        let size = |bytes: &AtomicU64| ByteSize::b(bytes.load(Ordering::Relaxed));
        MemoryUse {
            used: ByteSize::b(used),
            spare: size(&self.spare),
            old: ByteSize::b(positive(self.old.load(Ordering::Relaxed))),
            budget: ByteSize::b(self.budget),
        }
    }

    /// What a new session may keep.
    pub(crate) fn float(self: &Arc<Self>) -> Arc<Float> {
        let float = Arc::new(Float { bytes: AtomicU64::new(0), memory: Arc::downgrade(self) });
        let mut floats = self.floats.lock();
        floats.retain(|float| float.strong_count() > 0);
        floats.push(Arc::downgrade(&float));
        float
    }

    fn floats(&self) -> Vec<Arc<Float>> {
        // The last share of one must not be dropped under this lock.
        self.floats.lock().iter().filter_map(Weak::upgrade).collect()
    }

    /// Old versions take `bytes` more. Says whether they take more than `limit` now, or more than the rest leaves them.
    pub(crate) fn keep_old(&self, bytes: u64, limit: u64) -> bool {
        let old = positive(self.old.fetch_add(bytes, Ordering::Relaxed).wrapping_add(bytes));
        let rest = self.used.load(Ordering::Relaxed).saturating_add(self.spare.load(Ordering::Relaxed));
        old > limit || rest.saturating_add(old) > self.budget && old > 0
    }

    /// Old versions take `bytes` less. Who forgets them may be faster than who has kept them and says so next.
    pub(crate) fn forget_old(&self, bytes: u64) {
        self.old.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Takes `bytes` out of the budget, or nothing at all.
    pub(crate) fn reserve(&self, bytes: u64) -> Result<()> {
        self.reserve_within(bytes, self.budget).or_else(|_| {
            self.release(self.floats().iter().map(|float| float.take()).sum());
            self.reserve_within(bytes, self.budget)
        })
    }

    fn reserve_within(&self, bytes: u64, limit: u64) -> Result<()> {
        let limit = limit.saturating_sub(self.spare.load(Ordering::Relaxed));
        let fits = |used: u64| used.checked_add(bytes).filter(|&sum| sum <= limit);
        match self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits) {
            Ok(_) => Ok(()),
            Err(used) => Err(Error::MemoryExhausted {
                used: ByteSize::b(used.saturating_add(self.spare.load(Ordering::Relaxed))),
                needed: ByteSize::b(bytes),
                budget: ByteSize::b(self.budget),
            }),
        }
    }

    /// Reserved at once during recovery, if the budget has it.
    pub(crate) const STEP: u64 = 64 << 10;

    /// Takes at least `bytes` out of the budget, and says how many. Where records are replayed in any order, values that
    /// come too early or are about to be replaced are there beside each other for a while; so until the recovery is over,
    /// an eighth more than the budget may be in use.
    pub(crate) fn reserve_for_recovery(&self, bytes: u64) -> Result<u64> {
        let limit = self.budget.saturating_add(self.budget / 8);
        let step = bytes.max(Self::STEP);
        if self.reserve_within(step, limit - limit / 64).is_ok() {
            return Ok(step);
        }
        self.reserve_within(bytes, limit).map(|()| bytes)
    }

    /// `bytes` of a table are not in use now, and stay with the table.
    pub(crate) fn lay_aside(&self, bytes: u64) {
        self.spare.fetch_add(bytes, Ordering::Relaxed);
    }

    /// `bytes` that were laid aside are in use again, or gone with their table.
    pub(crate) fn take_up(&self, bytes: u64) {
        self.spare.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub(crate) fn release(&self, bytes: u64) {
        if bytes > 0 {
            self.used.fetch_sub(bytes, Ordering::Relaxed);
        }
    }
}

/// A sum that may be below zero for a moment.
fn positive(sum: u64) -> u64 {
    u64::try_from(sum.cast_signed()).unwrap_or(0)
}

/// What one transaction has reserved.
#[derive(Debug, Default)]
pub(crate) struct Purse {
    reserved: u64,
    spent: u64,
}

impl Purse {
    /// Reserved at once, if the budget has it, so that the shared counter is left alone for the next writes.
    const STEP: u64 = 8 << 10;

    /// One that has what the session kept.
    pub(crate) fn of(float: &Float) -> Self {
        Self { reserved: float.take(), spent: 0 }
    }

    /// Spends `bytes`, from what is reserved or from the budget.
    pub(crate) fn spend(&mut self, memory: &Memory, bytes: u64) -> Result<()> {
        let short = (self.spent + bytes).saturating_sub(self.reserved);
        if short > 0 {
            let step = short.max(Self::STEP);
            if memory.reserve(step).is_ok() {
                self.reserved += step;
            } else {
                memory.reserve(short)?;
                self.reserved += short;
            }
        }
        self.spent += bytes;
        Ok(())
    }

    /// What is spent and not handed over.
    #[cfg(test)]
    pub(crate) fn spent(&self) -> u64 {
        self.spent
    }

    /// Takes `bytes` that were spent back into the purse.
    pub(crate) fn refund(&mut self, bytes: u64) {
        self.spent -= bytes;
    }

    /// `bytes` that were spent belong to a table from now on.
    pub(crate) fn hand_over(&mut self, bytes: u64) {
        self.spent -= bytes;
        self.reserved -= bytes;
    }

    /// Gives all that is left back to the session, or to the budget.
    pub(crate) fn empty(&mut self, float: &Float, memory: &Memory) {
        let kept = Float::KEPT.saturating_sub(float.bytes.load(Ordering::Relaxed)).min(self.reserved);
        if kept > 0 {
            float.bytes.fetch_add(kept, Ordering::Relaxed);
        }
        memory.release(self.reserved - kept);
        *self = Self::default();
    }
}

/// What a key costs in an index: 16 bytes in a leaf that is about two thirds full, and the whole of it once more if it is
/// long.
pub(crate) fn key_cost(key: &[u8]) -> u64 {
    let beside = if key.len() > 8 { key.len() + 2 * size_of::<u64>() } else { 0 };
    (28 + beside) as u64
}

/// What a value costs that lies in no record.
pub(crate) fn value_cost(value: &[u8]) -> u64 {
    (value.len() + Version::OVERHEAD) as u64
}

/// What an entry of a write set costs beside its value, its lock included.
pub(crate) fn write_cost(key: &Key) -> u64 {
    (3 * (size_of::<Key>() + 2 * size_of::<usize>()) + 2 * key.heap()) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_reservation_takes_nothing() {
        let memory = Memory::new(ByteSize::b(100));
        memory.reserve(60).unwrap();
        assert!(matches!(memory.reserve(41), Err(Error::MemoryExhausted { .. })));
        assert!(memory.reserve(u64::MAX).is_err());
        memory.reserve(40).unwrap();
        memory.release(100);
        assert_eq!(memory.usage().used, ByteSize::b(0));
    }

    #[test]
    fn old_versions_may_be_forgotten_before_they_are_counted() {
        let memory = Memory::new(ByteSize::b(100));
        memory.forget_old(30);
        assert_eq!(memory.usage().old, ByteSize::b(0));
        assert!(!memory.keep_old(30, 50));
        assert!(!memory.keep_old(50, 50) && memory.keep_old(1, 50));
        memory.reserve(60).unwrap();
        assert!(memory.keep_old(0, 1000), "the rest needs it");
    }

    #[test]
    fn a_purse_gives_back_what_it_did_not_hand_over() {
        let memory = Arc::new(Memory::new(ByteSize::kib(64)));
        let float = memory.float();
        let mut purse = Purse::of(&float);
        purse.spend(&memory, 100).unwrap();
        purse.spend(&memory, 20_000).unwrap();
        purse.refund(50);
        purse.hand_over(1000);
        purse.empty(&float, &memory);
        assert_eq!(memory.usage().used, ByteSize::b(1000));
        // What the session keeps is there for whoever needs it.
        assert!(memory.used.load(Ordering::Relaxed) > 1000);
        memory.reserve(63 << 10).unwrap();
        memory.release(63 << 10);
        drop(float);
        assert_eq!(memory.used.load(Ordering::Relaxed), 1000);
    }

    #[test]
    fn a_session_keeps_little_and_gives_it_back_when_it_ends() {
        let memory = Arc::new(Memory::new(ByteSize::mib(1)));
        let float = memory.float();
        let used = || memory.used.load(Ordering::Relaxed);
        for _ in 0..2 {
            let mut purse = Purse::of(&float);
            purse.spend(&memory, 200_000).unwrap();
            purse.empty(&float, &memory);
            assert_eq!((used(), memory.usage().used), (Float::KEPT, ByteSize::b(0)));
        }
        drop(float);
        assert_eq!(used(), 0);
    }

    #[test]
    fn what_is_laid_aside_is_in_the_budget() {
        let memory = Memory::new(ByteSize::b(100));
        memory.lay_aside(60);
        assert!(memory.reserve(41).is_err() && memory.keep_old(41, 1000));
        memory.take_up(60);
        memory.forget_old(41);
        assert!(memory.reserve(41).is_ok() && !memory.keep_old(41, 1000));
    }

    #[test]
    fn a_purse_takes_exactly_what_it_needs_near_the_limit() {
        let memory = Memory::new(ByteSize::b(100));
        let mut purse = Purse::default();
        purse.spend(&memory, 100).unwrap();
        assert!(purse.spend(&memory, 1).is_err());
        purse.refund(10);
        purse.spend(&memory, 10).unwrap();
    }

    #[test]
    fn short_keys_need_no_allocation() {
        assert_eq!(Key::new(&[1; 24]).unwrap().heap(), 0);
        assert_eq!(Key::new(&[1; 25]).unwrap().heap(), 25);
    }
}
