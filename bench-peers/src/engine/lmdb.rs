//! LMDB (through `heed`): one writer at a time, fully synchronous.
//!
//! No flag that trades durability is set. A commit writes the changed pages, syncs them, and writes the meta page
//! through a descriptor opened with `O_DSYNC`; writers wait for each other inside LMDB. For ten updates there is the
//! writable map (`MDB_WRITEMAP`, with synchronous `msync`), which its documentation says may be faster where all fits into
//! memory: it was, by a tenth. For one update it was not.

#![allow(unsafe_code)]

use std::path::Path;

use anyhow::Result;
use heed::types::Bytes;
use heed::{CommitOrAbort, Database, Env, EnvFlags, EnvOpenOptions};
use ishigaki_bench::pace::Run;

use super::{Engine, Side, Store};
use crate::drive::{self, Plan};
use crate::workload::{self, History, Row, Workload, key_of};

/// Bytes that the map may grow to.
const MAP: usize = 1 << 30;

/// LMDB.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lmdb;

fn open(directory: &Path, workload: Workload) -> Result<Env> {
    let flags = match workload {
        Workload::One => EnvFlags::empty(),
        Workload::Ten => EnvFlags::WRITE_MAP,
    };
    // SAFETY: the directory is fresh and known to this process only; nobody else changes the file under the map, LMDB's
    // own locks are on, and no flag turns its syncs off.
    Ok(unsafe { EnvOpenOptions::new().map_size(MAP).flags(flags).open(directory)? })
}

impl Engine for Lmdb {
    fn name(&self) -> String {
        "lmdb".to_owned()
    }

    fn side(&self) -> Side {
        Side::Rival
    }

    fn version(&self) -> String {
        let heed::LmdbVersion { major, minor, patch, .. } = heed::lmdb_version();
        format!("{major}.{minor}.{patch} (heed {})", env!("PEERS_HEED"))
    }

    fn settings(&self) -> String {
        "synchronous data and meta pages, writable map for ten updates".to_owned()
    }

    fn create(&self, directory: &Path, plan: &Plan) -> Result<Box<dyn Store>> {
        let env = open(directory, plan.workload)?;
        let rows: Vec<Row> = workload::loaded(plan.seed).collect();
        let open = Open { env };
        open.with_rows(|env, table| update(env, table, &rows))?;
        Ok(Box::new(open))
    }

    fn check(&self, directory: &Path, history: &History) -> Result<Result<(), String>> {
        let open = Open { env: open(directory, history.workload)? };
        let compared = open.with_rows(|env, table| {
            let transaction = env.read_txn()?;
            history.compare(|see| {
                for row in table.iter(&transaction)? {
                    let (key, value) = row?;
                    see(key_of(key), value);
                }
                Ok(())
            })
        });
        open.close_env();
        compared
    }
}

type Table<'e> = Database<'e, Bytes, Bytes>;

struct Open {
    env: Env,
}

impl Open {
    fn with_rows<T>(&self, with: impl FnOnce(&Env, Table<'_>) -> Result<T>) -> Result<T> {
        let transaction = self.env.write_txn()?;
        let table = self
            .env
            .create_databases_and_commit(transaction, |opener, transaction| {
                opener.create_database::<Bytes, Bytes>(transaction, None).map(CommitOrAbort::<_, ()>::Commit)
            })?
            .unwrap_commit();
        with(&self.env, table)
    }

    fn close_env(self) {
        self.env.prepare_for_closing().wait();
    }
}

fn update(env: &Env, table: Table<'_>, rows: &[Row]) -> Result<()> {
    let mut transaction = env.write_txn()?;
    for row in rows {
        table.put(&mut transaction, &row.key_bytes(), &row.value)?;
    }
    Ok(transaction.commit()?)
}

impl Store for Open {
    fn drive(&self, plan: &Plan) -> Result<Run> {
        self.with_rows(|env, table| drive::threads(plan, |_| Ok(move |rows: &[Row]| update(env, table, rows))))
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.close_env();
        Ok(())
    }
}
