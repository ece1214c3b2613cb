//! Joins of sorted rows, for a query that has too little memory for a hash table.
//!
//! Sorted rows can be spilled, those of a hash table can not. DataFusion plans such a join for several threads only, although one
//! thread needs the least memory of all; so this rule does it wherever no hash join is wanted.

use std::sync::Arc;

use datafusion::arrow::compute::SortOptions;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::{HashJoinExec, SortMergeJoinExec};

use super::veil::Veil;

/// Makes hash joins such joins. Comes before the rules that see to the order of rows.
#[derive(Debug)]
pub(super) struct MergeSortedRows;

impl PhysicalOptimizerRule for MergeSortedRows {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        if config.optimizer.prefer_hash_join {
            return Ok(plan);
        }
        let merging = plan.transform_up(|node| {
            if let Some(merge) = node.downcast_ref::<SortMergeJoinExec>() {
                return Ok(if merge.filter().is_some() {
                    Transformed::yes(Veil::over(node))
                } else {
                    Transformed::no(node)
                });
            }
            let join = node.downcast_ref::<HashJoinExec>();
            // An anti-join that knows NULL, as of NOT IN, there is with a hash table only.
            let Some(join) = join.filter(|join| !join.null_aware && !join.contains_projection()) else {
                return Ok(Transformed::no(node));
            };
            let merge = SortMergeJoinExec::try_new(
                Arc::clone(join.left()),
                Arc::clone(join.right()),
                join.on().to_vec(),
                join.filter().cloned(),
                *join.join_type(),
                vec![SortOptions::default(); join.on().len()],
                join.null_equality(),
            )?;
            // DataFusion pulls a projection below such a join and leaves the join's own condition as it was, which then reads other columns. It looks
            // through no veil.
            let merge: Arc<dyn ExecutionPlan> =
                if merge.filter().is_some() { Veil::over(Arc::new(merge)) } else { Arc::new(merge) };
            Ok(Transformed::yes(merge))
        });
        Ok(merging?.data)
    }

    fn name(&self) -> &'static str {
        "merge_sorted_rows"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
