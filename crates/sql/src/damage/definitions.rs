//! The table definitions of a database that is not open.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use ishigaki_device::Directory;
use ishigaki_txn::{Progress, Salvage, TableId};

use crate::Result;
use crate::catalog::{self, CATALOG};
use crate::table::{Location, TableDefinition};

/// The engine's table of the names of tables.
const NAMES: TableId = TableId(0);

/// What the catalog says.
#[derive(Debug, Default)]
pub(super) struct Definitions {
    /// The engine's table of definitions.
    pub(super) catalog: Option<TableId>,
    /// Tables of rows, by the engine's table of their rows.
    pub(super) rows: BTreeMap<TableId, Arc<TableDefinition>>,
    pub(super) paged: Vec<Arc<TableDefinition>>,
    /// Names with definitions that can not be read, and why.
    pub(super) unreadable: Vec<(String, String)>,
    /// All tables of the engine.
    pub(super) engine: Vec<(TableId, Option<String>)>,
}

impl Definitions {
    /// Reads the catalog of a database, and keeps no other row in memory.
    pub(super) fn read(tables: &dyn Directory, log: &dyn Directory) -> Result<Self> {
        // The catalog is the first table that a database gets.
        let first = TableId(NAMES.0 + 1);
        let read = |id| Salvage::read_some(tables, log, &Progress::default(), |table| table == id);
        let salvage = read(first)?;
        match named(&salvage.tables(), CATALOG) {
            Some(id) if id != first => Ok(Self::of(&read(id)?)),
            _ => Ok(Self::of(&salvage)),
        }
    }

    /// Those among the rows that were read. A catalog that has lost its name is known by its rows.
    pub(super) fn of(salvage: &Salvage) -> Self {
        let engine = salvage.tables();
        let is_catalog = |id: TableId| {
            let mut rows = salvage.scan(id, Bound::Unbounded).peekable();
            rows.peek().is_some() && rows.all(|(name, value)| catalog::decode(name, value).is_ok())
        };
        let nameless = || engine.iter().find(|(id, name)| name.is_none() && is_catalog(*id)).map(|(id, _)| *id);
        let mut found = Self { catalog: named(&engine, CATALOG).or_else(nameless), ..Self::default() };
        for (name, value) in found.catalog.iter().flat_map(|&id| salvage.scan(id, Bound::Unbounded)) {
            match catalog::decode(name, value) {
                Ok(table) if table.pages().is_some() => found.paged.push(Arc::new(table)),
                Ok(table) => drop(found.rows.insert(table.id(), Arc::new(table))),
                Err(error) => found.unreadable.push((String::from_utf8_lossy(name).into_owned(), error.to_string())),
            }
        }
        found.engine = engine;
        found
    }

    /// What people call a table of the engine.
    pub(super) fn name(&self, id: TableId) -> String {
        if let Some(table) = self.rows.get(&id) {
            return format!("table {}", table.name());
        }
        if id == NAMES {
            return "the names of tables".to_owned();
        }
        if self.catalog == Some(id) {
            return "the catalog".to_owned();
        }
        let name = self.engine.iter().find(|(other, _)| *other == id).and_then(|(_, name)| name.clone());
        name.map_or_else(|| format!("table {id} of the engine"), |name| format!("table {name} of the engine"))
    }

    /// The page files of all paged tables.
    pub(super) fn files(&self) -> impl Iterator<Item = (&Arc<TableDefinition>, &Location)> {
        self.paged.iter().flat_map(|table| {
            table
                .pages()
                .into_iter()
                .flat_map(move |paged| paged.locations.iter().map(move |location| (table, location)))
        })
    }
}

fn named(tables: &[(TableId, Option<String>)], wanted: &str) -> Option<TableId> {
    tables.iter().find(|(_, name)| name.as_deref() == Some(wanted)).map(|(id, _)| *id)
}
