//! Threads that read while others change what is around.

#![cfg(not(loom))]

use std::ops::{Bound, ControlFlow, RangeBounds};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ishigaki_base::random::Seed;
use ishigaki_index::{Guard, Index, KeyRange, Seen};
use ishigaki_testkit::seeded;

/// How long each test lasts.
const TIME: Duration = Duration::from_millis(1500);

/// How a number becomes a key.
type Spell = fn(u64) -> Vec<u8>;

fn short(number: u64) -> Vec<u8> {
    number.to_be_bytes().to_vec()
}

/// Keys that lie beside their nodes, in part.
fn long(number: u64) -> Vec<u8> {
    let mut key = vec![b'p'; if number.is_multiple_of(3) { 24 } else { 3 }];
    key.extend_from_slice(&number.to_be_bytes());
    key.extend_from_slice(b"behind it");
    key
}

/// What a thread does until it is told that the time is over.
type Work<'s> = dyn Fn(&mut fastrand::Rng, &AtomicBool) + Sync + 's;

/// Runs some threads until the time is over.
fn together(seed: Seed, threads: &[&Work<'_>]) {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let mut generator = seed.generator();
        for thread in threads {
            let (mut random, over) = (generator.fork(), &over);
            scope.spawn(move || thread(&mut random, over));
        }
        let end = Instant::now() + TIME;
        while Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
        over.store(true, Ordering::Relaxed);
    });
}

fn draw_range<'k>(random: &mut fastrand::Rng, first: &'k [u8], last: &'k [u8]) -> KeyRange<'k> {
    let pick = |random: &mut fastrand::Rng, key: &'k [u8]| match random.u8(..3) {
        0 => Bound::Unbounded,
        1 => Bound::Excluded(key),
        _ => Bound::Included(key),
    };
    (pick(random, first), pick(random, last))
}

/// Of a hundred numbers, those that stay all the time.
fn stays(number: u64) -> bool {
    number % 100 < 7
}

fn what_stays_is_always_seen(name: &str, spell: Spell) {
    const NUMBERS: u64 = 4000;
    seeded(name, |seed| {
        let index = Index::new();
        for number in (0..NUMBERS).filter(|number| stays(*number)) {
            assert!(index.insert(&spell(number), number, &Guard::new()).is_ok());
        }
        // Long runs of insertions and of removals, so that the tree grows and shrinks.
        let change = |random: &mut fastrand::Rng, over: &AtomicBool| {
            while !over.load(Ordering::Relaxed) {
                let (grow, first) = (random.bool(), random.u64(..NUMBERS));
                for number in (first..NUMBERS.min(first + 700)).filter(|number| !stays(*number)) {
                    let guard = Guard::new();
                    if grow {
                        let _ = index.insert(&spell(number), number, &guard);
                    } else if let Some((record, _)) = index.remove_if(&spell(number), |_| true, &guard) {
                        assert_eq!(record, number);
                    }
                }
            }
        };
        let walk = |random: &mut fastrand::Rng, over: &AtomicBool| {
            while !over.load(Ordering::Relaxed) {
                let (first, last) = (spell(random.u64(..NUMBERS)), spell(random.u64(..NUMBERS)));
                let range = draw_range(random, &first, &last);
                let mut shown = Vec::new();
                let _ = index.walk::<()>(
                    range,
                    None,
                    &Guard::new(),
                    |_| (),
                    |key, record| {
                        assert_eq!(key, spell(record));
                        shown.push(key.to_vec());
                        ControlFlow::Continue(())
                    },
                );
                assert!(shown.is_sorted_by(|a, b| a < b), "keys only grow");
                assert!(shown.iter().all(|key| range.contains(key.as_slice())));
                for key in
                    (0..NUMBERS).filter(|number| stays(*number)).map(spell).filter(|key| range.contains(key.as_slice()))
                {
                    assert!(shown.binary_search(&key).is_ok(), "{key:?} in {range:?}");
                }
            }
        };
        let get = |random: &mut fastrand::Rng, over: &AtomicBool| {
            while !over.load(Ordering::Relaxed) {
                let guard = Guard::new();
                let number = random.u64(..NUMBERS);
                let key = spell(number);
                let glanced = index.glance(&key).map(|glance| glance.number());
                for found in [Some(index.get(&key, &guard)), glanced].into_iter().flatten() {
                    assert!(found.is_some() || !stays(number));
                    assert!(found.is_none_or(|found| found == number));
                }
            }
        };
        let get_each = |random: &mut fastrand::Rng, over: &AtomicBool| {
            while !over.load(Ordering::Relaxed) {
                let numbers: Vec<u64> = (0..20).map(|_| random.u64(..NUMBERS)).collect();
                let keys: Vec<Vec<u8>> = numbers.iter().copied().map(spell).collect();
                index.get_each(&keys, &Guard::new(), |at, found| {
                    assert!(found.is_some() || !stays(numbers[at]));
                    assert!(found.is_none_or(|found| found == numbers[at]));
                });
            }
        };
        together(seed, &[&change, &change, &walk, &get, &get_each]);
    });
}

#[test]
fn what_stays_is_seen_by_every_walk_over_short_keys() {
    what_stays_is_always_seen("what_stays_is_seen_by_every_walk_over_short_keys", short);
}

#[test]
fn what_stays_is_seen_by_every_walk_over_long_keys() {
    what_stays_is_always_seen("what_stays_is_seen_by_every_walk_over_long_keys", long);
}

#[test]
fn every_insertion_and_removal_succeeds_once() {
    const NUMBERS: usize = 500;
    seeded("every_insertion_and_removal_succeeds_once", |seed| {
        let index = Index::new();
        // What all threads together did to each key: insertions minus removals.
        let balance: Vec<_> = (0..NUMBERS).map(|_| AtomicU64::new(0)).collect();
        let toggle = |random: &mut fastrand::Rng, over: &AtomicBool| {
            while !over.load(Ordering::Relaxed) {
                let (guard, number) = (Guard::new(), random.usize(..NUMBERS));
                let key = long(number as u64);
                if random.bool() {
                    if index.insert(&key, number as u64, &guard).is_ok() {
                        balance[number].fetch_add(1, Ordering::Relaxed);
                    }
                } else if index.remove_if(&key, |_| true, &guard).is_some() {
                    balance[number].fetch_sub(1, Ordering::Relaxed);
                }
            }
        };
        together(seed, &[&toggle, &toggle, &toggle]);
        for (number, balance) in balance.iter().enumerate() {
            let there = index.get(&long(number as u64), &Guard::new()).is_some();
            assert_eq!(balance.load(Ordering::Relaxed), u64::from(there), "{number}");
        }
    });
}

#[test]
fn walks_that_are_unchanged_form_one_serial_order_with_the_insertions() {
    const NUMBERS: u64 = 120;
    const CHANGES: usize = 50_000;
    seeded("walks_that_are_unchanged_form_one_serial_order_with_the_insertions", |seed| {
        let index = Index::new();
        // Every change is made and written down under this lock; walks do without it.
        let changes = Mutex::new(vec![Vec::<u64>::new()]);
        let change = |random: &mut fastrand::Rng, over: &AtomicBool| {
            while !over.load(Ordering::Relaxed) {
                let number = random.u64(..NUMBERS);
                let guard = Guard::new();
                let mut changes = changes.lock().unwrap();
                if changes.len() == CHANGES {
                    break;
                }
                let mut now = changes.last().unwrap().clone();
                match now.binary_search(&number) {
                    Ok(at) => {
                        now.remove(at);
                        assert!(index.remove_if(&short(number), |_| true, &guard).is_some());
                    }
                    Err(at) => {
                        now.insert(at, number);
                        assert!(index.insert(&short(number), number, &guard).is_ok());
                    }
                }
                changes.push(now);
                drop(changes);
                std::thread::yield_now();
            }
        };
        let unchanged = AtomicU64::new(0);
        let walk = |_: &mut fastrand::Rng, over: &AtomicBool| {
            while !over.load(Ordering::Relaxed) {
                let mut seen = Seen::new();
                let mut shown = Vec::new();
                let before = changes.lock().unwrap().len() - 1;
                let _ = index.walk::<()>(
                    (Bound::Unbounded, Bound::Unbounded),
                    Some(&mut seen),
                    &Guard::new(),
                    |_| (),
                    |_, record| {
                        shown.push(record);
                        ControlFlow::Continue(())
                    },
                );
                if index.unchanged(&seen) {
                    unchanged.fetch_add(1, Ordering::Relaxed);
                    let changes = changes.lock().unwrap();
                    assert!(changes[before..].contains(&shown), "no moment had what was shown: {shown:?}");
                }
            }
        };
        together(seed, &[&change, &walk]);
        assert!(unchanged.into_inner() > 0, "no walk was ever unchanged");
    });
}
