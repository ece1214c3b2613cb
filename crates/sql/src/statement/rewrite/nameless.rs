//! Names for expressions that have none, where DataFusion finds that two of them are called alike: it plans `strpos(a, b)` and
//! `position(b IN a)` as one function, two subqueries behind IN have no names of their own, and names do not tell casts.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Expr, Ident, Select, SelectItem, Statement, VisitMut, VisitorMut};

use super::alike::marked;
use super::called;
use crate::functions::APART;

/// Gives each expression that is selected a name of its own. Its number is not shown.
pub(crate) fn name_all(statement: &mut Statement) {
    let _: ControlFlow<()> = statement.visit(&mut Namer);
}

struct Namer;

impl VisitorMut for Namer {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        // Behind the numbers that tell columns of one name apart.
        let first = 2 * select.projection.len() + 1;
        for (item, number) in select.projection.iter_mut().zip(first..) {
            if let SelectItem::UnnamedExpr(expr) = item
                && !matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_))
            {
                let alias = Ident::with_quote('"', marked(&expr.to_string(), number));
                *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<()> {
        if let Expr::Cast { expr, .. } = expression
            && !matches!(expr.as_ref(), Expr::Value(_))
        {
            *expression = called(Ident::with_quote('"', APART), [expression.clone()]);
        }
        ControlFlow::Continue(())
    }
}
