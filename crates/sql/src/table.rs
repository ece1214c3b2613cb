//! The definition of a table: its columns, its primary key, and where its rows are: in a table of the engine, or in page
//! files.

use std::sync::Arc;

use datafusion::arrow::datatypes::{Field, Schema, SchemaRef};
use ishigaki_base::ByteSize;
use ishigaki_txn::TableId;

use crate::types::SqlType;
use crate::{Error, Result};

/// The longest name of a table or column, in bytes of UTF-8.
pub const MAX_NAME: usize = 255;

/// The most columns a table may have.
pub const MAX_COLUMNS: usize = 4096;

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name, as SQL's rules for identifiers leave it (lower case unless it was quoted).
    pub name: String,
    /// What it holds.
    pub sql_type: SqlType,
    /// Whether it may hold NULL. Never true of a column of the primary key.
    pub nullable: bool,
    /// The SQL text of the expression that stands in where an INSERT names no value.
    pub default: Option<String>,
}

/// The most locations a paged table may have.
pub const MAX_LOCATIONS: usize = 1024;

/// Where the rows of a paged table are: in each location a page file that is called as the table is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paged {
    /// The size of a page of files that are made for the table.
    pub page_size: ByteSize,
    /// One or several.
    pub locations: Vec<Location>,
}

/// One place of a paged table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The directory: an absolute path, or `node://host:port/dir` with what connects there.
    pub place: String,
    /// True if the page file was there before the table, which then only uses it.
    pub existing: bool,
}

impl Location {
    /// Whether it is the same directory, however it is connected to.
    pub(crate) fn is_at(&self, other: &Self) -> bool {
        let site = |place: &str| match place.split_once('?') {
            Some((site, _)) if place.starts_with("node:") => site.to_owned(),
            _ => place.to_owned(),
        };
        self.place == other.place || site(&self.place) == site(&other.place)
    }
}

impl std::fmt::Display for Paged {
    /// What stands in `WITH (…)`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let places: Vec<&str> = self.locations.iter().map(|location| location.place.as_str()).collect();
        let places = places.join(",").replace('\'', "''");
        write!(f, "storage = 'paged', location = '{places}', page_size = '{}'", self.page_size)?;
        if self.locations.iter().any(|location| location.existing) { f.write_str(", existing = true") } else { Ok(()) }
    }
}

/// The definition of a table. Immutable and shared; a changed table gets a new definition.
#[derive(Clone, Debug)]
pub struct TableDefinition {
    id: TableId,
    name: String,
    columns: Vec<Column>,
    primary_key: Vec<usize>,
    paged: Option<Paged>,
    schema: SchemaRef,
}

/// In place of the engine's table where there is none; the engine never gives that number out.
pub(crate) const NO_TABLE: TableId = TableId(u32::MAX);

impl TableDefinition {
    /// Checks a definition: names are there, not too long and not twice, types are within their limits, key columns
    /// exist. Columns of the primary key become NOT NULL.
    pub fn new(id: TableId, name: String, mut columns: Vec<Column>, primary_key: Vec<usize>) -> Result<Self> {
        let wrong = |reason: String| Error::Definition { table: name.clone(), reason };
        if name.is_empty() || name.len() > MAX_NAME {
            return Err(wrong(format!("a table's name has 1 to {MAX_NAME} bytes")));
        }
        if columns.is_empty() || columns.len() > MAX_COLUMNS {
            return Err(wrong(format!("a table has 1 to {MAX_COLUMNS} columns")));
        }
        for (position, column) in columns.iter().enumerate() {
            if column.name.is_empty() || column.name.len() > MAX_NAME {
                return Err(wrong(format!("a column's name has 1 to {MAX_NAME} bytes")));
            }
            if columns[..position].iter().any(|other| other.name == column.name) {
                return Err(wrong(format!("column {} is defined twice", column.name)));
            }
            if !column.sql_type.is_valid() {
                return Err(wrong(format!("column {} cannot be {}", column.name, column.sql_type)));
            }
        }
        for (place, &position) in primary_key.iter().enumerate() {
            let Some(column) = columns.get_mut(position) else {
                return Err(wrong(format!("the primary key names column {position}, which is not there")));
            };
            if primary_key[..place].contains(&position) {
                return Err(wrong(format!("column {} is in the primary key twice", column.name)));
            }
            column.nullable = false;
        }
        let fields: Vec<_> = columns.iter().map(|c| Field::new(&c.name, c.sql_type.arrow(), c.nullable)).collect();
        Ok(Self { id, name, columns, primary_key, paged: None, schema: Arc::new(Schema::new(fields)) })
    }

    /// The same for a table whose rows are in page files.
    pub fn paged(name: String, columns: Vec<Column>, paged: Paged) -> Result<Self> {
        let wrong = |reason: String| Error::Definition { table: name.clone(), reason };
        if paged.locations.is_empty() || paged.locations.len() > MAX_LOCATIONS {
            return Err(wrong(format!("a paged table has 1 to {MAX_LOCATIONS} locations")));
        }
        for (position, location) in paged.locations.iter().enumerate() {
            if location.place.is_empty() || location.place.len() > usize::from(u16::MAX) {
                return Err(wrong(format!("a location has 1 to {} bytes", u16::MAX)));
            }
            if paged.locations[..position].iter().any(|other| other.is_at(location)) {
                return Err(wrong(format!("location {} is named twice", location.place)));
            }
        }
        Ok(Self { paged: Some(paged), ..Self::new(NO_TABLE, name, columns, Vec::new())? })
    }

    /// The same for rows in another table of the engine.
    pub(crate) fn with_id(self, id: TableId) -> Self {
        Self { id, ..self }
    }

    /// Where the rows are, if they are in page files.
    pub fn pages(&self) -> Option<&Paged> {
        self.paged.as_ref()
    }

    /// The engine's table that keeps the rows; of a paged table one that there is not.
    pub fn id(&self) -> TableId {
        self.id
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The columns, in the order of `SELECT *`.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Positions of the key columns in the order of the key; empty when rows have a hidden row id instead.
    pub fn primary_key(&self) -> &[usize] {
        &self.primary_key
    }

    /// True when rows have no key of their own but a hidden row id. Rows in page files have neither.
    pub fn has_row_id(&self) -> bool {
        self.primary_key.is_empty() && self.paged.is_none()
    }

    /// True when the column is part of the primary key.
    pub fn is_key(&self, position: usize) -> bool {
        self.primary_key.contains(&position)
    }

    /// Positions of the columns outside the primary key, ascending.
    pub fn value_columns(&self) -> impl Iterator<Item = usize> {
        (0..self.columns.len()).filter(|&position| !self.is_key(position))
    }

    /// The Arrow schema of the whole table.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The position of a column, or an error that names table and column.
    pub fn position(&self, column: &str) -> Result<usize> {
        self.columns
            .iter()
            .position(|c| c.name == column)
            .ok_or_else(|| Error::NoSuchColumn { table: self.name.clone(), column: column.to_owned() })
    }

    /// The names of the primary key's columns, in the order of the key.
    pub fn primary_key_names(&self) -> Vec<String> {
        self.primary_key.iter().map(|&position| self.columns[position].name.clone()).collect()
    }
}

/// Two definitions are the same when a row of the one is a row of the other; the schema follows from the rest.
impl PartialEq for TableDefinition {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
            && self.name == other.name
            && self.columns == other.columns
            && self.primary_key == other.primary_key
            && self.paged == other.paged
    }
}

impl Eq for TableDefinition {}
