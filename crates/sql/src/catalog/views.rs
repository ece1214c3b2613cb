//! The views of the catalog, each a row of the engine's table `sql.views` under its name, in the bytes that
//! `docs/format/catalog.md` describes.
//!
//! They have a table of their own because `DROP TABLE` looks through all of them for one that reads the table: no
//! session that makes or drops other tables waits for that.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use ishigaki_txn::Transaction;

use super::Catalog;
use super::format::{Flaw, put_text, put_type, read_text, read_type, take};
use crate::readable::Readable;
use crate::table::{Column, TableDefinition};
use crate::types::SqlType;
use crate::view::{Base, ViewDefinition};
use crate::{Error, Result};

/// The engine's table of views.
pub(crate) const VIEWS: &str = "sql.views";

/// The first byte of a view's definition.
const VERSION: u8 = 1;

/// What a name stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Relation {
    /// A table.
    Table(Arc<TableDefinition>),
    /// A view.
    View(Arc<ViewDefinition>),
}

impl Relation {
    /// Its columns.
    pub fn columns(&self) -> &[Column] {
        match self {
            Self::Table(table) => table.columns(),
            Self::View(view) => view.columns(),
        }
    }
}

impl Catalog {
    /// The table or the view of a name, if there is one.
    pub fn find<'a>(&self, from: impl Into<Readable<'a>>, name: &str) -> Result<Option<Relation>> {
        let mut from = from.into();
        let table =
            from.get_with(self.inner.definitions, name.as_bytes(), |value| super::format::decode(name, value))?;
        match table.transpose()? {
            Some(table) => Ok(Some(Relation::Table(Arc::new(table)))),
            None => Ok(self.view(from, name)?.map(Relation::View)),
        }
    }

    /// The view of a name, if it is one's.
    pub fn view<'a>(&self, from: impl Into<Readable<'a>>, name: &str) -> Result<Option<Arc<ViewDefinition>>> {
        let decoded =
            from.into().get_with(self.inner.views, name.as_bytes(), |value| decode(name.as_bytes(), value))?;
        decoded.map(|view| view.map(Arc::new)).transpose()
    }

    /// All views by name. In a transaction that reads, and so locks, all their definitions.
    pub fn views<'a>(&self, from: impl Into<Readable<'a>>) -> Result<Vec<Arc<ViewDefinition>>> {
        let mut views = Vec::new();
        let mut failed = None;
        from.into().scan(self.inner.views, (Bound::Unbounded, Bound::Unbounded), |name, value| {
            match decode(name, value) {
                Ok(view) => {
                    views.push(Arc::new(view));
                    ControlFlow::Continue(())
                }
                Err(error) => {
                    failed = Some(error);
                    ControlFlow::Break(())
                }
            }
        })?;
        failed.map_or(Ok(views), Err)
    }

    /// Makes a view, or has one be another from now on. That no table has its name is for the caller to see to.
    pub fn put_view(&self, txn: &mut Transaction, view: &ViewDefinition) -> Result<()> {
        Ok(txn.put(self.inner.views, view.name().as_bytes(), &encode(view))?)
    }

    /// Drops a view.
    pub fn drop_view(&self, txn: &mut Transaction, name: &str) -> Result<()> {
        txn.delete(self.inner.views, name.as_bytes())?;
        Ok(())
    }

    /// Fails if there is a table or a view of that name.
    pub(super) fn check_free(&self, txn: &mut Transaction, name: &str) -> Result<()> {
        match self.find(txn, name)? {
            None => Ok(()),
            Some(Relation::Table(_)) => Err(Error::TableExists { table: name.to_owned() }),
            Some(Relation::View(_)) => Err(Error::ViewExists { view: name.to_owned() }),
        }
    }
}

/// The bytes of a definition; the name is not among them, it is the key.
pub(super) fn encode(view: &ViewDefinition) -> Vec<u8> {
    let mut out = vec![VERSION];
    put_columns(view.columns().iter().map(|column| (column.name.as_str(), column.sql_type)), &mut out);
    out.extend_from_slice(&(view.bases().len() as u16).to_le_bytes());
    for base in view.bases() {
        put_text(&base.name, &mut out);
        put_columns(base.columns.iter().map(|(name, sql_type)| (name.as_str(), *sql_type)), &mut out);
    }
    out.extend_from_slice(&(view.query().len() as u32).to_le_bytes());
    out.extend_from_slice(view.query().as_bytes());
    out
}

/// Reads a row of the engine's table of views.
pub(crate) fn decode(name: &[u8], value: &[u8]) -> Result<ViewDefinition> {
    let name =
        std::str::from_utf8(name).map_err(|_| Error::corrupt("a view in the catalog has a name that is not UTF-8"))?;
    let corrupt = |reason: &str| Error::corrupt(format!("the definition of view {name} in the catalog: {reason}"));
    let mut rest = value;
    let (columns, bases, query) = read(&mut rest).map_err(corrupt)?;
    if !rest.is_empty() {
        return Err(corrupt("it goes on behind its end"));
    }
    ViewDefinition::new(name, columns, bases, query).map_err(|error| corrupt(&error.to_string()))
}

/// Columns by name and type.
type Columns = Vec<(String, SqlType)>;

fn read(rest: &mut &[u8]) -> Result<(Columns, Vec<Base>, String), Flaw> {
    let [VERSION] = take(rest)? else { return Err("a version that this program does not know") };
    let columns = read_columns(rest)?;
    let bases = (0..u16::from_le_bytes(take(rest)?))
        .map(|_| Ok(Base { name: read_text(rest)?, columns: read_columns(rest)? }))
        .collect::<Result<_, Flaw>>()?;
    let length = u32::from_le_bytes(take(rest)?) as usize;
    let query = rest.split_off(..length).ok_or("it ends too early")?;
    let query = String::from_utf8(query.to_vec()).map_err(|_| "a query that is not UTF-8")?;
    Ok((columns, bases, query))
}

fn put_columns<'a>(columns: impl ExactSizeIterator<Item = (&'a str, SqlType)>, out: &mut Vec<u8>) {
    out.extend_from_slice(&(columns.len() as u16).to_le_bytes());
    for (name, sql_type) in columns {
        put_type(sql_type, out);
        put_text(name, out);
    }
}

fn read_columns(rest: &mut &[u8]) -> Result<Columns, Flaw> {
    let count = u16::from_le_bytes(take(rest)?);
    let read = |_| {
        let sql_type = read_type(rest)?;
        Ok((read_text(rest)?, sql_type))
    };
    (0..count).map(read).collect()
}
