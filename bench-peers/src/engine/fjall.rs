//! fjall: write batches with `PersistMode::SyncData`.
//!
//! Its documentation names `SyncData` (`fdatasync`) for transactions that must survive; a batch with a durability level
//! writes and syncs the journal under one lock. It has no group commit. Everything else is its default: 64 MiB journals
//! whose size is set at once, 64 MiB memtables.

use std::path::Path;

use anyhow::Result;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use ishigaki_bench::pace::Run;

use super::{Engine, Side, Store};
use crate::drive::{self, Plan};
use crate::workload::{self, History, Row, key_of};

/// fjall.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fjall;

fn open(directory: &Path) -> Result<Open> {
    let database = Database::builder(directory).open()?;
    let rows = database.keyspace("rows", KeyspaceCreateOptions::default)?;
    Ok(Open { database, rows })
}

impl Engine for Fjall {
    fn name(&self) -> String {
        "fjall".to_owned()
    }

    fn side(&self) -> Side {
        Side::Rival
    }

    fn version(&self) -> String {
        env!("PEERS_FJALL").to_owned()
    }

    fn settings(&self) -> String {
        "batches with SyncData".to_owned()
    }

    fn create(&self, directory: &Path, plan: &Plan) -> Result<Box<dyn Store>> {
        let open = open(directory)?;
        let rows: Vec<Row> = workload::loaded(plan.seed).collect();
        open.update(&rows)?;
        Ok(Box::new(open))
    }

    fn check(&self, directory: &Path, history: &History) -> Result<Result<(), String>> {
        let open = open(directory)?;
        history.compare(|see| {
            for row in open.rows.iter() {
                let (key, value) = row.into_inner()?;
                see(key_of(&key), &value);
            }
            Ok(())
        })
    }
}

struct Open {
    database: Database,
    rows: Keyspace,
}

impl Open {
    fn update(&self, rows: &[Row]) -> Result<()> {
        let mut batch = self.database.batch().durability(Some(PersistMode::SyncData));
        for row in rows {
            batch.insert(&self.rows, row.key_bytes(), row.value);
        }
        Ok(batch.commit()?)
    }
}

impl Store for Open {
    fn drive(&self, plan: &Plan) -> Result<Run> {
        drive::threads(plan, |_| Ok(|rows: &[Row]| self.update(rows)))
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}
