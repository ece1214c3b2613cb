//! A text that is written down has no type of its own in `PostgreSQL`: beside something of another type it is of that one, as in
//! `b = 't'`, `n * '2.5'`, `t + '1 day'`.
//!
//! DataFusion reads it so where it is compared with a number or a time, and fails at the rest. A text that is cast to one, or computed, stays a
//! text.

use datafusion::arrow::datatypes::{DataType, IntervalUnit};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::{Case, InList};
use datafusion::logical_expr::{Between, Expr, LogicalPlan, Operator, cast, lit};
use datafusion::optimizer::analyzer::AnalyzerRule;
use ishigaki_scan::exact;

use super::in_expressions;

/// What stands beside an operator, a text of no type among it as what it is there.
pub(super) fn operands(operator: Operator, left: Expr, right: Expr, schema: &DFSchema) -> (Expr, Expr) {
    // The left one may be thousands of operators deep, so its type is asked for only beside a text.
    match (text(&left).map(str::to_owned), text(&right).map(str::to_owned)) {
        (None, Some(written)) => {
            let typed = exact::type_of(&left, schema).and_then(|of| beside(operator, &of, &written));
            (left, typed.unwrap_or(right))
        }
        (Some(written), None) => {
            let typed = exact::type_of(&right, schema).and_then(|of| beside(operator, &of, &written));
            (typed.unwrap_or(left), right)
        }
        _ => (left, right),
    }
}

/// A text of no type.
fn text(expression: &Expr) -> Option<&str> {
    match expression {
        Expr::Literal(value, _) => value.try_as_str().flatten(),
        _ => None,
    }
}

/// What a text is beside an operand of a type; nothing where it stays as it is.
fn beside(operator: Operator, other: &DataType, written: &str) -> Option<Expr> {
    use Operator::{Divide, Eq, Gt, GtEq, Lt, LtEq, Minus, Modulo, Multiply, NotEq, Plus};
    let interval = DataType::Interval(IntervalUnit::MonthDayNano);
    let of = match (operator, other) {
        (Eq | NotEq | Lt | LtEq | Gt | GtEq, DataType::Boolean) => DataType::Boolean,
        (Plus | Minus | Multiply | Divide | Modulo, DataType::Decimal128(..)) => return decimal(written),
        (Plus | Minus | Multiply | Divide | Modulo, number) if number.is_integer() || number.is_floating() => {
            number.clone()
        }
        (Plus, DataType::Timestamp(_, None)) | (Plus | Minus, DataType::Interval(_)) => interval,
        (Minus, DataType::Date32) => DataType::Date32,
        _ => return None,
    };
    Some(cast(lit(written), of))
}

/// A decimal with the digits that are written.
fn decimal(written: &str) -> Option<Expr> {
    let (digits, precision, scale) = exact::written(written)?;
    Some(cast(lit(digits), DataType::Decimal128(precision, scale)))
}

/// Has truths that are written as texts in lists, between others and in CASE read as such. To be run before the coercion of types.
#[derive(Debug)]
pub(crate) struct TextsAsTruths;

impl AnalyzerRule for TextsAsTruths {
    fn name(&self) -> &'static str {
        "texts_as_truths"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let compares = |expression: &Expr| {
            matches!(expression, Expr::InList(_) | Expr::Between(_) | Expr::Case(Case { expr: Some(_), .. }))
        };
        in_expressions(plan, compares, |expression, schema| expression.transform_up(|inner| Ok(read(inner, schema))))
    }
}

fn read(expression: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let is_truth = |of: &Expr| exact::type_of(of, schema) == Some(DataType::Boolean);
    let truth = |of: Expr| if text(&of).is_some() { cast(of, DataType::Boolean) } else { of };
    match expression {
        Expr::InList(InList { expr, list, negated })
            if list.iter().any(|one| text(one).is_some()) && is_truth(&expr) =>
        {
            let list = list.into_iter().map(truth).collect();
            Transformed::yes(Expr::InList(InList { expr, list, negated }))
        }
        Expr::Between(Between { expr, negated, low, high })
            if (text(&low).is_some() || text(&high).is_some()) && is_truth(&expr) =>
        {
            let (low, high) = (Box::new(truth(*low)), Box::new(truth(*high)));
            Transformed::yes(Expr::Between(Between { expr, negated, low, high }))
        }
        Expr::Case(Case { expr: Some(of), when_then_expr, else_expr })
            if when_then_expr.iter().any(|(when, _)| text(when).is_some()) && is_truth(&of) =>
        {
            let when_then_expr =
                when_then_expr.into_iter().map(|(when, then)| (Box::new(truth(*when)), then)).collect();
            Transformed::yes(Expr::Case(Case { expr: Some(of), when_then_expr, else_expr }))
        }
        other => Transformed::no(other),
    }
}
