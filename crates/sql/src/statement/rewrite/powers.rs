//! Powers with signs. A sign belongs to the number before the power is taken, and powers go from left to right: `-2 ^ 2` is 4, and
//! `2 ^ -1 ^ 2` a quarter. `sqlparser` reads `-(2 ^ 2)` and `2 ^ -(1 ^ 2)`.

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, UnaryOperator};

/// The parts of a power have been visited before it.
pub(super) fn take_signs(expression: &mut Expr) {
    match expression {
        Expr::UnaryOp { op: op @ (UnaryOperator::Minus | UnaryOperator::Plus), expr } if is_power(expr) => {
            let (op, power) = (*op, taken(expr));
            *expression = with_first(power, |first| Expr::UnaryOp { op, expr: first });
        }
        Expr::BinaryOp { left, op: op @ BinaryOperator::PGExp, right } if is_power(right) => {
            let (left, op, power) = (Box::new(taken(left)), op.clone(), taken(right));
            *expression = with_first(power, |right| Expr::BinaryOp { left, op, right });
        }
        _ => {}
    }
}

fn is_power(expression: &Expr) -> bool {
    matches!(expression, Expr::BinaryOp { op: BinaryOperator::PGExp, .. })
}

/// A chain of powers with something else in the place of its leftmost operand.
fn with_first(mut power: Expr, made_of: impl FnOnce(Box<Expr>) -> Expr) -> Expr {
    let mut first = &mut power;
    while let Expr::BinaryOp { left, op: BinaryOperator::PGExp, .. } = first {
        first = left;
    }
    *first = made_of(Box::new(taken(first)));
    power
}

fn taken(expression: &mut Expr) -> Expr {
    std::mem::replace(expression, Expr::Tuple(Vec::new()))
}
