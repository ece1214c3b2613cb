//! The lock of one record: shared or exclusive, wait-die, fair by age.
//!
//! Who asks for what another one holds in conflict may wait if it is older than every holder in its way; otherwise it gives
//! way. A waiter that wakes up judges anew, because somebody older may have come in between; so whoever changes who holds
//! the lock wakes all waiters. Waiters are known by name: a newcomer that would delay an older waiter does not get in, so no
//! stream of readers can starve a writer, and the oldest waiter always gets its turn.
//!
//! A lock whose record has left the index is *dead*: who gets that answer looks the key up again. The record then begins
//! again with another key, in the next *generation*; who asks for the lock says which one he means, and meets a dead lock if
//! that is over. So he needs to protect the record against that only from when he looks up the key until he has read the
//! generation.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

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
    /// Even while the record is some key's, odd from its death until it is another key's. Changes only under `state`.
    generation: AtomicU32,
    state: Mutex<State>,
    changed: Condvar,
}

/// One life of a record, with one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Generation(u32);

#[derive(Debug, Default)]
struct State {
    shared: Owners,
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
    /// Gives a lock that nobody can have found yet to `owner`, exclusively.
    pub(crate) fn hand_to(&self, owner: TransactionId) {
        self.exclusive.store(owner.get(), Ordering::Release);
    }

    /// Begins the next life of a lock that nobody holds.
    pub(crate) fn begin_again(&self) {
        let _state = self.state.lock();
        let last = self.generation.load(Ordering::Relaxed);
        self.generation.store((last | 1).wrapping_add(1), Ordering::Release);
    }

    /// The generation of a lock that was found by its key under a guard which is still there.
    pub(crate) fn generation(&self) -> Generation {
        Generation(self.generation.load(Ordering::Acquire))
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
    pub(crate) fn acquire_shared(&self, life: Generation, me: TransactionId, patience: &Patience) -> Result<Grant> {
        let mut state = self.state.lock();
        if self.exclusive.load(Ordering::Relaxed) == me.get() || state.shared.contains(me) {
            // Nobody takes a record out that others hold, so this is still its life.
            return Ok(Grant::Held);
        }
        self.wait_for(Wish::Shared, (life, me), patience, &mut state)?;
        if self.is_over(life) {
            return Ok(Grant::Dead);
        }
        state.shared.add(me);
        self.wake(&state);
        Ok(Grant::New)
    }

    /// Gets it for writing; a shared lock becomes an exclusive one.
    pub(crate) fn acquire_exclusive(&self, life: Generation, me: TransactionId, patience: &Patience) -> Result<Grant> {
        if self.exclusive.load(Ordering::Relaxed) == me.get() {
            return Ok(Grant::Held);
        }
        let mut state = self.state.lock();
        self.wait_for(Wish::Exclusive, (life, me), patience, &mut state)?;
        if self.is_over(life) {
            return Ok(Grant::Dead);
        }
        let upgraded = state.shared.remove(me);
        self.exclusive.store(me.get(), Ordering::SeqCst);
        self.wake(&state);
        Ok(if upgraded { Grant::Upgraded } else { Grant::New })
    }

    /// Returns when nobody else holds it exclusively, without taking it.
    pub(crate) fn await_no_writer(&self, life: Generation, me: TransactionId, patience: &Patience) -> Result<()> {
        self.wait_for(Wish::NoWriter, (life, me), patience, &mut self.state.lock())
    }

    /// Returns when nobody else holds it, without taking it.
    pub(crate) fn await_nobody(&self, life: Generation, me: TransactionId, patience: &Patience) -> Result<()> {
        self.wait_for(Wish::Nobody, (life, me), patience, &mut self.state.lock())
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
        self.generation.fetch_add(1, Ordering::Release);
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

    /// True if the record has left the index, or has done so and is another key's by now.
    fn is_over(&self, life: Generation) -> bool {
        life.0 % 2 == 1 || self.generation() != life
    }

    /// Returns when the wish is true or the record's life is over.
    fn wait_for(
        &self,
        wish: Wish,
        (life, me): (Generation, TransactionId),
        patience: &Patience,
        state: &mut MutexGuard<'_, State>,
    ) -> Result<()> {
        let mut wait = patience.wait();
        let mut announced = false;
        let result = loop {
            let blocker = if self.is_over(life) { None } else { self.blocker(wish, me, announced, state) };
            let Some(other) = blocker else { break Ok(()) };
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
