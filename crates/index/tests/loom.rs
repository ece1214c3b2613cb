//! Two threads over a small tree, interrupted by each other a few times, wherever that may be. A node has three slots here.
//!
//! What is checked is the protocol of versions, splits and merges, and the order of memory. The guards are the real ones;
//! they know of one thread only here, so nothing is reclaimed while a model runs.
//!
//! The checker's bound on interruptions keeps some schedules from it: that a parent must be checked again behind its child's
//! stamp is found by the threads of `tests/stress.rs`, not here.
//!
//! Runs only under the model checker: `RUSTFLAGS="--cfg loom" cargo test -p ishigaki-index --test loom --release`.

#![cfg(loom)]

use std::ops::{Bound, ControlFlow};

use ishigaki_index::{Guard, Index, Seen};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

/// How often one thread may be interrupted by the other in the middle of something.
const INTERRUPTIONS: usize = 3;

fn model(run: impl Fn() + Sync + Send + 'static) {
    interrupted(INTERRUPTIONS, run);
}

fn interrupted(times: usize, run: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(times);
    model.max_branches = 20_000;
    model.check(run);
}

fn index(keys: impl IntoIterator<Item = u8>) -> Arc<Index> {
    let index = Index::new();
    for key in keys {
        insert(&index, key);
    }
    Arc::new(index)
}

fn insert(index: &Index, key: u8) -> bool {
    index.insert(&[key], u64::from(key), &Guard::new()).is_ok()
}

fn remove(index: &Index, key: u8) -> bool {
    index.remove_if(&[key], |number| number == u64::from(key), &Guard::new()).is_some()
}

fn get(index: &Index, key: u8) -> Option<u8> {
    index.get(&[key], &Guard::new()).map(|number| number as u8)
}

fn keys(index: &Index, seen: Option<&mut Seen>) -> Vec<u8> {
    let mut keys = Vec::new();
    let _ = index.walk::<()>(
        (Bound::Unbounded, Bound::Unbounded),
        seen,
        &Guard::new(),
        |_| (),
        |key, record| {
            assert_eq!(u64::from(key[0]), record);
            keys.push(key[0]);
            ControlFlow::Continue(())
        },
    );
    assert!(keys.is_sorted_by(|a, b| a < b), "{keys:?}");
    keys
}

/// Runs `other` beside `this`.
fn beside(index: &Arc<Index>, other: impl FnOnce(&Index) + 'static, this: impl FnOnce(&Index)) {
    let beside = thread::spawn({
        let index = index.clone();
        move || other(&index)
    });
    this(index);
    beside.join().unwrap();
}

#[test]
fn a_key_is_found_while_its_leaf_shifts() {
    model(|| {
        let index = index([2, 3]);
        beside(
            &index,
            |index| assert!(insert(index, 1)),
            |index| {
                assert_eq!(get(index, 3), Some(3));
                assert!(matches!(get(index, 1), None | Some(1)));
            },
        );
        assert_eq!(get(&index, 1), Some(1));
    });
}

#[test]
fn a_key_is_found_while_its_leaf_splits() {
    model(|| {
        let index = index([1, 2, 3]);
        beside(&index, |index| assert!(insert(index, 4)), |index| assert_eq!(get(index, 3), Some(3)));
        assert_eq!(keys(&index, None), [1, 2, 3, 4]);
    });
}

#[test]
fn one_of_two_inserts_of_a_key_succeeds() {
    model(|| {
        let index = index([1, 3]);
        let inserted = thread::spawn({
            let index = index.clone();
            move || insert(&index, 2)
        });
        let here = insert(&index, 2);
        assert!(here ^ inserted.join().unwrap());
        assert_eq!(keys(&index, None), [1, 2, 3]);
    });
}

#[test]
fn two_inserts_into_a_full_leaf_both_succeed() {
    model(|| {
        let index = index([1, 3, 5]);
        beside(&index, |index| assert!(insert(index, 2)), |index| assert!(insert(index, 4)));
        assert_eq!(keys(&index, None), [1, 2, 3, 4, 5]);
    });
}

#[test]
fn a_walk_misses_nothing_while_a_leaf_splits() {
    model(|| {
        let index = index([1, 3, 5]);
        beside(
            &index,
            |index| assert!(insert(index, 4)),
            |index| {
                let mut keys = keys(index, None);
                keys.retain(|key| *key != 4);
                assert_eq!(keys, [1, 3, 5]);
            },
        );
    });
}

#[test]
fn a_walk_misses_nothing_while_leaves_merge() {
    interrupted(2, || {
        let index = index([1, 2, 3, 4]);
        beside(
            &index,
            |index| assert!(remove(index, 3) && remove(index, 1)),
            |index| {
                let mut keys = keys(index, None);
                keys.retain(|key| *key % 2 == 0);
                assert_eq!(keys, [2, 4]);
            },
        );
        assert_eq!(keys(&index, None), [2, 4]);
    });
}

#[test]
fn a_key_is_found_while_nodes_live_again_elsewhere() {
    interrupted(1, || {
        let index = index([1, 2, 3, 4, 5]);
        assert!(remove(&index, 1));
        beside(
            &index,
            |index| {
                // Two leaves become one; their nodes are used again for the next split.
                assert!(remove(index, 2));
                assert!(insert(index, 6));
            },
            // The leaf that had 5 is then the one that has 3 and 4.
            |index| assert_eq!(get(index, 5), Some(5)),
        );
        assert_eq!(keys(&index, None), [3, 4, 5, 6]);
    });
}

#[test]
fn what_was_seen_tells_of_a_key_that_came() {
    model(|| {
        let index = index([1, 3]);
        let mut seen = Seen::new();
        let mut shown = Vec::new();
        beside(&index, |index| assert!(insert(index, 2)), |index| shown = keys(index, Some(&mut seen)));
        assert_eq!(index.unchanged(&seen), shown == [1, 2, 3]);
    });
}

#[test]
fn of_two_that_saw_nothing_and_insert_one_notices() {
    interrupted(2, || {
        let index = index([1, 3, 5]);
        let attempt = |own: u8, other: u8| {
            move |index: &Index| {
                let mut seen = Seen::new();
                let guard = Guard::new();
                if index.get_or_see(&[other], &mut seen, &guard).is_some() {
                    return false;
                }
                let change = index.insert(&[own], u64::from(own), &guard).unwrap();
                seen.absorb(&change);
                index.unchanged(&seen)
            }
        };
        let other = thread::spawn({
            let index = index.clone();
            let attempt = attempt(4, 2);
            move || attempt(&index)
        });
        let this = attempt(2, 4)(&index);
        assert!(!(this && other.join().unwrap()), "both have seen nothing of the other");
    });
}

/// What a key's number stands for may become something else as soon as the key is removed.
#[test]
fn who_looks_without_a_guard_knows_whose_it_was() {
    model(|| {
        let index = index([1, 2]);
        let owner = Arc::new(AtomicU64::new(1));
        let given = Arc::clone(&owner);
        beside(
            &index,
            move |index| {
                assert!(remove(index, 1));
                given.store(3, Ordering::Release);
                assert!(insert(index, 3));
            },
            |index| {
                let Some(glance) = index.glance(&[1]) else { return };
                let seen = owner.load(Ordering::Acquire);
                if glance.is_still_so() {
                    assert_eq!((glance.number(), seen), (Some(1), 1));
                }
            },
        );
        assert_eq!(index.glance(&[1]).map(|glance| glance.number()), Some(None));
    });
}
