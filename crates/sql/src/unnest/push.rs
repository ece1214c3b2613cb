//! Pushing the domain of a subquery down into its plan, until nothing refers to the outside any more.
//!
//! The plan that comes out gives, for each row of the domain, the rows that the subquery gives there: its own columns first,
//! then those of the domain.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, NullEquality, Result};
use datafusion::functions_window::row_number::row_number_udwf;
use datafusion::logical_expr::expr::{AggregateFunction, WindowFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    Aggregate, Distinct, Expr, ExprFunctionExt, FetchType, Filter, Join, JoinType, Limit, LogicalPlan,
    LogicalPlanBuilder, Operator, Projection, SkipType, Sort, SortExpr, SubqueryAlias, Union, Window, binary_expr, lit,
    when,
};

use super::domain::Domain;
use super::joins::{join, same, same_columns};
use super::{Unnesting, mark, refuse};

/// A plan, and the columns of the domain in it.
type Pushed = (LogicalPlan, Vec<Column>);

pub(super) fn push(names: &mut Unnesting, plan: LogicalPlan, domain: &Domain) -> Result<Pushed> {
    if !domain.is_used_by(&plan)? {
        let plan = LogicalPlanBuilder::from(plan).cross_join(domain.plan.clone())?.build()?;
        return Ok((plan, domain.columns()));
    }
    match plan {
        LogicalPlan::Projection(projection) => {
            let (input, keys) = push(names, Arc::unwrap_or_clone(projection.input), domain)?;
            let mut expressions = resolved(projection.expr, domain, &keys)?;
            expressions.extend(keys.iter().cloned().map(Expr::Column));
            Ok((LogicalPlan::Projection(Projection::try_new(expressions, Arc::new(input))?), keys))
        }
        LogicalPlan::Filter(filter) => {
            let (input, keys) = push(names, Arc::unwrap_or_clone(filter.input), domain)?;
            let predicate = domain.resolve(filter.predicate, &keys)?.data;
            Ok((LogicalPlan::Filter(Filter::try_new(predicate, Arc::new(input))?), keys))
        }
        LogicalPlan::SubqueryAlias(SubqueryAlias { input, alias, .. }) => {
            let (input, keys) = push(names, Arc::unwrap_or_clone(input), domain)?;
            let keys = keys.into_iter().map(|key| Column::new(Some(alias.clone()), key.name)).collect();
            Ok((LogicalPlan::SubqueryAlias(SubqueryAlias::try_new(Arc::new(input), alias)?), keys))
        }
        LogicalPlan::Aggregate(aggregate) => aggregated(names, aggregate, domain),
        LogicalPlan::Window(window) => windowed(names, window, domain),
        LogicalPlan::Distinct(Distinct::All(input)) => {
            let (input, keys) = push(names, Arc::unwrap_or_clone(input), domain)?;
            Ok((LogicalPlan::Distinct(Distinct::All(Arc::new(input))), keys))
        }
        LogicalPlan::Sort(Sort { expr, input, fetch: None }) => {
            let (input, keys) = push(names, Arc::unwrap_or_clone(input), domain)?;
            let expr = sorts(expr, domain, &keys)?;
            Ok((LogicalPlan::Sort(Sort { expr, input: Arc::new(input), fetch: None }), keys))
        }
        LogicalPlan::Limit(limit) => limited(names, &limit, domain),
        LogicalPlan::Union(union) => united(names, union, domain),
        LogicalPlan::Join(join) => joined(names, join, domain),
        other => refuse(&format!("a reference to the outer query in {}", other.display())),
    }
}

/// Expressions over the columns of the domain, by the names that they had.
fn resolved(expressions: Vec<Expr>, domain: &Domain, keys: &[Column]) -> Result<Vec<Expr>> {
    let names = NamePreserver::new_for_projection();
    let resolve = |expression: Expr| {
        let name = names.save(&expression);
        let resolved = domain.resolve(expression, keys)?;
        Ok(if resolved.transformed { name.restore(resolved.data) } else { resolved.data })
    };
    expressions.into_iter().map(resolve).collect()
}

fn sorts(sorts: Vec<SortExpr>, domain: &Domain, keys: &[Column]) -> Result<Vec<SortExpr>> {
    let resolve = |sort: SortExpr| Ok(SortExpr { expr: domain.resolve(sort.expr, keys)?.data, ..sort });
    sorts.into_iter().map(resolve).collect()
}

/// Brings the columns of a plan into order: its own, then the keys.
fn ordered(plan: LogicalPlan, own: Vec<Column>, keys: Vec<Column>) -> Result<Pushed> {
    let all = own.into_iter().chain(keys.iter().cloned()).map(Expr::Column);
    Ok((LogicalPlanBuilder::from(plan).project(all)?.build()?, keys))
}

fn aggregated(names: &mut Unnesting, aggregate: Aggregate, domain: &Domain) -> Result<Pushed> {
    let own = aggregate.schema.columns();
    let (mut input, mut keys) = push(names, Arc::unwrap_or_clone(aggregate.input), domain)?;
    let mut groups = resolved(aggregate.group_expr, domain, &keys)?;
    let mut aggregates = resolved(aggregate.aggr_expr, domain, &keys)?;
    if groups.iter().any(|group| matches!(group, Expr::GroupingSet(_))) {
        return refuse("GROUPING SETS, ROLLUP or CUBE beside a reference to the outer query");
    }
    if groups.is_empty() {
        // There is a row even where the input has none. What stands in for it then has no mark.
        let marked = names.prefix();
        let all = input.schema().columns().into_iter().map(Expr::Column).chain([mark().alias(&marked)]);
        let right = LogicalPlanBuilder::from(input).project(all.collect::<Vec<_>>())?.build()?;
        let left = domain.renamed(names)?;
        let left_keys = left.schema().columns();
        let on = same_columns(&left, &left_keys, &right, &keys)?;
        input = join(left, right, on, None, JoinType::Left)?;
        keys = left_keys;
        let is_there = Expr::Column(Column::new_unqualified(marked)).is_not_null();
        aggregates = aggregates.into_iter().map(|aggregate| only_where(aggregate, &is_there)).collect::<Result<_>>()?;
    }
    groups.extend(keys.iter().cloned().map(Expr::Column));
    let plan = LogicalPlan::Aggregate(Aggregate::try_new(Arc::new(input), groups, aggregates)?);
    ordered(plan, own, keys)
}

/// An aggregate over rows that meet one more condition, by the name that it had.
fn only_where(aggregate: Expr, condition: &Expr) -> Result<Expr> {
    let name = NamePreserver::new_for_projection().save(&aggregate);
    let filtered = aggregate.transform_down(|inner| {
        Ok(match inner {
            Expr::AggregateFunction(AggregateFunction { func, mut params }) => {
                let filter = match params.filter {
                    Some(filter) => filter.and(condition.clone()),
                    None => condition.clone(),
                };
                params.filter = Some(Box::new(filter));
                let filtered = Expr::AggregateFunction(AggregateFunction { func, params });
                Transformed::new(filtered, true, TreeNodeRecursion::Jump)
            }
            other => Transformed::no(other),
        })
    })?;
    Ok(name.restore(filtered.data))
}

fn windowed(names: &mut Unnesting, window: Window, domain: &Domain) -> Result<Pushed> {
    let own = window.schema.columns();
    let (input, keys) = push(names, Arc::unwrap_or_clone(window.input), domain)?;
    let preserver = NamePreserver::new_for_projection();
    let divided = window.window_expr.into_iter().map(|expression| {
        let name = preserver.save(&expression);
        let resolved = domain.resolve(expression, &keys)?.data.transform_down(|inner| {
            Ok(match inner {
                Expr::WindowFunction(mut function) => {
                    function.params.partition_by.extend(keys.iter().cloned().map(Expr::Column));
                    Transformed::new(Expr::WindowFunction(function), true, TreeNodeRecursion::Jump)
                }
                other => Transformed::no(other),
            })
        })?;
        Ok(name.restore(resolved.data))
    });
    let divided = divided.collect::<Result<Vec<_>>>()?;
    let plan = LogicalPlan::Window(Window::try_new(divided, Arc::new(input))?);
    ordered(plan, own, keys)
}

/// LIMIT and OFFSET, for each row of the domain by itself.
fn limited(names: &mut Unnesting, limit: &Limit, domain: &Domain) -> Result<Pushed> {
    let (SkipType::Literal(skip), FetchType::Literal(fetch)) = (limit.get_skip_type()?, limit.get_fetch_type()?) else {
        return refuse("LIMIT or OFFSET by an expression beside a reference to the outer query");
    };
    let within = |input: &Arc<LogicalPlan>| LogicalPlan::Limit(Limit { input: Arc::clone(input), ..limit.clone() });
    let (input, order) = match limit.input.as_ref() {
        // The order of the rows is found below what only computes columns.
        LogicalPlan::Projection(projection) => {
            let below = Arc::new(within(&projection.input));
            let swapped = Projection::try_new(projection.expr.clone(), below)?;
            return push(names, LogicalPlan::Projection(swapped), domain);
        }
        LogicalPlan::SubqueryAlias(alias) => {
            let swapped = SubqueryAlias::try_new(Arc::new(within(&alias.input)), alias.alias.clone())?;
            return push(names, LogicalPlan::SubqueryAlias(swapped), domain);
        }
        LogicalPlan::Sort(Sort { expr, input, fetch: None }) => (input.as_ref().clone(), expr.clone()),
        other => (other.clone(), Vec::new()),
    };
    let own = input.schema().columns();
    let (input, keys) = push(names, input, domain)?;
    let number = names.prefix();
    let numbered = Expr::from(WindowFunction::new(row_number_udwf(), Vec::new()))
        .partition_by(keys.iter().cloned().map(Expr::Column).collect())
        .order_by(sorts(order, domain, &keys)?)
        .build()?
        .alias(&number);
    let number = Expr::Column(Column::new_unqualified(number));
    let mut taken = number.clone().gt(lit(skip as u64));
    if let Some(fetch) = fetch {
        taken = taken.and(number.lt_eq(lit(skip.saturating_add(fetch) as u64)));
    }
    let plan = LogicalPlan::Window(Window::try_new(vec![numbered], Arc::new(input))?);
    let plan = LogicalPlan::Filter(Filter::try_new(taken, Arc::new(plan))?);
    ordered(plan, own, keys)
}

fn united(names: &mut Unnesting, union: Union, domain: &Domain) -> Result<Pushed> {
    let prefix = names.prefix();
    let name = |at| format!("{prefix}_{at}");
    let keys: Vec<Column> = (0..domain.columns().len()).map(|at| Column::new_unqualified(name(at))).collect();
    let own = union.schema.columns();
    let mut inputs = Vec::with_capacity(union.inputs.len());
    for input in union.inputs {
        // All by the names of the union, whose columns are found by them above.
        let columns = input.schema().columns();
        let (input, pushed) = push(names, Arc::unwrap_or_clone(input), domain)?;
        let all = columns.into_iter().zip(&own).map(|(column, own)| {
            if column == *own {
                Expr::Column(column)
            } else {
                Expr::Column(column).alias_qualified(own.relation.clone(), &own.name)
            }
        });
        let all = all.chain(pushed.into_iter().enumerate().map(|(at, key)| Expr::Column(key).alias(name(at))));
        inputs.push(Arc::new(LogicalPlanBuilder::from(input).project(all.collect::<Vec<_>>())?.build()?));
    }
    let plan = LogicalPlan::Union(Union::try_new(inputs)?);
    Ok((plan, keys))
}

fn joined(names: &mut Unnesting, inner: Join, domain: &Domain) -> Result<Pushed> {
    let own = inner.schema.columns();
    let (mut on, mut conditions) = (Vec::new(), Vec::new());
    let nulls_are_equal = inner.null_equality == NullEquality::NullEqualsNull;
    if inner.null_aware {
        return refuse("NOT IN beside a reference to the outer query");
    }
    for (left, right) in inner.on {
        let refers = domain.is_used_in(&left)? || domain.is_used_in(&right)?;
        match (left, right) {
            (left, right) if nulls_are_equal && refers => {
                conditions.push(binary_expr(left, Operator::IsNotDistinctFrom, right));
            }
            (left, right) if nulls_are_equal => on.extend(same(&inner.left, left, &inner.right, right)?),
            (left, right) if refers => conditions.push(left.eq(right)),
            pair => on.push(pair),
        }
    }
    conditions.extend(inner.filter);
    let in_condition = conditions.iter().map(|condition| domain.is_used_in(condition)).collect::<Result<Vec<_>>>()?;
    let in_condition = in_condition.contains(&true);
    let (in_left, in_right) = (domain.is_used_by(&inner.left)?, domain.is_used_by(&inner.right)?);
    let (left, right) = (Arc::unwrap_or_clone(inner.left), Arc::unwrap_or_clone(inner.right));
    // A side whose rows may stay alone must know for which row of the domain it does.
    let (left_needs, right_needs) = match inner.join_type {
        JoinType::Inner if in_left || !in_right => (true, in_right),
        JoinType::Inner => (false, true),
        JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => (true, in_right),
        JoinType::Right | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => (in_left, true),
        JoinType::Full => (true, true),
    };
    debug_assert!(left_needs || right_needs || !in_condition);
    let (left, left_keys) = if left_needs { push(names, left, domain)? } else { (left, Vec::new()) };
    let (right, mut right_keys) = if right_needs { push(names, right, domain)? } else { (right, Vec::new()) };
    // The sides may have the domain's columns by the same names.
    let mut right = right;
    if left_needs && right_needs {
        let prefix = names.prefix();
        let own = right.schema().columns();
        let (own, pushed) = own.split_at(own.len() - right_keys.len());
        let fresh = |at| format!("{prefix}_{at}");
        let all = own
            .iter()
            .cloned()
            .map(Expr::Column)
            .chain(pushed.iter().enumerate().map(|(at, key)| Expr::Column(key.clone()).alias(fresh(at))));
        right_keys = (0..pushed.len()).map(|at| Column::new_unqualified(fresh(at))).collect();
        right = LogicalPlanBuilder::from(right).project(all.collect::<Vec<_>>())?.build()?;
        on.extend(same_columns(&left, &left_keys, &right, &right_keys)?);
    }
    let keys = if left_needs { &left_keys } else { &right_keys };
    let resolve = |expression: Expr| Ok(domain.resolve(expression, keys)?.data);
    let filter = conditions.into_iter().map(resolve).collect::<Result<Vec<_>>>()?.into_iter().reduce(Expr::and);
    let plan = join(left, right, on, filter, inner.join_type)?;
    match inner.join_type {
        JoinType::Full => {
            let prefix = names.prefix();
            let fresh = |at: usize| format!("{prefix}_{at}");
            let both = left_keys.iter().zip(&right_keys).enumerate().map(|(at, (left, right))| {
                let (left, right) = (Expr::Column(left.clone()), Expr::Column(right.clone()));
                Ok(when(left.clone().is_null(), right).otherwise(left)?.alias(fresh(at)))
            });
            let both = both.collect::<Result<Vec<_>>>()?;
            let keys = (0..both.len()).map(|at| Column::new_unqualified(fresh(at))).collect();
            let all = own.into_iter().map(Expr::Column).chain(both);
            Ok((LogicalPlanBuilder::from(plan).project(all.collect::<Vec<_>>())?.build()?, keys))
        }
        JoinType::Right | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => {
            ordered(plan, own, right_keys)
        }
        _ if left_needs => ordered(plan, own, left_keys),
        _ => ordered(plan, own, right_keys),
    }
}
