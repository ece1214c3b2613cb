//! One call after the other.

use super::*;

#[test]
fn what_is_committed_is_read_by_others() {
    let (database, table) = open(settings());
    let mut txn = database.session().begin().unwrap();
    txn.put(table, b"key", b"value").unwrap();
    txn.commit().unwrap().wait().unwrap();
    let mut other = database.session().begin().unwrap();
    assert_eq!(other.get(table, b"key").unwrap().as_deref(), Some(b"value".as_slice()));
    assert_eq!(other.get_with(table, b"key", <[u8]>::len).unwrap(), Some(5));
    assert_eq!(other.get(table, b"other").unwrap(), None);
}

#[test]
fn a_transaction_sees_its_own_writes() {
    let (database, table) = open(settings());
    database.session().run(|txn| txn.put(table, b"b", b"old")).unwrap();
    let mut txn = database.session().begin().unwrap();
    txn.put(table, b"a", b"1").unwrap();
    txn.put(table, b"b", b"new").unwrap();
    txn.insert(table, b"c", b"3").unwrap();
    assert!(txn.delete(table, b"a").unwrap());
    assert!(!txn.delete(table, b"a").unwrap());
    assert_eq!(txn.get(table, b"a").unwrap(), None);
    assert_eq!(txn.get(table, b"b").unwrap().as_deref(), Some(b"new".as_slice()));
    assert_eq!(keys(&mut txn, table, ALL), [b"b", b"c"]);
}

#[test]
fn a_rollback_and_a_drop_leave_nothing_behind() {
    let (database, table) = open(settings());
    let session = database.session();
    session.run(|txn| txn.put(table, b"kept", b"old")).unwrap();
    let mut txn = session.begin().unwrap();
    txn.put(table, b"kept", b"new").unwrap();
    txn.put(table, b"new", b"").unwrap();
    txn.rollback();
    let mut txn = session.begin().unwrap();
    txn.delete(table, b"kept").unwrap();
    drop(txn);
    let mut txn = session.begin().unwrap();
    assert_eq!(txn.get(table, b"kept").unwrap().as_deref(), Some(b"old".as_slice()));
    assert_eq!(keys(&mut txn, table, ALL), [b"kept"]);
}

#[test]
fn inserting_a_key_that_is_there_changes_nothing() {
    let (database, table) = open(settings());
    database.session().run(|txn| txn.put(table, b"key", b"old")).unwrap();
    let mut txn = database.session().begin().unwrap();
    let error = txn.insert(table, b"key", b"new").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(matches!(error, Error::DuplicateKey { table: of, key } if of == table && key == b"key"));
    txn.insert(table, b"own", b"1").unwrap();
    assert!(matches!(txn.insert(table, b"own", b"2"), Err(Error::DuplicateKey { .. })));
    txn.delete(table, b"key").unwrap();
    txn.insert(table, b"key", b"again").unwrap();
    txn.commit().unwrap().wait().unwrap();
    let mut txn = database.session().begin().unwrap();
    assert_eq!(txn.get(table, b"key").unwrap().as_deref(), Some(b"again".as_slice()));
    assert_eq!(txn.get(table, b"own").unwrap().as_deref(), Some(b"1".as_slice()));
}

#[test]
#[should_panic(expected = "belongs to the transaction")]
fn a_savepoint_of_another_transaction_is_refused() {
    let (database, _) = open(settings());
    let savepoint = database.session().begin().unwrap().savepoint();
    database.session().begin().unwrap().rollback_to(&savepoint);
}

#[test]
fn a_scan_keeps_to_its_bounds_and_to_the_order_of_bytes() {
    let (database, table) = open(settings());
    let all: [&[u8]; 5] = [b"", b"a", b"a\x00", b"ab", b"b"];
    database.session().run(|txn| all.iter().try_for_each(|key| txn.put(table, key, b""))).unwrap();
    let mut txn = database.session().begin().unwrap();
    assert_eq!(keys(&mut txn, table, ALL), all);
    let a: &[u8] = b"a";
    assert_eq!(keys(&mut txn, table, (Bound::Included(a), Bound::Excluded(b"b"))), all[1..4]);
    assert_eq!(keys(&mut txn, table, (Bound::Excluded(a), Bound::Included(b"b"))), all[2..]);
    assert_eq!(keys(&mut txn, table, (Bound::Included(a), Bound::Included(a))), all[1..2]);
    assert!(keys(&mut txn, table, (Bound::Excluded(a), Bound::Excluded(a))).is_empty());
    assert!(keys(&mut txn, table, (Bound::Included(b"b"), Bound::Included(a))).is_empty());
}

#[test]
fn a_long_table_is_scanned_in_pages_and_in_one_go() {
    let (database, table) = open(settings());
    let session = database.session();
    let numbers: Vec<Vec<u8>> = (0..5000_u32).map(|number| number.to_be_bytes().to_vec()).collect();
    session.run(|txn| numbers.iter().try_for_each(|key| txn.insert(table, key, key))).unwrap();
    let mut txn = session.begin().unwrap();
    assert_eq!(keys(&mut txn, table, ALL), numbers);

    let mut paged: Vec<Vec<u8>> = Vec::new();
    loop {
        let last = paged.last().cloned();
        let start = last.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let mut page = 0;
        txn.scan(table, (start, Bound::Unbounded), |key, value| {
            assert_eq!(key, value);
            paged.push(key.to_vec());
            page += 1;
            if page == 700 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
        .unwrap();
        if page < 700 {
            break;
        }
    }
    assert_eq!(paged, numbers);
}

#[test]
fn keys_of_any_bytes_up_to_the_limit_are_stored() {
    let (database, table) = open(settings());
    let session = database.session();
    let longest = vec![0xff; MAX_KEY];
    session.run(|txn| txn.put(table, &longest, b"").and_then(|()| txn.put(table, b"", b"empty"))).unwrap();
    let mut txn = session.begin().unwrap();
    assert_eq!(keys(&mut txn, table, ALL), [b"".to_vec(), longest.clone()]);
    let too_long = [longest, vec![0]].concat();
    assert!(matches!(txn.put(table, &too_long, b""), Err(Error::KeyTooLong { .. })));
    assert_eq!(txn.get(table, &too_long).unwrap(), None);
    assert_eq!(txn.get(table, b"").unwrap().as_deref(), Some(b"empty".as_slice()));
}

#[test]
fn a_value_larger_than_a_segment_of_the_log_comes_back_after_reopening() {
    let directory = Arc::new(MemoryDirectory::new());
    let value: Vec<u8> = (0..1_000_000_u32).map(|n| (n % 251) as u8).collect();
    let database = Database::open_in(directory.clone(), settings()).unwrap();
    let session = database.session();
    session.run(|txn| txn.create_table("t").and_then(|table| txn.put(table, b"big", &value))).unwrap();
    drop(session);
    database.close().unwrap();
    let database = Database::open_in(directory, settings()).unwrap();
    let mut txn = database.session().begin().unwrap();
    let table = txn.table("t").unwrap().unwrap();
    assert!(txn.get(table, b"big").unwrap().as_ref() == Some(&value));
}

#[test]
fn everything_may_move_between_threads() {
    fn shared<T: Send + Sync + Clone + 'static>() {}
    fn owned<T: Send + 'static>() {}
    shared::<Database>();
    shared::<ishigaki_txn::Session>();
    owned::<Transaction>();
    owned::<ishigaki_txn::Ticket>();
    shared::<Error>();
}
