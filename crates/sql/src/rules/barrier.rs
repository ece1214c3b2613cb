//! A condition stays above an aggregate that gives a row for no rows.
//!
//! DataFusion moves a condition below an aggregate if the condition names grouped columns only. A condition without columns
//! passes that test: a comparison of a scalar subquery, or one of a constant that a derived table has beside its aggregate.
//! Below a count of all rows it takes the rows away that are counted, and leaves the row that says how many. No condition
//! passes a LIMIT, so one that limits nothing stands above each such aggregate that a condition might reach.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::{Aggregate, Expr, GroupingSet, Limit, LogicalPlan, lit};
use datafusion::optimizer::analyzer::AnalyzerRule;

/// Puts the limits there.
#[derive(Debug)]
pub(crate) struct Barrier;

impl AnalyzerRule for Barrier {
    fn name(&self) -> &'static str {
        "barrier"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let below_conditions = |plan: LogicalPlan| match plan {
            LogicalPlan::Filter(_) | LogicalPlan::Join(_) => {
                plan.map_children(|child| child.transform_down(|plan| Ok(limited(plan))))
            }
            other => Ok(Transformed::no(other)),
        };
        plan.transform_up_with_subqueries(below_conditions).data()
    }
}

/// The aggregate below a limit; anything else as it is.
fn limited(plan: LogicalPlan) -> Transformed<LogicalPlan> {
    match plan {
        // What is below it is out of reach of what is above.
        LogicalPlan::Limit(_) => Transformed::new(plan, false, TreeNodeRecursion::Jump),
        // A correlated one becomes an aggregate by groups, which a limit would prevent.
        LogicalPlan::Aggregate(ref aggregate) if gives_a_row_for_none(aggregate) && !is_correlated(&plan) => {
            let limit = Limit { skip: None, fetch: Some(Box::new(lit(i64::MAX))), input: Arc::new(plan) };
            Transformed::new(LogicalPlan::Limit(limit), true, TreeNodeRecursion::Jump)
        }
        other => Transformed::no(other),
    }
}

fn is_correlated(plan: &LogicalPlan) -> bool {
    !plan.all_out_ref_exprs().is_empty()
}

/// An aggregate over all rows, or one that has that among its grouping sets.
fn gives_a_row_for_none(aggregate: &Aggregate) -> bool {
    match aggregate.group_expr.as_slice() {
        [] => true,
        groups => groups.iter().any(|group| match group {
            Expr::GroupingSet(GroupingSet::GroupingSets(sets)) => sets.iter().any(Vec::is_empty),
            Expr::GroupingSet(GroupingSet::Rollup(_) | GroupingSet::Cube(_)) => true,
            _ => false,
        }),
    }
}
