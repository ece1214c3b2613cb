//! How many bytes a result of a function will have, at most.

use datafusion::arrow::array::{Array, AsArray};
use datafusion::arrow::datatypes::{DataType, Int32Type, Int64Type};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::{ColumnarValue, Expr};

/// How a function makes much of little.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Estimate {
    /// A text so many times.
    Repeat,
    /// So many letters.
    Pad,
    /// For each occurrence of a text another one.
    Replace,
    /// For each letter, at most, another text.
    ReplaceEach,
    /// All texts.
    Join,
}

impl Estimate {
    /// Of a function that needs one.
    pub(super) fn of(function: &str) -> Option<Self> {
        Some(match function {
            "repeat" => Self::Repeat,
            "lpad" | "rpad" => Self::Pad,
            "replace" => Self::Replace,
            "regexp_replace" => Self::ReplaceEach,
            "concat" | "concat_ws" => Self::Join,
            _ => return None,
        })
    }

    /// Of a row's values.
    pub(super) fn bytes(self, args: &[ColumnarValue], row: usize) -> u64 {
        let length = |at: usize| args.get(at).map_or(0, |value| length(value, row));
        let number = |at: usize| args.get(at).and_then(|value| integer(value, row));
        let times = |at: usize| number(at).map_or(0, |times| u64::try_from(times).unwrap_or(0));
        match self {
            Self::Repeat => length(0).saturating_mul(times(1)),
            Self::Pad => times(1).saturating_mul(4),
            Self::Replace => {
                let (text, from, to) = (length(0), length(1), length(2));
                text.checked_div(from).map_or(text, |found| text.saturating_add(found.saturating_mul(to)))
            }
            Self::ReplaceEach => {
                let (text, to) = (length(0), length(2));
                // A letter at most for each replacement; and two letters of one may stand for what was found.
                let times = if args.len() > 3 { text.saturating_add(1) } else { 1 };
                text.saturating_add(times.saturating_mul(to)).saturating_add(text.saturating_mul(to / 2))
            }
            Self::Join => {
                (0..args.len()).map(length).fold(length(0).saturating_mul(args.len() as u64), u64::saturating_add)
            }
        }
    }

    /// Whether a call of constants has few bytes; of what is no literal nothing is known.
    pub(super) fn is_short(self, args: &[Expr], most: u64) -> bool {
        let value = |expression: &Expr| match expression {
            Expr::Literal(value, _) => Some(ColumnarValue::Scalar(value.clone())),
            Expr::Cast(cast) => match cast.expr.as_ref() {
                Expr::Literal(value, _) => value.cast_to(cast.field.data_type()).ok().map(ColumnarValue::Scalar),
                _ => None,
            },
            _ => None,
        };
        args.iter().map(value).collect::<Option<Vec<_>>>().is_some_and(|args| self.bytes(&args, 0) <= most)
    }
}

/// How many bytes a text has; of anything else what it may have as text.
fn length(value: &ColumnarValue, row: usize) -> u64 {
    match value {
        ColumnarValue::Scalar(ScalarValue::Utf8(text) | ScalarValue::LargeUtf8(text) | ScalarValue::Utf8View(text)) => {
            text.as_ref().map_or(0, |text| text.len() as u64)
        }
        ColumnarValue::Scalar(value) => value.size() as u64,
        ColumnarValue::Array(array) if array.is_null(row) => 0,
        ColumnarValue::Array(array) => match array.data_type() {
            DataType::Utf8 => array.as_string::<i32>().value_length(row).unsigned_abs().into(),
            DataType::LargeUtf8 => array.as_string::<i64>().value_length(row).unsigned_abs(),
            DataType::Utf8View => array.as_string_view().views().get(row).map_or(0, |view| u64::from(*view as u32)),
            _ => 40,
        },
    }
}

/// A number.
fn integer(value: &ColumnarValue, row: usize) -> Option<i64> {
    match value {
        ColumnarValue::Scalar(value) => match value.cast_to(&DataType::Int64) {
            Ok(ScalarValue::Int64(value)) => value,
            _ => None,
        },
        ColumnarValue::Array(array) if array.is_null(row) => None,
        ColumnarValue::Array(array) => match array.data_type() {
            DataType::Int64 => Some(array.as_primitive::<Int64Type>().value(row)),
            DataType::Int32 => Some(array.as_primitive::<Int32Type>().value(row).into()),
            _ => None,
        },
    }
}
