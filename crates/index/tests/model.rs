//! Random programs against a map of the standard library.

#![cfg(not(loom))]

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow, RangeBounds};

use ishigaki_index::{Guard, Index, KeyRange, Seen};
use ishigaki_testkit::seeded;

type Model = BTreeMap<Vec<u8>, u64>;

fn shown(index: &Index, range: KeyRange<'_>, seen: Option<&mut Seen>) -> Vec<(Vec<u8>, u64)> {
    let mut shown = Vec::new();
    let _ = index.walk::<()>(
        range,
        seen,
        &Guard::new(),
        |_| (),
        |key, record| {
            shown.push((key.to_vec(), record));
            ControlFlow::Continue(())
        },
    );
    shown
}

fn expected(model: &Model, range: KeyRange<'_>) -> Vec<(Vec<u8>, u64)> {
    let within = model.iter().filter(|(key, _)| range.contains(key.as_slice()));
    within.map(|(key, record)| (key.clone(), *record)).collect()
}

/// How the keys of a program look.
#[derive(Clone, Copy, Debug)]
enum Shape {
    /// Numbers of eight bytes, close to each other.
    Dense,
    /// Numbers of eight bytes, anywhere.
    Sparse,
    /// Up to five bytes of two kinds, so that keys begin with each other.
    Short,
    /// Some parts before a number, so that keys of 9 to 24 bytes have long common beginnings.
    Composite,
    /// Up to 300 bytes that differ at any place.
    Long,
}

const SHAPES: [Shape; 5] = [Shape::Dense, Shape::Sparse, Shape::Short, Shape::Composite, Shape::Long];

fn draw(random: &mut fastrand::Rng, shape: Shape) -> Vec<u8> {
    match shape {
        Shape::Dense => random.u64(..3000).to_be_bytes().to_vec(),
        Shape::Sparse => (random.u64(..3000).wrapping_mul(0x9e37_79b9_7f4a_7c15)).to_be_bytes().to_vec(),
        Shape::Short => (0..random.usize(..=10)).map(|_| [0, 0, 255][random.usize(..3)]).collect(),
        Shape::Composite => {
            let mut key = vec![7; random.usize(..=2) * 8];
            key.extend_from_slice(&random.u32(..4).to_be_bytes());
            key.extend_from_slice(&random.u64(..500).to_be_bytes());
            key
        }
        Shape::Long => {
            let mut key = vec![b'k'; random.usize(..12) * 25];
            if let Some(at) = (!key.is_empty()).then(|| random.usize(..key.len())) {
                key[at] = random.u8(b'j'..=b'l');
            }
            key
        }
    }
}

fn draw_bound(random: &mut fastrand::Rng, shape: Shape) -> Bound<Vec<u8>> {
    match random.u8(..5) {
        0 => Bound::Unbounded,
        1 | 2 => Bound::Excluded(draw(random, shape)),
        _ => Bound::Included(draw(random, shape)),
    }
}

fn by_reference(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

/// One program: grows, is used, shrinks.
fn run(random: &mut fastrand::Rng, shape: Shape, steps: u64) {
    let index = Index::new();
    let mut model = Model::new();
    for step in 0..steps {
        let guard = Guard::new();
        let key = draw(random, shape);
        // First more insertions, at last more removals.
        let inserts = 8 - 7 * step / steps;
        match random.u64(..12) {
            choice if choice < inserts => {
                let result = index.insert(&key, step, &guard);
                match model.get(&key) {
                    Some(present) => {
                        assert_eq!(result.err(), Some(*present));
                    }
                    None => assert!(result.is_ok()),
                }
                model.entry(key).or_insert(step);
            }
            choice if choice < 9 => {
                let odd = random.bool();
                let removed = index.remove_if(&key, |record| record % 2 == u64::from(odd), &guard);
                let of_model = model.get(&key).copied().filter(|record| record % 2 == u64::from(odd));
                assert_eq!(removed.map(|(number, _)| number), of_model);
                if of_model.is_some() {
                    model.remove(&key);
                }
            }
            9 => assert_eq!(index.get(&key, &guard), model.get(&key).copied()),
            10 => {
                let keys: Vec<Vec<u8>> = (0..random.usize(..40)).map(|_| draw(random, shape)).collect();
                let mut found = Vec::new();
                index.get_each(&keys, &guard, |at, number| found.push((at, number)));
                let expected = keys.iter().map(|key| model.get(key).copied()).enumerate();
                assert_eq!(found, expected.collect::<Vec<_>>());
            }
            _ => {
                let bounds = (draw_bound(random, shape), draw_bound(random, shape));
                let range = (by_reference(&bounds.0), by_reference(&bounds.1));
                assert_eq!(shown(&index, range, None), expected(&model, range));
            }
        }
    }
    let all = (Bound::Unbounded, Bound::Unbounded);
    assert_eq!(shown(&index, all, None), expected(&model, all));
    for (key, record) in &model {
        let guard = Guard::new();
        assert_eq!(index.remove_if(key, |_| true, &guard).map(|(removed, _)| removed), Some(*record));
        assert!(index.get(key, &guard).is_none());
    }
    assert_eq!(shown(&index, all, None), []);
    // Few leaves are left, whatever there was.
    assert!(index.memory().as_u64() < 8 << 10, "{:?}", index.memory());
}

#[test]
fn an_index_is_a_sorted_map() {
    seeded("an_index_is_a_sorted_map", |seed| {
        for shape in SHAPES {
            for steps in [50, 500, 5000, 20_000] {
                run(&mut seed.generator(), shape, steps);
            }
        }
    });
}

#[test]
fn what_was_seen_is_unchanged_until_a_key_comes_or_goes_in_its_range() {
    seeded("what_was_seen_is_unchanged_until_a_key_comes_or_goes_in_its_range", |seed| {
        let mut random = seed.generator();
        for shape in SHAPES.into_iter().cycle().take(60) {
            let index = Index::new();
            let mut model = Model::new();
            let guard = Guard::new();
            for record in 0..random.u64(..2000) {
                let key = draw(&mut random, shape);
                if index.insert(&key, record, &guard).is_ok() {
                    model.insert(key, record);
                }
            }
            for _ in 0..40 {
                let bounds = (draw_bound(&mut random, shape), draw_bound(&mut random, shape));
                let range = (by_reference(&bounds.0), by_reference(&bounds.1));
                let (mut all, mut own) = (Seen::new(), Seen::new());
                let before = shown(&index, range, Some(&mut all));
                assert_eq!(shown(&index, range, Some(&mut own)), before);
                let missing = draw(&mut random, shape);
                let was_missing = index.get_or_see(&missing, &mut all, &guard).is_none();
                assert!(index.unchanged(&all));
                let mut missing_now = was_missing;
                for record in 0..random.u64(..40) {
                    let key = draw(&mut random, shape);
                    let change = if random.bool() {
                        index.insert(&key, record, &guard).ok()
                    } else {
                        index.remove_if(&key, |_| true, &guard).map(|(_, change)| change)
                    };
                    if let Some(change) = change {
                        own.absorb(&change);
                        missing_now ^= key == missing;
                    }
                }
                // Only what was missing was relied on.
                let is_same = shown(&index, range, None) == before && (!was_missing || missing_now);
                assert!(is_same || !index.unchanged(&all));
                assert!(index.unchanged(&own), "own changes count");
            }
        }
    });
}
