//! From a batch to keys and values.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch, make_array};
use datafusion::arrow::datatypes::{Decimal128Type, DecimalType};

use crate::key;
use crate::table::TableDefinition;
use crate::types::SqlType;
use crate::{Error, Result};

use super::layout::{Layout, Slot};
use super::{Source, cast, value_text};

/// The rows of one batch, checked and ready to be stored.
#[derive(Debug)]
pub struct RowEncoder {
    table: Arc<TableDefinition>,
    layout: Layout,
    columns: Vec<Source>,
    rows: usize,
}

impl RowEncoder {
    /// Takes a batch that has all columns of the table in the table's order (names do not matter), casts them to the
    /// table's types and checks NOT NULL, lengths and precision. The error names table, column and value.
    pub fn new(table: Arc<TableDefinition>, batch: &RecordBatch) -> Result<Self> {
        let expected = table.columns().len();
        if batch.num_columns() != expected {
            return Err(Error::Definition {
                table: table.name().to_owned(),
                reason: format!("{} values for {expected} columns", batch.num_columns()),
            });
        }
        let mut columns = Vec::with_capacity(expected);
        for (position, array) in batch.columns().iter().enumerate() {
            let sql_type = table.columns()[position].sql_type;
            let array = cast(&table, position, array)?;
            let source = Source::new(sql_type, &array).ok_or_else(|| Error::Type {
                table: table.name().to_owned(),
                column: table.columns()[position].name.clone(),
                value: format!("a value of type {}", array.data_type()),
                expected: sql_type.to_string(),
            })?;
            check(&table, position, &source)?;
            columns.push(source);
        }
        Ok(Self { layout: Layout::new(&table), table, columns, rows: batch.num_rows() })
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// True when there is no row.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// The columns, in the types of the table's.
    pub fn columns(&self) -> Vec<ArrayRef> {
        self.columns.iter().map(|column| make_array(column.array().to_data())).collect()
    }

    /// Puts the primary key of a row into `out`, which loses what it held. Nothing when the table has no primary key:
    /// its rows are kept under [`row_key`](super::row_key).
    pub fn key(&self, row: usize, out: &mut Vec<u8>) {
        out.clear();
        for &position in self.table.primary_key() {
            key::append(&self.columns[position], row, out);
        }
    }

    /// Puts the value of a row into `out`, which loses what it held.
    pub fn value(&self, row: usize, out: &mut Vec<u8>) -> Result<()> {
        self.layout.begin(out);
        for (position, column) in self.columns.iter().enumerate() {
            let null = column.array().is_null(row);
            let appended = match self.layout.slot(position) {
                Slot::Key(_) => Ok(()),
                Slot::Fixed { .. } if null => Ok(()),
                Slot::Fixed { bit, at, .. } => {
                    Layout::set_present(out, bit);
                    column.store_fixed(row, &mut out[at..]);
                    Ok(())
                }
                Slot::Variable { entry, .. } if null => self.layout.append(out, entry, &[]),
                Slot::Variable { bit, entry } => {
                    Layout::set_present(out, bit);
                    self.layout.append(out, entry, column.bytes(row))
                }
            };
            appended.map_err(|flaw| Error::OutOfRange {
                table: self.table.name().to_owned(),
                column: self.table.columns()[position].name.clone(),
                value: flaw.to_owned(),
                expected: self.table.columns()[position].sql_type.to_string(),
            })?;
        }
        Ok(())
    }

    /// The error of storing this row where another has its key.
    pub fn duplicate(&self, row: usize) -> Error {
        let values: Vec<_> =
            self.table.primary_key().iter().map(|&position| value_text(self.columns[position].array(), row)).collect();
        Error::DuplicateKey {
            table: self.table.name().to_owned(),
            columns: self.table.primary_key_names(),
            value: format!("({})", values.join(", ")),
        }
    }
}

/// Checks a whole column against what its definition promises.
fn check(table: &TableDefinition, position: usize, source: &Source) -> Result<()> {
    let column = &table.columns()[position];
    let array = source.array();
    if !column.nullable && array.null_count() > 0 {
        return Err(Error::NotNull { table: table.name().to_owned(), column: column.name.clone() });
    }
    let bad = match column.sql_type {
        SqlType::Text { max_length: Some(limit) } => {
            let limit = limit as usize;
            // A character has at least one byte, so short strings need no counting.
            let too_long = |text: &str| text.len() > limit && text.chars().nth(limit).is_some();
            array.as_string_view().iter().position(|text| text.is_some_and(too_long))
        }
        SqlType::Decimal { precision, .. } => {
            let too_large = |value: i128| !Decimal128Type::is_valid_decimal_precision(value, precision);
            array.as_primitive::<Decimal128Type>().iter().position(|value| value.is_some_and(too_large))
        }
        _ => None,
    };
    bad.map_or(Ok(()), |row| {
        Err(Error::OutOfRange {
            table: table.name().to_owned(),
            column: column.name.clone(),
            value: value_text(array, row),
            expected: column.sql_type.to_string(),
        })
    })
}
