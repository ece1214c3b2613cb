//! Where formulas come from.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::expr::ScalarFunction;

use super::{Formula, Step};
use crate::exact::{is_negation, operator, round_even};

/// How deep functions of exact numbers are left in one another.
const DEEPEST: usize = 8;

/// The expression with one function in the place of operators that are nested more deeply.
pub(in crate::exact) fn collapsed(expression: Expr) -> Result<Transformed<Expr>> {
    expression.transform_down(|expression| {
        if !is_nested_deeply(&expression) {
            return Ok(Transformed::no(expression));
        }
        let (mut steps, mut arguments) = (Vec::new(), Vec::new());
        flatten(&expression, &mut steps, &mut arguments);
        Ok(match Formula::new(steps) {
            Some(formula) => {
                Transformed::yes(Expr::ScalarFunction(ScalarFunction::new_udf(formula.function(), arguments)))
            }
            None => Transformed::no(expression),
        })
    })
}

/// What an expression is a step over, and nothing of an expression that is none.
fn step(expression: &Expr) -> Option<(Step, &[Expr])> {
    match expression {
        Expr::ScalarFunction(call) if is_step(call) => Some((Step::Call(Arc::clone(&call.func)), &call.args)),
        // What is around no step is an argument with its cast.
        Expr::Cast(cast) if is_carried(cast.field.data_type()) => match cast.expr.as_ref() {
            Expr::ScalarFunction(call) if is_step(call) => {
                Some((Step::Cast(cast.field.data_type().clone()), std::slice::from_ref(cast.expr.as_ref())))
            }
            Expr::Cast(inner) if step(cast.expr.as_ref()).is_some() && is_carried(inner.field.data_type()) => {
                Some((Step::Cast(cast.field.data_type().clone()), std::slice::from_ref(cast.expr.as_ref())))
            }
            _ => None,
        },
        _ => None,
    }
}

fn is_step(call: &ScalarFunction) -> bool {
    let arguments = if operator(&call.func).is_some() { 2 } else { 1 };
    let known = arguments == 2 || is_negation(&call.func) || call.func == round_even();
    known && call.args.len() == arguments
}

/// Whether the written form of a formula has a word for that type.
pub(super) fn is_carried(data_type: &DataType) -> bool {
    use DataType::{Date32, Decimal128, Float32, Float64, Int16, Int32, Int64};
    matches!(data_type, Int16 | Int32 | Int64 | Decimal128(..) | Float32 | Float64 | Date32)
}

fn is_nested_deeply(expression: &Expr) -> bool {
    let mut level = vec![expression];
    for _ in 0..=DEEPEST {
        level = level.into_iter().filter_map(step).flat_map(|(_, arguments)| arguments).collect();
    }
    level.into_iter().any(|expression| step(expression).is_some())
}

/// The arguments before the step over them.
fn flatten(expression: &Expr, steps: &mut Vec<Step>, arguments: &mut Vec<Expr>) {
    let mut rest = vec![(expression, false)];
    while let Some((expression, done)) = rest.pop() {
        match step(expression) {
            Some((step, _)) if done => steps.push(step),
            Some((_, below)) => {
                rest.push((expression, true));
                rest.extend(below.iter().rev().map(|expression| (expression, false)));
            }
            None => {
                steps.push(Step::Argument(arguments.len()));
                arguments.push(expression.clone());
            }
        }
    }
}
