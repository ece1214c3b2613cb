//! Ranges of keys from equalities and bounds.

use std::ops::Bound;

use datafusion::arrow::compute::{CastOptions, can_cast_types};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;

use crate::row::Source;
use crate::table::TableDefinition;
use crate::{Error, Result};

use super::append;

/// A range of a table's keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// Where it begins.
    pub start: Bound<Vec<u8>>,
    /// Where it ends.
    pub end: Bound<Vec<u8>>,
}

impl KeyRange {
    /// Every key.
    pub fn all() -> Self {
        Self { start: Bound::Unbounded, end: Bound::Unbounded }
    }

    /// No key.
    pub fn nothing() -> Self {
        Self { start: Bound::Included(Vec::new()), end: Bound::Excluded(Vec::new()) }
    }

    /// One key.
    pub fn only(key: Vec<u8>) -> Self {
        Self { start: Bound::Included(key.clone()), end: Bound::Included(key) }
    }

    /// True when no key can be in it. Such a range need not, and should not, be scanned.
    pub fn is_empty(&self) -> bool {
        match (&self.start, &self.end) {
            (Bound::Included(start), Bound::Included(end)) => start > end,
            (Bound::Included(start) | Bound::Excluded(start), Bound::Excluded(end))
            | (Bound::Excluded(start), Bound::Included(end)) => start >= end,
            (Bound::Unbounded, Bound::Excluded(end)) => end.is_empty(),
            (_, Bound::Unbounded) | (Bound::Unbounded, Bound::Included(_)) => false,
        }
    }

    /// The key, when the range is that of a single whole key.
    pub fn point(&self) -> Option<&[u8]> {
        match (&self.start, &self.end) {
            (Bound::Included(start), Bound::Included(end)) if start == end => Some(start),
            _ => None,
        }
    }

    /// The bounds as a scan takes them.
    pub fn as_bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (self.start.as_ref().map(Vec::as_slice), self.end.as_ref().map(Vec::as_slice))
    }
}

/// A literal as a value of the `place`-th key column, where comparing with the one is the same as comparing with the
/// other. `None` when it is not (a fraction against an integer column), or when there is no such key column: the predicate
/// must then be left to a filter.
pub fn fit(table: &TableDefinition, place: usize, value: &ScalarValue) -> Option<ScalarValue> {
    let column = &table.columns()[*table.primary_key().get(place)?];
    let (from, to) = (value.data_type(), column.sql_type.arrow());
    if from == to {
        return Some(value.clone());
    }
    if value.is_null() {
        return ScalarValue::try_from(&to).ok();
    }
    if !comparable(&from, &to) || !can_cast_types(&from, &to) {
        return None;
    }
    let options = CastOptions { safe: true, ..CastOptions::default() };
    let there = value.cast_to_with_options(&to, &options).ok()?;
    let back = there.cast_to_with_options(&from, &options).ok()?;
    (back == *value).then_some(there)
}

/// The range of the rows whose first key columns equal `equal` and whose next key column, if there is one, lies within
/// `next`. A NULL compares with nothing, so it yields [`KeyRange::nothing`].
///
/// Values must be of the key columns' types, as [`fit`] makes them; there must be a key column for each.
pub fn range(
    table: &TableDefinition,
    equal: &[ScalarValue],
    next: (Bound<ScalarValue>, Bound<ScalarValue>),
) -> Result<KeyRange> {
    let (lower, upper) = next;
    if equal.iter().any(ScalarValue::is_null) || is_null(&lower) || is_null(&upper) {
        return Ok(KeyRange::nothing());
    }
    let mut prefix = Vec::new();
    for (place, value) in equal.iter().enumerate() {
        append_scalar(table, place, value, &mut prefix)?;
    }
    let with = |value: &ScalarValue| {
        let mut key = prefix.clone();
        append_scalar(table, equal.len(), value, &mut key).map(|()| key)
    };
    let start = match &lower {
        Bound::Included(value) => Bound::Included(with(value)?),
        Bound::Excluded(value) => match behind(with(value)?) {
            Some(key) => Bound::Included(key),
            None => return Ok(KeyRange::nothing()),
        },
        Bound::Unbounded if prefix.is_empty() => Bound::Unbounded,
        Bound::Unbounded => Bound::Included(prefix.clone()),
    };
    let end = match &upper {
        Bound::Included(value) => behind(with(value)?).map_or(Bound::Unbounded, Bound::Excluded),
        Bound::Excluded(value) => Bound::Excluded(with(value)?),
        Bound::Unbounded
            if lower == Bound::Unbounded && !equal.is_empty() && equal.len() == table.primary_key().len() =>
        {
            return Ok(KeyRange::only(prefix));
        }
        Bound::Unbounded => behind(prefix).map_or(Bound::Unbounded, Bound::Excluded),
    };
    let range = KeyRange { start, end };
    Ok(if range.is_empty() { KeyRange::nothing() } else { range })
}

/// Whether a comparison with a literal of type `from` can be one of values of type `to`. Integers and decimals compare
/// exactly; a floating-point literal is compared in floating point, where several of them may equal it.
fn comparable(from: &DataType, to: &DataType) -> bool {
    let exact = |arrow: &DataType| arrow.is_integer() || arrow.is_decimal();
    (exact(from) && exact(to))
        || (from.is_floating() && to.is_floating())
        || (from.is_integer() && to.is_floating())
        || (from.is_string() && to.is_string())
        || (from.is_binary() && to.is_binary())
        || (from.is_temporal() && to.is_temporal())
}

/// The smallest byte string larger than all that begin with `prefix`; `None` when there is none, because it is empty or
/// all ones.
fn behind(mut prefix: Vec<u8>) -> Option<Vec<u8>> {
    while let Some(last) = prefix.pop() {
        if last < u8::MAX {
            prefix.push(last + 1);
            return Some(prefix);
        }
    }
    None
}

fn is_null(bound: &Bound<ScalarValue>) -> bool {
    match bound {
        Bound::Included(value) | Bound::Excluded(value) => value.is_null(),
        Bound::Unbounded => false,
    }
}

fn append_scalar(table: &TableDefinition, place: usize, value: &ScalarValue, out: &mut Vec<u8>) -> Result<()> {
    let Some(&position) = table.primary_key().get(place) else {
        return Err(Error::Definition {
            table: table.name().to_owned(),
            reason: format!("the primary key has no column number {}", place + 1),
        });
    };
    let column = &table.columns()[position];
    let array = value.to_array()?;
    let source = Source::new(column.sql_type, &array).ok_or_else(|| Error::Type {
        table: table.name().to_owned(),
        column: column.name.clone(),
        value: value.to_string(),
        expected: column.sql_type.to_string(),
    })?;
    append(&source, 0, out);
    Ok(())
}
