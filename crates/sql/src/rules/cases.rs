//! A CASE computes the branches that it needs alone, also one of BOOLEANs. DataFusion makes AND and OR of a short one, which compute both of their sides; it does
//! not where the CASE compares something, so that is what such a one does: `CASE true WHEN condition THEN …`.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::{BinaryExpr, Case, Expr, ExprSchemable, LogicalPlan, Operator, lit};
use datafusion::optimizer::analyzer::AnalyzerRule;

use super::in_expressions;

/// The rule. To be run behind the coercion of types.
#[derive(Debug)]
pub(crate) struct LateBranches;

impl AnalyzerRule for LateBranches {
    fn name(&self) -> &'static str {
        "late_branches"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let is_case = |expression: &Expr| matches!(expression, Expr::Case(Case { expr: None, .. }));
        in_expressions(plan, is_case, |expression, schema| expression.transform_up(|inner| late(inner, schema)))
    }
}

fn late(expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::Case(case @ Case { expr: None, .. }) = &expression else { return Ok(Transformed::no(expression)) };
    let is_truth = |of: &Expr| of.get_type(schema).is_ok_and(|of| of == DataType::Boolean);
    if !case.when_then_expr.first().is_some_and(|(_, then)| is_truth(then)) {
        return Ok(Transformed::no(expression));
    }
    let mut fails = false;
    for branch in case.when_then_expr.iter().flat_map(|(when, then)| [when, then]).chain(&case.else_expr) {
        fails |= branch.exists(|inner| Ok(may_fail(inner)))?;
    }
    if !fails {
        return Ok(Transformed::no(expression));
    }
    let late = Case { expr: Some(Box::new(lit(true))), ..case.clone() };
    Ok(Transformed::yes(Expr::Case(late)))
}

/// Whether an expression may be an error for some values, and not only what is in it.
fn may_fail(expression: &Expr) -> bool {
    match expression {
        Expr::BinaryExpr(BinaryExpr { op, .. }) => {
            matches!(op, Operator::Plus | Operator::Minus | Operator::Multiply | Operator::Divide | Operator::Modulo)
        }
        Expr::Cast(_) | Expr::Negative(_) | Expr::ScalarFunction(_) => true,
        _ => false,
    }
}
