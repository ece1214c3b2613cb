//! Each expression of an aggregate's order is named once: what is the same in two words is the same once it is simplified, and
//! DataFusion's aggregates of a first and a last value do not expect to be given one of them twice.

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use ishigaki_scan::exact;

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
            LogicalPlan::Aggregate(_) => exact::rewrite_in(plan, has_several_orders, |expression, _| {
                expression.transform_up(|inner| Ok(once(inner)))
            }),
            other => Ok(Transformed::no(other)),
        }
    }
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
