//! Groups of transactions that hold their locks until they are durable together.

use super::*;

fn normal() -> Settings {
    in_groups_of_four(settings())
}

#[test]
fn a_group_becomes_durable_when_it_is_full() {
    let (database, table) = open(normal());
    let session = database.session();
    let tickets: Vec<Ticket> = (0..4_u8)
        .map(|key| {
            let mut txn = session.begin().unwrap();
            txn.put(table, &[key], b"").unwrap();
            let ticket = txn.commit().unwrap();
            assert_eq!(ticket.is_durable(), key == 3);
            ticket
        })
        .collect();
    assert!(tickets.iter().all(Ticket::is_durable));
}

#[test]
fn a_drop_that_was_taken_back_leaves_the_table_to_others() {
    let (database, table) = open(Settings { lock_wait: Duration::ZERO, ..normal() });
    let session = database.session();
    let mut txn = session.begin().unwrap();
    txn.put(table, b"key", b"").unwrap();
    let savepoint = txn.savepoint();
    txn.drop_table("table").unwrap();
    txn.rollback_to(&savepoint);
    let ticket = txn.commit().unwrap();
    assert!(!ticket.is_durable());
    database.session().run(|txn| txn.put(table, b"other", b"")).unwrap();
    assert!(!ticket.is_durable());
}

#[test]
fn a_commit_meets_no_lock_of_its_own_session() {
    let (database, table) = open(Settings { lock_wait: Duration::ZERO, ..normal() });
    let session = database.session();
    session.run(|txn| txn.put(table, b"key", b"old")).unwrap();
    // It writes before the other one has committed, and commits while that one holds the lock.
    let mut late = session.begin().unwrap();
    late.put(table, b"key", b"late").unwrap();
    let ticket = put(&session, table, b"key");
    assert!(!ticket.is_durable());
    late.commit().unwrap().wait().unwrap();
    assert!(ticket.is_durable());
}

#[test]
fn whoever_waits_for_a_ticket_lets_go_of_the_group() {
    let (database, table) = open(Settings { lock_wait: Duration::ZERO, ..normal() });
    let session = database.session();
    let earlier = put(&session, table, b"earlier");
    put(&session, table, b"key").wait().unwrap();
    assert!(earlier.is_durable());
    let mut txn = database.session().begin().unwrap();
    assert_eq!(keys(&mut txn, table, ALL), [b"earlier".as_slice(), b"key"]);
}

#[test]
fn a_session_that_fell_silent_keeps_nobody_waiting() {
    let (database, table) = open(normal());
    let silent = database.session();
    let mut txn = silent.begin().unwrap();
    txn.put(table, b"key", b"silent").unwrap();
    let ticket = txn.commit().unwrap();
    database.session().run(|txn| txn.put(table, b"key", b"unread")).unwrap();
    assert!(ticket.is_durable());
    let mut txn = silent.begin().unwrap();
    txn.put(table, b"key", b"again").unwrap();
    let ticket = txn.commit().unwrap();
    database.session().run(|txn| txn.drop_table("table")).unwrap();
    assert!(ticket.is_durable());
}

#[test]
fn a_task_that_awaits_its_ticket_lets_go_of_its_locks() {
    let (database, table) = open(Settings { lock_wait: Duration::ZERO, ..normal() });
    let session = database.session();
    let mut txn = session.begin().unwrap();
    txn.put(table, b"key", b"").unwrap();
    let ticket = txn.commit().unwrap();
    let mut durable = std::pin::pin!(ticket.durable());
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    while durable.as_mut().poll(&mut context).is_pending() {
        std::thread::yield_now();
    }
    let mut txn = database.session().begin().unwrap();
    txn.get(table, b"key").unwrap();
}

#[test]
fn a_session_meets_no_lock_of_its_own() {
    let (database, table) = open(Settings { lock_wait: Duration::ZERO, ..normal() });
    let session = database.session();
    let first = put(&session, table, b"key");
    put(&session, table, b"key").wait().unwrap();
    let second = put(&session, table, b"key");
    let mut txn = session.begin().unwrap();
    assert_eq!(keys(&mut txn, table, ALL), [b"key"]);
    let third = put(&session, table, b"other");
    drop(txn);
    session.run(|txn| txn.drop_table("table")).unwrap();
    assert!(first.is_durable() && second.is_durable() && third.is_durable());
}

#[test]
fn a_failed_log_leaves_nobody_waiting() {
    let directory = ishigaki_device::SimDirectory::with_seed(ishigaki_base::random::Seed(1));
    let database = Database::open_in(Arc::new(directory.clone()), normal()).unwrap();
    let session = database.session();
    let table = session.run(|txn| txn.create_table("table")).unwrap();
    let ticket = put(&session, table, b"key");
    let mut reader = database.session().begin().unwrap();
    directory.inject(ishigaki_device::Fault::SyncError { nth: directory.syncs() });
    directory.inject(ishigaki_device::Fault::WriteError { nth: directory.writes() });
    assert!(ticket.wait().is_err());
    let _ = reader.get(table, b"key").unwrap();
    assert!(reader.commit().is_err());
}
