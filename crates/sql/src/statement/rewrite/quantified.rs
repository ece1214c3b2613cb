//! `= ANY` and `<> ALL` are `IN` and `NOT IN`, which DataFusion plans right; its own comparison with ANY loses the outer
//! table where the inner one has the same name. Other comparisons stay, to be refused.

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr};

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
