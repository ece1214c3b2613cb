//! Grouping sets are of columns; what they compute is computed below.
//!
//! Rules give an expression that they change its old name, and then it is in no set any more.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, Result};
use datafusion::logical_expr::utils::grouping_set_to_exprlist;
use datafusion::logical_expr::{Aggregate, Expr, GroupingSet, LogicalPlan, Projection};
use datafusion::optimizer::analyzer::AnalyzerRule;

use super::has_node;
use crate::duplicates::drop_duplicates;

/// The rule. To be run when the groups are those that are [written](super::WrittenGroups), and before any that changes expressions.
#[derive(Debug)]
pub(crate) struct SetsOfColumns;

impl AnalyzerRule for SetsOfColumns {
    fn name(&self) -> &'static str {
        "sets_of_columns"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        if !has_node(&plan, &|node| Ok(!computed(node)?.is_empty()))? {
            return Ok(plan);
        }
        let rewrite = |node: LogicalPlan| {
            let computed = computed(&node)?;
            match node {
                LogicalPlan::Aggregate(aggregate) if !computed.is_empty() => of_columns(aggregate, computed),
                node => Ok(Transformed::no(node)),
            }
        };
        plan.transform_up_with_subqueries(rewrite).data()
    }
}

/// What the grouping sets of a node compute, each once.
fn computed(node: &LogicalPlan) -> Result<Vec<Expr>> {
    let LogicalPlan::Aggregate(Aggregate { group_expr, .. }) = node else { return Ok(Vec::new()) };
    if !group_expr.iter().any(|group| matches!(group, Expr::GroupingSet(_))) {
        return Ok(Vec::new());
    }
    let mut computed: Vec<Expr> =
        grouping_set_to_exprlist(group_expr)?.into_iter().filter(|group| computes(group)).cloned().collect();
    drop_duplicates(&mut computed, |group| group);
    Ok(computed)
}

fn computes(group: &Expr) -> bool {
    !matches!(group, Expr::Column(_) | Expr::GroupingSet(_))
}

/// An aggregate over columns of these expressions, which have the names that they would have in it.
fn of_columns(aggregate: Aggregate, computed: Vec<Expr>) -> Result<Transformed<LogicalPlan>> {
    let Aggregate { input, group_expr, aggr_expr, .. } = aggregate;
    let is_taken = |group: &Expr| input.schema().has_column_with_unqualified_name(&group.schema_name().to_string());
    if computed.iter().any(is_taken) {
        return Aggregate::try_new(input, group_expr, aggr_expr).map(LogicalPlan::Aggregate).map(Transformed::no);
    }
    let mut items: Vec<Expr> = input.schema().columns().into_iter().map(Expr::Column).collect();
    items.extend(computed.into_iter().map(|group| {
        let name = group.schema_name().to_string();
        group.alias(name)
    }));
    let groups = group_expr.into_iter().map(|group| match group {
        Expr::GroupingSet(GroupingSet::Rollup(groups)) => Expr::GroupingSet(GroupingSet::Rollup(columns(groups))),
        Expr::GroupingSet(GroupingSet::Cube(groups)) => Expr::GroupingSet(GroupingSet::Cube(columns(groups))),
        Expr::GroupingSet(GroupingSet::GroupingSets(sets)) => {
            Expr::GroupingSet(GroupingSet::GroupingSets(sets.into_iter().map(columns).collect()))
        }
        other => column(other),
    });
    let groups = groups.collect();
    let functions =
        aggr_expr.into_iter().map(|function| grouping_of_columns(function).data()).collect::<Result<_>>()?;
    let input = LogicalPlan::Projection(Projection::try_new(items, input)?);
    Aggregate::try_new(Arc::new(input), groups, functions).map(LogicalPlan::Aggregate).map(Transformed::yes)
}

fn columns(groups: Vec<Expr>) -> Vec<Expr> {
    groups.into_iter().map(column).collect()
}

/// The column of what is computed below.
fn column(group: Expr) -> Expr {
    if computes(&group) { Expr::Column(Column::new_unqualified(group.schema_name().to_string())) } else { group }
}

/// `grouping(…)` names what a set has.
fn grouping_of_columns(function: Expr) -> Result<Transformed<Expr>> {
    function.transform_up(|inner| match inner {
        Expr::AggregateFunction(mut call) if call.func.name() == "grouping" => {
            call.params.args = columns(call.params.args);
            Ok(Transformed::yes(Expr::AggregateFunction(call)))
        }
        other => Ok(Transformed::no(other)),
    })
}
