//! Comparisons with ANY and ALL, and of rows with IN, in words that DataFusion plans right; its own comparison with ANY loses the
//! outer table where the inner one has the same name.
//!
//! `= ANY` and `<> ALL` are `IN` and `NOT IN`. Of the others, each is what the standard says it is:
//!
//! ```text
//! x < ANY (q)   CASE WHEN EXISTS (SELECT 1 FROM (q) AS v(c) WHERE x < c) THEN true
//!                    WHEN EXISTS (SELECT 1 FROM (q) AS v(c) WHERE (x < c) IS NULL) THEN NULL ELSE false END
//! x < ANY (ARRAY[a, b])   x < a OR x < b
//! x < ALL (q)   NOT (CASE … NOT (x < c) …)
//! ```

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Ident, Query, SetExpr, TableFactor, UnaryOperator};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;

use super::rows;
use super::tables::template;

pub(super) fn to_memberships(expression: &mut Expr) {
    let (left, right, negated) = match expression {
        Expr::AnyOp { left, compare_op: BinaryOperator::Eq, right, .. } => (left, right, false),
        Expr::AllOp { left, compare_op: BinaryOperator::NotEq, right } => (left, right, true),
        _ => return,
    };
    let expr = left.clone();
    match right.as_ref() {
        Expr::Subquery(subquery) => {
            *expression = Expr::InSubquery { expr, subquery: subquery.clone(), negated };
        }
        Expr::Array(array) if !array.elem.is_empty() => {
            *expression = Expr::InList { expr, list: array.elem.clone(), negated };
        }
        _ => {}
    }
}

/// Rewrites what is left of comparisons with the rows of a subquery.
pub(super) fn to_existence(expression: &mut Expr) {
    let rewritten = match expression {
        Expr::AnyOp { left, compare_op, right, .. } => compared(left, compare_op, right, false),
        Expr::AllOp { left, compare_op, right } => compared(left, compare_op, right, true),
        Expr::InSubquery { expr, subquery, negated } => {
            rows::row(expr).and_then(|row| exists(row, &BinaryOperator::Eq, subquery, *negated))
        }
        _ => None,
    };
    if let Some(rewritten) = rewritten {
        *expression = Expr::Nested(Box::new(rewritten));
    }
}

fn compared(left: &Expr, op: &BinaryOperator, right: &Expr, all: bool) -> Option<Expr> {
    if let Expr::Array(array) = right {
        return one_by_one(left, op, &array.elem, all);
    }
    let Expr::Subquery(subquery) = right else { return None };
    let left = rows::row(left).unwrap_or(std::slice::from_ref(left));
    if !all {
        return exists(left, op, subquery, false);
    }
    // All are, if none is not.
    let opposite = match op {
        BinaryOperator::Eq => BinaryOperator::NotEq,
        BinaryOperator::NotEq => BinaryOperator::Eq,
        BinaryOperator::Lt => BinaryOperator::GtEq,
        BinaryOperator::LtEq => BinaryOperator::Gt,
        BinaryOperator::Gt => BinaryOperator::LtEq,
        BinaryOperator::GtEq => BinaryOperator::Lt,
        _ => return None,
    };
    exists(left, &opposite, subquery, true)
}

/// `x < ANY (ARRAY[a, b])` is `x < a OR x < b`.
fn one_by_one(left: &Expr, op: &BinaryOperator, elements: &[Expr], all: bool) -> Option<Expr> {
    if !is_comparison(op) {
        return None;
    }
    let operand = |operand: &Expr| Box::new(Expr::Nested(Box::new(operand.clone())));
    let compared =
        elements.iter().map(|right| Expr::BinaryOp { left: operand(left), op: op.clone(), right: operand(right) });
    let joined = if all { BinaryOperator::And } else { BinaryOperator::Or };
    compared.reduce(|one, other| Expr::BinaryOp { left: Box::new(one), op: joined.clone(), right: Box::new(other) })
}

/// Whether there is a row that a comparison is true for, with the NULL of SQL.
fn exists(left: &[Expr], op: &BinaryOperator, subquery: &Query, negated: bool) -> Option<Expr> {
    let names: Vec<String> = (0..left.len()).map(|at| format!("\"__any{at}\"")).collect();
    let columns: Vec<Expr> =
        (0..left.len()).map(|at| Expr::Identifier(Ident::with_quote('"', format!("__any{at}")))).collect();
    let comparison = match (left, columns.as_slice()) {
        ([left], [right]) => {
            let operand = |operand: &Expr| Box::new(Expr::Nested(Box::new(operand.clone())));
            Expr::BinaryOp { left: operand(left), op: op.clone(), right: operand(right) }
        }
        (left, right) => rows::comparison(left, op, right)?,
    };
    let exists = |condition: Expr| {
        let mut exists = template(&format!("SELECT 1 FROM (SELECT 1) AS \"__any\" ({})", names.join(", ")))?;
        let SetExpr::Select(select) = exists.body.as_mut() else { return None };
        select.selection = Some(condition);
        let TableFactor::Derived { subquery: place, .. } = &mut select.from.first_mut()?.relation else { return None };
        **place = subquery.clone();
        Some(Box::new(Expr::Exists { subquery: exists, negated: false }))
    };
    let nested = Box::new(Expr::Nested(Box::new(comparison.clone())));
    let Expr::Case { mut conditions, else_result, case_token, end_token, operand } = case()? else { return None };
    conditions.get_mut(0)?.condition = *exists(comparison)?;
    conditions.get_mut(1)?.condition = *exists(Expr::IsNull(nested))?;
    let case = Expr::Case { conditions, else_result, case_token, end_token, operand };
    Some(if negated {
        Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(Expr::Nested(Box::new(case))) }
    } else {
        case
    })
}

fn is_comparison(op: &BinaryOperator) -> bool {
    use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq)
}

/// A CASE of three values, to be filled in.
fn case() -> Option<Expr> {
    let text = "CASE WHEN true THEN true WHEN true THEN CAST(NULL AS BOOLEAN) ELSE false END";
    Parser::new(&PostgreSqlDialect {}).try_with_sql(text).ok()?.parse_expr().ok()
}
