//! The two zeros of floating-point numbers are one where rows are ordered, parted and looked up, as `=` has it.
//!
//! DataFusion compares zeros as equal in comparisons, groups and hash joins. It orders them by their bits, and finds values of an IN
//! list and of `CASE x WHEN` in a table of bits. There, [`exact::one_zero`] of a number stands for it.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{
    AggregateFunction, Case, Cast, InList, ScalarFunction, Sort, WindowFunction, WindowFunctionParams,
};
use datafusion::logical_expr::{Expr, Join, LogicalPlan};
use datafusion::optimizer::analyzer::AnalyzerRule;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use ishigaki_scan::exact;

/// The rule. To be run behind the coercion of types.
#[derive(Debug)]
pub(crate) struct OneZero;

impl AnalyzerRule for OneZero {
    fn name(&self) -> &'static str {
        "one_zero"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(in_node).data()
    }
}

fn in_node(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let sorts = matches!(plan, LogicalPlan::Sort(_));
    let is_looked_up = |expression: &Expr| {
        matches!(
            expression,
            Expr::InList(_)
                | Expr::Case(Case { expr: Some(_), .. })
                | Expr::AggregateFunction(_)
                | Expr::WindowFunction(_)
        )
    };
    exact::rewrite_in(
        plan,
        |expression| sorts || is_looked_up(expression),
        |expression, schema| {
            let changed = expression.transform_up(|inner| Ok(looked_up(inner, schema)))?;
            if sorts && is_float(&changed.data, schema) {
                return Ok(Transformed::yes(one(changed.data, schema)));
            }
            Ok(changed)
        },
    )
}

fn looked_up(expression: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let made = match expression {
        Expr::InList(InList { expr, list, negated })
            if is_float(&expr, schema) && list.iter().any(|item| !is_plain(item)) =>
        {
            let list = list.into_iter().map(|item| one(item, schema)).collect();
            Expr::InList(InList { expr: Box::new(one(*expr, schema)), list, negated })
        }
        Expr::Case(Case { expr: Some(of), when_then_expr, else_expr })
            if is_float(&of, schema) && when_then_expr.iter().any(|(when, _)| !is_plain(when)) =>
        {
            let when_then_expr =
                when_then_expr.into_iter().map(|(when, then)| (Box::new(one(*when, schema)), then)).collect();
            Expr::Case(Case { expr: Some(Box::new(one(*of, schema))), when_then_expr, else_expr })
        }
        Expr::AggregateFunction(AggregateFunction { func, mut params })
            if params.distinct && params.args.iter().any(|arg| is_float(arg, schema)) =>
        {
            params.args = params.args.into_iter().map(|arg| one(arg, schema)).collect();
            params.order_by = ordered(params.order_by, schema);
            Expr::AggregateFunction(AggregateFunction { func, params })
        }
        Expr::AggregateFunction(AggregateFunction { func, mut params })
            if !params.distinct && sorts(&params.order_by, schema) && func.name() != "mode" =>
        {
            params.order_by = ordered(params.order_by, schema);
            Expr::AggregateFunction(AggregateFunction { func, params })
        }
        Expr::WindowFunction(window)
            if sorts(&window.params.order_by, schema)
                || window.params.partition_by.iter().any(|by| is_float(by, schema)) =>
        {
            let WindowFunction { fun, params } = *window;
            let partition_by = params.partition_by.into_iter().map(|by| one(by, schema)).collect();
            let order_by = ordered(params.order_by, schema);
            let params = WindowFunctionParams { partition_by, order_by, ..params };
            Expr::WindowFunction(Box::new(WindowFunction { fun, params }))
        }
        other => return Transformed::no(other),
    };
    Transformed::yes(made)
}

fn sorts(orders: &[Sort], schema: &DFSchema) -> bool {
    orders.iter().any(|order| is_float(&order.expr, schema))
}

fn ordered(orders: Vec<Sort>, schema: &DFSchema) -> Vec<Sort> {
    orders.into_iter().map(|order| Sort { expr: one(order.expr, schema), ..order }).collect()
}

fn is_float(expression: &Expr, schema: &DFSchema) -> bool {
    exact::type_of(expression, schema).is_some_and(|of| of.is_floating())
}

/// Whether a number is written down, and its bits are those of all that are equal to it.
fn is_plain(expression: &Expr) -> bool {
    let value = match expression {
        Expr::Literal(value, _) => value.cast_to(&DataType::Float64),
        Expr::Cast(Cast { expr, .. }) => match expr.as_ref() {
            Expr::Literal(value, _) if !value.data_type().is_string() => value.cast_to(&DataType::Float64),
            _ => return false,
        },
        _ => return false,
    };
    match value {
        Ok(ScalarValue::Float64(Some(number))) => number != 0.0 && !number.is_nan(),
        Ok(value) => value.is_null(),
        Err(_) => false,
    }
}

/// A floating-point number that stands for all that are equal to it; others as they are.
fn one(expression: Expr, schema: &DFSchema) -> Expr {
    if is_one(&expression) || !is_float(&expression, schema) {
        return expression;
    }
    match expression {
        Expr::Literal(ScalarValue::Float64(Some(0.0)), of) => Expr::Literal(ScalarValue::Float64(Some(0.0)), of),
        Expr::Literal(ScalarValue::Float32(Some(0.0)), of) => Expr::Literal(ScalarValue::Float32(Some(0.0)), of),
        plain if is_plain(&plain) => plain,
        other => exact::one_zero().call(vec![other]),
    }
}

fn is_one(expression: &Expr) -> bool {
    matches!(expression, Expr::ScalarFunction(ScalarFunction { func, .. }) if *func == exact::one_zero())
}

/// Joins of sorted rows find equal numbers by their order: their columns get one zero, too. A hash join has it.
#[derive(Debug)]
pub(crate) struct OneZeroInJoins;

impl OptimizerRule for OneZeroInJoins {
    fn name(&self) -> &'static str {
        "one_zero_in_joins"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Join(join) = plan else { return Ok(Transformed::no(plan)) };
        let (left, right) = (join.left.schema().as_ref(), join.right.schema().as_ref());
        let is_open = |side: &Expr, schema: &DFSchema| !is_one(side) && is_float(side, schema);
        if config.options().optimizer.prefer_hash_join
            || !join.on.iter().any(|(of, other)| is_open(of, left) || is_open(other, right))
        {
            return Ok(Transformed::no(LogicalPlan::Join(join)));
        }
        let on = join.on.iter().map(|(of, other)| (one(of.clone(), left), one(other.clone(), right))).collect();
        Ok(Transformed::yes(LogicalPlan::Join(Join { on, ..join })))
    }
}
