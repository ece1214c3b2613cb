//! Assignment casts: what an INSERT, UPDATE or COPY may put into a column, and what the error says when it may not.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BinaryViewBuilder, new_null_array};
use datafusion::arrow::compute::{CastOptions, can_cast_types, cast_with_options};
use datafusion::arrow::datatypes::{DataType, Float32Type, Float64Type};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};

use ishigaki_scan::exact::{self, Moment};

use crate::table::TableDefinition;
use crate::types::{MAX_PRECISION, SqlType};
use crate::{Error, Result};

/// How many characters of a value an error shows.
const SHOWN: usize = 64;

/// What goes into what: a value may be assigned within its class, to text, and from text that reads as one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Number,
    Boolean,
    Text,
    Bytes,
    Time,
    Other,
}

impl Class {
    fn of(arrow: &DataType) -> Self {
        match arrow {
            DataType::Boolean => Self::Boolean,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Self::Text,
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
                Self::Bytes
            }
            DataType::Date32 | DataType::Date64 | DataType::Timestamp(..) => Self::Time,
            DataType::Dictionary(_, values) => Self::of(values),
            numeric if numeric.is_numeric() => Self::Number,
            _ => Self::Other,
        }
    }

    fn goes_into(self, other: Self) -> bool {
        self != Self::Other && (self == other || self == Self::Text || other == Self::Text)
    }
}

/// Casts an array to the type of the column at `position`. Numbers with a fraction are rounded for an integer column; a
/// value that does not fit or does not read as one of that type is an error, as is a type that cannot be assigned (a number
/// to a DATE). NOT NULL and lengths are not looked at.
pub fn cast(table: &TableDefinition, position: usize, array: &ArrayRef) -> Result<ArrayRef> {
    let column = &table.columns()[position];
    let (from, to) = (array.data_type(), column.sql_type.arrow());
    if *from == to {
        return Ok(Arc::clone(array));
    }
    if *from == DataType::Null {
        return Ok(new_null_array(&to, array.len()));
    }
    let wrong = |value: String| Error::Type {
        table: table.name().to_owned(),
        column: column.name.clone(),
        value,
        expected: column.sql_type.to_string(),
    };
    let class = Class::of(from);
    if !class.goes_into(Class::of(&to)) || !can_cast_types(from, &to) {
        return Err(wrong(if array.is_empty() {
            format!("values of type {from}")
        } else {
            format!("{} of type {from}", value_text(array, 0))
        }));
    }
    if class == Class::Text && column.sql_type == SqlType::Bytea {
        return bytes(array, wrong);
    }
    let plain = Moment::of(&to).filter(|_| class == Class::Text).map(|moment| moment.plain_texts(array)).transpose()?;
    let array = plain.as_ref().unwrap_or(array);
    let cast = match to {
        DataType::Decimal128(..) if from.is_floating() || class == Class::Text => {
            safely(&exact::digits(array, true)?, &to)?
        }
        DataType::Float32 | DataType::Float64 if matches!(from, DataType::Decimal128(..)) => {
            exact::nearest(array, &to)?
        }
        DataType::Utf8View if from.is_floating() || *from == DataType::Date32 => exact::plain_texts(array)?,
        DataType::Utf8View if matches!(from, DataType::Timestamp(_, None)) => {
            exact::plain_texts(&safely(array, &SqlType::Timestamp.arrow())?)?
        }
        _ => safely(&rounded(array, column.sql_type)?, &to)?,
    };
    // A cast makes infinity of what is too large for a float, and zero of what is too small, and calls it safe.
    if to.is_floating()
        && let Some(row) = exact::lost(array, &cast)?
    {
        return Err(Error::OutOfRange {
            table: table.name().to_owned(),
            column: column.name.clone(),
            value: value_text(array, row),
            expected: column.sql_type.to_string(),
        });
    }
    if cast.null_count() == array.logical_null_count() {
        return Ok(cast);
    }
    let nulls = array.logical_nulls();
    let was_null = |row| nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
    match (0..cast.len()).find(|&row| cast.is_null(row) && !was_null(row)) {
        None => Ok(cast),
        Some(row) if class == Class::of(&to) => Err(Error::OutOfRange {
            table: table.name().to_owned(),
            column: column.name.clone(),
            value: value_text(array, row),
            expected: column.sql_type.to_string(),
        }),
        Some(row) => Err(wrong(value_text(array, row))),
    }
}

/// A cast that makes NULL of what does not fit.
fn safely(array: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    Ok(cast_with_options(array, to, &CastOptions { safe: true, ..CastOptions::default() })?)
}

/// Text as bytes: hexadecimal digits behind `\x`, anything else byte for byte.
fn bytes(array: &ArrayRef, wrong: impl Fn(String) -> Error) -> Result<ArrayRef> {
    let text = cast_with_options(array, &DataType::Utf8View, &CastOptions::default())?;
    let mut bytes = BinaryViewBuilder::with_capacity(text.len());
    for (row, value) in text.as_string_view().iter().enumerate() {
        match value.map(|value| (value, value.strip_prefix("\\x"))) {
            None => bytes.append_null(),
            Some((value, None)) => bytes.append_value(value.as_bytes()),
            Some((_, Some(digits))) => match unhex(digits) {
                Some(value) => bytes.append_value(value),
                None => return Err(wrong(value_text(&text, row))),
            },
        }
    }
    Ok(Arc::new(bytes.finish()))
}

/// The bytes that hexadecimal digits write.
pub(crate) fn unhex(digits: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let pairs = digits.as_bytes().chunks_exact(2);
    if !pairs.remainder().is_empty() {
        return None;
    }
    pairs.map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect()
}

/// Numbers with a fraction rounded to whole ones where an integer column takes them: a cast alone would cut them off.
fn rounded(array: &ArrayRef, sql_type: SqlType) -> Result<ArrayRef> {
    if !matches!(sql_type, SqlType::SmallInt | SqlType::Integer | SqlType::BigInt) {
        return Ok(Arc::clone(array));
    }
    Ok(match array.data_type() {
        DataType::Float32 => {
            Arc::new(array.as_primitive::<Float32Type>().unary::<_, Float32Type>(f32::round_ties_even))
        }
        DataType::Float64 => {
            Arc::new(array.as_primitive::<Float64Type>().unary::<_, Float64Type>(f64::round_ties_even))
        }
        DataType::Decimal128(_, 1..) => {
            cast_with_options(array, &DataType::Decimal128(MAX_PRECISION, 0), &CastOptions::default())?
        }
        _ => Arc::clone(array),
    })
}

/// A value as an error message shows it: text in quotes, long ones cut.
pub(crate) fn value_text(array: &dyn Array, row: usize) -> String {
    if array.is_null(row) {
        return "NULL".to_owned();
    }
    let text = match ArrayFormatter::try_new(array, &FormatOptions::default()) {
        Ok(formatter) => formatter.value(row).to_string(),
        Err(_) => return format!("a value of type {}", array.data_type()),
    };
    let cut = match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    };
    match Class::of(array.data_type()) {
        Class::Text | Class::Time => format!("'{cut}'"),
        Class::Bytes => format!("x'{cut}'"),
        _ => cut,
    }
}
