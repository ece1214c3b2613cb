//! The memory budget: one number for everything that grows with the data.
//!
//! What is counted is what is known to be held: keys, values, records with their place in the index, and the write sets of
//! transactions. It is an estimate of the allocator's work, not a measurement of it; locks held for reading, the log's
//! buffers and memory that waits for its epoch to pass are not in it.
//!
//! Bytes are reserved before anything is done with them, so a refusal has no effect to undo; but for the nodes of indexes,
//! which are counted when they are there. A transaction reserves through
//! its [`Purse`], in steps, so that small transactions touch the shared counter twice, not once per write. Bytes that a
//! commit leaves in a table pass to that table, which gives them back when it is dropped.

use std::mem::size_of;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use ishigaki_base::ByteSize;
use parking_lot::Mutex;
use sdd::Guard;

use crate::key::Key;
use crate::protocol::RecordLock;
use crate::table::Table;
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
    /// Tables, which may have spare records.
    tables: Mutex<Vec<Weak<Table>>>,
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
            tables: Mutex::default(),
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

    /// Takes `bytes` out of the budget, or nothing at all. What sessions keep and what tables have spare gives way.
    pub(crate) fn reserve(&self, bytes: u64) -> Result<()> {
        self.reserve_within(bytes, self.budget).or_else(|_| self.make_room(bytes, Self::ROUNDS))
    }

    /// The same for what a write takes until its transaction ends. Where the memory is full of spare records that can not go,
    /// but can be used, a little more than the budget may be in use.
    fn reserve_for_write(&self, bytes: u64) -> Result<()> {
        self.reserve(bytes).or_else(|refused| {
            let has_spare = self.spare.load(Ordering::Relaxed) >= bytes;
            let slack = self.budget.saturating_add(self.budget / 64);
            if has_spare { self.reserve_within(bytes, slack) } else { Err(refused) }
        })
    }

    /// The same, without waiting for deleted records to become spare.
    fn reserve_at_once(&self, bytes: u64) -> Result<()> {
        self.reserve_within(bytes, self.budget).or_else(|_| self.make_room(bytes, 1))
    }

    /// The same, if nothing has to give way.
    fn reserve_at_ease(&self, bytes: u64) -> bool {
        self.reserve_within(bytes, self.budget).is_ok()
    }

    #[cold]
    fn make_room(&self, bytes: u64, rounds: u32) -> Result<()> {
        self.release(self.floats().iter().map(|float| float.take()).sum());
        let mut outcome = self.reserve_within(bytes, self.budget);
        for round in 0..rounds {
            if outcome.is_ok() || self.spare.load(Ordering::Relaxed) == 0 {
                break;
            }
            if round > 0 {
                // Records that were deleted just now become spare when the threads that may still look at them go on.
                Guard::new().accelerate();
                std::thread::sleep(Duration::from_micros(1 << round));
            }
            let (given, are_more_to_come) = self.shrink_tables(bytes.max(Self::TOGETHER));
            if given {
                outcome = self.reserve_within(bytes, self.budget);
            }
            if !are_more_to_come {
                break;
            }
        }
        outcome
    }

    /// Has tables give back spare records, `wanted` bytes of them if there are as many. Says whether there were any, and whether
    /// others are about to become spare.
    fn shrink_tables(&self, wanted: u64) -> (bool, bool) {
        // The last share of one must not be dropped under this lock.
        let tables: Vec<_> = self.tables.lock().iter().filter_map(Weak::upgrade).collect();
        let (mut given, mut leaving) = (0, false);
        for table in tables {
            leaving |= table.has_leaving();
            if given < wanted {
                given += table.shrink(wanted - given);
            }
        }
        (given > 0, leaving)
    }

    /// Looks after the spare records of a table from now on.
    pub(crate) fn look_after(&self, table: &Arc<Table>) {
        let mut tables = self.tables.lock();
        if tables.len() == tables.capacity() {
            tables.retain(|table| table.strong_count() > 0);
        }
        tables.push(Arc::downgrade(table));
    }

    /// Takes `bytes` out of the budget, even beyond it.
    pub(crate) fn take(&self, bytes: u64) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    /// So much do tables give back together, if they have as much spare.
    const TOGETHER: u64 = 1 << 20;

    /// How often spare records are looked for, for one reservation: for 16 ms.
    const ROUNDS: u32 = 14;

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
    /// How far deletions may go beyond the budget, and how far they went.
    allowed: u64,
    beyond: u64,
}

impl Purse {
    /// Reserved at once, if the budget has it, so that the shared counter is left alone for the next writes.
    const STEP: u64 = 8 << 10;

    /// One that has what the session kept.
    pub(crate) fn of(float: &Float) -> Self {
        Self { reserved: float.take(), ..Self::default() }
    }

    /// Spends `bytes`, from what is reserved or from the budget.
    pub(crate) fn spend(&mut self, memory: &Memory, bytes: u64) -> Result<()> {
        self.spend_of(bytes, memory, Memory::reserve)
    }

    /// The same, without waiting for deleted records to become spare.
    pub(crate) fn spend_at_once(&mut self, memory: &Memory, bytes: u64) -> Result<()> {
        self.spend_of(bytes, memory, Memory::reserve_at_once)
    }

    /// Spends `bytes` on a write of a value, until the transaction ends or the value is where it stays.
    pub(crate) fn spend_on_write(&mut self, memory: &Memory, bytes: u64) -> Result<()> {
        self.spend_of(bytes, memory, Memory::reserve_for_write)
    }

    #[inline]
    fn spend_of(&mut self, bytes: u64, memory: &Memory, reserve: fn(&Memory, u64) -> Result<()>) -> Result<()> {
        let short = (self.spent + bytes).saturating_sub(self.reserved);
        if short > 0 {
            let step = short.max(Self::STEP);
            if memory.reserve_at_ease(step) {
                self.reserved += step;
            } else {
                reserve(memory, short)?;
                self.reserved += short;
            }
        }
        self.spent += bytes;
        Ok(())
    }

    /// Spends `bytes` on the deletion of what takes `freed`. If the budget does not have them, it is exceeded until the
    /// transaction ends, by at most twice what its deletions give back: to delete is what helps when memory is full.
    pub(crate) fn spend_on_deletion(&mut self, memory: &Memory, bytes: u64, freed: u64) -> Result<()> {
        self.allowed += 2 * freed;
        let short = (self.spent + bytes).saturating_sub(self.reserved);
        let step = if short > 0 { short.max(Self::STEP) } else { 0 };
        if short == 0 || memory.reserve_at_ease(step) {
            self.reserved += step;
        } else if self.beyond + short <= self.allowed {
            memory.take(short);
            self.reserved += short;
            self.beyond += short;
        } else {
            return self.spend(memory, bytes);
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

/// What a value costs that lies in no record: the allocator rounds it up, to pages if it is long.
pub(crate) fn value_cost(value: &[u8]) -> u64 {
    let bytes = value.len() + Version::OVERHEAD;
    bytes.next_multiple_of(if bytes >= 128 << 10 { 4096 } else { 16 }) as u64
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
