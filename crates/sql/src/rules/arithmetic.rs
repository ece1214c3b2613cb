//! Arithmetic is exact from where it is planned on, so that all types above it are those of `PostgreSQL`.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::error::Result;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{Expr, Operator};
use datafusion::sql::sqlparser::ast::BinaryOperator;
use ishigaki_scan::exact;

/// Plans `+`, `-`, `*`, `/` and `%`.
#[derive(Debug)]
pub(crate) struct Arithmetic;

impl ExprPlanner for Arithmetic {
    fn plan_binary_op(&self, raw: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        let RawBinaryExpr { op, mut left, mut right } = raw;
        if let Some(operator) = arithmetic(&op) {
            if let Some(exact) = exact::binary(operator, &left, &right, schema) {
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
