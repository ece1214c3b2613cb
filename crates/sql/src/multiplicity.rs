//! `EXCEPT ALL` and `INTERSECT ALL`, which count how often a row is there.
//!
//! DataFusion plans both as a join that takes or leaves a left row by whether there is an equal one on the right, however many
//! there are. With equal rows numbered on both sides, the n-th of the left meets the n-th of the right, and the count is right.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, NullEquality, Result};
use datafusion::functions_window::row_number::row_number_udwf;
use datafusion::logical_expr::expr::WindowFunction;
use datafusion::logical_expr::{
    Distinct, Expr, ExprFunctionExt, Join, JoinType, LogicalPlan, LogicalPlanBuilder, Window,
};
use datafusion::optimizer::analyzer::AnalyzerRule;

/// The rule. To be run behind the coercion of types, while no other rule has made such joins.
#[derive(Debug)]
pub(crate) struct CountRows;

impl AnalyzerRule for CountRows {
    fn name(&self) -> &'static str {
        "count_rows"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let mut last = 0;
        let numbered = plan.transform_up_with_subqueries(|plan| match plan {
            LogicalPlan::Join(join) if forgets(&join) => counted(join, &mut last).map(Transformed::yes),
            other => Ok(Transformed::no(other)),
        })?;
        Ok(numbered.data)
    }
}

/// Whether a join is a set operation with ALL. Of one without, the left side is distinct, so that there is nothing to count.
fn forgets(join: &Join) -> bool {
    matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti)
        && join.null_equality == NullEquality::NullEqualsNull
        && join.filter.is_none()
        && join.on.len() == join.left.schema().fields().len()
        && !matches!(join.left.as_ref(), LogicalPlan::Distinct(Distinct::All(_)))
}

fn counted(join: Join, last: &mut usize) -> Result<LogicalPlan> {
    let own = join.left.schema().columns();
    let (lefts, rights): (Vec<Expr>, Vec<Expr>) = join.on.iter().cloned().unzip();
    let (left, left_number) = numbered(join.left, lefts, last)?;
    let (right, right_number) = numbered(join.right, rights, last)?;
    let mut on = join.on;
    on.push((left_number, right_number));
    let join = Join::try_new(
        Arc::new(left),
        Arc::new(right),
        on,
        None,
        join.join_type,
        join.join_constraint,
        join.null_equality,
        join.null_aware,
    )?;
    LogicalPlanBuilder::from(LogicalPlan::Join(join)).project(own.into_iter().map(Expr::Column))?.build()
}

/// A plan whose equal rows are numbered.
fn numbered(plan: Arc<LogicalPlan>, columns: Vec<Expr>, last: &mut usize) -> Result<(LogicalPlan, Expr)> {
    *last += 1;
    let name = format!("__count{last}");
    let number =
        Expr::from(WindowFunction::new(row_number_udwf(), Vec::new())).partition_by(columns).build()?.alias(&name);
    let plan = LogicalPlan::Window(Window::try_new(vec![number], plan)?);
    Ok((plan, Expr::Column(Column::new_unqualified(name))))
}
