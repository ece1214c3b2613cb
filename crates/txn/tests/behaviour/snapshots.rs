//! Snapshots: one moment, in nobody's way.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::*;

fn rows(snapshot: &Snapshot, table: TableId) -> Vec<(Vec<u8>, Vec<u8>)> {
    rows_in(snapshot, table, ALL)
}

fn rows_in(snapshot: &Snapshot, table: TableId, range: (Bound<&[u8]>, Bound<&[u8]>)) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut rows = Vec::new();
    snapshot
        .scan(table, range, |key, value| {
            rows.push((key.to_vec(), value.to_vec()));
            ControlFlow::Continue(())
        })
        .unwrap();
    assert!(rows.is_sorted_by(|one, next| one.0 < next.0));
    rows
}

fn number(n: u64) -> [u8; 8] {
    n.to_be_bytes()
}

fn old(database: &Database) -> u64 {
    database.memory().old.0
}

#[test]
fn a_snapshot_shows_what_was_there_when_it_was_taken() {
    let (database, table) = open(settings());
    let session = database.session();
    session.run(|txn| [b"a", b"b", b"c", b"d"].iter().try_for_each(|key| txn.put(table, *key, b"old"))).unwrap();
    let snapshot = session.snapshot().unwrap();
    let then = rows(&snapshot, table);
    for round in 0..3 {
        session
            .run(|txn| {
                txn.put(table, b"a", &[round])?;
                txn.put(table, b"aa", b"new")?;
                txn.delete(table, b"b")?;
                txn.delete(table, b"c")?;
                txn.put(table, b"z", b"new")
            })
            .unwrap();
        session.run(|txn| txn.put(table, b"c", b"again")).unwrap();
        assert_eq!(rows(&snapshot, table), then);
        assert_eq!(rows_in(&snapshot, table, (Bound::Excluded(b"a"), Bound::Excluded(b"c"))), then[1..2]);
        assert_eq!(snapshot.get(table, b"b").unwrap().as_deref(), Some(b"old".as_slice()));
        assert_eq!(snapshot.get(table, b"aa").unwrap(), None);
        assert_eq!(snapshot.get_with(table, b"a", <[u8]>::len).unwrap(), Some(3));
    }
    let later = session.snapshot().unwrap();
    let keys: Vec<_> = rows(&later, table).into_iter().map(|(key, _)| key).collect();
    assert_eq!(keys, [b"a".as_slice(), b"aa", b"c", b"d", b"z"]);
}

#[test]
fn each_of_many_snapshots_shows_its_own_moment() {
    let (database, table) = open(settings());
    let session = database.session();
    let mut snapshots = Vec::new();
    let mut random = fastrand::Rng::with_seed(7);
    let mut model = std::collections::BTreeMap::new();
    for step in 0..400_u64 {
        let key = number(random.u64(0..20)).to_vec();
        if random.u8(..3) == 0 {
            session.run(|txn| txn.delete(table, &key)).unwrap();
            model.remove(&key);
        } else {
            session.run(|txn| txn.put(table, &key, &number(step))).unwrap();
            model.insert(key, number(step).to_vec());
        }
        if random.u8(..4) == 0 {
            snapshots.push((session.snapshot().unwrap(), model.clone()));
        }
        if snapshots.len() > 6 || random.u8(..9) == 0 && !snapshots.is_empty() {
            snapshots.swap_remove(random.usize(..snapshots.len()));
        }
        for (snapshot, model) in &snapshots {
            assert!(rows(snapshot, table).into_iter().eq(model.clone()), "step {step}");
            let key = number(random.u64(0..20));
            assert_eq!(snapshot.get(table, &key).unwrap().as_ref(), model.get(key.as_slice()));
        }
    }
    drop(snapshots);
    assert_eq!(old(&database), 0);
}

#[test]
fn a_snapshot_shows_tables_that_were_dropped_and_none_that_is_new() {
    let (database, table) = open(settings());
    let session = database.session();
    session.run(|txn| txn.put(table, b"key", &[1; 10_000])).unwrap();
    let snapshot = session.snapshot().unwrap();
    session.run(|txn| txn.drop_table("table")).unwrap();
    let again = session.run(|txn| txn.create_table("table")).unwrap();
    session.run(|txn| txn.create_table("new")).unwrap();
    assert_eq!(snapshot.tables().unwrap(), [("table".to_owned(), table)]);
    assert_eq!(snapshot.table("table").unwrap(), Some(table));
    assert_eq!(snapshot.table("new").unwrap(), None);
    assert_eq!(snapshot.get(table, b"key").unwrap(), Some(vec![1; 10_000]));
    assert!(matches!(snapshot.get(again, b"key"), Err(Error::NoSuchTable { .. })));
    assert!(old(&database) > 10_000);
    let later = session.snapshot().unwrap();
    assert_eq!(later.table("table").unwrap(), Some(again));
    assert!(matches!(later.get(table, b"key"), Err(Error::NoSuchTable { .. })));
    drop(snapshot);
    drop(later);
    assert_eq!(old(&database), 0);
    session.run(|txn| txn.drop_table("table").and_then(|()| txn.drop_table("new"))).unwrap();
    assert_eq!(database.memory().used, ByteSize::b(0));
}

#[test]
fn old_versions_are_kept_only_while_a_snapshot_needs_them() {
    let (database, table) = open(settings());
    let session = database.session();
    let write =
        |value: u8| session.run(|txn| (0..100).try_for_each(|n| txn.put(table, &number(n), &[value; 100]))).unwrap();
    write(0);
    write(1);
    assert_eq!(old(&database), 0);
    let first = session.snapshot().unwrap();
    write(2);
    let once = old(&database);
    assert!((100 * 100..100 * 400).contains(&once), "{once}");
    // Nobody can ask for these any more.
    write(3);
    assert_eq!(old(&database), once);
    let second = session.snapshot().unwrap();
    let shared = session.snapshot().unwrap();
    write(4);
    assert!(old(&database) > once);
    drop(second);
    assert_eq!(shared.get(table, &number(7)).unwrap(), Some(vec![3; 100]));
    drop(shared);
    assert_eq!(old(&database), once);
    assert_eq!(first.get(table, &number(7)).unwrap(), Some(vec![1; 100]));
    drop(first);
    assert_eq!(old(&database), 0);
    let used = database.memory().used;
    write(5);
    assert_eq!(database.memory().used, used);
}

/// The version is older than both snapshots and replaced behind both; the newer one ends first, and the other way round.
#[test]
fn what_an_older_snapshot_needs_outlives_a_newer_one() {
    for newer_first in [true, false] {
        let (database, table) = open(settings());
        let session = database.session();
        session.run(|txn| txn.put(table, b"key", b"old")).unwrap();
        let older = session.snapshot().unwrap();
        session.run(|txn| txn.put(table, b"other", b"")).unwrap();
        let newer = session.snapshot().unwrap();
        session.run(|txn| txn.delete(table, b"key")).unwrap();
        let (ends, stays) = if newer_first { (newer, older) } else { (older, newer) };
        drop(ends);
        assert_eq!(stays.get(table, b"key").unwrap().as_deref(), Some(b"old".as_slice()));
        assert_eq!(rows(&stays, table).len(), if newer_first { 1 } else { 2 });
        drop(stays);
        assert_eq!(old(&database), 0);
    }
}

#[test]
fn a_snapshot_that_needs_too_much_memory_is_given_up_and_no_writer_is() {
    let limit = ByteSize::kib(50);
    let (database, table) = open(Settings { snapshot_memory: Some(limit), ..settings() });
    let session = database.session();
    let put = |n: u64| session.run(|txn| txn.put(table, &number(n), &[7; 1000])).unwrap();
    (0..200).for_each(put);
    let oldest = session.snapshot().unwrap();
    put(200);
    let newest = session.snapshot().unwrap();
    let mut peak = 0;
    for n in 0..45 {
        put(n);
        peak = old(&database).max(peak);
    }
    let error = oldest.get(table, &number(3)).unwrap_err();
    assert!(matches!(error, Error::SnapshotTooOld { limit: told } if told == limit), "{error}");
    assert!(error.to_string().contains("Settings::snapshot_memory"));
    assert_eq!(error.kind(), ErrorKind::Exhausted);
    assert!(oldest.scan(table, ALL, |_, _| ControlFlow::Continue(())).is_err());
    for n in 45..200 {
        put(n);
        peak = old(&database).max(peak);
    }
    assert!(newest.scan(table, ALL, |_, _| ControlFlow::Continue(())).is_err());
    assert!(peak > 25_000 && peak < limit.0 + 10_000, "{peak}");
    // There is room for another one, though those who have lost theirs still hold on to them.
    let another = session.snapshot().unwrap();
    (0..30).for_each(put);
    assert_eq!(rows(&another, table).len(), 201);
    drop((oldest, newest, another));
    assert_eq!(old(&database), 0);
}

#[test]
fn old_versions_give_way_to_data() {
    let (database, table) =
        open(Settings { memory: ByteSize::kib(400), snapshot_memory: Some(ByteSize::kib(300)), ..settings() });
    let session = database.session();
    let put = |n: u64, length| session.run(|txn| txn.put(table, &number(n), &vec![7; length])).unwrap();
    (0..100).for_each(|n| put(n, 1000));
    let snapshot = session.snapshot().unwrap();
    (0..100).for_each(|n| put(n, 1000));
    assert_eq!(rows(&snapshot, table).len(), 100);
    (100..300).for_each(|n| put(n, 1000));
    assert!(snapshot.get(table, &number(3)).is_err());
    let memory = database.memory();
    assert!(memory.used.0 + memory.old.0 + memory.spare.0 <= memory.budget.0, "{memory:?}");
}

#[test]
fn a_large_deletion_beside_a_snapshot_is_shown_in_stretches() {
    let (database, table) = open(settings());
    let session = database.session();
    session.run(|txn| (0..20_000).try_for_each(|n| txn.put(table, &number(n), &number(n)))).unwrap();
    let snapshot = session.snapshot().unwrap();
    session
        .run(|txn| (0..20_000).filter(|n| n % 1000 != 0).try_for_each(|n| txn.delete(table, &number(n)).map(drop)))
        .unwrap();
    session.run(|txn| (0..20_000).step_by(7).try_for_each(|n| txn.put(table, &number(n), b"new"))).unwrap();
    assert!(
        rows(&snapshot, table)
            .iter()
            .map(|(key, _)| key)
            .eq((0..20_000).map(|n| number(n).to_vec()).collect::<Vec<_>>().iter())
    );
    assert!(rows(&snapshot, table).iter().all(|(key, value)| key == value));
    let mut seen = 0;
    let range = (Bound::Excluded(number(5000)), Bound::Included(number(7000)));
    let range = (range.0.as_ref().map(<[u8; 8]>::as_slice), range.1.as_ref().map(<[u8; 8]>::as_slice));
    snapshot
        .scan(table, range, |key, _| {
            seen += 1;
            if *key == number(6000) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
        .unwrap();
    assert_eq!(seen, 1000);
}

#[test]
fn a_snapshot_is_in_nobodys_way() {
    let (database, table) = open(impatient());
    let session = database.session();
    session.run(|txn| txn.put(table, b"key", b"old")).unwrap();
    let mut writer = session.begin().unwrap();
    writer.put(table, b"key", b"new").unwrap();
    let snapshot = session.snapshot().unwrap();
    assert_eq!(rows(&snapshot, table), [(b"key".to_vec(), b"old".to_vec())]);
    snapshot
        .scan(table, ALL, |_, _| {
            session.run(|txn| txn.insert(table, b"other", b"")).unwrap();
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(snapshot.get(table, b"key").unwrap().as_deref(), Some(b"old".as_slice()));
    writer.commit().unwrap().wait().unwrap();
    assert_eq!(rows(&snapshot, table).len(), 1);
}

#[test]
fn a_scan_of_a_snapshot_can_be_interrupted() {
    let (database, table) = open(settings());
    let session = database.session();
    session.run(|txn| (0..100).try_for_each(|n| txn.put(table, &number(n), b""))).unwrap();
    let mut snapshot = session.snapshot().unwrap();
    let flag = Arc::new(AtomicBool::new(false));
    snapshot.set_interrupt(Arc::clone(&flag));
    let scanned = snapshot.scan(table, ALL, |_, _| {
        flag.store(true, Ordering::Relaxed);
        ControlFlow::Continue(())
    });
    assert!(matches!(scanned, Err(Error::Interrupted)));
    flag.store(false, Ordering::Relaxed);
    assert_eq!(rows(&snapshot, table).len(), 100);
}

/// Early lock release shows what is not durable yet, a snapshot too; but whoever waits for its ticket is not told too early.
#[test]
fn what_a_snapshot_has_shown_is_durable_when_its_ticket_was_waited_for() {
    type Look = fn(&Snapshot, TableId);
    let looks: [Look; 4] = [
        |snapshot, table| assert!(snapshot.get(table, b"new").unwrap().is_some()),
        |snapshot, table| assert!(snapshot.get(table, b"gone").unwrap().is_none()),
        |snapshot, table| assert_eq!(rows(snapshot, table).len(), 1),
        |snapshot, _| assert!(snapshot.table("made").unwrap().is_some()),
    ];
    for look in looks {
        let (database, table) = open(settings());
        let (writer, reader) = (database.session(), database.session());
        writer.run(|txn| txn.put(table, b"gone", b"")).unwrap();
        let durable = reader.snapshot().unwrap();
        assert_eq!(rows(&durable, table).len(), 1);
        assert!(durable.finish().unwrap().is_durable());
        let mut txn = writer.begin().unwrap();
        txn.put(table, b"new", b"").unwrap();
        txn.delete(table, b"gone").unwrap();
        txn.create_table("made").unwrap();
        let written = txn.commit().unwrap();
        assert!(!written.is_durable());
        let snapshot = reader.snapshot().unwrap();
        look(&snapshot, table);
        let ticket = snapshot.finish().unwrap();
        assert!(!ticket.is_durable());
        ticket.wait().unwrap();
        assert!(written.is_durable());
    }
}

/// Raises a flag when it goes, also if that is for a panic.
struct Raise<'a>(&'a AtomicBool);

impl Drop for Raise<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Accounts from which money goes to others, one at a time opened and closed: neither the sum nor the number ever changes.
fn transfer_beside_snapshots(settings: Settings) {
    const ACCOUNTS: u64 = 300;
    const EACH: u64 = 100;
    let (database, table) = open(settings);
    let session = database.session();
    session.run(|txn| (0..ACCOUNTS).try_for_each(|n| txn.put(table, &number(n), &number(EACH)))).unwrap();
    let (transfers, done) = (AtomicU64::new(0), AtomicBool::new(false));
    let get = |value: Vec<u8>| u64::from_be_bytes(value.try_into().unwrap());
    std::thread::scope(|scope| {
        for seed in 0..2 {
            let (session, transfers, done) = (database.session(), &transfers, &done);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(seed);
                while !done.load(Ordering::Relaxed) {
                    let (from, to) = (number(random.u64(..2 * ACCOUNTS)), number(random.u64(..2 * ACCOUNTS)));
                    let moves = session.run(|txn| {
                        let (Some(all), there) = (txn.get(table, &from)?, txn.get(table, &to)?) else {
                            return Ok(false);
                        };
                        let all = get(all);
                        match there {
                            _ if from == to => return Ok(false),
                            // Somebody else has that account: some of the money moves.
                            Some(there) => {
                                txn.put(table, &from, &number(all - all / 3))?;
                                txn.put(table, &to, &number(get(there) + all / 3))?;
                            }
                            // Nobody has: the account moves.
                            None => {
                                txn.delete(table, &from)?;
                                txn.insert(table, &to, &number(all))?;
                            }
                        }
                        Ok::<_, Error>(true)
                    });
                    transfers.fetch_add(u64::from(moves.unwrap()), Ordering::Relaxed);
                }
            });
        }
        for reader in 0..2 {
            let (session, transfers, done) = (database.session(), &transfers, &done);
            scope.spawn(move || {
                let _end = Raise(done);
                let sum = |snapshot: &Snapshot| {
                    let (mut sum, mut count) = (0, 0);
                    let visit = |_: &[u8], value: &[u8]| {
                        sum += u64::from_be_bytes(value.try_into().unwrap());
                        count += 1;
                        ControlFlow::Continue(())
                    };
                    snapshot.scan(table, ALL, visit).unwrap();
                    (sum, count)
                };
                let mut held: Option<Snapshot> = None;
                for round in 0..150_u64 {
                    let snapshot = session.snapshot().unwrap();
                    assert_eq!(sum(&snapshot), (ACCOUNTS * EACH, ACCOUNTS));
                    if round % (7 + reader) == 0 {
                        held = Some(snapshot);
                    }
                    assert_eq!(held.as_ref().map(sum), Some((ACCOUNTS * EACH, ACCOUNTS)));
                    let seen = transfers.load(Ordering::Relaxed);
                    while transfers.load(Ordering::Relaxed) < seen + 5 && !done.load(Ordering::Relaxed) {
                        std::thread::yield_now();
                    }
                }
            });
        }
    });
    assert!(transfers.into_inner() > 500);
    assert_eq!(old(&database), 0);
}

#[test]
fn transfers_beside_snapshots_neither_make_nor_lose_money() {
    transfer_beside_snapshots(settings());
}

#[test]
fn transfers_in_groups_beside_snapshots_neither_make_nor_lose_money() {
    transfer_beside_snapshots(in_groups_of_four(settings()));
}
