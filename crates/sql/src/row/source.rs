//! Columns to write: arrays downcast once per batch, read value by value.

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array,
    Int16Array, Int32Array, Int64Array, StringViewArray, TimestampMicrosecondArray,
};
use datafusion::arrow::datatypes::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type, TimestampMicrosecondType,
};

use crate::types::SqlType;

/// A column of a batch in the type of its table's column.
#[derive(Debug)]
pub(crate) enum Source {
    SmallInt(Int16Array),
    Integer(Int32Array),
    BigInt(Int64Array),
    Real(Float32Array),
    Double(Float64Array),
    ShortDecimal(Decimal128Array),
    LongDecimal(Decimal128Array),
    Boolean(BooleanArray),
    Text(StringViewArray),
    Bytea(BinaryViewArray),
    Date(Date32Array),
    Timestamp(TimestampMicrosecondArray),
}

impl Source {
    /// Downcasts `array`, or `None` when it is not of the type's Arrow type.
    pub(crate) fn new(sql_type: SqlType, array: &ArrayRef) -> Option<Self> {
        if *array.data_type() != sql_type.arrow() {
            return None;
        }
        Some(match sql_type {
            SqlType::SmallInt => Self::SmallInt(array.as_primitive_opt::<Int16Type>()?.clone()),
            SqlType::Integer => Self::Integer(array.as_primitive_opt::<Int32Type>()?.clone()),
            SqlType::BigInt => Self::BigInt(array.as_primitive_opt::<Int64Type>()?.clone()),
            SqlType::Real => Self::Real(array.as_primitive_opt::<Float32Type>()?.clone()),
            SqlType::Double => Self::Double(array.as_primitive_opt::<Float64Type>()?.clone()),
            SqlType::Decimal { .. } => {
                let array = array.as_primitive_opt::<Decimal128Type>()?.clone();
                if sql_type.width() == Some(8) { Self::ShortDecimal(array) } else { Self::LongDecimal(array) }
            }
            SqlType::Boolean => Self::Boolean(array.as_boolean_opt()?.clone()),
            SqlType::Text { .. } => Self::Text(array.as_string_view_opt()?.clone()),
            SqlType::Bytea => Self::Bytea(array.as_binary_view_opt()?.clone()),
            SqlType::Date => Self::Date(array.as_primitive_opt::<Date32Type>()?.clone()),
            SqlType::Timestamp => Self::Timestamp(array.as_primitive_opt::<TimestampMicrosecondType>()?.clone()),
        })
    }

    /// The array without its type.
    pub(crate) fn array(&self) -> &dyn Array {
        match self {
            Self::SmallInt(array) => array,
            Self::Integer(array) => array,
            Self::BigInt(array) => array,
            Self::Real(array) => array,
            Self::Double(array) => array,
            Self::ShortDecimal(array) | Self::LongDecimal(array) => array,
            Self::Boolean(array) => array,
            Self::Text(array) => array,
            Self::Bytea(array) => array,
            Self::Date(array) => array,
            Self::Timestamp(array) => array,
        }
    }

    /// Puts a value of a fixed-width column at the beginning of `out`, little-endian; nothing of one of variable width.
    pub(crate) fn store_fixed(&self, row: usize, out: &mut [u8]) {
        match self {
            Self::SmallInt(array) => put(out, array.value(row).to_le_bytes()),
            Self::Integer(array) => put(out, array.value(row).to_le_bytes()),
            Self::BigInt(array) => put(out, array.value(row).to_le_bytes()),
            Self::Real(array) => put(out, array.value(row).to_le_bytes()),
            Self::Double(array) => put(out, array.value(row).to_le_bytes()),
            // The precision was checked: 18 digits fit 64 bits.
            Self::ShortDecimal(array) => put(out, (array.value(row) as i64).to_le_bytes()),
            Self::LongDecimal(array) => put(out, array.value(row).to_le_bytes()),
            Self::Boolean(array) => put(out, [u8::from(array.value(row))]),
            Self::Date(array) => put(out, array.value(row).to_le_bytes()),
            Self::Timestamp(array) => put(out, array.value(row).to_le_bytes()),
            Self::Text(_) | Self::Bytea(_) => {}
        }
    }

    /// The bytes of a value of a column of variable width; none for a fixed-width one.
    pub(crate) fn bytes(&self, row: usize) -> &[u8] {
        match self {
            Self::Text(array) => array.value(row).as_bytes(),
            Self::Bytea(array) => array.value(row),
            _ => &[],
        }
    }
}

fn put<const N: usize>(out: &mut [u8], bytes: [u8; N]) {
    out[..N].copy_from_slice(&bytes);
}
