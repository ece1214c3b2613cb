//! Keys: of all writes to one key the one with the largest LSN stays.
//!
//! Writes to a key come one at a time: they lock the key's stripe, one of many that keys are dealt out to by a hash. A write
//! that is older than what is there changes nothing.
//!
//! A deletion must be remembered until nothing older can come: it leaves a *tombstone* in the stripe. When there are twice as
//! many as the last time, those that are passed are forgotten. So there are never more than twice as many tombstones as there
//! are deletions that are not passed yet (and a few per stripe), and they cost no more than one walk of all. Where records
//! come in the order of their LSNs, a deletion leaves none.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::mem::size_of;
use std::sync::Arc;

use ishigaki_base::Lsn;
use parking_lot::Mutex;
use sdd::Guard;

use super::{Account, Memory, Result, Table, TableId, insert, recovered};
use crate::key::{self, Key};
use crate::record::{Value, outside_cost};

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
    /// The last deletion of keys that are not there.
    tombstones: HashMap<(TableId, Key), Lsn>,
    /// When there are as many, it is time to forget.
    look_at: usize,
}

/// What a tombstone costs: its place in a hash table that is half full.
fn tombstone_cost(key: &Key) -> u64 {
    (2 * (size_of::<(TableId, Key)>() + size_of::<Lsn>()) + key.heap()) as u64
}

impl Stripe {
    /// Remembers a deletion, and forgets others when there are many.
    fn bury(
        &mut self,
        table: TableId,
        key: Key,
        (lsn, passed): (Lsn, Lsn),
        account: &mut Account,
        memory: &Memory,
    ) -> Result<()> {
        if self.tombstones.len() >= self.look_at.max(FEW) {
            self.tombstones.retain(|(_, key), lsn| {
                let stays = *lsn >= passed;
                if !stays {
                    account.put_back(memory, tombstone_cost(key));
                }
                stays
            });
            self.look_at = 2 * self.tombstones.len();
        }
        let cost = tombstone_cost(&key);
        match self.tombstones.entry((table, key)) {
            Entry::Occupied(mut last) => *last.get_mut() = lsn,
            Entry::Vacant(place) => {
                account.borrow(memory, cost)?;
                place.insert(lsn);
            }
        }
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
        let mut stripe = self.of(table.id, key).lock();
        let guard = Guard::new();
        if let Some((_, record)) = table.rows.find(key, &guard) {
            if record.position().lsn() >= lsn {
                return Ok(());
            }
            let (old, new) = (record.outside(&guard), outside_cost(record, value));
            account.take(memory, new)?;
            drop(record.overwrite(Some(Value::Bytes(value)), recovered(lsn)));
            account.give_back(memory, old);
            return Ok(());
        }
        let key = Key::new(key)?;
        if !stripe.tombstones.is_empty() {
            let place = (table.id, key.clone());
            match stripe.tombstones.get(&place) {
                Some(deleted) if *deleted >= lsn => return Ok(()),
                Some(_) => {
                    stripe.tombstones.remove(&place);
                    account.put_back(memory, tombstone_cost(&key));
                }
                None => {}
            }
        }
        // Nobody else is at this key.
        insert(table, &key, value, lsn, |cost| account.take(memory, cost)).map(drop)
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
        let guard = Guard::new();
        let found = table.rows.find(key, &guard);
        let key = Key::new(key)?;
        if let Some((id, record)) = found {
            if record.position().lsn() >= lsn {
                return Ok(true);
            }
            let cost = table.cost(id.bytes()) + record.outside(&guard);
            table.remove(&key, id, &guard);
            account.give_back(memory, cost);
        } else if let Some(deleted) = stripe.tombstones.get(&(table.id, key.clone()))
            && *deleted >= lsn
        {
            return Ok(true);
        }
        // Unless whatever is still to come is newer.
        if lsn > passed {
            stripe.bury(table.id, key, (lsn, passed), account, memory)?;
        }
        Ok(found.is_some())
    }

    /// Forgets every tombstone: nothing comes any more.
    pub(super) fn forget_all(&mut self, account: &mut Account, memory: &Memory) {
        for stripe in &mut self.0 {
            for ((_, key), _) in stripe.0.get_mut().tombstones.drain() {
                account.put_back(memory, tombstone_cost(&key));
            }
        }
    }

    /// How many there are.
    #[cfg(test)]
    pub(super) fn tombstones(&self) -> usize {
        self.0.iter().map(|stripe| stripe.0.lock().tombstones.len()).sum()
    }

    /// The stripe of a key.
    fn of(&self, table: TableId, key: &[u8]) -> &Mutex<Stripe> {
        let hash = key::fingerprint(key) ^ u64::from(table.0).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        &self.0[(hash >> 56) as usize % STRIPES].0
    }
}

impl Default for Stripes {
    fn default() -> Self {
        Self((0..STRIPES).map(|_| Padded::default()).collect())
    }
}
