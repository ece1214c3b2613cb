//! Bounds of `RANGE` frames are computed in a type that has room for them.
//!
//! `ORDER BY i RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING` is of the rows from `i - 1` to `i + 1`. Where a type ends before that,
//! DataFusion takes the end of the partition instead, with the NULLs that are there. And it reads an offset as one of the type that
//! the rows are ordered by: an hour beside days would be no time at all.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, IntervalUnit, TimeUnit};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    Expr, LogicalPlan, Projection, SortExpr, Window, WindowFrame, WindowFrameBound, WindowFrameUnits, cast,
};
use datafusion::optimizer::analyzer::AnalyzerRule;
use ishigaki_scan::exact;

use super::in_expressions;
use crate::Error;

/// The rule. To be run before DataFusion's coercion of types, which gives the bounds the type of the order.
#[derive(Debug)]
pub(crate) struct WideFrames;

impl AnalyzerRule for WideFrames {
    fn name(&self) -> &'static str {
        "wide_frames"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let is_window = |expression: &Expr| matches!(expression, Expr::WindowFunction(_));
        let plan = in_expressions(plan, is_window, |expression, schema| {
            expression.transform_up(|expression| {
                let Expr::WindowFunction(mut window) = expression else { return Ok(Transformed::no(expression)) };
                check(&window.params.window_frame)?;
                let offsets = offsets(&window.params.window_frame);
                let [order] = window.params.order_by.as_mut_slice() else {
                    return Ok(Transformed::no(Expr::WindowFunction(window)));
                };
                let wider = match exact::type_of(&order.expr, schema) {
                    Some(of) => wider(&of, &offsets)?,
                    None => None,
                };
                let Some(wider) = wider else { return Ok(Transformed::no(Expr::WindowFunction(window))) };
                order.expr = cast(order.expr.clone(), wider);
                Ok(Transformed::yes(Expr::WindowFunction(window)))
            })
        })?;
        plan.transform_up_with_subqueries(one_order_each).data()
    }
}

/// Windows that were computed together and have other orders now, one after the other.
fn one_order_each(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Window(window) = plan else { return Ok(Transformed::no(plan)) };
    let mut groups: Vec<Vec<Expr>> = Vec::new();
    for expression in &window.window_expr {
        let group = groups.iter_mut().find(|group| keys(&group[0]) == keys(expression));
        match group {
            Some(group) => group.push(expression.clone()),
            None => groups.push(vec![expression.clone()]),
        }
    }
    if groups.len() < 2 {
        return Ok(Transformed::no(LogicalPlan::Window(window)));
    }
    let columns = window.schema.columns().into_iter().map(Expr::Column).collect();
    let plan = groups.into_iter().try_fold(Arc::unwrap_or_clone(window.input), |input, group| {
        Window::try_new(group, Arc::new(input)).map(LogicalPlan::Window)
    })?;
    Projection::try_new(columns, Arc::new(plan)).map(LogicalPlan::Projection).map(Transformed::yes)
}

/// By what a window is partitioned and ordered.
fn keys(expression: &Expr) -> Option<(&[Expr], &[SortExpr])> {
    match expression {
        Expr::Alias(alias) => keys(&alias.expr),
        Expr::WindowFunction(window) => Some((&window.params.partition_by, &window.params.order_by)),
        _ => None,
    }
}

/// Refuses offsets that lead from every row to all of one side, or nowhere.
fn check(frame: &WindowFrame) -> Result<()> {
    let is_finite = |bound: &WindowFrameBound| match bound {
        WindowFrameBound::Preceding(offset) | WindowFrameBound::Following(offset) => {
            !matches!(exact::literal(offset, &DataType::Float64), Ok(ScalarValue::Float64(Some(offset))) if !offset.is_finite())
        }
        WindowFrameBound::CurrentRow => true,
    };
    if frame.units == WindowFrameUnits::Range && !(is_finite(&frame.start_bound) && is_finite(&frame.end_bound)) {
        let remedy = "write UNBOUNDED PRECEDING or UNBOUNDED FOLLOWING";
        return Err(Error::unsupported("a RANGE frame with an infinite offset", remedy).into());
    }
    Ok(())
}

/// An offset of a bound, as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Offset {
    Whole(i128),
    /// With this many digits behind the point.
    Digits(i8),
    /// An interval of days and months alone.
    Days,
    /// One of hours, or the like.
    Time,
    Other,
}

impl Offset {
    /// None where a bound has none.
    fn of(bound: &WindowFrameBound) -> Option<Self> {
        let (WindowFrameBound::Preceding(offset) | WindowFrameBound::Following(offset)) = bound else { return None };
        if offset.is_null() {
            return None;
        }
        let text = offset.to_string();
        if let Ok(whole) = text.parse() {
            return Some(Self::Whole(whole));
        }
        if let Some((_, _, scale)) = exact::written(&text) {
            return Some(Self::Digits(scale));
        }
        let interval = exact::literal(offset, &DataType::Interval(IntervalUnit::MonthDayNano));
        Some(match interval {
            Ok(ScalarValue::IntervalMonthDayNano(Some(interval))) if interval.nanoseconds == 0 => Self::Days,
            Ok(ScalarValue::IntervalMonthDayNano(Some(_))) => Self::Time,
            _ => Self::Other,
        })
    }
}

/// The offsets of a frame, if it has any.
fn offsets(frame: &WindowFrame) -> Vec<Offset> {
    match frame.units {
        WindowFrameUnits::Range => [&frame.start_bound, &frame.end_bound].into_iter().filter_map(Offset::of).collect(),
        _ => Vec::new(),
    }
}

/// The type in which bounds of such a type, and the offsets themselves, have room; nothing where they have it already.
fn wider(of: &DataType, offsets: &[Offset]) -> Result<Option<DataType>> {
    use DataType::{Date32, Decimal128, Float32, Float64, Int16, Int32, Int64, Timestamp};
    let has = |is: fn(&Offset) -> bool| offsets.iter().any(is);
    let wider = match of {
        _ if offsets.is_empty() => None,
        Int16 | Int32 | Int64 if has(|by| matches!(by, Offset::Digits(_))) => {
            return unlike(of, "a number with a point");
        }
        Int16 | Int32 if !has(|by| matches!(by, Offset::Whole(by) if *by >= 1 << 62)) => Some(Int64),
        Int16 | Int32 | Int64 => Some(Decimal128(38, 0)),
        Decimal128(_, scale) => {
            let behind = offsets.iter().map(|by| if let Offset::Digits(behind) = by { *behind } else { 0 }).max();
            Some(Decimal128(38, behind.unwrap_or(0).max(*scale)))
        }
        Float32 => Some(Float64),
        Date32 | Timestamp(..) if has(|by| matches!(by, Offset::Whole(_) | Offset::Digits(_))) => {
            return unlike(of, "a number");
        }
        Date32 if has(|by| matches!(by, Offset::Time)) => Some(Timestamp(TimeUnit::Microsecond, None)),
        _ => None,
    };
    Ok(wider.filter(|wider| wider != of))
}

/// An offset that would be rounded to the type of the order, or read as another one than is meant.
fn unlike<T>(of: &DataType, offset: &str) -> Result<T> {
    let (what, remedy) = if of.is_integer() {
        (
            format!("a RANGE frame over whole numbers with {offset} as an offset"),
            "CAST the column in ORDER BY to DECIMAL",
        )
    } else {
        (
            format!("a RANGE frame over days or times with {offset} as an offset"),
            "write an interval: INTERVAL '1 day' PRECEDING",
        )
    };
    Err(Error::unsupported(what, remedy).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_has_room_beyond_the_ends_of_the_order() {
        let (whole, moment) = (Offset::Whole, DataType::Timestamp(TimeUnit::Microsecond, None));
        for (of, by, expected) in [
            (DataType::Int16, vec![whole(1)], Some(DataType::Int64)),
            (DataType::Int16, vec![whole(1), whole(2)], Some(DataType::Int64)),
            (DataType::Int32, vec![whole(i64::MAX.into())], Some(DataType::Decimal128(38, 0))),
            (DataType::Int32, vec![whole(i64::MAX.into()), whole(1)], Some(DataType::Decimal128(38, 0))),
            (DataType::Int32, vec![whole(1), whole(i64::MAX.into())], Some(DataType::Decimal128(38, 0))),
            (DataType::Int64, vec![whole(1)], Some(DataType::Decimal128(38, 0))),
            (DataType::Decimal128(8, 2), vec![whole(1)], Some(DataType::Decimal128(38, 2))),
            (DataType::Decimal128(8, 2), vec![Offset::Digits(1), Offset::Digits(4)], Some(DataType::Decimal128(38, 4))),
            (DataType::Decimal128(38, 2), vec![whole(1)], None),
            (DataType::Float32, vec![whole(1)], Some(DataType::Float64)),
            (DataType::Float64, vec![Offset::Digits(1)], None),
            (DataType::Date32, vec![Offset::Days], None),
            (DataType::Date32, vec![Offset::Days, Offset::Time], Some(moment)),
        ] {
            assert_eq!(wider(&of, &by).expect("it has room"), expected, "{of} by {by:?}");
        }
        for (of, by) in [
            (DataType::Int32, Offset::Digits(1)),
            (DataType::Date32, whole(1)),
            (DataType::Timestamp(TimeUnit::Microsecond, None), Offset::Digits(1)),
        ] {
            wider(&of, &[by]).expect_err("an offset of another kind");
        }
    }
}
