//! `IN (subquery)`, where DataFusion 55 takes its NULL for false: it keeps the NULLs of a subquery apart only for a `NOT IN`
//! that is a conjunct of WHERE or HAVING. So it is allowed where NULL and false come to the same, and refused elsewhere.

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, UnaryOperator};

use super::{Found, refuse};

/// Those that stand where they are answered right, known by where they lie in the tree that is visited.
#[derive(Default)]
pub(super) struct Memberships {
    allowed: HashSet<*const Expr>,
}

/// Where in a condition an expression stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// The condition itself, or one of those that AND joins.
    Conjunct,
    /// Below an OR: NULL and false are the same there.
    Alternative,
}

impl Memberships {
    /// Notes what stands well in a condition that rows must meet.
    pub(super) fn allow<'a>(&mut self, conditions: impl Iterator<Item = &'a Expr>) {
        conditions.for_each(|condition| self.walk(condition, Place::Conjunct));
    }

    /// Refuses one that was not noted.
    pub(super) fn check(&self, expression: &Expr) -> Found {
        if self.allowed.contains(&std::ptr::from_ref(expression)) {
            return ControlFlow::Continue(());
        }
        refuse(
            "IN (subquery) anywhere but in a conjunct of WHERE or HAVING, where its NULL would count",
            "write [NOT] EXISTS (SELECT … WHERE …), or put it into a conjunct of its own",
        )
    }

    fn walk(&mut self, expression: &Expr, place: Place) {
        match expression {
            Expr::Nested(inner) => self.walk(inner, place),
            Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
                self.walk(left, place);
                self.walk(right, place);
            }
            Expr::BinaryOp { left, op: BinaryOperator::Or, right } => {
                self.walk(left, Place::Alternative);
                self.walk(right, Place::Alternative);
            }
            Expr::UnaryOp { op: UnaryOperator::Not, expr } if place == Place::Conjunct => {
                let inner = inside(expr);
                if matches!(inner, Expr::InSubquery { .. }) {
                    self.allowed.insert(inner);
                }
            }
            Expr::InSubquery { negated, .. } if !negated || place == Place::Conjunct => {
                self.allowed.insert(expression);
            }
            _ => {}
        }
    }
}

/// The expression inside parentheses.
fn inside(expression: &Expr) -> &Expr {
    match expression {
        Expr::Nested(inner) => inside(inner),
        other => other,
    }
}
