//! Recovery's upper half: the log gives whole records in LSN order, and the tables take them.
//!
//! Nobody else is there yet, so nothing is locked. A record that does not fit what came before it is refused: it can only
//! come from damage that the log could not see, or from another program.

use std::sync::Arc;

use ishigaki_base::Position;
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
    pub(crate) fn new(streams: u16, memory: &Arc<Memory>) -> Self {
        Self { memory: Arc::clone(memory), tables: Tables::new(streams, memory) }
    }

    pub(crate) fn finish(self) -> Tables {
        self.tables
    }

    /// Applies one record.
    pub(crate) fn apply(&mut self, at: Position, payload: &[u8]) -> Result<()> {
        let corrupt = |reason| Error::Corrupt { lsn: at.lsn().0, reason };
        // Writes come table by table.
        let mut last: Option<Arc<Table>> = None;
        for operation in Decoder::new(payload).map_err(corrupt)? {
            match operation.map_err(corrupt)? {
                Operation::Create { table, name } => self.create(at, table, name)?,
                Operation::Drop { table, name } => self.drop(at, table, name)?,
                Operation::Put { table, key, value } => {
                    self.put(self.table(at, table, &mut last)?, at, key, value)?;
                }
                Operation::Delete { table, key } => delete(self.table(at, table, &mut last)?, at, key)?,
            }
        }
        Ok(())
    }

    fn table<'a>(&self, at: Position, id: TableId, last: &'a mut Option<Arc<Table>>) -> Result<&'a Table> {
        if last.as_ref().is_none_or(|last| last.id != id) {
            let found = self.tables.get(id);
            *last = Some(found.ok_or_else(|| refuse(at, format!("it writes to table {id}, which does not exist")))?);
        }
        last.as_deref().ok_or_else(|| refuse(at, format!("there is no table {id}")))
    }

    fn create(&self, at: Position, id: TableId, name: &[u8]) -> Result<()> {
        if self.tables.get(id).is_some() || self.tables.system().index.find(name).is_some() {
            return Err(refuse(at, format!("it makes table {id}, which exists")));
        }
        self.put(self.tables.system(), at, name, &redo::encode_id(id))?;
        let table = self.tables.make(id);
        self.tables.add(table);
        Ok(())
    }

    fn drop(&self, at: Position, id: TableId, name: &[u8]) -> Result<()> {
        let system = self.tables.system();
        let guard = Guard::new();
        let named = system.index.find(name).and_then(|record| record.value(&guard).and_then(|id| redo::decode_id(id)));
        if named != Some(id) {
            return Err(refuse(at, format!("it drops table {id} by a name that is not its own")));
        }
        delete(system, at, name)?;
        if self.tables.remove(id).is_none() {
            return Err(refuse(at, format!("it drops table {id}, which does not exist")));
        }
        Ok(())
    }

    fn put(&self, table: &Table, at: Position, key: &[u8], value: &[u8]) -> Result<()> {
        let key = Key::new(key)?;
        let value = Value::from_slice(value);
        let added = memory::value_cost(&value);
        if let Some(record) = table.index.find(&key) {
            self.memory.reserve(added)?;
            table.take_over(added);
            let old = record.replace(Some(Owned::new(value)), at);
            table.give_back(old.as_deref().map_or(0, memory::value_cost));
        } else {
            let added = added + memory::record_cost(&key);
            self.memory.reserve(added)?;
            table.take_over(added);
            table.index.insert(&key, &Arc::new(Record::committed(Owned::new(value), at)));
        }
        Ok(())
    }
}

fn delete(table: &Table, at: Position, key: &[u8]) -> Result<()> {
    let key = Key::new(key)?;
    let Some(record) = table.index.find(&key) else {
        return Err(refuse(at, format!("it deletes a key of table {} that is not there", table.id)));
    };
    let old = record.replace(None, at);
    table.index.remove(&key, &record);
    table.give_back(memory::record_cost(&key) + old.as_deref().map_or(0, memory::value_cost));
    Ok(())
}

fn refuse(at: Position, reason: String) -> Error {
    Error::Corrupt { lsn: at.lsn().0, reason }
}
