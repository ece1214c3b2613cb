//! A veil over rows of which some get NULLs.
//!
//! Of a column that is the same in all rows, as a literal or one that a condition sets, DataFusion knows so, and drops it from the
//! keys of sorts and windows. A row of NULLs that an outer join adds is not the same, which DataFusion does not see. Nor does it see that grouping
//! sets leave columns out, and give rows in another order than that of their input, where columns that were equal are not.
//!
//! A column that is the same in all rows of each query of a UNION ALL, and another one in the next query, is dropped from the keys of sorts, too, as each sorts one query's
//! rows. Where only the first rows are wanted, however, all these sorts share how far a row may be from the first ones, by the keys that are left: one query's rows drive out
//! those of another that come first by the dropped one.
//!
//! What an aggregate gives in a window whose beginning moves is taken to go up or down with the order of the rows. A count does not, where rows lie at unlike distances, and NULLs,
//! which come where nothing is in the window, may come first or last.
//!
//! So a [`Veil`] hides what is known of the rows below. Of windows it hides what they add alone.

use std::fmt;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{JoinType, Result, Statistics, internal_datafusion_err};
use datafusion::execution::TaskContext;
use datafusion::logical_expr::SetMonotonicity;
use datafusion::physical_expr::window::{SlidingAggregateWindowExpr, WindowExpr};
use datafusion::physical_expr::{AcrossPartitions, EquivalenceProperties};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlanProperties;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{
    ChildStats, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, SendableRecordBatchStream, StatisticsArgs,
};

/// Draws veils. What a rule moves may show what it hid before: to be run after each.
#[derive(Debug)]
pub(super) struct DrawVeils;

impl PhysicalOptimizerRule for DrawVeils {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        // Looking is quicker than to take every plan apart.
        if !plan.exists(|node| Ok(bare(node).contains(&true)))? {
            return Ok(plan);
        }
        let veiled = plan.transform_up(|node| {
            let bare = bare(&node);
            if !bare.contains(&true) {
                return Ok(Transformed::no(node));
            }
            let veiled = node
                .children()
                .into_iter()
                .zip(bare)
                .map(|(child, is_bare)| if is_bare { Veil::over(Arc::clone(child)) } else { Arc::clone(child) });
            let veiled = veiled.collect();
            replace_children_if_necessary(Arc::clone(&node), veiled).map(Transformed::yes)
        });
        Ok(veiled?.data)
    }

    fn name(&self) -> &'static str {
        "draw_veils"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Which of the operators below one show what they must not.
fn bare(node: &Arc<dyn ExecutionPlan>) -> Vec<bool> {
    if node.is::<Veil>() {
        return vec![false];
    }
    let filled = join_type(node).map_or([false; 2], gives_nulls_for);
    let sorts = node.downcast_ref::<SortExec>().is_some();
    let has_constants =
        |child: &Arc<dyn ExecutionPlan>| !child.properties().equivalence_properties().constants().is_empty();
    let is_bare = |(at, child): (usize, &Arc<dyn ExecutionPlan>)| {
        leaves_groups_out(child)
            || has_moving_aggregates(child)
            || filled.get(at).is_some_and(|filled| *filled) && has_constants(child)
            || sorts && has_constants_apart(child)
    };
    node.children().into_iter().enumerate().map(is_bare).collect()
}

/// Whether some of the rows below have the same in a column, and others something else that is the same in all of them.
fn has_constants_apart(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let constants = plan.properties().equivalence_properties().constants();
    constants.iter().any(|constant| constant.across_partitions == AcrossPartitions::Heterogeneous)
}

/// Whether an operator computes grouping sets of the rows below.
fn leaves_groups_out(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.downcast_ref::<AggregateExec>().is_some_and(|aggregate| aggregate.group_expr().has_grouping_set())
}

/// Whether an operator computes aggregates in windows whose beginning moves, of which DataFusion thinks that they have an order.
fn has_moving_aggregates(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let is_moving = |window: &Arc<dyn WindowExpr>| {
        let moving = window.as_any().downcast_ref::<SlidingAggregateWindowExpr>();
        moving.is_some_and(|it| it.get_aggregate_expr().set_monotonicity() != SetMonotonicity::NotMonotonic)
    };
    windows(plan).is_some_and(|windows| windows.iter().any(is_moving))
}

/// The windows that an operator computes, if that is what it does.
pub(super) fn windows(plan: &Arc<dyn ExecutionPlan>) -> Option<&[Arc<dyn WindowExpr>]> {
    let all = plan.downcast_ref::<WindowAggExec>().map(WindowAggExec::window_expr);
    all.or_else(|| plan.downcast_ref::<BoundedWindowAggExec>().map(BoundedWindowAggExec::window_expr))
}

fn join_type(plan: &Arc<dyn ExecutionPlan>) -> Option<JoinType> {
    let hash = plan.downcast_ref::<HashJoinExec>().map(|join| *join.join_type());
    let merge = || plan.downcast_ref::<SortMergeJoinExec>().map(SortMergeJoinExec::join_type);
    let loops = || plan.downcast_ref::<NestedLoopJoinExec>().map(|join| *join.join_type());
    hash.or_else(merge).or_else(loops)
}

/// Whether a join gives NULL for columns of its left, and of its right side.
fn gives_nulls_for(join: JoinType) -> [bool; 2] {
    [matches!(join, JoinType::Right | JoinType::Full), matches!(join, JoinType::Left | JoinType::Full)]
}

/// An operator that gives what the one below it gives, and does not tell what these rows have in common.
#[derive(Debug)]
pub(super) struct Veil {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl Veil {
    pub(super) fn over(input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        let known = Self::known(&input).unwrap_or_else(|_| EquivalenceProperties::new(input.schema()));
        let properties = PlanProperties::clone(input.properties()).with_eq_properties(known);
        Arc::new(Self { input, properties: Arc::new(properties) })
    }

    /// What may be known of the rows: of those of windows, what was known before these were computed.
    fn known(input: &Arc<dyn ExecutionPlan>) -> Result<EquivalenceProperties> {
        let nothing = EquivalenceProperties::new(input.schema());
        match input.children().as_slice() {
            [below] if windows(input).is_some() => nothing.extend(below.equivalence_properties().clone()),
            _ => Ok(nothing),
        }
    }

    #[expect(clippy::unnecessary_wraps, reason = "other operators over one input may refuse another")]
    fn on(&self, input: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        if Arc::ptr_eq(input.properties(), self.input.properties()) {
            return Ok(Arc::new(Self { input, properties: Arc::clone(&self.properties) }));
        }
        Ok(Self::over(input))
    }
}

impl DisplayAs for Veil {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("VeilExec")
    }
}

impl ExecutionPlan for Veil {
    fn name(&self) -> &'static str {
        "VeilExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    ishigaki_scan::operator!(input by on);

    ishigaki_scan::operator!(no expressions);

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition)]
    }

    fn statistics_from_inputs(&self, inputs: &[Arc<Statistics>], _: &StatisticsArgs) -> Result<Arc<Statistics>> {
        inputs.first().map(Arc::clone).ok_or_else(|| internal_datafusion_err!("a veil without an input"))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.input.execute(partition, context)
    }
}
