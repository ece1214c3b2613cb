//! Random rows of every type that pages hold, and batches read back whole.

#![allow(dead_code, reason = "each test takes what it needs")]

use std::sync::Arc;

use arrow_array::types as arrow;
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, BinaryArray, BinaryViewArray, BooleanArray, LargeBinaryArray};
use arrow_array::{LargeStringArray, PrimitiveArray, RecordBatch, StringArray, StringViewArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use arrow_select::concat::concat_batches;
use fastrand::Rng;
use ishigaki_base::ByteSize;
use ishigaki_base::random::Seed;
use ishigaki_page::{Reader, Settings};

/// All types that pages hold.
pub(crate) fn types() -> Vec<DataType> {
    use DataType as D;
    let units = [TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Microsecond, TimeUnit::Nanosecond];
    let mut types = vec![
        D::Boolean,
        D::Int8,
        D::Int16,
        D::Int32,
        D::Int64,
        D::UInt8,
        D::UInt16,
        D::UInt32,
        D::UInt64,
        D::Float32,
        D::Float64,
        D::Decimal128(15, 2),
        D::Decimal128(38, -3),
        D::Date32,
        D::Date64,
        D::Time32(TimeUnit::Second),
        D::Time32(TimeUnit::Millisecond),
        D::Time64(TimeUnit::Microsecond),
        D::Time64(TimeUnit::Nanosecond),
        D::Utf8,
        D::LargeUtf8,
        D::Utf8View,
        D::Binary,
        D::LargeBinary,
        D::BinaryView,
    ];
    types.extend(units.map(|unit| D::Timestamp(unit, None)));
    types.extend(units.map(|unit| D::Timestamp(unit, Some("Asia/Tokyo".into()))));
    types
}

/// A column of each of the types, called as the type is, all nullable.
pub(crate) fn schema_of(types: &[DataType]) -> SchemaRef {
    let fields: Vec<_> =
        types.iter().map(|data_type| Field::new(data_type.to_string(), data_type.clone(), true)).collect();
    Arc::new(Schema::new(fields))
}

/// A random batch.
pub(crate) fn batch(schema: &SchemaRef, rows: usize, rng: &mut Rng) -> RecordBatch {
    let columns = schema.fields().iter().map(|field| column(field.data_type(), rows, rng)).collect();
    RecordBatch::try_new(schema.clone(), columns).expect("as the schema says")
}

/// A random column: its numbers near or far from each other, its strings few or many, with none, some or only nulls;
/// sometimes the middle of a longer one.
pub(crate) fn column(data_type: &DataType, rows: usize, rng: &mut Rng) -> ArrayRef {
    let before = if rng.bool() { rng.usize(..20) } else { 0 };
    let whole = whole_column(data_type, before + rows + 3, rng);
    whole.slice(before, rows)
}

fn whole_column(data_type: &DataType, rows: usize, rng: &mut Rng) -> ArrayRef {
    use DataType as D;
    let nulls = *rng.choice(&[0.0, 0.0, 0.01, 0.5, 1.0]).expect("there are some");
    let mut valid: Vec<bool> = (0..rows).map(|_| rng.f64() >= nulls).collect();
    if rng.bool() {
        // Nulls in a row.
        valid.sort_unstable();
    }
    let bits = rng.u32(0..=128);
    let spread = if bits == 128 { u128::MAX } else { (1 << bits) - 1 };
    let base = rng.u128(..);
    // Wrapped to the size of the type, they may lie on both sides of its end.
    let mut number = |row: usize| valid[row].then(|| base.wrapping_add(rng.u128(..) & spread));
    macro_rules! numbers {
        ($T:ty) => {
            fixed::<$T>(
                data_type,
                (0..rows).map(|row| number(row).map(|number| number as <$T as ArrowPrimitiveType>::Native)),
            )
        };
    }
    match data_type {
        D::Boolean => {
            Arc::new((0..rows).map(|row| number(row).map(|number| number & 1 == 1)).collect::<BooleanArray>())
        }
        D::Int8 => numbers!(arrow::Int8Type),
        D::Int16 => numbers!(arrow::Int16Type),
        D::Int32 => numbers!(arrow::Int32Type),
        D::Int64 => numbers!(arrow::Int64Type),
        D::UInt8 => numbers!(arrow::UInt8Type),
        D::UInt16 => numbers!(arrow::UInt16Type),
        D::UInt32 => numbers!(arrow::UInt32Type),
        D::UInt64 => numbers!(arrow::UInt64Type),
        D::Float32 => fixed::<arrow::Float32Type>(
            data_type,
            (0..rows).map(|row| number(row).map(|number| f32::from_bits(number as u32))),
        ),
        D::Float64 => fixed::<arrow::Float64Type>(
            data_type,
            (0..rows).map(|row| number(row).map(|number| f64::from_bits(number as u64))),
        ),
        D::Decimal128(..) => numbers!(arrow::Decimal128Type),
        D::Date32 => numbers!(arrow::Date32Type),
        D::Date64 => numbers!(arrow::Date64Type),
        D::Time32(TimeUnit::Second) => numbers!(arrow::Time32SecondType),
        D::Time32(_) => numbers!(arrow::Time32MillisecondType),
        D::Time64(TimeUnit::Microsecond) => numbers!(arrow::Time64MicrosecondType),
        D::Time64(_) => numbers!(arrow::Time64NanosecondType),
        D::Timestamp(TimeUnit::Second, _) => numbers!(arrow::TimestampSecondType),
        D::Timestamp(TimeUnit::Millisecond, _) => numbers!(arrow::TimestampMillisecondType),
        D::Timestamp(TimeUnit::Microsecond, _) => numbers!(arrow::TimestampMicrosecondType),
        D::Timestamp(TimeUnit::Nanosecond, _) => numbers!(arrow::TimestampNanosecondType),
        _ => strings(data_type, &valid, rng),
    }
}

fn fixed<T: ArrowPrimitiveType>(data_type: &DataType, values: impl Iterator<Item = Option<T::Native>>) -> ArrayRef {
    let values: Vec<_> = values.collect();
    // Anything may stand where a null is.
    let nulls = values.iter().map(Option::is_some).collect::<Vec<_>>().into();
    let values: Vec<_> = values.into_iter().map(Option::unwrap_or_default).collect();
    Arc::new(PrimitiveArray::<T>::new(values.into(), Some(nulls)).with_data_type(data_type.clone()))
}

fn strings(data_type: &DataType, valid: &[bool], rng: &mut Rng) -> ArrayRef {
    let longest = *rng.choice(&[0, 3, 12, 40, 90]).expect("there are some");
    let different = *rng.choice(&[1, 2, 30, usize::MAX]).expect("there are some");
    let letters: Vec<char> = ['a', 'b', 'z', 'ß', '石', '🪨', '\u{0}'].into();
    let mut known: Vec<String> = Vec::new();
    let texts: Vec<Option<String>> = valid
        .iter()
        .map(|&valid| {
            let text = if known.len() < different {
                let length = rng.usize(..=longest);
                let text: String = (0..length).map(|_| *rng.choice(&letters).expect("there are some")).collect();
                known.push(text.clone());
                text
            } else {
                rng.choice(&known).expect("there are some").clone()
            };
            valid.then_some(text)
        })
        .collect();
    // Bytes that are no text.
    let bytes = || texts.iter().map(|text| text.as_ref().map(|text| [text.as_bytes(), &[0xff]].concat()));
    match data_type {
        DataType::Utf8 => Arc::new(texts.into_iter().collect::<StringArray>()),
        DataType::LargeUtf8 => Arc::new(texts.into_iter().collect::<LargeStringArray>()),
        DataType::Utf8View => Arc::new(texts.into_iter().collect::<StringViewArray>()),
        DataType::Binary => Arc::new(bytes().collect::<BinaryArray>()),
        DataType::LargeBinary => Arc::new(bytes().collect::<LargeBinaryArray>()),
        DataType::BinaryView => Arc::new(bytes().collect::<BinaryViewArray>()),
        other => panic!("{other} is not among the types"),
    }
}

/// Settings with small pages and segments.
pub(crate) fn small(page_size: u64, segment: u64, seed: Seed) -> Settings {
    Settings { page_size: ByteSize(page_size), segment: ByteSize(segment), seed }
}

/// All rows of all pages, each page verified.
pub(crate) fn read_all(reader: &Reader) -> ishigaki_page::Result<RecordBatch> {
    let projection: Vec<usize> = (0..reader.schema().fields().len()).collect();
    let mut decoder = reader.decoder(&projection)?;
    let mut batches = vec![decoder.finish()?];
    for number in 0..reader.pages() {
        let page = reader.page(number)?;
        page.verify()?;
        decoder.push(&page)?;
        // Some pages alone, some together.
        if number % 3 != 1 {
            batches.push(decoder.finish()?);
        }
    }
    batches.push(decoder.finish()?);
    Ok(concat_batches(reader.schema(), &batches).expect("they have one schema"))
}

/// Fails if two batches do not have equal columns.
pub(crate) fn assert_equal(left: &RecordBatch, right: &RecordBatch, what: &str) {
    assert_eq!(left.num_rows(), right.num_rows(), "{what}: rows");
    for (index, (one, other)) in left.columns().iter().zip(right.columns()).enumerate() {
        assert_eq!(one.data_type(), other.data_type(), "{what}: column {index}");
        // Compared bit by bit, so that a NaN equals itself.
        let bits = |array: &ArrayRef| -> Vec<Option<u64>> {
            use arrow_array::cast::AsArray;
            match array.data_type() {
                DataType::Float32 => {
                    array.as_primitive::<arrow::Float32Type>().iter().map(|v| v.map(|v| v.to_bits().into())).collect()
                }
                DataType::Float64 => {
                    array.as_primitive::<arrow::Float64Type>().iter().map(|v| v.map(f64::to_bits)).collect()
                }
                _ => Vec::new(),
            }
        };
        if one.data_type().is_floating() {
            assert!(bits(one) == bits(other), "{what}: column {index}");
        } else {
            assert!(one == other, "{what}: column {index} ({})", one.data_type());
        }
    }
}
