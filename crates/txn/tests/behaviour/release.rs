//! Locks that are let go of when their transactions are durable: what others see is durable, and nobody waits for ever.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use super::*;

fn normal() -> Settings {
    in_groups_of_four(settings())
}

#[test]
fn whoever_sees_a_write_sees_a_durable_one() {
    let (database, table) = open(normal());
    let ticket = put(&database.session(), table, b"key");
    let mut reader = database.session().begin().unwrap();
    assert_eq!(reader.get(table, b"key").unwrap().as_deref(), Some(b"new".as_slice()));
    assert!(ticket.is_durable());
    assert!(reader.commit().unwrap().is_durable());
    for scans in [false, true] {
        let session = database.session();
        let mut txn = session.begin().unwrap();
        assert!(txn.delete(table, b"key").unwrap());
        let ticket = txn.commit().unwrap();
        let mut reader = database.session().begin().unwrap();
        if scans {
            assert!(keys(&mut reader, table, ALL).is_empty());
        } else {
            assert_eq!(reader.get(table, b"key").unwrap(), None);
        }
        assert!(ticket.is_durable());
        drop(reader);
        put(&session, table, b"key").wait().unwrap();
    }
}

#[test]
fn where_nothing_is_gathered_a_commit_returns_when_it_is_durable() {
    let settings = normal();
    let group = ishigaki_wal::Group { transactions: 1, ..Default::default() };
    let (database, table) = open(Settings { log: ishigaki_wal::Settings { group, ..settings.log }, ..settings });
    assert!(put(&database.session(), table, b"key").is_durable());
}

#[test]
fn an_ended_session_leaves_no_locks() {
    let (database, table) = open(Settings { lock_wait: Duration::ZERO, ..normal() });
    drop(put(&database.session(), table, b"key"));
    let ticket = put(&database.session(), table, b"key");
    // The ticket keeps the session.
    let mut txn = database.session().begin().unwrap();
    let met = txn.get(table, b"key").is_err();
    assert_eq!(met, !ticket.is_durable());
    drop(ticket);
    let mut txn = database.session().begin().unwrap();
    txn.get(table, b"key").unwrap();
}

/// Sixteen workers that do not wait for their tickets, over four records: each of them holds, most of the time, what others
/// want. Every now and then one falls silent for a while.
#[test]
fn workers_over_a_few_hot_records_never_stall() {
    const WORKERS: u64 = 16;
    let settings = normal();
    let group = ishigaki_wal::Group { transactions: 16, ..Default::default() };
    let (database, table) = open(Settings { log: ishigaki_wal::Settings { group, ..settings.log }, ..settings });
    let count = |txn: &mut Transaction, key: &[u8]| {
        let old = txn.get_with(table, key, |value| u64::from_le_bytes(value.try_into().unwrap()))?.unwrap_or(0);
        txn.put(table, key, &(old + 1).to_le_bytes())
    };
    let (stop, counted) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let worker = |seed| {
            let (session, stop, counted) = (database.session(), &stop, &counted);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(seed);
                let (mut longest, mut last) = (Duration::ZERO, Instant::now());
                while !stop.load(Ordering::Relaxed) {
                    let mut txn = session.begin().unwrap();
                    let done = (0..2).try_for_each(|_| count(&mut txn, &[random.u8(..4)]));
                    match done.and_then(|()| txn.commit().map(drop)) {
                        Ok(()) => {
                            counted.fetch_add(2, Ordering::Relaxed);
                            longest = longest.max(last.elapsed());
                            if random.u8(..50) == 0 {
                                std::thread::sleep(Duration::from_millis(20));
                            }
                            last = Instant::now();
                        }
                        Err(Error::Conflict { .. }) => std::thread::yield_now(),
                        Err(other) => panic!("{other}"),
                    }
                }
                longest.max(last.elapsed())
            })
        };
        let workers: Vec<_> = (0..WORKERS).map(worker).collect();
        std::thread::sleep(Duration::from_secs(2));
        stop.store(true, Ordering::Relaxed);
        let longest = workers.into_iter().map(|worker| worker.join().unwrap()).max().unwrap();
        assert!(longest < Duration::from_millis(1500), "somebody was kept waiting for {longest:?}");
    });
    let counted = counted.into_inner();
    assert!(counted > 1000, "{counted}");
    let mut txn = database.session().begin().unwrap();
    let value =
        |key| txn.get_with(table, &[key], |value| u64::from_le_bytes(value.try_into().unwrap())).unwrap().unwrap();
    assert_eq!((0..4).map(value).sum::<u64>(), counted);
}
