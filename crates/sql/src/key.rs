//! Primary keys as bytes that sort as the values do.
//!
//! The engine keeps a table's rows in the order of their keys, compared byte by byte. The key of a row is the encodings
//! of its key columns one behind the other, in the order of the primary key. Each encoding keeps the order of its type
//! and none is the beginning of another of the same type, so whole keys keep the order of their columns, and all rows
//! that share their first columns lie together: an equality on those columns is one range of bytes. Every encoding can
//! be read back, so that key columns are stored nowhere else. The bytes are described in `docs/format/rows.md`.
//!
//! [`range`] turns equalities and bounds on the first key columns into the range that holds exactly the rows that meet
//! them. Finding such equalities in a predicate is the planner's work.

mod encoding;
mod range;

pub(crate) use encoding::{append, take};
pub use range::{KeyRange, fit, range};

use crate::row::{Flaw, Sink, value_text};
use crate::table::TableDefinition;

/// The key's values for a message: `(7, 'x')`, or `row 17` in a table without a primary key.
pub fn describe(table: &TableDefinition, key: &[u8]) -> String {
    if table.has_row_id() {
        return match <[u8; 8]>::try_from(key) {
            Ok(id) => format!("row {}", u64::from_be_bytes(id)),
            Err(_) => "unreadable key".to_owned(),
        };
    }
    let mut rest = key;
    let values: Result<Vec<_>, Flaw> = table
        .primary_key()
        .iter()
        .map(|&position| {
            let sql_type = table.columns()[position].sql_type;
            let mut sink = Sink::new(sql_type);
            take(sql_type, &mut rest, Some(&mut sink))?;
            Ok(value_text(&sink.finish(), 0))
        })
        .collect();
    match values {
        Ok(values) => format!("({})", values.join(", ")),
        Err(flaw) => format!("unreadable key: {flaw}"),
    }
}

#[cfg(test)]
mod tests;
