//! Types of columns, and constants: a closed set, as what page files can hold.
//!
//! Arrow has a format for this, too. Its reader believes lengths that it reads, which is nothing for a node.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use datafusion::common::ScalarValue;

use super::wire::{self, Cursor, MOST};
use super::{NotPushable, Refused};

/// Types without anything more to say, by their numbers; the others follow behind them.
const PLAIN: [DataType; 21] = [
    DataType::Null,
    DataType::Boolean,
    DataType::Int8,
    DataType::Int16,
    DataType::Int32,
    DataType::Int64,
    DataType::UInt8,
    DataType::UInt16,
    DataType::UInt32,
    DataType::UInt64,
    DataType::Float32,
    DataType::Float64,
    DataType::Date32,
    DataType::Utf8,
    DataType::LargeUtf8,
    DataType::Utf8View,
    DataType::Timestamp(TimeUnit::Second, None),
    DataType::Timestamp(TimeUnit::Millisecond, None),
    DataType::Timestamp(TimeUnit::Microsecond, None),
    DataType::Timestamp(TimeUnit::Nanosecond, None),
    DataType::BinaryView,
];
const DECIMAL: u8 = PLAIN.len() as u8;

/// Constants of a fragment, by their numbers. A type is kept as a NULL of it.
#[derive(Debug, Default)]
pub(super) struct Constants(Vec<ScalarValue>);

impl Constants {
    /// The number of a constant, which is kept if it is new.
    pub(super) fn number(&mut self, value: &ScalarValue) -> usize {
        if let Some(known) = self.0.iter().position(|known| known == value && known.data_type() == value.data_type()) {
            return known;
        }
        self.0.push(value.clone());
        self.0.len() - 1
    }

    pub(super) fn number_of_type(&mut self, data_type: &DataType) -> usize {
        match ScalarValue::try_new_null(data_type) {
            Ok(null) => self.number(&null),
            // Of no file and no expression here; the number is that of no constant, which the node refuses.
            Err(_) => usize::MAX,
        }
    }

    pub(super) fn get(&self, number: usize) -> Result<&ScalarValue, Refused> {
        self.0.get(number).ok_or_else(|| Refused::because("there is no such constant"))
    }

    pub(super) fn encode(&self, to: &mut Vec<u8>) -> Result<(), NotPushable> {
        if self.0.len() > MOST {
            return Err(NotPushable(format!("{} constants", self.0.len())));
        }
        wire::put_count(to, self.0.len());
        self.0.iter().try_for_each(|value| put_value(to, value))
    }

    pub(super) fn decode(from: &mut Cursor<'_>) -> Result<Self, Refused> {
        from.list(MOST, value).map(Self)
    }
}

/// Names and types of columns.
pub(super) fn put_columns(to: &mut Vec<u8>, schema: &Schema) -> Result<(), NotPushable> {
    wire::put_count(to, schema.fields().len());
    schema.fields().iter().try_for_each(|field| {
        wire::put_text(to, field.name());
        to.push(field.is_nullable().into());
        put_type(to, field.data_type())
    })
}

pub(super) fn columns(from: &mut Cursor<'_>) -> Result<SchemaRef, Refused> {
    let field = |from: &mut Cursor<'_>| {
        let (name, nullable) = (from.text()?.to_owned(), from.flag()?);
        Ok(Field::new(name, data_type(from)?, nullable))
    };
    Ok(Arc::new(Schema::new(from.list(MOST, field)?)))
}

fn put_type(to: &mut Vec<u8>, data_type: &DataType) -> Result<(), NotPushable> {
    if let DataType::Decimal128(precision, scale) = data_type {
        to.extend_from_slice(&[DECIMAL, *precision, scale.cast_unsigned()]);
        return Ok(());
    }
    let number = PLAIN.iter().position(|known| known == data_type);
    to.push(number.ok_or_else(|| NotPushable(format!("the type {data_type}")))? as u8);
    Ok(())
}

fn data_type(from: &mut Cursor<'_>) -> Result<DataType, Refused> {
    let number = from.u8()?;
    if number == DECIMAL {
        let (precision, scale) = (from.u8()?, from.u8()?.cast_signed());
        let sound = (1..=38).contains(&precision) && (0..=precision.cast_signed()).contains(&scale);
        return if sound {
            Ok(DataType::Decimal128(precision, scale))
        } else {
            Err(Refused::because("an odd decimal"))
        };
    }
    PLAIN.get(usize::from(number)).cloned().ok_or_else(|| Refused::because("there is no such type"))
}

/// A type, whether it is no NULL, and then 16 bytes of number or a text.
fn put_value(to: &mut Vec<u8>, value: &ScalarValue) -> Result<(), NotPushable> {
    put_type(to, &value.data_type())?;
    to.push((!value.is_null()).into());
    if value.is_null() {
        return Ok(());
    }
    let number: i128 = match value {
        ScalarValue::Utf8(Some(text)) | ScalarValue::LargeUtf8(Some(text)) | ScalarValue::Utf8View(Some(text)) => {
            wire::put_text(to, text);
            return Ok(());
        }
        ScalarValue::Boolean(Some(value)) => i128::from(*value),
        ScalarValue::Int8(Some(value)) => i128::from(*value),
        ScalarValue::Int16(Some(value)) => i128::from(*value),
        ScalarValue::Int32(Some(value)) | ScalarValue::Date32(Some(value)) => i128::from(*value),
        ScalarValue::Int64(Some(value))
        | ScalarValue::TimestampSecond(Some(value), None)
        | ScalarValue::TimestampMillisecond(Some(value), None)
        | ScalarValue::TimestampMicrosecond(Some(value), None)
        | ScalarValue::TimestampNanosecond(Some(value), None) => i128::from(*value),
        ScalarValue::UInt8(Some(value)) => i128::from(*value),
        ScalarValue::UInt16(Some(value)) => i128::from(*value),
        ScalarValue::UInt32(Some(value)) => i128::from(*value),
        ScalarValue::UInt64(Some(value)) => i128::from(*value),
        ScalarValue::Float32(Some(value)) => i128::from(value.to_bits()),
        ScalarValue::Float64(Some(value)) => i128::from(value.to_bits()),
        ScalarValue::Decimal128(Some(value), ..) => *value,
        other => return Err(NotPushable(format!("the constant {other}"))),
    };
    to.extend_from_slice(&number.to_le_bytes());
    Ok(())
}

fn value(from: &mut Cursor<'_>) -> Result<ScalarValue, Refused> {
    let of = data_type(from)?;
    if !from.flag()? {
        return ScalarValue::try_new_null(&of).map_err(|error| Refused::because(error.to_string()));
    }
    match of {
        DataType::Utf8 => return Ok(ScalarValue::Utf8(Some(from.text()?.to_owned()))),
        DataType::LargeUtf8 => return Ok(ScalarValue::LargeUtf8(Some(from.text()?.to_owned()))),
        DataType::Utf8View => return Ok(ScalarValue::Utf8View(Some(from.text()?.to_owned()))),
        _ => {}
    }
    let number = from.i128()?;
    let odd = |_| Refused::because("a constant that is none of its type");
    let instant = || i64::try_from(number).map_err(odd);
    Ok(match of {
        DataType::Boolean => ScalarValue::Boolean(Some(u8::try_from(number).map_err(odd)? != 0)),
        DataType::Int8 => ScalarValue::Int8(Some(number.try_into().map_err(odd)?)),
        DataType::Int16 => ScalarValue::Int16(Some(number.try_into().map_err(odd)?)),
        DataType::Int32 => ScalarValue::Int32(Some(number.try_into().map_err(odd)?)),
        DataType::Int64 => ScalarValue::Int64(Some(instant()?)),
        DataType::UInt8 => ScalarValue::UInt8(Some(number.try_into().map_err(odd)?)),
        DataType::UInt16 => ScalarValue::UInt16(Some(number.try_into().map_err(odd)?)),
        DataType::UInt32 => ScalarValue::UInt32(Some(number.try_into().map_err(odd)?)),
        DataType::UInt64 => ScalarValue::UInt64(Some(number.try_into().map_err(odd)?)),
        DataType::Float32 => ScalarValue::Float32(Some(f32::from_bits(number.try_into().map_err(odd)?))),
        DataType::Float64 => ScalarValue::Float64(Some(f64::from_bits(number.try_into().map_err(odd)?))),
        DataType::Date32 => ScalarValue::Date32(Some(number.try_into().map_err(odd)?)),
        DataType::Timestamp(TimeUnit::Second, _) => ScalarValue::TimestampSecond(Some(instant()?), None),
        DataType::Timestamp(TimeUnit::Millisecond, _) => ScalarValue::TimestampMillisecond(Some(instant()?), None),
        DataType::Timestamp(TimeUnit::Microsecond, _) => ScalarValue::TimestampMicrosecond(Some(instant()?), None),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => ScalarValue::TimestampNanosecond(Some(instant()?), None),
        DataType::Decimal128(precision, scale) => ScalarValue::Decimal128(Some(number), precision, scale),
        _ => return Err(Refused::because("a constant of a type that has none")),
    })
}
