//! One table: its rows, its memory, and what a reader of an absence depends on.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use ishigaki_base::Position;
use ishigaki_index::Change;
use parking_lot::RwLock;
use sdd::Guard;

use crate::history::History;
use crate::memory::{Memory, Purse};
use crate::protocol::{Absences, Ranges, Word};
use crate::record::Record;
use crate::records::{Before, RecordId, bytes_for};
use crate::rows::Rows;
use crate::{Error, Result};

/// The number of a table. Numbers are never used again, so a stale one finds nothing rather than something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableId(pub u32);

impl TableId {
    /// The system table: names of tables to their numbers.
    pub(crate) const SYSTEM: Self = Self(0);
}

impl fmt::Display for TableId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

/// A table in memory. Its memory goes back to the budget when the last user lets go of it.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) id: TableId,
    pub(crate) rows: Arc<Rows>,
    /// Of the locking protocol.
    pub(crate) ranges: Ranges,
    /// Of the optimistic protocol: whether the table is there.
    pub(crate) word: Word,
    /// Of the optimistic protocol.
    pub(crate) absences: Absences,
    /// What snapshots need of the past.
    pub(crate) history: History,
    /// Who made the table; nobody, when recovery found it.
    created: AtomicU64,
    /// By stream of the log: the last transaction that deleted a key here, or dropped the table. Stored before the key
    /// leaves the index, or the monopoly ends: who finds a key absent, or the table gone, and then reads this knows what
    /// must be durable for that to be durable.
    deletions: Box<[AtomicU64]>,
    holdings: Holdings,
    memory: Arc<Memory>,
}

/// In steps of what the memory of an index is counted.
const INDEX_STEP: u64 = 16 << 10;

/// Bytes of the budget. Whoever inserts writes here, and is apart from those who only look at the table.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Holdings {
    bytes: AtomicU64,
    /// Bytes of records without a key.
    spare: AtomicU64,
    /// Bytes of the index, of those that are counted: in use, and spare.
    index: AtomicU64,
    index_spare: AtomicU64,
    /// What was here when the table was dropped, for snapshots.
    old_bytes: AtomicU64,
}

impl Table {
    /// An empty table of a database whose log has so many streams.
    pub(crate) fn new(id: TableId, streams: u16, memory: &Arc<Memory>) -> Arc<Self> {
        let table = Arc::new(Self {
            id,
            rows: Arc::default(),
            ranges: Ranges::default(),
            word: Word::default(),
            absences: Absences::default(),
            history: History::default(),
            created: AtomicU64::new(0),
            deletions: (0..streams).map(|_| AtomicU64::new(0)).collect(),
            holdings: Holdings::default(),
            memory: Arc::clone(memory),
        });
        memory.look_after(&table);
        table
    }

    /// Who made the table: whoever uses it depends on that.
    pub(crate) fn created(&self) -> Position {
        Position::from_bits(self.created.load(Ordering::Acquire))
    }

    /// Notes who made the table, before anybody else can find it.
    pub(crate) fn note_creation(&self, position: Position) {
        self.created.store(position.to_bits(), Ordering::Release);
    }

    /// Whoever finds a key absent depends on these.
    pub(crate) fn deletions(&self) -> impl Iterator<Item = Position> + '_ {
        self.deletions.iter().map(|last| Position::from_bits(last.load(Ordering::Acquire)))
    }

    /// Notes a deletion, before its key leaves the index.
    pub(crate) fn note_deletion(&self, position: Position) {
        if let Some(last) = self.deletions.get(usize::from(position.stream().0)) {
            last.fetch_max(position.to_bits(), Ordering::AcqRel);
        }
    }

    /// What a key costs here with a record of so many bytes, its place in the index aside.
    pub(crate) fn cost(&self, bytes: u64) -> u64 {
        self.memory.record(bytes)
    }

    /// Gives a key an absent record with room for a value of so many bytes. `prepare` sees it before anybody else does;
    /// nothing is returned if the key has one already. Its memory is spent from `purse` and handed over.
    pub(crate) fn plant(
        &self,
        (key, room): (&[u8], usize),
        purse: &mut Purse,
        prepare: impl FnOnce(RecordId, Record<'_>),
    ) -> Result<Option<(RecordId, Change)>> {
        let (id, cost) = self.claim_or_make(room, purse)?;
        prepare(id, self.rows.at(id));
        let Some(change) = self.rows.insert(key, id, &Guard::new()) else {
            self.disclaim(id);
            purse.refund(cost);
            return Ok(None);
        };
        purse.hand_over(cost);
        self.take_over(cost);
        self.count_index();
        Ok(Some((id, change)))
    }

    /// A record for a value of so many bytes, and what was spent for it.
    #[inline]
    fn claim_or_make(&self, room: usize, purse: &mut Purse) -> Result<(RecordId, u64)> {
        let Some(id) = self.claim(room) else {
            let cost = self.cost(bytes_for(room));
            return match purse.spend_at_once(&self.memory, cost) {
                Ok(()) => Ok((self.rows.make(room), cost)),
                Err(refused) => self.spend_for(self.claim_spare(room).ok_or(refused)?, purse),
            };
        };
        self.spend_for(id, purse)
    }

    /// Spends what a record costs that is claimed. Afterwards: what was spare pays for itself.
    fn spend_for(&self, id: RecordId, purse: &mut Purse) -> Result<(RecordId, u64)> {
        let cost = self.cost(id.bytes());
        if let Err(error) = purse.spend_on_write(&self.memory, cost) {
            self.disclaim(id);
            return Err(error);
        }
        Ok((id, cost))
    }

    /// A record with room for a value of so many bytes.
    pub(crate) fn claim_for_recovery(&self, room: usize) -> (RecordId, Record<'_>) {
        let id = self.claim(room).unwrap_or_else(|| self.rows.make(room));
        (id, self.rows.at(id))
    }

    /// A spare record with room for a value of so many bytes, if there is one.
    fn claim(&self, room: usize) -> Option<RecordId> {
        let (id, before) = self.rows.claim(room)?;
        let bytes = match before {
            Before::Spare => self.memory.record(id.bytes()),
            Before::Blank => self.memory.record(0),
        };
        if bytes > 0 {
            self.take_up(bytes);
        }
        Some(id)
    }

    /// A spare record of any size, rather of one with room for a value of so many bytes.
    fn claim_spare(&self, room: usize) -> Option<RecordId> {
        let id = self.rows.claim_spare(room)?;
        self.take_up(self.memory.record(id.bytes()));
        Some(id)
    }

    /// Gives memory of spare records back to the system and to the budget, at least `wanted` bytes if there are as many; says
    /// how many.
    pub(crate) fn shrink(&self, wanted: u64) -> u64 {
        let given = self.rows.shrink(wanted);
        if given > 0 {
            self.take_up(given);
        }
        given
    }

    /// Whether records have left the index that are not spare yet.
    pub(crate) fn has_leaving(&self) -> bool {
        self.rows.has_leaving()
    }

    fn take_up(&self, bytes: u64) {
        self.holdings.spare.fetch_sub(bytes, Ordering::Relaxed);
        self.memory.take_up(bytes);
    }

    /// Counts the index anew, in steps, if it has grown or shrunk.
    #[inline]
    pub(crate) fn count_index(&self) {
        let now = self.rows.index_bytes() / INDEX_STEP * INDEX_STEP;
        let counted = self.holdings.index.load(Ordering::Relaxed);
        if now != counted {
            self.recount_index(counted, now);
        }
    }

    #[cold]
    fn recount_index(&self, counted: u64, now: u64) {
        // What is not counted by now, the next one counts.
        if self.holdings.index.compare_exchange(counted, now, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            return;
        }
        if now > counted {
            self.memory.take(now - counted);
            self.take_over(now - counted);
        } else {
            self.give_back(counted - now);
        }
        let spare = self.rows.index_spare() / INDEX_STEP * INDEX_STEP;
        let before = self.holdings.index_spare.swap(spare, Ordering::Relaxed);
        self.memory.lay_aside(spare);
        self.memory.take_up(before);
    }

    /// Takes the record of a key out, if it is still this one. Its cost is the caller's to give back.
    pub(crate) fn remove(&self, key: &[u8], id: RecordId, guard: &Guard) -> bool {
        let removed = self.rows.remove(key, id, guard);
        if removed {
            self.lay_aside(id);
            self.count_index();
        }
        removed
    }

    /// Gives back a record that was claimed, and that nobody else has ever seen.
    pub(crate) fn disclaim(&self, id: RecordId) {
        self.lay_aside(id);
        self.rows.disclaim(id);
    }

    fn lay_aside(&self, id: RecordId) {
        let bytes = self.memory.record(id.bytes());
        self.holdings.spare.fetch_add(bytes, Ordering::Relaxed);
        self.memory.lay_aside(bytes);
    }

    /// Takes over `bytes` that are reserved in the budget.
    pub(crate) fn take_over(&self, bytes: u64) {
        self.holdings.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// What this table holds has changed by so many bytes; the budget knows already.
    pub(crate) fn adjust(&self, bytes: i64) {
        self.holdings.bytes.fetch_add(bytes.cast_unsigned(), Ordering::Relaxed);
    }

    /// The table was dropped and is still there for snapshots: what it holds does not stand against others any more. Says how
    /// many bytes of old versions it is.
    pub(crate) fn grow_old(&self) -> u64 {
        // Who still has the table may give something back to both: then this wraps around, and the end of the table does so back.
        let bytes = self.holdings.bytes.swap(0, Ordering::Relaxed);
        self.memory.release(bytes);
        self.holdings.old_bytes.fetch_add(bytes, Ordering::Relaxed);
        bytes
    }

    /// Bytes of the budget that this table's records hold.
    pub(crate) fn record_bytes(&self) -> u64 {
        let index = self.holdings.index.load(Ordering::Relaxed);
        self.holdings.bytes.load(Ordering::Relaxed).saturating_sub(index)
    }

    /// Gives `bytes` of this table back to the budget.
    pub(crate) fn give_back(&self, bytes: u64) {
        self.holdings.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.memory.release(bytes);
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        self.memory.release(self.holdings.bytes.load(Ordering::Relaxed));
        self.memory.forget_old(self.history.bytes() + self.holdings.old_bytes.load(Ordering::Relaxed));
        let spare = &self.holdings;
        self.memory.take_up(spare.spare.load(Ordering::Relaxed) + spare.index_spare.load(Ordering::Relaxed));
    }
}

/// A session's way to a table. Whoever uses the table takes a share of this, so that sessions do not meet in the table's own
/// count of shares.
pub(crate) type TableRef = Arc<Arc<Table>>;

/// The tables that exist, by number.
#[derive(Debug)]
pub(crate) struct Tables {
    system: Arc<Table>,
    named: RwLock<HashMap<TableId, Arc<Table>>>,
    next: AtomicU32,
    /// Of the log.
    streams: u16,
    memory: Arc<Memory>,
}

impl Tables {
    pub(crate) fn new(streams: u16, memory: &Arc<Memory>) -> Self {
        Self {
            system: Table::new(TableId::SYSTEM, streams, memory),
            named: RwLock::new(HashMap::new()),
            next: AtomicU32::new(TableId::SYSTEM.0 + 1),
            streams,
            memory: Arc::clone(memory),
        }
    }

    /// An empty table that nobody knows yet.
    pub(crate) fn make(&self, id: TableId) -> Arc<Table> {
        Table::new(id, self.streams, &self.memory)
    }

    pub(crate) fn system(&self) -> &Arc<Table> {
        &self.system
    }

    pub(crate) fn get(&self, id: TableId) -> Option<Arc<Table>> {
        self.named.read().get(&id).cloned()
    }

    /// A number that no table ever had.
    pub(crate) fn next_id(&self) -> Result<TableId> {
        let draw = |id: u32| id.checked_add(1);
        let drawn = self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, draw);
        drawn.map(TableId).map_err(|_| Error::TooManyTables)
    }

    /// Makes a table known. Its number is never given out again.
    pub(crate) fn add(&self, table: Arc<Table>) {
        self.reserve_ids(table.id);
        self.named.write().insert(table.id, table);
    }

    /// Numbers up to this one are never given out again.
    pub(crate) fn reserve_ids(&self, last: TableId) {
        self.next.fetch_max(last.0.saturating_add(1), Ordering::Relaxed);
    }

    /// A number that no table has had so far, and none before it will ever be given out again.
    pub(crate) fn unused_id(&self) -> TableId {
        TableId(self.next.load(Ordering::Relaxed))
    }

    /// The numbers of all tables, the system table aside, in order.
    pub(crate) fn ids(&self) -> Vec<TableId> {
        let mut ids: Vec<_> = self.named.read().keys().copied().collect();
        ids.sort_unstable();
        ids
    }

    /// How many there are, the system table aside.
    pub(crate) fn count(&self) -> usize {
        self.named.read().len()
    }

    /// Forgets a table.
    pub(crate) fn remove(&self, id: TableId) -> Option<Arc<Table>> {
        self.named.write().remove(&id)
    }
}

#[cfg(test)]
mod tests {
    use ishigaki_base::ByteSize;

    use super::*;

    #[test]
    fn a_record_that_was_claimed_in_vain_is_spare_until_it_is_claimed_again_or_the_table_goes() {
        let memory = Arc::new(Memory::new(ByteSize::mib(1)));
        let spare = || memory.usage().spare.0;
        let table = Table::new(TableId(1), 1, &memory);
        let (id, _) = table.claim_for_recovery(8);
        assert_eq!(spare(), 0);
        table.disclaim(id);
        assert_eq!(spare(), id.bytes());
        assert_eq!((table.claim(8), spare()), (Some(id), 0));
        table.disclaim(id);
        drop(table);
        assert_eq!(spare(), 0);
    }
}
