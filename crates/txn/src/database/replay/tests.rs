use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

use ishigaki_base::random::Seed;
use ishigaki_base::{ByteSize, StreamId};
use ishigaki_testkit::seeded_runs;
use sdd::Guard;

use super::*;
use crate::copied::Copied;
use crate::redo::Encoder;

/// Tables by name, with all keys and the LSNs that wrote them.
type State = BTreeMap<Vec<u8>, BTreeMap<Vec<u8>, (u64, Vec<u8>)>>;

fn memory() -> Arc<Memory> {
    Arc::new(Memory::new(ByteSize::mib(64)))
}

fn fresh() -> Replay {
    Replay::new(2, &memory(), Checkpointed::NOTHING)
}

fn record(write: impl FnOnce(&mut Encoder)) -> Vec<u8> {
    let mut encoder = Encoder::within(Vec::new());
    write(&mut encoder);
    encoder.finish()
}

fn create(table: u32, name: &str) -> Vec<u8> {
    record(|encoder| encoder.create(TableId(table), name.as_bytes()))
}

fn drop_table(table: u32, name: &str) -> Vec<u8> {
    record(|encoder| encoder.drop(TableId(table), name.as_bytes()))
}

fn put(table: u32, key: &[u8], value: &[u8]) -> Vec<u8> {
    record(|encoder| encoder.write(TableId(table), &Key::new(key).unwrap(), Some(value)))
}

fn delete(table: u32, key: &[u8]) -> Vec<u8> {
    record(|encoder| encoder.write(TableId(table), &Key::new(key).unwrap(), None))
}

fn take(replay: &Replay, lsn: u64, record: &[u8]) -> Result<()> {
    let taken = replay.take(Position::new(Lsn(lsn), StreamId(0)), record);
    taken.map_err(|error| *error.downcast::<Error>().unwrap())
}

fn state(tables: &Tables) -> State {
    let guard = Guard::new();
    let (mut state, mut copied) = (State::new(), Copied::borrow());
    let all = (Bound::Unbounded, Bound::Unbounded);
    let _ = tables.system().rows.walk::<()>(all, None, |name, (_, record), _| {
        let id = record.settled(&mut copied, &guard).and_then(|id| redo::decode_id(id.value)).unwrap();
        let mut rows = BTreeMap::new();
        let _ = tables.get(id).unwrap().rows.walk::<()>(all, None, |key, (_, record), _| {
            let row = record.settled(&mut copied, &guard).expect("every record has a value");
            rows.insert(key.to_vec(), (row.position.lsn().0, row.value.to_vec()));
            ControlFlow::Continue(())
        });
        state.insert(name.to_vec(), rows);
        ControlFlow::Continue(())
    });
    state
}

/// Bytes that the tables should hold by what is in them.
fn cost(tables: &Tables) -> u64 {
    let guard = Guard::new();
    let of = |table: &Table| {
        let mut cost = 0;
        let _ = table.rows.walk::<()>((Bound::Unbounded, Bound::Unbounded), None, |_, (id, record), _| {
            cost += table.cost(id.bytes()) + record.outside(&guard);
            ControlFlow::Continue(())
        });
        cost
    };
    let named = tables.ids().into_iter().filter_map(|id| tables.get(id));
    of(tables.system()) + named.map(|table| of(&table)).sum::<u64>()
}

/// A history as transactions make it: record by record, its LSNs beginning with 1.
fn history(seed: Seed) -> (Vec<Vec<u8>>, State) {
    let mut random = seed.generator();
    let (mut records, mut state, mut ids) = (Vec::new(), State::new(), BTreeMap::new());
    for lsn in 1..=400_u64 {
        let name = vec![b'a' + random.u8(..3)];
        let Some(rows) = state.get_mut(&name) else {
            ids.insert(name.clone(), lsn as u32);
            records.push(record(|encoder| encoder.create(TableId(lsn as u32), &name)));
            state.insert(name, BTreeMap::new());
            continue;
        };
        let id = TableId(ids[&name]);
        if random.u8(..30) == 0 {
            state.remove(&name);
            records.push(record(|encoder| {
                encoder.drop(id, &name);
                // Now and then the name goes to another table at once.
                if lsn % 2 == 0 {
                    encoder.create(TableId(lsn as u32), &name);
                    ids.insert(name.clone(), lsn as u32);
                    state.insert(name, BTreeMap::new());
                }
            }));
            continue;
        }
        let mut writes = BTreeMap::new();
        for _ in 0..random.usize(1..4) {
            let key = vec![random.u8(..12); 1 + random.usize(..40)];
            writes.insert(key, (random.u8(..3) > 0).then(|| vec![random.u8(..); random.usize(..100)]));
        }
        writes.retain(|key, value| value.is_some() || rows.contains_key(key));
        records.push(record(|encoder| {
            for (key, value) in &writes {
                encoder.write(id, &Key::new(key).unwrap(), value.as_deref());
            }
        }));
        for (key, value) in writes {
            match value {
                Some(value) => drop(rows.insert(key, (lsn, value))),
                None => drop(rows.remove(&key)),
            }
        }
    }
    (records, state)
}

#[test]
fn records_in_any_order_from_several_threads_give_the_same_tables_and_memory() {
    let name = "records_in_any_order_from_several_threads_give_the_same_tables_and_memory";
    seeded_runs(name, 60, |seed| {
        let (records, expected) = history(seed);
        let mut random = seed.derive(1).generator();
        let memory = memory();
        let replay = Replay::new(2, &memory, Checkpointed::NOTHING);
        // Stretch by stretch, each in any order; behind a stretch nothing older comes.
        let stretch = random.usize(1..=records.len());
        let mut order: Vec<usize> = (0..records.len()).collect();
        for stretch in order.chunks_mut(stretch) {
            Sink::passed(&replay, Lsn(stretch[0] as u64 + 1));
            random.shuffle(stretch);
            std::thread::scope(|scope| {
                for part in stretch.chunks(stretch.len().div_ceil(3)) {
                    let (replay, records) = (&replay, &records);
                    scope.spawn(move || part.iter().for_each(|&at| take(replay, at as u64 + 1, &records[at]).unwrap()));
                }
            });
        }
        let tables = replay.finish(None).unwrap();
        let found = state(&tables);
        assert_eq!(found, expected);
        assert_eq!(memory.usage().used.0, cost(&tables));
        assert!(tables.next_id().unwrap().0 > expected.len() as u32);
        drop(tables);
        assert_eq!(memory.usage().used.0, 0);
    });
}

#[test]
fn what_a_checkpoint_shows_already_may_come_again() {
    seeded_runs("what_a_checkpoint_shows_already_may_come_again", 60, |seed| {
        let (records, expected) = history(seed);
        let mut random = seed.derive(1).generator();
        // The checkpoint shows every record below `start` and any part of those up to `end`, as a walk would find them.
        let start = random.usize(1..records.len());
        let whole = fresh();
        for (at, record) in records[..start].iter().enumerate() {
            take(&whole, at as u64 + 1, record).unwrap();
        }
        let end = random.usize(start..=records.len());
        let walks = walk_while(&whole, &records[start..end], start as u64 + 1, &mut random);

        let checkpointed = Checkpointed { start: Lsn(start as u64 + 1), end: Lsn(end as u64) };
        let replay = Replay::new(2, &memory(), checkpointed);
        for (table, rows) in &walks {
            let rows = rows.iter().map(|(lsn, key, value)| Ok((*lsn, key.as_slice(), value.as_slice())));
            replay.restore(*table, rows).unwrap();
        }
        for (at, record) in records.iter().enumerate() {
            Sink::passed(&replay, Lsn(at as u64 + 1));
            take(&replay, at as u64 + 1, record).unwrap();
        }
        assert_eq!(state(&replay.finish(None).unwrap()), expected);
    });
}

/// Rows of one table: LSN, key, value.
type Rows = (TableId, Vec<(Lsn, Vec<u8>, Vec<u8>)>);

/// The tables that there are at the beginning, as a fuzzy walk sees them while the records happen.
fn walk_while(before: &Replay, records: &[Vec<u8>], first: u64, random: &mut fastrand::Rng) -> Vec<Rows> {
    let ids: Vec<TableId> = before.fates.living();
    let mut walks = Vec::new();
    let mut done = 0;
    let all = (Bound::Unbounded, Bound::Unbounded);
    let mut names = Vec::new();
    for id in ids {
        let step = random.usize(0..=records.len() - done);
        for record in &records[done..done + step] {
            take(before, first + done as u64, record).unwrap();
            done += 1;
        }
        names.extend(before.fates.name_of(id).map(|(lsn, name)| (lsn, name.to_vec(), redo::encode_id(id).to_vec())));
        let Some(table) = before.fates.table(&before.memory, id) else { continue };
        let (mut rows, mut copied) = (Vec::new(), Copied::borrow());
        let _ = table.rows.walk::<()>(all, None, |key, (_, record), guard| {
            let row = record.settled(&mut copied, guard);
            rows.extend(row.map(|row| (row.position.lsn(), key.to_vec(), row.value.to_vec())));
            ControlFlow::Continue(())
        });
        walks.push((id, rows));
    }
    walks.push((TableId::SYSTEM, names));
    walks
}

#[test]
fn a_name_that_went_to_another_table_while_it_was_walked_is_that_tables_in_the_end() {
    // As if the walk had found the new number beside the old place in the log.
    let replay = Replay::new(2, &memory(), Checkpointed { start: Lsn(5), end: Lsn(9) });
    replay.restore(TableId(1), std::iter::once(Ok((Lsn(4), b"k".as_slice(), b"v".as_slice())))).unwrap();
    replay.restore(TableId::SYSTEM, std::iter::once(Ok((Lsn(3), b"t".as_slice(), [2, 0, 0, 0].as_slice())))).unwrap();
    let handed_over = record(|encoder| {
        encoder.drop(TableId(1), b"t");
        encoder.create(TableId(2), b"t");
    });
    take(&replay, 7, &handed_over).unwrap();
    assert_eq!(state(&replay.finish(None).unwrap()), State::from([(b"t".to_vec(), BTreeMap::new())]));
}

#[test]
fn a_key_or_a_table_that_a_checkpoint_has_twice_is_refused() {
    let replay = fresh();
    let row = || Ok((Lsn(1), b"k".as_slice(), [2, 0, 0, 0].as_slice()));
    assert!(replay.restore(TableId(1), [row(), row()].into_iter()).is_err());
    assert!(replay.restore(TableId::SYSTEM, [row(), row()].into_iter()).is_err());
    let nothing = Ok((Lsn(1), b"k".as_slice(), [0, 0, 0, 0].as_slice()));
    assert!(replay.restore(TableId::SYSTEM, std::iter::once(nothing)).is_err());
}

#[test]
fn tombstones_go_when_nothing_older_can_come() {
    let replay = fresh();
    take(&replay, 1, &create(1, "t")).unwrap();
    for lsn in 2..20_000_u64 {
        Sink::passed(&replay, Lsn(lsn - lsn.min(100)));
        take(&replay, lsn, &delete(1, &lsn.to_be_bytes())).unwrap();
    }
    let left = replay.stripes.tombstones();
    assert!(left < 256 * 16 + 1000, "{left}");
    let memory = Arc::clone(&replay.memory);
    let tables = replay.finish(None).unwrap();
    assert_eq!(memory.usage().used.0, cost(&tables));
}

#[test]
fn in_order_a_deletion_leaves_no_tombstone() {
    let replay = fresh();
    let records = [create(1, "t"), put(1, b"k", b"v"), delete(1, b"k"), put(1, b"k", b"w"), delete(1, b"k")];
    for (lsn, record) in (1..).zip(&records) {
        Sink::passed(&replay, Lsn(lsn));
        take(&replay, lsn, record).unwrap();
    }
    assert_eq!(replay.stripes.tombstones(), 0);
    assert!(replay.fates.table(&replay.memory, TableId(1)).unwrap().rows.find(b"k", &Guard::new()).is_none());
}

#[test]
fn an_older_write_changes_nothing() {
    let replay = fresh();
    take(&replay, 9, &put(1, b"k", b"new")).unwrap();
    take(&replay, 8, &put(1, b"k", b"old")).unwrap();
    take(&replay, 7, &delete(1, b"k")).unwrap();
    take(&replay, 6, &delete(1, b"gone")).unwrap();
    take(&replay, 5, &put(1, b"gone", b"old")).unwrap();
    take(&replay, 1, &create(1, "t")).unwrap();
    let expected = State::from([(b"t".to_vec(), BTreeMap::from([(b"k".to_vec(), (9, b"new".to_vec()))]))]);
    assert_eq!(state(&replay.finish(None).unwrap()), expected);
}

#[test]
fn writes_to_a_table_that_turns_out_to_be_dropped_leave_nothing() {
    let memory = memory();
    let replay = Replay::new(2, &memory, Checkpointed::NOTHING);
    take(&replay, 3, &put(7, b"k", &[1; 100])).unwrap();
    take(&replay, 4, &delete(7, b"other")).unwrap();
    take(&replay, 5, &drop_table(7, "t")).unwrap();
    take(&replay, 2, &put(7, b"late", &[1; 100])).unwrap();
    take(&replay, 1, &create(7, "t")).unwrap();
    let tables = replay.finish(None).unwrap();
    assert_eq!((tables.count(), memory.usage().used.0), (0, 0));
    assert_eq!(tables.next_id().unwrap(), TableId(8));
}

#[test]
fn a_number_that_a_checkpoint_reserved_is_not_given_out() {
    assert_eq!(fresh().finish(Some(TableId(40))).unwrap().next_id().unwrap(), TableId(40));
}

/// A record and its LSN.
type Told = (u64, Vec<u8>);

/// Takes the records in this order, and says why they are refused, then or in the end.
fn refused(in_order: bool, records: &[Told]) -> Option<String> {
    let replay = fresh();
    let taken = records.iter().try_for_each(|(lsn, record)| {
        if in_order {
            Sink::passed(&replay, Lsn(*lsn));
        }
        take(&replay, *lsn, record)
    });
    match taken.and_then(|()| replay.finish(None).map(drop)) {
        Ok(()) => None,
        Err(error @ Error::Corrupt { .. }) => Some(error.to_string()),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn what_no_order_of_records_explains_is_refused_in_any_order() {
    let cases: [(&str, Vec<Told>); 9] = [
        ("does not exist", vec![(1, put(1, b"k", b"v"))]),
        ("does not exist before 2", vec![(2, create(1, "t")), (1, put(1, b"k", b"v"))]),
        ("was dropped by 2", vec![(1, create(1, "t")), (2, drop_table(1, "t")), (3, put(1, b"k", b"v"))]),
        ("makes table #1, which exists", vec![(1, create(1, "t")), (2, create(1, "t"))]),
        ("a name that another table has", vec![(1, create(1, "t")), (2, create(2, "t"))]),
        ("dropped already", vec![(1, create(1, "t")), (2, drop_table(1, "t")), (3, drop_table(1, "t"))]),
        ("a name that is not its own", vec![(1, create(1, "t")), (2, drop_table(1, "u"))]),
        ("drops table #1, which does not exist before 2", vec![(2, create(1, "t")), (1, drop_table(1, "t"))]),
        ("unknown operation", vec![(1, vec![1, 99])]),
    ];
    for (why, records) in cases {
        let mut orders = vec![records.clone()];
        orders.push(records.into_iter().rev().collect());
        for records in orders {
            let found = refused(false, &records).unwrap_or_else(|| panic!("not refused: {why}"));
            assert!(found.contains(why) || found.contains("already") || found.contains("exists"), "{why}: {found}");
        }
    }
}

#[test]
fn in_order_what_does_not_fit_what_came_before_is_refused() {
    let missing = refused(true, &[(1, create(1, "t")), (2, delete(1, b"k"))]).unwrap();
    assert!(missing.contains("is not there"), "{missing}");
    let unknown = refused(true, &[(1, drop_table(1, "t"))]).unwrap();
    assert!(unknown.contains("which does not exist"), "{unknown}");
    assert_eq!(refused(false, &[(1, create(1, "t")), (2, delete(1, b"k"))]), None);
}

#[test]
fn what_does_not_fit_into_the_budget_is_refused_exactly() {
    let rows = (0..100_u64).map(|n| put(1, &n.to_be_bytes(), &[7; 100]));
    let records: Vec<_> = std::iter::once(create(1, "t")).chain(rows).collect();
    let replay = |budget| {
        let replay = Replay::new(2, &Arc::new(Memory::new(budget)), Checkpointed::NOTHING);
        (1..).zip(&records).try_for_each(|(lsn, record)| take(&replay, lsn, record))?;
        replay.finish(None)
    };
    let needed = cost(&replay(ByteSize::mib(1)).unwrap());
    assert!(replay(ByteSize::b(needed)).is_ok());
    for budget in [needed - 1, needed / 2] {
        assert!(matches!(replay(ByteSize::b(budget)), Err(Error::MemoryExhausted { .. })));
    }
}
