//! What the tests have at hand.

pub(crate) use std::ops::{Bound, ControlFlow};
pub(crate) use std::sync::Arc;
pub(crate) use std::time::Duration;

pub(crate) use ishigaki_base::{ByteSize, ErrorKind};
pub(crate) use ishigaki_device::MemoryDirectory;
pub(crate) use ishigaki_txn::{
    Database, Error, MAX_KEY, ProtocolKind, Release, Session, Settings, Snapshot, TableId, Ticket, Transaction,
};

/// All keys.
pub(crate) const ALL: (Bound<&[u8]>, Bound<&[u8]>) = (Bound::Unbounded, Bound::Unbounded);

/// Settings that open in no time and start no thread.
pub(crate) fn under(protocol: ProtocolKind) -> Settings {
    let log =
        ishigaki_wal::Settings { streams: 2, segment: ByteSize::kib(64), background: false, ..Default::default() };
    Settings { log, protocol, ..Settings::default() }
}

pub(crate) fn open(settings: Settings) -> (Database, TableId) {
    let database = Database::open_in(Arc::new(MemoryDirectory::new()), settings).unwrap();
    let table = database.session().run(|txn| txn.create_table("table")).unwrap();
    (database, table)
}

pub(crate) fn keys(txn: &mut Transaction, table: TableId, range: (Bound<&[u8]>, Bound<&[u8]>)) -> Vec<Vec<u8>> {
    let mut keys = Vec::new();
    txn.scan(table, range, |key, _| {
        keys.push(key.to_vec());
        ControlFlow::Continue(())
    })
    .unwrap();
    keys
}

pub(crate) fn count_keys(txn: &mut Transaction, table: TableId) -> Result<usize, Error> {
    let mut count = 0;
    txn.scan(table, ALL, |_, _| {
        count += 1;
        ControlFlow::Continue(())
    })?;
    Ok(count)
}

/// The same with locks that are let go of when a group of four transactions is durable.
pub(crate) fn in_groups_of_four(settings: Settings) -> Settings {
    let group = ishigaki_wal::Group { transactions: 4, ..Default::default() };
    Settings { log: ishigaki_wal::Settings { group, ..settings.log }, release: Release::Normal, ..settings }
}

/// Stores a value in a transaction of its own.
pub(crate) fn put(session: &Session, table: TableId, key: &[u8]) -> Ticket {
    let mut txn = session.begin().unwrap();
    txn.put(table, key, b"new").unwrap();
    txn.commit().unwrap()
}

/// Makes `old` 1,000 bytes long, and changes more that does not last.
pub(crate) fn write_and_take_back(txn: &mut Transaction, table: TableId) {
    txn.put(table, b"old", &[2; 1000]).unwrap();
    let savepoint = txn.savepoint();
    txn.put(table, b"old", &[3; 10_000]).unwrap();
    txn.put(table, b"new", &[3; 10_000]).unwrap();
    txn.delete(table, b"old").unwrap();
    txn.rollback_to(&savepoint);
    txn.insert(table, b"newer", &[4; 100]).unwrap();
    txn.delete(table, b"newer").unwrap();
}
