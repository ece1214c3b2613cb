//! What DataFusion would pass over in silence, or answer wrongly, is refused by name wherever it stands in a statement.
//!
//! The checks see the tree after `rewrite`: what a rewrite has a right form for is not here any more.

mod calls;
mod ctes;
mod order;

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, DataType, Distinct, Expr, GroupByExpr, Query, Select, SelectItem, SetExpr, Statement,
    TableFactor, TimezoneInfo, TypedString, Visit, Visitor,
};

use super::rewrite::distinct;

use crate::{Error, Result};

/// Refuses a statement that has something of the kind anywhere in it.
pub(super) fn check(statement: &Statement) -> Result<()> {
    let mut check = Check::default();
    match statement.visit(&mut check) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(*error),
    }
}

/// Boxed, because the visitor carries it through deep trees.
type Found = ControlFlow<Box<Error>>;

#[derive(Default)]
struct Check {
    /// The values of an UPDATE, which may be rows.
    assigned: HashSet<*const Expr>,
}

impl Visitor for Check {
    type Break = Box<Error>;

    fn pre_visit_statement(&mut self, statement: &Statement) -> Found {
        if let Statement::Update(update) = statement {
            // SET (a, b) = (1, 2)
            self.assigned.extend(update.assignments.iter().map(|assignment| std::ptr::from_ref(&assignment.value)));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &Query) -> Found {
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
        if let SetExpr::Table(_) = query.body.as_ref() {
            return refuse("TABLE t in this place", "write SELECT * FROM t");
        }
        ctes::check(query)?;
        order::check(query)
    }

    fn pre_visit_select(&mut self, select: &Select) -> Found {
        if select.into.is_some() {
            return refuse("SELECT INTO", "CREATE TABLE first, then INSERT INTO … SELECT");
        }
        for item in &select.projection {
            if let SelectItem::ExprWithAlias { alias, .. } = item {
                if alias.quote_style == Some('\'') {
                    return refuse("a name in single quotes", "write names in double quotes, and join texts by ||");
                }
                if alias.quote_style.is_none() && alias.value.eq_ignore_ascii_case("isnull") {
                    return refuse("ISNULL", "write IS NULL, or the name as \"isnull\"");
                }
            }
        }
        if matches!(select.group_by, GroupByExpr::All(_)) {
            return refuse("GROUP BY ALL", "name the columns that are grouped by");
        }
        if let Some(Distinct::On(by)) = &select.distinct
            && by.iter().any(distinct::is_place)
        {
            return refuse(
                "DISTINCT ON of a column by its place, behind `*` or where there is none",
                "name the column",
            );
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, table: &TableFactor) -> Found {
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

    fn pre_visit_expr(&mut self, expression: &Expr) -> Found {
        match expression {
            Expr::Function(function) => calls::check(function),
            Expr::AnyOp { .. } | Expr::AllOp { .. } => refuse(
                "a comparison with ANY, SOME or ALL of an array that is not written out element by element, or by LIKE",
                "compare with a subquery, or write [NOT] EXISTS (SELECT … WHERE …)",
            ),
            Expr::Tuple(_) if !self.assigned.contains(&std::ptr::from_ref(expression)) => refuse(
                "a row value outside of a comparison with a row of as many columns",
                "name its columns one by one",
            ),
            Expr::Cast { data_type, .. } | Expr::TypedString(TypedString { data_type, .. })
                if has_precision(data_type) =>
            {
                refuse(
                    "a TIMESTAMP or INTERVAL of other than six digits behind the seconds",
                    "leave the number out, and cut digits off with date_trunc",
                )
            }
            Expr::Cast { data_type, .. } | Expr::TypedString(TypedString { data_type, .. }) if has_zone(data_type) => {
                refuse("a type WITH TIME ZONE", IN_NO_ZONE)
            }
            Expr::Subquery(query) | Expr::InSubquery { subquery: query, .. } if has_no_columns(query) => {
                refuse("a value of a subquery without columns", "select a column, or write EXISTS (…)")
            }
            Expr::AtTimeZone { .. } => refuse("AT TIME ZONE", IN_NO_ZONE),
            Expr::SimilarTo { .. } => refuse(
                "SIMILAR TO a pattern that is not a plain literal, or not a valid one",
                "match a regular expression: x ~ '^(…)$'",
            ),
            _ => ControlFlow::Continue(()),
        }
    }
}

/// Whether a type of times says how many digits seconds have, which the planner passes over.
fn has_precision(of: &DataType) -> bool {
    match of {
        DataType::Timestamp(digits, _) | DataType::Datetime(digits) | DataType::TimestampNtz(digits) => {
            digits.is_some_and(|digits| digits != 6)
        }
        DataType::Interval { precision, .. } => precision.is_some_and(|digits| digits != 6),
        _ => false,
    }
}

/// What to do about time zones, which the planner would pass over in part.
const IN_NO_ZONE: &str =
    "use TIMESTAMP, which is in no time zone: keep moments in UTC, and add an INTERVAL for what they are elsewhere";

/// Whether a type of times has a time zone.
fn has_zone(of: &DataType) -> bool {
    match of {
        DataType::Timestamp(_, zone) | DataType::Time(_, zone) => {
            matches!(zone, TimezoneInfo::WithTimeZone | TimezoneInfo::Tz)
        }
        DataType::Array(ArrayElemTypeDef::SquareBracket(of, _) | ArrayElemTypeDef::AngleBracket(of)) => has_zone(of),
        _ => false,
    }
}

fn has_no_columns(query: &Query) -> bool {
    matches!(query.body.as_ref(), SetExpr::Select(select) if select.projection.is_empty())
}

fn refuse(what: &str, remedy: &str) -> Found {
    ControlFlow::Break(Box::new(Error::unsupported(what, remedy)))
}
