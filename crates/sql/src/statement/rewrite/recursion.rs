//! Marks casts of a recursive term, so that those can be told apart which the planner adds to have the types of the first term
//! ([`Recursion`](crate::rules::Recursion) refuses most of them).

use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{CaseWhen, Expr, Query, SelectItem, SetExpr, Value};

/// Has each cast in the select list of a recursive term stand in a `CASE WHEN true`, which is gone when the plan is simplified.
pub(super) fn mark_casts(query: &mut Query) {
    let Some(with) = query.with.as_mut().filter(|with| with.recursive) else { return };
    for cte in &mut with.cte_tables {
        if let SetExpr::SetOperation { right, .. } = cte.query.body.as_mut() {
            in_term(right);
        }
    }
}

fn in_term(term: &mut SetExpr) {
    match term {
        SetExpr::Query(query) => in_term(&mut query.body),
        SetExpr::Select(select) => {
            for item in &mut select.projection {
                if let SelectItem::UnnamedExpr(expression) | SelectItem::ExprWithAlias { expr: expression, .. } = item
                    && is_cast(expression)
                {
                    mark(expression);
                }
            }
        }
        _ => {}
    }
}

fn is_cast(expression: &Expr) -> bool {
    match expression {
        Expr::Nested(inner) => is_cast(inner),
        Expr::Cast { .. } => true,
        _ => false,
    }
}

fn mark(expression: &mut Expr) {
    let always = Expr::Value(Value::Boolean(true).into());
    let cast = std::mem::replace(expression, Expr::Value(Value::Null.into()));
    *expression = Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions: vec![CaseWhen { condition: always, result: cast }],
        else_result: None,
    };
}

#[cfg(test)]
mod tests {
    use crate::statement::rewritten;

    #[test]
    fn casts_of_recursive_terms_alone_are_marked() {
        assert_eq!(
            rewritten(
                "WITH RECURSIVE r AS (SELECT a::INT FROM t UNION ALL SELECT (CAST(a AS INT)) AS a, a + 1 AS b FROM r) SELECT a::INT FROM r"
            ),
            "WITH RECURSIVE r AS (SELECT a::INT FROM t UNION ALL SELECT CASE WHEN true THEN (CAST(a AS INT)) END AS a, a + 1 AS b FROM r) SELECT a::INT FROM r"
        );
    }
}
