//! Several transactions at once: who waits, who gives way, who is interrupted.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use ishigaki_txn::{ConflictReason, Session};

use super::*;

/// What two transactions do to the same key, and whether they get in each other's way.
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
fn a_commit_lets_others_in_before_it_is_durable() {
    let (database, table) = open(impatient());
    let mut first = database.session().begin().unwrap();
    first.put(table, b"key", b"1").unwrap();
    let ticket = first.commit().unwrap();
    let mut second = database.session().begin().unwrap();
    assert_eq!(second.get(table, b"key").unwrap().as_deref(), Some(b"1".as_slice()));
    second.put(table, b"key", b"2").unwrap();
    let later = second.commit().unwrap();
    assert!(!ticket.is_durable() && later.lsn() > ticket.lsn());
    later.wait().unwrap();
    assert!(ticket.is_durable());
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

/// An error of an embedding program.
#[derive(Debug)]
enum Mine {
    Txn,
    Refused,
}

impl From<Error> for Mine {
    fn from(_: Error) -> Self {
        Self::Txn
    }
}

#[test]
fn run_rolls_back_on_an_error_of_its_body() {
    let (database, table) = open(settings());
    let refused = database.session().run(|txn| {
        txn.put(table, b"key", b"")?;
        Err::<(), _>(Mine::Refused)
    });
    assert!(matches!(refused, Err(Mine::Refused)));
    let mut txn = database.session().begin().unwrap();
    assert!(keys(&mut txn, table, ALL).is_empty());
}

fn count(session: &Session, table: TableId, key: &[u8]) -> Result<(), Mine> {
    session.run(|txn| {
        let old = txn.get_with(table, key, |value| u64::from_le_bytes(value.try_into().unwrap()))?;
        txn.put(table, key, &(old.unwrap_or(0) + 1).to_le_bytes())?;
        Ok(())
    })
}

#[test]
fn no_increment_is_lost_and_nobody_starves() {
    let (database, table) = open(settings());
    let (threads, each, start) = (4, 200, Barrier::new(4));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let (session, start) = (database.session(), &start);
            scope.spawn(move || {
                start.wait();
                (0..each).for_each(|_| count(&session, table, b"hot").unwrap());
            });
        }
    });
    let mut txn = database.session().begin().unwrap();
    let total = txn.get_with(table, b"hot", |value| u64::from_le_bytes(value.try_into().unwrap())).unwrap();
    assert_eq!(total, Some(threads * each));
}

#[test]
fn a_writer_is_not_starved_by_a_stream_of_readers() {
    let (database, table) = open(settings());
    database.session().run(|txn| txn.put(table, b"key", b"")).unwrap();
    let stop = AtomicBool::new(false);
    let reads = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            let (session, stop, reads) = (database.session(), &stop, &reads);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    session.run(|txn| txn.get(table, b"key").map(drop)).unwrap();
                    reads.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        while reads.load(Ordering::Relaxed) < 100 {
            std::thread::yield_now();
        }
        for _ in 0..50 {
            database.session().run(|txn| txn.put(table, b"key", b"new")).unwrap();
        }
        stop.store(true, Ordering::Relaxed);
    });
}

fn count_keys(txn: &mut Transaction, table: TableId) -> Result<usize, Error> {
    let mut count = 0;
    txn.scan(table, ALL, |_, _| {
        count += 1;
        ControlFlow::Continue(())
    })?;
    Ok(count)
}

#[test]
fn tables_are_dropped_under_the_hands_of_their_users() {
    let (database, _) = open(settings());
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..2_u8 {
            let (session, stop) = (database.session(), &stop);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let used = session.run(|txn| {
                        let Some(table) = txn.table("table")? else { return Ok(()) };
                        let seen = count_keys(txn, table)?;
                        txn.put(table, &[thread], b"")?;
                        txn.put(table, b"both", b"")?;
                        assert!(count_keys(txn, table)? >= seen);
                        Ok::<_, Error>(())
                    });
                    used.unwrap();
                }
            });
        }
        let session = database.session();
        for _ in 0..100 {
            session.run(|txn| txn.drop_table("table").and_then(|()| txn.create_table("table").map(drop))).unwrap();
        }
        stop.store(true, Ordering::Relaxed);
    });
    database.session().run(|txn| txn.drop_table("table")).unwrap();
    assert_eq!(database.memory().used, ByteSize::b(0));
}
