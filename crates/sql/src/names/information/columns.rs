//! `information_schema.columns`: the columns of tables and views, their types by the standard's names.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Int32Array, RecordBatch, StringArray};
use datafusion::catalog::MemTable;
use datafusion::error::Result;

use crate::catalog::Relation;
use crate::statement::{CATALOG, SCHEMA};
use crate::table::Column;
use crate::types::SqlType;

/// Bytes that a character of a text may take.
const WIDEST: u64 = 4;

/// One column, and where it stands.
struct Row<'a> {
    relation: &'a str,
    place: usize,
    column: &'a Column,
}

pub(super) fn of(relations: &[(String, Relation)]) -> Result<MemTable> {
    let rows: Vec<Row<'_>> = relations
        .iter()
        .flat_map(|(name, relation)| {
            let columns = relation.columns().iter().enumerate();
            columns.map(|(place, column)| Row { relation: name, place, column })
        })
        .collect();
    let texts = |of: &dyn Fn(&Row<'_>) -> Option<String>| -> ArrayRef {
        Arc::new(rows.iter().map(of).collect::<StringArray>())
    };
    let numbers = |of: &dyn Fn(SqlType) -> Option<u64>| -> ArrayRef {
        let number = |row: &Row<'_>| of(row.column.sql_type).and_then(|number| i32::try_from(number).ok());
        Arc::new(rows.iter().map(number).collect::<Int32Array>())
    };
    let places = rows.iter().map(|row| i32::try_from(row.place + 1).ok()).collect::<Int32Array>();
    let is_nullable = |row: &Row<'_>| Some(if row.column.nullable { "YES" } else { "NO" }.to_owned());
    let columns = [
        ("table_catalog", texts(&|_| Some(CATALOG.to_owned()))),
        ("table_schema", texts(&|_| Some(SCHEMA.to_owned()))),
        ("table_name", texts(&|row| Some(row.relation.to_owned()))),
        ("column_name", texts(&|row| Some(row.column.name.clone()))),
        ("ordinal_position", Arc::new(places) as ArrayRef),
        ("column_default", texts(&|row| row.column.default.clone())),
        ("is_nullable", texts(&is_nullable)),
        ("data_type", texts(&|row| Some(row.column.sql_type.standard_name().to_owned()))),
        ("character_maximum_length", numbers(&characters)),
        ("character_octet_length", numbers(&octets)),
        ("numeric_precision", numbers(&|of| Some(digits(of)?.precision))),
        ("numeric_precision_radix", numbers(&|of| Some(digits(of)?.radix))),
        ("numeric_scale", numbers(&|of| digits(of)?.scale)),
        ("datetime_precision", numbers(&fraction)),
    ];
    let batch = RecordBatch::try_from_iter_with_nullable(columns.map(|(name, values)| (name, values, true)))?;
    MemTable::try_new(batch.schema(), vec![vec![batch]])
}

fn characters(of: SqlType) -> Option<u64> {
    match of {
        SqlType::Text { max_length } => max_length.map(u64::from),
        _ => None,
    }
}

/// As `PostgreSQL` has it: 1 GiB where there is no limit.
fn octets(of: SqlType) -> Option<u64> {
    match of {
        SqlType::Text { max_length } => Some(max_length.map_or(1 << 30, |length| WIDEST * u64::from(length))),
        _ => None,
    }
}

/// How many digits of which base a number has.
struct Digits {
    precision: u64,
    radix: u64,
    scale: Option<u64>,
}

fn digits(of: SqlType) -> Option<Digits> {
    let (precision, radix, scale) = match of {
        SqlType::SmallInt => (16, 2, Some(0)),
        SqlType::Integer => (32, 2, Some(0)),
        SqlType::BigInt => (64, 2, Some(0)),
        SqlType::Real => (24, 2, None),
        SqlType::Double => (53, 2, None),
        SqlType::Decimal { precision, scale } => (u64::from(precision), 10, Some(u64::from(scale))),
        _ => return None,
    };
    Some(Digits { precision, radix, scale })
}

/// Digits of a second's fraction.
fn fraction(of: SqlType) -> Option<u64> {
    match of {
        SqlType::Date => Some(0),
        SqlType::Timestamp => Some(6),
        _ => None,
    }
}
