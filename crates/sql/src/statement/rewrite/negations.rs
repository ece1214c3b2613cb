//! `NOT EXISTS (…) IS NULL` is `NOT (EXISTS (…) IS NULL)`: NOT binds more loosely than IS and the comparisons do. The parser takes
//! `NOT EXISTS` for one word, and so what it parses means something else. In parentheses it is one.

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, UnaryOperator};

/// Puts the NOT of a `NOT EXISTS` outside of what is asked of it.
pub(super) fn outside(expression: &mut Expr) {
    let Some(operand) = operand(expression) else { return };
    let Expr::Exists { negated, .. } = operand else { return };
    if std::mem::take(negated) {
        let inner = std::mem::replace(expression, Expr::value(datafusion::sql::sqlparser::ast::Value::Null));
        *expression = Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(Expr::Nested(Box::new(inner))) };
    }
}

/// What an operator that binds closer than NOT has on its left.
fn operand(expression: &mut Expr) -> Option<&mut Expr> {
    match expression {
        Expr::IsTrue(inner)
        | Expr::IsNotTrue(inner)
        | Expr::IsFalse(inner)
        | Expr::IsNotFalse(inner)
        | Expr::IsUnknown(inner)
        | Expr::IsNotUnknown(inner)
        | Expr::IsNull(inner)
        | Expr::IsNotNull(inner)
        | Expr::IsDistinctFrom(inner, _)
        | Expr::IsNotDistinctFrom(inner, _)
        | Expr::InList { expr: inner, .. }
        | Expr::InSubquery { expr: inner, .. }
        | Expr::Between { expr: inner, .. }
        | Expr::Cast { expr: inner, .. } => Some(inner),
        Expr::BinaryOp { left, op, .. }
            if !matches!(op, BinaryOperator::And | BinaryOperator::Or | BinaryOperator::Xor) =>
        {
            Some(left)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::statement::rewritten;

    #[test]
    fn not_binds_more_loosely_than_what_is_asked_of_exists() {
        for (condition, expected) in [
            ("NOT EXISTS (SELECT a FROM t) IS UNKNOWN", "NOT (EXISTS (SELECT a FROM t) IS NULL)"),
            ("NOT EXISTS (SELECT a FROM t) = false", "NOT (EXISTS (SELECT a FROM t) = false)"),
            ("NOT EXISTS (SELECT a FROM t) IN (true)", "NOT (EXISTS (SELECT a FROM t) IN (true))"),
            ("(NOT EXISTS (SELECT a FROM t)) IS UNKNOWN", "(NOT EXISTS (SELECT a FROM t)) IS NULL"),
            ("NOT EXISTS (SELECT a FROM t) AND true", "NOT EXISTS (SELECT a FROM t) AND true"),
        ] {
            assert_eq!(rewritten(&format!("SELECT {condition}")), format!("SELECT {expected}"));
        }
    }
}
