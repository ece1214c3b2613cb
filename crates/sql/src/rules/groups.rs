//! Rows are grouped by what GROUP BY names, and by what that determines.

use std::cell::RefCell;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNodeRecursion};
use datafusion::common::{Column, HashSet, Result, plan_err};
use datafusion::logical_expr::{Aggregate, Expr, GroupingSet, LogicalPlan};
use datafusion::optimizer::analyzer::AnalyzerRule;

use super::has_node;
use crate::duplicates::drop_duplicates;
use crate::functions::END_OF_GROUPS;
use crate::planning;

/// Takes groups away that DataFusion has added and should not have.
#[derive(Debug)]
pub(crate) struct WrittenGroups;

impl AnalyzerRule for WrittenGroups {
    fn name(&self) -> &'static str {
        "written_groups"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        if !has_node(&plan, &|node| Ok(is_marked(node)))? {
            return Ok(plan);
        }
        let taken = RefCell::new(HashSet::new());
        let rewrite = |plan| {
            let is_marked = is_marked(&plan);
            Ok(Transformed::yes(match plan {
                LogicalPlan::Aggregate(aggregate) if is_marked => {
                    LogicalPlan::Aggregate(written(aggregate, &mut taken.borrow_mut())?)
                }
                plan => {
                    check(&plan, &taken.borrow())?;
                    plan.recompute_schema()?
                }
            }))
        };
        plan.transform_up_with_subqueries(rewrite).data()
    }
}

/// Whether an aggregate says where its groups end.
fn is_marked(plan: &LogicalPlan) -> bool {
    let LogicalPlan::Aggregate(Aggregate { group_expr, .. }) = plan else { return false };
    match group_expr.as_slice() {
        [Expr::GroupingSet(GroupingSet::GroupingSets(sets))] => sets.iter().any(|set| end(set).is_some()),
        groups => end(groups).is_some(),
    }
}

/// Where the groups that were written end.
fn end(groups: &[Expr]) -> Option<usize> {
    groups.iter().position(|group| matches!(group, Expr::ScalarFunction(call) if call.func.name() == END_OF_GROUPS))
}

/// The aggregate with the groups before the end, and those behind it that they determine. The others are added to `taken`.
///
/// Beside grouping sets DataFusion adds to each of them. What some of them leave out is NULL in their rows, also where a key determines it.
fn written(aggregate: Aggregate, taken: &mut HashSet<Column>) -> Result<Aggregate> {
    let Aggregate { input, mut group_expr, aggr_expr, .. } = aggregate;
    let (mut sets, has_sets) = match group_expr.as_mut_slice() {
        [Expr::GroupingSet(GroupingSet::GroupingSets(sets))] => (std::mem::take(sets), true),
        _ => (vec![group_expr], false),
    };
    let mut added = Vec::new();
    for set in &mut sets {
        if let Some(end) = end(set) {
            added = set.split_off(end);
            added.remove(0);
        }
        drop_duplicates(set, |expression| expression);
    }
    added.retain(|group| !sets.iter().any(|set| set.contains(group)));
    if !added.is_empty() && planning::has_doubtful_keys(&input)? {
        let in_all = |group: &&Expr| sets.iter().all(|set| set.contains(group));
        let common: Vec<Expr> = sets.iter().take(1).flatten().filter(in_all).cloned().collect();
        let determined = planning::determined_by(&input, &common)?;
        added.retain(|group| match group {
            Expr::Column(column) if !determined.contains(column) => {
                taken.insert(column.clone());
                false
            }
            _ => true,
        });
    }
    for set in &mut sets {
        set.extend(added.iter().cloned());
    }
    let group_expr = if has_sets {
        vec![Expr::GroupingSet(GroupingSet::GroupingSets(sets))]
    } else {
        sets.into_iter().flatten().collect()
    };
    Aggregate::try_new(input, group_expr, aggr_expr)
}

/// Refuses an operator that takes a column of a group which is none.
fn check(plan: &LogicalPlan, taken: &HashSet<Column>) -> Result<()> {
    if taken.is_empty() {
        return Ok(());
    }
    let inputs = plan.inputs();
    plan.apply_expressions(|expression| {
        let missing = |column: &&&Column| {
            taken.contains(**column) && !inputs.iter().any(|input| input.schema().has_column(column))
        };
        match expression.column_refs().iter().find(missing) {
            Some(column) => plan_err!(
                "column \"{}\" must appear in the GROUP BY clause or be used in an aggregate function",
                column.flat_name()
            ),
            None => Ok(TreeNodeRecursion::Continue),
        }
    })?;
    Ok(())
}
