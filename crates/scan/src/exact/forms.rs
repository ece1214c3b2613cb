//! Rules that look at the expressions of a whole plan, of which few have anything for a rule to do.
//!
//! To tell an expression's name and to merge the schemas of a node's inputs takes longer than to look whether there is anything of
//! the form that a rule changes.

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan};

/// Whether one of a node's expressions is, or has within it, one of that form.
pub fn has(plan: &LogicalPlan, is: impl Fn(&Expr) -> bool) -> Result<bool> {
    let mut found = false;
    plan.apply_expressions(|expression| {
        found = expression.exists(|part| Ok(is(part)))?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// Rewrites those expressions of a node that are, or have within them, one of that form. They keep their names, and are given with
/// the columns that they may refer to.
pub fn rewrite_in(
    plan: LogicalPlan,
    is: impl Fn(&Expr) -> bool,
    rewrite: impl Fn(Expr, &DFSchema) -> Result<Transformed<Expr>>,
) -> Result<Transformed<LogicalPlan>> {
    if !has(&plan, &is)? {
        return Ok(Transformed::no(plan));
    }
    let schema = merge_schema(&plan.inputs());
    let names = NamePreserver::new(&plan);
    plan.map_expressions(|expression| {
        if !expression.exists(|part| Ok(is(part)))? {
            return Ok(Transformed::no(expression));
        }
        let name = names.save(&expression);
        let rewritten = rewrite(expression, &schema)?;
        if !rewritten.transformed {
            return Ok(rewritten);
        }
        Ok(rewritten.update_data(|expression| name.restore(expression)))
    })
}
