//! What locking does beside: conflicts come when the lock is asked for, and who comes second waits or gives way.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use ishigaki_txn::ConflictReason;

use super::*;

#[test]
fn reads_share_and_writes_exclude() {
    type Act = fn(&mut Transaction, TableId) -> Result<(), Error>;
    let read: Act = |txn, table| txn.get(table, b"key").map(drop);
    let miss: Act = |txn, table| txn.get(table, b"missing").map(drop);
    let scan: Act = |txn, table| txn.scan(table, ALL, |_, _| ControlFlow::Continue(()));
    let write: Act = |txn, table| txn.put(table, b"key", b"");
    let fill: Act = |txn, table| txn.insert(table, b"missing", b"");
    let delete: Act = |txn, table| txn.delete(table, b"key").map(drop);
    let elsewhere: Act = |txn, table| txn.put(table, b"elsewhere", b"");
    let cases = [
        (read, read, true),
        (read, scan, true),
        (scan, miss, true),
        (miss, miss, true),
        (read, elsewhere, true),
        (miss, elsewhere, true),
        (read, write, false),
        (read, delete, false),
        (scan, write, false),
        (scan, elsewhere, false),
        (scan, delete, false),
        (miss, fill, false),
        (fill, fill, false),
        (write, delete, false),
    ];
    for (number, (a, b, together)) in cases.into_iter().enumerate() {
        for (first, second) in [(a, b), (b, a)] {
            let (database, table) = open(impatient());
            database.session().run(|txn| txn.put(table, b"key", b"")).unwrap();
            let mut older = database.session().begin().unwrap();
            let mut younger = database.session().begin().unwrap();
            first(&mut older, table).unwrap();
            let conflicts = matches!(second(&mut younger, table), Err(Error::Conflict { .. }));
            assert_eq!(conflicts, !together, "case {number}");
            // The other way round: the older one comes second and, having no patience, gives way too.
            drop((older, younger));
            let mut older = database.session().begin().unwrap();
            let mut younger = database.session().begin().unwrap();
            first(&mut younger, table).unwrap();
            let conflicts = matches!(second(&mut older, table), Err(Error::Conflict { .. }));
            assert_eq!(conflicts, !together, "case {number}, older second");
        }
    }
}

#[test]
fn a_scan_that_breaks_off_locks_only_what_it_visited() {
    let (database, table) = open(impatient());
    database.session().run(|txn| (0..9_u8).try_for_each(|n| txn.put(table, &[n], b""))).unwrap();
    let mut reader = database.session().begin().unwrap();
    reader
        .scan(table, ALL, |key, _| if key == [4] { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        .unwrap();
    let put = |key: &[u8]| {
        let mut writer = database.session().begin().unwrap();
        writer.put(table, key, b"").is_ok()
    };
    assert!(put(&[5]) && put(&[4, 1]));
    assert!(!put(&[4]) && !put(&[3, 1]) && !put(b""));
}

#[test]
fn an_older_transaction_waits_for_a_younger_one() {
    let (database, table) = open(settings());
    let mut older = database.session().begin().unwrap();
    let mut younger = database.session().begin().unwrap();
    younger.put(table, b"key", b"younger").unwrap();
    let waiter = std::thread::spawn(move || {
        let seen = older.get(table, b"key").unwrap();
        (seen, Instant::now())
    });
    std::thread::sleep(Duration::from_millis(50));
    let before = Instant::now();
    younger.commit().unwrap().wait().unwrap();
    let (seen, after) = waiter.join().unwrap();
    assert_eq!(seen.as_deref(), Some(b"younger".as_slice()));
    assert!(after > before);
}

#[test]
fn waiting_ends_with_the_patience() {
    let (database, table) = open(Settings { lock_wait: Duration::from_millis(30), ..settings() });
    let mut older = database.session().begin().unwrap();
    let mut younger = database.session().begin().unwrap();
    younger.put(table, b"key", b"").unwrap();
    let begun = Instant::now();
    let error = older.get(table, b"key").unwrap_err();
    assert!(matches!(error, Error::Conflict { reason: ConflictReason::WaitedTooLong }));
    assert!(begun.elapsed() >= Duration::from_millis(30));
}

#[test]
fn a_raised_flag_ends_a_wait_and_the_transaction_lives_on() {
    let (database, table) = open(settings());
    let flag = Arc::new(AtomicBool::new(false));
    let mut older = database.session().begin().unwrap();
    older.set_interrupt(Arc::clone(&flag));
    older.put(table, b"own", b"").unwrap();
    let mut younger = database.session().begin().unwrap();
    younger.put(table, b"key", b"").unwrap();
    let waiter = std::thread::spawn(move || {
        let error = older.put(table, b"key", b"").unwrap_err();
        (older, error)
    });
    std::thread::sleep(Duration::from_millis(30));
    flag.store(true, Ordering::Relaxed);
    let (mut older, error) = waiter.join().unwrap();
    assert!(matches!(error, Error::Interrupted));
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    assert!(matches!(older.scan(table, ALL, |_, _| ControlFlow::Continue(())), Err(Error::Interrupted)));

    flag.store(false, Ordering::Relaxed);
    younger.commit().unwrap().wait().unwrap();
    older.put(table, b"key", b"after").unwrap();
    assert_eq!(keys(&mut older, table, ALL), [b"key".as_slice(), b"own"]);
    older.commit().unwrap().wait().unwrap();
}

#[test]
fn an_interrupted_writer_holds_nothing_that_a_reader_stands_against() {
    let (database, table) = open(settings());
    database.session().run(|txn| txn.put(table, b"key", b"")).unwrap();
    let flag = Arc::new(AtomicBool::new(true));
    let mut writer = database.session().begin().unwrap();
    writer.set_interrupt(Arc::clone(&flag));
    let mut reader = database.session().begin().unwrap();
    assert_eq!(keys(&mut reader, table, ALL), [b"key"]);
    // The writer is older: it would wait for the reader. One of the keys is new, the other one is not.
    assert!(matches!(writer.put(table, b"new", b""), Err(Error::Interrupted)));
    assert!(matches!(writer.put(table, b"key", b""), Err(Error::Interrupted)));
    assert_eq!(keys(&mut reader, table, ALL), [b"key"]);
    assert!(matches!(writer.put(table, b"key", b""), Err(Error::Interrupted)), "it must wait again");
    drop(reader);
    flag.store(false, Ordering::Relaxed);
    writer.put(table, b"new", b"").unwrap();
    writer.put(table, b"key", b"").unwrap();
    writer.commit().unwrap().wait().unwrap();
}

#[test]
fn a_raised_flag_ends_the_retries_of_run() {
    let (database, table) = open(settings());
    let mut holder = database.session().begin().unwrap();
    holder.put(table, b"key", b"").unwrap();
    let flag = Arc::new(AtomicBool::new(false));
    let mut attempts = 0;
    let result = database.session().run(|txn| {
        txn.set_interrupt(Arc::clone(&flag));
        attempts += 1;
        flag.store(attempts == 5, Ordering::Relaxed);
        txn.put(table, b"key", b"")
    });
    assert!(matches!(result, Err(Error::Interrupted)));
    assert_eq!(attempts, 5);
}

#[test]
fn the_absence_of_a_name_is_locked() {
    let (database, _) = open(impatient());
    let mut reader = database.session().begin().unwrap();
    assert_eq!(reader.table("new").unwrap(), None);
    let mut creator = database.session().begin().unwrap();
    assert!(matches!(creator.create_table("new"), Err(Error::Conflict { .. })));
    assert_eq!(reader.table("new").unwrap(), None);
}

#[test]
fn a_table_in_use_is_not_dropped() {
    let (database, table) = open(impatient());
    database.session().run(|txn| txn.put(table, b"key", b"")).unwrap();
    let usages: [fn(&mut Transaction, TableId); 4] = [
        |txn, table| drop(txn.get(table, b"key").unwrap()),
        |txn, table| drop(txn.get(table, b"absent").unwrap()),
        |txn, table| txn.put(table, b"new", b"").unwrap(),
        |txn, table| drop(keys(txn, table, ALL)),
    ];
    for usage in usages {
        let mut user = database.session().begin().unwrap();
        usage(&mut user, table);
        let mut dropper = database.session().begin().unwrap();
        assert!(matches!(dropper.drop_table("table"), Err(Error::Conflict { .. })));
        usage(&mut user, table);

        let mut dropper = database.session().begin().unwrap();
        drop(user);
        dropper.drop_table("table").unwrap();
        let mut user = database.session().begin().unwrap();
        assert!(matches!(user.get(table, b"key"), Err(Error::Conflict { .. })));
    }
}

#[test]
fn a_savepoint_undoes_writes_and_keeps_locks() {
    let (database, table) = open(impatient());
    let mut txn = database.session().begin().unwrap();
    txn.put(table, b"a", b"1").unwrap();
    let outer = txn.savepoint();
    txn.put(table, b"a", b"2").unwrap();
    let inner = txn.savepoint();
    txn.delete(table, b"a").unwrap();
    txn.put(table, b"b", b"3").unwrap();
    txn.rollback_to(&inner);
    assert_eq!(txn.get(table, b"a").unwrap().as_deref(), Some(b"2".as_slice()));
    assert_eq!(keys(&mut txn, table, ALL), [b"a"]);
    txn.rollback_to(&outer);
    txn.rollback_to(&outer);
    assert_eq!(txn.get(table, b"a").unwrap().as_deref(), Some(b"1".as_slice()));
    let mut other = database.session().begin().unwrap();
    assert!(matches!(other.put(table, b"b", b"mine"), Err(Error::Conflict { .. })), "b is still locked");
    txn.commit().unwrap().wait().unwrap();
    let mut other = database.session().begin().unwrap();
    assert_eq!(keys(&mut other, table, ALL), [b"a"], "the key of the undone insertion is gone");
}

#[test]
fn a_dead_transaction_says_so_until_it_is_rolled_back() {
    let (database, table) = open(impatient());
    let mut first = database.session().begin().unwrap();
    let mut second = database.session().begin().unwrap();
    first.put(table, b"key", b"first").unwrap();
    second.put(table, b"mine", b"second").unwrap();
    let error = second.put(table, b"key", b"second").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(error.kind().is_retryable());
    assert!(matches!(second.get(table, b"mine"), Err(Error::Conflict { .. })));
    assert!(matches!(second.table("table"), Err(Error::Conflict { .. })));
    first.put(table, b"mine", b"first").unwrap();
    assert!(matches!(second.commit(), Err(Error::Conflict { .. })));
    first.commit().unwrap().wait().unwrap();
    let mut txn = database.session().begin().unwrap();
    assert_eq!(txn.get(table, b"mine").unwrap().as_deref(), Some(b"first".as_slice()));
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
    assert!(loser.put(table, b"old", &[5; 500]).is_err());
    drop(loser);
    txn.commit().unwrap().wait().unwrap();
    // The value has outgrown its record, and lies outside: with what the allocator adds, a multiple of 16.
    assert_eq!(database.memory().used.0, before.0 + (1000 + 16_u64).next_multiple_of(16));
}
