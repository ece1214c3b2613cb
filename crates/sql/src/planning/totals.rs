//! Totals that are known without reading a row, as the number of all rows of a table.
//!
//! DataFusion's rule for them looks for the operator that reads the rows of a total, and passes by those with a FILTER. So it finds that
//! of another total underneath, and gives its columns and its row in the place of the upper one's. And NULL, in a column that has nothing else, is one of
//! its distinct values.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateInputMode};

/// Whether a total of a plan has a FILTER, or is of distinct values.
pub(super) fn are_of_some(plan: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    let mut found = false;
    plan.apply(|node| {
        found |= node.downcast_ref::<AggregateExec>().is_some_and(|aggregate| {
            aggregate.mode().input_mode() == AggregateInputMode::Raw
                && aggregate.group_expr().is_empty()
                && (aggregate.filter_expr().iter().any(Option::is_some)
                    || aggregate.aggr_expr().iter().any(|function| function.is_distinct()))
        });
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}
