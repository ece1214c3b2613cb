//! What a user of an index sees.

#![cfg(not(loom))]

use std::ops::{Bound, ControlFlow};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};

use ishigaki_index::{Guard, Handle, Index, KeyRange, Seen};

const ALL: KeyRange<'static> = (Bound::Unbounded, Bound::Unbounded);

fn index(keys: impl IntoIterator<Item = u64>) -> Index<u64> {
    let index = Index::new();
    for key in keys {
        assert!(index.insert(&key.to_be_bytes(), Arc::new(key), &Guard::new()).is_ok());
    }
    index
}

fn shown(index: &Index<u64>, range: KeyRange<'_>) -> Vec<u64> {
    let mut shown = Vec::new();
    let _ = index.walk::<()>(range, None, &Guard::new(), |_, record| {
        shown.push(*record);
        ControlFlow::Continue(())
    });
    shown
}

/// Waits until all guards of other tests, too, have let go of a record.
fn goes(record: &Weak<u64>) -> bool {
    (0..1_000_000).any(|_| {
        let guard = Guard::new();
        guard.accelerate();
        drop(guard);
        std::thread::yield_now();
        record.strong_count() == 0
    })
}

#[test]
fn the_empty_key_is_a_key_like_others() {
    let (index, guard) = (Index::new(), Guard::new());
    assert!(index.get(b"", &guard).is_none() && shown(&index, ALL).is_empty());
    assert!(index.insert(b"", Arc::new(7), &guard).is_ok());
    assert_eq!(index.get(b"", &guard).map(|record| *record), Some(7));
    for start in [Bound::Unbounded, Bound::Included(b"".as_slice())] {
        assert_eq!(shown(&index, (start, Bound::Unbounded)), [7]);
    }
    assert_eq!(shown(&index, (Bound::Excluded(b""), Bound::Unbounded)), []);
    assert!(index.remove_if(b"", |_| true, &guard).is_some() && index.get(b"", &guard).is_none());
}

#[test]
fn keys_of_any_length_are_kept_apart() {
    let (index, guard) = (Index::new(), Guard::new());
    let lengths = [0, 1, 7, 8, 9, 16, 100, 65_535, 65_536, 65_537, 200_000];
    let keys: Vec<Vec<u8>> =
        lengths.iter().flat_map(|length| (0..12).map(|last| [vec![5; *length], vec![last]].concat())).collect();
    for (number, key) in keys.iter().enumerate() {
        assert!(index.insert(key, Arc::new(number), &guard).is_ok());
    }
    for (number, key) in keys.iter().enumerate() {
        assert_eq!(index.get(key, &guard).map(|record| *record), Some(number));
    }
}

#[test]
fn a_second_record_of_a_key_is_refused_and_comes_back() {
    let (index, guard) = (index([1]), Guard::new());
    let refused = index.insert(&1_u64.to_be_bytes(), Arc::new(2), &guard).unwrap_err();
    assert_eq!((*refused.present, *refused.refused), (1, 2));
    assert_eq!(Arc::strong_count(&refused.refused), 1);
}

#[test]
fn a_record_lasts_as_long_as_the_guard_under_which_it_was_found() {
    let index = Index::new();
    let record = Arc::new(7);
    let weak = Arc::downgrade(&record);
    assert!(index.insert(b"k", record, &Guard::new()).is_ok());
    let guard = Guard::new();
    let found = index.get(b"k", &guard).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| assert!(index.remove_if(b"k", |_| true, &Guard::new()).is_some()));
    });
    for _ in 0..1000 {
        Guard::new().accelerate();
    }
    assert_eq!((*found, weak.strong_count()), (7, 1));
    drop(guard);
    assert!(goes(&weak));
}

#[test]
fn a_kept_record_needs_neither_guard_nor_index() {
    let index = index([1, 2]);
    let kept = index.get(&1_u64.to_be_bytes(), &Guard::new()).map(Handle::keep).unwrap();
    let other = index.get(&2_u64.to_be_bytes(), &Guard::new()).map(|record| Arc::downgrade(&record.keep())).unwrap();
    drop(index);
    assert!(goes(&other), "a dropped index gives its records back");
    assert_eq!(*kept, 1);
}

#[test]
fn a_removal_that_is_not_wanted_changes_nothing() {
    let (index, guard) = (index(0..100), Guard::new());
    let mut seen = Seen::new();
    let _ = index.walk::<()>(ALL, Some(&mut seen), &guard, |_, _| ControlFlow::Continue(()));
    let asked = AtomicU32::new(0);
    let refuse = |record: Handle<'_, u64>| {
        assert_eq!(*record, 50);
        asked.fetch_add(1, Ordering::Relaxed);
        false
    };
    assert!(index.remove_if(&50_u64.to_be_bytes(), refuse, &guard).is_none());
    assert_eq!(asked.into_inner(), 1);
    assert!(index.insert(&50_u64.to_be_bytes(), Arc::new(0), &guard).is_err());
    assert!(index.unchanged(&seen) && index.get(&50_u64.to_be_bytes(), &guard).is_some());
}

#[test]
fn a_walk_is_taken_up_behind_its_last_key() {
    let index = index((0..1000).map(|key| key * 3));
    let (mut last, mut all) = (None, Vec::new());
    loop {
        let start = last.as_ref().map_or(Bound::Unbounded, |last: &Vec<u8>| Bound::Excluded(last.as_slice()));
        let mut left = 7;
        let paused = index.walk((start, Bound::Unbounded), None, &Guard::new(), |key, record| {
            all.push(*record);
            left -= 1;
            if left == 0 { ControlFlow::Break(key.to_vec()) } else { ControlFlow::Continue(()) }
        });
        let ControlFlow::Break(key) = paused else { break };
        last = Some(key);
    }
    assert_eq!(all, (0..1000).map(|key| key * 3).collect::<Vec<_>>());
}

#[test]
fn only_ones_own_changes_are_absorbed() {
    let (index, guard) = (index((0..100).map(|key| key * 100)), Guard::new());
    let insert = |key: u64| index.insert(&key.to_be_bytes(), Arc::new(key), &guard).unwrap();
    let see = || {
        let mut seen = Seen::new();
        let _ = index.walk::<()>(ALL, Some(&mut seen), &guard, |_, _| ControlFlow::Continue(()));
        assert!(seen.len() > 2);
        seen
    };
    let mut seen = see();
    // Enough to split the leaf, more than once.
    for key in 4201..4299 {
        let change = insert(key);
        assert!(!index.unchanged(&seen));
        seen.absorb(&change);
        assert!(index.unchanged(&seen));
    }
    // Someone else is in the same leaf in between.
    let (other, own) = (insert(4301), insert(4302));
    seen.absorb(&own);
    assert!(!index.unchanged(&seen));
    // And in the leaf that splits.
    let mut seen = see();
    let changes: Vec<_> = (4401..4499).map(insert).collect();
    for change in &changes[1..] {
        seen.absorb(change);
    }
    assert!(!index.unchanged(&seen));
    let _ = other;
}

#[test]
fn keys_that_grow_leave_full_nodes_behind() {
    const KEYS: u64 = 100_000;
    let random_order = index((0..KEYS).map(|key| key.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
    let grown = index(0..KEYS);
    // 16 bytes of each key and 64 of each node of 28.
    assert!(grown.memory().as_u64() < KEYS * 21, "{}", grown.memory());
    assert!(random_order.memory().as_u64() > grown.memory().as_u64());
}
