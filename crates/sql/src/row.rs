//! Rows between Arrow and the engine's bytes.
//!
//! A row lives in the engine as a key and a value. The primary key's columns are in the key alone (see [`crate::key`]),
//! all others in the value, whose bytes `docs/format/rows.md` describes. A table without a primary key has a hidden row
//! id as its key.
//!
//! Writing goes batch by batch: [`RowEncoder`] casts and checks whole columns first, so that a bad value is named before
//! anything is written, and then hands out keys and values row by row. Reading is the hot path of every scan:
//! [`RowDecoder`] takes a key and a value at a time straight out of the engine's scan and appends only the columns that
//! are asked for to typed column builders; the places of fixed-width columns are constants of the table.
//!
//! Which rows are read and written, and in which transaction, is left to the callers.

mod cast;
mod decode;
mod encode;
mod layout;
mod sink;
mod source;

pub use cast::cast;
pub(crate) use cast::{unhex, value_text};
pub use decode::{KEY_COLUMN, RowDecoder};
pub use encode::RowEncoder;
pub(crate) use sink::{Flaw, Sink};
pub(crate) use source::Source;

/// The engine's key of a row in a table without a primary key: ids sort as they count.
pub fn row_key(id: u64) -> [u8; 8] {
    id.to_be_bytes()
}

#[cfg(test)]
pub(crate) mod sample;
#[cfg(test)]
mod tests;
