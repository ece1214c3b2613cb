//! `x IN (1, CASE …)`: what is looked for among values of which some are computed of the row.
//!
//! DataFusion takes a value for a constant that gives one for no rows, which a CASE does. So those stand in comparisons of their own.

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{Expr, LogicalPlan, Operator, binary_expr};
use datafusion::optimizer::analyzer::AnalyzerRule;

use super::in_expressions;

/// The rule. To be run behind the coercion of types.
#[derive(Debug)]
pub(crate) struct ListsOfConstants;

impl AnalyzerRule for ListsOfConstants {
    fn name(&self) -> &'static str {
        "lists_of_constants"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let is_mixed = |expression: &Expr| matches!(expression, Expr::InList(list) if !list.list.iter().all(is_plain));
        in_expressions(plan, is_mixed, |expression, _| expression.transform_up(|inner| Ok(apart(inner))))
    }
}

fn apart(expression: Expr) -> Transformed<Expr> {
    let list = match expression {
        Expr::InList(list) if !list.list.iter().all(is_plain) && !list.expr.is_volatile() => list,
        other => return Transformed::no(other),
    };
    let InList { expr, list, negated } = list;
    let (plain, computed): (Vec<_>, Vec<_>) = list.into_iter().partition(is_plain);
    let (equal, joined) = if negated { (Operator::NotEq, Operator::And) } else { (Operator::Eq, Operator::Or) };
    let alone = computed.into_iter().map(|value| binary_expr(expr.as_ref().clone(), equal, value));
    let among = (!plain.is_empty()).then(|| Expr::InList(InList { expr: expr.clone(), list: plain, negated }));
    let all = among.into_iter().chain(alone).reduce(|one, other| binary_expr(one, joined, other));
    // A list has a value at least.
    all.map_or_else(|| Transformed::no(Expr::InList(InList { expr, list: Vec::new(), negated })), Transformed::yes)
}

/// A column, or what is the same for all rows.
fn is_plain(value: &Expr) -> bool {
    match value {
        Expr::Cast(cast) => is_plain(&cast.expr),
        Expr::Column(_) | Expr::Literal(..) => true,
        Expr::Case(_) => false,
        other => !other.any_column_refs() && !other.is_volatile() && !other.contains_outer() && !has_case(other),
    }
}

fn has_case(value: &Expr) -> bool {
    value.exists(|part| Ok(matches!(part, Expr::Case(_)))).unwrap_or(true)
}
