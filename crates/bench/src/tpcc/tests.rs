//! A small company, and what its tests look at.

mod conditions;
mod population;
mod transactions;

use std::num::NonZero;
use std::sync::Arc;

use ishigaki_base::random::Seed;
use ishigaki_device::MemoryDirectory;
use ishigaki_txn::Database;

use super::access::{Access, Tables};
use super::keys::Stored;
use super::{Company, Scale};
use crate::Silent;
use crate::oltp::{Engine, Stop};

/// Small enough to be filled in an instant.
const SMALL: Scale = Scale { items: 150, customers: 30, new_orders: 9 };

fn company(warehouses: u16) -> Company {
    Company { warehouses: NonZero::new(warehouses).unwrap(), scale: SMALL, seed: Seed(7) }
}

/// A company in memory.
struct Office {
    company: Company,
    database: Database,
    tables: Tables,
}

impl Office {
    fn open(warehouses: u16) -> Self {
        let company = company(warehouses);
        let settings = ishigaki_txn::Settings {
            log: ishigaki_wal::Settings { segment: ishigaki_base::ByteSize::mib(1), ..Engine::roomy().log },
            ..Engine::roomy()
        };
        let database = Database::open_in(Arc::new(MemoryDirectory::new()), settings).unwrap();
        company.populate(&database, &mut Silent).unwrap();
        let tables = Tables::find(&database).unwrap();
        Self { company, database, tables }
    }

    /// Does something in a transaction.
    fn act<T>(&self, body: impl Fn(&mut Access<'_>) -> Result<T, Stop>) -> T {
        let act = |transaction: &mut ishigaki_txn::Transaction| body(&mut Access::new(transaction, &self.tables));
        self.database.session().run(act).unwrap()
    }

    fn fetch<R: Stored>(&self, key: &R::Key) -> R {
        self.act(|access| access.fetch(key))
    }

    /// How many rows a table has.
    fn count<R: Stored>(&self) -> u64 {
        self.act(|access| {
            let mut rows = 0;
            access.scan_all(|_, _: &R| rows += 1)?;
            Ok(rows)
        })
    }

    /// The conditions that do not hold.
    fn violated(&self) -> Vec<u8> {
        let violations = self.company.audit(&self.database).unwrap();
        violations.iter().map(|violation| violation.condition).collect()
    }

    fn assert_consistent(&self) {
        assert!(self.violated().is_empty(), "{:?}", self.company.audit(&self.database));
    }
}
