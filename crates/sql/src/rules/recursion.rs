//! A recursive query has the types of its first term. DataFusion casts the rows of the recursive term to them, so that
//! `SELECT 1 UNION ALL SELECT x + 0.5 …` counts by ones. `PostgreSQL` refuses terms whose common type is another one, and so does this rule.
//!
//! Nor does `PostgreSQL` let a recursive term aggregate the rows that it goes on from.
//!
//! The casts are the planner's where they stand alone in the recursive term's projection; those that a query has there are
//! [marked](crate::statement) before it is planned.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, Projection, RecursiveQuery};
use datafusion::optimizer::analyzer::AnalyzerRule;

use super::{has_node, reads};
use crate::Error;

/// The rule. To be run on the plan as it comes from the planner.
#[derive(Debug)]
pub(crate) struct Recursion;

impl AnalyzerRule for Recursion {
    fn name(&self) -> &'static str {
        "recursion"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.apply_with_subqueries(|node| {
            if let LogicalPlan::RecursiveQuery(query) = node {
                check(query)?;
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(plan)
    }
}

fn check(query: &RecursiveQuery) -> Result<()> {
    if aggregates(&query.recursive_term, &query.name)? {
        let remedy = "compute the aggregate outside of the recursive query, over its rows";
        return Err(Error::unsupported("an aggregate over the rows of a recursive term", remedy).into());
    }
    let LogicalPlan::Projection(Projection { expr, input, .. }) = query.recursive_term.as_ref() else { return Ok(()) };
    for (number, expression) in expr.iter().enumerate() {
        let Expr::Cast(Cast { expr, field }) = expression.clone().unalias() else { continue };
        let (from, to) = (expr.get_type(input.schema())?, field.data_type());
        if !keeps(&from, to) {
            let what = format!(
                "WITH RECURSIVE whose column {} is {to} in the first term, and {from} in the recursive one",
                number + 1
            );
            let remedy = "cast the column of one term to the type of the other";
            return Err(Error::unsupported(what, remedy).into());
        }
    }
    Ok(())
}

/// Whether rows of the recursive query itself are put together to one: the term then has a row for ever.
fn aggregates(term: &LogicalPlan, name: &str) -> Result<bool> {
    has_node(term, &|node| match node {
        LogicalPlan::Aggregate(aggregate) if !aggregate.aggr_expr.is_empty() => reads(&aggregate.input, name),
        _ => Ok(false),
    })
}

/// Whether a cast gives the same value, or an error.
fn keeps(from: &DataType, to: &DataType) -> bool {
    use DataType::{Date32, Decimal128, Decimal256, Float64, Null, Timestamp};
    match (from, to) {
        (Null, _) | (Date32, Timestamp(..)) => true,
        (from, to) if from.is_string() || to.is_string() => from.is_string() && to.is_string(),
        // What does not fit is an error.
        (from, to) if from.is_integer() => to.is_numeric(),
        (Decimal128(..) | Decimal256(..), Float64) => true,
        (Decimal128(_, from) | Decimal256(_, from), Decimal128(_, to) | Decimal256(_, to)) => from <= to,
        (from, to) if from.is_floating() && *to == Float64 => true,
        (Timestamp(..), Timestamp(..)) => true,
        (from, to) => from == to,
    }
}
