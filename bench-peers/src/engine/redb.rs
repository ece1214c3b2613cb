//! redb: one writer at a time, `Durability::Immediate`.
//!
//! Its defaults are what its author recommends: one-phase commit with checksums, which takes one sync a transaction, no
//! quick repair. Keys and values of fixed width are its cheapest kind. Write transactions wait for each other inside redb.

use std::path::Path;

use anyhow::Result;
use ishigaki_bench::pace::Run;
use redb::{Database, Durability, ReadableDatabase, ReadableTable, TableDefinition};

use super::{Engine, Side, Store};
use crate::drive::{self, Plan};
use crate::workload::{self, History, Row, VALUE};

const FILE: &str = "rows.redb";
const TABLE: TableDefinition<u64, &[u8; VALUE]> = TableDefinition::new("rows");

/// redb.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Redb;

impl Engine for Redb {
    fn name(&self) -> String {
        "redb".to_owned()
    }

    fn side(&self) -> Side {
        Side::Rival
    }

    fn version(&self) -> String {
        env!("PEERS_REDB").to_owned()
    }

    fn settings(&self) -> String {
        "immediate durability, one-phase commit".to_owned()
    }

    fn create(&self, directory: &Path, plan: &Plan) -> Result<Box<dyn Store>> {
        let open = Open { database: Database::create(directory.join(FILE))? };
        open.update(workload::loaded(plan.seed))?;
        Ok(Box::new(open))
    }

    fn check(&self, directory: &Path, history: &History) -> Result<Result<(), String>> {
        let database = Database::open(directory.join(FILE))?;
        let table = database.begin_read()?.open_table(TABLE)?;
        history.compare(|see| {
            for row in table.iter()? {
                let (key, value) = row?;
                see(u32::try_from(key.value()).ok(), value.value());
            }
            Ok(())
        })
    }
}

struct Open {
    database: Database,
}

impl Open {
    fn update(&self, rows: impl IntoIterator<Item = Row>) -> Result<()> {
        let mut transaction = self.database.begin_write()?;
        transaction.set_durability(Durability::Immediate)?;
        let mut table = transaction.open_table(TABLE)?;
        for row in rows {
            table.insert(u64::from(row.key), &row.value)?;
        }
        drop(table);
        Ok(transaction.commit()?)
    }
}

impl Store for Open {
    fn drive(&self, plan: &Plan) -> Result<Run> {
        drive::threads(plan, |_| Ok(|rows: &[Row]| self.update(rows.iter().copied())))
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.database.close()?)
    }
}
