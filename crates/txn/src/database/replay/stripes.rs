//! Keys: of all writes to one key the one with the largest LSN stays.
//!
//! Writes to a key come one at a time: they lock the key's stripe, one of many that keys are dealt out to by a hash. A write
//! that is older than what is there changes nothing.
//!
//! A deletion must be remembered until nothing older can come: it leaves a *tombstone*, a record without a value, in the
//! index, and its key in the stripe's list. When the list has doubled, those of the list that are passed leave the index.
//! So there are never more than twice as many tombstones as there are deletions that are not passed yet (and a few per
//! stripe), and they cost no more than one walk of the list. Where records come in the order of their LSNs, a deletion
//! leaves none.

use std::mem::size_of;
use std::sync::{Arc, Weak};

use ishigaki_base::Lsn;
use parking_lot::Mutex;
use sdd::Owned;

use super::{Account, Memory, Result, Table, TableId, recovered};
use crate::key::{Key, Value};
use crate::memory::{record_cost, value_cost};
use crate::record::Record;

/// How many stripes there are.
const STRIPES: usize = 256;

/// Tombstones of a stripe that are kept in any case.
const FEW: usize = 16;

/// See the module.
#[derive(Debug)]
pub(super) struct Stripes(Box<[Padded]>);

/// A stripe on cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Padded(Mutex<Stripe>);

#[derive(Debug, Default)]
struct Stripe {
    tombstones: Vec<Tombstone>,
    /// When there are as many, it is time to forget.
    look_at: usize,
}

/// Where a deletion may have left a record without a value.
#[derive(Debug)]
struct Tombstone {
    /// Not kept alive by this: a dropped table takes its tombstones along.
    table: Weak<Table>,
    key: Key,
    lsn: Lsn,
}

impl Tombstone {
    fn cost(key: &Key) -> u64 {
        (size_of::<Self>() + key.heap()) as u64
    }

    /// Takes the record out of the index, if it is still this deletion's.
    fn forget(&self, account: &mut Account, memory: &Memory) {
        account.put_back(memory, Self::cost(&self.key));
        let Some(table) = self.table.upgrade() else { return };
        let Some(record) = table.index.find(&self.key) else { return };
        if record.is_absent() && record.version().lsn() == self.lsn && table.index.remove(&self.key, &record) {
            let cost = record_cost(&self.key);
            table.adjust(-(cost as i64));
            account.put_back(memory, cost);
        }
    }
}

impl Stripe {
    /// Remembers a deletion, and forgets others when there are many.
    fn bury(&mut self, tombstone: Tombstone, passed: Lsn, account: &mut Account, memory: &Memory) -> Result<()> {
        if self.tombstones.len() >= self.look_at.max(FEW) {
            self.tombstones.retain(|tombstone| {
                let stays = tombstone.lsn >= passed;
                if !stays {
                    tombstone.forget(account, memory);
                }
                stays
            });
            self.look_at = 2 * self.tombstones.len();
        }
        account.borrow(memory, Tombstone::cost(&tombstone.key))?;
        self.tombstones.push(tombstone);
        Ok(())
    }
}

impl Stripes {
    /// Stores a value, unless there is something newer.
    pub(super) fn put(
        &self,
        table: &Arc<Table>,
        account: &mut Account,
        memory: &Memory,
        lsn: Lsn,
        key: &[u8],
        value: &[u8],
    ) -> Result<()> {
        let _stripe = self.of(table.id, key).lock();
        let record = table.index.find(key);
        if record.as_ref().is_some_and(|record| record.version().lsn() >= lsn) {
            return Ok(());
        }
        let value = Value::from_slice(value);
        let cost = value_cost(&value);
        if let Some(record) = record {
            account.take(memory, cost)?;
            let old = record.replace(Some(Owned::new(value)), recovered(lsn));
            account.give_back(memory, old.as_deref().map_or(0, value_cost));
        } else {
            let key = Key::new(key)?;
            account.take(memory, cost + record_cost(&key))?;
            table.index.insert(&key, &Arc::new(Record::committed(Owned::new(value), recovered(lsn))));
        }
        Ok(())
    }

    /// Removes a key, unless there is something newer; says whether the key was there, now or with a later write.
    pub(super) fn delete(
        &self,
        table: &Arc<Table>,
        account: &mut Account,
        memory: &Memory,
        lsn: Lsn,
        key: &[u8],
        passed: Lsn,
    ) -> Result<bool> {
        let mut stripe = self.of(table.id, key).lock();
        let found = table.index.find(key);
        if found.as_ref().is_some_and(|record| record.version().lsn() >= lsn) {
            return Ok(true);
        }
        // Whatever is still to come is newer.
        let last = lsn <= passed;
        let key = Key::new(key)?;
        let Some(record) = found else {
            if !last {
                account.take(memory, record_cost(&key))?;
                table.index.insert(&key, &Arc::new(Record::deleted(recovered(lsn))));
                stripe.bury(Tombstone { table: Arc::downgrade(table), key, lsn }, passed, account, memory)?;
            }
            return Ok(false);
        };
        let old = record.replace(None, recovered(lsn));
        account.give_back(memory, old.as_deref().map_or(0, value_cost));
        if !last {
            stripe.bury(Tombstone { table: Arc::downgrade(table), key, lsn }, passed, account, memory)?;
        } else if table.index.remove(&key, &record) {
            account.give_back(memory, record_cost(&key));
        }
        Ok(old.is_some())
    }

    /// Forgets every tombstone: nothing comes any more.
    pub(super) fn forget_all(&mut self, account: &mut Account, memory: &Memory) {
        for stripe in &mut self.0 {
            for tombstone in std::mem::take(&mut stripe.0.get_mut().tombstones) {
                tombstone.forget(account, memory);
            }
        }
    }

    /// Keys that wait in the lists.
    #[cfg(test)]
    pub(super) fn tombstones(&self) -> usize {
        self.0.iter().map(|stripe| stripe.0.lock().tombstones.len()).sum()
    }

    /// The stripe of a key.
    fn of(&self, table: TableId, key: &[u8]) -> &Mutex<Stripe> {
        // Fibonacci hashing, eight bytes at a time: it need not be good, only quick and no respecter of neighbours.
        let mix = |hash: u64, word: u64| (hash.rotate_left(23) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let (words, rest) = key.as_chunks::<8>();
        let hash = words.iter().fold(u64::from(table.0), |hash, word| mix(hash, u64::from_le_bytes(*word)));
        let hash = rest.iter().fold(mix(hash, key.len() as u64), |hash, byte| mix(hash, u64::from(*byte)));
        &self.0[(hash >> 56) as usize % STRIPES].0
    }
}

impl Default for Stripes {
    fn default() -> Self {
        Self((0..STRIPES).map(|_| Padded::default()).collect())
    }
}
