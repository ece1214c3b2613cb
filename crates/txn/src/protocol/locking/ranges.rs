//! Protection against phantoms: the ranges that running transactions have read in one table.
//!
//! A scan locks no records. It *announces* its range here, then walks the index, and a record that somebody else is writing
//! is a conflict. A writer locks its record first, a new key's absent record included, and then looks here. Both sides
//! store before they look, with a sequentially consistent fence in between, so at least one of them sees the other:
//!
//! ```text
//! scan:    announce range ; fence ; look at each record's exclusive holder
//! writer:  lock record    ; fence ; look at the announced ranges
//! ```
//!
//! The one that sees the other waits for it or gives way, by wait-die as for records. A table can also be *monopolized*, to
//! drop it: that stands against every read and write of others. Both sides meet in the same way: they take their lock, then
//! look for a monopolist; the monopolist makes itself known, then looks for locks.
//!
//! A writer that waits here is known by its key, and a younger reader does not announce a range over it: else scans that
//! overlap in time could keep the oldest writer waiting for ever, while each of them gives way to it at its record.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::super::{Patience, TransactionId};
use super::range_set::{Range, RangeSet};
use crate::key::Key;
use crate::{ConflictReason, Error, Result};

/// The announced ranges of a table.
#[derive(Debug, Default)]
pub(crate) struct Ranges {
    /// Transactions with a range; writers look no further when it is zero.
    announced: AtomicUsize,
    /// The transaction that has the table for itself, zero for none, `GONE` once the table is dropped.
    monopolist: AtomicU64,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    owners: Vec<Owner>,
    /// Writers asleep until their key is read by nobody else.
    writers: Vec<(TransactionId, Key)>,
    sleepers: usize,
}

#[derive(Debug)]
struct Owner {
    id: TransactionId,
    /// The range of a scan under way. How much of it stays locked is known at its end.
    walking: Option<Range>,
    read: RangeSet,
}

/// Stands in the monopolist's place once the table is dropped.
const GONE: u64 = u64::MAX;

impl Ranges {
    /// Locks `range` for reading, to be walked now. A conflict if an older writer has been waiting for a key of it.
    pub(crate) fn announce(&self, me: TransactionId, range: Range) -> Result<()> {
        let mut state = self.state.lock();
        if state.would_delay_a_writer(me, &range) {
            return Err(Error::conflict(ConflictReason::OlderInTheWay));
        }
        if !state.owners.iter().any(|owner| owner.id == me) {
            state.owners.push(Owner { id: me, walking: None, read: RangeSet::default() });
            self.announced.store(state.owners.len(), Ordering::SeqCst);
        }
        if let Some(owner) = state.of(me)
            && let Some(unsettled) = owner.walking.replace(range)
        {
            // Its walk did not come to an end: the visitor panicked, and may have seen any of it.
            owner.read.insert(unsettled);
        }
        self.wake(&state);
        drop(state);
        fence(Ordering::SeqCst);
        Ok(())
    }

    /// The walk is over. What was announced stays locked, up to `last` if it ended there.
    pub(crate) fn settle(&self, me: TransactionId, last: Option<Key>) {
        let mut state = self.state.lock();
        let Some(owner) = state.of(me) else { return };
        let Some(mut range) = owner.walking.take() else { return };
        if let Some(last) = last {
            range.end = std::ops::Bound::Included(last);
        }
        owner.read.insert(range);
        self.wake(&state);
    }

    /// Lets go of all ranges of `me`.
    pub(crate) fn retract(&self, me: TransactionId) {
        let mut state = self.state.lock();
        state.owners.retain(|owner| owner.id != me);
        self.announced.store(state.owners.len(), Ordering::SeqCst);
        self.wake(&state);
    }

    /// Returns when nobody else has announced `key`, whose record `me` has just locked exclusively.
    pub(crate) fn await_unread(&self, me: TransactionId, key: &[u8], patience: &Patience) -> Result<()> {
        fence(Ordering::SeqCst);
        if self.announced.load(Ordering::SeqCst) == 0 {
            return Ok(());
        }
        self.wait_while(me, patience, Some(key), |state| state.reader_of(me, key))
    }

    /// Returns when no other transaction has the table for itself; false if the table is gone. To be asked after a lock was
    /// taken, not before.
    pub(crate) fn await_shared(&self, me: TransactionId, patience: &Patience) -> Result<bool> {
        loop {
            let monopolist = self.monopolist.load(Ordering::SeqCst);
            if monopolist == 0 || monopolist == me.get() {
                return Ok(true);
            }
            if monopolist == GONE {
                return Ok(false);
            }
            self.wait_while(me, patience, None, |_| self.other_monopolist(me))?;
        }
    }

    /// Stops all others from entering, then returns when nobody else has a range here; false if the table is gone. Who holds
    /// records must still be waited for.
    pub(crate) fn monopolize(&self, me: TransactionId, patience: &Patience) -> Result<bool> {
        self.wait_while(me, patience, None, |_| self.other_monopolist(me))?;
        let taken = self.monopolist.compare_exchange(0, me.get(), Ordering::SeqCst, Ordering::SeqCst);
        match taken {
            Err(GONE) => return Ok(false),
            Err(other) if other != me.get() => return self.monopolize(me, patience),
            _ => {}
        }
        self.wake(&self.state.lock());
        fence(Ordering::SeqCst);
        self.wait_while(me, patience, None, |state| state.other_than(me))?;
        Ok(true)
    }

    /// Ends the monopoly of `me`, if it has one: for good, or for others to enter again.
    pub(crate) fn end_monopoly(&self, me: TransactionId, gone: bool) {
        let state = self.state.lock();
        let after = if gone { GONE } else { 0 };
        // Fails when `me` is not the monopolist; then there is nothing to end.
        let _ = self.monopolist.compare_exchange(me.get(), after, Ordering::SeqCst, Ordering::SeqCst);
        self.wake(&state);
    }

    fn other_monopolist(&self, me: TransactionId) -> Option<u64> {
        Some(self.monopolist.load(Ordering::SeqCst)).filter(|&id| id != 0 && id != me.get() && id != GONE)
    }

    fn wake(&self, state: &State) {
        if state.sleepers > 0 {
            self.changed.notify_all();
        }
    }

    /// Waits as long as `blocker` names a transaction that is in the way, for `key` if it is to be written.
    fn wait_while(
        &self,
        me: TransactionId,
        patience: &Patience,
        key: Option<&[u8]>,
        blocker: impl Fn(&State) -> Option<u64>,
    ) -> Result<()> {
        let mut state = self.state.lock();
        let mut wait = patience.wait();
        let mut sleep = |state: &mut MutexGuard<'_, State>, other| {
            wait.may_wait_for(me, other)?;
            if let Some(key) = key
                && !state.writers.iter().any(|(writer, _)| *writer == me)
            {
                state.writers.push((me, Key::of_bound(key)));
            }
            state.sleepers += 1;
            let slept = wait.sleep(&self.changed, state);
            state.sleepers -= 1;
            slept
        };
        let mut result = Ok(());
        while let (Ok(()), Some(other)) = (&result, blocker(&state)) {
            result = sleep(&mut state, other);
        }
        state.writers.retain(|(writer, _)| *writer != me);
        result
    }
}

impl State {
    fn of(&mut self, me: TransactionId) -> Option<&mut Owner> {
        self.owners.iter_mut().find(|owner| owner.id == me)
    }

    /// True if an older writer waits for a key of `range` that `me` has not read before.
    fn would_delay_a_writer(&self, me: TransactionId, range: &Range) -> bool {
        let has_read = |key: &[u8]| self.owners.iter().any(|owner| owner.id == me && owner.read.contains(key));
        self.writers.iter().any(|(writer, key)| *writer < me && range.contains(key) && !has_read(key))
    }

    /// The oldest other transaction that has read `key`.
    fn reader_of(&self, me: TransactionId, key: &[u8]) -> Option<u64> {
        let reads = |owner: &&Owner| {
            owner.id != me
                && (owner.read.contains(key) || owner.walking.as_ref().is_some_and(|range| range.contains(key)))
        };
        self.owners.iter().filter(reads).map(|owner| owner.id.get()).min()
    }

    /// The oldest other transaction that has read anything.
    fn other_than(&self, me: TransactionId) -> Option<u64> {
        self.owners.iter().filter(|owner| owner.id != me).map(|owner| owner.id.get()).min()
    }
}

#[cfg(test)]
mod tests;
