//! The catalog: which tables there are.
//!
//! Every table has one row in the engine's table `sql.catalog`, under its name, with its definition in the bytes that
//! `docs/format/catalog.md` describes, and one engine table for its rows (none, if these are in page files). All of it
//! is read and written inside the transaction of the statement that asks: DDL is as atomic and as isolated as any other
//! write, and a reader of a definition holds a lock on it until its transaction ends, so no table changes or goes away
//! under a running one. Views are kept beside them in [`views`]; a name is a table's or a view's.
//!
//! [`Catalog`] also hands out the hidden row ids of tables without a primary key.

mod format;
mod page_files;
mod page_states;
mod row_ids;
mod views;

use std::ops::{Bound, ControlFlow, Range};
use std::sync::Arc;

use ishigaki_txn::{Session, TableId, Transaction};

use crate::readable::Readable;
use crate::table::{Column, TableDefinition};
use crate::{Error, Result};

use page_files::PAGE_FILES;
pub(crate) use page_files::{PageFile, forget_all};
pub(crate) use page_states::{PAGE_STATES, Place, States, decode as decode_state};
use row_ids::RowIds;
pub use views::Relation;
pub(crate) use views::VIEWS;
pub(crate) use views::decode as decode_view;

/// The engine's table of definitions.
pub(crate) const CATALOG: &str = "sql.catalog";

/// The engine's table of row ids given out.
const ROW_IDS: &str = "sql.row_ids";

/// What the engine calls the table of a table's rows, before the SQL name.
pub(crate) const ROWS: &str = "sql.rows.";

/// The tables of one database. Cheap to clone; all clones, and nothing else, hand out row ids of the database.
#[derive(Clone, Debug)]
pub struct Catalog {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    definitions: TableId,
    page_files: TableId,
    page_states: TableId,
    views: TableId,
    row_ids: RowIds,
    /// For what is not a part of a statement's transaction.
    session: Session,
}

impl Catalog {
    /// Opens the catalog of the session's database and makes it when the database is new. To be called once for each
    /// open database.
    pub fn open(session: &Session) -> Result<Self> {
        let [definitions, row_ids, page_files, views, page_states] = session.run(|txn| {
            let mut table = |name| match txn.table(name)? {
                Some(id) => Ok(id),
                None => txn.create_table(name),
            };
            let names = [CATALOG, ROW_IDS, PAGE_FILES, VIEWS, PAGE_STATES];
            let mut tables = [TableId(0); 5];
            names.iter().zip(&mut tables).try_for_each(|(name, id)| table(name).map(|found| *id = found))?;
            Ok::<_, ishigaki_txn::Error>(tables)
        })?;
        let (session, row_ids) = (session.clone(), RowIds::new(session.clone(), row_ids));
        Ok(Self { inner: Arc::new(Inner { definitions, page_files, page_states, views, row_ids, session }) })
    }

    /// Makes an empty table.
    pub fn create(
        &self,
        txn: &mut Transaction,
        name: &str,
        columns: Vec<Column>,
        primary_key: Vec<usize>,
    ) -> Result<Arc<TableDefinition>> {
        self.check_free(txn, name)?;
        // Checked before the engine makes anything: a statement that fails leaves nothing.
        let draft = TableDefinition::new(self.inner.definitions, name.to_owned(), columns, primary_key)?;
        let table = draft.with_id(txn.create_table(&rows_of(name))?);
        txn.put(self.inner.definitions, name.as_bytes(), &format::encode(&table)?)?;
        Ok(Arc::new(table))
    }

    /// Makes a table whose rows are in page files; the files are the caller's business.
    pub fn create_paged(&self, txn: &mut Transaction, table: TableDefinition) -> Result<Arc<TableDefinition>> {
        self.check_free(txn, table.name())?;
        txn.put(self.inner.definitions, table.name().as_bytes(), &format::encode(&table)?)?;
        Ok(Arc::new(table))
    }

    /// The definition of a table, if there is one of that name.
    pub fn get<'a>(&self, from: impl Into<Readable<'a>>, name: &str) -> Result<Option<Arc<TableDefinition>>> {
        let decoded =
            from.into().get_with(self.inner.definitions, name.as_bytes(), |value| format::decode(name, value))?;
        decoded.map(|table| table.map(Arc::new)).transpose()
    }

    /// The definition of a table that must be there.
    pub fn require<'a>(&self, from: impl Into<Readable<'a>>, name: &str) -> Result<Arc<TableDefinition>> {
        self.get(from, name)?.ok_or_else(|| Error::NoSuchTable { table: name.to_owned() })
    }

    /// All tables by name. In a transaction that reads, and so locks, the whole catalog.
    pub fn list<'a>(&self, from: impl Into<Readable<'a>>) -> Result<Vec<Arc<TableDefinition>>> {
        let mut tables = Ok(Vec::new());
        from.into().scan(self.inner.definitions, (Bound::Unbounded, Bound::Unbounded), |name, value| {
            match (&mut tables, decode(name, value)) {
                (Ok(tables), Ok(table)) => {
                    tables.push(Arc::new(table));
                    ControlFlow::Continue(())
                }
                (_, Ok(_)) => ControlFlow::Break(()),
                (_, Err(error)) => {
                    tables = Err(error);
                    ControlFlow::Break(())
                }
            }
        })?;
        tables
    }

    /// Drops a table and, but for those in page files, its rows. What it was.
    pub fn drop(&self, txn: &mut Transaction, name: &str) -> Result<Arc<TableDefinition>> {
        let table = self.require(&mut *txn, name)?;
        txn.delete(self.inner.definitions, name.as_bytes())?;
        if table.pages().is_none() {
            txn.drop_table(&rows_of(name))?;
        }
        Ok(table)
    }

    /// Empties a table: it gets a new table of the engine, whatever the old one held.
    pub fn truncate(&self, txn: &mut Transaction, name: &str) -> Result<()> {
        let table = self.require(&mut *txn, name)?;
        if table.pages().is_some() {
            return Err(Error::AppendOnly { table: name.to_owned(), verb: "TRUNCATE".to_owned() });
        }
        txn.drop_table(&rows_of(name))?;
        let table = TableDefinition::clone(&table).with_id(txn.create_table(&rows_of(name))?);
        txn.put(self.inner.definitions, name.as_bytes(), &format::encode(&table)?)?;
        Ok(())
    }

    /// Says that a table is what `table` says: its page files lie elsewhere now.
    pub(crate) fn replace(&self, txn: &mut Transaction, table: &TableDefinition) -> Result<()> {
        Ok(txn.put(self.inner.definitions, table.name().as_bytes(), &format::encode(table)?)?)
    }

    /// Lets no hidden id below this one be given out.
    pub(crate) fn reserve_row_ids(&self, txn: &mut Transaction, below: u64) -> Result<()> {
        self.inner.row_ids.reserve_below(txn, below)
    }

    /// Hidden ids for `count` new rows, ascending and never given out before, not even before a crash. They need no
    /// lock and no write, but for now and then one small transaction of their own that this call waits for.
    pub fn row_ids(&self, count: u64) -> Result<Range<u64>> {
        self.inner.row_ids.take(count)
    }
}

/// Reads a row of the engine's table of definitions.
pub(crate) fn decode(name: &[u8], value: &[u8]) -> Result<TableDefinition> {
    let name =
        std::str::from_utf8(name).map_err(|_| Error::corrupt("a table in the catalog has a name that is not UTF-8"))?;
    format::decode(name, value)
}

/// What the engine calls the table of a table's rows.
pub(crate) fn rows_of(name: &str) -> String {
    format!("{ROWS}{name}")
}

#[cfg(test)]
mod tests;
