//! Lanes: what one thread of the recovery has at hand, so that it rarely meets another.
//!
//! A thread holds its lane while it applies a record. In the lane are the tables that it wrote to last, memory that is
//! reserved already, and how much of it went into each table: shared counters are touched once in many records. Who
//! takes all lanes is alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ishigaki_base::Lsn;
use parking_lot::{Mutex, MutexGuard};

use super::{Fates, Table, TableId, refuse};
use crate::Result;
use crate::memory::Memory;

/// More than threads that replay.
const LANES: usize = 64;

/// Tables that a lane has at hand.
const TABLES: usize = 8;

/// All lanes.
#[derive(Debug)]
pub(super) struct Lanes(Box<[Padded]>);

/// A lane on cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Padded(Mutex<Lane>);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Lane {
    /// Of the records applied here.
    pub(super) bytes: u64,
    tables: [Option<AtHand>; TABLES],
}

/// A table at hand, or the knowledge that it is dropped.
#[derive(Debug)]
struct AtHand {
    id: TableId,
    table: Option<Arc<Table>>,
    account: Account,
    written: Written,
}

/// The smallest and the largest LSN of records that wrote to a table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Written {
    pub(super) first: Lsn,
    pub(super) last: Lsn,
}

impl Written {
    /// By no record.
    pub(super) const NEVER: Self = Self { first: Lsn::MAX, last: Lsn::ZERO };

    /// By both.
    pub(super) fn and(self, other: Self) -> Self {
        Self { first: self.first.min(other.first), last: self.last.max(other.last) }
    }
}

/// Memory that a thread has reserved, and what of it one table holds.
#[derive(Debug, Default)]
pub(super) struct Account {
    reserved: u64,
    /// What went into the table less what came back from it.
    moved: i64,
}

impl Account {
    /// Takes `bytes` for the table out of the budget.
    pub(super) fn take(&mut self, memory: &Memory, bytes: u64) -> Result<()> {
        self.borrow(memory, bytes)?;
        self.moved += bytes as i64;
        Ok(())
    }

    /// `bytes` of the table are free again.
    pub(super) fn give_back(&mut self, memory: &Memory, bytes: u64) {
        self.moved -= bytes as i64;
        self.put_back(memory, bytes);
    }

    /// Takes `bytes` that are for no table out of the budget.
    pub(super) fn borrow(&mut self, memory: &Memory, bytes: u64) -> Result<()> {
        if self.reserved < bytes {
            self.reserved += memory.reserve_for_recovery(bytes - self.reserved)?;
        }
        self.reserved -= bytes;
        Ok(())
    }

    /// Gives back what was borrowed.
    pub(super) fn put_back(&mut self, memory: &Memory, bytes: u64) {
        self.reserved += bytes;
        if self.reserved > 2 * Memory::STEP {
            self.empty(memory);
        }
    }

    /// Tells the table what it holds.
    pub(super) fn settle(&mut self, table: &Table) {
        table.adjust(std::mem::take(&mut self.moved));
    }

    /// Gives back to the budget what is reserved and not used.
    pub(super) fn empty(&mut self, memory: &Memory) {
        memory.release(std::mem::take(&mut self.reserved));
    }
}

impl Lane {
    /// Has a table at hand; says where, or `None` if it is dropped, so that nothing of it matters any more.
    pub(super) fn enter(
        &mut self,
        memory: &Arc<Memory>,
        fates: &Fates,
        lsn: Lsn,
        id: TableId,
    ) -> Result<Option<usize>> {
        let place = id.0 as usize % TABLES;
        if self.tables[place].as_ref().is_none_or(|at_hand| at_hand.id != id) {
            self.put_away(memory, fates, place);
            let table = fates.table(memory, id);
            self.tables[place] = Some(AtHand { id, table, account: Account::default(), written: Written::NEVER });
        }
        let Some(at_hand) = &mut self.tables[place] else { return Ok(None) };
        if at_hand.table.is_some() {
            at_hand.written = at_hand.written.and(Written { first: lsn, last: lsn });
            return Ok(Some(place));
        }
        match fates.dropped_at(id) {
            Some(dropped) if dropped <= lsn => {
                Err(refuse(lsn, format!("it writes to table {id}, which was dropped by {dropped}")))
            }
            _ => Ok(None),
        }
    }

    /// The table at a place that `enter` said.
    pub(super) fn at(&mut self, place: usize) -> (&Arc<Table>, &mut Account) {
        let at_hand = self.tables[place].as_mut().expect("`enter` has put a table there");
        (at_hand.table.as_ref().expect("`enter` has seen that it is not dropped"), &mut at_hand.account)
    }

    /// Lets go of a table that has been dropped; says what was written to it from here. Its memory is settled.
    pub(super) fn forget(&mut self, id: TableId) -> Written {
        let place = id.0 as usize % TABLES;
        if let Some(at_hand) = self.tables[place].as_mut().filter(|at_hand| at_hand.id == id)
            && let Some(table) = at_hand.table.take()
        {
            at_hand.account.settle(&table);
            return at_hand.written;
        }
        Written::NEVER
    }

    /// Lets go of everything.
    pub(super) fn close(&mut self, memory: &Memory, fates: &Fates) {
        (0..TABLES).for_each(|place| self.put_away(memory, fates, place));
    }

    fn put_away(&mut self, memory: &Memory, fates: &Fates, place: usize) {
        let Some(mut at_hand) = self.tables[place].take() else { return };
        if let Some(table) = &at_hand.table {
            at_hand.account.settle(table);
            fates.note_written(at_hand.id, at_hand.written);
        }
        at_hand.account.empty(memory);
    }
}

impl Lanes {
    /// The lane of this thread.
    pub(super) fn enter(&self) -> MutexGuard<'_, Lane> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        thread_local! {
            static MINE: usize = NEXT.fetch_add(1, Ordering::Relaxed);
        }
        self.0[MINE.with(|mine| *mine) % LANES].0.lock()
    }

    /// All lanes. Whoever asks for them holds none.
    pub(super) fn enter_all(&self) -> Vec<MutexGuard<'_, Lane>> {
        self.0.iter().map(|lane| lane.0.lock()).collect()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Lane> {
        self.0.iter_mut().map(|lane| lane.0.get_mut())
    }
}

impl Default for Lanes {
    fn default() -> Self {
        Self((0..LANES).map(|_| Padded::default()).collect())
    }
}
