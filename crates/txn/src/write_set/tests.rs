//! Buffered writes against an ordered map.

use std::ops::Bound;

use ishigaki_base::ByteSize;
use ishigaki_base::random::Seed;
use ishigaki_testkit::seeded_runs;

use super::*;
use crate::memory::Memory;
use crate::table::Table;

type Model = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

fn shown(write: Write<'_>) -> Option<Vec<u8>> {
    write.value.map(<[u8]>::to_vec)
}

fn check(writes: &WriteSet, model: &Model, keys: usize) {
    let table = TableId(1);
    for n in 0..keys {
        let key = key(n);
        assert_eq!(writes.get(table, &key).map(shown), model.get(&key).cloned(), "{key:?}");
    }
    let of_range = |range: KeyRange<'_>| {
        let found = writes.range(table, range).into_iter().map(|(key, write)| (key.to_vec(), shown(write)));
        found.collect::<Vec<_>>()
    };
    let all = (Bound::Unbounded, Bound::Unbounded);
    assert_eq!(of_range(all), model.clone().into_iter().collect::<Vec<_>>());
    let (one, other) = (key(keys / 4), key(keys / 2));
    let (from, to) = (one.clone().min(other.clone()), one.max(other));
    let part = (Bound::Excluded(&*from), Bound::Included(&*to));
    let expected = model.range::<[u8], _>(part).map(|(key, value)| (key.clone(), value.clone()));
    assert_eq!(of_range(part), expected.collect::<Vec<_>>());
    let each = writes.tables().iter().flat_map(|table| writes.of(table));
    assert!(each.map(|(key, write)| (key.to_vec(), shown(write))).collect::<Model>() == *model);
    assert_eq!(writes.is_empty(), model.is_empty());
}

/// As a transaction's keys come: some before, some behind those that were there.
fn key(n: usize) -> Vec<u8> {
    format!("{}", n * 7919 % 1000).into_bytes()
}

/// Few keys, and more than a transaction's first table of them has; with and without a way back.
fn run(seed: Seed, keys: usize, journal: bool) {
    let memory = Arc::new(Memory::new(ByteSize::mib(16)));
    let table: TableRef = Arc::new(Table::new(TableId(1), 1, &memory));
    let (mut writes, mut purse, mut random) = (WriteSet::default(), Purse::default(), seed.generator());
    let (mut model, mut marks) = (Model::new(), Vec::new());
    for step in 0..6 * keys {
        let longest = if random.u8(..20) == 0 { 2000 } else { 50 };
        let (key, length) = (key(random.usize(..keys)), random.usize(..longest));
        let value = (random.u8(..4) > 0).then(|| vec![step as u8; length]);
        let record = RecordId(step as u64);
        let (write, owned) = (Write { record, value: value.as_deref() }, Key::new(&key).unwrap());
        purse.spend(&memory, cost(&owned, write.value)).unwrap();
        writes.put(writes.find(TableId(1), &key), (&table, owned), write, journal, &mut purse);
        assert_eq!(writes.get(TableId(1), &key).map(|write| write.record), Some(record));
        model.insert(key, value);
        if journal && random.u8(..10) == 0 {
            marks.push((writes.journal_len(), model.clone()));
        }
        if random.u8(..40) == 0 && !marks.is_empty() {
            marks.truncate(random.usize(..marks.len()) + 1);
            let (mark, then) = marks.pop().expect("there is one");
            writes.undo_to(mark, &mut purse);
            model = then;
        }
        if step % 8 == 0 || step > 5 * keys {
            check(&writes, &model, keys);
        }
    }
    if journal {
        writes.undo_to(0, &mut purse);
        check(&writes, &Model::new(), keys);
        assert_eq!(purse.spent(), 0);
    }
    writes.tidy();
}

#[test]
fn writes_are_found_by_key_and_by_range_however_many_there_are() {
    seeded_runs("writes_are_found_by_key_and_by_range_however_many_there_are", 10, |seed| {
        for keys in [TableWrites::FEW - 1, TableWrites::FEW, TableWrites::FEW + 1, 5 * TableWrites::FEW] {
            run(seed, keys, false);
            run(seed, keys, true);
        }
    });
}

#[test]
fn keys_are_told_apart_whatever_their_fingerprints() {
    let table: TableRef = Arc::new(Table::new(TableId(1), 1, &Arc::new(Memory::new(ByteSize::mib(1)))));
    for keys in [2, 2 * TableWrites::FEW] {
        let mut writes = TableWrites::new(&table, Vec::new());
        for n in 0..keys {
            let key = Key::new(&key(n)).unwrap();
            writes.push(Entry { fingerprint: 7, key, record: RecordId(0), state: State::Delete });
        }
        for n in 0..keys {
            assert_eq!(writes.position(7, &key(n)), Some(n));
        }
        assert_eq!((writes.position(7, b"another"), writes.position(8, &key(0))), (None, None));
    }
}
