//! From a WHERE clause to the keys that can satisfy it.
//!
//! Comparisons of a key column with a literal become bounds on that column. Equalities on the first key columns and
//! bounds on the next make one range of keys; an IN list on the last makes several single keys.

use std::cmp::Ordering;
use std::ops::Bound;

use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{Between, BinaryExpr, Expr, Operator, TableProviderFilterPushDown};

use crate::Result;
use crate::key::{self, KeyRange};
use crate::table::TableDefinition;
use crate::types::SqlType;

/// The longest IN list that is read key by key.
const MAX_POINTS: usize = 1024;

/// Which keys of a table are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// All of them.
    Full,
    /// Those in a range.
    Range(KeyRange),
    /// These, in ascending order; none at all when the condition cannot be met.
    Points(Vec<Vec<u8>>),
}

impl Access {
    /// One word for a plan.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Range(_) => "range",
            Self::Points(keys) => match keys.len() {
                0 => "none",
                1 => "point",
                _ => "points",
            },
        }
    }
}

/// What a conjunct says about one key column.
#[derive(Debug, PartialEq)]
struct Condition {
    /// The column's place in the key.
    place: usize,
    test: Test,
}

#[derive(Debug, PartialEq)]
enum Test {
    Within(Bound<ScalarValue>, Bound<ScalarValue>),
    OneOf(Vec<ScalarValue>),
}

/// How far [`access`] keeps the promise of each conjunct by itself.
///
/// `Exact` is said only of bounds on the first key column: those always shape the range, whichever other conjuncts come
/// with them, now or in a later pass of the optimizer. Bounds on other columns and IN lists narrow the range when they can
/// and stay in a filter above. So do bounds of NULL, which a later pass may fold to a condition without a column.
pub(crate) fn support(table: &TableDefinition, filter: &Expr) -> TableProviderFilterPushDown {
    match condition(table, filter) {
        None => TableProviderFilterPushDown::Unsupported,
        Some(Condition { place: 0, test: Test::Within(start, end) })
            if !is_float(table, 0) && !is_null(&start) && !is_null(&end) =>
        {
            TableProviderFilterPushDown::Exact
        }
        Some(_) => TableProviderFilterPushDown::Inexact,
    }
}

/// The keys to read for a conjunction: all that satisfy it, and possibly more (see [`support`]).
pub(crate) fn access(table: &TableDefinition, filters: &[Expr]) -> Result<Access> {
    let places = table.primary_key().len();
    let mut bounds = vec![(Bound::Unbounded, Bound::Unbounded); places];
    let mut lists: Vec<Option<Vec<ScalarValue>>> = vec![None; places];
    if filters.iter().any(is_never_true) {
        return Ok(Access::Points(Vec::new()));
    }
    for condition in filters.iter().filter_map(|filter| condition(table, filter)) {
        match condition.test {
            Test::Within(start, end) => {
                if is_null(&start) || is_null(&end) {
                    return Ok(Access::Points(Vec::new()));
                }
                let column = &mut bounds[condition.place];
                if is_tighter(&start, &column.0, Ordering::Greater) {
                    column.0 = start;
                }
                if is_tighter(&end, &column.1, Ordering::Less) {
                    column.1 = end;
                }
            }
            Test::OneOf(values) => {
                // A second list on the same column is left to the filter above.
                lists[condition.place].get_or_insert(values);
            }
        }
    }
    let equal: Vec<ScalarValue> = bounds.iter().map_while(equality).collect();
    let next = bounds.get(equal.len()).cloned().unwrap_or((Bound::Unbounded, Bound::Unbounded));
    let range = key::range(table, &equal, next)?;
    if range.is_empty() {
        return Ok(Access::Points(Vec::new()));
    }
    if let Some(Some(values)) = lists.get(equal.len())
        && equal.len() + 1 == places
    {
        return points(table, &equal, values, &range);
    }
    Ok(match range.point() {
        Some(key) => Access::Points(vec![key.to_vec()]),
        None if range == KeyRange::all() => Access::Full,
        None => Access::Range(range),
    })
}

/// A condition that the optimizer has folded to false or NULL: no row meets it.
fn is_never_true(filter: &Expr) -> bool {
    match filter {
        Expr::Literal(value, _) => value.is_null() || *value == ScalarValue::Boolean(Some(false)),
        _ => false,
    }
}

fn is_null(bound: &Bound<ScalarValue>) -> bool {
    value_of(bound).is_some_and(ScalarValue::is_null)
}

/// The single keys `equal` followed by each of `values`, as far as they lie in the range.
fn points(table: &TableDefinition, equal: &[ScalarValue], values: &[ScalarValue], range: &KeyRange) -> Result<Access> {
    let mut keys = Vec::with_capacity(values.len());
    for value in values.iter().filter(|value| !value.is_null()) {
        let whole: Vec<ScalarValue> = equal.iter().chain([value]).cloned().collect();
        if let Some(key) = key::range(table, &whole, (Bound::Unbounded, Bound::Unbounded))?.point()
            && contains(range, key)
        {
            keys.push(key.to_vec());
        }
    }
    keys.sort_unstable();
    keys.dedup();
    Ok(Access::Points(keys))
}

fn contains(range: &KeyRange, key: &[u8]) -> bool {
    use std::ops::RangeBounds;
    RangeBounds::<[u8]>::contains(&range.as_bounds(), key)
}

/// What a conjunct says about a key column, if it says something that bytes can.
fn condition(table: &TableDefinition, filter: &Expr) -> Option<Condition> {
    match filter {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
            let (left, right) = (condition(table, left)?, condition(table, right)?);
            let mut values = one_of(left.test)?;
            values.extend(one_of(right.test)?);
            (left.place == right.place && values.len() <= MAX_POINTS)
                .then_some(Condition { place: left.place, test: Test::OneOf(values) })
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let (column, op, literal) = match (left.as_ref(), right.as_ref()) {
                (column, Expr::Literal(value, _)) => (column, *op, value),
                (Expr::Literal(value, _), column) => (column, op.swap()?, value),
                _ => return None,
            };
            let place = place(table, column)?;
            let value = key::fit(table, place, literal)?;
            let (start, end) = match op {
                Operator::Eq => (Bound::Included(value.clone()), Bound::Included(value)),
                Operator::Lt => (Bound::Unbounded, Bound::Excluded(value)),
                Operator::LtEq => (Bound::Unbounded, Bound::Included(value)),
                Operator::Gt => (Bound::Excluded(value), Bound::Unbounded),
                Operator::GtEq => (Bound::Included(value), Bound::Unbounded),
                _ => return None,
            };
            Some(Condition { place, test: Test::Within(start, end) })
        }
        Expr::Between(Between { expr, negated: false, low, high }) => {
            let place = place(table, expr)?;
            let (Expr::Literal(low, _), Expr::Literal(high, _)) = (low.as_ref(), high.as_ref()) else { return None };
            let (low, high) = (key::fit(table, place, low)?, key::fit(table, place, high)?);
            Some(Condition { place, test: Test::Within(Bound::Included(low), Bound::Included(high)) })
        }
        Expr::InList(InList { expr, list, negated: false }) if list.len() <= MAX_POINTS => {
            let place = place(table, expr)?;
            let literal = |item: &Expr| match item {
                Expr::Literal(value, _) => key::fit(table, place, value),
                _ => None,
            };
            Some(Condition { place, test: Test::OneOf(list.iter().map(literal).collect::<Option<_>>()?) })
        }
        _ => None,
    }
}

/// The values of an equality or an IN list.
fn one_of(test: Test) -> Option<Vec<ScalarValue>> {
    match test {
        Test::OneOf(values) => Some(values),
        Test::Within(Bound::Included(start), Bound::Included(end)) if start == end => Some(vec![start]),
        Test::Within(..) => None,
    }
}

/// The place in the key of the column that an expression is.
fn place(table: &TableDefinition, expression: &Expr) -> Option<usize> {
    let Expr::Column(column) = expression else { return None };
    table.primary_key().iter().position(|&position| table.columns()[position].name == column.name)
}

fn equality(bounds: &(Bound<ScalarValue>, Bound<ScalarValue>)) -> Option<ScalarValue> {
    match bounds {
        (Bound::Included(start), Bound::Included(end)) if start == end => Some(start.clone()),
        _ => None,
    }
}

fn value_of(bound: &Bound<ScalarValue>) -> Option<&ScalarValue> {
    match bound {
        Bound::Included(value) | Bound::Excluded(value) => Some(value),
        Bound::Unbounded => None,
    }
}

/// Whether the new bound leaves less than the old; `inward` is the direction in which values get tighter.
fn is_tighter(new: &Bound<ScalarValue>, old: &Bound<ScalarValue>, inward: Ordering) -> bool {
    match (value_of(new), value_of(old)) {
        (None, _) => false,
        (_, None) => true,
        (Some(new_value), Some(old_value)) => match new_value.partial_cmp(old_value) {
            Some(Ordering::Equal) => matches!(new, Bound::Excluded(_)),
            Some(order) => order == inward,
            None => false,
        },
    }
}

/// Zero and minus zero, and the NaNs, are one key each but may differ in a comparison.
fn is_float(table: &TableDefinition, place: usize) -> bool {
    table
        .primary_key()
        .get(place)
        .is_some_and(|&position| matches!(table.columns()[position].sql_type, SqlType::Real | SqlType::Double))
}

#[cfg(test)]
mod tests {
    use datafusion::logical_expr::{col, lit};
    use ishigaki_txn::TableId;

    use super::*;
    use crate::table::Column;

    /// Keys (a BIGINT, b TEXT).
    fn table() -> TableDefinition {
        let column = |name: &str, sql_type| Column { name: name.to_owned(), sql_type, nullable: false, default: None };
        let columns = vec![column("b", SqlType::Text { max_length: None }), column("a", SqlType::BigInt)];
        TableDefinition::new(TableId(7), "t".to_owned(), columns, vec![1, 0]).expect("a table")
    }

    fn range_of(start: Bound<i64>, end: Bound<i64>) -> Access {
        let bound = |bound: Bound<i64>| bound.map(|value| ScalarValue::Int64(Some(value)));
        Access::Range(key::range(&table(), &[], (bound(start), bound(end))).expect("a range"))
    }

    #[test]
    fn of_several_bounds_the_tightest_count_in_whatever_order_they_come() {
        let mut filters = vec![
            col("a").lt_eq(lit(20_i64)),
            col("a").lt(lit(15_i64)),
            lit(3_i64).lt(col("a")),
            col("a").gt_eq(lit(5_i64)),
            col("a").between(lit(4_i64), lit(15_i64)),
        ];
        for _ in 0..filters.len() {
            let access = access(&table(), &filters).expect("an access");
            assert_eq!(access, range_of(Bound::Included(5), Bound::Excluded(15)));
            filters.rotate_left(1);
        }
        let same = [col("a").gt_eq(lit(5_i64)), col("a").gt(lit(5_i64))];
        assert_eq!(access(&table(), &same).expect("an access"), range_of(Bound::Excluded(5), Bound::Unbounded));
        let never = [col("a").gt(lit(5_i64)), col("a").lt(lit(5_i64))];
        assert_eq!(access(&table(), &never).expect("an access"), Access::Points(Vec::new()));
    }

    #[test]
    fn only_bounds_on_the_first_key_column_are_promised_exactly() {
        use TableProviderFilterPushDown::{Exact, Inexact, Unsupported};
        let table = table();
        for (filter, expected) in [
            (col("a").eq(lit(1_i64)), Exact),
            (col("a").eq(lit(1_i32)), Exact),
            (col("a").eq(lit(1.5)), Unsupported),
            (col("b").eq(lit("x")), Inexact),
            (col("a").in_list(vec![lit(1_i64), lit(2_i64)], false), Inexact),
            (col("a").in_list(vec![lit(1_i64), lit(2_i64)], true), Unsupported),
            (col("a").not_eq(lit(1_i64)), Unsupported),
            (col("a").eq(lit(1_i64)).or(col("b").eq(lit("x"))), Unsupported),
            (col("a").eq(lit(1_i64)).or(col("a").eq(lit(2_i64))), Inexact),
        ] {
            assert_eq!(support(&table, &filter), expected, "{filter}");
        }
    }

    #[test]
    fn a_bound_on_a_later_column_counts_only_behind_equalities() {
        let table = table();
        let alone = [col("b").eq(lit("x"))];
        assert_eq!(access(&table, &alone).expect("an access"), Access::Full);
        let behind_a_range = [col("a").gt(lit(1_i64)), col("b").eq(lit("x"))];
        assert_eq!(access(&table, &behind_a_range).expect("an access"), range_of(Bound::Excluded(1), Bound::Unbounded));
        let point = [col("b").eq(lit("x")), col("a").eq(lit(1_i64))];
        assert!(matches!(access(&table, &point).expect("an access"), Access::Points(keys) if keys.len() == 1));
    }
}
