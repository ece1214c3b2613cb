//! LIMIT in a plan that is run twice: as itself, and for the [`domain`](super::domain) of what refers to its columns.
//!
//! Which rows it takes must be the same both times, or values of the one have no partner in the other. So rows that its ORDER BY does not
//! tell apart are ordered by all their columns: those that are still equal may stand for each other.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::{Expr, Filter, Limit, LogicalPlan, Projection, Sort, SortExpr, SubqueryAlias};

/// The plan with limits that take the same rows whenever they are asked.
pub(super) fn defined(plan: LogicalPlan) -> Result<LogicalPlan> {
    let defined = plan.transform_up(|node| {
        let LogicalPlan::Limit(limit) = node else { return Ok(Transformed::no(node)) };
        let ordered = match ordered(&limit.input)? {
            Some(ordered) => ordered,
            None => sorted(&[], &limit.input),
        };
        Ok(Transformed::yes(LogicalPlan::Limit(Limit { input: Arc::new(ordered), ..limit })))
    });
    Ok(defined?.data)
}

/// The order in which rows come from a plan, made one of all columns. `None` where they come in none.
fn ordered(plan: &LogicalPlan) -> Result<Option<LogicalPlan>> {
    Ok(match plan {
        LogicalPlan::Sort(Sort { expr, input, fetch: None }) => Some(sorted(expr, input)),
        LogicalPlan::Projection(Projection { input, .. })
        | LogicalPlan::Filter(Filter { input, .. })
        | LogicalPlan::SubqueryAlias(SubqueryAlias { input, .. }) => {
            ordered(input)?.map(|input| plan.with_new_exprs(plan.expressions(), vec![input])).transpose()?
        }
        _ => None,
    })
}

/// By these, and then by all columns.
fn sorted(by: &[SortExpr], input: &Arc<LogicalPlan>) -> LogicalPlan {
    let columns = input.schema().columns().into_iter().map(|column| Expr::Column(column).sort(true, false));
    let expr = by.iter().cloned().chain(columns).collect();
    LogicalPlan::Sort(Sort { expr, input: Arc::clone(input), fetch: None })
}
