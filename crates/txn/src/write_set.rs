//! What a transaction will change: buffered until commit, seen only by itself.
//!
//! Writes are kept in the order in which their keys were first written. A key is found by its fingerprint: among a few by
//! looking at all of them, among many in a hash table. The first scan of many writes puts them into key order, too, so that
//! scans can merge them with what is committed. From the first savepoint on, every change of the set is journaled, and
//! rolling back to a savepoint undoes the journal's tail. Locks are not in here: undoing a write keeps its lock.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::HashTable;
use smallvec::SmallVec;

use crate::key::{self, Key, KeyRange};
use crate::memory::{self, Purse};
use crate::records::RecordId;
use crate::table::{Table, TableId};
use crate::version::Version;

/// The new state of one key: a value, or none for a deletion.
#[derive(Debug)]
pub(crate) struct Write {
    pub(crate) record: RecordId,
    pub(crate) value: Option<Version>,
}

/// All writes to one table.
#[derive(Debug)]
pub(crate) struct TableWrites {
    pub(crate) table: Arc<Table>,
    /// Each key once. One that was taken back has no write.
    entries: Vec<Entry>,
    /// Entries by fingerprint, once there are many.
    found: HashTable<usize>,
    /// Entries in key order, from the first scan of many on.
    ordered: OnceCell<BTreeMap<Key, usize>>,
}

#[derive(Debug)]
struct Entry {
    fingerprint: u64,
    key: Key,
    write: Option<Write>,
}

/// The buffered writes of one transaction.
#[derive(Debug, Default)]
pub(crate) struct WriteSet {
    tables: SmallVec<[TableWrites; 4]>,
    journal: Vec<Undo>,
}

/// How to take one change back.
#[derive(Debug)]
struct Undo {
    slot: usize,
    entry: usize,
    before: Before,
}

/// What the set held for a key before a change.
#[derive(Debug)]
enum Before {
    Nothing,
    Write(Option<Version>),
}

/// What a write costs until the transaction ends, its value included.
pub(crate) fn cost(key: &Key, value: Option<&[u8]>) -> u64 {
    memory::write_cost(key) + value.map_or(0, memory::value_cost)
}

impl Entry {
    fn cost(&self) -> u64 {
        self.write.as_ref().map_or(0, |write| cost(&self.key, write.value.as_ref().map(Version::value)))
    }
}

impl TableWrites {
    /// As many entries are few.
    const FEW: usize = 16;

    fn new(table: &Arc<Table>) -> Self {
        let table = Arc::clone(table);
        Self { table, entries: Vec::new(), found: HashTable::new(), ordered: OnceCell::new() }
    }

    /// The writes, each key once.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Key, &Write)> {
        self.entries.iter().filter_map(|entry| Some((&entry.key, entry.write.as_ref()?)))
    }

    /// Takes the writes out.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = (Key, Write)> {
        self.entries.drain(..).filter_map(|entry| Some((entry.key, entry.write?)))
    }

    /// The place of a key.
    fn position(&self, fingerprint: u64, key: &[u8]) -> Option<usize> {
        let is = |entry: &Entry| entry.fingerprint == fingerprint && *entry.key == *key;
        if self.entries.len() <= Self::FEW {
            return self.entries.iter().position(is);
        }
        self.found.find(fingerprint, |&at| is(&self.entries[at])).copied()
    }

    fn push(&mut self, entry: Entry) -> usize {
        let at = self.entries.len();
        if let Some(ordered) = self.ordered.get_mut() {
            ordered.insert(entry.key.clone(), at);
        }
        self.entries.push(entry);
        let entries = &self.entries;
        let fingerprint = |&at: &usize| entries[at].fingerprint;
        if at == Self::FEW {
            for at in 0..at {
                self.found.insert_unique(fingerprint(&at), at, fingerprint);
            }
        }
        if at >= Self::FEW {
            self.found.insert_unique(fingerprint(&at), at, fingerprint);
        }
        at
    }

    /// The writes of a range, in key order.
    fn range<'a>(&'a self, range: KeyRange<'_>) -> Vec<(&'a [u8], &'a Write)> {
        let shown = |entry: &'a Entry| Some((&*entry.key, entry.write.as_ref()?));
        if self.entries.len() > 4 * Self::FEW {
            let order = || self.entries.iter().enumerate().map(|(at, entry)| (entry.key.clone(), at)).collect();
            let ordered = self.ordered.get_or_init(order);
            return ordered.range::<[u8], _>(range).filter_map(|(_, &at)| shown(&self.entries[at])).collect();
        }
        let within = self.entries.iter().filter(|entry| key::is_within(range, &entry.key));
        let mut writes: Vec<_> = within.filter_map(shown).collect();
        writes.sort_unstable_by_key(|(key, _)| *key);
        writes
    }
}

impl WriteSet {
    pub(crate) fn is_empty(&self) -> bool {
        self.tables.iter().all(|table| table.iter().next().is_none())
    }

    /// The own write to a key; one without a value says that it is deleted.
    pub(crate) fn get(&self, table: TableId, key: &[u8]) -> Option<&Write> {
        let writes = self.tables.iter().find(|writes| writes.table.id == table)?;
        writes.entries[writes.position(key::fingerprint(key), key)?].write.as_ref()
    }

    /// The own writes to a range, which must not be inverted, in key order.
    pub(crate) fn range(&self, table: TableId, range: KeyRange<'_>) -> Vec<(&[u8], &Write)> {
        let writes = self.tables.iter().find(|writes| writes.table.id == table);
        writes.map_or(Vec::new(), |writes| writes.range(range))
    }

    /// Adds a write whose cost has been spent from `purse`; the cost of one that it replaces goes back there.
    pub(crate) fn put(&mut self, table: &Arc<Table>, key: Key, write: Write, journal: bool, purse: &mut Purse) {
        let slot = self.slot(table);
        let writes = &mut self.tables[slot];
        let fingerprint = key::fingerprint(&key);
        let (entry, before) = match writes.position(fingerprint, &key) {
            None => (writes.push(Entry { fingerprint, key, write: Some(write) }), Before::Nothing),
            Some(at) => {
                let entry = &mut writes.entries[at];
                // What the journal keeps goes on costing.
                if !journal {
                    purse.refund(entry.cost());
                }
                let before = entry.write.replace(write);
                (at, before.map_or(Before::Nothing, |before| Before::Write(before.value)))
            }
        };
        if journal {
            self.journal.push(Undo { slot, entry, before });
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
            let entry = &mut self.tables[undo.slot].entries[undo.entry];
            purse.refund(entry.cost());
            match (undo.before, &mut entry.write) {
                (Before::Write(value), Some(write)) => write.value = value,
                (_, write) => *write = None,
            }
        }
    }

    /// The writes, table by table.
    pub(crate) fn tables(&self) -> &[TableWrites] {
        &self.tables
    }

    /// Takes the writes out.
    pub(crate) fn take(&mut self) -> SmallVec<[TableWrites; 4]> {
        self.journal.clear();
        std::mem::take(&mut self.tables)
    }

    fn slot(&mut self, table: &Arc<Table>) -> usize {
        if let Some(slot) = self.tables.iter().position(|writes| writes.table.id == table.id) {
            return slot;
        }
        self.tables.push(TableWrites::new(table));
        self.tables.len() - 1
    }
}
