//! What the tests have at hand.

pub(crate) use std::ops::{Bound, ControlFlow};
pub(crate) use std::sync::Arc;
pub(crate) use std::time::Duration;

pub(crate) use ishigaki_base::{ByteSize, ErrorKind};
pub(crate) use ishigaki_device::MemoryDirectory;
pub(crate) use ishigaki_txn::{Database, Error, MAX_KEY, ProtocolKind, Settings, TableId, Transaction};

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
