//! DISTINCT ON, whose expressions are read as those of ORDER BY: a number is the column of that place in the result, and a name is first one that the result
//! has. DataFusion takes the one for a constant, and the other for a column of FROM.

use datafusion::sql::sqlparser::ast::{Distinct, Expr, Ident, Select, SelectItem, Value};

use crate::statement::{identifier, plain};

/// Has them be what they stand for.
pub(super) fn on_columns(select: &mut Select) {
    let Some(Distinct::On(by)) = &mut select.distinct else { return };
    for one in by {
        let meant = match bare(one) {
            Expr::Identifier(name) => of_name(&select.projection, name),
            expression => plain::item_at(&select.projection, expression).and_then(|at| of_item(&select.projection[at])),
        };
        if let Some(meant) = meant {
            *one = meant.clone();
        }
    }
}

/// Whether an expression is the place of a column of the result.
pub(in crate::statement) fn is_place(expression: &Expr) -> bool {
    matches!(bare(expression), Expr::Value(value) if matches!(value.value, Value::Number(..)))
}

fn bare(expression: &Expr) -> &Expr {
    match expression {
        Expr::Nested(inner) => bare(inner),
        expression => expression,
    }
}

fn of_item(item: &SelectItem) -> Option<&Expr> {
    match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    }
}

fn of_name<'a>(items: &'a [SelectItem], name: &Ident) -> Option<&'a Expr> {
    items.iter().find_map(|item| match item {
        SelectItem::ExprWithAlias { expr, alias } if identifier(alias) == identifier(name) => Some(expr),
        _ => None,
    })
}
