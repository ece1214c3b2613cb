//! A table of a transaction, as DataFusion's planner sees it.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{Constraint, Constraints};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;

use crate::current::Current;
use crate::row::KEY_COLUMN;
use crate::table::TableDefinition;

use super::exec::Scan;
use super::pushdown;

/// A table within one transaction.
#[derive(Debug)]
pub(crate) struct Table {
    definition: Arc<TableDefinition>,
    current: Arc<Current>,
    /// Whether the engine's keys are a last column.
    keyed: bool,
    schema: SchemaRef,
    constraints: Constraints,
}

impl Table {
    /// The table as it looks to the transaction.
    pub(crate) fn new(definition: Arc<TableDefinition>, current: Arc<Current>, keyed: bool) -> Self {
        // Every column may be NULL for DataFusion: it takes a scalar subquery over a NOT NULL column for never NULL, also
        // when it finds no row. What may be stored is checked where it is stored.
        let columns = definition.schema().fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
        let key = keyed.then(|| Field::new(KEY_COLUMN, DataType::BinaryView, false));
        let schema = Arc::new(Schema::new(columns.chain(key).collect::<Vec<_>>()));
        let constraints = if definition.has_row_id() {
            Constraints::default()
        } else {
            Constraints::new_unverified(vec![Constraint::PrimaryKey(definition.primary_key().to_vec())])
        };
        Self { definition, current, keyed, schema, constraints }
    }
}

#[async_trait]
impl TableProvider for Table {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn constraints(&self) -> Option<&Constraints> {
        Some(&self.constraints)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(filters.iter().map(|filter| pushdown::support(&self.definition, filter)).collect())
    }

    async fn scan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let access = pushdown::access(&self.definition, filters)?;
        let projection = match projection {
            Some(projection) => projection.clone(),
            None => (0..self.schema.fields().len()).collect(),
        };
        debug_assert!(self.keyed || projection.iter().all(|&column| column < self.definition.columns().len()));
        let condition =
            filters.iter().map(|filter| filter.human_display().to_string()).collect::<Vec<_>>().join(" AND ");
        let schema = Arc::new(self.schema.project(&projection)?);
        let scan =
            Scan::new(Arc::clone(&self.definition), Arc::clone(&self.current), schema, projection, access, condition);
        Ok(Arc::new(scan.with_limit(limit)))
    }
}
