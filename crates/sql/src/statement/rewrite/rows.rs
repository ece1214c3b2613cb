//! Comparisons of rows, column by column: `(a, b) < (c, d)` is `a < c OR (a = c AND b < d)`. By the logic of NULL that comes to
//! what the standard says of rows, which DataFusion's comparison of structures does not.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, Select, UnaryOperator,
};

/// Rewrites a comparison of rows, or an IN list of rows. Others stay, to be refused.
pub(super) fn compare(expression: &mut Expr) {
    if let Some(row) = constructed(expression) {
        *expression = Expr::Tuple(row);
        return;
    }
    let rewritten = match expression {
        Expr::BinaryOp { left, op, right } => match (row(left), row(right)) {
            (Some(left), Some(right)) => comparison(left, op, right),
            _ => None,
        },
        Expr::InList { expr, list, negated } => match row(expr) {
            Some(left) => membership(left, list).map(|found| if *negated { not(found) } else { found }),
            None => None,
        },
        _ => None,
    };
    if let Some(rewritten) = rewritten {
        *expression = Expr::Nested(Box::new(rewritten));
    }
}

/// `GROUP BY (a, b)` groups by `a` and `b`.
pub(super) fn in_group_by(select: &mut Select) {
    if let GroupByExpr::Expressions(expressions, _) = &mut select.group_by
        && expressions.iter().any(|expression| matches!(expression, Expr::Tuple(_)))
    {
        *expressions = std::mem::take(expressions)
            .into_iter()
            .flat_map(|expression| match expression {
                Expr::Tuple(columns) if !columns.is_empty() => columns,
                other => vec![other],
            })
            .collect();
    }
}

/// The columns of `ROW(a, b)`.
fn constructed(expression: &Expr) -> Option<Vec<Expr>> {
    let Expr::Function(function) = expression else { return None };
    let [name] = function.name.0.as_slice() else { return None };
    let name = name.as_ident()?;
    if name.quote_style.is_some() || !name.value.eq_ignore_ascii_case("row") || function.over.is_some() {
        return None;
    }
    let FunctionArguments::List(list) = &function.args else { return None };
    list.args
        .iter()
        .map(|argument| match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(column)) => Some(column.clone()),
            _ => None,
        })
        .collect()
}

pub(super) fn row(expression: &Expr) -> Option<&[Expr]> {
    match expression {
        Expr::Nested(inner) => row(inner),
        Expr::Tuple(columns) if !columns.is_empty() => Some(columns),
        _ => None,
    }
}

fn membership(left: &[Expr], list: &[Expr]) -> Option<Expr> {
    let equal = |right| comparison(left, &BinaryOperator::Eq, row(right)?);
    joined(list.iter().map(equal).collect::<Option<_>>()?, &BinaryOperator::Or)
}

pub(super) fn comparison(left: &[Expr], op: &BinaryOperator, right: &[Expr]) -> Option<Expr> {
    if left.len() != right.len() {
        return None;
    }
    let pairs = || left.iter().zip(right);
    let (strict, or_equal) = match op {
        BinaryOperator::Eq => {
            return joined(pairs().map(|(left, right)| binary(left, op, right)).collect(), &BinaryOperator::And);
        }
        BinaryOperator::NotEq => {
            return joined(pairs().map(|(left, right)| binary(left, op, right)).collect(), &BinaryOperator::Or);
        }
        BinaryOperator::Lt => (BinaryOperator::Lt, false),
        BinaryOperator::LtEq => (BinaryOperator::Lt, true),
        BinaryOperator::Gt => (BinaryOperator::Gt, false),
        BinaryOperator::GtEq => (BinaryOperator::Gt, true),
        _ => return None,
    };
    let mut rest: Option<Expr> = None;
    for (left, right) in pairs().rev() {
        rest = Some(match rest {
            None => binary(left, if or_equal { op } else { &strict }, right),
            Some(rest) => {
                let equal = Expr::Nested(Box::new(binary(left, &BinaryOperator::Eq, right)));
                let then = Expr::Nested(Box::new(binary(&equal, &BinaryOperator::And, &rest)));
                Expr::Nested(Box::new(binary(&binary(left, &strict, right), &BinaryOperator::Or, &then)))
            }
        });
    }
    rest
}

/// A tree of operators that is as flat as can be: a list may be long.
fn joined(mut terms: Vec<Expr>, op: &BinaryOperator) -> Option<Expr> {
    match terms.len() {
        0 | 1 => terms.pop(),
        many => {
            let right = terms.split_off(many / 2);
            Some(Expr::Nested(Box::new(binary(&joined(terms, op)?, op, &joined(right, op)?))))
        }
    }
}

fn binary(left: &Expr, op: &BinaryOperator, right: &Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left.clone()), op: op.clone(), right: Box::new(right.clone()) }
}

fn not(expression: Expr) -> Expr {
    Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(expression) }
}
