//! Subqueries in expressions, made joins wherever DataFusion has no right plan for them.
//!
//! ```text
//! SELECT a, (SELECT count(*) FROM s WHERE s.b < t.b) FROM t
//!
//!   t ── LEFT JOIN on the outer columns ── one row for each set of outer columns
//!                                          └─ aggregate by the outer columns
//!                                             └─ s × (SELECT DISTINCT b FROM t), WHERE s.b < b
//! ```
//!
//! That is how T. Neumann and A. Kemper unnest arbitrary queries (BTW 2015): the distinct outer columns, the [`domain`], are
//! joined to the subquery and pushed down until nothing in it refers to the outside any more ([`push`]). `EXISTS` and `IN` become
//! joins with a mark, so that they have a value, with the NULL that SQL gives it, in every place where an expression may stand.
//!
//! DataFusion keeps the subqueries that it plans right and better: [`kept`] tells which.

mod attach;
mod domain;
mod joins;
mod kept;
mod limits;
mod push;
mod single;

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    EmptyRelation, Expr, Filter, Join, JoinType, LogicalPlan, LogicalPlanBuilder, Projection, Subquery, Union, Values,
    lit,
};
use datafusion::optimizer::analyzer::AnalyzerRule;

use crate::Error;
use attach::Attach;
pub(crate) use joins::same;
pub(crate) use single::exactly_one_row;

/// The rule. To be run behind the coercion of types.
#[derive(Debug)]
pub(crate) struct Unnest;

impl AnalyzerRule for Unnest {
    fn name(&self) -> &'static str {
        "unnest"
    }

    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        let mut found = false;
        plan.apply_with_subqueries(|node| {
            found |= matches!(node, LogicalPlan::Subquery(_));
            node.apply_expressions(|expression| {
                found |= has_subquery(expression);
                Ok(TreeNodeRecursion::Continue)
            })?;
            Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
        if !found {
            return Ok(plan);
        }
        check_aggregates(&plan)?;
        let physical = config.optimizer.enable_physical_uncorrelated_scalar_subquery;
        Unnesting { last: 0, physical }.plan(plan)
    }
}

/// One statement's plan on its way.
struct Unnesting {
    /// The last number that was given to a name.
    last: usize,
    /// Whether the physical plan runs a scalar subquery that refers to nothing outside.
    physical: bool,
}

impl Unnesting {
    /// A prefix of names that nothing else in the plan has.
    fn prefix(&mut self) -> String {
        self.last += 1;
        format!("__sub{}", self.last)
    }

    /// Makes joins of the subqueries in a plan, innermost first.
    fn plan(&mut self, plan: LogicalPlan) -> Result<LogicalPlan> {
        let plan = plan.map_children(|input| self.plan(input).map(Transformed::yes))?.data;
        if let LogicalPlan::Join(join) = plan {
            return self.join(join);
        }
        let mut found = false;
        plan.apply_expressions(|expression| {
            found |= has_subquery(expression);
            Ok(TreeNodeRecursion::Continue)
        })?;
        if !found {
            return Ok(plan);
        }
        match plan {
            LogicalPlan::Values(values) => self.values(values),
            LogicalPlan::Explain(_) | LogicalPlan::Analyze(_) => Ok(plan),
            plan => match plan.inputs().as_slice() {
                [_] if !matches!(plan, LogicalPlan::Distinct(_) | LogicalPlan::Limit(_)) => self.node(&plan),
                _ => refuse("a subquery in DISTINCT ON, LIMIT, OFFSET or a table function"),
            },
        }
    }

    /// A node with one input and expressions over it.
    fn node(&mut self, plan: &LogicalPlan) -> Result<LogicalPlan> {
        let names = NamePreserver::new(plan);
        let output = plan.schema().columns();
        let mut input = plan.inputs()[0].clone();
        if refers_outside(plan)? {
            input = limits::defined(input)?;
        }
        let places = kept::Places::of(plan);
        let mut attach = Attach::new(input);
        let mut expressions = Vec::new();
        for expression in plan.expressions() {
            let name = names.save(&expression);
            let replaced = self.replace(expression, &places, &mut attach)?;
            expressions.push(if replaced.transformed { name.restore(replaced.data) } else { replaced.data });
        }
        let plan = plan.with_new_exprs(expressions, vec![attach.input])?;
        if plan.schema().fields().len() == output.len() {
            return Ok(plan);
        }
        // What was joined to the input is not a part of the output.
        LogicalPlanBuilder::from(plan).project(output.into_iter().map(Expr::Column))?.build()
    }

    /// Replaces the subqueries of an expression by columns that are attached to the input.
    fn replace(&mut self, expression: Expr, places: &kept::Places, attach: &mut Attach) -> Result<Transformed<Expr>> {
        expression.transform_down(|expression| {
            if matches!(expression, Expr::SetComparison(_)) {
                return refuse("a comparison with ANY or ALL of a subquery");
            }
            let Some(subquery) = subquery_of(&expression) else { return Ok(Transformed::no(expression)) };
            let inner = self.plan(subquery.clone())?;
            let outer = domain::references(&inner, attach.input.schema())?;
            let keep = kept::is_kept(&expression, &inner, &outer, places, self.physical)?;
            if keep {
                return Ok(Transformed::yes(with_plan(expression, &inner)));
            }
            let replaced = match expression {
                Expr::Exists(Exists { negated, .. }) => attach.exists(self, inner, outer, negated)?,
                Expr::InSubquery(InSubquery { expr, negated, .. }) => {
                    let expr = self.replace(*expr, places, attach)?.data;
                    attach.membership(self, expr, inner, outer, negated)?
                }
                _ => attach.scalar(self, inner, outer)?,
            };
            Ok(Transformed::new(replaced, true, TreeNodeRecursion::Jump))
        })
    }

    /// A join: LATERAL sides, and subqueries in its condition.
    fn join(&mut self, join: Join) -> Result<LogicalPlan> {
        let join = match joins::lateral(self, join)? {
            LogicalPlan::Join(join) => join,
            other => return Ok(other),
        };
        let inside = |filter: &Expr| has_subquery(filter);
        if join.on.iter().any(|(left, right)| inside(left) || inside(right)) {
            return refuse("a subquery in the columns that a join compares");
        }
        let Some(filter) = join.filter.as_ref().filter(|filter| inside(filter)) else {
            return Ok(LogicalPlan::Join(join));
        };
        let predicate = filter.clone();
        if join.join_type != JoinType::Inner {
            return joins::with_conditions_of_sides(self, join, predicate);
        }
        let input = LogicalPlan::Join(Join { filter: None, ..join });
        self.node(&LogicalPlan::Filter(Filter::try_new(predicate, Arc::new(input))?))
    }

    /// VALUES with subqueries: each row is a query of its own.
    fn values(&mut self, values: Values) -> Result<LogicalPlan> {
        let mut rows = Vec::with_capacity(values.values.len());
        for row in values.values {
            let names = values.schema.columns();
            let row = row.into_iter().zip(names).map(|(value, column)| value.alias(column.name)).collect();
            let nothing = EmptyRelation { produce_one_row: true, schema: Arc::new(DFSchema::empty()) };
            let plan = Projection::try_new(row, Arc::new(LogicalPlan::EmptyRelation(nothing)))?;
            rows.push(Arc::new(self.plan(LogicalPlan::Projection(plan))?));
        }
        if rows.len() == 1 {
            return Ok(Arc::unwrap_or_clone(rows.remove(0)));
        }
        Ok(LogicalPlan::Union(Union { inputs: rows, schema: values.schema }))
    }
}

/// The expression over another plan.
fn with_plan(expression: Expr, plan: &LogicalPlan) -> Expr {
    let with = |subquery: &Subquery| Subquery {
        outer_ref_columns: plan.all_out_ref_exprs(),
        subquery: Arc::new(plan.clone()),
        spans: subquery.spans.clone(),
    };
    match expression {
        Expr::ScalarSubquery(subquery) => Expr::ScalarSubquery(with(&subquery)),
        Expr::Exists(Exists { subquery, negated }) => Expr::Exists(Exists { subquery: with(&subquery), negated }),
        Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
            Expr::InSubquery(InSubquery { expr, subquery: with(&subquery), negated })
        }
        other => other,
    }
}

/// The plan of an expression that is a subquery.
fn subquery_of(expression: &Expr) -> Option<&LogicalPlan> {
    match expression {
        Expr::ScalarSubquery(subquery)
        | Expr::Exists(Exists { subquery, .. })
        | Expr::InSubquery(InSubquery { subquery, .. }) => Some(&subquery.subquery),
        _ => None,
    }
}

/// Whether a subquery in a node's expressions refers to what is outside of it.
fn refers_outside(plan: &LogicalPlan) -> Result<bool> {
    let mut refers = false;
    plan.apply_expressions(|expression| {
        expression.apply(|inner| {
            refers |= subquery_of(inner).is_some_and(|subquery| !subquery.all_out_ref_exprs().is_empty());
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(refers)
}

fn has_subquery(expression: &Expr) -> bool {
    let is_subquery = |expression: &Expr| {
        Ok(matches!(
            expression,
            Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_)
        ))
    };
    expression.exists(is_subquery).unwrap_or(true)
}

/// A refusal by name, for DataFusion to carry.
fn refuse<T>(what: &str) -> Result<T> {
    let remedy = "write it as a join, or compute it in a subquery of FROM first";
    Err(Error::unsupported(what, remedy).into())
}

/// Refuses an aggregate in a subquery whose arguments are all of the query around it: it is that query's.
fn check_aggregates(plan: &LogicalPlan) -> Result<()> {
    plan.apply_with_subqueries(|node| {
        let LogicalPlan::Aggregate(aggregate) = node else { return Ok(TreeNodeRecursion::Continue) };
        for call in &aggregate.aggr_expr {
            let (mut outer, mut inner) = (false, false);
            call.apply(|expression| {
                outer |= matches!(expression, Expr::OuterReferenceColumn(..));
                inner |= matches!(expression, Expr::Column(_));
                // A subquery in it: what that takes from outside is the aggregate's own query's, or of one around it.
                if let Some(subquery) = subquery_of(expression) {
                    for reference in subquery.all_out_ref_exprs() {
                        if let Expr::OuterReferenceColumn(_, column) = reference {
                            let is_own = aggregate.input.schema().has_column(&column);
                            inner |= is_own;
                            outer |= !is_own;
                        }
                    }
                }
                Ok(TreeNodeRecursion::Continue)
            })?;
            if outer && !inner {
                return refuse("an aggregate in a subquery over columns of the query around it alone");
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

/// `true`, not NULL: the mark of a row that was found.
fn mark() -> Expr {
    lit(true)
}
