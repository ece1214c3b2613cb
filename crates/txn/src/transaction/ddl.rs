//! Tables by name: rows of the system table, name to number.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use super::Transaction;
use crate::protocol::{Intent, Protocol};
use crate::redo::{decode_id, encode_id};
use crate::{Error, Result, TableId};

impl Transaction {
    /// Makes an empty table. Others see it after the commit.
    pub fn create_table(&mut self, name: &str) -> Result<TableId> {
        let id = self.database().tables.next_id()?;
        let system = self.enter_system()?;
        if !self.store(system, name.as_bytes(), &encode_id(id), Intent::Insert)? {
            return Err(Error::TableExists { name: name.to_owned() });
        }
        let table = Arc::new(self.home.database.tables.make(id));
        self.created.push(Arc::clone(&table));
        self.tables.push(table);
        Ok(id)
    }

    /// The number of a table; `None` if there is no table of that name. Either is a read: it stays so, or the
    /// commit fails.
    pub fn table(&mut self, name: &str) -> Result<Option<TableId>> {
        let system = self.enter_system()?;
        if let Some(write) = self.writes.get(TableId::SYSTEM, name.as_bytes()) {
            return Ok(write.value.and_then(decode_id));
        }
        let found = self.protocol.read(&self.tables[system], name.as_bytes(), |id| id.and_then(decode_id));
        self.settle(found)
    }

    /// The names and numbers of all tables, by name. That is a read, too.
    pub fn tables(&mut self) -> Result<Vec<(String, TableId)>> {
        let system = self.enter_system()?;
        let mut tables = Vec::new();
        self.scan_in(system, (Bound::Unbounded, Bound::Unbounded), |name, id| {
            tables.extend(decode_id(id).map(|id| (String::from_utf8_lossy(name).into_owned(), id)));
            ControlFlow::Continue(())
        })?;
        Ok(tables)
    }

    /// Removes a table and all that is in it, at commit. Under locking this waits for everybody who uses it and lets nobody
    /// else in; under TicToc whoever uses it and comes later does not commit.
    pub fn drop_table(&mut self, name: &str) -> Result<()> {
        let missing = || Error::NoSuchTable { table: name.to_owned() };
        let id = self.table(name)?.ok_or_else(missing)?;
        let slot = self.enter(id)?;
        let taken = self.protocol.monopolize(&self.tables[slot]);
        self.settle(taken)?;
        let system = self.enter_system()?;
        if !self.change(system, name.as_bytes(), None, Intent::Delete)? {
            return Err(missing());
        }
        self.dropped.push(id);
        Ok(())
    }
}
