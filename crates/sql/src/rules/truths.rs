//! `concat(true)` is `t`: functions of any values write a BOOLEAN with a letter, where a cast to a text writes the word.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, lit, when};
use datafusion::optimizer::analyzer::AnalyzerRule;

use super::in_expressions;

/// The rule. To be run before the coercion of types, which casts to texts.
#[derive(Debug)]
pub(crate) struct TruthsAsLetters;

impl AnalyzerRule for TruthsAsLetters {
    fn name(&self) -> &'static str {
        "truths_as_letters"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let is_call = |expression: &Expr| matches!(expression, Expr::ScalarFunction(_));
        in_expressions(plan, is_call, |expression, schema| expression.transform_up(|inner| written(inner, schema)))
    }
}

fn written(expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::ScalarFunction(ScalarFunction { func, args }) = expression else {
        return Ok(Transformed::no(expression));
    };
    let is_truth = |arg: &Expr| arg.get_type(schema).is_ok_and(|of| of == DataType::Boolean);
    if !matches!(func.name(), "concat" | "concat_ws") || !args.iter().any(is_truth) {
        return Ok(Transformed::no(Expr::ScalarFunction(ScalarFunction { func, args })));
    }
    let letter = |arg: Expr| {
        if is_truth(&arg) {
            when(arg.clone().is_true(), lit("t")).when(arg.is_false(), lit("f")).end()
        } else {
            Ok(arg)
        }
    };
    let args = args.into_iter().map(letter).collect::<Result<_>>()?;
    Ok(Transformed::yes(Expr::ScalarFunction(ScalarFunction { func, args })))
}
