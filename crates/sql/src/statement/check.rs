//! What DataFusion would pass over in silence, or answer wrongly, is refused by name wherever it stands in a statement.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Query, Select, SetExpr, Statement, TableFactor, UnaryOperator, Visit, Visitor,
};

use crate::{Error, Result};

/// Refuses a statement that has something of the kind anywhere in it.
pub(super) fn check(statement: &Statement) -> Result<()> {
    let selection = match statement {
        Statement::Update(update) => update.selection.as_ref(),
        Statement::Delete(delete) => delete.selection.as_ref(),
        _ => None,
    };
    selection.map_or(Ok(()), |condition| memberships(condition, Place::Conjunct))?;
    match statement.visit(&mut Check) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct Check;

impl Visitor for Check {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<Error> {
        if !query.locks.is_empty() {
            return refuse(
                "SELECT … FOR UPDATE or FOR SHARE",
                "leave it out: what a transaction reads stays locked until its end anyway",
            );
        }
        if query.for_clause.is_some() {
            return refuse("SELECT … FOR XML or FOR JSON", "leave it out: the shell writes JSON with --format json");
        }
        if let SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_) = query.body.as_ref() {
            return refuse("WITH before INSERT, UPDATE or DELETE", "put the query into the statement as a subquery");
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<Error> {
        if select.into.is_some() {
            return refuse("SELECT INTO", "CREATE TABLE first, then INSERT INTO … SELECT");
        }
        for condition in select.selection.iter().chain(&select.having) {
            if let Err(error) = memberships(condition, Place::Conjunct) {
                return ControlFlow::Break(error);
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, table: &TableFactor) -> ControlFlow<Error> {
        match table {
            TableFactor::Table { sample: Some(_), .. } => refuse("TABLESAMPLE", "use WHERE random() < 0.1"),
            TableFactor::Table { with_ordinality: true, .. }
            | TableFactor::Function { with_ordinality: true, .. }
            | TableFactor::UNNEST { with_ordinality: true, .. } => {
                refuse("WITH ORDINALITY", "number the rows with row_number() OVER ()")
            }
            TableFactor::Table { with_hints, index_hints, .. } if !with_hints.is_empty() || !index_hints.is_empty() => {
                refuse("a hint on a table", "leave it out")
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

fn refuse(what: &str, remedy: &str) -> ControlFlow<Error> {
    ControlFlow::Break(Error::unsupported(what, remedy))
}

/// Where in a condition an expression stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// The condition itself, or one of those that AND joins.
    Conjunct,
    /// Below an OR: NULL and false are the same there.
    Alternative,
    /// Where NULL and false differ.
    Anywhere,
}

/// Refuses `IN (subquery)` where DataFusion 55 takes its NULL for false: it keeps the NULLs of a subquery apart only for a
/// `NOT IN` that is a conjunct.
fn memberships(expression: &Expr, place: Place) -> Result<()> {
    match expression {
        Expr::Nested(inner) => memberships(inner, place),
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            memberships(left, place)?;
            memberships(right, place)
        }
        Expr::BinaryOp { left, op: BinaryOperator::Or, right } => {
            let place = if place == Place::Conjunct { Place::Alternative } else { place };
            memberships(left, place)?;
            memberships(right, place)
        }
        Expr::UnaryOp { op: UnaryOperator::Not, expr } => match (place, inside(expr)) {
            (Place::Conjunct, Expr::InSubquery { .. }) => Ok(()),
            _ => memberships(expr, Place::Anywhere),
        },
        Expr::IsNull(inner)
        | Expr::IsNotNull(inner)
        | Expr::IsTrue(inner)
        | Expr::IsNotTrue(inner)
        | Expr::IsFalse(inner)
        | Expr::IsNotFalse(inner)
        | Expr::IsUnknown(inner)
        | Expr::IsNotUnknown(inner) => memberships(inner, Place::Anywhere),
        Expr::InSubquery { negated, .. } => match place {
            Place::Conjunct => Ok(()),
            Place::Alternative if !negated => Ok(()),
            _ => Err(Error::unsupported(
                "IN (subquery) below OR, NOT or IS, where its NULL would count",
                "write [NOT] EXISTS (SELECT … WHERE …), or put it into a conjunct of its own",
            )),
        },
        _ => Ok(()),
    }
}

/// The expression inside parentheses.
fn inside(expression: &Expr) -> &Expr {
    match expression {
        Expr::Nested(inner) => inside(inner),
        other => other,
    }
}
