//! A condition that a scan applies itself.

use std::sync::Arc;

use datafusion::arrow::array::{Array, AsArray, BooleanArray, RecordBatchOptions};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::compute::prep_null_mask_filter;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{Expr, Operator, TableProviderFilterPushDown};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column};
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns, split_conjunction};

/// Whether a scan can answer a filter: from columns of a row alone, and always the same for the same row.
pub(super) fn support(filter: &Expr) -> TableProviderFilterPushDown {
    let mut alone = !filter.is_volatile();
    let visited = filter.apply(|node| {
        alone &= !matches!(
            node,
            Expr::ScalarSubquery(_)
                | Expr::InSubquery(_)
                | Expr::Exists(_)
                | Expr::SetComparison(_)
                | Expr::OuterReferenceColumn(..)
                | Expr::Placeholder(_)
        );
        Ok(if alone { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    });
    if alone && visited.is_ok() { TableProviderFilterPushDown::Exact } else { TableProviderFilterPushDown::Unsupported }
}

/// A condition on rows of a table.
#[derive(Debug)]
pub(crate) struct Filter {
    /// Over the table's columns.
    expression: Arc<dyn PhysicalExpr>,
    /// The columns that it looks at, ascending.
    columns: Vec<usize>,
    /// Over these columns alone.
    narrow: Arc<dyn PhysicalExpr>,
    schema: SchemaRef,
}

impl Filter {
    pub(crate) fn new(expression: Arc<dyn PhysicalExpr>, table: &SchemaRef) -> Result<Self> {
        let mut columns: Vec<usize> = collect_columns(&expression).iter().map(Column::index).collect();
        columns.sort_unstable();
        let schema = Arc::new(table.project(&columns)?);
        let narrow = reassign_expr_columns(Arc::clone(&expression), &schema)?;
        Ok(Self { expression, columns, narrow, schema })
    }

    pub(crate) fn expression(&self) -> &Arc<dyn PhysicalExpr> {
        &self.expression
    }

    pub(crate) fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// Which rows pass, of a batch of the columns that it looks at.
    pub(super) fn passing(&self, batch: &RecordBatch) -> Result<BooleanBuffer> {
        let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), batch.columns().to_vec(), &rows)?;
        let answers = self.narrow.evaluate(&batch)?.into_array(batch.num_rows())?;
        let answers = answers.as_boolean_opt().ok_or_else(|| {
            DataFusionError::Internal(format!("a filter answers with {}, not with true or false", answers.data_type()))
        })?;
        Ok(trues(answers))
    }

    /// Which share of rows may pass, guessed from its form alone.
    pub(super) fn selectivity(&self) -> f64 {
        split_conjunction(&self.expression).into_iter().map(guess).product::<f64>().max(1e-4)
    }
}

/// NULL is not true.
fn trues(answers: &BooleanArray) -> BooleanBuffer {
    if answers.null_count() == 0 { answers.values().clone() } else { prep_null_mask_filter(answers).values().clone() }
}

fn guess(conjunct: &Arc<dyn PhysicalExpr>) -> f64 {
    match conjunct.downcast_ref::<BinaryExpr>().map(BinaryExpr::op) {
        Some(Operator::Eq) => 0.05,
        Some(Operator::NotEq) => 0.9,
        Some(Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq) => 0.5,
        _ => 0.2,
    }
}
