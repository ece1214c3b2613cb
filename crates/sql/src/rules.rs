//! What is added to DataFusion's own rules for plans, where its answers would surprise.
//!
//! [`Arithmetic`] has operators planned as exact ones, [`OneRow`] has a scalar subquery fail on its second row, [`Recursion`] refuses
//! recursive terms of other types than the first,
//! [`Barrier`] keeps conditions above aggregates, [`TextsAsBytes`] has texts become bytes as `PostgreSQL` reads them, [`TextsAsTimes`] times, and [`Intervals`] has intervals compared as there; that no other
//! arithmetic is left in a plan, `ishigaki_scan::exact` sees to.

mod arithmetic;
mod barrier;
mod bytes;
mod intervals;
mod moments;
mod one_row;
mod recursion;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Between, BinaryExpr, Cast, Expr, ExprSchemable, LogicalPlan};
use datafusion::optimizer::analyzer::AnalyzerRule;

pub(crate) use arithmetic::Arithmetic;
pub(crate) use barrier::Barrier;
pub(crate) use bytes::TextsAsBytes;
pub(crate) use intervals::Intervals;
pub(crate) use moments::TextsAsTimes;
pub(crate) use one_row::OneRow;
pub(crate) use recursion::Recursion;

/// Rewrites the expressions of all nodes of a plan, and of its subqueries, which keep their names. Each is given with the
/// columns that it may refer to.
pub(crate) fn in_expressions(
    plan: LogicalPlan,
    rewrite: impl Fn(Expr, &DFSchema) -> Result<Transformed<Expr>>,
) -> Result<LogicalPlan> {
    let in_node = |plan: LogicalPlan| {
        let schema = merge_schema(&plan.inputs());
        let names = NamePreserver::new(&plan);
        plan.map_expressions(|expression| {
            let name = names.save(&expression);
            Ok(rewrite(expression, &schema)?.update_data(|expression| name.restore(expression)))
        })
    };
    plan.transform_up_with_subqueries(in_node).data()
}

/// A literal with a point is a decimal here; beside a DOUBLE or REAL it becomes a double. DataFusion would turn the
/// floating-point side into a decimal instead, which has neither its range nor its precision.
#[derive(Debug)]
pub(crate) struct FloatsStayFloats;

impl AnalyzerRule for FloatsStayFloats {
    fn name(&self) -> &'static str {
        "floats_stay_floats"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        in_expressions(plan, |expression, schema| {
            expression.transform_up(|expression| Ok(beside_floats(expression, schema)))
        })
    }
}

fn beside_floats(expression: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let is_float = |expression: &Expr| expression.get_type(schema).is_ok_and(|found| found.is_floating());
    match expression {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_decimal_literal(&right) && is_float(&left) => {
            Transformed::yes(Expr::BinaryExpr(BinaryExpr { left, op, right: Box::new(as_double(*right)) }))
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_decimal_literal(&left) && is_float(&right) => {
            Transformed::yes(Expr::BinaryExpr(BinaryExpr { left: Box::new(as_double(*left)), op, right }))
        }
        Expr::Between(Between { expr, negated, low, high }) if is_float(&expr) => {
            let (low, high) = (Box::new(as_double(*low)), Box::new(as_double(*high)));
            Transformed::yes(Expr::Between(Between { expr, negated, low, high }))
        }
        Expr::InList(InList { expr, list, negated }) if is_float(&expr) => {
            let list = list.into_iter().map(as_double).collect();
            Transformed::yes(Expr::InList(InList { expr, list, negated }))
        }
        other => Transformed::no(other),
    }
}

fn is_decimal_literal(expression: &Expr) -> bool {
    match expression {
        Expr::Literal(value, _) => matches!(value.data_type(), DataType::Decimal128(..) | DataType::Decimal256(..)),
        Expr::Negative(inner) => is_decimal_literal(inner),
        _ => false,
    }
}

/// A decimal literal as a double; anything else as it is.
fn as_double(expression: Expr) -> Expr {
    if is_decimal_literal(&expression) {
        Expr::Cast(Cast::new(Box::new(expression), DataType::Float64))
    } else {
        expression
    }
}
