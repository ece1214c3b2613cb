//! Each expression of an aggregate's order is named once: what is the same in two words is the same once it is simplified, and
//! DataFusion's aggregates of a first and a last value do not expect to be given one of them twice.

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::expr::{AggregateFunction, Sort};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use ishigaki_scan::exact;

use crate::Error;
use crate::duplicates::drop_duplicates;

/// Drops the later ones, which order nothing. To be run when expressions have been simplified.
#[derive(Debug)]
pub(crate) struct OrdersOfAggregates;

impl OptimizerRule for OrdersOfAggregates {
    fn name(&self) -> &'static str {
        "orders_of_aggregates"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        match plan {
            LogicalPlan::Aggregate(aggregate) if is_at_odds(&aggregate.aggr_expr)? => Err(Error::unsupported(
                "string_agg(DISTINCT … ORDER BY …) beside an aggregate of another order",
                "compute each in a subquery of its own",
            )
            .into()),
            LogicalPlan::Aggregate(_) => exact::rewrite_in(plan, has_several_orders, |expression, _| {
                expression.transform_up(|inner| Ok(once(inner)))
            }),
            other => Ok(Transformed::no(other)),
        }
    }
}

/// Whether there is a `string_agg` of different values in an order, and another aggregate in another one, whose order DataFusion would give both.
fn is_at_odds(aggregates: &[Expr]) -> Result<bool> {
    let mut orders: Vec<Vec<Sort>> = Vec::new();
    let mut is_distinct = false;
    for expression in aggregates {
        expression.apply(|inner| {
            if let Expr::AggregateFunction(AggregateFunction { func, params }) = inner
                && !params.order_by.is_empty()
            {
                is_distinct |= params.distinct && func.name() == "string_agg";
                if !orders.contains(&params.order_by) {
                    orders.push(params.order_by.clone());
                }
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
    }
    Ok(is_distinct && orders.len() > 1)
}

fn has_several_orders(expression: &Expr) -> bool {
    matches!(expression, Expr::AggregateFunction(aggregate) if aggregate.params.order_by.len() > 1)
}

fn once(expression: Expr) -> Transformed<Expr> {
    let Expr::AggregateFunction(AggregateFunction { func, mut params }) = expression else {
        return Transformed::no(expression);
    };
    let order_by = &mut params.order_by;
    let before = order_by.len();
    drop_duplicates(order_by, |order| without_names(&order.expr));
    let is_changed = order_by.len() < before;
    let aggregate = Expr::AggregateFunction(AggregateFunction { func, params });
    if is_changed { Transformed::yes(aggregate) } else { Transformed::no(aggregate) }
}

/// What is simplified keeps its name by an alias.
fn without_names(mut expression: &Expr) -> &Expr {
    while let Expr::Alias(alias) = expression {
        expression = &alias.expr;
    }
    expression
}
