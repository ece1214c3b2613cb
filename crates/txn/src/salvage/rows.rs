//! The rows that were found, each with the largest LSN that any source had for it.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::ops::Bound;

use ishigaki_base::Lsn;

use crate::redo::{self, Operation};
use crate::table::TableId;

/// A row, or `None` where it was deleted.
type Versioned = (Lsn, Option<Vec<u8>>);

/// Tables on their way into a new database.
pub(super) struct Rows<'w> {
    /// The system table among them: names of tables to their numbers.
    tables: BTreeMap<TableId, BTreeMap<Vec<u8>, Versioned>>,
    dropped: HashSet<TableId>,
    /// Which tables are kept.
    wanted: Box<dyn Fn(TableId) -> bool + 'w>,
}

impl<'w> Rows<'w> {
    pub(super) fn new(wanted: impl Fn(TableId) -> bool + 'w) -> Self {
        Self { tables: BTreeMap::new(), dropped: HashSet::new(), wanted: Box::new(wanted) }
    }

    /// A row of a checkpoint, or one that a record has put.
    pub(super) fn put(&mut self, table: TableId, lsn: Lsn, key: &[u8], value: &[u8]) {
        self.set(table, lsn, key, Some(value));
    }

    /// What a record says, where `counts` says that it counts.
    pub(super) fn apply(&mut self, lsn: Lsn, operation: Operation<'_>, counts: &impl Fn(TableId, &[u8]) -> bool) {
        match operation {
            Operation::Put { table, key, value } if counts(table, key) => self.set(table, lsn, key, Some(value)),
            Operation::Delete { table, key } if counts(table, key) => self.set(table, lsn, key, None),
            Operation::Create { table, name } if counts(TableId::SYSTEM, name) => {
                self.set(TableId::SYSTEM, lsn, name, Some(&redo::encode_id(table)));
            }
            Operation::Drop { table, name } => {
                if counts(TableId::SYSTEM, name) {
                    self.set(TableId::SYSTEM, lsn, name, None);
                }
                // For ever: no number is used twice.
                self.tables.remove(&table);
                self.dropped.insert(table);
            }
            Operation::Put { .. } | Operation::Delete { .. } | Operation::Create { .. } => {}
        }
    }

    fn set(&mut self, table: TableId, lsn: Lsn, key: &[u8], value: Option<&[u8]>) {
        let is_wanted = table == TableId::SYSTEM || (self.wanted)(table);
        if !is_wanted || self.dropped.contains(&table) {
            return;
        }
        let rows = self.tables.entry(table).or_default();
        match rows.get_mut(key) {
            Some((known, _)) if *known > lsn => {}
            Some(row) => *row = (lsn, value.map(<[u8]>::to_vec)),
            None => drop(rows.insert(key.to_vec(), (lsn, value.map(<[u8]>::to_vec)))),
        }
    }

    /// Everything was taken: what was deleted is forgotten.
    pub(super) fn settle(&mut self) {
        for rows in self.tables.values_mut() {
            rows.retain(|_, (_, value)| value.is_some());
        }
        let dropped = &self.dropped;
        let is_there = |value: &[u8]| redo::decode_id(value).is_some_and(|id| !dropped.contains(&id));
        if let Some(names) = self.tables.get_mut(&TableId::SYSTEM) {
            names.retain(|_, (_, value)| value.as_deref().is_some_and(is_there));
        }
    }

    /// Names and numbers.
    pub(super) fn names(&self) -> BTreeMap<TableId, String> {
        let names = self.tables.get(&TableId::SYSTEM).into_iter().flatten();
        let number = |(name, (_, value)): (&Vec<u8>, &Versioned)| {
            Some((redo::decode_id(value.as_deref()?)?, String::from_utf8_lossy(name).into_owned()))
        };
        names.filter_map(number).collect()
    }

    /// All tables that have a name or a row.
    pub(super) fn tables(&self) -> Vec<(TableId, Option<String>)> {
        let names = self.names();
        let mut ids: Vec<_> = names.keys().copied().collect();
        let has_rows = self.tables.iter().filter(|(id, rows)| **id != TableId::SYSTEM && !rows.is_empty());
        ids.extend(has_rows.map(|(&id, _)| id));
        ids.sort_unstable();
        ids.dedup();
        ids.into_iter().map(|id| (id, names.get(&id).cloned())).collect()
    }

    pub(super) fn name(&mut self, table: TableId, name: &str) {
        self.set(TableId::SYSTEM, Lsn::MAX, name.as_bytes(), Some(&redo::encode_id(table)));
    }

    /// How many rows a table has.
    pub(super) fn count(&self, table: TableId) -> u64 {
        self.tables.get(&table).map_or(0, |rows| rows.len() as u64)
    }

    pub(super) fn scan<'a>(
        &'a self,
        table: TableId,
        from: Bound<&'a [u8]>,
    ) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        let rows = self.tables.get(&table).into_iter();
        rows.flat_map(move |rows| rows.range::<[u8], _>((from, Bound::Unbounded)))
            .filter_map(|(key, (_, value))| Some((key.as_slice(), value.as_deref()?)))
    }

    /// Takes the rows of a table out.
    pub(super) fn take(&mut self, table: TableId) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> + use<> {
        let rows = self.tables.remove(&table).unwrap_or_default();
        rows.into_iter().filter_map(|(key, (_, value))| Some((key, value?)))
    }

    /// Forgets what decides which tables are kept.
    pub(super) fn owned(self) -> Rows<'static> {
        Rows { tables: self.tables, dropped: self.dropped, wanted: Box::new(|_| true) }
    }
}

impl fmt::Debug for Rows<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rows").field("tables", &self.tables.len()).finish_non_exhaustive()
    }
}
