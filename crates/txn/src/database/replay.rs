//! Recovery's upper half: the log gives whole records in LSN order, and the tables take them.
//!
//! Nobody else is there yet, so nothing is locked. A record that does not fit what came before it is refused: it can only
//! come from damage that the log could not see, or from another program.

use std::sync::Arc;

use ishigaki_base::Lsn;
use sdd::{Guard, Owned};

use crate::key::{Key, Value};
use crate::memory::{self, Memory};
use crate::record::Record;
use crate::redo::{self, Decoder, Operation};
use crate::table::{Table, TableId, Tables};
use crate::{Error, Result};

/// Tables on their way back.
#[derive(Debug)]
pub(crate) struct Replay {
    memory: Arc<Memory>,
    tables: Tables,
}

impl Replay {
    pub(crate) fn new(memory: &Arc<Memory>) -> Self {
        Self { memory: Arc::clone(memory), tables: Tables::new(memory) }
    }

    pub(crate) fn finish(self) -> Tables {
        self.tables
    }

    /// Applies one record.
    pub(crate) fn apply(&mut self, lsn: Lsn, payload: &[u8]) -> Result<()> {
        let corrupt = |reason| Error::Corrupt { lsn: lsn.0, reason };
        // Writes come table by table.
        let mut last: Option<Arc<Table>> = None;
        for operation in Decoder::new(payload).map_err(corrupt)? {
            match operation.map_err(corrupt)? {
                Operation::Create { table, name } => self.create(lsn, table, name)?,
                Operation::Drop { table, name } => self.drop(lsn, table, name)?,
                Operation::Put { table, key, value } => {
                    self.put(self.table(lsn, table, &mut last)?, lsn, key, value)?;
                }
                Operation::Delete { table, key } => delete(self.table(lsn, table, &mut last)?, lsn, key)?,
            }
        }
        Ok(())
    }

    fn table<'a>(&self, lsn: Lsn, id: TableId, last: &'a mut Option<Arc<Table>>) -> Result<&'a Table> {
        if last.as_ref().is_none_or(|last| last.id != id) {
            let found = self.tables.get(id);
            *last = Some(found.ok_or_else(|| refuse(lsn, format!("it writes to table {id}, which does not exist")))?);
        }
        last.as_deref().ok_or_else(|| refuse(lsn, format!("there is no table {id}")))
    }

    fn create(&self, lsn: Lsn, id: TableId, name: &[u8]) -> Result<()> {
        if self.tables.get(id).is_some() || self.tables.system().index.find(name).is_some() {
            return Err(refuse(lsn, format!("it makes table {id}, which exists")));
        }
        self.put(self.tables.system(), lsn, name, &redo::encode_id(id))?;
        let table = Table::new(id, &self.memory);
        table.note_deletion(lsn);
        self.tables.add(table);
        Ok(())
    }

    fn drop(&self, lsn: Lsn, id: TableId, name: &[u8]) -> Result<()> {
        let system = self.tables.system();
        let guard = Guard::new();
        let named = system.index.find(name).and_then(|record| record.value(&guard).and_then(|id| redo::decode_id(id)));
        if named != Some(id) {
            return Err(refuse(lsn, format!("it drops table {id} by a name that is not its own")));
        }
        delete(system, lsn, name)?;
        if self.tables.remove(id).is_none() {
            return Err(refuse(lsn, format!("it drops table {id}, which does not exist")));
        }
        Ok(())
    }

    fn put(&self, table: &Table, lsn: Lsn, key: &[u8], value: &[u8]) -> Result<()> {
        let key = Key::new(key)?;
        let value = Value::from_slice(value);
        let added = memory::value_cost(&value);
        if let Some(record) = table.index.find(&key) {
            self.memory.reserve(added)?;
            table.take_over(added);
            let old = record.replace(Some(Owned::new(value)), lsn);
            table.give_back(old.as_deref().map_or(0, memory::value_cost));
        } else {
            let added = added + memory::record_cost(&key);
            self.memory.reserve(added)?;
            table.take_over(added);
            table.index.insert(&key, &Arc::new(Record::committed(Owned::new(value), lsn)));
        }
        Ok(())
    }
}

fn delete(table: &Table, lsn: Lsn, key: &[u8]) -> Result<()> {
    let key = Key::new(key)?;
    let Some(record) = table.index.find(&key) else {
        return Err(refuse(lsn, format!("it deletes a key of table {} that is not there", table.id)));
    };
    let old = record.replace(None, lsn);
    table.note_deletion(lsn);
    table.index.remove(&key, &record);
    table.give_back(memory::record_cost(&key) + old.as_deref().map_or(0, memory::value_cost));
    Ok(())
}

fn refuse(lsn: Lsn, reason: String) -> Error {
    Error::Corrupt { lsn: lsn.0, reason }
}
