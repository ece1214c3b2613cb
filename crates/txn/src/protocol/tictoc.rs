//! TicToc: optimistic concurrency control with timestamps from the data (Yu, Pavlo, Sanchez and Devadas, SIGMOD 2016).
//!
//! Nothing is locked while a transaction runs. It remembers what it has read ([`read_set`]), and decides when it commits:
//!
//! ```text
//! lock what is to be written ─ take the least timestamp that fits ─ validate what was read ─ (LSN) install ─ unlock
//!         prepare                                         decide
//! ```
//!
//! Every version has a range of timestamps for which it is known to be valid ([`word`]). The transaction's timestamp is at or
//! behind the beginning of every version that it read, and behind the end of every one that it overwrites; and, if it writes,
//! behind everything that the last snapshot shows (the floor of `checkpoint::gates`). No counter is
//! shared. What was read must be valid at that timestamp: it is already, or its range is extended, which fails only if
//! somebody else has written it or is about to. So a transaction may commit although something that it has read is
//! overwritten by now: it then comes before the one that did so.
//!
//! - *Locks* are taken in the order of keys and never waited for. A read that meets one waits for a moment: reading
//!   holds nothing, so nobody waits for the reader.
//! - *A new key* gets an absent record, not locked, when it is first written; it leaves the index again, marked dead, if no
//!   value comes, and so does the record of a deleted key. Whoever unlocks an absent record removes it.
//! - *What is not there* has a range of timestamps, too ([`absences`]), the same for all keys of a table that have no record.
//! - *Phantoms*: a range that was scanned is scanned again and must show the same versions ([`validate`]).
//! - *A write that was taken back* (a savepoint) leaves its record locked, and that is all: what was read of the record must be
//!   valid at the timestamp like anything else. No writer comes behind it for that reason, so its range is extended under the lock.
//! - *A table* has a word that says whether it is there. Transactions look at it first and last and never write it; who drops
//!   the table locks it, then takes a timestamp behind everything in the table.
//!
//! The order of timestamps is a serial order of all transactions, and the LSNs agree with it on whatever is written: for each
//! key, and from a writer to its readers. Two transactions of which one read what the other overwrote may have LSNs the other
//! way round; and a transaction may come, in the serial order, before one that had ended when it read something newer
//! elsewhere. `docs/semantics.md` says what that means for users.
//!
//! Until it commits, a transaction can see things that do not fit together. It can not commit then; but whoever acts on what
//! he sees before that must bear it ([`Session::run`](crate::Session::run) does).

pub(crate) mod absences;
mod glance;
mod known;
mod read_set;
#[cfg(test)]
mod tests;
mod validate;
pub(crate) mod word;
mod write_locks;

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::thread::LocalKey;

use ishigaki_base::Position;
use ishigaki_index::Seen;
use ishigaki_wal::Dependencies;
use sdd::Guard;

use super::{Intent, Patience, Pauses, Protocol, Reserved, Visit};
use crate::copied::Copied;
use crate::key::{self, Key, KeyRange};
use crate::memory::Purse;
use crate::record::{Record, Value};
use crate::records::RecordId;
use crate::rows::{Walked, behind};
use crate::spare::{Lend, Loan, Spare};
use crate::table::{Table, TableRef};
use crate::version::Retired;
use crate::{ConflictReason, Error, Result};
use glance::Unsure;
use known::Known;
use read_set::{Reached, ReadSet};
use word::{Refused, Stamp, Timestamp};
use write_locks::WriteLocks;

/// Records that a scan shows before it lets go of the index for a moment, so that memory can be reclaimed.
const STRIDE: usize = 1024;

/// What one transaction has read, and what it will write.
#[derive(Debug)]
pub(crate) struct TicToc {
    patience: Patience,
    range_protection: bool,
    depends_on: Dependencies,
    sets: Loan<Sets>,
    /// What it must commit with at least, as what it has locked says.
    least: Timestamp,
    /// What it commits with.
    timestamp: Timestamp,
}

/// The sets of one transaction. Afterwards the next one of the same thread takes them over, so that they grow only once.
#[derive(Debug, Default)]
pub(crate) struct Sets {
    tables: Vec<Touched>,
    reads: ReadSet,
    writes: WriteLocks,
    known: Known,
    /// What was read last.
    copied: Copied,
}

/// The write locks of a transaction that has committed. Whoever has them lets go of them.
#[derive(Debug, Default)]
pub(crate) struct Held {
    tables: Vec<Touched>,
    writes: WriteLocks,
}

impl Held {
    /// Lets go of them.
    pub(crate) fn release(mut self) {
        self.writes.release(&self.tables);
    }
}

/// A table that was used.
#[derive(Debug)]
struct Touched {
    table: TableRef,
    /// The transaction has found that something is not in it, which no record says.
    absences: bool,
    /// Where in the index it has found that.
    seen: Seen,
    /// Since when that is so, as last decided.
    since: Timestamp,
    monopoly: Monopoly,
}

/// Whether the transaction wants a table for itself alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Monopoly {
    No,
    Wanted,
    Held,
}

/// Why a walk of the index was broken off.
enum Pause {
    /// Somebody is writing this record.
    Writer,
    /// It is time to let go of the index.
    Stride,
    /// The visitor has seen enough.
    Enough,
}

impl TicToc {
    /// Starts.
    pub(crate) fn begin(patience: Patience, range_protection: bool) -> Self {
        Self {
            patience,
            range_protection,
            depends_on: Dependencies::default(),
            sets: Loan::take(),
            least: 0,
            timestamp: 0,
        }
    }

    /// The write locks, to be kept beyond the end of the transaction. Tables that it had for itself are free again.
    pub(crate) fn hold(&mut self) -> Held {
        self.sets.end_monopolies(self.timestamp, |_| false);
        Held { tables: std::mem::take(&mut self.sets.tables), writes: std::mem::take(&mut self.sets.writes) }
    }

    /// The place of a table among those touched.
    #[inline]
    fn touch(&mut self, table: &TableRef) -> Result<usize> {
        let known = self.sets.tables.iter().position(|touched| Arc::ptr_eq(&touched.table, table));
        known.map_or_else(|| self.touch_first(table), Ok)
    }

    /// What comes first is a look whether it is there.
    #[cold]
    fn touch_first(&mut self, table: &TableRef) -> Result<usize> {
        let mut pauses = Pauses::default();
        let stamp = loop {
            let stamp = table.word.load();
            if !stamp.is_locked() {
                break stamp;
            }
            self.patience.pause(&mut pauses)?;
        };
        self.sets.reads.floor = self.sets.reads.floor.max(stamp.wts());
        if stamp.is_dead() {
            self.depend_on_absence(table);
            return Err(Error::no_such_id(table.id));
        }
        self.sets.tables.push(Touched {
            table: Arc::clone(table),
            absences: false,
            seen: Seen::new(),
            since: 0,
            monopoly: Monopoly::No,
        });
        Ok(self.sets.tables.len() - 1)
    }

    /// The record of a key. That there is none is read.
    #[inline]
    fn find<'t>(&mut self, table: &'t Table, slot: usize, key: &[u8], guard: &Guard) -> Option<(RecordId, Record<'t>)> {
        if !self.range_protection {
            return table.rows.find(key, guard);
        }
        let touched = &mut self.sets.tables[slot];
        let found = table.rows.find_or_see(key, &mut touched.seen, guard);
        if found.is_none() {
            touched.absences = true;
            self.sets.reads.add_nothing(slot, key);
        }
        found
    }

    /// Reads the value of a key, wherever it lies, as soon as nobody is in the middle of writing it.
    #[cold]
    fn read_guarded<R>(
        &mut self,
        (slot, table): (usize, &TableRef),
        key: &[u8],
        visit: impl FnOnce(Option<&[u8]>) -> R,
    ) -> Result<R> {
        let mut pauses = Pauses::default();
        loop {
            let guard = Guard::new();
            let Some((id, record)) = self.find(table, slot, key, &guard) else { return Ok(visit(None)) };
            let Sets { reads, copied, .. } = &mut *self.sets;
            let read = record.read(copied, &guard);
            // One that is dead is not the key's any more.
            if let Some((stamp, row)) = read.filter(|(stamp, _)| !stamp.is_dead()) {
                let position = row.map_or(Position::NONE, |row| row.position);
                Sets::add_version((reads, &mut self.depends_on), (slot, table), (id, stamp), position);
                return Ok(visit(row.map(|row| row.value)));
            }
            drop(guard);
            self.patience.pause(&mut pauses)?;
        }
    }

    /// Puts an absent record into the index; false if somebody else was faster.
    fn plant(&mut self, slot: usize, key: &Key, room: usize, purse: &mut Purse) -> Result<bool> {
        let Touched { table, seen, .. } = &mut self.sets.tables[slot];
        let mut least = 0;
        let planted = table.plant((key, room), purse, |_, record| least = record.word().begin_again())?;
        let Some((id, change)) = planted else { return Ok(false) };
        seen.absorb(&change);
        let stamp = table.absences.of_new_record(least);
        table.rows.at(id).word().store(stamp);
        self.sets.writes.add(slot, key, id, stamp, true);
        Ok(true)
    }

    /// Shows a range, and notes what it shows and how far it came.
    fn walk(
        &mut self,
        slot: usize,
        (mut start, end): KeyRange<'_>,
        reached: &mut Reached,
        visit: &mut Visit<'_>,
    ) -> Result<()> {
        let mut resume;
        let mut pauses = Pauses::default();
        loop {
            self.patience.interrupt.check()?;
            let stretch =
                self.sets.walk_stretch(&mut self.depends_on, slot, (start, end), self.range_protection, visit);
            let ControlFlow::Break((key, pause)) = stretch else {
                *reached = Reached::End;
                return Ok(());
            };
            match pause {
                Pause::Enough => {
                    *reached = Reached::Key(Bound::Included(key));
                    return Ok(());
                }
                Pause::Stride => {
                    *reached = Reached::Key(Bound::Included(key.clone()));
                    resume = key;
                    (start, _) = behind(&resume, end);
                }
                Pause::Writer => {
                    *reached = Reached::Key(Bound::Excluded(key.clone()));
                    resume = key;
                    start = Bound::Included(&resume);
                    self.patience.pause(&mut pauses)?;
                }
            }
        }
    }
}

thread_local! {
    /// Of the last transaction that ended in this thread.
    static SPARE: Spare<Sets> = const { Spare::new(None) };
}

impl Sets {
    /// The most that is kept, in entries.
    const KEPT: usize = 1 << 16;

    /// The version of a record was read.
    #[inline]
    fn add_version(
        (reads, depends_on): (&mut ReadSet, &mut Dependencies),
        (slot, table): (usize, &Table),
        (id, stamp): (RecordId, Stamp),
        position: Position,
    ) {
        reads.add(slot, id, stamp);
        if stamp.is_absent() {
            reads.add_absence(table, depends_on);
        } else {
            depends_on.add(position);
        }
    }

    fn walk_stretch(
        &mut self,
        depends_on: &mut Dependencies,
        slot: usize,
        range: KeyRange<'_>,
        range_protection: bool,
        visit: &mut Visit<'_>,
    ) -> Walked<Pause> {
        let (mut shown, mut copied) = (0, Copied::borrow());
        let Self { tables, reads, .. } = self;
        let Touched { table, seen, .. } = &mut tables[slot];
        table.rows.walk(range, range_protection.then_some(seen), |key, (id, record), guard| {
            let Some((stamp, row)) = record.read(&mut copied, guard) else {
                return ControlFlow::Break(Pause::Writer);
            };
            // One that is dead is leaving the index, which `seen` will tell.
            if range_protection {
                reads.add_row(id, stamp);
            } else if row.is_some() {
                reads.add(slot, id, stamp);
            }
            if let Some(row) = row {
                depends_on.add(row.position);
                if visit(key, row.value).is_break() {
                    return ControlFlow::Break(Pause::Enough);
                }
            }
            shown += 1;
            if shown == STRIDE { ControlFlow::Break(Pause::Stride) } else { ControlFlow::Continue(()) }
        })
    }

    /// Lets go of the tables that the transaction has for itself; those that it dropped at `timestamp` are gone.
    fn end_monopolies(&mut self, timestamp: Timestamp, dropped: impl Fn(&Table) -> bool) {
        for touched in self.tables.iter_mut().filter(|touched| touched.monopoly == Monopoly::Held) {
            let word = &touched.table.word;
            let gone = dropped(&touched.table);
            word.store(if gone { Stamp::new(timestamp, true).dead() } else { word.load().unlocked() });
            touched.monopoly = Monopoly::No;
        }
    }

    fn clear(&mut self) {
        self.tables.clear();
        self.reads.clear();
        self.writes.clear();
        self.known.clear();
    }
}

impl Lend for Sets {
    fn spare() -> &'static LocalKey<Spare<Self>> {
        &SPARE
    }

    fn tidy(&mut self) -> bool {
        self.clear();
        self.reads.capacity().max(self.writes.capacity()) <= Self::KEPT
    }
}

impl Protocol for TicToc {
    fn patience(&mut self) -> &mut Patience {
        &mut self.patience
    }

    fn read<R>(&mut self, table: &TableRef, key: &[u8], visit: impl FnOnce(Option<&[u8]>) -> R) -> Result<R> {
        let slot = self.touch(table)?;
        match self.sets.glance(&mut self.depends_on, (slot, table), key, self.range_protection) {
            Ok(value) => Ok(visit(value)),
            Err(Unsure) => self.read_guarded((slot, table), key, visit),
        }
    }

    fn prefetch(&mut self, table: &TableRef, keys: &[impl AsRef<[u8]>]) {
        // Whatever is in the way now, who uses the keys is told.
        if let Ok(slot) = self.touch(table) {
            self.know(slot, table, keys);
        }
    }

    fn scan(&mut self, table: &TableRef, range: KeyRange<'_>, visit: &mut Visit<'_>) -> Result<()> {
        if key::is_empty(range) {
            return Ok(());
        }
        let slot = self.touch(table)?;
        let mut reached = Reached::Nothing;
        if !self.range_protection {
            return self.walk(slot, range, &mut reached, visit);
        }
        self.sets.tables[slot].absences = true;
        self.sets.reads.open(slot, range);
        let walked = self.walk(slot, range, &mut reached, visit);
        self.sets.reads.close(reached);
        walked
    }

    fn reserve(
        &mut self,
        table: &TableRef,
        key: &Key,
        room: usize,
        intent: Intent,
        purse: &mut Purse,
    ) -> Result<Option<Reserved>> {
        let slot = self.touch(table)?;
        if intent == Intent::Put
            && let Ok((id, stamp)) = self.sets.find_at_a_glance(slot, table, key)
        {
            self.sets.writes.add(slot, key, id, stamp, false);
            return Ok(Some(Reserved { record: id, present: !stamp.is_absent() }));
        }
        let mut pauses = Pauses::default();
        loop {
            let guard = Guard::new();
            let found = match intent {
                // That there is nothing is what the transaction learns.
                Intent::Delete => self.find(table, slot, key, &guard),
                Intent::Put | Intent::Insert => table.rows.find(key, &guard),
            };
            let Some((id, record)) = found else {
                if intent == Intent::Delete {
                    return Ok(None);
                }
                if !self.plant(slot, key, room, purse)? {
                    self.patience.pause(&mut pauses)?;
                }
                // What was planted is found in the next round, or what somebody else has.
                continue;
            };
            // All of it: what lies behind the word is written when the transaction commits.
            record.prefetch();
            let read = record.word().read(|| record.position());
            let Some((stamp, position)) = read.filter(|(stamp, _)| !stamp.is_dead()) else {
                drop(guard);
                self.patience.pause(&mut pauses)?;
                continue;
            };
            let present = !stamp.is_absent();
            if intent != Intent::Put {
                let read = (&mut self.sets.reads, &mut self.depends_on);
                Sets::add_version(read, (slot, table), (id, stamp), position);
            }
            match intent {
                Intent::Delete if !present => return Ok(None),
                Intent::Insert if present => {}
                _ => self.sets.writes.add(slot, key, id, stamp, false),
            }
            return Ok(Some(Reserved { record: id, present }));
        }
    }

    fn monopolize(&mut self, table: &TableRef) -> Result<()> {
        let slot = self.touch(table)?;
        self.sets.tables[slot].monopoly = Monopoly::Wanted;
        Ok(())
    }

    fn prepare(&mut self, count: usize, is_written: impl Fn(&Table, &Key, RecordId) -> bool) -> Result<()> {
        let Sets { tables, writes, .. } = &mut *self.sets;
        writes.settle(tables, count, is_written)?;
        let least = writes.lock(tables, &self.patience)?;
        self.least = self.lock_tables(least)?;
        Ok(())
    }

    fn decide(&mut self, floor: Timestamp) -> Result<()> {
        self.timestamp = self.sets.timestamp(&mut self.depends_on, self.least.max(floor))?;
        self.sets.validate(self.timestamp)
    }

    fn timestamp(&self) -> Timestamp {
        self.timestamp
    }

    fn depend(&mut self, position: Position) {
        self.depends_on.add(position);
    }

    fn depend_on_absence(&mut self, table: &Table) {
        self.sets.reads.add_absence(table, &mut self.depends_on);
    }

    fn depends_on(&self) -> &Dependencies {
        &self.depends_on
    }

    fn install(&mut self, record: Record<'_>, value: Option<Value<'_>>, position: Position) -> Option<Retired> {
        // Of one that is absent now the absences learn when it leaves the index; it is locked until then.
        let stamp = Stamp::new(self.timestamp, value.is_none());
        let old = record.write(value, position);
        record.word().store(stamp.locked());
        old
    }

    fn installed_table(&mut self, table: &Table) {
        // Whoever uses it looks at this first: he comes behind, also where he finds nothing.
        table.word.store(Stamp::new(self.timestamp, false));
    }

    fn dropping_table(&mut self, system: &Table) {
        // The row of its name need not be absent: another table may have the name now.
        system.absences.take_over(Stamp::new(self.timestamp, true));
    }

    fn is_consistent(&mut self) -> bool {
        let timestamp = self.sets.timestamp(&mut self.depends_on, 0);
        timestamp.and_then(|timestamp| self.sets.validate(timestamp)).is_ok()
    }

    fn release(&mut self, dropped: impl Fn(&Table) -> bool) {
        self.sets.end_monopolies(self.timestamp, dropped);
        let Sets { tables, writes, .. } = &mut *self.sets;
        writes.release(tables);
        self.sets.clear();
    }
}

/// The error of who meets somebody else's lock, or a newer version.
fn conflict(refused: Refused) -> Error {
    Error::conflict(match refused {
        Refused::Locked => ConflictReason::WriterInTheWay,
        Refused::Changed => ConflictReason::Overwritten,
    })
}
