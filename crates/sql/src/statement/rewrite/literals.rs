//! Whole numbers that are written down are INTEGER where they fit, as in `PostgreSQL`; to DataFusion they are all BIGINT.
//!
//! What comes of it differs where a result's type does: a sum of INTEGER is a BIGINT, which is divided without a fraction, and
//! one of BIGINT a DECIMAL. Operators see to their own operands; here are the places from where a number gets into a column.

use datafusion::sql::sqlparser::ast::{
    DataType, Expr, FunctionArg, FunctionArgExpr, Ident, Select, SelectItem, SetExpr, TableFactor, UnaryOperator, Value,
};

use ishigaki_scan::exact::{self, COMMON_TYPE};

use super::{arguments, called, cast};
use crate::statement::{function_name, has_no_type};

/// Functions whose result has the type of their arguments.
const SAME: [&str; 4] = ["coalesce", "nullif", "greatest", "least"];

/// The least BIGINT, whose digits without the sign are none.
pub(super) fn least(expression: &mut Expr) {
    let least = i64::MIN.unsigned_abs();
    if let Expr::UnaryOp { op: UnaryOperator::Minus, expr } = expression
        && let Expr::Value(value) = expr.as_ref()
        && matches!(&value.value, Value::Number(digits, _) if digits.parse() == Ok(least))
    {
        *expression = Expr::Value(Value::Number(i64::MIN.to_string(), false).with_span(value.span));
    }
}

/// Columns that are selected with a plus before them, which changes nothing, have the column's name as those without one.
pub(super) fn without_plus(select: &mut Select) {
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expression) = item
            && let Expr::UnaryOp { op: UnaryOperator::Plus, expr } = expression
            && matches!(expr.as_ref(), Expr::Identifier(_) | Expr::CompoundIdentifier(_))
        {
            *expression = expr.as_ref().clone();
        }
    }
}

/// What is selected.
pub(super) fn selected(select: &mut Select) {
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expression) | SelectItem::ExprWithAlias { expr: expression, .. } = item {
            narrow(expression);
        }
    }
}

/// What is summed, and what is one of several values.
pub(super) fn within(expression: &mut Expr) {
    match expression {
        Expr::Case { .. } => narrow(expression),
        Expr::Function(function) => {
            let chosen = function_name(function)
                .is_some_and(|name| matches!(&*name, "sum" | "avg" | "pg_typeof") || SAME.contains(&&*name));
            if chosen {
                arguments(function).for_each(narrow);
            }
        }
        _ => {}
    }
}

/// The numbers that a table function gets, which are BIGINT for DataFusion's.
pub(super) fn of_table_function(table: &mut TableFactor) {
    let TableFactor::Table { args: Some(list), .. } = table else { return };
    for argument in &mut list.args {
        if let FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)) = argument
            && matches!(argument, Expr::BinaryOp { .. } | Expr::Nested(_))
            && is_of_numbers(argument)
        {
            *argument = cast(argument.clone(), DataType::BigInt(None));
        }
    }
}

/// `VALUES (1.5), ('2.75')`: a text of no type in a column of decimals is a number with its own digits. A column of whole numbers is of
/// INTEGER where they fit, and values that may be of several types are marked, so that they get one. What is inserted has the type of
/// its place.
pub(super) fn of_values(body: &mut SetExpr) {
    if let SetExpr::SetOperation { left, right, .. } = body {
        of_values(left);
        of_values(right);
    }
    let SetExpr::Values(values) = body else { return };
    let columns = values.rows.first().map_or(0, |row| row.content.len());
    for column in 0..columns {
        let mut all = values.rows.iter_mut().filter_map(|row| row.content.get_mut(column)).collect::<Vec<_>>();
        if all.iter().any(|one| is_decimal(one)) {
            for one in &mut all {
                if let Some(number) = as_number(one) {
                    **one = number;
                }
            }
        }
        if let Some(of) = all.iter().find_map(|one| moment_or_truth(one)) {
            for one in all.iter_mut().filter(|one| has_no_type(one) && !is_null(one)) {
                **one = cast(one.clone(), of.clone());
            }
        }
        if all.iter().all(|one| is_integer(one) || is_null(one)) {
            all.into_iter().for_each(narrow);
        } else if !all.iter().all(|one| is_written(one)) {
            for one in all.into_iter().filter(|one| !has_no_type(one)) {
                *one = called(Ident::with_quote('"', COMMON_TYPE), [one.clone()]);
            }
        }
    }
}

/// The type of a day, a time or a truth, as far as that is seen: that of texts of no type beside it.
fn moment_or_truth(expression: &Expr) -> Option<DataType> {
    let of = match expression {
        Expr::Nested(inner) => return moment_or_truth(inner),
        Expr::Cast { data_type, .. } => data_type,
        Expr::TypedString(typed) => &typed.data_type,
        Expr::Value(value) if matches!(value.value, Value::Boolean(_)) => return Some(DataType::Boolean),
        _ => return None,
    };
    matches!(of, DataType::Date | DataType::Timestamp(..) | DataType::Boolean).then(|| of.clone())
}

fn is_null(expression: &Expr) -> bool {
    matches!(expression, Expr::Value(value) if value.value == Value::Null)
}

/// Whether an expression is a value that is written down without a type.
fn is_written(expression: &Expr) -> bool {
    match expression {
        Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr } => {
            matches!(expr.as_ref(), Expr::Value(_))
        }
        other => matches!(other, Expr::Value(_)),
    }
}

/// Whether an expression is of decimals, as far as that is seen without columns.
fn is_decimal(expression: &Expr) -> bool {
    match expression {
        Expr::Nested(inner) | Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr: inner } => {
            is_decimal(inner)
        }
        Expr::BinaryOp { left, right, .. } => is_decimal(left) || is_decimal(right),
        Expr::Cast { data_type, .. } => {
            matches!(data_type, DataType::Decimal(_) | DataType::Numeric(_) | DataType::Dec(_))
        }
        Expr::Value(value) => matches!(&value.value, Value::Number(digits, _) if digits.contains(['.', 'e', 'E'])),
        _ => false,
    }
}

/// The number that a text of no type is.
fn as_number(expression: &Expr) -> Option<Expr> {
    let Expr::Value(value) = expression else { return None };
    let Value::SingleQuotedString(text) = &value.value else { return None };
    let (digits, ..) = exact::written(text)?;
    let number = |digits: &str| Expr::Value(Value::Number(digits.to_owned(), false).with_span(value.span));
    Some(match digits.strip_prefix('-') {
        Some(digits) => Expr::UnaryOp { op: UnaryOperator::Minus, expr: Box::new(number(digits)) },
        None => number(&digits),
    })
}

/// Whether an expression is of whole numbers that are written down.
fn is_of_numbers(expression: &Expr) -> bool {
    match expression {
        Expr::Nested(inner) | Expr::UnaryOp { expr: inner, .. } => is_of_numbers(inner),
        Expr::BinaryOp { left, right, .. } => is_of_numbers(left) && is_of_numbers(right),
        Expr::Value(value) => matches!(&value.value, Value::Number(digits, _) if digits.parse::<i64>().is_ok()),
        _ => false,
    }
}

/// Has the numbers that an expression may be read as INTEGER.
fn narrow(expression: &mut Expr) {
    match expression {
        Expr::Nested(inner) => narrow(inner),
        Expr::Case { conditions, else_result, .. } => {
            for when in conditions {
                narrow(&mut when.result);
            }
            if let Some(otherwise) = else_result {
                narrow(otherwise);
            }
        }
        _ if is_integer(expression) => {
            *expression = cast(expression.clone(), DataType::Int(None));
        }
        _ => {}
    }
}

fn is_integer(expression: &Expr) -> bool {
    match expression {
        Expr::Value(value) => matches!(&value.value, Value::Number(digits, _) if digits.parse::<i32>().is_ok()),
        Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr } => {
            matches!(expr.as_ref(), Expr::Value(_)) && is_integer(expr)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use crate::Statement;

    #[test]
    fn numbers_that_get_into_a_column_are_integers_where_they_fit() {
        for (sql, rewritten) in [
            ("SELECT 1, 3000000000, 1.5, -7", "SELECT CAST(1 AS INT), 3000000000, 1.5, CAST(-7 AS INT)"),
            (
                "SELECT sum(CASE WHEN a > 1 THEN 1 ELSE 0 END) + 1 FROM t LIMIT 3",
                "SELECT sum(CASE WHEN a > 1 THEN CAST(1 AS INT) ELSE CAST(0 AS INT) END) + 1 FROM t LIMIT 3",
            ),
            ("SELECT coalesce(a, 0) FROM t WHERE b = 2", "SELECT coalesce(a, CAST(0 AS INT)) FROM t WHERE b = 2"),
            (
                "SELECT a FROM t GROUP BY CASE WHEN a > 1 THEN 1 END",
                "SELECT a FROM t GROUP BY CASE WHEN a > 1 THEN CAST(1 AS INT) END, \"end_of_groups ;\"()",
            ),
        ] {
            assert_eq!(Statement::parse(sql).expect("parses")[0].to_string(), rewritten);
        }
    }
}
