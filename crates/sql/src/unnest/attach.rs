//! The value of a subquery as a column of its surroundings.

use datafusion::common::{Column, DFSchema, Result, ScalarValue};
use datafusion::functions_aggregate::expr_fn::count;
use datafusion::logical_expr::{Expr, FetchType, JoinType, LogicalPlan, LogicalPlanBuilder, SkipType, lit, not, when};

use super::domain::Domain;
use super::joins::{join, same_columns};
use super::push::push;
use super::single::{self, at_most_one_row, exactly_one_row};
use super::{Unnesting, mark};

/// A plan to which columns are joined. Its rows stay as they are, each once.
pub(super) struct Attach {
    /// The plan as it was, which outer columns are columns of.
    base: LogicalPlan,
    pub(super) input: LogicalPlan,
}

/// A subquery with the outer columns that it refers to.
struct Over {
    plan: LogicalPlan,
    outer: Vec<Column>,
    /// What became of them in the plan.
    keys: Vec<Column>,
    /// The first column.
    value: Expr,
}

impl Attach {
    pub(super) fn new(input: LogicalPlan) -> Self {
        Self { base: input.clone(), input }
    }

    /// The columns that subqueries may refer to.
    pub(super) fn schema(&self) -> &DFSchema {
        self.base.schema()
    }

    /// `(SELECT …)`: the one value, or NULL where there is no row.
    pub(super) fn scalar(&mut self, names: &mut Unnesting, inner: LogicalPlan, outer: Vec<Column>) -> Result<Expr> {
        // Joined where there is nothing to compare, it must have a row.
        let is_single = if outer.is_empty() { exactly_one_row(&inner) } else { at_most_one_row(&inner) };
        let mut over = self.over(names, inner, outer)?;
        if !is_single {
            let (aggregates, value) = single::only(over.value, names.physical, || names.prefix())?;
            over.plan = LogicalPlanBuilder::from(over.plan).aggregate(columns(&over.keys), aggregates)?.build()?;
            over.value = value;
        }
        let value = over.value.clone();
        self.attach(names, &over, vec![value], &[]).map(|mut values| values.remove(0))
    }

    /// `EXISTS (SELECT …)`.
    pub(super) fn exists(
        &mut self,
        names: &mut Unnesting,
        inner: LogicalPlan,
        outer: Vec<Column>,
        negated: bool,
    ) -> Result<Expr> {
        let mut over = self.over(names, without_limit(inner)?, outer)?;
        if over.keys.is_empty() {
            let counted = count(lit(1_i64)).alias(names.prefix());
            let first = LogicalPlanBuilder::from(over.plan).limit(0, Some(1))?;
            over.plan = first.aggregate(Vec::<Expr>::new(), vec![counted])?.build()?;
            let found = column(&over.plan, 0).gt(lit(0_i64));
            let found = self.attach(names, &over, vec![found], &[])?.remove(0);
            return Ok(if negated { not(found) } else { found });
        }
        over.plan = LogicalPlanBuilder::from(over.plan).project(columns(&over.keys))?.distinct()?.build()?;
        let found = self.attach(names, &over, vec![mark()], &[])?.remove(0);
        Ok(if negated { found.is_null() } else { found.is_not_null() })
    }

    /// `x IN (SELECT …)`: NULL where there is no match, but might be one if a NULL were known.
    pub(super) fn membership(
        &mut self,
        names: &mut Unnesting,
        x: Expr,
        inner: LogicalPlan,
        outer: Vec<Column>,
        negated: bool,
    ) -> Result<Expr> {
        let mut over = self.over(names, inner, outer)?;
        let every = over.plan.clone();
        // How many rows there are, and in how many of them the value is not NULL.
        let counts = vec![count(lit(1_i64)).alias(names.prefix()), count(over.value.clone()).alias(names.prefix())];
        over.plan = LogicalPlanBuilder::from(every.clone()).aggregate(columns(&over.keys), counts)?.build()?;
        let counts = vec![column(&over.plan, over.keys.len()), column(&over.plan, over.keys.len() + 1)];
        let counts = self.attach(names, &over, counts, &[])?;
        let [rows, values] = counts.as_slice() else { unreachable!("two were attached") };
        // The values that there are, each once.
        let mut distinct = columns(&over.keys);
        distinct.push(over.value.clone().alias(names.prefix()));
        over.plan = LogicalPlanBuilder::from(every).project(distinct)?.distinct()?.build()?;
        let value = column(&over.plan, over.keys.len());
        let found = self.attach(names, &over, vec![value, mark()], std::slice::from_ref(&x))?.remove(1);
        let is_empty = rows.clone().is_null().or(rows.clone().eq(lit(0_i64)));
        let member = when(found.is_not_null(), lit(true))
            .when(is_empty, lit(false))
            .when(x.is_null().or(values.clone().lt(rows.clone())), Expr::Literal(ScalarValue::Boolean(None), None))
            .otherwise(lit(false))?;
        Ok(if negated { not(member) } else { member })
    }

    /// A subquery over the domain of what it refers to.
    fn over(&self, names: &mut Unnesting, inner: LogicalPlan, outer: Vec<Column>) -> Result<Over> {
        let (plan, keys) = if outer.is_empty() {
            (inner, Vec::new())
        } else {
            let domain = Domain::of(names, &self.base, &outer)?;
            push(names, inner, &domain)?
        };
        let value = column(&plan, 0);
        Ok(Over { plan, outer, keys, value })
    }

    /// Joins values of a plan where its keys are the outer columns, and its first values are equal to others. It has one row at
    /// most for each row of the input; where there is nothing to compare, exactly one.
    fn attach(&mut self, names: &mut Unnesting, over: &Over, values: Vec<Expr>, equal: &[Expr]) -> Result<Vec<Expr>> {
        let prefix = names.prefix();
        let name = |at| format!("{prefix}_{at}");
        let keys = over.keys.iter().cloned().map(Expr::Column);
        let selected = keys.chain(values).enumerate().map(|(at, value)| value.alias(name(at))).collect::<Vec<_>>();
        let all: Vec<Column> = (0..selected.len()).map(|at| Column::new_unqualified(name(at))).collect();
        let (keys, values) = all.split_at(over.keys.len());
        let right = LogicalPlanBuilder::from(over.plan.clone()).project(selected)?.build()?;
        let mut on = same_columns(&self.input, &over.outer, &right, keys)?;
        on.extend(equal.iter().cloned().zip(columns(values)));
        let join_type = if on.is_empty() { JoinType::Inner } else { JoinType::Left };
        self.input = join(self.input.clone(), right, on, None, join_type)?;
        Ok(columns(values))
    }
}

fn columns(columns: &[Column]) -> Vec<Expr> {
    columns.iter().cloned().map(Expr::Column).collect()
}

/// The column of a plan at a position.
fn column(plan: &LogicalPlan, at: usize) -> Expr {
    Expr::Column(Column::from(plan.schema().qualified_field(at)))
}

/// Whether there are rows does not depend on a LIMIT that lets the first one pass.
fn without_limit(plan: LogicalPlan) -> Result<LogicalPlan> {
    if let LogicalPlan::Limit(limit) = &plan
        && matches!(limit.get_skip_type()?, SkipType::Literal(0))
        && matches!(limit.get_fetch_type()?, FetchType::Literal(fetch) if fetch != Some(0))
    {
        return without_limit(limit.input.as_ref().clone());
    }
    Ok(plan)
}
