//! Intervals are compared as `PostgreSQL` compares them: a month is 30 days, and a day 24 hours.
//!
//! Comparisons and orders are of the number that [`exact::span`] gives. Where rows are put together by equal intervals, or one of
//! several equal ones is taken, such a number can not stand for them: these are refused by name.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::{
    AggregateFunction, Cast, InList, InSubquery, ScalarFunction, Sort, WindowFunction,
};
use datafusion::logical_expr::utils::grouping_set_to_exprlist;
use datafusion::logical_expr::{Between, BinaryExpr, Distinct, Expr, ExprSchemable, LogicalPlan, Operator};
use datafusion::optimizer::analyzer::AnalyzerRule;
use ishigaki_scan::exact;

use crate::Error;

/// The rule. To be run behind the coercion of types, and before subqueries become joins.
#[derive(Debug)]
pub(crate) struct Intervals;

impl AnalyzerRule for Intervals {
    fn name(&self) -> &'static str {
        "intervals"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        if !has_intervals(&plan)? {
            return Ok(plan);
        }
        plan.transform_up_with_subqueries(in_node).data()
    }
}

/// Whether there is one anywhere. They come from literals, casts and functions, never from tables.
fn has_intervals(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        found |= node.schema().fields().iter().any(|field| is_interval_type(field.data_type()));
        if !found {
            node.apply_expressions(|expression| {
                found |= expression.exists(|inner| {
                    Ok(match inner {
                        Expr::Literal(value, _) => is_interval_type(&value.data_type()),
                        Expr::Cast(Cast { field, .. }) => is_interval_type(field.data_type()),
                        // The difference of two times is one, too.
                        Expr::BinaryExpr(BinaryExpr { op: Operator::Minus, .. }) => true,
                        Expr::ScalarFunction(call) => call.func.name() == "age",
                        _ => false,
                    })
                })?;
                Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
            })?;
        }
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

fn in_node(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    check(&plan)?;
    let sorts = matches!(plan, LogicalPlan::Sort(_));
    exact::rewrite_in(
        plan,
        |expression| sorts || may_compare(expression),
        |expression, schema| {
            let changed = expression.transform_up(|inner| compared(inner, schema))?;
            if sorts && is_interval(&changed.data, schema) {
                return Ok(Transformed::yes(span(changed.data)));
            }
            Ok(changed)
        },
    )
}

/// Whether an expression is of one of the forms that [`compared`] looks at.
fn may_compare(expression: &Expr) -> bool {
    matches!(
        expression,
        Expr::BinaryExpr(_)
            | Expr::Between(_)
            | Expr::InList(_)
            | Expr::InSubquery(_)
            | Expr::Case(_)
            | Expr::ScalarFunction(_)
            | Expr::AggregateFunction(_)
            | Expr::WindowFunction(_)
    )
}

/// Refuses nodes that put equal intervals together.
fn check(plan: &LogicalPlan) -> Result<()> {
    let is = |expression: &Expr, of: &LogicalPlan| is_interval(expression, of.schema());
    let shows = |of: &LogicalPlan| of.schema().fields().iter().any(|field| is_interval_type(field.data_type()));
    match plan {
        LogicalPlan::Aggregate(aggregate) => {
            let groups = grouping_set_to_exprlist(&aggregate.group_expr)?;
            if groups.into_iter().any(|group| is(group, &aggregate.input)) {
                return refuse("GROUP BY or DISTINCT of intervals");
            }
        }
        LogicalPlan::Distinct(Distinct::All(input)) if shows(input) => {
            return refuse("DISTINCT, UNION, INTERSECT or EXCEPT of intervals");
        }
        LogicalPlan::Distinct(Distinct::On(on)) if on.on_expr.iter().any(|by| is(by, &on.input)) => {
            return refuse("DISTINCT ON of intervals");
        }
        LogicalPlan::RecursiveQuery(query) if query.is_distinct && shows(&query.static_term) => {
            return refuse("UNION of intervals in WITH RECURSIVE");
        }
        LogicalPlan::Join(join) if join.on.iter().any(|(left, _)| is(left, &join.left)) => {
            return refuse("a join by intervals, INTERSECT or EXCEPT of them");
        }
        _ => {}
    }
    Ok(())
}

/// An expression that compares its intervals by a number.
fn compared(expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let is = |expression: &Expr| is_interval(expression, schema);
    let made = match expression {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if compares(op) && (is(&left) || is(&right)) => {
            Expr::BinaryExpr(BinaryExpr { left: Box::new(span(*left)), op, right: Box::new(span(*right)) })
        }
        Expr::Between(Between { expr, negated, low, high }) if is(&expr) => {
            let [expr, low, high] = [expr, low, high].map(|inner| Box::new(span(*inner)));
            Expr::Between(Between { expr, negated, low, high })
        }
        Expr::InList(InList { expr, list, negated }) if is(&expr) => {
            let list = list.into_iter().map(span).collect();
            Expr::InList(InList { expr: Box::new(span(*expr)), list, negated })
        }
        Expr::InSubquery(InSubquery { ref expr, .. }) if is(expr) => return refuse("intervals IN a subquery"),
        Expr::Case(ref case) if case.expr.as_ref().is_some_and(|of| is(of)) => {
            return refuse("CASE of an interval WHEN another one");
        }
        Expr::ScalarFunction(ScalarFunction { ref func, ref args })
            if matches!(func.name(), "greatest" | "least" | "nullif") && args.iter().any(is) =>
        {
            return refuse(&format!("{} of intervals", func.name()));
        }
        Expr::AggregateFunction(AggregateFunction { func, mut params }) => {
            let takes = params.distinct || ["min", "max", "mode", "median"].contains(&func.name());
            if takes
                && (params.args.iter().any(is)
                    || func.name() == "mode" && params.order_by.iter().any(|by| is(&by.expr)))
            {
                return refuse(&format!("{}, or DISTINCT in it, of intervals", func.name()));
            }
            params.order_by = ordered(params.order_by, schema);
            Expr::AggregateFunction(AggregateFunction { func, params })
        }
        Expr::WindowFunction(window) => {
            let WindowFunction { fun, mut params } = *window;
            if ["min", "max"].contains(&fun.name()) && params.args.iter().any(is) {
                return refuse(&format!("{} of intervals", fun.name()));
            }
            params.order_by = ordered(params.order_by, schema);
            params.partition_by =
                params.partition_by.into_iter().map(|by| if is(&by) { span(by) } else { by }).collect();
            Expr::WindowFunction(Box::new(WindowFunction { fun, params }))
        }
        other => return Ok(Transformed::no(other)),
    };
    Ok(Transformed::yes(made))
}

fn ordered(orders: Vec<Sort>, schema: &DFSchema) -> Vec<Sort> {
    let by = |order: Sort| Sort {
        expr: if is_interval(&order.expr, schema) { span(order.expr) } else { order.expr },
        ..order
    };
    orders.into_iter().map(by).collect()
}

fn compares(operator: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(operator, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

fn span(interval: Expr) -> Expr {
    exact::span().call(vec![interval])
}

fn is_interval(expression: &Expr, schema: &DFSchema) -> bool {
    expression.get_type(schema).is_ok_and(|found| is_interval_type(&found))
}

fn is_interval_type(of: &DataType) -> bool {
    matches!(of, DataType::Interval(_) | DataType::Duration(_))
}

fn refuse<T>(what: &str) -> Result<T> {
    let remedy = "take EXTRACT(EPOCH FROM x) of each, which is a number";
    Err(Error::unsupported(what, remedy).into())
}
