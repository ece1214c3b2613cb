//! The two halves of an aggregate: partial results, wherever they are made, and what makes one result of them.

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};

/// Whether it takes rows, so that there are partial results of it.
pub(crate) fn splits(mode: AggregateMode) -> bool {
    matches!(mode, AggregateMode::Partial | AggregateMode::Single | AggregateMode::SinglePartitioned)
}

/// What makes partial results of rows.
pub(crate) fn partial(aggregate: &AggregateExec, rows: Arc<dyn ExecutionPlan>) -> Result<AggregateExec> {
    AggregateExec::try_new(
        AggregateMode::Partial,
        aggregate.group_expr().clone(),
        aggregate.aggr_expr().to_vec(),
        aggregate.filter_expr().to_vec(),
        rows,
        aggregate.input_schema(),
    )
}

/// What makes one result of partial ones, which are in one partition.
pub(crate) fn whole(aggregate: &AggregateExec, partial: Arc<dyn ExecutionPlan>) -> Result<AggregateExec> {
    AggregateExec::try_new(
        AggregateMode::Final,
        aggregate.group_expr().as_final(),
        aggregate.aggr_expr().to_vec(),
        aggregate.filter_expr().to_vec(),
        partial,
        aggregate.input_schema(),
    )
}
