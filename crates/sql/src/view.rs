//! Views: queries behind names.
//!
//! ```text
//! CREATE VIEW ─ the query's text, its columns, its bases ─▶ catalog ─▶ a statement names the view ─▶ the text is planned by
//!                                                                      itself ─▶ its plan stands where the name stood
//! ```
//!
//! A view has no rows and no plan of its own: its text is parsed and planned anew by every statement that names it, so
//! what is pushed into a scan through a view is what is pushed into the scan of the query. It is planned apart from that
//! statement, which can hide none of its tables behind a `WITH`.
//!
//! A view keeps the columns that its bases had when it was made, and sees these columns alone. So a base that gets more
//! columns later changes nothing of it: not what `*` stands for, not what NATURAL joins by, not what a name means. A base
//! that has lost its columns, or has others, is refused by name ([`planned`]).

mod planned;

use std::collections::HashSet;

use datafusion::arrow::datatypes::SchemaRef;

use crate::catalog::Relation;
use crate::table::{Column, MAX_COLUMNS, MAX_NAME, NO_TABLE, TableDefinition};
use crate::types::SqlType;
use crate::{Error, Result};

pub(crate) use planned::{named, plan, provider};

/// The longest text of a view's query, in bytes of UTF-8.
pub const MAX_QUERY: usize = 1 << 20;

/// A table or a view that a view reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base {
    /// Its name.
    pub name: String,
    /// The columns that it had when the view was made.
    pub columns: Vec<(String, SqlType)>,
}

impl Base {
    /// What a view that is made now reads of a table or view with these columns.
    pub(crate) fn of(name: String, columns: &[Column]) -> Self {
        Self { name, columns: columns.iter().map(|column| (column.name.clone(), column.sql_type)).collect() }
    }

    /// Whether it is that table, or that view before it got more columns.
    pub(crate) fn fits(&self, relation: &Relation) -> bool {
        match relation {
            Relation::Table(table) => self.columns.len() == table.columns().len() && self.is_part_of(table.columns()),
            Relation::View(view) => self.is_part_of(view.columns()),
        }
    }

    /// Whether these columns, or the first of them, are the ones.
    fn is_part_of(&self, columns: &[Column]) -> bool {
        self.columns.len() <= columns.len()
            && self
                .columns
                .iter()
                .zip(columns)
                .all(|((name, sql_type), column)| *name == column.name && *sql_type == column.sql_type)
    }
}

/// The definition of a view. Immutable and shared; a view that is replaced gets a new definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewDefinition {
    /// Name and columns.
    shape: TableDefinition,
    bases: Vec<Base>,
    query: String,
}

impl ViewDefinition {
    /// Checks a definition: names are there, not too long and not twice, and the query's text is not too long.
    pub fn new(name: &str, columns: Vec<(String, SqlType)>, bases: Vec<Base>, query: String) -> Result<Self> {
        let wrong = |reason: String| Error::View { view: name.to_owned(), reason };
        let columns = columns
            .into_iter()
            .map(|(name, sql_type)| Column { name, sql_type, nullable: true, default: None })
            .collect();
        let shape =
            TableDefinition::new(NO_TABLE, name.to_owned(), columns, Vec::new()).map_err(|error| match error {
                Error::Definition { reason, .. } => wrong(reason),
                other => other,
            })?;
        if query.is_empty() || query.len() > MAX_QUERY {
            return Err(wrong(format!("the text of its query has 1 to {MAX_QUERY} bytes")));
        }
        let mut names = HashSet::new();
        for base in &bases {
            if base.name.is_empty() || base.name.len() > MAX_NAME || base.columns.len() > MAX_COLUMNS {
                return Err(wrong(format!("it reads {}, which can be no table", base.name)));
            }
            if base.name == name || !names.insert(&base.name) {
                return Err(wrong(format!("it reads {} twice, or is that itself", base.name)));
            }
        }
        if bases.len() > usize::from(u16::MAX) {
            return Err(wrong(format!("it reads more than {} tables", u16::MAX)));
        }
        Ok(Self { shape, bases, query })
    }

    /// The name.
    pub fn name(&self) -> &str {
        self.shape.name()
    }

    /// The columns.
    pub fn columns(&self) -> &[Column] {
        self.shape.columns()
    }

    /// Their Arrow schema.
    pub fn schema(&self) -> &SchemaRef {
        self.shape.schema()
    }

    /// The tables and views that its query names.
    pub fn bases(&self) -> &[Base] {
        &self.bases
    }

    /// What it reads of a table or view.
    pub(crate) fn base(&self, name: &str) -> Option<&Base> {
        self.bases.iter().find(|base| base.name == name)
    }

    /// The text of its query.
    pub fn query(&self) -> &str {
        &self.query
    }
}
