//! Keys of joins that are made of the columns of several tables, as `f(a.x, b.x) = c.y` in a join of a and b with c, or of none, as
//! `a.x IS NULL = false`.
//!
//! DataFusion's rule that finds a new order for inner joins takes all their keys, and gives to each join those of which one side belongs
//! to its left and the other to its right. Where it joins a with c before b, no join gets such a key, and it is lost. As a condition of its
//! join, it stays one, and becomes a key again when the order has been found.

use std::collections::HashSet;

use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{JoinType, NullEquality, Result};
use datafusion::logical_expr::{Expr, Join, LogicalPlan};

use crate::rules::has_node;

/// The plan with such keys among the conditions of inner joins.
pub(super) fn as_conditions(plan: LogicalPlan) -> Result<LogicalPlan> {
    // Looking is quicker than to take every plan apart.
    if !has_node(&plan, &|node| Ok(matches!(node, LogicalPlan::Join(join) if has_spanning_key(join))))? {
        return Ok(plan);
    }
    plan.transform_up_with_subqueries(|plan| match plan {
        LogicalPlan::Join(join) if has_spanning_key(&join) => {
            let (conditions, on): (Vec<_>, Vec<_>) = join.on.into_iter().partition(span);
            let conditions = conditions.into_iter().map(|(left, right)| left.eq(right));
            let filter = join.filter.into_iter().chain(conditions).reduce(Expr::and);
            Ok(Transformed::yes(LogicalPlan::Join(Join { on, filter, ..join })))
        }
        other => Ok(Transformed::no(other)),
    })
    .data()
}

fn has_spanning_key(join: &Join) -> bool {
    join.join_type == JoinType::Inner
        && join.null_equality == NullEquality::NullEqualsNothing
        && join.on.iter().any(span)
}

fn span((left, right): &(Expr, Expr)) -> bool {
    [left, right].into_iter().any(|side| {
        let columns = side.column_refs();
        let tables: HashSet<_> = columns.iter().map(|column| &column.relation).collect();
        // A column that names no table may be of any.
        columns.is_empty()
            || tables.len() > 1
            || columns.len() > 1 && columns.iter().any(|column| column.relation.is_none())
    })
}
