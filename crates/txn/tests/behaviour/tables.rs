//! Tables by name and by number.

use super::*;

#[test]
fn tables_come_and_go_with_their_transaction() {
    let (database, old) = open(settings());
    let session = database.session();
    let mut txn = session.begin().unwrap();
    assert_eq!(txn.table("new").unwrap(), None);
    let new = txn.create_table("new").unwrap();
    assert_eq!(txn.table("new").unwrap(), Some(new));
    txn.put(new, b"key", b"").unwrap();
    assert!(matches!(txn.create_table("new"), Err(Error::TableExists { .. })));
    txn.drop_table("table").unwrap();
    assert_eq!(txn.tables().unwrap(), [("new".to_owned(), new)]);
    txn.rollback();

    let mut txn = session.begin().unwrap();
    assert_eq!(txn.tables().unwrap(), [("table".to_owned(), old)]);
    assert!(matches!(txn.get(new, b"key"), Err(Error::NoSuchTable { .. })));
}

#[test]
fn a_dropped_table_is_gone_for_everybody_and_its_number_never_comes_back() {
    let directory = Arc::new(MemoryDirectory::new());
    let database = Database::open_in(directory.clone(), settings()).unwrap();
    let session = database.session();
    let old = session.run(|txn| txn.create_table("table")).unwrap();
    session.run(|txn| txn.put(old, b"key", b"")).unwrap();
    let new = session
        .run(|txn| {
            txn.put(old, b"another", b"")?;
            txn.drop_table("table")?;
            assert!(matches!(txn.get(old, b"key"), Err(Error::NoSuchTable { .. })));
            assert!(matches!(txn.drop_table("table"), Err(Error::NoSuchTable { .. })));
            let new = txn.create_table("table")?;
            txn.put(new, b"other", b"")?;
            Ok::<_, Error>(new)
        })
        .unwrap();
    assert_ne!(old, new);
    let check = |database: &Database| {
        let mut txn = database.session().begin().unwrap();
        assert_eq!(txn.table("table").unwrap(), Some(new));
        assert_eq!(keys(&mut txn, new, ALL), [b"other"]);
        assert!(matches!(txn.put(old, b"key", b""), Err(Error::NoSuchTable { .. })));
    };
    check(&database);
    drop(session);
    database.close().unwrap();
    let database = Database::open_in(directory, settings()).unwrap();
    check(&database);
    let newest = database.session().run(|txn| txn.create_table("newest")).unwrap();
    assert!(newest != old && newest != new);
}

#[test]
fn a_savepoint_undoes_tables_too() {
    let (database, table) = open(settings());
    let mut txn = database.session().begin().unwrap();
    txn.put(table, b"key", b"").unwrap();
    let savepoint = txn.savepoint();
    let made = txn.create_table("made").unwrap();
    txn.put(made, b"key", b"").unwrap();
    txn.drop_table("table").unwrap();
    txn.rollback_to(&savepoint);
    assert!(matches!(txn.get(made, b"key"), Err(Error::NoSuchTable { .. })));
    assert_eq!(keys(&mut txn, table, ALL), [b"key"]);
    txn.commit().unwrap().wait().unwrap();
    let mut txn = database.session().begin().unwrap();
    assert_eq!(txn.tables().unwrap(), [("table".to_owned(), table)]);
    assert_eq!(keys(&mut txn, table, ALL), [b"key"]);
}

#[test]
fn the_system_table_can_not_be_touched_by_number() {
    let (database, _) = open(settings());
    let mut txn = database.session().begin().unwrap();
    assert!(matches!(txn.put(TableId(0), b"table", b""), Err(Error::NoSuchTable { .. })));
    assert!(matches!(txn.get(TableId(99), b"key"), Err(Error::NoSuchTable { .. })));
}
