use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, BinaryViewArray, Date32Array, Decimal128Array, Float64Array, Int32Array, Int64Array,
    LargeStringArray, NullArray, RecordBatch, StringArray, StringViewArray,
};
use datafusion::common::ScalarValue;
use ishigaki_base::ErrorKind;
use proptest::prelude::*;

use super::sample::{batch, check, table, table_and_rows};
use super::*;
use crate::Error;
use crate::table::TableDefinition;
use crate::types::SqlType;

/// Keys and values of a batch, with counted row ids where there is no primary key.
fn stored(table: &Arc<TableDefinition>, batch: &RecordBatch) -> Vec<(Vec<u8>, Vec<u8>)> {
    let rows = RowEncoder::new(table.clone(), batch).expect("sound rows");
    (0..rows.len())
        .map(|row| {
            let (mut key, mut value) = (Vec::new(), vec![0xaa; 3]);
            rows.key(row, &mut key);
            if table.has_row_id() {
                key = row_key(row as u64).to_vec();
            }
            rows.value(row, &mut value).expect("a row of ordinary size");
            (key, value)
        })
        .collect()
}

fn one_column(sql_type: SqlType) -> Arc<TableDefinition> {
    table(vec![("c", sql_type, true)], vec![])
}

fn refused(sql_type: SqlType, array: impl Array + 'static) -> String {
    let error = cast(&one_column(sql_type), 0, &(Arc::new(array) as ArrayRef)).expect_err("must not be cast");
    assert_eq!(error.kind(), ErrorKind::Invalid);
    error.to_string()
}

#[test]
fn rows_read_back_as_they_were_written_in_any_projection() {
    let strategy = table_and_rows().prop_flat_map(|(table, batch)| {
        let positions: Vec<usize> = (0..table.columns().len()).collect();
        let projection = proptest::sample::subsequence(positions, 0..=table.columns().len()).prop_shuffle();
        (Just(table), Just(batch), projection, any::<bool>())
    });
    check("rows_read_back_as_they_were_written", strategy, |(table, batch, projection, with_key)| {
        let mut rows = RowDecoder::new(table.clone(), Some(&projection));
        if with_key {
            rows = rows.with_key();
        }
        let stored = stored(&table, &batch);
        for (key, value) in &stored {
            rows.push(key, value).unwrap();
        }
        prop_assert_eq!(rows.len(), batch.num_rows());
        let mut read = rows.finish().unwrap();
        prop_assert!(rows.is_empty());
        prop_assert_eq!(read.schema(), rows.schema());
        if with_key {
            let keys: BinaryViewArray = stored.iter().map(|(key, _)| Some(key)).collect();
            let read_keys = read.remove_column(projection.len());
            prop_assert_eq!(read_keys.as_ref(), &keys as &dyn Array);
        }
        prop_assert_eq!(read.num_rows(), batch.num_rows());
        prop_assert_eq!(read, batch.project(&projection).unwrap());
        Ok(())
    });
}

#[test]
fn damaged_rows_are_refused_or_read_but_never_panic() {
    let strategy = (table_and_rows(), any::<prop::sample::Index>(), any::<u8>(), any::<bool>(), any::<bool>());
    check("damaged_rows_are_refused_or_read", strategy, |((table, batch), at, byte, truncate, in_key)| {
        for (mut key, mut value) in stored(&table, &batch) {
            let damaged = if in_key { &mut key } else { &mut value };
            let at = at.index(damaged.len());
            if truncate {
                damaged.truncate(at);
            } else {
                damaged[at] = byte;
            }
            let mut rows = RowDecoder::new(table.clone(), None);
            if let Err(error) = rows.push(&key, &value).and_then(|()| rows.finish()) {
                prop_assert_eq!(error.kind(), ErrorKind::Corrupt);
            } else if truncate {
                prop_assert!(table.has_row_id() && in_key, "a truncated row was read");
            }
        }
        Ok(())
    });
}

#[test]
fn foreign_bytes_are_refused_or_read_but_never_panic() {
    let bytes = || prop::collection::vec(prop_oneof![Just(0_u8), Just(1), Just(2), any::<u8>()], 0..60);
    let strategy = (table_and_rows(), bytes(), bytes());
    check("foreign_bytes_are_refused_or_read", strategy, |((table, _), key, value)| {
        let mut rows = RowDecoder::new(table, None);
        if let Err(error) = rows.push(&key, &value).and_then(|()| rows.finish()) {
            prop_assert_eq!(error.kind(), ErrorKind::Corrupt);
        }
        Ok(())
    });
}

/// The example of `docs/format/rows.md`.
#[test]
fn a_row_has_the_bytes_that_the_format_says() {
    let columns = vec![
        ("id", SqlType::Integer, false),
        ("name", SqlType::Text { max_length: None }, true),
        ("price", SqlType::Decimal { precision: 10, scale: 2 }, true),
        ("note", SqlType::Text { max_length: None }, true),
    ];
    let table = table(columns, vec![0]);
    let row = vec![
        ScalarValue::Int32(Some(7)),
        ScalarValue::Utf8View(Some("ab".to_owned())),
        ScalarValue::Decimal128(Some(1_050), 10, 2),
        ScalarValue::Utf8View(None),
    ];
    let stored = stored(&table, &batch(&table, &[row]));
    let (key, value) = &stored[0];
    assert_eq!(key, &[0x80, 0, 0, 7]);
    let expected: &[u8] = &[
        1, // version
        3,
        0,           // columns
        0b0000_0100, // null bits: note
        0x1a,
        4,
        0,
        0,
        0,
        0,
        0,
        0, // price: 1050
        2,
        0,
        0,
        0, // name ends at 2
        2,
        0,
        0,
        0, // note ends at 2
        b'a',
        b'b', // name
    ];
    assert_eq!(value, expected);
}

#[test]
fn a_row_of_another_version_or_shape_is_refused() {
    let table = one_column(SqlType::Integer);
    let good = [1, 1, 0, 0, 5, 0, 0, 0];
    let read = |bytes: &[u8]| {
        let mut rows = RowDecoder::new(table.clone(), None);
        rows.push(&row_key(1), bytes).map_err(|error| error.to_string())
    };
    assert_eq!(read(&good), Ok(()));
    for (bytes, complaint) in [
        (&[2_u8, 1, 0, 0, 5, 0, 0, 0] as &[u8], "version"),
        (&[1, 2, 0, 0, 5, 0, 0, 0], "count of columns"),
        (&[1, 1, 0, 2, 5, 0, 0, 0], "null bits"),
        (&[1, 1, 0, 0, 5, 0, 0, 0, 0], "length"),
        (&good[..7], "ends before"),
        (&[1], "within its head"),
        (&[], "empty"),
    ] {
        let error = read(bytes).expect_err("must be refused");
        assert!(error.contains(complaint) && error.contains("table t"), "{error}");
    }
}

#[test]
fn a_key_that_is_not_one_is_refused() {
    let text = SqlType::Text { max_length: None };
    let table = table(vec![("a", text, false), ("b", SqlType::Boolean, false)], vec![0, 1]);
    let read = |key: &[u8]| {
        let mut rows = RowDecoder::new(table.clone(), None);
        rows.push(key, &[1, 0, 0]).map_err(|error| error.to_string())
    };
    assert_eq!(read(b"x\0\xffy\0\0\x01"), Ok(()));
    for (key, complaint) in [
        (b"x\0\0\x01\x01" as &[u8], "goes on behind"),
        (b"x\0\0\x02", "neither 0 nor 1"),
        (b"x\0\x01\0\0\x01", "unknown escape"),
        (b"\xff\0\0\x01", "UTF-8"),
        (b"x\0\0", "ends within"),
        (b"x\0", "ends within"),
        (b"x", "ends within"),
    ] {
        let error = read(key).expect_err("must be refused");
        assert!(error.contains(complaint) && error.contains("table t"), "{error}");
    }
}

#[test]
fn a_null_in_a_not_null_column_is_refused_by_writer_and_reader() {
    let strict = table(vec![("c", SqlType::Integer, false)], vec![]);
    let nulls = RecordBatch::try_from_iter([("x", Arc::new(NullArray::new(1)) as ArrayRef)]).unwrap();
    let error = RowEncoder::new(strict.clone(), &nulls).unwrap_err();
    assert!(matches!(&error, Error::NotNull { table, column } if table == "t" && column == "c"), "{error}");

    let lax = stored(&one_column(SqlType::Integer), &nulls);
    let mut rows = RowDecoder::new(strict, None);
    let read = rows.push(&lax[0].0, &lax[0].1).and_then(|()| rows.finish());
    assert_eq!(read.unwrap_err().kind(), ErrorKind::Corrupt);
}

#[test]
fn lengths_count_characters() {
    let table = one_column(SqlType::Text { max_length: Some(3) });
    let of = |text: &str| {
        let array: ArrayRef = Arc::new(StringArray::from(vec![Some("ok"), None, Some(text)]));
        RowEncoder::new(table.clone(), &RecordBatch::try_from_iter([("x", array)]).unwrap()).map(|rows| rows.len())
    };
    assert_eq!(of("石垣石").unwrap(), 3);
    let error = of("石垣石垣").unwrap_err().to_string();
    assert_eq!(error, "table t: '石垣石垣' does not fit column c of type VARCHAR(3)");
}

#[test]
fn casts_keep_meaning_or_name_the_value() {
    let number = SqlType::SmallInt;
    assert_eq!(refused(number, StringArray::from(vec!["1", "x"])), "table t: column c is SMALLINT, it cannot take 'x'");
    assert_eq!(
        refused(number, Int32Array::from(vec![1, 40_000])),
        "table t: 40000 does not fit column c of type SMALLINT"
    );
    assert!(refused(number, Float64Array::from(vec![f64::NAN])).contains("NaN does not fit"));
    assert!(refused(SqlType::Date, Int64Array::from(vec![5])).contains("column c is DATE, it cannot take 5"));
    assert!(refused(number, Date32Array::from(vec![5])).contains("cannot take '1970-01-06' of type Date32"));
    let money = Decimal128Array::from(vec![12_345]).with_precision_and_scale(10, 2).unwrap();
    let tight = SqlType::Decimal { precision: 4, scale: 2 };
    assert_eq!(refused(tight, money), "table t: 123.45 does not fit column c of type DECIMAL(4, 2)");
}

#[test]
fn every_type_is_read_from_text_and_shown_as_text() {
    let decimal = SqlType::Decimal { precision: 20, scale: 2 };
    let text = SqlType::Text { max_length: None };
    for (sql_type, shown) in [
        (SqlType::SmallInt, "-7"),
        (SqlType::Integer, "7"),
        (SqlType::BigInt, "7"),
        (SqlType::Real, "1.5"),
        (SqlType::Double, "1.5"),
        (decimal, "1.50"),
        (SqlType::Boolean, "true"),
        (text, "x"),
        (SqlType::Bytea, "x"),
        (SqlType::Date, "2024-02-29"),
        (SqlType::Timestamp, "2024-02-29 12:00:00.000001"),
    ] {
        let texts = [Some(shown), None];
        let arrays: [ArrayRef; 3] = [
            Arc::new(StringArray::from_iter(texts)),
            Arc::new(LargeStringArray::from_iter(texts)),
            Arc::new(StringViewArray::from_iter(texts)),
        ];
        for array in &arrays {
            let values = cast(&one_column(sql_type), 0, array).unwrap();
            assert_eq!(*values.data_type(), sql_type.arrow());
            assert_eq!(values.null_count(), 1);
            assert_eq!(&cast(&one_column(text), 0, &values).unwrap(), &arrays[2], "{sql_type}");
        }
    }
}

#[test]
fn fractions_are_rounded_for_integer_columns() {
    let whole = |array: ArrayRef| cast(&one_column(SqlType::Integer), 0, &array).unwrap();
    let expected: ArrayRef = Arc::new(Int32Array::from(vec![Some(2), Some(-2), None]));
    assert_eq!(&whole(Arc::new(Float64Array::from(vec![Some(1.6), Some(-1.6), None]))), &expected);
    let decimals = Decimal128Array::from(vec![Some(160), Some(-160), None]).with_precision_and_scale(10, 2).unwrap();
    assert_eq!(&whole(Arc::new(decimals)), &expected);
}

#[test]
fn a_duplicate_names_table_columns_and_values() {
    let table =
        table(vec![("a", SqlType::Integer, false), ("b", SqlType::Text { max_length: None }, false)], vec![1, 0]);
    let row = vec![ScalarValue::Int32(Some(7)), ScalarValue::Utf8View(Some("x".to_owned()))];
    let rows = RowEncoder::new(table.clone(), &batch(&table, &[row])).unwrap();
    assert_eq!(rows.duplicate(0).to_string(), "table t: duplicate key (b, a) = ('x', 7)");
    let mut key = Vec::new();
    rows.key(0, &mut key);
    assert_eq!(crate::key::describe(&table, &key), "('x', 7)");
}

#[test]
fn a_batch_of_another_width_is_refused() {
    let one: ArrayRef = Arc::new(Int32Array::from(vec![1]));
    let two = RecordBatch::try_from_iter([("x", one.clone()), ("y", one)]).unwrap();
    let error = RowEncoder::new(one_column(SqlType::Integer), &two).unwrap_err();
    assert_eq!(error.to_string(), "table t: 2 values for 1 columns");
}
