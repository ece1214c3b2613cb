//! Strict two-phase locking: every read and write takes its lock when it happens, all are let go together at the end.
//!
//! - A record that was found is locked shared for reading and exclusively for writing ([`record_lock`]).
//! - A key that was not found, and a scan, is locked as a range of keys ([`ranges`]): a scan of a million records takes one
//!   range, not a million locks.
//! - A new key gets an *absent* record, locked exclusively before it can be seen. On abort, and after its deletion has
//!   committed, an absent record leaves the index before its lock is let go.
//!
//! Deadlock is prevented by **wait-die**: an older transaction waits for a younger one, a younger one gives way at once.
//! It costs one comparison, no graph and no thread, and a transaction that keeps its age when it is run again can not
//! starve. Detection would save some of the restarts; but it has to see the waits of all tables at once, and a victim pays
//! a whole wait before it learns of it.
//!
//! Locks are let go right after the LSN was drawn and the values installed, before the log is flushed (early lock release,
//! paper 1, section 3). Who reads such a value can not be acknowledged before it is durable: a later writer has a larger
//! LSN, and a reader keeps what it saw ([`Protocol::depends_on`]).

mod owners;
mod range_set;
mod ranges;
mod record_lock;

use std::ops::ControlFlow;
use std::sync::Arc;

use ishigaki_base::Position;
use ishigaki_index::prefetch_soon;
use ishigaki_wal::Dependencies;
use sdd::Guard;
use smallvec::SmallVec;

use super::{Intent, Patience, Protocol, Reserved, TransactionId, Visit};
use crate::copied::Copied;
use crate::key::{self, Key, KeyRange};
use crate::memory::Purse;
use crate::record::{Record, Value};
use crate::records::RecordId;
use crate::rows::{Walked, behind};
use crate::table::{Table, TableRef};
use crate::version::Retired;
use crate::{Error, Result};
use range_set::Range;
pub(crate) use ranges::Ranges;
pub(crate) use record_lock::RecordLock;
use record_lock::{Generation, Grant};

/// Records that a scan shows before it lets go of the index for a moment, so that memory can be reclaimed.
const STRIDE: usize = 1024;

/// The locks of one transaction.
#[derive(Debug)]
pub(crate) struct Locking {
    me: TransactionId,
    patience: Patience,
    range_protection: bool,
    depends_on: Dependencies,
    tables: SmallVec<[Touched; 2]>,
    shared: Vec<Shared>,
    exclusive: Vec<Exclusive>,
}

/// A table that this transaction holds something in.
#[derive(Debug)]
struct Touched {
    table: TableRef,
    has_ranges: bool,
    monopolized: bool,
}

/// A record locked for reading.
#[derive(Clone, Copy, Debug)]
struct Shared {
    slot: usize,
    id: RecordId,
}

/// A record locked for writing, with all that it takes to remove it from its index.
#[derive(Debug)]
struct Exclusive {
    slot: usize,
    key: Key,
    id: RecordId,
}

/// A record that was found by its key, not locked yet.
type Found = (RecordId, Generation);

/// Why a walk of the index was broken off.
enum Pause {
    /// Somebody else is writing this record.
    Writer(Found),
    /// It is time to let go of the index.
    Stride,
    /// The visitor has seen enough.
    Enough,
}

impl Protocol for Locking {
    fn patience(&mut self) -> &mut Patience {
        &mut self.patience
    }

    fn read<R>(&mut self, table: &TableRef, key: &[u8], visit: impl FnOnce(Option<&[u8]>) -> R) -> Result<R> {
        let Some(id) = self.lock_to_read(table, key)? else {
            self.depend_on_absence(table);
            return Ok(visit(None));
        };
        let (guard, mut copied) = (Guard::new(), Copied::borrow());
        let record = table.rows.at(id);
        let row = record.settled(&mut copied, &guard);
        self.depend_on(table, row.map(|row| row.position));
        Ok(visit(row.map(|row| row.value)))
    }

    fn prefetch(&mut self, table: &TableRef, keys: &[impl AsRef<[u8]>]) {
        table.rows.find_each(keys, &Guard::new(), |_, id| prefetch_soon(table.rows.lock(id)));
    }

    fn scan(&mut self, table: &TableRef, range: KeyRange<'_>, visit: &mut Visit<'_>) -> Result<()> {
        if key::is_empty(range) {
            return Ok(());
        }
        self.announce(table, Range::new(range))?;
        let walked = self.walk(table, range, visit);
        self.depend_on_absence(table);
        if self.range_protection {
            // After an error all of it stays locked: the visitor has seen some of it.
            table.ranges.settle(self.me, walked.as_ref().ok().cloned().flatten());
        }
        walked.map(drop)
    }

    fn reserve(
        &mut self,
        table: &TableRef,
        key: &Key,
        room: usize,
        intent: Intent,
        purse: &mut Purse,
    ) -> Result<Option<Reserved>> {
        let record = if intent == Intent::Delete {
            let Some(id) = self.lock_to_delete(table, key)? else {
                self.depend_on_absence(table);
                return Ok(None);
            };
            id
        } else {
            self.lock_to_store(table, key, room, purse)?
        };
        let found = table.rows.at(record);
        let present = !found.is_absent();
        if intent != Intent::Put {
            self.depend_on(table, present.then(|| found.position()));
        }
        Ok(Some(Reserved { record, present }))
    }

    fn monopolize(&mut self, table: &TableRef) -> Result<()> {
        let slot = self.touch(table);
        // Noted first: whatever happens now, `release` ends it.
        self.tables[slot].monopolized = true;
        let result = self.monopolize_records(table);
        if result.is_err() {
            table.ranges.end_monopoly(self.me, false);
            self.tables[slot].monopolized = false;
        }
        result
    }

    fn prepare(&mut self, _: usize, _: impl Fn(&Table, &Key, RecordId) -> bool) -> Result<()> {
        // Every lock is held already, and stays, whatever was taken back.
        Ok(())
    }

    fn depend(&mut self, position: Position) {
        self.depends_on.add(position);
    }

    fn depends_on(&self) -> &Dependencies {
        &self.depends_on
    }

    fn install(&mut self, record: Record<'_>, value: Option<Value<'_>>, position: Position) -> Option<Retired> {
        record.overwrite(value, position)
    }

    fn release(&mut self, dropped: impl Fn(&Table) -> bool) {
        for touched in self.tables.iter().filter(|touched| touched.monopolized) {
            touched.table.ranges.end_monopoly(self.me, dropped(&touched.table));
        }
        for lock in std::mem::take(&mut self.exclusive) {
            self.release_exclusive(&lock);
        }
        for Shared { slot, id } in self.shared.drain(..) {
            self.tables[slot].table.rows.lock(id).release(self.me);
        }
        for touched in self.tables.drain(..).filter(|touched| touched.has_ranges) {
            touched.table.ranges.retract(self.me);
        }
    }
}

impl Locking {
    /// Starts.
    pub(crate) fn begin(id: TransactionId, patience: Patience, range_protection: bool) -> Self {
        Self {
            me: id,
            patience,
            range_protection,
            depends_on: Dependencies::default(),
            tables: SmallVec::new(),
            shared: Vec::new(),
            exclusive: Vec::new(),
        }
    }

    /// This transaction's place for `table`.
    fn touch(&mut self, table: &TableRef) -> usize {
        if let Some(slot) = self.tables.iter().position(|touched| Arc::ptr_eq(&touched.table, table)) {
            return slot;
        }
        self.tables.push(Touched { table: Arc::clone(table), has_ranges: false, monopolized: false });
        self.tables.len() - 1
    }

    /// Waits until nobody else has the table for itself. After a lock was taken: one of the two sees the other.
    fn enter(&mut self, table: &Table) -> Result<()> {
        if table.ranges.await_shared(self.me, &self.patience)? { Ok(()) } else { Err(self.gone(table)) }
    }

    /// What was read is durable with its last writer; an absence with whoever may have deleted the key.
    fn depend_on(&mut self, table: &Table, position: Option<Position>) {
        match position {
            Some(position) => self.depend(position),
            None => self.depend_on_absence(table),
        }
    }

    /// That a table was dropped is something read, too.
    fn gone(&mut self, table: &Table) -> Error {
        self.depend_on_absence(table);
        Error::no_such_id(table.id)
    }

    /// Locks a range for reading.
    fn announce(&mut self, table: &TableRef, range: Range) -> Result<()> {
        if self.range_protection {
            let slot = self.touch(table);
            table.ranges.announce(self.me, range)?;
            self.tables[slot].has_ranges = true;
        }
        self.enter(table)
    }

    /// Finds the record of `key`, or locks its absence.
    fn find(&mut self, table: &TableRef, key: &[u8]) -> Result<Option<Found>> {
        if let Some(found) = look_up(table, key) {
            return Ok(Some(found));
        }
        self.announce(table, Range::point(key))?;
        if self.range_protection {
            table.ranges.settle(self.me, None);
        }
        Ok(look_up(table, key))
    }

    /// The record of `key`, locked shared; `None` if its absence is locked instead.
    fn lock_to_read(&mut self, table: &TableRef, key: &[u8]) -> Result<Option<RecordId>> {
        loop {
            let Some((id, life)) = self.find(table, key)? else { return Ok(None) };
            match table.rows.lock(id).acquire_shared(life, self.me, &self.patience)? {
                Grant::Dead => continue,
                Grant::Held => {}
                Grant::New | Grant::Upgraded => {
                    let slot = self.touch(table);
                    self.shared.push(Shared { slot, id });
                }
            }
            self.enter(table)?;
            return Ok(Some(id));
        }
    }

    /// The record of `key`, locked exclusively; `None` if its absence is locked instead.
    fn lock_to_delete(&mut self, table: &TableRef, key: &Key) -> Result<Option<RecordId>> {
        loop {
            let Some(found) = self.find(table, key)? else { return Ok(None) };
            if self.lock_exclusive(table, key, found)? {
                return Ok(Some(found.0));
            }
        }
    }

    /// The record of `key`, made if there is none, locked exclusively.
    fn lock_to_store(&mut self, table: &TableRef, key: &Key, room: usize, purse: &mut Purse) -> Result<RecordId> {
        loop {
            if let Some(found) = look_up(table, key) {
                if self.lock_exclusive(table, key, found)? {
                    return Ok(found.0);
                }
            } else if let Some(id) = self.plant(table, key, room, purse)? {
                return Ok(id);
            }
        }
    }

    /// Puts an absent record into the index, locked; `None` if somebody else was faster.
    fn plant(&mut self, table: &TableRef, key: &Key, room: usize, purse: &mut Purse) -> Result<Option<RecordId>> {
        let planted = table.plant((key, room), purse, |id, _| table.rows.lock(id).hand_to(self.me))?;
        let Some((id, _)) = planted else { return Ok(None) };
        self.keep(table, key, id, Grant::New)?;
        Ok(Some(id))
    }

    /// Locks a record for writing; false if it has left the index.
    fn lock_exclusive(&mut self, table: &TableRef, key: &Key, (id, life): Found) -> Result<bool> {
        match table.rows.lock(id).acquire_exclusive(life, self.me, &self.patience)? {
            Grant::Dead => return Ok(false),
            Grant::Held => {}
            grant => self.keep(table, key, id, grant)?,
        }
        Ok(true)
    }

    /// Keeps a new exclusive lock, if no reader of its range and no monopolist stands against it.
    fn keep(&mut self, table: &TableRef, key: &Key, id: RecordId, grant: Grant) -> Result<()> {
        let lock = Exclusive { slot: self.touch(table), key: key.clone(), id };
        let unread =
            if self.range_protection { table.ranges.await_unread(self.me, key, &self.patience) } else { Ok(()) };
        match unread.and_then(|()| self.enter(table)) {
            Ok(()) => self.exclusive.push(lock),
            // The transaction may live on (an interrupted wait), and must not hold what it did not get.
            Err(error) if grant == Grant::Upgraded => {
                table.rows.lock(id).downgrade(self.me);
                return Err(error);
            }
            Err(error) => {
                self.release_exclusive(&lock);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Lets go of an exclusive lock. A record that is absent now leaves the index first.
    fn release_exclusive(&self, Exclusive { slot, key, id }: &Exclusive) {
        let table = &self.tables[*slot].table;
        let lock = table.rows.lock(*id);
        if !table.rows.at(*id).is_absent() {
            lock.release(self.me);
            return;
        }
        let guard = Guard::new();
        if table.remove(key, *id, &guard) {
            table.give_back(table.cost(id.bytes()));
        }
        // Before the guard is gone: after that the record may be another key's.
        lock.release_dead(self.me);
    }

    /// Shows the values of an announced range. Says the key at which the visitor broke, if it did.
    fn walk(&mut self, table: &Table, (mut start, end): KeyRange<'_>, visit: &mut Visit<'_>) -> Result<Option<Key>> {
        // Keeps the key alive that `start` points to after the first pause.
        let mut reached;
        loop {
            self.patience.interrupt.check()?;
            let stretch = self.walk_stretch(table, (start, end), visit);
            let ControlFlow::Break((key, pause)) = stretch else { return Ok(None) };
            match pause {
                Pause::Enough => return Ok(Some(key)),
                Pause::Stride => {
                    reached = key;
                    (start, _) = behind(&reached, end);
                }
                Pause::Writer((id, life)) => {
                    table.rows.lock(id).await_no_writer(life, self.me, &self.patience)?;
                    reached = key;
                    start = std::ops::Bound::Included(&reached);
                }
            }
        }
    }

    fn walk_stretch(&mut self, table: &Table, range: KeyRange<'_>, visit: &mut Visit<'_>) -> Walked<Pause> {
        let (me, mut seen, depends_on) = (self.me, 0, &mut self.depends_on);
        let mut copied = Copied::borrow();
        table.rows.walk(range, None, |key, (id, record), guard| {
            let lock = table.rows.lock(id);
            if lock.has_other_writer(me) {
                return ControlFlow::Break(Pause::Writer((id, lock.generation())));
            }
            if let Some(row) = record.settled(&mut copied, guard) {
                depends_on.add(row.position);
                if visit(key, row.value).is_break() {
                    return ControlFlow::Break(Pause::Enough);
                }
            }
            seen += 1;
            if seen == STRIDE { ControlFlow::Break(Pause::Stride) } else { ControlFlow::Continue(()) }
        })
    }

    /// Keeps all others out of the table and waits for those who are in it.
    fn monopolize_records(&mut self, table: &Table) -> Result<()> {
        if !table.ranges.monopolize(self.me, &self.patience)? {
            return Err(self.gone(table));
        }
        let mut reached: Option<Key> = None;
        loop {
            let start = reached.as_ref().map_or(std::ops::Bound::Unbounded, |key| std::ops::Bound::Excluded(&**key));
            let mut seen = 0;
            let walked = table.rows.walk((start, std::ops::Bound::Unbounded), None, |_, (id, _), _| {
                seen += 1;
                let lock = table.rows.lock(id);
                if lock.has_other_holder(self.me) || seen == STRIDE {
                    return ControlFlow::Break((id, lock.generation()));
                }
                ControlFlow::Continue(())
            });
            let ControlFlow::Break((key, (id, life))) = walked else { return Ok(()) };
            table.rows.lock(id).await_nobody(life, self.me, &self.patience)?;
            reached = Some(key);
        }
    }
}

/// The record of a key, and which of its lives this is.
fn look_up(table: &Table, key: &[u8]) -> Option<Found> {
    let guard = Guard::new();
    table.rows.find(key, &guard).map(|(id, _)| (id, table.rows.lock(id).generation()))
}
