//! What a transaction will write, and the locks for it.

use sdd::Guard;

use super::word::{Refused, Stamp, Timestamp};
use super::{Touched, conflict};
use crate::Result;
use crate::key::Key;
use crate::protocol::Patience;
use crate::record::Record;
use crate::records::RecordId;
use crate::table::Table;

/// The records to be written; after `lock` in the order of their numbers, each once.
#[derive(Debug, Default)]
pub(super) struct WriteLocks {
    locks: Vec<WriteLock>,
    /// Apart, since locks are sorted.
    keys: Vec<Key>,
}

/// One record to be written.
#[derive(Debug)]
struct WriteLock {
    /// Its table, among those touched.
    slot: u32,
    /// Its key, among those of the set.
    key: u32,
    id: RecordId,
    /// What its word said when it was found by its key.
    found: Stamp,
    /// This transaction has put it into the index.
    planted: bool,
    /// The transaction has taken its write back, or never came to it.
    stray: bool,
    /// What its word said before it was locked, if it is.
    before: Option<Stamp>,
}

/// A record that the transaction has locked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Own {
    /// What its word said before.
    pub(super) before: Stamp,
    stray: bool,
}

impl Own {
    /// Makes the version from before the lock valid up to `rts`. One that the transaction overwrites needs no more than the
    /// lock: its next version begins behind all that it was valid for. One that stays as it is has no such next version.
    pub(super) fn extend(self, record: Record<'_>, rts: Timestamp) {
        if self.stray {
            let word = record.word();
            word.store(word.load().extended(rts));
        }
    }
}

impl WriteLocks {
    #[inline]
    pub(super) fn add(&mut self, slot: usize, key: &Key, id: RecordId, found: Stamp, planted: bool) {
        let place = self.keys.len() as u32;
        self.keys.push(key.clone());
        self.locks.push(WriteLock { slot: slot as u32, key: place, id, found, planted, stray: false, before: None });
    }

    /// Makes one of all for the same record, and notes which of them are not written after all: if there are more than `count`,
    /// those of which `is_written` says so.
    pub(super) fn settle(
        &mut self,
        tables: &[Touched],
        count: usize,
        is_written: impl Fn(&Table, &Key, RecordId) -> bool,
    ) -> Result<()> {
        let Self { locks, keys } = self;
        // Of two for one record the planted one comes first, and stays.
        locks.sort_unstable_by_key(|lock| (lock.slot, lock.id, !lock.planted));
        if locks.windows(2).any(|pair| pair[0].of() == pair[1].of()) {
            // A record that was found for one key, left it, and was found for another: for one of them it is the wrong one.
            let key = |lock: &WriteLock| &keys[lock.key as usize];
            if locks.windows(2).any(|pair| pair[0].of() == pair[1].of() && key(&pair[0]) != key(&pair[1])) {
                return Err(conflict(Refused::Changed));
            }
            locks.dedup_by_key(|lock| lock.of());
        }
        if locks.len() > count {
            for lock in locks {
                lock.stray = !is_written(lock.table(tables), &keys[lock.key as usize], lock.id);
            }
        }
        Ok(())
    }

    /// Locks all of them, or returns a conflict; then some may be locked. Says the least timestamp that is behind everything
    /// that the written ones are valid for.
    pub(super) fn lock(&mut self, tables: &[Touched], patience: &Patience) -> Result<Timestamp> {
        let Self { locks, keys } = self;
        let mut least = 0;
        for lock in locks {
            let before = lock.acquire(lock.table(tables), &keys[lock.key as usize], patience)?;
            lock.before = Some(before);
            if !lock.stray {
                least = least.max(before.rts() + 1);
            }
        }
        Ok(least)
    }

    /// A record, if it is among those that are locked.
    pub(super) fn own(&self, slot: usize, id: RecordId) -> Option<Own> {
        let place = self.locks.binary_search_by_key(&(slot as u32, id), WriteLock::of).ok()?;
        let WriteLock { before, stray, .. } = self.locks[place];
        before.map(|before| Own { before, stray })
    }

    /// True if somebody else has written a record that this transaction has put into the index of a table. That is no change
    /// of the index, but what had been absent is not so any more.
    pub(super) fn was_overtaken(&self, slot: usize, table: &Table) -> bool {
        let planted = self.locks.iter().filter(|lock| lock.planted && lock.slot as usize == slot);
        planted.into_iter().any(|lock| !table.rows.at(lock.id).word().load().is_same_version(lock.found))
    }

    /// Unlocks all. A record that is absent now leaves the index.
    pub(super) fn release(&mut self, tables: &[Touched]) {
        for lock in self.locks.drain(..) {
            let table = lock.table(tables);
            let record = table.rows.at(lock.id);
            let stamp = match lock.before {
                Some(_) => record.word().load(),
                // Nobody else removes what was planted and never locked.
                None if lock.planted => match record.word().try_lock_version(lock.found) {
                    Ok(stamp) => stamp,
                    // Whoever has it will see to it; or somebody has written it: whatever became of that, it is his.
                    Err(Refused::Locked | Refused::Changed) => continue,
                },
                None => continue,
            };
            if stamp.is_absent() {
                lock.remove(table, &self.keys[lock.key as usize], record, stamp);
            } else {
                record.word().store(stamp.unlocked());
            }
        }
        self.keys.clear();
    }

    /// How many there is room for.
    pub(super) fn capacity(&self) -> usize {
        self.locks.capacity()
    }

    pub(super) fn clear(&mut self) {
        self.locks.clear();
        self.keys.clear();
    }
}

impl WriteLock {
    /// Which record it is.
    #[inline]
    fn of(&self) -> (u32, RecordId) {
        (self.slot, self.id)
    }

    #[inline]
    fn table<'t>(&self, tables: &'t [Touched]) -> &'t Table {
        &tables[self.slot as usize].table
    }

    /// Takes the lock, if the record is still that of the key, which it may have left since it was found. Says what its word
    /// said before.
    #[inline]
    fn acquire(&self, table: &Table, key: &Key, patience: &Patience) -> Result<Stamp> {
        let record = table.rows.at(self.id);
        let attempt = || match record.word().try_lock_version(self.found) {
            Err(Refused::Changed) => self.acquire_newer(table, key, record),
            outcome => outcome,
        };
        let locked = attempt().or_else(|refused| {
            let again = refused == Refused::Locked && patience.unblock();
            if again { attempt() } else { Err(refused) }
        });
        locked.map_err(conflict)
    }

    /// The same for a record that has another version than when it was found.
    #[cold]
    fn acquire_newer(&self, table: &Table, key: &Key, record: Record<'_>) -> Result<Stamp, Refused> {
        // As long as this is there, a record that is its key's now can leave the index, but not be another key's.
        let guard = Guard::new();
        if table.rows.find(key, &guard).is_none_or(|(id, _)| id != self.id) {
            return Err(Refused::Changed);
        }
        record.word().try_lock()
    }

    /// Takes a locked record out of the index.
    fn remove(&self, table: &Table, key: &Key, record: Record<'_>, stamp: Stamp) {
        let guard = Guard::new();
        table.absences.take_over(stamp);
        if table.remove(key, self.id, &guard) {
            table.give_back(table.cost(self.id.bytes()));
        }
        // Before the guard is gone: after that the record may be another key's.
        record.word().store(stamp.dead());
    }
}
