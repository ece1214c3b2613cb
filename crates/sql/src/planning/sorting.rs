//! Sorts, where rules have moved what a plan's order stood on.
//!
//! DataFusion sees to sorts once, and moves projections, limits and other sorts later. Of a column that is known to be the same in all rows, what comes later may forget that
//! it is; then a plan is refused at its end, since rows do not come in an order that an operator asks for. Such a plan gets the sorts that it lacks. Where they are lacking, nothing is
//! taken for known of the rows: what was known has led to no sort.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::physical_expr::LexOrdering;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::ensure_requirements::EnsureRequirements;
use datafusion::physical_optimizer::output_requirements::OutputRequirements;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use super::veil::Veil;

/// A plan that was refused, with the sorts that it lacks.
pub(super) fn again(plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
    let veiled = Arc::clone(&plan).transform_up(veiled)?.data;
    let sorted = OutputRequirements::new_add_mode().optimize(veiled, config)?;
    let sorted = EnsureRequirements::new().optimize(sorted, config)?;
    let sorted = OutputRequirements::new_remove_mode().optimize(sorted, config)?;
    // What the rows of the whole come in stays; else the plan is refused as it is.
    let keeps_order = match order_of(&plan) {
        Some(order) => sorted.equivalence_properties().ordering_satisfy(order.iter().cloned())?,
        None => true,
    };
    Ok(if keeps_order { sorted } else { plan })
}

/// The order that a plan's rows are to come in. A merge is asked what it merges by: what it knows of its input may be less.
fn order_of(plan: &Arc<dyn ExecutionPlan>) -> Option<&LexOrdering> {
    let merge = plan.downcast_ref::<SortPreservingMergeExec>().map(SortPreservingMergeExec::expr);
    merge.or_else(|| plan.output_ordering())
}

/// The same, with veils over what does not come in the order that an operator asks for.
fn veiled(node: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let (mut children, mut is_changed) = (Vec::new(), false);
    for (child, wanted) in node.children().into_iter().zip(node.required_input_ordering()) {
        let is_sorted = match wanted {
            Some(wanted) => child.equivalence_properties().ordering_satisfy_requirement(wanted.into_single())?,
            None => true,
        };
        is_changed |= !is_sorted;
        children.push(if is_sorted { Arc::clone(child) } else { Veil::over(Arc::clone(child)) });
    }
    if !is_changed {
        return Ok(Transformed::no(node));
    }
    replace_children_if_necessary(node, children).map(Transformed::yes)
}
