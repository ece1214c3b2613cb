//! The lock of one record: shared or exclusive, wait-die, fair by age.
//!
//! Who asks for what another one holds in conflict may wait if it is older than every holder in its way; otherwise it gives
//! way. A waiter that wakes up judges anew, because somebody older may have come in between; so whoever changes who holds
//! the lock wakes all waiters. Waiters are known by name: a newcomer that would delay an older waiter does not get in, so no
//! stream of readers can starve a writer, and the oldest waiter always gets its turn.
//!
//! A lock whose record has left the index is *dead*: who gets that answer looks the key up again.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::super::{Patience, TransactionId};
use super::owners::Owners;
use crate::Result;

/// What asking for a lock came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grant {
    /// It is the transaction's now.
    New,
    /// Its shared lock has become an exclusive one.
    Upgraded,
    /// It had it already.
    Held,
    /// The record has left the index: look the key up again.
    Dead,
}

/// The lock embedded in every record.
#[derive(Debug, Default)]
pub(crate) struct RecordLock {
    /// The exclusive holder, or zero. Changes only under `state`; read without it by scans, which rely on the fences
    /// described in `ranges`.
    exclusive: AtomicU64,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    shared: Owners,
    dead: bool,
    /// Only there while somebody waits.
    waiting: Option<Box<Waiting>>,
}

#[derive(Debug, Default)]
struct Waiting {
    readers: Owners,
    writers: Owners,
    /// How many sleep, those included who want no lock but only to see one go (scans).
    sleepers: u32,
}

/// What a waiter wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    Shared,
    Exclusive,
    /// That nobody else holds it exclusively.
    NoWriter,
    /// That nobody else holds it at all.
    Nobody,
}

impl RecordLock {
    /// A lock that `owner` holds exclusively.
    pub(crate) fn held_by(owner: TransactionId) -> Self {
        Self { exclusive: AtomicU64::new(owner.get()), ..Self::default() }
    }

    /// True if a transaction other than `me` holds it exclusively.
    pub(crate) fn has_other_writer(&self, me: TransactionId) -> bool {
        let owner = self.exclusive.load(Ordering::Acquire);
        owner != 0 && owner != me.get()
    }

    /// True if a transaction other than `me` holds it at all.
    pub(crate) fn has_other_holder(&self, me: TransactionId) -> bool {
        self.has_other_writer(me) || self.state.lock().shared.oldest_but(me).is_some()
    }

    /// Gets it for reading.
    pub(crate) fn acquire_shared(&self, me: TransactionId, patience: &Patience) -> Result<Grant> {
        let mut state = self.state.lock();
        if self.exclusive.load(Ordering::Relaxed) == me.get() || state.shared.contains(me) {
            return Ok(Grant::Held);
        }
        self.wait_for(Wish::Shared, me, patience, &mut state)?;
        if state.dead {
            return Ok(Grant::Dead);
        }
        state.shared.add(me);
        self.wake(&state);
        Ok(Grant::New)
    }

    /// Gets it for writing; a shared lock becomes an exclusive one.
    pub(crate) fn acquire_exclusive(&self, me: TransactionId, patience: &Patience) -> Result<Grant> {
        if self.exclusive.load(Ordering::Relaxed) == me.get() {
            return Ok(Grant::Held);
        }
        let mut state = self.state.lock();
        self.wait_for(Wish::Exclusive, me, patience, &mut state)?;
        if state.dead {
            return Ok(Grant::Dead);
        }
        let upgraded = state.shared.remove(me);
        self.exclusive.store(me.get(), Ordering::SeqCst);
        self.wake(&state);
        Ok(if upgraded { Grant::Upgraded } else { Grant::New })
    }

    /// Returns when nobody else holds it exclusively, without taking it.
    pub(crate) fn await_no_writer(&self, me: TransactionId, patience: &Patience) -> Result<()> {
        self.wait_for(Wish::NoWriter, me, patience, &mut self.state.lock())
    }

    /// Returns when nobody else holds it, without taking it.
    pub(crate) fn await_nobody(&self, me: TransactionId, patience: &Patience) -> Result<()> {
        self.wait_for(Wish::Nobody, me, patience, &mut self.state.lock())
    }

    /// Makes an exclusive lock a shared one again.
    pub(crate) fn downgrade(&self, me: TransactionId) {
        let mut state = self.state.lock();
        self.exclusive.store(0, Ordering::Release);
        state.shared.add(me);
        self.wake(&state);
    }

    /// Lets go of whatever `me` holds.
    pub(crate) fn release(&self, me: TransactionId) {
        let mut state = self.state.lock();
        self.let_go(me, &mut state);
    }

    /// Lets go of an exclusive lock whose record has left the index.
    pub(crate) fn release_dead(&self, me: TransactionId) {
        let mut state = self.state.lock();
        state.dead = true;
        self.let_go(me, &mut state);
    }

    fn let_go(&self, me: TransactionId, state: &mut MutexGuard<'_, State>) {
        if self.exclusive.load(Ordering::Relaxed) == me.get() {
            self.exclusive.store(0, Ordering::Release);
        } else {
            state.shared.remove(me);
        }
        self.wake(state);
    }

    fn wake(&self, state: &State) {
        if state.waiting.is_some() {
            self.changed.notify_all();
        }
    }

    /// Returns when the wish is true or the record is dead.
    fn wait_for(
        &self,
        wish: Wish,
        me: TransactionId,
        patience: &Patience,
        state: &mut MutexGuard<'_, State>,
    ) -> Result<()> {
        let mut wait = patience.wait();
        let mut announced = false;
        let result = loop {
            let Some(other) = self.blocker(wish, me, announced, state) else { break Ok(()) };
            if let Err(conflict) = wait.may_wait_for(me, other) {
                break Err(conflict);
            }
            if !announced {
                state.waiting.get_or_insert_default().add(wish, me);
                announced = true;
            }
            if let Err(gave_up) = wait.sleep(&self.changed, state) {
                break Err(gave_up);
            }
        };
        if announced {
            self.forget_waiter(wish, me, state);
        }
        result
    }

    fn forget_waiter(&self, wish: Wish, me: TransactionId, state: &mut State) {
        let Some(waiting) = &mut state.waiting else { return };
        if waiting.remove(wish, me) {
            state.waiting = None;
        } else {
            // Others may have waited only because this one did.
            self.changed.notify_all();
        }
    }

    /// The oldest transaction that keeps the wish from coming true, or that must not be overtaken.
    fn blocker(&self, wish: Wish, me: TransactionId, announced: bool, state: &State) -> Option<u64> {
        if state.dead {
            return None;
        }
        let writer = self.exclusive.load(Ordering::Relaxed);
        if writer != 0 && writer != me.get() {
            return Some(writer);
        }
        let others = || state.shared.oldest_but(me);
        let waiting = state.waiting.as_deref();
        let first = match wish {
            Wish::NoWriter => None,
            Wish::Nobody => others(),
            Wish::Shared => waiting.and_then(|waiting| waiting.writers.oldest_but(me)),
            // An upgrade delays nobody who could go first, and who waits here already was not overtaking anybody when it came.
            Wish::Exclusive if announced || state.shared.contains(me) => others(),
            Wish::Exclusive => others().into_iter().chain(waiting.and_then(|waiting| waiting.older_than(me))).min(),
        };
        first.map(TransactionId::get)
    }
}

impl Waiting {
    fn add(&mut self, wish: Wish, me: TransactionId) {
        self.sleepers += 1;
        if let Some(list) = self.list(wish) {
            list.add(me);
        }
    }

    /// Says whether nobody waits any more.
    fn remove(&mut self, wish: Wish, me: TransactionId) -> bool {
        self.sleepers -= 1;
        if let Some(list) = self.list(wish) {
            list.remove(me);
        }
        self.sleepers == 0
    }

    fn list(&mut self, wish: Wish) -> Option<&mut Owners> {
        match wish {
            Wish::Shared => Some(&mut self.readers),
            Wish::Exclusive => Some(&mut self.writers),
            Wish::NoWriter | Wish::Nobody => None,
        }
    }

    /// The oldest waiter, if it is older than `me`.
    fn older_than(&self, me: TransactionId) -> Option<TransactionId> {
        let lists = [&self.readers, &self.writers];
        lists.iter().filter_map(|list| list.oldest_but(me)).min().filter(|&oldest| oldest < me)
    }
}

#[cfg(test)]
mod tests;
