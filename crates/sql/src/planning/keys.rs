//! Keys that are none.
//!
//! DataFusion notes with each operator which columns determine which. A join makes rows of a key occur several times; an aggregate
//! above it takes such a key for one of its groups all the same, whatever it groups by besides: of `SELECT DISTINCT a.id, b.n FROM
//! a, b`, it says that `id` determines `n` and occurs once. Then a `DISTINCT id` over it was dropped, as was the sort key `n` behind
//! `id`, and the group `n` beside it. So the rules that go by keys are asked with the keys that there are.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{
    Column, DFSchema, Dependency, FunctionalDependence, FunctionalDependencies, HashSet, Result,
    get_target_functional_dependencies,
};
use datafusion::logical_expr::{Aggregate, Distinct, DistinctOn, Expr, LogicalPlan};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use crate::duplicates::drop_duplicates;

/// What DataFusion's rule makes of `plan`, a DISTINCT, by the keys that there are.
pub(super) fn distinct(
    rule: &Arc<dyn OptimizerRule + Send + Sync>,
    plan: LogicalPlan,
    config: &dyn OptimizerConfig,
) -> Result<Transformed<LogicalPlan>> {
    let input = match plan {
        LogicalPlan::Distinct(Distinct::On(of)) => {
            return rule.rewrite(LogicalPlan::Distinct(Distinct::On(once(of))), config);
        }
        LogicalPlan::Distinct(Distinct::All(input)) if are_doubtful(&input)? => input,
        plan => return rule.rewrite(plan, config),
    };
    let sound = Arc::new(sound(LogicalPlan::clone(&input))?);
    let rewritten = rule.rewrite(LogicalPlan::Distinct(Distinct::All(sound)), config)?;
    Ok(Transformed::yes(match rewritten.data {
        LogicalPlan::Aggregate(mut aggregate) => {
            aggregate.input = input;
            LogicalPlan::Aggregate(aggregate)
        }
        // Its rows are distinct.
        _ => Arc::unwrap_or_clone(input),
    }))
}

/// `DISTINCT ON (a, b) … ORDER BY a, a, b` with each expression named once: the rule has its rows ordered by as many of the orders as
/// there are expressions. What is the same only once it is simplified, is seen to by `rules::OrdersOfAggregates`.
fn once(mut of: DistinctOn) -> DistinctOn {
    drop_duplicates(&mut of.on_expr, |expression| expression);
    if let Some(orders) = &mut of.sort_expr {
        drop_duplicates(orders, |order| &order.expr);
    }
    of
}

/// Whether an aggregate in a plan says of columns that they are a key, and they are none.
pub(crate) fn are_doubtful(plan: &LogicalPlan) -> Result<bool> {
    plan.exists(|node| Ok(matches!(node, LogicalPlan::Aggregate(aggregate) if !has_said_keys(aggregate))))
}

/// Whether an aggregate says nothing but of its key.
fn has_said_keys(aggregate: &Aggregate) -> bool {
    let said = aggregate.schema.functional_dependencies();
    let keys = keys(aggregate);
    said.iter().all(|one| keys.iter().any(|key| key == one))
}

/// The columns of a plan that groups by these of its columns determine.
pub(crate) fn determined_by(plan: &LogicalPlan, groups: &[Expr]) -> Result<HashSet<Column>> {
    let sound = sound(plan.clone())?;
    let names: Vec<_> = groups.iter().map(|group| group.schema_name().to_string()).collect();
    let determined = get_target_functional_dependencies(sound.schema(), &names).unwrap_or_default();
    Ok(determined.into_iter().map(|column| Column::from(sound.schema().qualified_field(column))).collect())
}

/// The plan with the keys that its aggregates have, and those that follow above.
pub(super) fn sound(plan: LogicalPlan) -> Result<LogicalPlan> {
    let sound = plan.transform_up(|node| {
        let node = match node {
            LogicalPlan::Aggregate(mut aggregate) => {
                let schema = DFSchema::clone(&aggregate.schema);
                aggregate.schema = Arc::new(schema.with_functional_dependencies(keys(&aggregate))?);
                LogicalPlan::Aggregate(aggregate)
            }
            node @ (LogicalPlan::Projection(_)
            | LogicalPlan::SubqueryAlias(_)
            | LogicalPlan::Window(_)
            | LogicalPlan::Join(_)) => node.recompute_schema()?,
            node => return Ok(Transformed::no(node)),
        };
        Ok(Transformed::yes(node))
    });
    Ok(sound?.data)
}

/// The groups together determine a row, and occur once.
fn keys(aggregate: &Aggregate) -> FunctionalDependencies {
    let groups = aggregate.group_expr.len();
    if groups == 0 || has_grouping_sets(aggregate) {
        return FunctionalDependencies::empty();
    }
    let fields = aggregate.schema.fields();
    let is_nullable = fields.iter().take(groups).any(|field| field.is_nullable());
    let all = (0..fields.len()).collect();
    let key = FunctionalDependence::new((0..groups).collect(), all, is_nullable).with_mode(Dependency::Single);
    FunctionalDependencies::new(vec![key])
}

/// Whether a condition that names no column may not go below an aggregate, which has a row even of no rows.
pub(super) fn gives_a_row_of_none(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::Aggregate(aggregate) if aggregate.group_expr.is_empty() || has_grouping_sets(aggregate))
}

fn has_grouping_sets(aggregate: &Aggregate) -> bool {
    aggregate.group_expr.iter().any(|group| matches!(group, Expr::GroupingSet(_)))
}
