//! What a transaction will change: buffered until commit, seen only by itself.
//!
//! Writes are kept in the order in which their keys were first written. A key is found by its fingerprint: among a few by
//! looking at all of them, among many in a hash table. The first scan of many writes puts them into key order, too, so that
//! scans can merge them with what is committed. Short values lie beside each other ([`values`]). From the first savepoint
//! on, every change of the set is journaled, and rolling back to a savepoint undoes the journal's tail. Locks are not in
//! here: undoing a write keeps its lock.

#[cfg(test)]
mod tests;
mod values;

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::ops::RangeBounds;
use std::sync::Arc;
use std::thread::LocalKey;

use hashbrown::HashTable;

use crate::key::{self, Key, KeyRange};
use crate::memory::{self, Purse};
use crate::record::Value;
use crate::records::RecordId;
use crate::spare::{Lend, Spare};
use crate::table::{TableId, TableRef};
use values::{Buffered, Mark, Values};

/// The new state of one key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Write<'a> {
    pub(crate) record: RecordId,
    /// A value, or none for a deletion.
    pub(crate) value: Option<&'a [u8]>,
}

/// All writes to one table.
#[derive(Debug)]
pub(crate) struct TableWrites {
    pub(crate) table: TableRef,
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
    record: RecordId,
    state: State,
}

/// What an entry says.
#[derive(Debug)]
enum State {
    /// Nothing: it was taken back.
    Void,
    Delete,
    Put(Buffered),
}

/// The buffered writes of one transaction.
///
/// Afterwards the next one of the same thread takes its memory over.
#[derive(Debug, Default)]
pub(crate) struct WriteSet {
    tables: Vec<TableWrites>,
    values: Values,
    journal: Vec<Undo>,
    /// Memory for the redo record.
    pub(crate) redo: Vec<u8>,
    /// For the entries of tables to come.
    idle: Vec<Vec<Entry>>,
}

thread_local! {
    static SPARE: Spare<WriteSet> = const { Spare::new(None) };
}

impl Lend for WriteSet {
    fn spare() -> &'static LocalKey<Spare<Self>> {
        &SPARE
    }

    fn tidy(&mut self) -> bool {
        self.clear();
        if self.redo.capacity() > Self::KEPT * 64 {
            self.redo = Vec::new();
        }
        true
    }
}

/// Where a key is in a write set, or would be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    fingerprint: u64,
    slot: Option<usize>,
    entry: Option<usize>,
}

/// How to take one change back.
#[derive(Debug)]
struct Undo {
    slot: usize,
    entry: usize,
    before: State,
    /// Where the values of this change and of later ones begin.
    mark: Mark,
}

/// What a write costs until the transaction ends, its value included.
pub(crate) fn cost(key: &Key, value: Option<&[u8]>) -> u64 {
    memory::write_cost(key) + value.map_or(0, memory::value_cost)
}

impl Entry {
    fn cost(&self, values: &Values) -> u64 {
        match &self.state {
            State::Void => 0,
            State::Delete => cost(&self.key, None),
            State::Put(value) => cost(&self.key, Some(values.get(value))),
        }
    }

    #[inline]
    fn write<'a>(&'a self, values: &'a Values) -> Option<Write<'a>> {
        let value = match &self.state {
            State::Void => return None,
            State::Delete => None,
            State::Put(value) => Some(values.get(value)),
        };
        Some(Write { record: self.record, value })
    }
}

impl TableWrites {
    /// As many entries are few.
    const FEW: usize = 16;

    fn new(table: &TableRef, entries: Vec<Entry>) -> Self {
        Self { table: Arc::clone(table), entries, found: HashTable::new(), ordered: OnceCell::new() }
    }

    /// The place of a key.
    #[inline]
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
    fn range<'a>(&'a self, values: &'a Values, range: KeyRange<'_>) -> Vec<(&'a [u8], Write<'a>)> {
        let shown = |entry: &'a Entry| Some((&*entry.key, entry.write(values)?));
        if self.entries.len() > 4 * Self::FEW {
            let order = || self.entries.iter().enumerate().map(|(at, entry)| (entry.key.clone(), at)).collect();
            let ordered = self.ordered.get_or_init(order);
            return ordered.range::<[u8], _>(range).filter_map(|(_, &at)| shown(&self.entries[at])).collect();
        }
        let within = self.entries.iter().filter(|entry| range.contains(&*entry.key));
        let mut writes: Vec<_> = within.filter_map(shown).collect();
        writes.sort_unstable_by_key(|(key, _)| *key);
        writes
    }
}

impl WriteSet {
    /// The most that is kept of a vector, in entries, and how many vectors.
    const KEPT: usize = 256;
    const IDLE: usize = 16;

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many keys are written.
    pub(crate) fn len(&self) -> usize {
        let entries = self.tables.iter().flat_map(|table| &table.entries);
        entries.filter(|entry| !matches!(entry.state, State::Void)).count()
    }

    /// The own write to a key.
    #[inline]
    pub(crate) fn get(&self, table: TableId, key: &[u8]) -> Option<Write<'_>> {
        let writes = self.tables.iter().find(|writes| writes.table.id == table)?;
        let at = writes.position(key::fingerprint(key), key)?;
        writes.entries[at].write(&self.values)
    }

    /// Where a key of a table is, or would be.
    #[inline]
    pub(crate) fn find(&self, table: TableId, key: &[u8]) -> Place {
        let fingerprint = key::fingerprint(key);
        let slot = self.tables.iter().position(|writes| writes.table.id == table);
        let entry = slot.and_then(|slot| self.tables[slot].position(fingerprint, key));
        Place { fingerprint, slot, entry }
    }

    /// The own write there.
    #[inline]
    pub(crate) fn at(&self, place: Place) -> Option<Write<'_>> {
        let (slot, entry) = place.slot.zip(place.entry)?;
        self.tables[slot].entries[entry].write(&self.values)
    }

    /// The own writes to a range, which must not be inverted, in key order.
    pub(crate) fn range(&self, table: TableId, range: KeyRange<'_>) -> Vec<(&[u8], Write<'_>)> {
        let writes = self.tables.iter().find(|writes| writes.table.id == table);
        writes.map_or(Vec::new(), |writes| writes.range(&self.values, range))
    }

    /// The own writes to a table, each key once.
    pub(crate) fn of<'a>(&'a self, table: &'a TableWrites) -> impl Iterator<Item = (&'a Key, Write<'a>)> {
        table.entries.iter().filter_map(|entry| Some((&entry.key, entry.write(&self.values)?)))
    }

    /// Adds a write at the `place` of its key, which nothing was added to since. Its cost has been spent from `purse`; the cost
    /// of one that it replaces goes back there.
    pub(crate) fn put(
        &mut self,
        Place { fingerprint, slot, entry }: Place,
        (table, key): (&TableRef, Key),
        write: Write<'_>,
        journal: bool,
        purse: &mut Purse,
    ) {
        let slot = slot.unwrap_or_else(|| self.add_table(table));
        let Self { tables, values, .. } = self;
        let (writes, mark) = (&mut tables[slot], values.mark());
        let state = |values: &mut Values| write.value.map_or(State::Delete, |value| State::Put(values.add(value)));
        let (entry, before) = match entry {
            None => {
                let entry = Entry { fingerprint, key, record: write.record, state: state(values) };
                (writes.push(entry), State::Void)
            }
            Some(at) => {
                let entry = &mut writes.entries[at];
                entry.record = write.record;
                // What the journal keeps goes on costing.
                if journal {
                    (at, std::mem::replace(&mut entry.state, state(values)))
                } else {
                    let (with_value, without) = (entry.cost(values), cost(&entry.key, None));
                    let is_place_kept = match (&mut entry.state, write.value) {
                        (State::Put(old), Some(value)) => values.replace(old, value),
                        (old, _) => {
                            let is_short = matches!(old, State::Put(Buffered::Short(_)));
                            *old = state(values);
                            !is_short
                        }
                    };
                    // A place that is lost goes on costing until the end.
                    purse.refund(if is_place_kept { with_value } else { without });
                    (at, State::Void)
                }
            }
        };
        if journal {
            self.journal.push(Undo { slot, entry, before, mark });
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
            purse.refund(entry.cost(&self.values));
            entry.state = undo.before;
            self.values.truncate(undo.mark);
        }
    }

    /// The writes, table by table.
    pub(crate) fn tables(&self) -> &[TableWrites] {
        &self.tables
    }

    /// Gives every write away, and forgets it.
    pub(crate) fn install(&mut self, mut install: impl FnMut(&TableRef, &Key, RecordId, Option<Value<'_>>)) {
        for writes in &mut self.tables {
            for Entry { key, record, state, .. } in writes.entries.drain(..) {
                let value = match state {
                    State::Void => continue,
                    State::Delete => None,
                    State::Put(Buffered::Long(version)) => Some(Value::Outside(version)),
                    State::Put(Buffered::Short(place)) => Some(Value::Bytes(self.values.at(place))),
                };
                install(&writes.table, &key, record, value);
            }
        }
        self.clear();
    }

    /// Forgets everything.
    #[inline]
    pub(crate) fn clear(&mut self) {
        // Whatever there is, it is of a table.
        if !self.tables.is_empty() {
            self.clear_tables();
        }
    }

    fn clear_tables(&mut self) {
        self.journal.clear();
        for TableWrites { mut entries, .. } in self.tables.drain(..) {
            if entries.capacity() <= Self::KEPT && self.idle.len() < Self::IDLE {
                entries.clear();
                self.idle.push(entries);
            }
        }
        self.values.clear();
    }

    fn add_table(&mut self, table: &TableRef) -> usize {
        let entries = self.idle.pop().unwrap_or_default();
        self.tables.push(TableWrites::new(table, entries));
        self.tables.len() - 1
    }
}
