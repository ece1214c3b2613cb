//! Random tables and values for tests, with a liking for the edges of every type.

use std::fmt::Debug;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::common::ScalarValue;
use ishigaki_txn::TableId;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestCaseResult, TestError, TestRunner};

use crate::table::{Column, TableDefinition};
use crate::types::SqlType;

/// Runs a property test under a seed that replays.
pub(crate) fn check<S: Strategy>(name: &str, strategy: S, test: impl Fn(S::Value) -> TestCaseResult)
where
    S::Value: Debug,
{
    ishigaki_testkit::seeded(name, |seed| {
        let config = Config { rng_seed: RngSeed::Fixed(seed.0), failure_persistence: None, ..Config::default() };
        match TestRunner::new(config).run(&strategy, test) {
            Ok(()) => {}
            Err(TestError::Fail(reason, value)) => panic!("{reason}\nsmallest failing input: {value:#?}"),
            Err(TestError::Abort(reason)) => panic!("{reason}"),
        }
    });
}

/// A table of the given columns.
pub(crate) fn table(columns: Vec<(&str, SqlType, bool)>, primary_key: Vec<usize>) -> Arc<TableDefinition> {
    let columns = columns
        .into_iter()
        .map(|(name, sql_type, nullable)| Column { name: name.to_owned(), sql_type, nullable, default: None })
        .collect();
    Arc::new(TableDefinition::new(TableId(1), "t".to_owned(), columns, primary_key).expect("a sound definition"))
}

pub(crate) fn any_type() -> impl Strategy<Value = SqlType> {
    prop_oneof![
        Just(SqlType::SmallInt),
        Just(SqlType::Integer),
        Just(SqlType::BigInt),
        Just(SqlType::Real),
        Just(SqlType::Double),
        (1..=38_u8)
            .prop_flat_map(|precision| (Just(precision), 0..=precision))
            .prop_map(|(precision, scale)| { SqlType::Decimal { precision, scale } }),
        Just(SqlType::Boolean),
        Just(SqlType::Text { max_length: None }),
        Just(SqlType::Text { max_length: Some(4) }),
        Just(SqlType::Bytea),
        Just(SqlType::Date),
        Just(SqlType::Timestamp),
    ]
}

/// A value that is not NULL. Floating-point numbers are the ones a key can give back: one zero, one NaN.
pub(crate) fn value(sql_type: SqlType) -> BoxedStrategy<ScalarValue> {
    match sql_type {
        SqlType::SmallInt => {
            integer(i64::from(i16::MIN), i64::from(i16::MAX)).prop_map(|v| ScalarValue::Int16(Some(v as i16))).boxed()
        }
        SqlType::Integer => {
            integer(i64::from(i32::MIN), i64::from(i32::MAX)).prop_map(|v| ScalarValue::Int32(Some(v as i32))).boxed()
        }
        SqlType::BigInt => integer(i64::MIN, i64::MAX).prop_map(|v| ScalarValue::Int64(Some(v))).boxed(),
        SqlType::Real => double().prop_map(|v| ScalarValue::Float32(Some(v as f32 + 0.0))).boxed(),
        SqlType::Double => double().prop_map(|v| ScalarValue::Float64(Some(v))).boxed(),
        SqlType::Decimal { precision, scale } => {
            let limit = 10_i128.pow(u32::from(precision)) - 1;
            prop_oneof![-limit..=limit, -2..=2_i128, Just(limit), Just(-limit)]
                .prop_map(move |v| ScalarValue::Decimal128(Some(v.clamp(-limit, limit)), precision, scale as i8))
                .boxed()
        }
        SqlType::Boolean => any::<bool>().prop_map(|v| ScalarValue::Boolean(Some(v))).boxed(),
        SqlType::Text { max_length } => vec(letter(), 0..=max_length.unwrap_or(20) as usize)
            .prop_map(|letters| ScalarValue::Utf8View(Some(letters.into_iter().collect())))
            .boxed(),
        SqlType::Bytea => vec(prop_oneof![Just(0_u8), Just(1), Just(0xff), any::<u8>()], 0..20)
            .prop_map(|bytes| ScalarValue::BinaryView(Some(bytes)))
            .boxed(),
        SqlType::Date => {
            integer(i64::from(i32::MIN), i64::from(i32::MAX)).prop_map(|v| ScalarValue::Date32(Some(v as i32))).boxed()
        }
        SqlType::Timestamp => {
            integer(i64::MIN, i64::MAX).prop_map(|v| ScalarValue::TimestampMicrosecond(Some(v), None)).boxed()
        }
    }
}

fn integer(min: i64, max: i64) -> impl Strategy<Value = i64> {
    prop_oneof![min..=max, -2..=2_i64, Just(min), Just(max)]
}

fn double() -> impl Strategy<Value = f64> {
    prop_oneof![
        any::<f64>().prop_map(|v| if v.is_nan() { f64::NAN } else { v + 0.0 }),
        Just(0.0),
        Just(f64::INFINITY),
        Just(f64::NEG_INFINITY),
        Just(f64::NAN),
        -2.0..2.0_f64,
    ]
}

fn letter() -> impl Strategy<Value = char> {
    prop_oneof![Just('\0'), Just('\u{1}'), Just('a'), Just('b'), Just('石'), any::<char>()]
}

/// A table of one to ten columns, some of them a primary key or none, and up to ten rows for it.
pub(crate) fn table_and_rows() -> impl Strategy<Value = (Arc<TableDefinition>, RecordBatch)> {
    vec((any_type(), any::<bool>()), 1..10)
        .prop_flat_map(|columns| {
            let positions: Vec<usize> = (0..columns.len()).collect();
            let key = proptest::sample::subsequence(positions, 0..=columns.len().min(3)).prop_shuffle();
            (Just(columns), key)
        })
        .prop_flat_map(|(columns, key)| {
            let names: Vec<_> = (0..columns.len()).map(|position| format!("c{position}")).collect();
            let table = table(
                names
                    .iter()
                    .zip(&columns)
                    .map(|(name, (sql_type, nullable))| (name.as_str(), *sql_type, *nullable))
                    .collect(),
                key,
            );
            let row: Vec<_> = table.columns().iter().map(cell).collect();
            (Just(table), vec(row, 1..10))
        })
        .prop_map(|(table, rows)| {
            let batch = batch(&table, &rows);
            (table, batch)
        })
}

/// A value of a column, or NULL where it may be.
fn cell(column: &Column) -> BoxedStrategy<ScalarValue> {
    let value = value(column.sql_type);
    if !column.nullable {
        return value;
    }
    let null = ScalarValue::try_from(&column.sql_type.arrow()).expect("every type has its NULL");
    prop_oneof![2 => value, 1 => Just(null)].boxed()
}

/// At least one row as a batch.
pub(crate) fn batch(table: &TableDefinition, rows: &[Vec<ScalarValue>]) -> RecordBatch {
    let columns = (0..table.columns().len())
        .map(|position| ScalarValue::iter_to_array(rows.iter().map(|row| row[position].clone())).expect("one type"))
        .collect();
    RecordBatch::try_new(table.schema().clone(), columns).expect("values of the table's types")
}
