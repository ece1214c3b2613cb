//! Keys that are none.
//!
//! DataFusion notes with each operator which columns determine which. A join makes rows of a key occur several times; an aggregate
//! above it takes such a key for one of its groups all the same, whatever it groups by besides: of `SELECT DISTINCT a.id, b.n FROM
//! a, b`, it says that `id` determines `n` and occurs once. Then a `DISTINCT id` over it was dropped, as was the sort key `n` behind
//! `id`. So the rules that go by keys are asked with the keys that there are.

use std::cell::Cell;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Dependency, FunctionalDependence, FunctionalDependencies, Result};
use datafusion::logical_expr::{Aggregate, Distinct, Expr, LogicalPlan};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use crate::Error;

/// What DataFusion's rule makes of `plan`, a DISTINCT, by the keys that there are.
pub(super) fn distinct(
    rule: &Arc<dyn OptimizerRule + Send + Sync>,
    plan: LogicalPlan,
    config: &dyn OptimizerConfig,
) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Distinct(of) = &plan else { return rule.rewrite(plan, config) };
    let input = Arc::clone(of.input());
    let sound = sound(LogicalPlan::clone(&input))?;
    match of {
        _ if !sound.transformed => rule.rewrite(plan, config),
        Distinct::All(_) => {
            let rewritten = rule.rewrite(LogicalPlan::Distinct(Distinct::All(Arc::new(sound.data))), config)?;
            Ok(match rewritten.data {
                LogicalPlan::Aggregate(mut aggregate) => {
                    aggregate.input = input;
                    Transformed::yes(LogicalPlan::Aggregate(aggregate))
                }
                // Its rows are distinct.
                _ => Transformed::yes(Arc::unwrap_or_clone(input)),
            })
        }
        Distinct::On(_) => Err(Error::unsupported(
            "DISTINCT ON over a grouped join",
            "keep the rows of the subquery in a table of its own, or write GROUP BY with min or max",
        )
        .into()),
    }
}

/// Whether an operator says of columns beneath it that they are a key, and they are none.
pub(super) fn are_doubtful(plan: &LogicalPlan) -> Result<bool> {
    Ok(sound(plan.clone())?.transformed)
}

/// The plan with the keys that its aggregates have, and those that follow above.
fn sound(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let is_changed = Cell::new(false);
    plan.transform_up(|node| {
        let node = match node {
            LogicalPlan::Aggregate(aggregate) => return with_keys(aggregate, &is_changed),
            node if !is_changed.get() => return Ok(Transformed::no(node)),
            node @ (LogicalPlan::Projection(_)
            | LogicalPlan::SubqueryAlias(_)
            | LogicalPlan::Window(_)
            | LogicalPlan::Join(_)) => node,
            node => return Ok(Transformed::no(node)),
        };
        node.recompute_schema().map(Transformed::yes)
    })
}

fn with_keys(mut aggregate: Aggregate, is_changed: &Cell<bool>) -> Result<Transformed<LogicalPlan>> {
    let said = aggregate.schema.functional_dependencies();
    let keys = keys(&aggregate);
    if said.iter().all(|key| key.mode == Dependency::Single && keys.iter().any(|sound| sound == key)) {
        return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
    }
    is_changed.set(true);
    let schema = DFSchema::clone(&aggregate.schema).with_functional_dependencies(keys)?;
    aggregate.schema = Arc::new(schema);
    Ok(Transformed::yes(LogicalPlan::Aggregate(aggregate)))
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
