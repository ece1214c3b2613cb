//! Arithmetic is exact from where it is planned on, so that all types above it are those of `PostgreSQL`.

use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::functions::datetime::date_part;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{BinaryExpr, Expr, Operator, cast, lit};
use datafusion::sql::sqlparser::ast::BinaryOperator;
use ishigaki_scan::exact;

use super::untyped;
use crate::functions::{era, scaled};

/// Plans `+`, `-`, `*`, `/` and `%`.
#[derive(Debug)]
pub(crate) struct Arithmetic;

impl ExprPlanner for Arithmetic {
    fn plan_binary_op(&self, raw: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        let RawBinaryExpr { op, left, right } = raw;
        let operator = arithmetic(&op);
        let (mut left, mut right) = match operator.or_else(|| comparison(&op)) {
            Some(operator) => untyped::operands(operator, left, right, schema),
            None => (left, right),
        };
        if matches!(op, BinaryOperator::PGBitwiseShiftLeft | BinaryOperator::PGBitwiseShiftRight) {
            (left, right) = of_int(left, right, schema);
        }
        // DataFusion takes it for 0 where it may be NULL.
        if op == BinaryOperator::PGBitwiseXor
            && left == right
            && let Some(nothing) = exact::unsettled(Operator::Minus, &left, &right, schema)
        {
            return Ok(PlannerResult::Planned(nothing));
        }
        if op == BinaryOperator::Minus
            && let Some(difference) = of_times(&left, &right, schema)
        {
            return Ok(PlannerResult::Planned(difference));
        }
        if let Some(operator) = operator {
            if let Some(interval) = of_interval(operator, &left, &right, schema) {
                return Ok(PlannerResult::Planned(interval));
            }
            if let Some(exact) = exact::unsettled(operator, &left, &right, schema) {
                return Ok(PlannerResult::Planned(exact));
            }
        } else if comparison(&op).is_some() {
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
        let of_years = |years: i32| cast(era(years, number("year"), of.clone()), DataType::Decimal128(10, 0));
        let thousandths = |digits: u8| {
            let unit = lit(ScalarValue::Decimal128(Some(1), digits, digits.cast_signed()));
            exact::arithmetic(Operator::Multiply).map(|times| times.call(vec![number("microsecond"), unit]))
        };
        let found = match part.as_str() {
            "epoch" => Some(exact::epoch().call(vec![of.clone()])),
            "second" | "seconds" | "sec" | "secs" => thousandths(6),
            "millisecond" | "milliseconds" | "msec" | "msecs" => thousandths(3),
            "decade" | "decades" | "century" | "centuries" | "millennium" | "millenniums" if of.is_volatile() => None,
            "decade" | "decades" => Some(of_years(10)),
            "century" | "centuries" => Some(of_years(100)),
            "millennium" | "millenniums" => Some(of_years(1000)),
            other => Some(number(other)),
        };
        Ok(found.map_or_else(|| PlannerResult::Original(args), PlannerResult::Planned))
    }
}

/// A number that is shifted, and by how many bits. What is shifted has the type of the result.
fn of_int(left: Expr, right: Expr, schema: &DFSchema) -> (Expr, Expr) {
    let is_int =
        |expression: &Expr| matches!(exact::type_of(expression, schema), Some(DataType::Int16 | DataType::Int32));
    if !is_int(&left) {
        return (left, right);
    }
    (cast(left, DataType::Int32), cast(right, DataType::Int32))
}

/// An interval multiplied or divided by a number.
fn of_interval(operator: Operator, left: &Expr, right: &Expr, schema: &DFSchema) -> Option<Expr> {
    if !matches!(operator, Operator::Multiply | Operator::Divide) {
        return None;
    }
    // The left one may be thousands of operators deep.
    let right_type = exact::type_of(right, schema)?;
    let is_interval = |of: &DataType| matches!(of, DataType::Interval(_));
    if is_interval(&right_type) && operator == Operator::Multiply {
        return exact::type_of(left, schema)?.is_numeric().then(|| scaled(operator, right, left));
    }
    let divides = right_type.is_numeric() && exact::type_of(left, schema).is_some_and(|of| is_interval(&of));
    divides.then(|| scaled(operator, left, right))
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

/// The difference of two times, or of a time and a day: an interval of days and the rest of a day.
fn of_times(left: &Expr, right: &Expr, schema: &DFSchema) -> Option<Expr> {
    let time = DataType::Timestamp(TimeUnit::Microsecond, None);
    // The left one may be thousands of operators deep.
    let right_type = exact::type_of(right, schema)?;
    if !matches!(right_type, DataType::Timestamp(_, None) | DataType::Date32 | DataType::Utf8 | DataType::Utf8View) {
        return None;
    }
    let types = [exact::type_of(left, schema)?, right_type];
    if !types.contains(&time) {
        return None;
    }
    let as_time = |(operand, found): (&Expr, DataType)| match (found, operand) {
        (found, _) if found == time => Some(operand.clone()),
        // A text that is written down is of the other one's type.
        (DataType::Timestamp(_, None) | DataType::Date32, _)
        | (DataType::Utf8 | DataType::Utf8View, Expr::Literal(..)) => Some(cast(operand.clone(), time.clone())),
        _ => None,
    };
    let [left_type, right_type] = types;
    let (left, right) = (as_time((left, left_type))?, as_time((right, right_type))?);
    let difference = BinaryExpr::new(Box::new(left), Operator::Minus, Box::new(right));
    Some(exact::difference().call(vec![Expr::BinaryExpr(difference)]))
}

fn comparison(operator: &BinaryOperator) -> Option<Operator> {
    Some(match operator {
        BinaryOperator::Eq => Operator::Eq,
        BinaryOperator::NotEq => Operator::NotEq,
        BinaryOperator::Lt => Operator::Lt,
        BinaryOperator::LtEq => Operator::LtEq,
        BinaryOperator::Gt => Operator::Gt,
        BinaryOperator::GtEq => Operator::GtEq,
        _ => return None,
    })
}
