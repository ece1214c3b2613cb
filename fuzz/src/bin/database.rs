//! A database over redo records that somebody else has written: each input is a row of records (length in 2 bytes, bytes),
//! appended to a sound log.
//!
//! What was opened can be changed, closed and opened again, and then has the same in it.

#![no_main]

use std::sync::Arc;

use ishigaki_device::MemoryDirectory;
use ishigaki_fuzz::contents::{contents, open};
use ishigaki_fuzz::input::Input;
use ishigaki_fuzz::seeds::plant;
use ishigaki_fuzz::settings;
use ishigaki_txn::Error;
use ishigaki_wal::{CommitRule, Log};
use libfuzzer_sys::fuzz_target;

fn accepts(bytes: &[u8]) -> bool {
    let directory = Arc::new(MemoryDirectory::new());
    let (log, _) =
        Log::open(directory.clone(), settings(1, CommitRule::Dependencies), &mut |_, _| Ok(())).expect("a new log");
    let stream = log.assign();
    let mut input = Input(bytes);
    while !input.is_empty() {
        let length = input.short();
        stream.append(input.run(length.into())).expect("memory never fails");
    }
    log.close().expect("memory never fails");

    let Ok(database) = open(&directory) else { return false };
    let Ok(mut before) = contents(&database) else { return false };
    let mut txn = database.session().begin().expect("open");
    match txn.create_table("one more") {
        Ok(table) => {
            txn.put(table, b"key", b"value").expect("its own table");
            txn.commit().expect("nobody else").wait().expect("memory never fails");
            let row = (b"key".to_vec(), b"value".to_vec());
            before.insert(("one more".to_owned(), table.to_string()), vec![row]);
        }
        Err(Error::TableExists { .. } | Error::TooManyTables) => txn.rollback(),
        Err(error) => panic!("{error}"),
    }
    database.close().expect("memory never fails");
    let database = open(&directory).expect("it was closed");
    assert_eq!(contents(&database).expect("nobody else"), before);
    true
}

/// What a database itself has logged.
fn seeds() -> Vec<Vec<u8>> {
    let directory = Arc::new(MemoryDirectory::new());
    let database = open(&directory).expect("a new one");
    let session = database.session();
    for number in 0..3_u8 {
        let mut txn = session.begin().expect("open");
        let table = txn.create_table(&format!("table {number}")).expect("a new one");
        for key in 0..number {
            txn.put(table, &[key], &[number; 40]).expect("nobody else");
        }
        txn.commit().expect("nobody else").wait().expect("memory never fails");
    }
    let mut txn = session.begin().expect("open");
    txn.drop_table("table 1").expect("it is there");
    let table = txn.table("table 2").expect("nobody else").expect("it is there");
    assert!(txn.delete(table, &[1]).expect("nobody else"));
    txn.commit().expect("nobody else").wait().expect("memory never fails");
    drop(session);
    database.close().expect("memory never fails");
    let mut seeds = vec![Vec::new()];
    let mut replay = |_, payload: &[u8]| {
        let before = seeds.last().expect("there is one from the beginning");
        seeds.push([before, &(payload.len() as u16).to_le_bytes()[..], payload].concat());
        Ok(())
    };
    Log::open(directory, settings(1, CommitRule::Dependencies), &mut replay).expect("it was closed");
    seeds
}

fuzz_target!(init: plant(&seeds(), accepts), |bytes: &[u8]| {
    accepts(bytes);
});
