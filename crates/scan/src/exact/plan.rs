//! Exact numbers in plans: which function stands for which operator, and the rule that leaves no other in a plan.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DFSchema, ExprSchema, Result, ScalarValue};
use datafusion::functions::string::btrim;
use datafusion::logical_expr::expr::{AggregateFunction, Cast, ScalarFunction, TryCast, WindowFunction};
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, ScalarUDF, WindowFunctionDefinition, cast, lit, when,
};
use datafusion::optimizer::analyzer::AnalyzerRule;

use super::calls::{day, digits};
use super::conversions::nearest;
use super::forms::rewrite_in;
use super::formula::collapsed;
use super::times::in_microseconds;
use super::{
    aggregates, arithmetic, double, negation, one_nan, operator as operator_of, real, result_type, round_even,
};

/// What `PostgreSQL` skips around a number that it reads from text.
const SPACES: &str = " \t\n\r\u{b}\u{c}";

/// What a number is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Number {
    SmallInt,
    Integer,
    BigInt,
    Decimal(u8, i8),
    Real,
    Double,
}

impl Number {
    pub(super) fn of(expression: &Expr, data_type: &DataType) -> Option<Self> {
        // A number that is written down is the narrowest INTEGER or BIGINT.
        if let Expr::Literal(ScalarValue::Int64(value), _) = expression {
            let narrow = value.is_none_or(|value| i32::try_from(value).is_ok());
            return Some(if narrow { Self::Integer } else { Self::BigInt });
        }
        Self::of_type(data_type)
    }

    pub(super) fn of_type(data_type: &DataType) -> Option<Self> {
        Some(match data_type {
            DataType::Int8 | DataType::UInt8 | DataType::Int16 => Self::SmallInt,
            DataType::UInt16 | DataType::Int32 => Self::Integer,
            DataType::UInt32 | DataType::Int64 | DataType::UInt64 => Self::BigInt,
            DataType::Decimal32(precision, scale)
            | DataType::Decimal64(precision, scale)
            | DataType::Decimal128(precision, scale)
                if *scale >= 0 =>
            {
                Self::Decimal(*precision, *scale)
            }
            DataType::Float16 | DataType::Float32 => Self::Real,
            DataType::Float64 => Self::Double,
            _ => return None,
        })
    }

    pub(super) fn is_integer(self) -> bool {
        self <= Self::BigInt
    }

    pub(super) fn arrow(self) -> DataType {
        match self {
            Self::SmallInt => DataType::Int16,
            Self::Integer => DataType::Int32,
            Self::BigInt => DataType::Int64,
            Self::Decimal(precision, scale) => DataType::Decimal128(precision, scale),
            Self::Real => DataType::Float32,
            Self::Double => DataType::Float64,
        }
    }

    /// The decimal that holds an integer.
    pub(super) fn as_decimal(self) -> Self {
        match self {
            Self::SmallInt => Self::Decimal(5, 0),
            Self::Integer => Self::Decimal(10, 0),
            Self::BigInt => Self::Decimal(19, 0),
            other => other,
        }
    }
}

/// The types as which two numbers meet an operator.
fn meet(left: Number, right: Number) -> (Number, Number) {
    let floats = [left, right].iter().any(|number| *number >= Number::Real);
    match (left, right) {
        (Number::Real, Number::Real) => (left, right),
        _ if floats => (Number::Double, Number::Double),
        _ if left.is_integer() && right.is_integer() => (left.max(right), left.max(right)),
        _ => (left.as_decimal(), right.as_decimal()),
    }
}

/// An expression as a number of that type.
pub(super) fn of_type(expression: &Expr, found: &DataType, number: Number) -> Expr {
    if let (Expr::Literal(ScalarValue::Int64(Some(value)), _), Number::Decimal(_, 0)) = (expression, number) {
        // With no more digits than it has.
        let digits = value.unsigned_abs().checked_ilog10().map_or(1, |log| log as u8 + 1);
        return lit(ScalarValue::Decimal128(Some(i128::from(*value)), digits, 0));
    }
    let wanted = number.arrow();
    match expression {
        _ if *found == wanted => expression.clone(),
        Expr::Literal(value, _) => match literal(value, &wanted) {
            Ok(value) => lit(value),
            Err(_) => cast(expression.clone(), wanted),
        },
        _ => cast(expression.clone(), wanted),
    }
}

/// A literal of another type.
pub fn literal(value: &ScalarValue, to: &DataType) -> Result<ScalarValue> {
    if value.data_type().is_decimal() && to.is_floating() {
        return ScalarValue::try_from_array(&nearest(&value.to_array()?, to)?, 0);
    }
    value.cast_to(to)
}

/// The type of an expression. DataFusion would write the name of a function out to tell the type of what it gives.
pub fn type_of(expression: &Expr, schema: &dyn ExprSchema) -> Option<DataType> {
    match expression {
        Expr::ScalarFunction(call) if operator_of(&call.func).is_some() => {
            let types = call.args.iter().map(|argument| type_of(argument, schema)).collect::<Option<Vec<_>>>()?;
            call.func.return_type(&types).ok()
        }
        Expr::Negative(inner) => type_of(inner, schema),
        other => other.get_type(schema).ok(),
    }
}

/// The types as which an operator takes two types of numbers.
pub(super) fn met(left: &DataType, right: &DataType) -> Option<[DataType; 2]> {
    let (left, right) = meet(Number::of_type(left)?, Number::of_type(right)?);
    Some([left.arrow(), right.arrow()])
}

/// What stands for an operator while the types of its operands may still become wider: they are left as they are.
pub fn unsettled(operator: Operator, left: &Expr, right: &Expr, schema: &dyn ExprSchema) -> Option<Expr> {
    let mut call = match binary(operator, left, right, schema)? {
        Expr::ScalarFunction(call) => call,
        dates => return Some(dates),
    };
    let is_number = |operand: &Expr| type_of(operand, schema).is_some_and(|found| Number::of_type(&found).is_some());
    for (made, operand) in call.args.iter_mut().zip([left, right]) {
        if matches!(made, Expr::Cast(Cast { expr, .. }) if expr.as_ref() == operand) && is_number(operand) {
            *made = operand.clone();
        }
    }
    Some(Expr::ScalarFunction(call))
}

/// What stands for an operator between two numbers or dates; nothing where DataFusion's own is right.
pub fn binary(operator: Operator, left: &Expr, right: &Expr, schema: &dyn ExprSchema) -> Option<Expr> {
    let function = arithmetic(operator)?;
    let (left_type, right_type) = (type_of(left, schema)?, type_of(right, schema)?);
    if let Some(dates) = of_dates(operator, (left, &left_type), (right, &right_type), schema) {
        return Some(dates);
    }
    let (is, other) = meet(Number::of(left, &left_type)?, Number::of(right, &right_type)?);
    let (left, right) = (of_type(left, &left_type, is), of_type(right, &right_type, other));
    result_type(operator, &type_of(&left, schema)?, &type_of(&right, schema)?)?;
    Some(Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![left, right])))
}

/// A day and a number of days, two days, and a day and an interval, which is a time.
fn of_dates(
    operator: Operator,
    (left, left_type): (&Expr, &DataType),
    (right, right_type): (&Expr, &DataType),
    schema: &dyn ExprSchema,
) -> Option<Expr> {
    let days = |date: &Expr| cast(date.clone(), DataType::Int32);
    let as_date = |days: Expr| Expr::ScalarFunction(ScalarFunction::new_udf(day(), vec![days]));
    let time = |date: &Expr| cast(date.clone(), DataType::Timestamp(TimeUnit::Microsecond, None));
    match (left_type, operator, right_type) {
        (DataType::Date32, Operator::Minus, DataType::Date32) => binary(operator, &days(left), &days(right), schema),
        (DataType::Date32, Operator::Plus | Operator::Minus, right_type) if right_type.is_integer() => {
            binary(operator, &days(left), right, schema).map(as_date)
        }
        (left_type, Operator::Plus, DataType::Date32) if left_type.is_integer() => {
            binary(operator, left, &days(right), schema).map(as_date)
        }
        (DataType::Date32, Operator::Plus | Operator::Minus, DataType::Interval(_)) => {
            Some(plain(time(left), operator, right.clone()))
        }
        (DataType::Interval(_), Operator::Plus, DataType::Date32) => Some(plain(left.clone(), operator, time(right))),
        _ => None,
    }
}

fn plain(left: Expr, operator: Operator, right: Expr) -> Expr {
    Expr::BinaryExpr(BinaryExpr::new(Box::new(left), operator, Box::new(right)))
}

/// A day and an interval of whole days, as a day: what compares to a date so, compares as the time at midnight does, and
/// leaves the date as it is for those that know its bounds.
pub fn as_day(expression: &Expr) -> Option<Expr> {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Plus | Operator::Minus, right }) = expression else {
        return None;
    };
    let Expr::BinaryExpr(BinaryExpr { op, .. }) = expression else { return None };
    let day = |expression: &Expr| match expression {
        Expr::Cast(Cast { expr, .. }) => match expr.as_ref() {
            Expr::Literal(ScalarValue::Date32(_), _) => Some(expr.as_ref().clone()),
            Expr::Cast(inner) if *inner.field.data_type() == DataType::Date32 => Some(expr.as_ref().clone()),
            _ => None,
        },
        other => as_day(other),
    };
    let is_whole = |expression: &Expr| matches!(expression, Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(interval)), _) if interval.nanoseconds == 0);
    if is_whole(right) {
        return Some(plain(day(left)?, *op, right.as_ref().clone()));
    }
    (*op == Operator::Plus && is_whole(left)).then(|| Some(plain(left.as_ref().clone(), *op, day(right)?)))?
}

/// Has numbers computed exactly wherever a plan computes: in all expressions of all nodes and of all subqueries.
#[derive(Debug, Default)]
pub struct ExactNumbers;

impl AnalyzerRule for ExactNumbers {
    fn name(&self) -> &'static str {
        "exact_numbers"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let with_schema = |plan: LogicalPlan| {
            let changed = rewrite_in(plan, may_compute, |expression, schema| {
                expression.transform_up(|expression| Ok(exactly(expression, schema)))?.transform_data(collapsed)
            })?;
            if changed.transformed { changed.map_data(LogicalPlan::recompute_schema) } else { Ok(changed) }
        };
        plan.transform_up_with_subqueries(with_schema).data()
    }
}

/// Whether an expression is of one of the forms that [`exactly`] looks at.
fn may_compute(expression: &Expr) -> bool {
    matches!(
        expression,
        Expr::BinaryExpr(_)
            | Expr::Negative(_)
            | Expr::Between(_)
            | Expr::InList(_)
            | Expr::Cast(_)
            | Expr::TryCast(_)
            | Expr::ScalarFunction(_)
            | Expr::AggregateFunction(_)
            | Expr::WindowFunction(_)
    )
}

/// An expression with exact arithmetic at its top.
fn exactly(expression: Expr, schema: &DFSchema) -> Transformed<Expr> {
    if let Some(widened) = widened(&expression, schema) {
        return Transformed::yes(exactly(widened, schema).data);
    }
    let made = match &expression {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => match days_alone(left, *op, right, schema) {
            Some(days) => Some(days),
            None => binary(*op, left, right, schema).or_else(|| in_microseconds(&expression, schema)),
        },
        Expr::Negative(inner) => match type_of(inner, schema) {
            Some(DataType::Int16 | DataType::Int32 | DataType::Int64 | DataType::Float32 | DataType::Float64) => {
                Some(Expr::ScalarFunction(ScalarFunction::new_udf(negation(), vec![inner.as_ref().clone()])))
            }
            _ => None,
        },
        Expr::Cast(Cast { expr, field }) if field.data_type().is_floating() => {
            as_float(expr, field.data_type(), schema)
        }
        Expr::Cast(Cast { expr, field }) if field.data_type().is_decimal() && has_digits(expr, schema) => {
            let digits = Expr::ScalarFunction(ScalarFunction::new_udf(digits(), vec![expr.as_ref().clone()]));
            Some(Expr::Cast(Cast { expr: Box::new(digits), field: Arc::clone(field) }))
        }
        Expr::Cast(Cast { expr, field }) => {
            let narrows = narrows(expr, field.data_type(), schema);
            let made = castable(expr, field.data_type(), schema)
                .map(|expr| Expr::Cast(Cast { expr: Box::new(expr), field: Arc::clone(field) }));
            // A cast that may fail is kept from rules that would compare what it is of instead.
            if narrows { Some(whole(made.unwrap_or_else(|| expression.clone()))) } else { made }
        }
        // Halves go to the even neighbour.
        Expr::ScalarFunction(ScalarFunction { func, args }) if func.name() == "round" && args.len() == 1 => {
            let of = args.first().filter(|of| is_float(of, schema));
            of.map(|of| whole(of.clone()))
        }
        // A NaN that is made of other numbers has a sign on some processors.
        Expr::ScalarFunction(ScalarFunction { func, .. })
            if makes_nan(func.name()) && is_float(&expression, schema) =>
        {
            Some(Expr::ScalarFunction(ScalarFunction::new_udf(one_nan(), vec![expression.clone()])))
        }
        // Once is enough.
        Expr::ScalarFunction(call) if is_call(&expression, &one_nan()) => {
            call.args.first().filter(|inner| is_call(inner, &one_nan())).cloned()
        }
        // Equal is what `=` says: the two zeros are, and NaN and NaN. And the result is of the first one's type.
        Expr::ScalarFunction(ScalarFunction { func, args }) if func.name() == "nullif" => match args.as_slice() {
            [value, other] if is_float(value, schema) || is_float(other, schema) || differ(value, other, schema) => {
                when(exactly(plain(value.clone(), Operator::Eq, other.clone()), schema).data, lit(ScalarValue::Null))
                    .otherwise(value.clone())
                    .ok()
                    .filter(|_| !value.is_volatile())
            }
            _ => None,
        },
        Expr::ScalarFunction(call) if is_call(&expression, &round_even()) => {
            call.args.first().filter(|inner| is_call(inner, &round_even())).cloned()
        }
        Expr::TryCast(TryCast { expr, field }) => castable(expr, field.data_type(), schema)
            .map(|expr| Expr::TryCast(TryCast { expr: Box::new(expr), field: Arc::clone(field) })),
        Expr::AggregateFunction(AggregateFunction { func, params }) => {
            let exact = aggregates().find(|exact| exact.name() == func.name() && exact != func);
            exact.map(|func| Expr::AggregateFunction(AggregateFunction { func, params: params.clone() }))
        }
        Expr::WindowFunction(window) => match &window.fun {
            WindowFunctionDefinition::AggregateUDF(func) => {
                let exact = aggregates().find(|exact| exact.name() == func.name() && exact != func);
                exact.map(|func| {
                    let fun = WindowFunctionDefinition::AggregateUDF(func);
                    Expr::WindowFunction(Box::new(WindowFunction { fun, params: window.params.clone() }))
                })
            }
            WindowFunctionDefinition::WindowUDF(_) => None,
        },
        other => in_microseconds(other, schema),
    };
    made.map_or_else(|| Transformed::no(expression), Transformed::yes)
}

/// Whether a function of floating-point numbers gives NaN for some that are not.
fn makes_nan(function: &str) -> bool {
    const NAMES: [&str; 18] = [
        "sqrt", "power", "pow", "ln", "log", "log2", "log10", "acos", "acosh", "asin", "atanh", "sin", "cos", "tan",
        "cot", "exp", "nanvl", "signum",
    ];
    NAMES.contains(&function)
}

/// A function of floating-point numbers that takes a DOUBLE, and is given a REAL: there is none of a REAL.
fn widened(expression: &Expr, schema: &DFSchema) -> Option<Expr> {
    const NAMES: [&str; 25] = [
        "sqrt", "cbrt", "exp", "power", "pow", "ln", "log", "log2", "log10", "sin", "cos", "tan", "cot", "asin",
        "acos", "atan", "atan2", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "degrees", "radians",
    ];
    const ROUNDING: [&str; 5] = ["ceil", "floor", "round", "trunc", "signum"];
    let Expr::ScalarFunction(ScalarFunction { func, args }) = expression else { return None };
    let is_real = |argument: &Expr| type_of(argument, schema) == Some(DataType::Float32);
    let takes_doubles = NAMES.contains(&func.name()) || ROUNDING.contains(&func.name());
    if !takes_doubles || !args.iter().any(is_real) {
        return None;
    }
    let as_double = |argument: &Expr| {
        if is_real(argument) { cast(argument.clone(), DataType::Float64) } else { argument.clone() }
    };
    let args = args.iter().map(as_double).collect();
    Some(Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(func), args)))
}

/// Whether two expressions are of different types, and neither is a NULL of none.
fn differ(one: &Expr, other: &Expr, schema: &DFSchema) -> bool {
    let types = type_of(one, schema).zip(type_of(other, schema));
    types.is_some_and(|(one, other)| one != other && one != DataType::Null && other != DataType::Null)
}

fn is_float(expression: &Expr, schema: &DFSchema) -> bool {
    type_of(expression, schema).is_some_and(|data_type| data_type.is_floating())
}

/// A date compared with a day and whole days.
fn days_alone(left: &Expr, operator: Operator, right: &Expr, schema: &DFSchema) -> Option<Expr> {
    use Operator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    let is_date = |expression: &Expr| type_of(expression, schema) == Some(DataType::Date32);
    if !matches!(operator, Eq | NotEq | Lt | LtEq | Gt | GtEq) {
        return None;
    }
    if is_date(left) {
        return Some(plain(left.clone(), operator, as_day(right)?));
    }
    is_date(right).then(|| Some(plain(as_day(left)?, operator, right.clone())))?
}

fn whole(expression: Expr) -> Expr {
    Expr::ScalarFunction(ScalarFunction::new_udf(round_even(), vec![expression]))
}

/// A cast of which a finite value might become infinite, or zero.
fn as_float(expression: &Expr, to: &DataType, schema: &DFSchema) -> Option<Expr> {
    let function = if *to == DataType::Float32 { real() } else { double() };
    let of = match type_of(expression, schema)? {
        DataType::Float64 if *to == DataType::Float32 => expression.clone(),
        DataType::Decimal128(..) => expression.clone(),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            castable(expression, to, schema).unwrap_or_else(|| expression.clone())
        }
        _ => return None,
    };
    Some(Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![of])))
}

/// Whether a decimal of an expression is read from its digits.
fn has_digits(expression: &Expr, schema: &DFSchema) -> bool {
    let found = type_of(expression, schema);
    found.is_some_and(|found| found.is_floating() || found.is_string()) && !is_call(expression, &digits())
}

fn is_call(expression: &Expr, function: &Arc<ScalarUDF>) -> bool {
    matches!(expression, Expr::ScalarFunction(call) if call.func == *function)
}

/// Whether a cast between exact numbers fails for some of them.
fn narrows(expression: &Expr, to: &DataType, schema: &DFSchema) -> bool {
    let digits = |data_type: &DataType| match data_type {
        DataType::Int8 => Some((3, 0)),
        DataType::Int16 => Some((5, 0)),
        DataType::Int32 => Some((10, 0)),
        DataType::Int64 => Some((19, 0)),
        DataType::Decimal128(precision, scale) => Some((i16::from(*precision) - i16::from(*scale), i16::from(*scale))),
        _ => None,
    };
    let Some(from) = type_of(expression, schema) else { return false };
    match (digits(&from), digits(to)) {
        (Some((has, of)), Some((gets, behind))) => has > gets || of > behind || from.is_decimal() && to.is_integer(),
        _ => false,
    }
}

/// What is to be cast so that numbers are rounded as `PostgreSQL` does, and read from texts with spaces around them. Nothing
/// where that makes no difference.
fn castable(expression: &Expr, to: &DataType, schema: &DFSchema) -> Option<Expr> {
    let to_integer = to.is_integer();
    match type_of(expression, schema)? {
        DataType::Float32 | DataType::Float64 if to_integer && !is_call(expression, &round_even()) => {
            Some(whole(expression.clone()))
        }
        DataType::Decimal128(precision, scale) if to_integer && scale > 0 => {
            let digits = (i16::from(precision) - i16::from(scale) + 1).clamp(1, 38);
            Some(cast(expression.clone(), DataType::Decimal128(digits as u8, 0)))
        }
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
            if (to.is_numeric() || *to == DataType::Boolean)
                && ![btrim(), digits()].iter().any(|known| is_call(expression, known)) =>
        {
            Some(Expr::ScalarFunction(ScalarFunction::new_udf(btrim(), vec![expression.clone(), lit(SPACES)])))
        }
        _ => None,
    }
}
