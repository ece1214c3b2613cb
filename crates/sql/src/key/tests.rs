use std::cmp::Ordering;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use datafusion::common::ScalarValue;
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::row::RowEncoder;
use crate::row::sample::{any_type, batch, check, table, value};
use crate::types::SqlType;

/// A table whose columns are its key, in order.
fn keyed(types: &[SqlType]) -> Arc<TableDefinition> {
    let names: Vec<_> = (0..types.len()).map(|position| format!("c{position}")).collect();
    let columns = names.iter().zip(types).map(|(name, &sql_type)| (name.as_str(), sql_type, false)).collect();
    table(columns, (0..types.len()).collect())
}

fn key_of(table: &Arc<TableDefinition>, row: &[ScalarValue]) -> Vec<u8> {
    let mut key = Vec::new();
    RowEncoder::new(table.clone(), &batch(table, &[row.to_vec()])).expect("a sound row").key(0, &mut key);
    key
}

/// The order that SQL has, with NaN above all numbers.
fn order(a: &ScalarValue, b: &ScalarValue) -> Ordering {
    match (a, b) {
        (ScalarValue::Float32(Some(a)), ScalarValue::Float32(Some(b))) => order_of_numbers((*a).into(), (*b).into()),
        (ScalarValue::Float64(Some(a)), ScalarValue::Float64(Some(b))) => order_of_numbers(*a, *b),
        _ => a.partial_cmp(b).expect("two values of one type"),
    }
}

fn order_of_numbers(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

fn order_of_rows(a: &[ScalarValue], b: &[ScalarValue]) -> Ordering {
    a.iter().zip(b).map(|(a, b)| order(a, b)).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

/// Key types and some rows; each value is drawn from a few, so that equal ones meet.
fn types_and_rows() -> impl Strategy<Value = (Vec<SqlType>, Vec<Vec<ScalarValue>>)> {
    vec(any_type(), 1..4).prop_flat_map(|types| {
        let pools: Vec<_> = types.iter().map(|&sql_type| vec(value(sql_type), 1..5)).collect();
        (Just(types), pools).prop_flat_map(|(types, pools)| {
            let row: Vec<_> = pools.into_iter().map(proptest::sample::select).collect();
            (Just(types), vec(row, 2..12))
        })
    })
}

#[test]
fn keys_sort_as_their_values_do() {
    check("keys_sort_as_their_values_do", types_and_rows(), |(types, rows)| {
        let table = keyed(&types);
        let keys: Vec<_> = rows.iter().map(|row| key_of(&table, row)).collect();
        for (a, key_a) in rows.iter().zip(&keys) {
            for (b, key_b) in rows.iter().zip(&keys) {
                prop_assert_eq!(key_a.cmp(key_b), order_of_rows(a, b), "{:?} {:?}", a, b);
            }
        }
        Ok(())
    });
}

#[test]
fn a_range_holds_exactly_the_rows_that_meet_its_conditions() {
    let strategy = types_and_rows().prop_flat_map(|(types, rows)| {
        let picks = (0..rows.len(), 0..rows.len(), 0..rows.len());
        (0..=types.len(), Just(types), Just(rows), picks, 0..3, 0..3)
    });
    check("a_range_holds_exactly_the_rows", strategy, |(prefix, types, rows, picks, lower, upper)| {
        let table = keyed(&types);
        let equal = &rows[picks.0][..prefix];
        let bound = |kind, row: usize| match (kind, rows[row].get(prefix)) {
            (1, Some(value)) => Bound::Included(value.clone()),
            (2, Some(value)) => Bound::Excluded(value.clone()),
            _ => Bound::Unbounded,
        };
        let (lower, upper) = (bound(lower, picks.1), bound(upper, picks.2));
        let range = range(&table, equal, (lower.clone(), upper.clone())).unwrap();
        prop_assert_eq!(range.point().is_some(), prefix == types.len());
        for row in &rows {
            let above = match &lower {
                Bound::Included(value) => order(&row[prefix], value).is_ge(),
                Bound::Excluded(value) => order(&row[prefix], value).is_gt(),
                Bound::Unbounded => true,
            };
            let below = match &upper {
                Bound::Included(value) => order(&row[prefix], value).is_le(),
                Bound::Excluded(value) => order(&row[prefix], value).is_lt(),
                Bound::Unbounded => true,
            };
            let meets = order_of_rows(&row[..prefix], equal).is_eq() && above && below;
            let key = key_of(&table, row);
            let within = RangeBounds::<[u8]>::contains(&range.as_bounds(), key.as_slice());
            prop_assert_eq!(within, meets, "{:?} in {:?}", row, range);
            prop_assert!(!(meets && range.is_empty()));
        }
        Ok(())
    });
}

#[test]
fn impossible_conditions_make_an_empty_range() {
    let table = keyed(&[SqlType::SmallInt, SqlType::SmallInt]);
    let number = |value: i16| ScalarValue::Int16(Some(value));
    let none =
        |equal: &[ScalarValue], lower, upper| range(&table, equal, (lower, upper)).unwrap() == KeyRange::nothing();
    assert!(KeyRange::nothing().is_empty() && !KeyRange::all().is_empty());
    assert!(none(&[], Bound::Excluded(number(5)), Bound::Excluded(number(3))));
    assert!(none(&[], Bound::Excluded(number(i16::MAX)), Bound::Unbounded));
    assert!(none(&[number(i16::MAX)], Bound::Excluded(number(i16::MAX)), Bound::Unbounded));
    assert!(none(&[ScalarValue::Int16(None)], Bound::Unbounded, Bound::Unbounded));
    assert!(none(&[number(1)], Bound::Included(ScalarValue::Int16(None)), Bound::Unbounded));
    assert_eq!(range(&table, &[], (Bound::Unbounded, Bound::Unbounded)).unwrap(), KeyRange::all());
}

#[test]
fn a_value_of_another_type_is_refused_in_a_range() {
    let table = keyed(&[SqlType::SmallInt]);
    let error = range(&table, &[ScalarValue::Int64(Some(5))], (Bound::Unbounded, Bound::Unbounded)).unwrap_err();
    assert_eq!(error.to_string(), "table t: column c0 is SMALLINT, it cannot take 5");
}

#[test]
fn a_literal_fits_only_where_comparisons_stay_the_same() {
    let place = |sql_type, literal: ScalarValue| fit(&keyed(&[sql_type]), 0, &literal);
    let money = SqlType::Decimal { precision: 10, scale: 2 };
    assert_eq!(place(SqlType::SmallInt, ScalarValue::Int64(Some(7))), Some(ScalarValue::Int16(Some(7))));
    assert_eq!(place(SqlType::SmallInt, ScalarValue::Int64(Some(70_000))), None);
    assert_eq!(place(SqlType::SmallInt, ScalarValue::Float64(Some(7.0))), None);
    assert_eq!(place(SqlType::SmallInt, ScalarValue::Int64(None)), Some(ScalarValue::Int16(None)));
    assert_eq!(place(SqlType::Real, ScalarValue::Float64(Some(0.1))), None);
    assert_eq!(place(SqlType::Real, ScalarValue::Float64(Some(0.5))), Some(ScalarValue::Float32(Some(0.5))));
    assert_eq!(place(SqlType::Real, ScalarValue::Int64(Some(16_777_217))), None);
    assert_eq!(place(money, ScalarValue::Int64(Some(7))), Some(ScalarValue::Decimal128(Some(700), 10, 2)));
    assert_eq!(place(money, ScalarValue::Decimal128(Some(7_005), 10, 3)), None);
    assert_eq!(place(money, ScalarValue::Float64(Some(7.0))), None);
    let text = SqlType::Text { max_length: Some(1) };
    assert_eq!(place(text, ScalarValue::Utf8(Some("ab".into()))), Some(ScalarValue::Utf8View(Some("ab".into()))));
    assert_eq!(place(text, ScalarValue::Int64(Some(1))), None);
    assert_eq!(fit(&keyed(&[money]), 1, &ScalarValue::Int64(Some(1))), None);
}

/// The examples of `docs/format/rows.md`.
#[test]
fn keys_have_the_bytes_that_the_format_says() {
    let bytes = |sql_type, value: ScalarValue| key_of(&keyed(&[sql_type]), &[value]);
    assert_eq!(bytes(SqlType::SmallInt, ScalarValue::Int16(Some(-1))), [0x7f, 0xff]);
    assert_eq!(bytes(SqlType::Integer, ScalarValue::Int32(Some(1))), [0x80, 0, 0, 1]);
    assert_eq!(bytes(SqlType::Double, ScalarValue::Float64(Some(1.0))), [0xbf, 0xf0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(bytes(SqlType::Double, ScalarValue::Float64(Some(-1.0))), [0x40, 0x0f, 255, 255, 255, 255, 255, 255]);
    assert_eq!(bytes(SqlType::Boolean, ScalarValue::Boolean(Some(true))), [1]);
    let text = SqlType::Text { max_length: None };
    assert_eq!(bytes(text, ScalarValue::Utf8View(Some("a\0b".into()))), *b"a\0\xffb\0\0");
    assert_eq!(bytes(SqlType::Decimal { precision: 18, scale: 0 }, ScalarValue::Decimal128(Some(1), 18, 0)).len(), 8);
    assert_eq!(bytes(SqlType::Decimal { precision: 19, scale: 0 }, ScalarValue::Decimal128(Some(1), 19, 0)).len(), 16);
}

#[test]
fn there_is_one_zero_and_one_nan() {
    let double = |value: f64| key_of(&keyed(&[SqlType::Double]), &[ScalarValue::Float64(Some(value))]);
    assert_eq!(double(-0.0), double(0.0));
    assert_eq!(double(-f64::NAN), double(f64::NAN));
    assert!(double(f64::NAN) > double(f64::INFINITY));
    let real = |value: f32| key_of(&keyed(&[SqlType::Real]), &[ScalarValue::Float32(Some(value))]);
    assert_eq!(real(-0.0), real(0.0));
    assert_eq!(real(-f32::NAN), real(f32::NAN));
}

#[test]
fn foreign_keys_are_described_without_a_panic() {
    let strategy = (vec(any_type(), 0..3), vec(prop_oneof![Just(0_u8), any::<u8>()], 0..20));
    check("foreign_keys_are_described", strategy, |(types, key)| {
        let rowless = table(vec![("c", SqlType::Integer, true)], vec![]);
        let table = if types.is_empty() { rowless } else { keyed(&types) };
        prop_assert!(!describe(&table, &key).is_empty());
        Ok(())
    });
}
