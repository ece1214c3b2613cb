//! `ORDER BY … LIMIT` over windows.
//!
//! A sort of DataFusion's that keeps the first rows alone is not needed where the rows come in its order already, which may turn out late: when a window was found to
//! do with the order that the rows have. Its rule then has the operators below keep the first rows, and a window has no way to do that: the limit is lost, or
//! takes rows from the window. So the limit gets an operator of its own, and the sort has it back when the order is settled.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::sorts::sort::SortExec;

use super::veil::windows;

/// Keeps limits and sorts apart above windows. To be run before the rules that see to the order of rows.
#[derive(Debug)]
pub(super) struct LimitsApart;

impl PhysicalOptimizerRule for LimitsApart {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        // Looking is quicker than to take every plan apart.
        if !plan.exists(|node| Ok(windows(node).is_some()))? {
            return Ok(plan);
        }
        Ok(plan.transform_up(|node| Ok(apart(&node)?.map_or_else(|| Transformed::no(node), Transformed::yes)))?.data)
    }

    fn name(&self) -> &'static str {
        "limits_apart"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// A sort that keeps the first rows, over windows, as a sort and a limit.
fn apart(node: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some((sort, first)) = node.downcast_ref::<SortExec>().and_then(|sort| Some((sort, sort.fetch()?))) else {
        return Ok(None);
    };
    if sort.preserve_partitioning() || !node.exists(|below| Ok(windows(below).is_some()))? {
        return Ok(None);
    }
    let mut limit = GlobalLimitExec::new(Arc::new(sort.with_fetch(None)), 0, Some(first));
    limit.set_required_ordering(Some(sort.expr().clone()));
    Ok(Some(Arc::new(limit)))
}
