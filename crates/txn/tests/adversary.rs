//! Attacks on what the crate promises: schedules and settings that broke it once.

use std::ops::{Bound, ControlFlow};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ishigaki_base::{ByteSize, ErrorKind};
use ishigaki_device::MemoryDirectory;
use ishigaki_txn::{ConflictReason, Database, Error, ProtocolKind, Settings, TableId, Transaction};
use ishigaki_wal::Log;

const ALL: (Bound<&[u8]>, Bound<&[u8]>) = (Bound::Unbounded, Bound::Unbounded);

fn under(protocol: ProtocolKind) -> Settings {
    let log = ishigaki_wal::Settings { streams: 2, segment: ByteSize::mib(1), background: false, ..Default::default() };
    Settings { log, protocol, ..Settings::default() }
}

/// The default of the attacks that do not say more.
fn settings() -> Settings {
    under(ProtocolKind::Locking)
}

/// Every protocol.
const PROTOCOLS: [ProtocolKind; 2] = [ProtocolKind::Locking, ProtocolKind::TicToc];

fn open(settings: Settings) -> (Database, TableId) {
    let database = Database::open_in(Arc::new(MemoryDirectory::new()), settings).unwrap();
    let table = database.session().run(|txn| txn.create_table("table")).unwrap();
    (database, table)
}

fn count(txn: &mut Transaction, table: TableId, range: (Bound<&[u8]>, Bound<&[u8]>)) -> Result<usize, Error> {
    let mut count = 0;
    txn.scan(table, range, |_, _| {
        count += 1;
        ControlFlow::Continue(())
    })?;
    Ok(count)
}

/// The first leaf of the index is empty for a moment after its last key was deleted; nothing behind it may get lost.
#[test]
fn a_scan_does_not_lose_a_table_whose_first_keys_are_deleted() {
    for protocol in PROTOCOLS {
        let (database, table) = open(under(protocol));
        let session = database.session();
        session.run(|txn| (0..40_u8).try_for_each(|n| txn.put(table, &[b'm', n], b""))).unwrap();
        let stop = AtomicBool::new(false);
        let (mut scans, mut short) = (0_u64, 0_u64);
        std::thread::scope(|scope| {
            let (writer, stop) = (database.session(), &stop);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    writer.run(|txn| (0..90_u8).try_for_each(|n| txn.put(table, &[b'a', n], b""))).unwrap();
                    writer.run(|txn| (0..90_u8).try_for_each(|n| txn.delete(table, &[b'a', n]).map(drop))).unwrap();
                }
            });
            let end = Instant::now() + Duration::from_secs(1);
            while Instant::now() < end {
                let mut txn = session.begin().unwrap();
                let Ok(seen) = count(&mut txn, table, ALL) else { continue };
                scans += 1;
                short += u64::from(seen < 40);
            }
            stop.store(true, Ordering::Relaxed);
        });
        assert_eq!(short, 0, "scans out of {scans} missed keys that nobody touched");
    }
}

#[test]
fn who_found_a_table_gone_waits_until_its_drop_is_durable() {
    for protocol in PROTOCOLS {
        let (database, table) = open(under(protocol));
        let mut dropper = database.session().begin().unwrap();
        dropper.drop_table("table").unwrap();
        let gone = dropper.commit().unwrap();
        let mut reader = database.session().begin().unwrap();
        assert!(matches!(reader.get(table, b"key"), Err(Error::NoSuchTable { .. })));
        let ticket = reader.commit().unwrap();
        assert_eq!(ticket.is_durable(), gone.is_durable(), "the table comes back after a crash");
    }
}

/// As above, by the other way in: the table was entered before it was dropped.
#[test]
fn a_drop_of_another_table_than_the_named_one_is_refused_at_opening() {
    let directory = Arc::new(MemoryDirectory::new());
    let (log, _) = Log::open(directory.clone(), settings().log, &mut |_, _| Ok(())).unwrap();
    let stream = log.assign();
    // Create 1 "a" and 2 "b"; then drop 2 under the name "a".
    stream.append(&[1, 1, 1, 1, b'a', 1, 2, 1, b'b']).unwrap();
    stream.append(&[1, 2, 2, 1, b'a']).unwrap();
    log.close().unwrap();
    drop((stream, log));
    let error = Database::open_in(directory, settings()).map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
}

#[test]
fn patience_without_end_is_a_setting_too() {
    let (database, table) = open(Settings { lock_wait: Duration::MAX, ..settings() });
    let mut older = database.session().begin().unwrap();
    let mut younger = database.session().begin().unwrap();
    younger.put(table, b"key", b"").unwrap();
    let waiter = std::thread::spawn(move || older.get(table, b"key").map(|value| value.is_some()));
    std::thread::sleep(Duration::from_millis(50));
    younger.commit().unwrap().wait().unwrap();
    assert!(waiter.join().expect("no panic").unwrap());
}

#[test]
fn who_waited_for_a_drop_waits_until_it_is_durable() {
    let (database, table) = open(settings());
    let mut reader = database.session().begin().unwrap();
    let mut dropper = database.session().begin().unwrap();
    dropper.drop_table("table").unwrap();
    let reader = std::thread::spawn(move || {
        assert!(matches!(reader.get(table, b"key"), Err(Error::NoSuchTable { .. })));
        reader.commit().unwrap()
    });
    std::thread::sleep(Duration::from_millis(50));
    let gone = dropper.commit().unwrap();
    let ticket = reader.join().unwrap();
    assert_eq!(ticket.is_durable(), gone.is_durable());
}

#[test]
fn the_oldest_writer_gets_its_turn_among_scans_that_overlap() {
    const ROWS: u32 = 200_000;
    let (database, table) = open(Settings { lock_wait: Duration::from_secs(5), ..settings() });
    database.session().run(|txn| (0..ROWS).try_for_each(|n| txn.put(table, &n.to_be_bytes(), b""))).unwrap();
    let (stop, scans) = (AtomicBool::new(false), AtomicU64::new(0));
    let outcome = std::thread::scope(|scope| {
        for _ in 0..16 {
            let (session, stop, scans) = (database.session(), &stop, &scans);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    // One attempt at a time, so that the test ends soon.
                    let _ = session.begin().and_then(|mut txn| count(&mut txn, table, ALL));
                    scans.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        while scans.load(Ordering::Relaxed) < 16 {
            std::thread::yield_now();
        }
        let mut writer = database.session().begin().unwrap();
        let outcome = loop {
            match writer.put(table, &(ROWS - 1).to_be_bytes(), b"new") {
                Err(Error::Conflict { reason: ConflictReason::OlderInTheWay }) => {
                    writer = database.session().begin_with_age(writer.age()).unwrap();
                }
                outcome => break outcome,
            }
        };
        stop.store(true, Ordering::Relaxed);
        outcome
    });
    outcome.unwrap();
}

#[test]
fn a_scan_whose_visitor_panicked_keeps_its_range() {
    let (database, table) = open(Settings { lock_wait: Duration::ZERO, ..settings() });
    database.session().run(|txn| txn.put(table, b"b", b"")).unwrap();
    let mut reader = database.session().begin().unwrap();
    let scan = AssertUnwindSafe(|| reader.scan(table, ALL, |_, _| panic!("the visitor's own")));
    assert!(catch_unwind(scan).is_err());
    assert_eq!(reader.get(table, b"z").unwrap(), None);
    let mut writer = database.session().begin().unwrap();
    assert!(writer.put(table, b"a", b"").is_err(), "the scan may have seen that there is no such key");
}

/// As above where nothing is locked: what the visitor may have seen counts as read.
#[test]
fn a_scan_whose_visitor_panicked_is_validated() {
    let (database, table) = open(under(ProtocolKind::TicToc));
    database.session().run(|txn| txn.put(table, b"b", b"")).unwrap();
    let mut reader = database.session().begin().unwrap();
    let scan = AssertUnwindSafe(|| reader.scan(table, ALL, |_, _| panic!("the visitor's own")));
    assert!(catch_unwind(scan).is_err());
    database.session().run(|txn| txn.put(table, b"a", b"")).unwrap();
    assert!(reader.commit().is_err(), "the scan may have seen that there is no such key");
}
