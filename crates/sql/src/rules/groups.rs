//! Rows are grouped by what GROUP BY names, and by what that determines.

use std::cell::RefCell;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNodeRecursion};
use datafusion::common::{Column, HashSet, Result, plan_err};
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan};
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
        if !has_node(&plan, &|node| Ok(end(node).is_some()))? {
            return Ok(plan);
        }
        let taken = RefCell::new(HashSet::new());
        let rewrite = |plan| {
            let end = end(&plan);
            Ok(Transformed::yes(match (plan, end) {
                (LogicalPlan::Aggregate(aggregate), Some(end)) => {
                    LogicalPlan::Aggregate(written(aggregate, end, &mut taken.borrow_mut())?)
                }
                (plan, _) => {
                    check(&plan, &taken.borrow())?;
                    plan.recompute_schema()?
                }
            }))
        };
        plan.transform_up_with_subqueries(rewrite).data()
    }
}

/// Where the groups that were written end, in an aggregate that says so.
fn end(plan: &LogicalPlan) -> Option<usize> {
    let LogicalPlan::Aggregate(Aggregate { group_expr, .. }) = plan else { return None };
    group_expr.iter().position(|group| matches!(group, Expr::ScalarFunction(call) if call.func.name() == END_OF_GROUPS))
}

/// The aggregate with the groups before `end`, and those behind it that they determine. The others are added to `taken`.
fn written(aggregate: Aggregate, end: usize, taken: &mut HashSet<Column>) -> Result<Aggregate> {
    let Aggregate { input, mut group_expr, aggr_expr, .. } = aggregate;
    let mut added = group_expr.split_off(end);
    added.remove(0);
    drop_duplicates(&mut group_expr, |expression| expression);
    if !added.is_empty() && planning::has_doubtful_keys(&input)? {
        let determined = planning::determined_by(&input, &group_expr)?;
        added.retain(|group| match group {
            Expr::Column(column) if !determined.contains(column) => {
                taken.insert(column.clone());
                false
            }
            _ => true,
        });
    }
    group_expr.extend(added);
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
