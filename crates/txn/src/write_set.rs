//! What a transaction will change: buffered until commit, seen only by itself.
//!
//! Writes are kept in key order per table, so that the transaction's own scans can merge them with what is committed. From
//! the first savepoint on, every change of the set is journaled, and rolling back to a savepoint undoes the journal's tail.
//! Locks are not in here: undoing a write keeps its lock.

use std::collections::BTreeMap;
use std::collections::btree_map;
use std::sync::Arc;

use sdd::Owned;
use smallvec::SmallVec;

use crate::key::{Key, KeyRange, Value};
use crate::memory::{self, Purse};
use crate::record::Record;
use crate::table::{Table, TableId};

/// The new state of one key: a value, or none for a deletion.
#[derive(Debug)]
pub(crate) struct Write {
    pub(crate) record: Arc<Record>,
    pub(crate) value: Option<Owned<Value>>,
}

/// All writes to one table.
#[derive(Debug)]
pub(crate) struct TableWrites {
    pub(crate) table: Arc<Table>,
    pub(crate) writes: BTreeMap<Key, Write>,
}

/// The buffered writes of one transaction.
#[derive(Debug, Default)]
pub(crate) struct WriteSet {
    tables: SmallVec<[TableWrites; 2]>,
    journal: Vec<Undo>,
}

/// How to take one change back.
#[derive(Debug)]
struct Undo {
    slot: usize,
    key: Key,
    before: Before,
}

/// What the set held for a key before a change.
#[derive(Debug)]
enum Before {
    Nothing,
    Write(Option<Owned<Value>>),
}

/// What a write costs until the transaction ends, its value included.
pub(crate) fn cost(key: &Key, value: Option<&Value>) -> u64 {
    memory::write_cost(key) + value.map_or(0, memory::value_cost)
}

impl WriteSet {
    pub(crate) fn is_empty(&self) -> bool {
        self.tables.iter().all(|table| table.writes.is_empty())
    }

    /// The own write to a key; `Some(None)` inside says it is deleted.
    pub(crate) fn get(&self, table: TableId, key: &[u8]) -> Option<&Write> {
        self.of(table)?.writes.get(key)
    }

    /// The own writes to a range, which must not be inverted.
    pub(crate) fn range(&self, table: TableId, range: KeyRange<'_>) -> Option<btree_map::Range<'_, Key, Write>> {
        Some(self.of(table)?.writes.range::<[u8], _>(range))
    }

    /// Adds a write whose cost has been spent from `purse`; the cost of one that it replaces goes back there.
    pub(crate) fn put(&mut self, table: &Arc<Table>, key: Key, write: Write, journal: bool, purse: &mut Purse) {
        let slot = self.slot(table);
        let undo_key = journal.then(|| key.clone());
        let before = match self.tables[slot].writes.entry(key) {
            btree_map::Entry::Vacant(entry) => {
                entry.insert(write);
                Before::Nothing
            }
            btree_map::Entry::Occupied(mut entry) => {
                let cost = cost(entry.key(), entry.get().value.as_deref());
                // What the journal keeps goes on costing.
                if !journal {
                    purse.refund(cost);
                }
                Before::Write(std::mem::replace(entry.get_mut(), write).value)
            }
        };
        if let Some(key) = undo_key {
            self.journal.push(Undo { slot, key, before });
        }
    }

    /// How many changes the journal knows.
    pub(crate) fn journal_len(&self) -> usize {
        self.journal.len()
    }

    /// Takes back every change behind the first `len` of the journal.
    pub(crate) fn undo_to(&mut self, len: usize, purse: &mut Purse) {
        while self.journal.len() > len {
            let Some(undo) = self.journal.pop() else { return };
            let writes = &mut self.tables[undo.slot].writes;
            let btree_map::Entry::Occupied(mut entry) = writes.entry(undo.key) else { continue };
            purse.refund(cost(entry.key(), entry.get().value.as_deref()));
            match undo.before {
                Before::Write(value) => entry.get_mut().value = value,
                Before::Nothing => drop(entry.remove()),
            }
        }
    }

    /// The writes, table by table.
    pub(crate) fn tables(&self) -> &[TableWrites] {
        &self.tables
    }

    /// Takes the writes out.
    pub(crate) fn take(&mut self) -> SmallVec<[TableWrites; 2]> {
        self.journal.clear();
        std::mem::take(&mut self.tables)
    }

    fn of(&self, table: TableId) -> Option<&TableWrites> {
        self.tables.iter().find(|writes| writes.table.id == table)
    }

    fn slot(&mut self, table: &Arc<Table>) -> usize {
        if let Some(slot) = self.tables.iter().position(|writes| writes.table.id == table.id) {
            return slot;
        }
        self.tables.push(TableWrites { table: Arc::clone(table), writes: BTreeMap::new() });
        self.tables.len() - 1
    }
}
