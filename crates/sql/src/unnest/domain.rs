//! What a subquery refers to outside of itself, and the distinct values that this takes there.

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, WindowFunctionDefinition};

use super::{Unnesting, refuse};

/// The distinct values of some outer columns, under names that nothing else has.
#[derive(Clone)]
pub(super) struct Domain {
    pub(super) plan: LogicalPlan,
    /// The columns that are referred to.
    outer: Vec<Column>,
    prefix: String,
}

impl Domain {
    /// The values that columns of a plan take in it. Its limits are [defined](super::limits).
    pub(super) fn of(unnesting: &mut Unnesting, input: &LogicalPlan, outer: &[Column]) -> Result<Self> {
        check_stable(input)?;
        let prefix = unnesting.prefix();
        let columns = || outer.iter().cloned().map(Expr::Column);
        let named = outer.iter().enumerate().map(|(at, column)| Expr::Column(column.clone()).alias(name(&prefix, at)));
        let plan = LogicalPlanBuilder::from(input.clone())
            .aggregate(columns(), Vec::<Expr>::new())?
            .project(named.collect::<Vec<_>>())?
            .build()?;
        Ok(Self { plan, outer: outer.to_vec(), prefix })
    }

    /// The same values again, under other names.
    pub(super) fn renamed(&self, unnesting: &mut Unnesting) -> Result<LogicalPlan> {
        let prefix = unnesting.prefix();
        let columns = self.columns().into_iter().enumerate();
        let named = columns.map(|(at, column)| Expr::Column(column).alias(name(&prefix, at)));
        LogicalPlanBuilder::from(self.plan.clone()).project(named.collect::<Vec<_>>())?.build()
    }

    /// Its own columns.
    pub(super) fn columns(&self) -> Vec<Column> {
        (0..self.outer.len()).map(|at| Column::new_unqualified(name(&self.prefix, at))).collect()
    }

    /// Whether a plan refers to its columns anywhere.
    pub(super) fn is_used_by(&self, plan: &LogicalPlan) -> Result<bool> {
        let mut used = false;
        plan.apply(|node| {
            node.apply_expressions(|expression| {
                used |= self.is_used_in(expression)?;
                Ok(TreeNodeRecursion::Continue)
            })?;
            Ok(if used { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
        Ok(used)
    }

    /// Whether an expression does.
    pub(super) fn is_used_in(&self, expression: &Expr) -> Result<bool> {
        expression
            .exists(|inner| Ok(matches!(inner, Expr::OuterReferenceColumn(_, column) if self.outer.contains(column))))
    }

    /// Puts columns in the place of what referred to the outer ones.
    pub(super) fn resolve(&self, expression: Expr, keys: &[Column]) -> Result<Transformed<Expr>> {
        expression.transform_up(|inner| {
            Ok(match &inner {
                Expr::OuterReferenceColumn(_, column) => match self.outer.iter().position(|outer| outer == column) {
                    Some(at) => Transformed::yes(Expr::Column(keys[at].clone())),
                    None => Transformed::no(inner),
                },
                _ => Transformed::no(inner),
            })
        })
    }
}

fn name(prefix: &str, at: usize) -> String {
    format!("{prefix}_{at}")
}

/// The columns of a schema that a subquery's plan refers to as outer ones. Subqueries inside of it have been unnested, or refer
/// to nothing outside of it.
pub(super) fn references(plan: &LogicalPlan, schema: &DFSchema) -> Result<Vec<Column>> {
    let mut found: Vec<Column> = Vec::new();
    plan.apply(|node| find_references(node, schema, &mut found))?;
    Ok(found)
}

/// The columns that a subquery's plan, or one inside of it, may refer to as outer ones. Some of them may be columns of the same
/// name that are further inside.
pub(super) fn possible_references(plan: &LogicalPlan, schema: &DFSchema) -> Result<Vec<Column>> {
    let mut found: Vec<Column> = Vec::new();
    plan.apply_with_subqueries(|node| find_references(node, schema, &mut found))?;
    Ok(found)
}

fn find_references(node: &LogicalPlan, schema: &DFSchema, found: &mut Vec<Column>) -> Result<TreeNodeRecursion> {
    node.apply_expressions(|expression| {
        expression.apply(|inner| {
            if let Expr::OuterReferenceColumn(_, column) = inner
                && schema.has_column(column)
                && !found.contains(column)
            {
                found.push(column.clone());
            }
            Ok(TreeNodeRecursion::Continue)
        })
    })
}

/// Window functions that number or pick rows whose order may not be complete.
const PICKING: [&str; 7] = ["row_number", "ntile", "lag", "lead", "first_value", "last_value", "nth_value"];

/// Refuses a plan that may give other rows when it is run twice.
fn check_stable(plan: &LogicalPlan) -> Result<()> {
    let mut stable = true;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expression| {
            expression.apply(|inner| {
                stable &= match inner {
                    Expr::WindowFunction(window) => match &window.fun {
                        WindowFunctionDefinition::WindowUDF(function) => !PICKING.contains(&function.name()),
                        WindowFunctionDefinition::AggregateUDF(_) => true,
                    },
                    other => !other.is_volatile_node(),
                };
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    if stable {
        return Ok(());
    }
    refuse("a correlated subquery over rows that random() or a window function numbers or picks")
}
