//! One transaction: reads, writes, and how it ends.
//!
//! Reads ask the write set first and the protocol second; writes ask the protocol for the right to write and then stay in
//! the write set. `commit` is the only place where the database changes, in an order that everything rests on:
//!
//! ```text
//! prepare ─ decide ─ encode ─ append: LSN, with all locks held ─ install values ─ let go of locks ─ pace the log ─ ticket
//! ```
//!
//! Creating and dropping tables are writes to the system table, so they are locked, undone and read back like any other.

mod commit;
mod ddl;
mod scan;

use std::fmt;
use std::mem::take;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sdd::Guard;
use smallvec::SmallVec;

use crate::database::Shared;
use crate::key::{self, Key};
use crate::memory::Purse;
use crate::protocol::{Age, Chosen, Intent, Interrupt, Protocol, Reserved, TransactionId};
use crate::records::RecordId;
use crate::session::Home;
use crate::spare::Loan;
use crate::table::{TableId, TableRef};
use crate::write_set::{self, Place, Write, WriteSet};
use crate::{ConflictReason, Error, Result};

/// A transaction: everything it does happens at one moment, or not at all.
///
/// *Threads*: owned by whoever began it, and may move between threads. *Drop* rolls back. *A crash* before the commit
/// leaves no trace of it. Errors leave the transaction usable and without the failed call's effect, except
/// [`Error::Conflict`]: then it is dead, holds nothing any more, and every later call returns the conflict again. Run it
/// again from the start, with its [`age`](Transaction::age), or let [`Session::run`](crate::Session::run) do all that.
///
/// Isolation is serializability. Under [`ProtocolKind::Locking`](crate::ProtocolKind) what was read, absences and ranges
/// included, stays so until the end; reads may therefore wait for writers and the other way round. Under
/// [`ProtocolKind::TicToc`](crate::ProtocolKind) nobody waits for a transaction that runs, what was read may change, and
/// [`commit`](Transaction::commit) returns the conflict if that matters.
///
/// ```
/// # fn main() -> ishigaki_txn::Result<()> {
/// # use std::{ops::{Bound, ControlFlow}, sync::Arc};
/// # let database = ishigaki_txn::Database::open_in(Arc::new(ishigaki_device::MemoryDirectory::new()), Default::default())?;
/// let mut txn = database.session().begin()?;
/// let table = txn.create_table("numbers")?;
/// for n in 0..10_u8 {
///     txn.insert(table, &[n], b"")?;
/// }
/// let before = txn.savepoint();
/// txn.delete(table, &[3])?;
/// txn.rollback_to(&before);
///
/// // A page of three keys behind key 1.
/// let mut page = Vec::new();
/// txn.scan(table, (Bound::Excluded(&[1]), Bound::Unbounded), |key, _| {
///     page.push(key[0]);
///     if page.len() == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
/// })?;
/// assert_eq!(page, [2, 3, 4]);
/// txn.commit()?.wait()
/// # }
/// ```
pub struct Transaction {
    home: Arc<Home>,
    id: TransactionId,
    protocol: Chosen,
    writes: Loan<WriteSet>,
    purse: Purse,
    /// Tables used so far.
    tables: SmallVec<[TableRef; 4]>,
    /// Tables created by this transaction; nobody else can find them yet.
    created: Vec<TableRef>,
    /// Tables dropped by this transaction.
    dropped: Vec<TableId>,
    /// Whether there has been a savepoint: from then on changes are journaled.
    journaling: AtomicBool,
    /// Why the transaction is dead.
    dead: Option<ConflictReason>,
    /// It holds nothing any more.
    ended: bool,
}

/// A moment of a transaction to go back to: see [`Transaction::savepoint`].
#[derive(Clone, Copy, Debug)]
pub struct Savepoint {
    id: TransactionId,
    journal: usize,
    created: usize,
    dropped: usize,
}

impl Transaction {
    pub(crate) fn new(home: Arc<Home>, id: TransactionId) -> Self {
        let database = &home.database;
        let purse = Purse::of(&home.float);
        let protocol = Chosen::begin(database.protocol(), id, database.patience(&home), database.range_protection());
        Self {
            home,
            id,
            protocol,
            writes: Loan::take(),
            purse,
            tables: SmallVec::new(),
            created: Vec::new(),
            dropped: Vec::new(),
            journaling: AtomicBool::new(false),
            dead: None,
            ended: false,
        }
    }

    /// Its age, to begin it again with after a conflict.
    pub fn age(&self) -> Age {
        self.id.age()
    }

    /// Gives a flag that may be raised from anywhere. It is looked at while waiting for locks and during scans, which then
    /// end with [`Error::Interrupted`]; the transaction lives on. Lower the flag before going on with it.
    pub fn set_interrupt(&mut self, flag: Arc<AtomicBool>) {
        self.protocol.patience().interrupt = Interrupt(Some(flag));
    }

    /// The value of a key.
    pub fn get(&mut self, table: TableId, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.get_with(table, key, <[u8]>::to_vec)
    }

    /// Shows the value of a key, without copying it. `read` should be short: memory is not reclaimed meanwhile.
    pub fn get_with<R>(&mut self, table: TableId, key: &[u8], read: impl FnOnce(&[u8]) -> R) -> Result<Option<R>> {
        let slot = self.enter(table)?;
        if let Some(write) = self.writes.get(table, key) {
            return Ok(write.value.map(read));
        }
        let found = self.protocol.read(&self.tables[slot], key, |value| value.map(read));
        self.settle(found)
    }

    /// Says which keys are likely to be used soon, for reading or for writing. They are looked up side by side, which takes a
    /// fraction of the time that it takes one after the other when the table is larger than the processor's caches. Has no
    /// effect but that: nothing is read or locked, and what is wrong with a key or the table, its use will tell.
    ///
    /// Worth its while from about four keys on; the first 64 are kept at hand.
    pub fn prefetch<K: AsRef<[u8]>>(&mut self, table: TableId, keys: &[K]) {
        if let Ok(slot) = self.enter(table) {
            self.protocol.prefetch(&self.tables[slot], keys);
        }
    }

    /// Stores a value under a key, whether it is there or not.
    pub fn put(&mut self, table: TableId, key: &[u8], value: &[u8]) -> Result<()> {
        let slot = self.enter(table)?;
        self.store(slot, key, value, Intent::Put).map(drop)
    }

    /// Stores a value under a key that is not there yet; [`Error::DuplicateKey`] and no effect if it is.
    pub fn insert(&mut self, table: TableId, key: &[u8], value: &[u8]) -> Result<()> {
        let slot = self.enter(table)?;
        if self.store(slot, key, value, Intent::Insert)? {
            return Ok(());
        }
        Err(Error::DuplicateKey { table, key: key.to_vec() })
    }

    /// Removes a key; says whether it was there.
    pub fn delete(&mut self, table: TableId, key: &[u8]) -> Result<bool> {
        let slot = self.enter(table)?;
        self.change(slot, key, None, Intent::Delete)
    }

    /// A moment to go back to with [`rollback_to`](Self::rollback_to).
    pub fn savepoint(&self) -> Savepoint {
        self.journaling.store(true, Ordering::Relaxed);
        Savepoint {
            id: self.id,
            journal: self.writes.journal_len(),
            created: self.created.len(),
            dropped: self.dropped.len(),
        }
    }

    /// Undoes all own writes since the savepoint, tables created and dropped included. What was locked stays locked.
    /// Savepoints taken after this one are then void.
    ///
    /// # Panics
    /// If the savepoint is another transaction's.
    pub fn rollback_to(&mut self, savepoint: &Savepoint) {
        assert!(savepoint.id == self.id, "a savepoint belongs to the transaction that it was taken in");
        if self.dead.is_some() {
            return;
        }
        self.writes.undo_to(savepoint.journal, &mut self.purse);
        for table in self.created.drain(savepoint.created.min(self.created.len())..) {
            self.tables.retain(|known| known.id != table.id);
        }
        self.dropped.truncate(savepoint.dropped);
    }

    /// Undoes everything and lets go of all locks. Dropping the transaction does the same.
    pub fn rollback(self) {
        drop(self);
    }

    pub(crate) fn interrupt(&mut self) -> Interrupt {
        self.protocol.patience().interrupt.clone()
    }

    /// Fails with [`Error::Conflict`] if not all that was read so far can have been so at one moment. Where reads do not lock
    /// ([`ProtocolKind::TicToc`](crate::ProtocolKind)), an error that a transaction comes to may have come from a state that
    /// never was: ask this before you act on it. [`Session::run`](crate::Session::run) does, and a commit asks more.
    pub fn validate(&mut self) -> Result<()> {
        self.check_alive()?;
        let consistent = self.protocol.is_consistent();
        self.settle(if consistent { Ok(()) } else { Err(Error::conflict(ConflictReason::Overwritten)) })
    }

    fn database(&self) -> &Shared {
        &self.home.database
    }

    fn check_alive(&self) -> Result<()> {
        self.dead.map_or(Ok(()), |reason| Err(Error::conflict(reason)))
    }

    /// The place of a table in `tables`.
    #[inline]
    fn enter(&mut self, id: TableId) -> Result<usize> {
        // One that is dead has no tables.
        match self.tables.iter().position(|table| table.id == id) {
            Some(slot) if self.dropped.is_empty() && id != TableId::SYSTEM => Ok(slot),
            _ => self.enter_first(id),
        }
    }

    /// The same for a table that was not used yet, or must not be.
    #[cold]
    fn enter_first(&mut self, id: TableId) -> Result<usize> {
        self.check_alive()?;
        if self.dropped.contains(&id) || id == TableId::SYSTEM {
            return Err(Error::no_such_id(id));
        }
        if let Some(slot) = self.tables.iter().position(|table| table.id == id) {
            return Ok(slot);
        }
        let Some(table) = self.home.table(id) else {
            // It may have been dropped by a transaction that is not durable yet: its row left the system table first.
            let system = self.home.system();
            self.protocol.depend_on_absence(&system);
            return Err(Error::no_such_id(id));
        };
        self.protocol.depend(table.created());
        self.tables.push(table);
        Ok(self.tables.len() - 1)
    }

    /// The place of the system table in `tables`.
    fn enter_system(&mut self) -> Result<usize> {
        self.check_alive()?;
        if let Some(slot) = self.tables.iter().position(|table| table.id == TableId::SYSTEM) {
            return Ok(slot);
        }
        self.tables.push(self.home.system());
        Ok(self.tables.len() - 1)
    }

    /// Stores a value; false, and no effect, if it was to be inserted and is there.
    #[inline]
    fn store(&mut self, slot: usize, key: &[u8], value: &[u8], intent: Intent) -> Result<bool> {
        key::check_value(value)?;
        self.change(slot, key, Some(value), intent)
    }

    /// Changes one key; false, and no effect, if `intent` does not fit what is there.
    fn change(&mut self, slot: usize, key: &[u8], value: Option<&[u8]>, intent: Intent) -> Result<bool> {
        let key = Key::new(key)?;
        let cost = write_set::cost(&key, value);
        if value.is_none() {
            return self.remove(slot, key, cost, intent);
        }
        self.purse.spend_on_write(&self.home.database.memory, cost)?;
        let place = self.writes.find(self.tables[slot].id, &key);
        match self.may_change((slot, place), &key, value.map_or(0, <[u8]>::len), intent) {
            Ok(Some(record)) => {
                let write = Write { record, value };
                let journal = *self.journaling.get_mut();
                self.writes.put(place, (&self.tables[slot], key), write, journal, &mut self.purse);
                Ok(true)
            }
            refused => {
                // A conflict has emptied the purse already.
                if self.dead.is_none() {
                    self.purse.refund(cost);
                }
                refused.map(|_| false)
            }
        }
    }

    /// Deletes one key, which costs `cost` until the end. What that gives back then is known first.
    fn remove(&mut self, slot: usize, key: Key, cost: u64, intent: Intent) -> Result<bool> {
        let place = self.writes.find(self.tables[slot].id, &key);
        let Some(record) = self.may_change((slot, place), &key, 0, intent)? else { return Ok(false) };
        let rows = &self.tables[slot].rows;
        let freed = self.tables[slot].cost(record.bytes()) + rows.at(record).outside(&Guard::new());
        self.purse.spend_on_deletion(&self.home.database.memory, cost, freed)?;
        let write = Write { record, value: None };
        let journal = *self.journaling.get_mut();
        self.writes.put(place, (&self.tables[slot], key), write, journal, &mut self.purse);
        Ok(true)
    }

    /// The record to change, if `intent` fits what is there for this transaction.
    #[inline]
    fn may_change(
        &mut self,
        (slot, place): (usize, Place),
        key: &Key,
        room: usize,
        intent: Intent,
    ) -> Result<Option<RecordId>> {
        let found = if let Some(own) = self.writes.at(place) {
            Some(Reserved { record: own.record, present: own.value.is_some() })
        } else {
            let reserved = self.protocol.reserve(&self.tables[slot], key, room, intent, &mut self.purse);
            self.settle(reserved)?
        };
        let fits = |found: &Reserved| match intent {
            Intent::Put => true,
            Intent::Insert => !found.present,
            Intent::Delete => found.present,
        };
        Ok(found.filter(fits).map(|found| found.record))
    }

    /// A conflict ends the transaction at once, so that it is in nobody's way until its owner lets go of it.
    #[inline]
    fn settle<T>(&mut self, result: Result<T>) -> Result<T> {
        if let Err(Error::Conflict { reason }) = result {
            self.die(reason);
        }
        result
    }

    #[cold]
    fn die(&mut self, reason: ConflictReason) {
        self.end();
        self.dead = Some(reason);
    }

    /// Forgets what was not installed and lets go of everything.
    fn end(&mut self) {
        self.writes.clear();
        self.release(false);
    }

    /// Lets go of all locks and of the purse's rest.
    fn release(&mut self, committed: bool) {
        let dropped = take(&mut self.dropped);
        self.protocol.release(|table| committed && dropped.contains(&table.id));
        self.purse.empty(&self.home.float, &self.home.database.memory);
        self.tables.clear();
        self.created.clear();
        self.ended = true;
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        if !self.ended {
            self.end();
        }
    }
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction").field("id", &self.id).field("dead", &self.dead).finish_non_exhaustive()
    }
}
