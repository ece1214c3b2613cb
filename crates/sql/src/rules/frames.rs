//! Bounds of `RANGE` frames are computed in a type that has room for them.
//!
//! `ORDER BY i RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING` is of the rows from `i - 1` to `i + 1`. Where a type ends before that,
//! DataFusion takes the end of the partition instead, with the NULLs that are there.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{Expr, LogicalPlan, WindowFrame, WindowFrameBound, WindowFrameUnits, cast};
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
        in_expressions(plan, is_window, |expression, schema| {
            expression.transform_up(|expression| {
                let Expr::WindowFunction(mut window) = expression else { return Ok(Transformed::no(expression)) };
                check(&window.params.window_frame)?;
                let largest = largest_offset(&window.params.window_frame);
                let [order] = window.params.order_by.as_mut_slice() else {
                    return Ok(Transformed::no(Expr::WindowFunction(window)));
                };
                let wider = exact::type_of(&order.expr, schema).zip(largest).and_then(|(of, by)| wider(&of, by));
                let Some(wider) = wider else { return Ok(Transformed::no(Expr::WindowFunction(window))) };
                order.expr = cast(order.expr.clone(), wider);
                Ok(Transformed::yes(Expr::WindowFunction(window)))
            })
        })
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

/// A number of rows' worth in a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Offset {
    Whole(i128),
    Other,
}

/// The largest offset that a frame has; nothing if it has none.
fn largest_offset(frame: &WindowFrame) -> Option<Offset> {
    if frame.units != WindowFrameUnits::Range {
        return None;
    }
    let of = |bound: &WindowFrameBound| match bound {
        WindowFrameBound::Preceding(offset) | WindowFrameBound::Following(offset) if !offset.is_null() => {
            Some(offset.to_string().parse().map_or(Offset::Other, Offset::Whole))
        }
        _ => None,
    };
    match (of(&frame.start_bound), of(&frame.end_bound)) {
        (Some(Offset::Whole(one)), Some(Offset::Whole(other))) => Some(Offset::Whole(one.max(other))),
        (Some(one), Some(other)) => Some(if one == Offset::Other { one } else { other }),
        (one, other) => one.or(other),
    }
}

/// The type in which a bound of such a type has room; nothing where it has room already.
fn wider(of: &DataType, by: Offset) -> Option<DataType> {
    match (of, by) {
        (DataType::Int16 | DataType::Int32, Offset::Whole(by)) if by < 1 << 62 => Some(DataType::Int64),
        (DataType::Int16 | DataType::Int32 | DataType::Int64, Offset::Whole(_)) => Some(DataType::Decimal128(38, 0)),
        (DataType::Decimal128(precision, scale), _) if *precision < 38 => Some(DataType::Decimal128(38, *scale)),
        (DataType::Float32, _) => Some(DataType::Float64),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_has_room_beyond_the_ends_of_the_order() {
        let whole = Offset::Whole;
        for (of, by, expected) in [
            (DataType::Int16, whole(1), Some(DataType::Int64)),
            (DataType::Int32, whole(i64::MAX.into()), Some(DataType::Decimal128(38, 0))),
            (DataType::Int64, whole(1), Some(DataType::Decimal128(38, 0))),
            (DataType::Int32, Offset::Other, None),
            (DataType::Decimal128(8, 2), Offset::Other, Some(DataType::Decimal128(38, 2))),
            (DataType::Decimal128(38, 2), whole(1), None),
            (DataType::Float32, whole(1), Some(DataType::Float64)),
            (DataType::Float64, whole(1), None),
        ] {
            assert_eq!(wider(&of, by), expected, "{of} by {by:?}");
        }
    }
}
