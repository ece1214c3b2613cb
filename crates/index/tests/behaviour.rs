//! What a user of an index sees.

#![cfg(not(loom))]

use std::ops::{Bound, ControlFlow};
use std::sync::atomic::{AtomicU32, Ordering};

use ishigaki_index::{Guard, Index, KeyRange, Seen};

const ALL: KeyRange<'static> = (Bound::Unbounded, Bound::Unbounded);

fn index(keys: impl IntoIterator<Item = u64>) -> Index {
    let index = Index::new();
    for key in keys {
        assert!(index.insert(&key.to_be_bytes(), key & Index::MAX, &Guard::new()).is_ok());
    }
    index
}

fn shown(index: &Index, range: KeyRange<'_>) -> Vec<u64> {
    let mut shown = Vec::new();
    let _ = index.walk::<()>(
        range,
        None,
        &Guard::new(),
        |_| (),
        |_, record| {
            shown.push(record);
            ControlFlow::Continue(())
        },
    );
    shown
}

#[test]
fn the_empty_key_is_a_key_like_others() {
    let (index, guard) = (Index::new(), Guard::new());
    assert!(index.get(b"", &guard).is_none() && shown(&index, ALL).is_empty());
    assert!(index.insert(b"", 7, &guard).is_ok());
    assert_eq!(index.get(b"", &guard), Some(7));
    for start in [Bound::Unbounded, Bound::Included(b"".as_slice())] {
        assert_eq!(shown(&index, (start, Bound::Unbounded)), [7]);
    }
    assert_eq!(shown(&index, (Bound::Excluded(b""), Bound::Unbounded)), []);
    assert!(index.remove_if(b"", |_| true, &guard).is_some() && index.get(b"", &guard).is_none());
}

#[test]
fn a_glance_tells_whether_it_still_holds() {
    let (index, guard) = (index(0..500), Guard::new());
    let glances: Vec<_> = (0..600_u64).map(|key| index.glance(&key.to_be_bytes()).expect("no key is long")).collect();
    for (key, glance) in (0..).zip(&glances) {
        assert_eq!((glance.number(), glance.is_still_so()), ((key < 500).then_some(key), true));
    }
    let mut seen = Seen::new();
    glances[550].see(&mut seen);
    assert!(index.unchanged(&seen));
    assert!(index.remove_if(&3_u64.to_be_bytes(), |_| true, &guard).is_some());
    assert!(!glances[3].is_still_so() && glances[400].is_still_so());
    assert!(index.insert(&550_u64.to_be_bytes(), 550, &guard).is_ok());
    assert!(!glances[550].is_still_so() && !index.unchanged(&seen));
}

#[test]
fn who_looks_without_a_guard_is_told_nothing_of_long_keys() {
    let (index, guard) = (Index::new(), Guard::new());
    for (number, key) in [b"long enough".as_slice(), b"longer than that"].into_iter().enumerate() {
        assert!(index.insert(key, number as u64, &guard).is_ok());
        assert!(index.glance(key).is_none() && index.get(key, &guard).is_some());
    }
    assert!(index.glance(b"short").is_some_and(|glance| glance.number().is_none()));
}

#[test]
fn keys_of_any_length_are_kept_apart() {
    let (index, guard) = (Index::new(), Guard::new());
    let lengths = [0, 1, 7, 8, 9, 16, 100, 65_535, 65_536, 65_537, 200_000];
    let keys: Vec<Vec<u8>> =
        lengths.iter().flat_map(|length| (0..12).map(|last| [vec![5; *length], vec![last]].concat())).collect();
    for (number, key) in keys.iter().enumerate() {
        assert!(index.insert(key, number as u64, &guard).is_ok());
    }
    for (number, key) in keys.iter().enumerate() {
        assert_eq!(index.get(key, &guard), Some(number as u64));
    }
}

#[test]
fn a_second_number_of_a_key_is_refused() {
    let (index, guard) = (index([1]), Guard::new());
    assert_eq!(index.insert(&1_u64.to_be_bytes(), 2, &guard).unwrap_err(), 1);
    assert_eq!(index.get(&1_u64.to_be_bytes(), &guard), Some(1));
}

#[test]
fn the_largest_number_is_kept() {
    let (index, guard) = (Index::new(), Guard::new());
    for key in [b"short".as_slice(), b"a key that lies beside its node"] {
        assert!(index.insert(key, Index::MAX, &guard).is_ok());
        assert_eq!(index.get(key, &guard), Some(Index::MAX));
    }
}

#[test]
#[should_panic(expected = "60 bits")]
fn a_larger_number_is_refused() {
    let _ = Index::new().insert(b"k", Index::MAX + 1, &Guard::new());
}

#[test]
fn a_removal_that_is_not_wanted_changes_nothing() {
    let (index, guard) = (index(0..100), Guard::new());
    let mut seen = Seen::new();
    let _ = index.walk::<()>(ALL, Some(&mut seen), &guard, |_| (), |_, _| ControlFlow::Continue(()));
    let asked = AtomicU32::new(0);
    let refuse = |record| {
        assert_eq!(record, 50_u64);
        asked.fetch_add(1, Ordering::Relaxed);
        false
    };
    assert!(index.remove_if(&50_u64.to_be_bytes(), refuse, &guard).is_none());
    assert_eq!(asked.into_inner(), 1);
    assert!(index.insert(&50_u64.to_be_bytes(), 0, &guard).is_err());
    assert!(index.unchanged(&seen) && index.get(&50_u64.to_be_bytes(), &guard).is_some());
}

#[test]
fn a_walk_is_taken_up_behind_its_last_key() {
    let index = index((0..1000).map(|key| key * 3));
    let (mut last, mut all) = (None, Vec::new());
    loop {
        let start = last.as_ref().map_or(Bound::Unbounded, |last: &Vec<u8>| Bound::Excluded(last.as_slice()));
        let mut left = 7;
        let paused = index.walk(
            (start, Bound::Unbounded),
            None,
            &Guard::new(),
            |_| (),
            |key, record| {
                all.push(record);
                left -= 1;
                if left == 0 { ControlFlow::Break(key.to_vec()) } else { ControlFlow::Continue(()) }
            },
        );
        let ControlFlow::Break(key) = paused else { break };
        last = Some(key);
    }
    assert_eq!(all, (0..1000).map(|key| key * 3).collect::<Vec<_>>());
}

#[test]
fn only_ones_own_changes_are_absorbed() {
    let (index, guard) = (index((0..100).map(|key| key * 100)), Guard::new());
    let insert = |key: u64| index.insert(&key.to_be_bytes(), key, &guard).unwrap();
    let see = || {
        let mut seen = Seen::new();
        let _ = index.walk::<()>(ALL, Some(&mut seen), &guard, |_| (), |_, _| ControlFlow::Continue(()));
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

#[test]
fn the_keys_of_an_index_that_is_gone_are_not_charged_to_the_next_one() {
    let long = |number: u64| [number.to_be_bytes().to_vec(), vec![7; 100]].concat();
    let filled = || {
        let index = Index::new();
        for number in 0..1000 {
            assert!(index.insert(&long(number), number, &Guard::new()).is_ok());
        }
        index
    };
    let first = filled();
    let memory = first.memory();
    assert!(memory.as_u64() > 1000 * 100, "{memory}");
    drop(first);
    assert_eq!(filled().memory(), memory);
}
