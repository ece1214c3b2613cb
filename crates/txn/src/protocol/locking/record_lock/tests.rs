use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::*;
use crate::{Age, ConflictReason, Error};

const LIFE: Generation = Generation(0);

fn id(age: u64) -> TransactionId {
    TransactionId::first(Age(age))
}

fn held_by(owner: TransactionId) -> RecordLock {
    let lock = RecordLock::default();
    lock.hand_to(owner);
    lock
}

fn never() -> Patience {
    Patience::new(Duration::ZERO, None)
}

fn long() -> Patience {
    Patience::new(Duration::from_secs(20), None)
}

fn conflicts(result: &Result<Grant>) -> bool {
    matches!(result, Err(Error::Conflict { .. }))
}

/// Asks for the lock in another thread, and returns once it waits.
fn waiting(lock: &Arc<RecordLock>, me: TransactionId, exclusive: bool) -> JoinHandle<Result<Grant>> {
    let sleepers = |lock: &RecordLock| lock.state.lock().waiting.as_ref().map_or(0, |waiting| waiting.sleepers);
    let before = sleepers(lock);
    let shared = Arc::clone(lock);
    let thread = thread::spawn(move || {
        if exclusive { shared.acquire_exclusive(LIFE, me, &long()) } else { shared.acquire_shared(LIFE, me, &long()) }
    });
    while sleepers(lock) == before {
        assert!(!thread.is_finished(), "{me:?} did not wait");
        thread::yield_now();
    }
    thread
}

#[test]
fn readers_share_and_a_writer_excludes() {
    let lock = RecordLock::default();
    assert_eq!(lock.acquire_shared(LIFE, id(1), &never()).unwrap(), Grant::New);
    assert_eq!(lock.acquire_shared(LIFE, id(2), &never()).unwrap(), Grant::New);
    assert_eq!(lock.acquire_shared(LIFE, id(2), &never()).unwrap(), Grant::Held);
    assert!(conflicts(&lock.acquire_exclusive(LIFE, id(3), &never())));
    assert!(conflicts(&lock.acquire_exclusive(LIFE, id(1), &never())), "another reader is there");
    lock.release(id(2));
    assert_eq!(lock.acquire_exclusive(LIFE, id(1), &never()).unwrap(), Grant::Upgraded);
    assert_eq!(lock.acquire_shared(LIFE, id(1), &never()).unwrap(), Grant::Held);
    assert!(lock.has_other_writer(id(2)) && !lock.has_other_writer(id(1)));
    assert!(conflicts(&lock.acquire_shared(LIFE, id(2), &never())));
    lock.downgrade(id(1));
    assert_eq!(lock.acquire_shared(LIFE, id(2), &never()).unwrap(), Grant::New);
    assert!(lock.has_other_holder(id(1)) && !lock.has_other_writer(id(3)));
}

#[test]
fn the_younger_gives_way_and_the_older_waits() {
    let lock = Arc::new(held_by(id(2)));
    let younger = lock.acquire_exclusive(LIFE, id(3), &long());
    assert!(matches!(younger, Err(Error::Conflict { reason: ConflictReason::OlderInTheWay })));
    let older = waiting(&lock, id(1), true);
    lock.release(id(2));
    assert_eq!(older.join().unwrap().unwrap(), Grant::New);
    assert!(lock.has_other_writer(id(2)));
}

#[test]
fn of_two_that_want_to_upgrade_the_older_wins() {
    let lock = Arc::new(RecordLock::default());
    for age in [1, 2] {
        lock.acquire_shared(LIFE, id(age), &never()).unwrap();
    }
    let older = waiting(&lock, id(1), true);
    assert!(conflicts(&lock.acquire_exclusive(LIFE, id(2), &long())));
    lock.release(id(2));
    assert_eq!(older.join().unwrap().unwrap(), Grant::Upgraded);
}

#[test]
fn a_new_reader_does_not_overtake_a_waiting_older_writer() {
    let lock = Arc::new(RecordLock::default());
    lock.acquire_shared(LIFE, id(5), &never()).unwrap();
    let writer = waiting(&lock, id(2), true);
    assert!(conflicts(&lock.acquire_shared(LIFE, id(6), &long())));
    assert!(conflicts(&lock.acquire_exclusive(LIFE, id(6), &long())));
    assert_eq!(lock.acquire_shared(LIFE, id(5), &long()).unwrap(), Grant::Held, "who is in stays in");
    // An older reader queues up behind the writer.
    let reader = waiting(&lock, id(1), false);
    lock.release(id(5));
    assert_eq!(writer.join().unwrap().unwrap(), Grant::New);
    lock.release(id(2));
    assert_eq!(reader.join().unwrap().unwrap(), Grant::New);
}

#[test]
fn a_waiter_gives_way_when_somebody_older_got_in_before_it() {
    let lock = Arc::new(RecordLock::default());
    lock.acquire_shared(LIFE, id(5), &never()).unwrap();
    let waiter = waiting(&lock, id(3), true);
    // As if an older one had been faster at the moment when the holder let go.
    {
        let mut state = lock.state.lock();
        state.shared.remove(id(5));
        state.shared.add(id(2));
        lock.wake(&state);
    }
    assert!(conflicts(&waiter.join().unwrap()));
}

#[test]
fn who_waits_for_a_record_that_dies_is_told_so() {
    let lock = Arc::new(held_by(id(9)));
    let waiters = [waiting(&lock, id(1), true), waiting(&lock, id(2), false)];
    lock.release_dead(id(9));
    for waiter in waiters {
        assert_eq!(waiter.join().unwrap().unwrap(), Grant::Dead);
    }
    assert_eq!(lock.acquire_shared(LIFE, id(20), &never()).unwrap(), Grant::Dead);
    // Found by its key before it left the index, and asked which life this is when it had.
    let between = lock.generation();
    assert_eq!(lock.acquire_shared(between, id(20), &never()).unwrap(), Grant::Dead);
    assert_eq!(lock.acquire_exclusive(between, id(20), &never()).unwrap(), Grant::Dead);
    lock.await_no_writer(LIFE, id(20), &never()).unwrap();
    lock.await_nobody(LIFE, id(20), &never()).unwrap();
}

#[test]
fn who_means_an_earlier_life_of_the_record_meets_a_dead_one() {
    let lock = Arc::new(held_by(id(9)));
    let waiters = [waiting(&lock, id(1), true), waiting(&lock, id(2), false)];
    // The record dies and is another key's before any waiter has looked.
    let mut state = lock.state.lock();
    lock.let_go(id(9), &mut state);
    lock.generation.fetch_add(2, Ordering::Release);
    lock.hand_to(id(30));
    drop(state);
    for waiter in waiters {
        assert_eq!(waiter.join().unwrap().unwrap(), Grant::Dead);
    }
    assert_eq!(lock.acquire_exclusive(LIFE, id(1), &long()).unwrap(), Grant::Dead);
    lock.await_nobody(LIFE, id(1), &long()).unwrap();
    lock.release(id(30));
    assert_eq!(lock.acquire_exclusive(LIFE, id(1), &long()).unwrap(), Grant::Dead);
    assert_eq!(lock.acquire_exclusive(lock.generation(), id(1), &long()).unwrap(), Grant::New);
}

#[test]
fn who_takes_no_lock_waits_by_the_same_rules() {
    let lock = RecordLock::default();
    lock.acquire_shared(LIFE, id(5), &never()).unwrap();
    lock.await_no_writer(LIFE, id(9), &never()).unwrap();
    assert!(lock.await_nobody(LIFE, id(9), &long()).is_err());
    assert!(lock.await_nobody(LIFE, id(1), &Patience::new(Duration::from_millis(5), None)).is_err());
    lock.await_nobody(LIFE, id(5), &never()).unwrap();
}

#[test]
fn a_waiter_that_gives_up_leaves_no_trace() {
    let lock = held_by(id(2));
    let result = lock.acquire_exclusive(LIFE, id(1), &Patience::new(Duration::from_millis(5), None));
    assert!(matches!(result, Err(Error::Conflict { reason: ConflictReason::WaitedTooLong })));
    assert!(lock.state.lock().waiting.is_none());
    lock.release(id(2));
    assert_eq!(lock.acquire_shared(LIFE, id(3), &never()).unwrap(), Grant::New);
}

#[test]
fn a_record_lock_is_small() {
    assert!(size_of::<RecordLock>() <= 56, "{}", size_of::<RecordLock>());
}
