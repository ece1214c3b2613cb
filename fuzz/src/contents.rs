//! A database's contents, to compare what two openings find.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::time::Duration;

use ishigaki_base::ByteSize;
use ishigaki_device::MemoryDirectory;
use ishigaki_txn::{CheckpointSettings, Database, Error, Settings};
use ishigaki_wal::CommitRule;

/// By the tables' names and numbers: damaged names may read alike.
pub type Contents = BTreeMap<(String, String), Rows>;

/// Keys and values.
pub type Rows = Vec<(Vec<u8>, Vec<u8>)>;

/// Opens a database that does nothing but what it is told, in little memory.
pub fn open(directory: &Arc<MemoryDirectory>) -> Result<Database, Error> {
    let settings = Settings {
        log: crate::settings(1, CommitRule::Dependencies),
        memory: ByteSize::mib(16),
        lock_wait: Duration::ZERO,
        checkpoint: CheckpointSettings { automatic: false, ..CheckpointSettings::default() },
        ..Settings::default()
    };
    Database::open_in(directory.clone(), settings)
}

/// All that is in it.
pub fn contents(database: &Database) -> Result<Contents, Error> {
    let mut txn = database.session().begin()?;
    let mut contents = Contents::new();
    for (name, table) in txn.tables()? {
        let mut rows = Rows::new();
        txn.scan(table, (Bound::Unbounded, Bound::Unbounded), |key, value| {
            rows.push((key.to_vec(), value.to_vec()));
            ControlFlow::Continue(())
        })?;
        contents.insert((name, table.to_string()), rows);
    }
    Ok(contents)
}
