//! Queries and tables of FROM in words that DataFusion plans right.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, GroupByExpr, Ident, Query, Select, SelectItem, SetExpr, SetOperator, SetQuantifier,
    Statement, Table, TableFactor, Value, visit_expressions,
};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;

/// A join in parentheses that has an alias is a subquery: `(t JOIN u USING (a)) AS j` is `(SELECT * FROM t JOIN u USING (a)) AS j`.
/// DataFusion would give the alias the columns of both sides, and take the first of two that have one name.
pub(super) fn alias_of_join(table: &mut TableFactor) {
    let TableFactor::NestedJoin { table_with_joins, alias: alias @ Some(_) } = table else { return };
    let Some(mut subquery) = template("SELECT * FROM t") else { return };
    let SetExpr::Select(select) = subquery.body.as_mut() else { return };
    select.from = vec![table_with_joins.as_ref().clone()];
    *table = TableFactor::Derived { lateral: false, subquery, alias: alias.take(), sample: None };
}

/// `EXISTS (SELECT FROM t)` asks for rows, which need no columns; DataFusion takes that it has one.
pub(super) fn column_of_existence(expression: &mut Expr) {
    let Expr::Exists { subquery, .. } = expression else { return };
    if let SetExpr::Select(select) = subquery.body.as_mut()
        && select.projection.is_empty()
    {
        select.projection.push(SelectItem::UnnamedExpr(Expr::value(Value::Number("1".into(), false))));
    }
}

/// `x IN (VALUES (1), (2))` is `x IN (SELECT * FROM (VALUES (1), (2)) AS v)`.
pub(super) fn values_of_in(expression: &mut Expr) {
    let Expr::InSubquery { subquery, .. } = expression else { return };
    if !matches!(subquery.body.as_ref(), SetExpr::Values(_)) {
        return;
    }
    wrap(subquery, "SELECT * FROM (SELECT 1) AS \"__values\"");
}

/// `(SELECT …) ORDER BY x` is `SELECT … ORDER BY x`: what is ordered by may be a column that is not selected.
pub(super) fn without_parentheses(query: &mut Query) {
    while let SetExpr::Query(inner) = query.body.as_mut() {
        let alone = inner.with.is_none()
            && inner.order_by.is_none()
            && inner.limit_clause.is_none()
            && inner.fetch.is_none()
            && inner.locks.is_empty()
            && inner.for_clause.is_none()
            && inner.settings.is_none()
            && inner.format_clause.is_none()
            && inner.pipe_operators.is_empty();
        if !alone {
            return;
        }
        let nothing = SetExpr::Table(Box::new(Table { table_name: None, schema_name: None }));
        let body = std::mem::replace(inner.body.as_mut(), nothing);
        *query.body = body;
    }
}

/// HAVING without GROUP BY makes one group of all rows, whether there is an aggregate or not. DataFusion wants one.
pub(super) fn group_of_all(select: &mut Select) {
    let has_groups = match &select.group_by {
        GroupByExpr::Expressions(groups, modifiers) => !groups.is_empty() || !modifiers.is_empty(),
        GroupByExpr::All(_) => true,
    };
    let Some(having) = select.having.take() else { return };
    let count = || Parser::new(&PostgreSqlDialect {}).try_with_sql("count(*) >= 0").ok()?.parse_expr().ok();
    select.having = Some(match count() {
        Some(count) if !has_groups => Expr::BinaryOp {
            left: Box::new(Expr::Nested(Box::new(having))),
            op: BinaryOperator::And,
            right: Box::new(count),
        },
        _ => having,
    });
}

/// `VALUES (t.a), (t.b)` of columns of other tables, as in LATERAL, is one SELECT for each row: DataFusion's VALUES has no columns.
pub(super) fn values_of_columns(body: &mut SetExpr) {
    let SetExpr::Values(values) = body else { return };
    let mut rows = values.rows.iter().map(|row| row.content.iter());
    let is_column = |expression: &Expr| match expression {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    if !rows.any(|mut row| row.any(|cell| visit_expressions(cell, is_column).is_break())) {
        return;
    }
    let selected = |row: &[Expr]| {
        let mut query = template("SELECT 1")?;
        let items = row.iter().enumerate().map(|(at, expr)| {
            let alias = Ident::new(format!("column{}", at + 1));
            SelectItem::ExprWithAlias { expr: expr.clone(), alias }
        });
        if let SetExpr::Select(select) = query.body.as_mut() {
            select.projection = items.collect();
        }
        Some(*query.body)
    };
    if let Some(all) = values.rows.iter().map(|row| selected(&row.content)).collect::<Option<_>>().and_then(united) {
        *body = all;
    }
}

/// From how many queries on a chain of UNION ALL is made a tree.
const LONG: usize = 8;

/// A long chain of UNION ALL becomes a tree that is as flat as can be: DataFusion plans each level of it with all that is below.
pub(super) fn flatten_unions(body: &mut SetExpr) {
    let is_union_all = |body: &SetExpr| {
        matches!(body, SetExpr::SetOperation { op: SetOperator::Union, set_quantifier: SetQuantifier::All, .. })
    };
    let mut length = 1;
    let mut inner = &*body;
    while let SetExpr::SetOperation { left, .. } = inner
        && is_union_all(inner)
    {
        length += 1;
        inner = left;
    }
    if length < LONG {
        return;
    }
    let nothing = || SetExpr::Table(Box::new(Table { table_name: None, schema_name: None }));
    let mut rest = std::mem::replace(body, nothing());
    let mut parts = Vec::with_capacity(length);
    while is_union_all(&rest) {
        let SetExpr::SetOperation { left, right, .. } = rest else { break };
        parts.push(*right);
        rest = *left;
    }
    parts.push(rest);
    parts.reverse();
    *body = united(parts).unwrap_or_else(nothing);
}

fn united(mut parts: Vec<SetExpr>) -> Option<SetExpr> {
    if parts.len() < 2 {
        return parts.pop();
    }
    let right = parts.split_off(parts.len() / 2);
    Some(SetExpr::SetOperation {
        op: SetOperator::Union,
        set_quantifier: SetQuantifier::All,
        left: Box::new(united(parts)?),
        right: Box::new(united(right)?),
    })
}

/// Puts a query into the place of the subquery in the FROM of another one.
pub(crate) fn wrap(query: &mut Query, outer: &str) {
    let Some(mut outer) = template(outer) else { return };
    if let SetExpr::Select(select) = outer.body.as_mut()
        && let Some(TableFactor::Derived { subquery, .. }) = select.from.first_mut().map(|table| &mut table.relation)
    {
        std::mem::swap(subquery.as_mut(), query);
        *query = *outer;
    }
}

/// A query to be filled in.
pub(super) fn template(text: &str) -> Option<Box<Query>> {
    match Parser::parse_sql(&PostgreSqlDialect {}, text).ok()?.pop()? {
        Statement::Query(query) => Some(query),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement::rewritten;

    fn depth(body: &SetExpr) -> usize {
        match body {
            SetExpr::SetOperation { left, right, .. } => 1 + depth(left).max(depth(right)),
            _ => 0,
        }
    }

    #[test]
    fn a_join_with_an_alias_is_a_subquery() {
        assert_eq!(
            rewritten("SELECT j.a FROM (t JOIN u USING (a)) AS j (a, b)"),
            "SELECT j.a FROM (SELECT * FROM t JOIN u USING(a)) AS j (a, b)"
        );
        assert_eq!(rewritten("SELECT a FROM (t CROSS JOIN u)"), "SELECT a FROM (t CROSS JOIN u)");
    }

    #[test]
    fn parentheses_around_all_of_a_query_go() {
        assert_eq!(rewritten("((SELECT a FROM t)) ORDER BY -b"), "SELECT a FROM t ORDER BY -b");
        assert_eq!(
            rewritten("(SELECT a FROM t ORDER BY b LIMIT 1) ORDER BY a"),
            "(SELECT a FROM t ORDER BY b LIMIT 1) ORDER BY a"
        );
    }

    #[test]
    fn a_long_chain_of_unions_is_a_flat_tree_in_the_same_order() {
        let chain = |length: usize| {
            let parts: Vec<String> = (0..length).map(|part| format!("SELECT c{part} FROM t")).collect();
            parts.join(" UNION ALL ")
        };
        let shape = |length: usize| {
            let statement = crate::Statement::parse(&chain(length)).expect("parses").remove(0);
            let Statement::Query(query) = statement.to_ast() else { panic!("a query") };
            assert_eq!(query.to_string(), chain(length), "the order stays");
            depth(&query.body)
        };
        assert_eq!((shape(7), shape(40)), (6, 6));
    }
}
