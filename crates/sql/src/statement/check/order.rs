//! `ORDER BY x` where several columns of the result are called x, and are not the same; and `ORDER BY` an expression behind a set
//! operation, where only columns of the result have a meaning.

use std::ops::ControlFlow;

use datafusion::error::DataFusionError;
use datafusion::sql::sqlparser::ast::{Expr, OrderByKind, Query, SelectItem, SetExpr, Value, visit_expressions_mut};

use crate::Error;
use crate::statement::{identifier, shown};

use super::{Found, refuse};

/// What `*` stands for is not known here: only columns that are written out are compared.
pub(super) fn check(query: &Query) -> Found {
    let Some(OrderByKind::Expressions(orders)) = query.order_by.as_ref().map(|order_by| &order_by.kind) else {
        return ControlFlow::Continue(());
    };
    if let SetExpr::SetOperation { .. } = query.body.as_ref()
        && !orders.iter().all(|order| is_name_or_position(&order.expr))
    {
        return refuse(
            "ORDER BY an expression behind UNION, INTERSECT or EXCEPT",
            "order by the names or positions of columns, or write the set operation as a subquery of FROM",
        );
    }
    let (mut body, mut is_set) = (query.body.as_ref(), false);
    let items = loop {
        match body {
            SetExpr::Select(select) => break &select.projection,
            SetExpr::SetOperation { left, .. } => (body, is_set) = (left, true),
            SetExpr::Query(inner) if is_set => body = &inner.body,
            _ => return ControlFlow::Continue(()),
        }
    };
    for order in orders {
        let Expr::Identifier(by) = &order.expr else { continue };
        let by = identifier(by);
        let mut called = items.iter().filter_map(|item| of_name(item, &by));
        let Some(first) = called.next() else { continue };
        if called.any(|other| is_set || differ(first, other)) {
            let text =
                format!("ORDER BY \"{by}\" is ambiguous; order by the column's position, or name the columns apart");
            return ControlFlow::Break(Box::new(Error::from(DataFusionError::Plan(text))));
        }
    }
    ControlFlow::Continue(())
}

fn is_name_or_position(expression: &Expr) -> bool {
    match expression {
        Expr::Nested(inner) => is_name_or_position(inner),
        Expr::Identifier(_) => true,
        Expr::Value(value) => matches!(value.value, Value::Number(..)),
        _ => false,
    }
}

/// The expression of an item, if its column has this name.
fn of_name<'a>(item: &'a SelectItem, name: &str) -> Option<&'a Expr> {
    let (found, expression) = match item {
        SelectItem::ExprWithAlias { expr, alias } => (identifier(alias), expr),
        SelectItem::UnnamedExpr(expr) => match expr {
            Expr::Identifier(column) => (identifier(column), expr),
            Expr::CompoundIdentifier(parts) => (identifier(parts.last()?), expr),
            _ => return None,
        },
        _ => return None,
    };
    (shown(&found).unwrap_or(&found) == name).then_some(expression)
}

/// Whether two expressions are not the same, whatever the tables are: `x` may be `t.x`.
fn differ(left: &Expr, right: &Expr) -> bool {
    match (left, right) {
        (Expr::CompoundIdentifier(left), Expr::CompoundIdentifier(right)) if left.len() == right.len() => {
            left.iter().map(identifier).ne(right.iter().map(identifier))
        }
        _ => bare(left) != bare(right),
    }
}

/// The text of an expression without tables' names, parentheses, casts and capitals.
fn bare(expression: &Expr) -> String {
    let mut plain = expression.clone();
    let _ = visit_expressions_mut(&mut plain, |inner: &mut Expr| {
        while let Expr::Cast { expr, .. } | Expr::Nested(expr) = inner {
            *inner = (**expr).clone();
        }
        if let Expr::CompoundIdentifier(parts) = inner
            && let Some(column) = parts.last()
        {
            *inner = Expr::Identifier(column.clone());
        }
        ControlFlow::<()>::Continue(())
    });
    plain.to_string().replace('"', "").to_lowercase()
}
