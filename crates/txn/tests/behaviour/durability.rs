//! Tickets, the directory's lock, closing, and what opening reports.

use ishigaki_base::random::Seed;
use ishigaki_base::{Generation, Lsn};
use ishigaki_device::{SimDirectory, SimSettings};

use super::*;

#[test]
fn a_ticket_is_durable_after_its_wait_and_not_before() {
    let (database, table) = open(settings());
    let mut txn = database.session().begin().unwrap();
    txn.put(table, b"key", b"").unwrap();
    let ticket = txn.commit().unwrap();
    let lsn = ticket.lsn();
    assert!(!ticket.is_durable() && database.log().watermark() < lsn);
    ticket.wait().unwrap();
    assert!(database.log().watermark() >= lsn);
}

#[test]
fn who_only_reads_waits_until_what_was_read_is_durable() {
    type Read = fn(&mut Transaction, TableId);
    let reads: [(&str, Read); 6] = [
        ("a value", |txn, table| drop(txn.get(table, b"put").unwrap())),
        ("a scanned value", |txn, table| drop(keys(txn, table, (Bound::Included(b"put"), Bound::Unbounded)))),
        ("an absence", |txn, table| assert_eq!(txn.get(table, b"deleted").unwrap(), None)),
        ("a scanned absence", |txn, table| {
            assert!(keys(txn, table, (Bound::Included(b"deleted"), Bound::Excluded(b"e"))).is_empty());
        }),
        ("a duplicate", |txn, table| assert!(txn.insert(table, b"put", b"").is_err())),
        ("a deletion of nothing", |txn, table| assert!(!txn.delete(table, b"deleted").unwrap())),
    ];
    for (name, read) in reads {
        let (database, table) = open(settings());
        database.session().run(|txn| txn.put(table, b"deleted", b"")).unwrap();
        let mut writer = database.session().begin().unwrap();
        writer.put(table, b"put", b"").unwrap();
        writer.delete(table, b"deleted").unwrap();
        let written = writer.commit().unwrap();

        let drawn = database.log().last_drawn();
        let mut reader = database.session().begin().unwrap();
        read(&mut reader, table);
        let ticket = reader.commit().unwrap();
        assert_eq!(ticket.lsn(), written.lsn(), "{name}");
        assert_eq!(database.log().last_drawn(), drawn, "{name}: reading draws no LSN");
        assert!(!ticket.is_durable(), "{name}");
        ticket.wait().unwrap();
        assert!(written.is_durable(), "{name}");
    }
}

#[test]
fn who_uses_a_table_by_its_number_waits_for_its_creation() {
    type Use = fn(&mut Transaction, TableId);
    let uses: [(&str, Use); 3] = [
        ("a write", |txn, table| txn.put(table, b"key", b"").unwrap()),
        ("a read", |txn, table| assert_eq!(txn.get(table, b"key").unwrap(), None)),
        ("a scan", |txn, table| assert!(keys(txn, table, ALL).is_empty())),
    ];
    for (name, used) in uses {
        let (database, _) = open(settings());
        let mut maker = database.session().begin().unwrap();
        let table = maker.create_table("made").unwrap();
        let created = maker.commit().unwrap();
        let mut txn = database.session().begin().unwrap();
        used(&mut txn, table);
        let ticket = txn.commit().unwrap();
        assert!(!created.is_durable(), "{name}");
        ticket.wait().unwrap();
        assert!(created.is_durable(), "{name}");
    }
}

#[test]
fn who_deletes_what_he_overwrote_unread_waits_for_what_he_deleted() {
    let (database, table) = open(settings());
    let mut first = database.session().begin().unwrap();
    first.put(table, b"key", b"first").unwrap();
    let written = first.commit().unwrap();
    let mut second = database.session().begin().unwrap();
    second.put(table, b"key", b"second").unwrap();
    assert!(second.delete(table, b"key").unwrap());
    second.commit().unwrap().wait().unwrap();
    assert!(written.is_durable(), "the deletion would be of nothing");
}

#[test]
fn who_leaves_out_a_deletion_of_nothing_waits_for_whoever_deleted_it() {
    let (database, table) = open(settings());
    database.session().run(|txn| txn.put(table, b"key", b"old")).unwrap();
    let mut first = database.session().begin().unwrap();
    assert!(first.delete(table, b"key").unwrap());
    let deleted = first.commit().unwrap();
    let mut second = database.session().begin().unwrap();
    second.put(table, b"key", b"second").unwrap();
    assert!(second.delete(table, b"key").unwrap());
    second.commit().unwrap().wait().unwrap();
    assert!(deleted.is_durable(), "a crash would bring the old value back");
}

#[test]
fn who_read_nothing_waits_for_nothing() {
    let (database, table) = open(settings());
    let mut writer = database.session().begin().unwrap();
    writer.put(table, b"key", b"").unwrap();
    let written = writer.commit().unwrap();
    let ticket = database.session().begin().unwrap().commit().unwrap();
    assert_eq!(ticket.lsn(), Lsn::ZERO);
    assert!(ticket.is_durable());
    ticket.wait().unwrap();
    assert!(!written.is_durable());
}

#[test]
fn run_returns_when_its_transaction_is_durable() {
    let (database, table) = open(settings());
    database.session().run(|txn| txn.put(table, b"key", b"")).unwrap();
    assert_eq!(database.log().watermark(), database.log().last_drawn());
}

#[test]
fn a_directory_is_open_once() {
    let directory = Arc::new(MemoryDirectory::new());
    let database = Database::open_in(directory.clone(), settings()).unwrap();
    let error = Database::open_in(directory.clone(), settings()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("in use"), "{error}");
    let session = database.session();
    drop(database);
    assert!(Database::open_in(directory.clone(), settings()).is_err(), "a session keeps the database open");
    drop(session);
    Database::open_in(directory, settings()).unwrap();
}

#[test]
fn a_directory_of_the_file_system_is_open_once_too() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(directory.path(), settings()).unwrap();
    database.session().run(|txn| txn.create_table("t")).unwrap();
    let error = Database::open(directory.path(), settings()).unwrap_err();
    assert!(error.to_string().contains("in use"), "{error}");
    database.close().unwrap();
    let database = Database::open(directory.path(), settings()).unwrap();
    assert_eq!(database.recovery().tables, 1);
}

#[test]
fn after_closing_nothing_begins_and_nothing_commits() {
    let directory = Arc::new(MemoryDirectory::new());
    let database = Database::open_in(directory.clone(), settings()).unwrap();
    let session = database.session();
    let table = session.run(|txn| txn.create_table("t")).unwrap();
    let mut late = session.begin().unwrap();
    late.put(table, b"late", b"").unwrap();
    let reader = session.begin().unwrap();
    let mut early = session.begin().unwrap();
    early.put(table, b"early", b"").unwrap();
    let ticket = early.commit().unwrap();
    database.close().unwrap();
    assert!(ticket.is_durable(), "closing makes durable what was committed");
    assert!(matches!(late.commit(), Err(Error::Log(ishigaki_wal::Error::Closed))));
    assert!(matches!(reader.commit(), Err(Error::Log(ishigaki_wal::Error::Closed))));
    assert_eq!(session.begin().unwrap_err().kind(), ErrorKind::Closed);

    let database = Database::open_in(directory, settings()).unwrap();
    let mut txn = database.session().begin().unwrap();
    assert_eq!(keys(&mut txn, table, ALL), [b"early"]);
}

#[test]
fn opening_reports_what_it_found() {
    let directory = SimDirectory::with_seed(Seed(1));
    let database = Database::open_in(Arc::new(directory.clone()), settings()).unwrap();
    assert_eq!(database.recovery().log.cut, Lsn::ZERO);
    let session = database.session();
    let table = session.run(|txn| txn.create_table("t")).unwrap();
    session.run(|txn| txn.put(table, b"key", b"")).unwrap();
    let database = Database::open_in(Arc::new(directory.process_crash()), settings()).unwrap();
    let recovery = database.recovery();
    assert_eq!((recovery.tables, recovery.log.records, recovery.log.cut), (1, 2, Lsn(2)));
    assert_eq!(recovery.log.generation, Generation(2));
    assert!(!recovery.log.clean);
}

#[test]
fn a_full_medium_refuses_commits_cleanly() {
    let capacity = Some(ByteSize::kib(300));
    let directory = SimDirectory::new(SimSettings { capacity, ..SimSettings::default() });
    let database = Database::open_in(Arc::new(directory.clone()), impatient()).unwrap();
    let session = database.session();
    let table = session.run(|txn| txn.create_table("t")).unwrap();
    let mut stored = 0_u32;
    let error = loop {
        let put = session.run(|txn| txn.put(table, &stored.to_be_bytes(), &[7; 2000]));
        match put {
            Ok(()) => stored += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::Exhausted, "{error}");
    assert!(stored > 10);
    // Everything can still be read, nothing is locked, and the refused transaction left no trace.
    let count = |database: &Database| keys(&mut database.session().begin().unwrap(), table, ALL).len();
    assert_eq!(count(&database), stored as usize);
    let used = database.memory().used;
    assert!(session.run(|txn| txn.put(table, b"again", &[7; 2000])).is_err());
    assert_eq!(database.memory().used, used);
    let database = Database::open_in(Arc::new(directory.process_crash()), settings()).unwrap();
    assert_eq!(count(&database), stored as usize);
}
