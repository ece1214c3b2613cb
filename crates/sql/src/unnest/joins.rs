//! Joins on columns that may be NULL, where NULL is equal to NULL; and LATERAL.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, JoinConstraint, NullEquality, Result, ScalarValue};
use datafusion::logical_expr::expr::InSubquery;
use datafusion::logical_expr::{
    Expr, ExprSchemable, Join, JoinType, LogicalPlan, LogicalPlanBuilder, SubqueryAlias, when,
};

use super::attach::Attach;
use super::domain::{self, Domain};
use super::kept::Places;
use super::limits;
use super::push::push;
use super::{Unnesting, refuse, subquery_of};

/// Pairs that are equal where columns are, or both NULL.
pub(super) fn same_columns(
    left: &LogicalPlan,
    lefts: &[Column],
    right: &LogicalPlan,
    rights: &[Column],
) -> Result<Vec<(Expr, Expr)>> {
    let mut pairs = Vec::with_capacity(2 * lefts.len());
    for (l, r) in lefts.iter().zip(rights) {
        pairs.extend(same(left, Expr::Column(l.clone()), right, Expr::Column(r.clone()))?);
    }
    Ok(pairs)
}

/// Pairs that are equal where two expressions are, or both NULL. The optimizer mixes up joins whose NULLs are equal with others,
/// so what may be NULL is compared as two that are not.
pub(crate) fn same(left: &LogicalPlan, l: Expr, right: &LogicalPlan, r: Expr) -> Result<Vec<(Expr, Expr)>> {
    if !l.nullable(left.schema().as_ref())? && !r.nullable(right.schema().as_ref())? {
        return Ok(vec![(l, r)]);
    }
    let of = match l.get_type(left.schema().as_ref())? {
        DataType::Null => r.get_type(right.schema().as_ref())?,
        known => known,
    };
    if of == DataType::Null {
        // There is nothing else that they could be.
        return Ok(vec![(l.is_null(), r.is_null())]);
    }
    let default = ScalarValue::new_default(&of)?;
    let filled = |key: &Expr| when(key.clone().is_null(), Expr::Literal(default.clone(), None)).otherwise(key.clone());
    Ok(vec![(filled(&l)?, filled(&r)?), (l.is_null(), r.is_null())])
}

/// A join on pairs, where NULL is equal to nothing.
pub(super) fn join(
    left: LogicalPlan,
    right: LogicalPlan,
    on: Vec<(Expr, Expr)>,
    filter: Option<Expr>,
    join_type: JoinType,
) -> Result<LogicalPlan> {
    let (left, right) = (Arc::new(left), Arc::new(right));
    let nothing = NullEquality::NullEqualsNothing;
    Join::try_new(left, right, on, filter, join_type, JoinConstraint::On, nothing, false).map(LogicalPlan::Join)
}

/// Makes a plain join of one whose right side is LATERAL.
pub(super) fn lateral(unnesting: &mut Unnesting, join: Join) -> Result<LogicalPlan> {
    let Some(right) = opened(&join.right)? else { return Ok(LogicalPlan::Join(join)) };
    let outer = domain::references(&right, join.left.schema())?;
    if outer.is_empty() {
        let join = Join { right: Arc::new(right), ..join };
        return LogicalPlan::Join(join).recompute_schema();
    }
    let columns = join.schema.columns();
    let join = Join { left: Arc::new(limits::defined(join.left.as_ref().clone())?), ..join };
    let domain = Domain::of(unnesting, &join.left, &outer)?;
    let (right, keys) = push(unnesting, right, &domain)?;
    let mut on = same_columns(&join.left, &outer, &right, &keys)?;
    on.extend(join.on);
    let joined = self::join(Arc::unwrap_or_clone(join.left), right, on, join.filter, join.join_type)?;
    LogicalPlanBuilder::from(joined).project(columns.into_iter().map(Expr::Column))?.build()
}

/// The plan inside of a LATERAL subquery.
fn opened(plan: &LogicalPlan) -> Result<Option<LogicalPlan>> {
    Ok(match plan {
        LogicalPlan::Subquery(subquery) => Some(subquery.subquery.as_ref().clone()),
        LogicalPlan::SubqueryAlias(SubqueryAlias { input, alias, .. }) => match opened(input)? {
            Some(inner) => Some(LogicalPlan::SubqueryAlias(SubqueryAlias::try_new(Arc::new(inner), alias.clone())?)),
            None => None,
        },
        _ => None,
    })
}

/// A join, outer ones too, with subqueries in its condition: each becomes a column of the side that it refers to.
pub(super) fn with_conditions_of_sides(unnesting: &mut Unnesting, join: Join, condition: Expr) -> Result<LogicalPlan> {
    let columns = join.schema.columns();
    let mut left = Attach::new(limits::defined(Arc::unwrap_or_clone(join.left))?);
    let mut right = Attach::new(limits::defined(Arc::unwrap_or_clone(join.right))?);
    let none = Places::none();
    let condition = condition.transform_down(|expression| {
        let Some(subquery) = subquery_of(&expression) else { return Ok(Transformed::no(expression)) };
        let (of_left, of_right) = (refers(&expression, subquery, &left)?, refers(&expression, subquery, &right)?);
        if of_left && of_right {
            return refuse("a subquery in the ON of an outer join that refers to both sides");
        }
        let side = if of_right { &mut right } else { &mut left };
        let replaced = unnesting.replace(expression, &none, side)?;
        Ok(Transformed::new(replaced.data, true, TreeNodeRecursion::Jump))
    })?;
    let joined = self::join(left.input, right.input, join.on, Some(condition.data), join.join_type)?;
    LogicalPlanBuilder::from(joined).project(columns.into_iter().map(Expr::Column))?.build()
}

/// Whether a subquery, or the value that is looked for in it, refers to a side of a join.
fn refers(expression: &Expr, subquery: &LogicalPlan, side: &Attach) -> Result<bool> {
    let schema = side.schema();
    let mut refers = !domain::possible_references(subquery, schema)?.is_empty();
    if let Expr::InSubquery(InSubquery { expr, .. }) = expression {
        expr.apply(|inner| {
            refers |= match (inner, subquery_of(inner)) {
                (Expr::Column(column), _) => schema.has_column(column),
                (_, Some(nested)) => !domain::possible_references(nested, schema)?.is_empty(),
                _ => false,
            };
            Ok(TreeNodeRecursion::Continue)
        })?;
    }
    Ok(refers)
}
