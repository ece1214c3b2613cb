//! What a transaction will write, and the locks for it.

use std::sync::Arc;

use super::conflict;
use super::word::{Refused, Stamp, Timestamp};
use crate::Result;
use crate::key::Key;
use crate::memory;
use crate::protocol::Patience;
use crate::record::Record;
use crate::table::Table;

/// The records to be written; after `lock` in the order of their keys, each once.
#[derive(Debug, Default)]
pub(super) struct WriteLocks(Vec<WriteLock>);

/// One record to be written.
#[derive(Debug)]
pub(super) struct WriteLock {
    /// Its table, among those touched.
    slot: usize,
    key: Key,
    record: Arc<Record>,
    /// This transaction has put it into the index.
    planted: bool,
    /// What its word said before it was locked, if it is.
    before: Option<Stamp>,
}

impl WriteLocks {
    pub(super) fn add(&mut self, slot: usize, key: &Key, record: &Arc<Record>, planted: bool) {
        self.0.push(WriteLock { slot, key: key.clone(), record: Arc::clone(record), planted, before: None });
    }

    /// Locks all of them, or returns a conflict; then some may be locked. Says the least timestamp that is behind everything
    /// that they are valid for.
    pub(super) fn lock(&mut self, patience: &Patience) -> Result<Timestamp> {
        // Of two for one key the planted one comes first, and stays.
        self.0.sort_unstable_by(|one, other| {
            (one.slot, &one.key, other.planted).cmp(&(other.slot, &other.key, one.planted))
        });
        self.0.dedup_by(|one, other| Arc::ptr_eq(&one.record, &other.record));
        let mut least = 0;
        for lock in &mut self.0 {
            let before = lock.record.word.try_lock().or_else(|refused| {
                let again = refused == Refused::Locked && patience.unblock();
                if again { lock.record.word.try_lock() } else { Err(refused) }
            });
            let before = before.map_err(conflict)?;
            lock.before = Some(before);
            least = least.max(before.rts() + 1);
        }
        Ok(least)
    }

    /// What the record of a key said before it was locked, if it is among them.
    pub(super) fn before(&self, slot: usize, key: &[u8]) -> Option<Stamp> {
        let place = self.0.binary_search_by(|lock| (lock.slot, &*lock.key).cmp(&(slot, key))).ok()?;
        self.0[place].before
    }

    /// Unlocks all. A record that is absent now leaves the index.
    pub(super) fn release<'a>(&mut self, table: impl Fn(usize) -> &'a Arc<Table>) {
        for lock in self.0.drain(..) {
            // Nobody else removes what was planted and never locked.
            let stamp = match lock.before {
                Some(_) => lock.record.word.load(),
                None if lock.planted => match lock.record.word.try_lock() {
                    Ok(stamp) => stamp,
                    // Whoever has it will see to it; or somebody has.
                    Err(Refused::Locked | Refused::Changed) => continue,
                },
                None => continue,
            };
            if stamp.is_absent() {
                lock.remove(table(lock.slot), stamp);
            } else {
                lock.record.word.store(stamp.unlocked());
            }
        }
    }

    /// How many there is room for.
    pub(super) fn capacity(&self) -> usize {
        self.0.capacity()
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

impl WriteLock {
    /// Takes a locked record out of the index.
    fn remove(&self, table: &Table, stamp: Stamp) {
        table.absences.take_over(stamp);
        if table.index.remove(&self.key, &self.record) {
            table.give_back(memory::record_cost(&self.key));
        }
        self.record.word.store(stamp.dead());
    }
}
