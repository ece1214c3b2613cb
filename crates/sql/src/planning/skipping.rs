//! `OFFSET` without `LIMIT`, which skips the first rows of an order.
//!
//! An operator of DataFusion's that skips rows does not ask for their order; so the sort below it goes, where nothing above asks for the order either, and any rows are
//! skipped. One that skips and limits stops its rule from looking further. So rows are skipped here by an operator that asks for the order which it has found.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Result, Statistics, internal_datafusion_err};
use datafusion::execution::TaskContext;
use datafusion::physical_expr::{LexOrdering, OrderingRequirements};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{
    ChildStats, DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, PlanProperties, SendableRecordBatchStream,
    StatisticsArgs,
};

/// Has rows skipped in their order. To be run before the rules that see to the order of rows.
#[derive(Debug)]
pub(super) struct SkipInOrder;

impl PhysicalOptimizerRule for SkipInOrder {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        // Looking is quicker than to take every plan apart.
        if !plan.exists(|node| Ok(skips(node).is_some()))? {
            return Ok(plan);
        }
        let skipping = plan.transform_up(|node| {
            let Some(limit) = skips(&node) else { return Ok(Transformed::no(node)) };
            let below = above_sort(limit.input(), limit.skip())?;
            Ok(below.map_or_else(|| Transformed::no(Arc::clone(&node)), Transformed::yes))
        });
        Ok(skipping?.data)
    }

    fn name(&self) -> &'static str {
        "skip_in_order"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// An operator that skips rows and has no end.
fn skips(node: &Arc<dyn ExecutionPlan>) -> Option<&GlobalLimitExec> {
    node.downcast_ref::<GlobalLimitExec>().filter(|limit| limit.skip() > 0 && limit.fetch().is_none())
}

/// Skips rows where they are sorted, below what only changes their columns: these may have lost the order's.
fn above_sort(node: &Arc<dyn ExecutionPlan>, skip: usize) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if let Some(sort) = node.downcast_ref::<SortExec>() {
        return Ok(Some(Arc::new(SkipExec::new(Arc::clone(node), sort.expr().clone(), skip))));
    }
    let Some(projection) = node.downcast_ref::<ProjectionExec>() else { return Ok(None) };
    let below = above_sort(projection.input(), skip)?;
    below.map(|below| replace_children_if_necessary(Arc::clone(node), vec![below])).transpose()
}

/// Skips the first rows of an order.
#[derive(Debug)]
pub(super) struct SkipExec {
    input: Arc<dyn ExecutionPlan>,
    order: LexOrdering,
    skip: usize,
    properties: Arc<PlanProperties>,
}

impl SkipExec {
    fn new(input: Arc<dyn ExecutionPlan>, order: LexOrdering, skip: usize) -> Self {
        let properties = Arc::clone(GlobalLimitExec::new(Arc::clone(&input), skip, None).properties());
        Self { input, order, skip, properties }
    }

    /// How many it skips.
    pub(super) fn rows(&self) -> usize {
        self.skip
    }

    #[expect(clippy::unnecessary_wraps, reason = "other operators over one input may refuse another")]
    fn on(&self, input: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self::new(input, self.order.clone(), self.skip)))
    }
}

impl DisplayAs for SkipExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SkipExec: skip={}, in order=[{}]", self.skip, self.order)
    }
}

impl ExecutionPlan for SkipExec {
    fn name(&self) -> &'static str {
        "SkipExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    ishigaki_scan::operator!(input by on);

    ishigaki_scan::operator!(no expressions);

    fn required_input_distribution(&self) -> Vec<Distribution> {
        vec![Distribution::SinglePartition]
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        vec![Some(OrderingRequirements::from(self.order.clone()))]
    }

    /// It keeps the order, and says that it does not: an order that is wanted above would be put in the place of the one below, by which rows are skipped.
    fn maintains_input_order(&self) -> Vec<bool> {
        vec![false]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn child_stats_requests(&self, _: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(None)]
    }

    fn statistics_from_inputs(&self, inputs: &[Arc<Statistics>], _: &StatisticsArgs) -> Result<Arc<Statistics>> {
        let input = inputs.first().ok_or_else(|| internal_datafusion_err!("an OFFSET without an input"))?;
        Statistics::clone(input).with_fetch(None, self.skip, 1).map(Arc::new)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        GlobalLimitExec::new(Arc::clone(&self.input), self.skip, None).execute(partition, context)
    }
}
