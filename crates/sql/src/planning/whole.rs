//! Windows whose frames end before the row that they are of, by `RANGE … n PRECEDING`.
//!
//! DataFusion computes windows batch by batch where it can, and lets such a frame end with the batch, also where rows that belong to it are in the
//! next one. So these windows are computed when a whole partition is there.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::logical_expr::{WindowFrameBound, WindowFrameUnits};
use datafusion::physical_expr::window::WindowExpr;
use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{ExecutionPlan, InputOrderMode};

/// The plan with such windows over whole partitions. To be run after each rule: one that finds its rows in order makes them windows by batches again.
pub(super) fn partitions(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    // Looking is quicker than to take every plan apart.
    if !plan.exists(|node| Ok(ends_early(node).is_some()))? {
        return Ok(plan);
    }
    let whole = |node: Arc<dyn ExecutionPlan>| {
        let Some(window) = ends_early(&node) else { return Ok(Transformed::no(node)) };
        let mut input = Arc::clone(window.input());
        if window.input_order_mode != InputOrderMode::Sorted {
            input = sorted(input, &window.window_expr()[0]);
        }
        let can_repartition = !window.partition_keys().is_empty();
        let window = WindowAggExec::try_new(window.window_expr().to_vec(), input, can_repartition)?;
        Ok(Transformed::yes(Arc::new(window) as _))
    };
    plan.transform_up(whole).data()
}

/// The windows of an operator, if they are computed by batches and the frame of one ends before its row.
fn ends_early(node: &Arc<dyn ExecutionPlan>) -> Option<&BoundedWindowAggExec> {
    let window = node.downcast_ref::<BoundedWindowAggExec>();
    window.filter(|window| window.window_expr().iter().any(ends_before))
}

fn ends_before(window: &Arc<dyn WindowExpr>) -> bool {
    let frame = window.get_window_frame();
    frame.units == WindowFrameUnits::Range
        && matches!(&frame.end_bound, WindowFrameBound::Preceding(offset) if !offset.is_null())
}

/// The rows of each partition together, and in the window's order.
fn sorted(input: Arc<dyn ExecutionPlan>, window: &Arc<dyn WindowExpr>) -> Arc<dyn ExecutionPlan> {
    let keys = window.partition_by().iter().cloned().map(PhysicalSortExpr::new_default);
    match LexOrdering::new(keys.chain(window.order_by().iter().cloned())) {
        Some(order) => Arc::new(SortExec::new(order, input).with_preserve_partitioning(true)),
        None => input,
    }
}
