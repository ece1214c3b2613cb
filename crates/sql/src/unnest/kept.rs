//! Which subqueries are left to DataFusion, whose plans for them are right, and better.

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Column, Result};
use datafusion::logical_expr::expr::InSubquery;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{BinaryExpr, Distinct, Expr, LogicalPlan, Operator};

use super::has_subquery;

/// Where in a node DataFusion answers subqueries.
pub(super) struct Places {
    /// Those that a row must meet, or of which it must meet one.
    positive: Vec<Expr>,
    /// Those that it must not meet.
    negative: Vec<Expr>,
    scalar: bool,
    correlated: bool,
}

impl Places {
    /// None at all.
    pub(super) fn none() -> Self {
        Self { positive: Vec::new(), negative: Vec::new(), scalar: false, correlated: false }
    }

    pub(super) fn of(plan: &LogicalPlan) -> Self {
        let (mut positive, mut negative) = (Vec::new(), Vec::new());
        if let LogicalPlan::Filter(filter) = plan {
            for condition in split_conjunction(&filter.predicate) {
                match condition {
                    Expr::Not(inner) if is_test(inner) => negative.push(inner.as_ref().clone()),
                    Expr::InSubquery(InSubquery { negated: true, .. }) => negative.push(condition.clone()),
                    _ => walk(condition, &mut positive),
                }
            }
        }
        let scalar = matches!(plan, LogicalPlan::Projection(_) | LogicalPlan::Filter(_) | LogicalPlan::Aggregate(_));
        let correlated = matches!(plan, LogicalPlan::Projection(_) | LogicalPlan::Filter(_));
        Self { positive, negative, scalar, correlated }
    }
}

/// Finds what OR and AND join, where NULL and false come to the same.
fn walk(condition: &Expr, found: &mut Vec<Expr>) {
    match condition {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And | Operator::Or, right }) => {
            walk(left, found);
            walk(right, found);
        }
        Expr::Exists(_) | Expr::InSubquery(InSubquery { negated: false, .. }) => found.push(condition.clone()),
        _ => {}
    }
}

fn is_test(expression: &Expr) -> bool {
    matches!(expression, Expr::Exists(_) | Expr::InSubquery(_))
}

/// Whether DataFusion gets a subquery as it is: `inner` is its plan, `outer` what it refers to in the node's input.
pub(super) fn is_kept(
    expression: &Expr,
    inner: &LogicalPlan,
    outer: &[Column],
    places: &Places,
    physical: bool,
) -> Result<bool> {
    // What it refers to may be further outside.
    let mut all = 0;
    for reference in inner.all_out_ref_exprs() {
        all += usize::from(matches!(reference, Expr::OuterReferenceColumn(..)));
    }
    if all != outer.len() {
        return Ok(false);
    }
    Ok(match expression {
        Expr::ScalarSubquery(_) if outer.is_empty() => physical && places.scalar,
        Expr::ScalarSubquery(_) => places.correlated && is_equal_aggregate(inner)?,
        Expr::Exists(_) | Expr::InSubquery(_) if places.positive.contains(expression) => is_filtered(inner)?,
        Expr::Exists(_) if places.negative.contains(expression) => is_filtered(inner)?,
        // Of a value that is not a column, its join forgets that it may be NULL.
        Expr::InSubquery(InSubquery { expr, .. }) if places.negative.contains(expression) => {
            outer.is_empty() && matches!(expr.as_ref(), Expr::Column(_))
        }
        _ => false,
    })
}

/// Whether only conditions refer to the outside, and nothing above them but columns that are selected.
fn is_filtered(plan: &LogicalPlan) -> Result<bool> {
    match plan {
        LogicalPlan::Projection(projection) if !refers(plan)? => is_filtered(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => is_filtered(&alias.input),
        LogicalPlan::Distinct(Distinct::All(input)) => is_filtered(input),
        LogicalPlan::Filter(filter) => {
            // It would become a condition of a join, where DataFusion answers no subquery.
            let both = |condition: &&Expr| condition.contains_outer() && has_subquery(condition);
            Ok(!split_conjunction(&filter.predicate).iter().any(both) && is_filtered(&filter.input)?)
        }
        other => Ok(other.all_out_ref_exprs().is_empty()),
    }
}

/// Whether it is one aggregation over rows in which columns are equal to outer ones.
fn is_equal_aggregate(plan: &LogicalPlan) -> Result<bool> {
    match plan {
        LogicalPlan::Projection(projection) if !refers(plan)? => is_equal_aggregate(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => is_equal_aggregate(&alias.input),
        LogicalPlan::Aggregate(aggregate) if aggregate.group_expr.is_empty() && !refers(plan)? => {
            is_equal(&aggregate.input)
        }
        _ => Ok(false),
    }
}

fn is_equal(plan: &LogicalPlan) -> Result<bool> {
    match plan {
        LogicalPlan::SubqueryAlias(alias) => is_equal(&alias.input),
        LogicalPlan::Filter(filter) => {
            let equal = split_conjunction(&filter.predicate).into_iter().all(|condition| match condition {
                Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) => {
                    !condition.contains_outer() || is_pair(left, right) || is_pair(right, left)
                }
                other => !other.contains_outer(),
            });
            Ok(equal && is_equal(&filter.input)?)
        }
        other => Ok(other.all_out_ref_exprs().is_empty()),
    }
}

fn is_pair(outer: &Expr, inner: &Expr) -> bool {
    matches!(outer, Expr::OuterReferenceColumn(..)) && matches!(inner, Expr::Column(_))
}

/// Whether a node's own expressions refer to the outside.
fn refers(plan: &LogicalPlan) -> Result<bool> {
    let mut refers = false;
    plan.apply_expressions(|expression| {
        refers |= expression.contains_outer();
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(refers)
}
