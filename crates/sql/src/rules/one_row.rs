//! A scalar subquery that gives a second row is an error, however it is planned and wherever it runs; and one that gives none is NULL. DataFusion takes its value
//! for one that is never NULL where the column of the subquery is none, so that `IS NULL` is false before anything runs.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::functions_aggregate::expr_fn::count;
use datafusion::functions_aggregate::first_last::first_value;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Subquery, lit};
use datafusion::optimizer::analyzer::AnalyzerRule;
use ishigaki_scan::exact;

use crate::unnest::exactly_one_row;

/// Has each scalar subquery that may give several rows, or none, give one: its only value, of as many as it counts.
#[derive(Debug)]
pub(crate) struct OneRow;

impl AnalyzerRule for OneRow {
    fn name(&self) -> &'static str {
        "one_row"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let in_node = |plan: LogicalPlan| {
            let is_subquery = |expression: &Expr| matches!(expression, Expr::ScalarSubquery(_));
            exact::rewrite_in(plan, is_subquery, |expression, _| expression.transform_up(only))
        };
        plan.transform_up_with_subqueries(in_node).data()
    }
}

fn only(expression: Expr) -> Result<Transformed<Expr>> {
    let Expr::ScalarSubquery(subquery) = expression else { return Ok(Transformed::no(expression)) };
    if !subquery.outer_ref_columns.is_empty() {
        return Ok(Transformed::no(Expr::ScalarSubquery(subquery)));
    }
    // What may be NULL as it is written may turn out to be a value that is not, when constants are computed.
    if exactly_one_row(&subquery.subquery) {
        return Ok(Transformed::no(Expr::ScalarSubquery(subquery)));
    }
    let Some((value, name)) = subquery
        .subquery
        .schema()
        .iter()
        .next()
        .map(|(qualifier, field)| (Expr::Column((qualifier, field).into()), field.name().clone()))
    else {
        return Ok(Transformed::no(Expr::ScalarSubquery(subquery)));
    };
    let (value, rows) = (first_value(value, Vec::new()).alias("__value"), count(lit(1)).alias("__rows"));
    let only =
        ScalarFunction::new_udf(exact::only_row(), vec![Expr::Column("__value".into()), Expr::Column("__rows".into())]);
    let plan = LogicalPlanBuilder::from(Arc::unwrap_or_clone(subquery.subquery))
        .aggregate(Vec::<Expr>::new(), vec![value, rows])?
        .project(vec![Expr::ScalarFunction(only).alias(name)])?
        .build()?;
    let subquery = Subquery { subquery: Arc::new(plan), ..subquery };
    Ok(Transformed::yes(Expr::ScalarSubquery(subquery)))
}
