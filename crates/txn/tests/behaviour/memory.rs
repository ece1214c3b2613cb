//! The memory budget.

use super::*;

fn small(memory: ByteSize) -> Settings {
    Settings { memory, ..settings() }
}

#[test]
fn the_budget_refuses_what_does_not_fit_and_names_the_remedy() {
    let (database, table) = open(small(ByteSize::kib(100)));
    let session = database.session();
    let mut txn = session.begin().unwrap();
    txn.put(table, b"small", b"1").unwrap();
    let error = txn.put(table, b"large", &vec![0; 200_000]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exhausted);
    assert!(matches!(error, Error::MemoryExhausted { budget, .. } if budget == ByteSize::kib(100)));
    assert!(error.to_string().contains("Settings::memory"), "{error}");
    // The refused call had no effect, and the transaction goes on.
    assert_eq!(keys(&mut txn, table, ALL), [b"small"]);
    txn.commit().unwrap().wait().unwrap();

    let mut txn = session.begin().unwrap();
    let full = (0..u32::MAX).find_map(|n| txn.put(table, &n.to_be_bytes(), &[0; 100]).err()).unwrap();
    assert!(matches!(full, Error::MemoryExhausted { .. }));
    drop(txn);
    session.run(|txn| txn.put(table, b"room again", &[0; 1000])).unwrap();
}

#[test]
fn memory_comes_back_when_data_goes() {
    let (database, table) = open(settings());
    let session = database.session();
    let before = database.memory().used;
    let keys: Vec<Vec<u8>> = (0..200_u8).map(|n| vec![n; 1 + usize::from(n)]).collect();
    let long = |key: &Vec<u8>| key.repeat(10);
    session.run(|txn| keys.iter().try_for_each(|key| txn.put(table, key, &long(key)))).unwrap();
    let full = database.memory().used;
    assert!(full.0 > before.0 + 200_000);
    session.run(|txn| keys.iter().try_for_each(|key| txn.put(table, key, b"short"))).unwrap();
    assert!(database.memory().used < full);
    session.run(|txn| keys.iter().try_for_each(|key| txn.delete(table, key).map(drop))).unwrap();
    assert_eq!(database.memory().used, before);
    let spare = database.memory().spare;
    assert!(spare.0 >= 200 * 64, "{spare}");

    session.run(|txn| keys.iter().try_for_each(|key| txn.put(table, key, &long(key)))).unwrap();
    assert_eq!(database.memory().used, full);
    session.run(|txn| txn.drop_table("table")).unwrap();
    assert_eq!(database.memory().used, ByteSize::b(0));
    // But for the record of the table's name.
    assert!(database.memory().spare.0 < 200);
}

#[test]
fn what_is_spare_is_in_the_budget() {
    let (database, table) = open(small(ByteSize::kib(100)));
    let session = database.session();
    let keys: Vec<_> = (0..200_u32).map(u32::to_be_bytes).collect();
    session.run(|txn| keys.iter().try_for_each(|key| txn.put(table, key, b""))).unwrap();
    session.run(|txn| keys.iter().try_for_each(|key| txn.delete(table, key).map(drop))).unwrap();
    let (spare, used) = (database.memory().spare.0, database.memory().used.0);
    let error = session.run(|txn| txn.put(table, b"large", &vec![0; 100 * 1024 - spare as usize])).unwrap_err();
    assert!(matches!(error, Error::MemoryExhausted { used: told, .. } if told.0 >= used + spare), "{error}");
    // New keys take it up again, when the guards are gone of whoever may have seen the old ones.
    let taken_up = (0..300).any(|_| {
        let before = database.memory().spare;
        session.run(|txn| txn.put(table, b"again", b"")).unwrap();
        let taken_up = database.memory().spare < before;
        session.run(|txn| txn.delete(table, b"again").map(drop)).unwrap();
        std::thread::sleep(Duration::from_millis(1));
        taken_up
    });
    assert!(taken_up);
}

#[test]
fn data_that_outgrew_the_budget_is_refused_at_opening() {
    let directory = Arc::new(MemoryDirectory::new());
    let database = Database::open_in(directory.clone(), settings()).unwrap();
    let session = database.session();
    session.run(|txn| txn.create_table("t").and_then(|table| txn.put(table, b"key", &vec![0; 100_000]))).unwrap();
    drop(session);
    database.close().unwrap();
    let error = Database::open_in(directory.clone(), small(ByteSize::kib(50))).unwrap_err();
    assert!(matches!(error, Error::MemoryExhausted { .. }), "{error}");
    Database::open_in(directory, settings()).unwrap();
}

/// Fills the memory with values of that length, in transactions of 500 rows; says how many rows fit.
fn fill(session: &Session, table: TableId, value: &[u8]) -> u32 {
    for batch in (0..u32::MAX).step_by(500) {
        let rows = batch..batch + 500;
        match session.run(|txn| rows.clone().try_for_each(|n| txn.put(table, &n.to_be_bytes(), value))) {
            Ok(()) => {}
            Err(Error::MemoryExhausted { .. }) => return batch,
            Err(error) => panic!("{error}"),
        }
    }
    unreachable!("there is a limit")
}

/// Deletes the first rows, in transactions of 500.
fn delete(session: &Session, table: TableId, rows: u32, is_deleted: impl Fn(u32) -> bool) {
    for batch in (0..rows).step_by(500) {
        let gone = (batch..batch + 500).filter(|n| is_deleted(*n));
        session.run(|txn| gone.clone().try_for_each(|n| txn.delete(table, &n.to_be_bytes()).map(drop))).unwrap();
    }
}

#[test]
fn memory_of_deleted_rows_is_there_for_rows_of_any_other_length() {
    // Locks stay with the records that they were made for, even if those records' memory goes.
    let lengths = match settings().protocol {
        ProtocolKind::Locking => vec![100, 300],
        ProtocolKind::TicToc => vec![100, 300, 16, 2000, 100],
    };
    let (database, table) = open(small(ByteSize::mib(24)));
    let session = database.session();
    for (at, length) in lengths.into_iter().enumerate() {
        let rows = fill(&session, table, &vec![at as u8; length]);
        // The rest is for the keys and the locks of the largest number of rows.
        let memory = database.memory();
        assert!(memory.used.0 > memory.budget.0 / 2, "{rows} rows of {length} bytes, {memory:?}");
        delete(&session, table, rows, |_| true);
        let left = session.run(|txn| count_keys(txn, table)).unwrap();
        assert_eq!(left, 0);
    }
    // Another table may have it, too.
    let other = session.run(|txn| txn.create_table("other")).unwrap();
    assert!(fill(&session, other, &[9; 500]) > 15_000);
}

#[test]
fn spare_records_between_others_are_there_for_shorter_values() {
    let (database, table) = open(small(ByteSize::mib(16)));
    let session = database.session();
    let rows = fill(&session, table, &[1; 300]);
    delete(&session, table, rows, |n| n % 2 == 0);
    let fits = |n: u32| session.run(|txn| txn.put(table, &(2 * n).to_be_bytes(), &[2; 100]));
    let more = (0..rows / 2).find(|&n| fits(n).is_err()).unwrap_or(rows / 2);
    assert!(more > rows * 9 / 20, "{more} of {rows}, {:?}", database.memory());
    assert_eq!(session.run(|txn| count_keys(txn, table)).unwrap() as u32, rows / 2 + more);
}

#[test]
fn a_large_deletion_needs_no_memory_to_be_left() {
    let (database, table) = open(small(ByteSize::mib(8)));
    let session = database.session();
    // Every last byte.
    let rows = fill(&session, table, &[1; 100]);
    let one_more = |n: u64| session.run(|txn| txn.put(table, &n.to_be_bytes(), b"")).is_ok();
    assert!((0..1_000_000).any(|n| !one_more(n)), "there is a limit");
    let before = database.memory();
    let mut txn = session.begin().unwrap();
    for n in 0..rows {
        assert!(txn.delete(table, &n.to_be_bytes()).unwrap());
    }
    let during = database.memory();
    assert!(during.used.0 < 3 * before.used.0, "it is counted, and there is a limit: {during:?}");
    // Nothing else may go beyond the budget meanwhile.
    let refused = database.session().run(|txn| txn.put(table, b"another", &[0; 1000])).unwrap_err();
    assert!(matches!(refused, Error::MemoryExhausted { .. }), "{refused}");
    txn.commit().unwrap().wait().unwrap();
    assert!(database.memory().used.0 < before.used.0 / 4, "{:?}", database.memory());
    session.run(|txn| txn.put(table, b"another", &[0; 1000])).unwrap();
}
