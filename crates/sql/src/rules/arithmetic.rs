//! Arithmetic is exact from where it is planned on, so that all types above it are those of `PostgreSQL`.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::functions::datetime::date_part;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{Expr, Operator, cast, lit};
use datafusion::sql::sqlparser::ast::BinaryOperator;
use ishigaki_scan::exact;

/// Plans `+`, `-`, `*`, `/` and `%`.
#[derive(Debug)]
pub(crate) struct Arithmetic;

impl ExprPlanner for Arithmetic {
    fn plan_binary_op(&self, raw: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        let RawBinaryExpr { op, mut left, mut right } = raw;
        if let Some(operator) = arithmetic(&op) {
            if let Some(exact) = exact::unsettled(operator, &left, &right, schema) {
                return Ok(PlannerResult::Planned(exact));
            }
        } else if is_comparison(&op) {
            let is_date = |expression: &Expr| exact::type_of(expression, schema) == Some(DataType::Date32);
            if is_date(&left) {
                right = exact::as_day(&right).unwrap_or(right);
            } else if is_date(&right) {
                left = exact::as_day(&left).unwrap_or(left);
            }
        }
        Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }))
    }

    /// Parts of times are decimals: a quotient of one is no whole number, and seconds have six digits behind the point.
    fn plan_extract(&self, args: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        let [Expr::Literal(part, _), of] = args.as_slice() else { return Ok(PlannerResult::Original(args)) };
        let part = part.try_as_str().flatten().unwrap_or_default().to_lowercase();
        let number = |part: &str| {
            let part = match part {
                "microsecond" | "microseconds" | "usec" | "usecs" => exact::microseconds().call(vec![of.clone()]),
                other => date_part().call(vec![lit(other), of.clone()]),
            };
            cast(part, DataType::Decimal128(10, 0))
        };
        let thousandths = |digits: u8| {
            let unit = lit(ScalarValue::Decimal128(Some(1), digits, digits.cast_signed()));
            exact::arithmetic(Operator::Multiply).map(|times| times.call(vec![number("microsecond"), unit]))
        };
        let found = match part.as_str() {
            "epoch" => Some(exact::epoch().call(vec![of.clone()])),
            "second" | "seconds" | "sec" | "secs" => thousandths(6),
            "millisecond" | "milliseconds" | "msec" | "msecs" => thousandths(3),
            other => Some(number(other)),
        };
        Ok(found.map_or_else(|| PlannerResult::Original(args), PlannerResult::Planned))
    }
}

fn arithmetic(operator: &BinaryOperator) -> Option<Operator> {
    Some(match operator {
        BinaryOperator::Plus => Operator::Plus,
        BinaryOperator::Minus => Operator::Minus,
        BinaryOperator::Multiply => Operator::Multiply,
        BinaryOperator::Divide => Operator::Divide,
        BinaryOperator::Modulo => Operator::Modulo,
        _ => return None,
    })
}

fn is_comparison(operator: &BinaryOperator) -> bool {
    use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    matches!(operator, Eq | NotEq | Lt | LtEq | Gt | GtEq)
}
