//! Powers with signs. A sign belongs to the number before the power is taken, and powers go from left to right: `-2 ^ 2` is 4, and
//! `2 ^ -1 ^ 2` a quarter. `sqlparser` reads `-(2 ^ 2)` and `2 ^ -(1 ^ 2)`.

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, UnaryOperator};

/// The parts of a power have been visited before it.
pub(super) fn take_signs(expression: &mut Expr) {
    match expression {
        Expr::UnaryOp { op: op @ (UnaryOperator::Minus | UnaryOperator::Plus), expr } if is_power(expr) => {
            let op = *op;
            let mut power = std::mem::replace(expr.as_mut(), nothing());
            let first = first_of(&mut power);
            *first = Expr::UnaryOp { op, expr: Box::new(std::mem::replace(first, nothing())) };
            *expression = power;
        }
        Expr::BinaryOp { left, op: BinaryOperator::PGExp, right } if is_power(right) => {
            let mut power = std::mem::replace(right.as_mut(), nothing());
            let first = first_of(&mut power);
            let base = Box::new(std::mem::replace(left.as_mut(), nothing()));
            let exponent = Box::new(std::mem::replace(first, nothing()));
            *first = Expr::BinaryOp { left: base, op: BinaryOperator::PGExp, right: exponent };
            *expression = power;
        }
        _ => {}
    }
}

fn is_power(expression: &Expr) -> bool {
    matches!(expression, Expr::BinaryOp { op: BinaryOperator::PGExp, .. })
}

/// The leftmost operand of a chain of powers.
fn first_of(power: &mut Expr) -> &mut Expr {
    match power {
        Expr::BinaryOp { left, op: BinaryOperator::PGExp, .. } => first_of(left),
        other => other,
    }
}

fn nothing() -> Expr {
    Expr::Tuple(Vec::new())
}
