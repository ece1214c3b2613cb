//! What is added to DataFusion's own rules for plans, where its answers would surprise.
//!
//! - [`Arithmetic`] has operators planned as exact ones; that no other arithmetic is left in a plan, `ishigaki_scan::exact` sees to.
//! - [`LateBranches`] has a CASE compute what it needs alone.
//! - [`ListsOfConstants`] has values that are computed of the row stand beside lists.
//! - [`OuterTypes`] has subqueries take columns of the queries around them as these have them.
//! - [`OneRow`] has a scalar subquery fail on its second row.
//! - [`Recursion`] refuses recursive terms of other types than the first.
//! - [`WrittenGroups`] has rows grouped by what a statement says, [`SetsOfColumns`] grouping sets be of columns.
//! - [`OrdersOfAggregates`] names each expression of an aggregate's order once.
//! - [`Barrier`] keeps conditions above aggregates.
//! - [`UntypedTexts`] has texts of no type be of what stands beside them.
//! - [`TextsAsBytes`] has texts become bytes as `PostgreSQL` reads them, [`BytesAsTexts`] bytes texts, [`TextsAsTimes`] texts times, and
//!   [`TruthsAsLetters`] has BOOLEANs written as there.
//! - [`FloatsStayFloats`] has floating-point numbers compared as such, and [`Intervals`] intervals as there.
//! - [`TruthTests`] has logical plans know of `x IS TRUE` what physical ones make of it.
//! - [`WideFrames`] has bounds of windows computed in types that have room for them.
//! - [`OneZero`] has zeros that are equal ordered and found as such, and [`OneZeroInJoins`] joined.

mod arithmetic;
mod barrier;
mod bytes;
mod cases;
mod floats;
mod frames;
mod groups;
mod intervals;
mod members;
mod moments;
mod one_row;
mod orders;
mod outer;
mod recursion;
mod sets;
mod truth_tests;
mod truths;
mod untyped;
mod written_bytes;
mod zeros;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::{Expr, LogicalPlan};
use ishigaki_scan::exact;

pub(crate) use arithmetic::Arithmetic;
pub(crate) use barrier::Barrier;
pub(crate) use bytes::TextsAsBytes;
pub(crate) use cases::LateBranches;
pub(crate) use floats::FloatsStayFloats;
pub(crate) use frames::WideFrames;
pub(crate) use groups::WrittenGroups;
pub(crate) use intervals::Intervals;
pub(crate) use members::ListsOfConstants;
pub(crate) use moments::TextsAsTimes;
pub(crate) use one_row::OneRow;
pub(crate) use orders::OrdersOfAggregates;
pub(crate) use outer::OuterTypes;
pub(crate) use recursion::Recursion;
pub(crate) use sets::SetsOfColumns;
pub(crate) use truth_tests::TruthTests;
pub(crate) use truths::TruthsAsLetters;
pub(crate) use untyped::UntypedTexts;
pub(crate) use written_bytes::BytesAsTexts;
pub(crate) use zeros::{OneZero, OneZeroInJoins};

/// Whether a plan, or a subquery in it, has an operator.
pub(crate) fn has_node(plan: &LogicalPlan, is: &dyn Fn(&LogicalPlan) -> Result<bool>) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        found = found || is(node)?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// Whether a plan, or a subquery in it, reads a table of this name.
pub(crate) fn reads(plan: &LogicalPlan, table: &str) -> Result<bool> {
    has_node(plan, &|node| Ok(matches!(node, LogicalPlan::TableScan(scan) if scan.table_name.table() == table)))
}

/// Rewrites the expressions of all nodes of a plan, and of its subqueries, that are or have within them one of a form. They keep
/// their names. Each is given with the columns that it may refer to.
pub(crate) fn in_expressions(
    plan: LogicalPlan,
    is: impl Fn(&Expr) -> bool,
    rewrite: impl Fn(Expr, &DFSchema) -> Result<Transformed<Expr>>,
) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(|plan| exact::rewrite_in(plan, &is, &rewrite)).data()
}
