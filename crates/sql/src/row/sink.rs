//! Columns being read: typed builders that stored bytes are appended to, whatever those bytes are.

use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, BinaryViewBuilder, BooleanBuilder, Date32Builder, Decimal128Builder, Float32Builder, Float64Builder,
    Int16Builder, Int32Builder, Int64Builder, StringViewBuilder, TimestampMicrosecondBuilder,
};
use datafusion::arrow::datatypes::{Decimal128Type, DecimalType};

use crate::types::SqlType;

/// What is wrong with stored bytes, to go behind the name of the row.
pub(crate) type Flaw = &'static str;

/// A column being read.
#[derive(Debug)]
pub(crate) enum Sink {
    SmallInt(Int16Builder),
    Integer(Int32Builder),
    BigInt(Int64Builder),
    Real(Float32Builder),
    Double(Float64Builder),
    ShortDecimal(Decimal128Builder, u8),
    LongDecimal(Decimal128Builder, u8),
    Boolean(BooleanBuilder),
    Text(StringViewBuilder),
    Bytea(BinaryViewBuilder),
    Date(Date32Builder),
    Timestamp(TimestampMicrosecondBuilder),
}

/// A number from exactly as many bytes as it has; returns the flaw when there are more or fewer.
macro_rules! fixed {
    ($number:ty, $bytes:expr) => {
        <$number>::from_le_bytes($bytes.try_into().map_err(|_| "a fixed-width value of another width")?)
    };
}

impl Sink {
    /// An empty column.
    pub(crate) fn new(sql_type: SqlType) -> Self {
        match sql_type {
            SqlType::SmallInt => Self::SmallInt(Int16Builder::new()),
            SqlType::Integer => Self::Integer(Int32Builder::new()),
            SqlType::BigInt => Self::BigInt(Int64Builder::new()),
            SqlType::Real => Self::Real(Float32Builder::new()),
            SqlType::Double => Self::Double(Float64Builder::new()),
            SqlType::Decimal { precision, .. } => {
                let builder = Decimal128Builder::new().with_data_type(sql_type.arrow());
                if sql_type.width() == Some(8) {
                    Self::ShortDecimal(builder, precision)
                } else {
                    Self::LongDecimal(builder, precision)
                }
            }
            SqlType::Boolean => Self::Boolean(BooleanBuilder::new()),
            SqlType::Text { .. } => Self::Text(StringViewBuilder::new()),
            SqlType::Bytea => Self::Bytea(BinaryViewBuilder::new()),
            SqlType::Date => Self::Date(Date32Builder::new()),
            SqlType::Timestamp => Self::Timestamp(TimestampMicrosecondBuilder::new()),
        }
    }

    /// Appends NULL.
    pub(crate) fn null(&mut self) {
        match self {
            Self::SmallInt(builder) => builder.append_null(),
            Self::Integer(builder) => builder.append_null(),
            Self::BigInt(builder) => builder.append_null(),
            Self::Real(builder) => builder.append_null(),
            Self::Double(builder) => builder.append_null(),
            Self::ShortDecimal(builder, _) | Self::LongDecimal(builder, _) => builder.append_null(),
            Self::Boolean(builder) => builder.append_null(),
            Self::Text(builder) => builder.append_null(),
            Self::Bytea(builder) => builder.append_null(),
            Self::Date(builder) => builder.append_null(),
            Self::Timestamp(builder) => builder.append_null(),
        }
    }

    /// Appends a value as the value part of a row stores it: little-endian, or the bytes themselves.
    pub(crate) fn stored(&mut self, bytes: &[u8]) -> Result<(), Flaw> {
        match self {
            Self::SmallInt(builder) => builder.append_value(fixed!(i16, bytes)),
            Self::Integer(builder) => builder.append_value(fixed!(i32, bytes)),
            Self::BigInt(builder) => builder.append_value(fixed!(i64, bytes)),
            Self::Real(builder) => builder.append_value(fixed!(f32, bytes)),
            Self::Double(builder) => builder.append_value(fixed!(f64, bytes)),
            Self::ShortDecimal(..) => return self.decimal(i128::from(fixed!(i64, bytes))),
            Self::LongDecimal(..) => return self.decimal(fixed!(i128, bytes)),
            Self::Boolean(_) => return self.boolean(fixed!(u8, bytes)),
            Self::Text(_) | Self::Bytea(_) => return self.bytes(bytes),
            Self::Date(builder) => builder.append_value(fixed!(i32, bytes)),
            Self::Timestamp(builder) => builder.append_value(fixed!(i64, bytes)),
        }
        Ok(())
    }

    /// Appends the unscaled value of a decimal that has no more digits than its column.
    pub(crate) fn decimal(&mut self, unscaled: i128) -> Result<(), Flaw> {
        match self {
            Self::ShortDecimal(builder, precision) | Self::LongDecimal(builder, precision) => {
                if !Decimal128Type::is_valid_decimal_precision(unscaled, *precision) {
                    return Err("a decimal of too many digits");
                }
                builder.append_value(unscaled);
                Ok(())
            }
            _ => Err("a decimal in a column of another type"),
        }
    }

    /// Appends 0 or 1.
    pub(crate) fn boolean(&mut self, byte: u8) -> Result<(), Flaw> {
        match (self, byte) {
            (Self::Boolean(builder), 0 | 1) => builder.append_value(byte == 1),
            _ => return Err("a boolean that is neither 0 nor 1"),
        }
        Ok(())
    }

    /// Appends text, which must be UTF-8, or bytes.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<(), Flaw> {
        let appended = match self {
            Self::Text(builder) => {
                builder.try_append_value(std::str::from_utf8(bytes).map_err(|_| "text that is not UTF-8")?)
            }
            Self::Bytea(builder) => builder.try_append_value(bytes),
            _ => return Err("bytes in a column of fixed width"),
        };
        appended.map_err(|_| "a value of more than two gigabytes")
    }

    /// The column so far; the sink is empty afterwards.
    pub(crate) fn finish(&mut self) -> ArrayRef {
        match self {
            Self::SmallInt(builder) => Arc::new(builder.finish()),
            Self::Integer(builder) => Arc::new(builder.finish()),
            Self::BigInt(builder) => Arc::new(builder.finish()),
            Self::Real(builder) => Arc::new(builder.finish()),
            Self::Double(builder) => Arc::new(builder.finish()),
            Self::ShortDecimal(builder, _) | Self::LongDecimal(builder, _) => Arc::new(builder.finish()),
            Self::Boolean(builder) => Arc::new(builder.finish()),
            Self::Text(builder) => Arc::new(builder.finish()),
            Self::Bytea(builder) => Arc::new(builder.finish()),
            Self::Date(builder) => Arc::new(builder.finish()),
            Self::Timestamp(builder) => Arc::new(builder.finish()),
        }
    }
}
