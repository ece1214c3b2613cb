//! What the optimistic protocol does beside: nobody waits for a transaction that has not committed, and conflicts come at
//! the commit of whoever comes too late.

use std::sync::atomic::{AtomicBool, Ordering};

use ishigaki_txn::{CheckpointSettings, ConflictReason};

use super::*;

fn commit(txn: Transaction) -> Result<(), Error> {
    txn.commit().map(drop)
}

fn reason(result: Result<(), Error>) -> Option<ConflictReason> {
    match result {
        Ok(()) => None,
        Err(Error::Conflict { reason }) => Some(reason),
        Err(other) => panic!("{other}"),
    }
}

/// Two transactions of which each overwrites what the other one has read can not both commit; otherwise they can.
#[test]
fn who_read_what_another_has_overwritten_can_not_come_behind_it() {
    type Act = fn(&mut Transaction, TableId) -> Result<(), Error>;
    let read: Act = |txn, table| txn.get(table, b"key").map(drop);
    let miss: Act = |txn, table| txn.get(table, b"missing").map(drop);
    let announced: Act = |txn, table| {
        txn.prefetch(table, &[b"key".as_slice(), b"missing"]);
        txn.get(table, b"key").map(drop)
    };
    let announced_miss: Act = |txn, table| {
        txn.prefetch(table, &[b"key".as_slice(), b"missing"]);
        txn.get(table, b"missing").map(drop)
    };
    let scan: Act = |txn, table| txn.scan(table, ALL, |_, _| ControlFlow::Continue(()));
    let write: Act = |txn, table| txn.put(table, b"key", b"");
    let fill: Act = |txn, table| txn.insert(table, b"missing", b"");
    let fill_unseen: Act = |txn, table| txn.put(table, b"missing", b"");
    let delete: Act = |txn, table| txn.delete(table, b"key").map(drop);
    let refused: Act = |txn, table| txn.insert(table, b"key", b"").or(Ok(()));
    let elsewhere: Act = |txn, table| txn.put(table, b"elsewhere", b"");
    let cases = [
        (read, write, false),
        (read, delete, false),
        (announced, write, false),
        (announced, delete, false),
        (announced, elsewhere, true),
        (miss, fill, false),
        (announced_miss, fill, false),
        (miss, fill_unseen, false),
        (scan, write, false),
        (scan, elsewhere, false),
        (scan, delete, false),
        (delete, write, false),
        (refused, delete, false),
        (fill, fill_unseen, false),
        (write, write, true),
        (read, elsewhere, true),
        (read, fill, true),
        (miss, elsewhere, true),
        (miss, write, true),
    ];
    for (number, (act, overwrite, fits)) in cases.into_iter().enumerate() {
        let (database, table) = open(impatient());
        let session = database.session();
        session.run(|txn| txn.put(table, b"key", b"").and_then(|()| txn.put(table, b"last", b""))).unwrap();
        let mut first = session.begin().unwrap();
        let mut second = session.begin().unwrap();
        act(&mut second, table).unwrap();
        // The second one can not come before the first one, which has read what it overwrites.
        first.get(table, b"last").unwrap();
        overwrite(&mut first, table).unwrap();
        commit(first).unwrap();
        second.put(table, b"last", b"").unwrap();
        assert_eq!(reason(commit(second)).is_none(), fits, "case {number}");
    }
}

#[test]
fn a_reader_comes_before_those_who_overwrote_what_it_read() {
    let (database, table) = open(impatient());
    database.session().run(|txn| txn.put(table, b"key", b"old")).unwrap();
    let mut reader = database.session().begin().unwrap();
    assert_eq!(reader.get(table, b"key").unwrap().as_deref(), Some(b"old".as_slice()));
    let written = database.log().last_drawn();
    database.session().run(|txn| txn.put(table, b"key", b"new")).unwrap();
    assert!(database.log().last_drawn() > written);
    reader.commit().unwrap().wait().unwrap();
}

/// What `docs/semantics.md` says about time: this is allowed, and locking does not do it.
#[test]
fn a_transaction_may_come_before_one_that_had_ended_when_it_read_something_newer() {
    let (database, table) = open(impatient());
    let session = database.session();
    let put = |key: &[u8]| session.run(|txn| txn.put(table, key, b"new")).unwrap();
    for key in [b"x", b"y", b"z"] {
        put(key);
    }
    // `z` is valid for as long as `y` is young.
    (0..9).for_each(|_| put(b"y"));
    session.run(|txn| txn.get(table, b"y").and_then(|_| txn.get(table, b"z"))).unwrap();
    let mut reader = session.begin().unwrap();
    reader.get(table, b"z").unwrap();
    put(b"z");
    put(b"x");
    reader.get(table, b"x").unwrap();
    commit(reader).unwrap();
    // Not so where it has met the later one: `z` can not have been so old then.
    let mut reader = session.begin().unwrap();
    reader.get(table, b"z").unwrap();
    put(b"z");
    session.run(|txn| txn.get(table, b"z").and_then(|_| txn.put(table, b"x", b"newer"))).unwrap();
    reader.get(table, b"x").unwrap();
    assert!(commit(reader).is_err());
}

#[test]
fn a_scan_that_breaks_off_read_only_what_it_visited() {
    for (key, fits) in [(&[5][..], true), (&[4, 1], true), (&[4], false), (&[3, 1], false), (b"", false)] {
        let (database, table) = open(impatient());
        database.session().run(|txn| (0..9_u8).try_for_each(|n| txn.put(table, &[n], b""))).unwrap();
        let mut reader = database.session().begin().unwrap();
        reader
            .scan(table, ALL, |key, _| if key == [4] { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            .unwrap();
        database.session().run(|txn| txn.put(table, key, b"")).unwrap();
        // So that it can not come before.
        reader.put(table, key, b"").unwrap();
        assert_eq!(commit(reader).is_ok(), fits, "{key:?}");
    }
}

#[test]
fn nobody_waits_for_a_writer_that_has_not_committed() {
    let (database, table) = open(impatient());
    database.session().run(|txn| txn.put(table, b"key", b"old")).unwrap();
    let mut writer = database.session().begin().unwrap();
    writer.put(table, b"key", b"new").unwrap();
    writer.insert(table, b"other", b"").unwrap();
    let mut reader = database.session().begin().unwrap();
    assert_eq!(keys(&mut reader, table, ALL), [b"key"]);
    assert_eq!(reader.get(table, b"key").unwrap().as_deref(), Some(b"old".as_slice()));
    commit(reader).unwrap();
    commit(writer).unwrap();
}

#[test]
fn a_key_that_two_insert_is_inserted_once() {
    let (database, table) = open(impatient());
    let before = database.memory().used;
    for first_commits in [true, false] {
        let mut first = database.session().begin().unwrap();
        let mut second = database.session().begin().unwrap();
        first.insert(table, b"key", b"first").unwrap();
        second.insert(table, b"key", b"second").unwrap();
        let (winner, loser) = if first_commits { (first, second) } else { (second, first) };
        commit(winner).unwrap();
        assert!(reason(commit(loser)).is_some());
        database.session().run(|txn| txn.delete(table, b"key").map(drop)).unwrap();
        assert_eq!(database.memory().used, before, "the record is gone");
    }
}

#[test]
fn who_gives_up_an_insertion_does_not_take_away_anothers() {
    let (database, table) = open(impatient());
    let mut first = database.session().begin().unwrap();
    let mut second = database.session().begin().unwrap();
    first.put(table, b"key", b"first").unwrap();
    second.put(table, b"key", b"second").unwrap();
    commit(second).unwrap();
    first.rollback();
    let mut txn = database.session().begin().unwrap();
    assert_eq!(txn.get(table, b"key").unwrap().as_deref(), Some(b"second".as_slice()));
}

#[test]
fn a_savepoint_undoes_writes_and_they_conflict_with_nobody() {
    let (database, table) = open(impatient());
    let mut txn = database.session().begin().unwrap();
    txn.put(table, b"a", b"1").unwrap();
    let outer = txn.savepoint();
    txn.put(table, b"a", b"2").unwrap();
    txn.put(table, b"b", b"3").unwrap();
    txn.rollback_to(&outer);
    txn.put(table, b"b", b"4").unwrap();
    txn.rollback_to(&outer);
    let before = database.memory().used;
    commit(txn).unwrap();
    assert!(database.memory().used < before);
    let mut other = database.session().begin().unwrap();
    assert_eq!(keys(&mut other, table, ALL), [b"a"]);
    assert_eq!(other.get(table, b"a").unwrap().as_deref(), Some(b"1".as_slice()));
}

#[test]
fn a_transaction_that_ends_leaves_nothing_reserved() {
    let (database, table) = open(impatient());
    let session = database.session();
    session.run(|txn| txn.put(table, b"old", &[1; 100])).unwrap();
    let before = database.memory().used;
    let mut txn = session.begin().unwrap();
    write_and_take_back(&mut txn, table);
    assert!(database.memory().used > before);
    txn.rollback();
    assert_eq!(database.memory().used, before);

    let mut txn = session.begin().unwrap();
    write_and_take_back(&mut txn, table);
    let mut loser = session.begin().unwrap();
    loser.put(table, b"own", &[5; 500]).unwrap();
    assert!(!loser.delete(table, b"new").unwrap(), "it is there for nobody");
    loser.get(table, b"old").unwrap();
    loser.put(table, b"old", &[5; 500]).unwrap();
    commit(txn).unwrap();
    assert!(reason(commit(loser)).is_some());
    // The value has outgrown its record, and lies outside: with what the allocator adds, a multiple of 16.
    assert_eq!(database.memory().used.0, before.0 + (1000 + 16_u64).next_multiple_of(16));
}

/// It could well come before who has overwritten what it read. But a snapshot is taken meanwhile that shows that, and not what
/// waits.
#[test]
fn who_waits_for_space_in_the_log_decides_again() {
    let (segment, space, space_wait) = (ByteSize::kib(16), ByteSize::kib(128), Duration::from_secs(30));
    let log = ishigaki_wal::Settings { segment, space, space_wait, ..settings().log };
    let checkpoint = CheckpointSettings { automatic: false, ..Default::default() };
    let (database, table) = open(Settings { log, checkpoint, ..impatient() });
    let session = database.session();
    let put = |key: &[u8]| session.run(|txn| txn.put(table, key, b"")).unwrap();
    for key in [b"x", b"y", b"z", b"z", b"z", b"z"] {
        put(key);
    }
    // For all that its readers know, `y` is valid for long.
    session.run(|txn| txn.get(table, b"z").and_then(|_| txn.get(table, b"y"))).unwrap();
    let mut late = session.begin().unwrap();
    late.get(table, b"y").unwrap();
    late.put(table, b"x", &[1; 10_000]).unwrap();
    put(b"y");
    std::thread::scope(|scope| {
        // Far more than there is space for: some are held back when they have committed, others before.
        let fill = |key: u8| {
            let session = database.session();
            scope.spawn(move || session.run(|txn| txn.put(table, &[key], &[1; 9_000])).unwrap())
        };
        let others: Vec<_> = (0..40).map(fill).collect();
        while database.log().space().live < database.log().space().bound {
            std::thread::sleep(Duration::from_millis(1));
        }
        let late = scope.spawn(|| commit(late));
        // What it is going to write stays locked, unless there was room for it after all.
        let mut looks = 0;
        while looks < 20 && session.begin().unwrap().get(table, b"x").is_ok_and(|x| x == Some(Vec::new())) {
            std::thread::sleep(Duration::from_millis(1));
            looks += 1;
        }
        std::thread::sleep(Duration::from_millis(20));
        let waits = session.begin().unwrap().get(table, b"x").is_err();
        let snapshot = session.snapshot().unwrap();
        while !late.is_finished() || others.iter().any(|other| !other.is_finished()) {
            database.checkpoint().unwrap();
        }
        assert_eq!(snapshot.get(table, b"x").unwrap().map(|x| x.len()), Some(if waits { 0 } else { 10_000 }));
        assert_eq!(reason(late.join().unwrap()).is_some(), waits);
    });
}

#[test]
fn the_absence_of_a_name_is_validated() {
    let (database, _) = open(impatient());
    let mut first = database.session().begin().unwrap();
    let mut second = database.session().begin().unwrap();
    assert_eq!(first.table("new").unwrap(), None);
    assert_eq!(second.table("new").unwrap(), None);
    first.create_table("new").unwrap();
    second.create_table("new").unwrap();
    commit(second).unwrap();
    assert!(reason(commit(first)).is_some());
}

#[test]
fn who_uses_a_table_that_is_dropped_can_not_commit() {
    let usages: [fn(&mut Transaction, TableId); 5] = [
        |txn, table| drop(txn.get(table, b"key").unwrap()),
        |txn, table| drop(txn.get(table, b"absent").unwrap()),
        |txn, table| txn.put(table, b"new", b"").unwrap(),
        |txn, table| txn.put(table, b"key", b"").unwrap(),
        |txn, table| drop(keys(txn, table, ALL)),
    ];
    for usage in usages {
        let (database, table) = open(impatient());
        database.session().run(|txn| txn.put(table, b"key", b"")).unwrap();
        let mut user = database.session().begin().unwrap();
        usage(&mut user, table);
        database.session().run(|txn| txn.drop_table("table")).unwrap();
        assert!(reason(commit(user)).is_some());
        assert_eq!(database.memory().used, ByteSize::b(0));

        // The other way round: who has read the table before it is dropped.
        let (database, table) = open(impatient());
        let mut dropper = database.session().begin().unwrap();
        dropper.drop_table("table").unwrap();
        let mut user = database.session().begin().unwrap();
        user.put(table, b"key", b"").unwrap();
        usage(&mut user, table);
        commit(user).unwrap();
        commit(dropper).unwrap();
        assert_eq!(database.session().begin().unwrap().tables().unwrap(), []);
    }
}

#[test]
fn who_comes_to_a_table_too_late_is_told_that_it_is_gone_and_waits_for_that() {
    let (database, table) = open(settings());
    let mut reader = database.session().begin().unwrap();
    let mut dropper = database.session().begin().unwrap();
    dropper.drop_table("table").unwrap();
    let gone = dropper.commit().unwrap();
    assert!(matches!(reader.get(table, b"key"), Err(Error::NoSuchTable { .. })));
    let ticket = reader.commit().unwrap();
    assert!(!gone.is_durable() && !ticket.is_durable());
    ticket.wait().unwrap();
    assert!(gone.is_durable());
}

/// The transaction has the table at hand, and has not looked whether it is there.
#[test]
fn who_has_a_table_at_hand_that_is_dropped_is_told_that_it_is_gone() {
    let (database, table) = open(settings());
    database.session().run(|txn| txn.put(table, b"key", b"")).unwrap();
    let mut reader = database.session().begin().unwrap();
    assert!(matches!(reader.put(table, &vec![0; MAX_KEY + 1], b""), Err(Error::KeyTooLong { .. })));
    database.session().run(|txn| txn.drop_table("table")).unwrap();
    assert!(matches!(reader.get(table, b"key"), Err(Error::NoSuchTable { .. })));
    reader.commit().unwrap().wait().unwrap();
}

/// Its name is another table's, so no row of the system table tells.
#[test]
fn who_misses_a_table_comes_behind_its_drop() {
    let (database, table) = open(impatient());
    let session = database.session();
    session.run(|txn| txn.put(table, b"key", b"")).unwrap();
    let gone = session.run(|txn| txn.create_table("gone")).unwrap();
    for looks in [false, true] {
        let mut reader = session.begin().unwrap();
        reader.get(table, b"key").unwrap();
        if looks {
            let both = |txn: &mut Transaction| {
                txn.drop_table("gone")?;
                txn.create_table("gone")?;
                txn.put(table, b"key", b"")
            };
            session.run(both).unwrap();
            assert!(matches!(reader.get(gone, b"key"), Err(Error::NoSuchTable { .. })));
        } else {
            session.run(|txn| txn.put(table, b"key", b"")).unwrap();
        }
        assert_eq!(reason(commit(reader)).is_some(), looks);
    }
}

#[test]
fn run_does_not_return_an_error_that_came_from_what_never_was() {
    let (database, table) = open(settings());
    let session = database.session();
    session.run(|txn| txn.put(table, b"a", b"1").and_then(|()| txn.put(table, b"b", b"1"))).unwrap();
    let mut attempts = 0;
    let seen = session.run(|txn| {
        attempts += 1;
        let a = txn.get(table, b"a")?.unwrap();
        if attempts == 1 {
            let both = |txn: &mut Transaction| {
                txn.put(table, b"a", b"2")?;
                txn.put(table, b"b", b"2")
            };
            database.session().run(both).unwrap();
        }
        let b = txn.get(table, b"b")?.unwrap();
        // They are always the same.
        if a == b { Ok(a) } else { Err(Error::NoSuchTable { table: "the two differ".to_owned() }) }
    });
    assert_eq!(seen.unwrap(), b"2");
    assert_eq!(attempts, 2);
}

#[test]
fn a_raised_flag_ends_the_retries_of_run() {
    let (database, table) = open(settings());
    let flag = Arc::new(AtomicBool::new(false));
    let mut attempts = 0;
    let result = database.session().run(|txn| {
        txn.set_interrupt(Arc::clone(&flag));
        attempts += 1;
        flag.store(attempts == 5, Ordering::Relaxed);
        txn.insert(table, b"key", b"")?;
        // Somebody is faster every time, and takes it back.
        database.session().run(|txn| txn.put(table, b"key", b"")).unwrap();
        database.session().run(|txn| txn.delete(table, b"key").map(drop)).unwrap();
        Ok::<_, Error>(())
    });
    assert!(matches!(result, Err(Error::Interrupted)));
    assert_eq!(attempts, 5);
}

#[test]
fn who_missed_a_key_and_then_writes_it_is_told_if_somebody_else_did() {
    let (database, table) = open(impatient());
    for read in [false, true] {
        let key = [u8::from(read)];
        let mut first = database.session().begin().unwrap();
        if read {
            assert_eq!(first.get(table, &key).unwrap(), None);
        } else {
            assert_eq!(keys(&mut first, table, (Bound::Included(&key), Bound::Unbounded)).len(), 0);
        }
        first.put(table, &key, b"first").unwrap();
        database.session().run(|txn| txn.put(table, &key, b"second")).unwrap();
        assert!(reason(commit(first)).is_some());
        database.session().run(|txn| txn.delete(table, &key).map(drop)).unwrap();
    }
}

/// Writes new keys until one of them has got the memory of a record whose key is gone.
fn take_up_spare_records(database: &Database, table: TableId) -> Vec<Vec<u8>> {
    let mut new = Vec::new();
    while database.memory().spare.0 > 0 || new.len() < 500 {
        assert!(new.len() < 1_000_000, "it never comes back");
        let key = format!("new{}", new.len()).into_bytes();
        database.session().run(|txn| txn.put(table, &key, &key)).unwrap();
        new.push(key);
    }
    new
}

fn all_are_there(database: &Database, table: TableId, new: &[Vec<u8>]) {
    let mut txn = database.session().begin().unwrap();
    for key in new {
        assert_eq!(txn.get(table, key).unwrap().as_ref(), Some(key));
    }
}

#[test]
fn a_record_that_is_another_keys_now_is_not_written_for_the_last_one() {
    let (database, table) = open(impatient());
    database.session().run(|txn| txn.put(table, b"old", b"value")).unwrap();
    let mut late = database.session().begin().unwrap();
    late.put(table, b"old", b"late").unwrap();
    database.session().run(|txn| txn.delete(table, b"old").map(drop)).unwrap();
    let new = take_up_spare_records(&database, table);
    assert!(reason(commit(late)).is_some());
    all_are_there(&database, table, &new);
}

#[test]
fn a_record_that_is_another_keys_now_was_not_read() {
    let (database, table) = open(impatient());
    database.session().run(|txn| txn.put(table, b"old", b"value")).unwrap();
    let mut late = database.session().begin().unwrap();
    assert!(late.get(table, b"old").unwrap().is_some());
    database.session().run(|txn| txn.delete(table, b"old").map(drop)).unwrap();
    take_up_spare_records(&database, table);
    late.put(table, b"old", b"late").unwrap();
    assert!(reason(commit(late)).is_some());
}

/// Has new keys in the memory of all records whose keys are gone, in a transaction that is not over.
fn hold_spare_records(database: &Database, table: TableId) -> Transaction {
    let mut holder = database.session().begin().unwrap();
    put_until_no_record_is_spare(database, table, &mut holder);
    holder
}

fn put_until_no_record_is_spare(database: &Database, table: TableId, txn: &mut Transaction) {
    for n in 0_u32.. {
        assert!(n < 1_000_000, "it never comes back");
        txn.put(table, format!("held{n}").as_bytes(), b"value").unwrap();
        if n > 500 && database.memory().spare.0 == 0 {
            break;
        }
    }
}

#[test]
fn who_takes_an_insertion_back_leaves_alone_what_its_record_has_become() {
    let (database, table) = open(impatient());
    let mut late = database.session().begin().unwrap();
    late.put(table, b"old", b"late").unwrap();
    database.session().run(|txn| txn.put(table, b"old", b"value")).unwrap();
    database.session().run(|txn| txn.delete(table, b"old").map(drop)).unwrap();
    let holder = hold_spare_records(&database, table);
    late.rollback();
    commit(holder).unwrap();
}

#[test]
fn an_absence_that_was_read_from_a_record_is_not_that_of_its_next_key() {
    let (database, table) = open(impatient());
    let mut passing = database.session().begin().unwrap();
    passing.put(table, b"key", b"never").unwrap();
    let mut reader = database.session().begin().unwrap();
    assert_eq!(reader.get(table, b"key").unwrap(), None, "its record is there");
    passing.rollback();
    let holder = hold_spare_records(&database, table);
    let both = |txn: &mut Transaction| {
        txn.put(table, b"key", b"value")?;
        txn.put(table, b"other", b"value")
    };
    database.session().run(both).unwrap();
    assert!(reader.get(table, b"other").unwrap().is_some());
    assert!(reason(commit(reader)).is_some());
    drop(holder);
}

#[test]
fn a_record_that_one_transaction_has_found_for_two_keys_is_not_written_for_both() {
    let (database, table) = open(impatient());
    database.session().run(|txn| txn.put(table, b"old", b"value")).unwrap();
    let mut late = database.session().begin().unwrap();
    late.put(table, b"old", b"late").unwrap();
    database.session().run(|txn| txn.delete(table, b"old").map(drop)).unwrap();
    put_until_no_record_is_spare(&database, table, &mut late);
    assert!(reason(commit(late)).is_some());
}

/// What was announced is looked up then and used later. A record that has another version by now is looked up again: its key
/// may be gone, have come back in another record, or have left this one to another key.
#[test]
fn what_became_of_an_announced_key_is_seen() {
    type Act = fn(&mut Transaction, TableId) -> Result<(), Error>;
    let changes: [(Act, Option<&[u8]>); 5] = [
        (|_, _| Ok(()), Some(b"old")),
        (|txn, table| txn.put(table, b"key", b"new"), Some(b"new")),
        (|txn, table| txn.delete(table, b"key").map(drop), None),
        (|txn, table| txn.delete(table, b"key").and_then(|_| txn.put(table, b"key", b"again")), Some(b"again")),
        (|txn, table| txn.put(table, b"key", &[7; 300]), Some(&[7; 300])),
    ];
    let keys = [b"key".as_slice(), b"none"];
    for (change, expected) in changes {
        let (database, table) = open(impatient());
        let session = database.session();
        session.run(|txn| txn.put(table, b"key", b"old")).unwrap();
        let mut reader = session.begin().unwrap();
        let mut writer = session.begin().unwrap();
        for txn in [&mut reader, &mut writer] {
            txn.prefetch(table, &keys);
        }
        session.run(|txn| change(txn, table)).unwrap();
        // The record of a key that has gone may be another key's.
        for number in 0..100_u8 {
            session.run(|txn| txn.put(table, &[number], b"other")).unwrap();
        }
        assert_eq!(reader.get(table, b"key").unwrap().as_deref(), expected);
        assert_eq!(reader.get(table, b"none").unwrap(), None);
        commit(reader).unwrap();
        writer.put(table, b"key", b"last").unwrap();
        writer.put(table, b"none", b"one").unwrap();
        commit(writer).unwrap();
        let mut after = session.begin().unwrap();
        assert_eq!(after.get(table, b"key").unwrap().as_deref(), Some(b"last".as_slice()));
        assert_eq!(after.get(table, &[99]).unwrap().as_deref(), Some(b"other".as_slice()));
    }
}

#[test]
fn an_announcement_has_no_effect() {
    let (database, table) = open(impatient());
    let session = database.session();
    session.run(|txn| (0..200_u8).try_for_each(|n| txn.put(table, &[n], &[n]))).unwrap();
    let all: Vec<_> = (0..=255_u8).map(|n| [n]).collect();
    let mut idle = session.begin().unwrap();
    idle.prefetch(table, &all);
    idle.prefetch(TableId(99), &all);
    idle.prefetch::<&[u8]>(table, &[]);
    idle.prefetch(table, &[vec![1; 100_000]]);
    session.run(|txn| (0..=255_u8).try_for_each(|n| txn.put(table, &[n], b"changed"))).unwrap();
    idle.put(table, b"own", b"").unwrap();
    commit(idle).unwrap();
    let mut reader = session.begin().unwrap();
    reader.prefetch(table, &all);
    assert!(all.iter().all(|key| reader.get(table, key).unwrap().as_deref() == Some(b"changed".as_slice())));
    commit(reader).unwrap();
}
