//! Several transactions at once: who waits, who gives way, who is interrupted.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ishigaki_txn::Session;

use super::*;

/// What two transactions do to the same key, and whether they get in each other's way.
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
