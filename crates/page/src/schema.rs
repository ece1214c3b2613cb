//! Which columns a page file can have, and how its manifest says so.
//!
//! Own bytes instead of Arrow's own messages: a page file holds few types, and whoever reads them must never fail on
//! damaged ones.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};

use crate::column::gauge_of;
use crate::error::{Error, Refusal, Result};

/// The most columns a file can have.
pub(crate) const MAX_COLUMNS: usize = 4096;

/// Refuses a schema that pages can not hold.
pub(crate) fn check(file: &str, schema: &Schema) -> Result<()> {
    let invalid = |reason: String| Error::Invalid { file: file.to_owned(), reason };
    if schema.fields().is_empty() || schema.fields().len() > MAX_COLUMNS {
        return Err(invalid(format!("a page file has 1 to {MAX_COLUMNS} columns, not {}", schema.fields().len())));
    }
    for field in schema.fields() {
        let data_type = field.data_type();
        if gauge_of(data_type).is_none() || tag(data_type).is_none() {
            return Err(Error::Unsupported { column: field.name().clone(), data_type: data_type.to_string() });
        }
    }
    Ok(())
}

/// The number that stands for a type, and what the type says beside it.
fn tag(data_type: &DataType) -> Option<(u8, [u8; 2], Option<&str>)> {
    use DataType as D;
    let plain = |tag| Some((tag, [0, 0], None));
    match data_type {
        D::Boolean => plain(1),
        D::Int8 => plain(2),
        D::Int16 => plain(3),
        D::Int32 => plain(4),
        D::Int64 => plain(5),
        D::UInt8 => plain(6),
        D::UInt16 => plain(7),
        D::UInt32 => plain(8),
        D::UInt64 => plain(9),
        D::Float32 => plain(10),
        D::Float64 => plain(11),
        D::Decimal128(precision, scale) => Some((12, [*precision, *scale as u8], None)),
        D::Date32 => plain(13),
        D::Date64 => plain(14),
        D::Time32(unit) | D::Time64(unit) => Some((15, [unit_tag(*unit), 0], None)),
        D::Timestamp(unit, zone) => Some((16, [unit_tag(*unit), u8::from(zone.is_some())], zone.as_deref())),
        D::Utf8 => plain(17),
        D::LargeUtf8 => plain(18),
        D::Utf8View => plain(19),
        D::Binary => plain(20),
        D::LargeBinary => plain(21),
        D::BinaryView => plain(22),
        _ => None,
    }
}

fn unit_tag(unit: TimeUnit) -> u8 {
    match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 1,
        TimeUnit::Microsecond => 2,
        TimeUnit::Nanosecond => 3,
    }
}

fn unit_of(tag: u8) -> Option<TimeUnit> {
    Some(match tag {
        0 => TimeUnit::Second,
        1 => TimeUnit::Millisecond,
        2 => TimeUnit::Microsecond,
        3 => TimeUnit::Nanosecond,
        _ => return None,
    })
}

fn untag(tag: u8, [first, second]: [u8; 2], zone: Option<&str>) -> Option<DataType> {
    use DataType as D;
    Some(match tag {
        1 => D::Boolean,
        2 => D::Int8,
        3 => D::Int16,
        4 => D::Int32,
        5 => D::Int64,
        6 => D::UInt8,
        7 => D::UInt16,
        8 => D::UInt32,
        9 => D::UInt64,
        10 => D::Float32,
        11 => D::Float64,
        12 if (1..=38).contains(&first) && i16::from(second as i8) <= i16::from(first) => {
            D::Decimal128(first, second as i8)
        }
        13 => D::Date32,
        14 => D::Date64,
        15 => match unit_of(first)? {
            unit @ (TimeUnit::Second | TimeUnit::Millisecond) => D::Time32(unit),
            unit => D::Time64(unit),
        },
        16 => D::Timestamp(unit_of(first)?, zone.map(Arc::from)),
        17 => D::Utf8,
        18 => D::LargeUtf8,
        19 => D::Utf8View,
        20 => D::Binary,
        21 => D::LargeBinary,
        22 => D::BinaryView,
        _ => return None,
    })
}

/// Appends a schema that [`check`] has passed.
pub(crate) fn encode(schema: &Schema, out: &mut Vec<u8>) {
    out.extend_from_slice(&(schema.fields().len() as u16).to_le_bytes());
    encode_metadata(schema.metadata(), out);
    for field in schema.fields() {
        let (tag, extra, zone) = tag(field.data_type()).unwrap_or_default();
        out.extend_from_slice(&[tag, extra[0], extra[1], u8::from(field.is_nullable())]);
        encode_text(field.name(), out);
        encode_text(zone.unwrap_or_default(), out);
        encode_metadata(field.metadata(), out);
    }
}

fn encode_metadata(metadata: &HashMap<String, String>, out: &mut Vec<u8>) {
    let mut pairs: Vec<_> = metadata.iter().collect();
    pairs.sort_unstable();
    out.extend_from_slice(&(pairs.len() as u32).to_le_bytes());
    for (key, value) in pairs {
        encode_text(key, out);
        encode_text(value, out);
    }
}

fn encode_text(text: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(&(text.len() as u32).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

/// Reads what is encoded one after the other.
pub(crate) struct Cursor<'a>(pub(crate) &'a [u8]);

impl<'a> Cursor<'a> {
    pub(crate) fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn text(&mut self) -> Option<&'a str> {
        let length = self.u32()?;
        std::str::from_utf8(self.take(length as usize)?).ok()
    }

    fn metadata(&mut self) -> Option<HashMap<String, String>> {
        let count = self.u32()?;
        (0..count).map(|_| Some((self.text()?.to_owned(), self.text()?.to_owned()))).collect()
    }

    fn field(&mut self) -> Option<Field> {
        let [tag, first, second, nullable] = self.array()?;
        let (name, zone) = (self.text()?, self.text()?);
        let zone = (tag == 16 && second == 1).then_some(zone);
        let field = Field::new(name, untag(tag, [first, second], zone)?, nullable == 1);
        Some(field.with_metadata(self.metadata()?))
    }

    /// A schema.
    pub(crate) fn schema(&mut self) -> Result<SchemaRef, Refusal> {
        let mut read = || {
            let count = usize::from(u16::from_le_bytes(self.array()?));
            let metadata = self.metadata()?;
            let fields: Vec<Field> = (0..count).map(|_| self.field()).collect::<Option<_>>()?;
            let known = (1..=MAX_COLUMNS).contains(&count);
            known.then(|| Arc::new(Schema::new_with_metadata(fields, metadata)))
        };
        read().ok_or("its schema can not be read")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_reads_back_with_zones_and_metadata() {
        let pairs =
            |text: &str| HashMap::from([(text.to_owned(), "1".to_owned()), ("zwei".to_owned(), "2".to_owned())]);
        let zone = |name: &str| DataType::Timestamp(TimeUnit::Nanosecond, Some(name.into()));
        let fields = vec![
            Field::new("a", DataType::Decimal128(15, -2), false).with_metadata(pairs("field")),
            Field::new("石", zone("Asia/Tokyo"), true),
            Field::new("", zone(""), true),
            Field::new("t", DataType::Time64(TimeUnit::Nanosecond), true),
        ];
        let schema = Schema::new_with_metadata(fields, pairs("schema"));
        check("f", &schema).expect("all of these are held");
        let mut bytes = Vec::new();
        encode(&schema, &mut bytes);
        assert_eq!(*Cursor(&bytes).schema().expect("sound"), schema);
        for length in 0..bytes.len() {
            assert!(Cursor(&bytes[..length]).schema().is_err(), "cut to {length}");
        }
    }

    #[test]
    fn types_that_pages_do_not_hold_are_refused_by_name() {
        for data_type in
            [DataType::Float16, DataType::Null, DataType::new_list(DataType::Int8, true), DataType::Decimal256(50, 2)]
        {
            let schema = Schema::new(vec![Field::new("c", data_type.clone(), true)]);
            match check("f", &schema) {
                Err(Error::Unsupported { column, data_type: named }) => {
                    assert_eq!((column, named), ("c".into(), data_type.to_string()));
                }
                other => panic!("{data_type}: {other:?}"),
            }
        }
    }
}
