//! The information schema: DataFusion's, over tables and views as they are defined, with its tables of columns and of views as the
//! standard has them.

mod columns;

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{ArrayRef, RecordBatch, StringArray};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::information_schema::InformationSchemaProvider;
use datafusion::catalog::{MemTable, SchemaProvider, Session, TableProvider};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;

use super::Slot;
use crate::statement::{CATALOG, SCHEMA};
use crate::view::ViewDefinition;

/// The name of the table of columns.
const COLUMNS: &str = "columns";

/// The name of the table of views.
const VIEWS: &str = "views";

#[derive(Debug)]
pub(super) struct Information {
    slot: Slot,
    tables: InformationSchemaProvider,
}

impl Information {
    pub(super) fn new(slot: Slot, tables: InformationSchemaProvider) -> Self {
        Self { slot, tables }
    }
}

#[async_trait]
impl SchemaProvider for Information {
    fn table_names(&self) -> Vec<String> {
        self.tables.table_names()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let current = self.slot.get()?;
        Ok(Some(Arc::new(match name {
            COLUMNS => {
                let relation = |name: String| Ok(current.find(&name)?.map(|relation| (name, relation)));
                let relations = current.names().into_iter().map(relation).filter_map(Result::transpose);
                columns::of(&relations.collect::<Result<Vec<_>>>()?)?
            }
            VIEWS => table_of(&current.views()?)?,
            _ => return self.tables.table(name).await,
        })))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.tables.table_exist(name)
    }
}

/// `information_schema.views`: rows can not be changed through any of them.
fn table_of(views: &[Arc<ViewDefinition>]) -> Result<MemTable> {
    let same = |text: &'static str| Arc::new(StringArray::from_iter_values(views.iter().map(|_| text))) as ArrayRef;
    let names = StringArray::from_iter_values(views.iter().map(|view| view.name()));
    let queries = StringArray::from_iter_values(views.iter().map(|view| view.query()));
    let batch = RecordBatch::try_from_iter([
        ("table_catalog", same(CATALOG)),
        ("table_schema", same(SCHEMA)),
        ("table_name", Arc::new(names) as ArrayRef),
        ("view_definition", Arc::new(queries) as ArrayRef),
        ("check_option", same("NONE")),
        ("is_updatable", same("NO")),
        ("is_insertable_into", same("NO")),
        ("is_trigger_updatable", same("NO")),
        ("is_trigger_deletable", same("NO")),
        ("is_trigger_insertable_into", same("NO")),
    ])?;
    MemTable::try_new(batch.schema(), vec![vec![batch]])
}

/// A table or view as it is defined, without rows.
#[derive(Debug)]
pub(super) struct Described {
    pub(super) schema: SchemaRef,
    pub(super) kind: TableType,
}

#[async_trait]
impl TableProvider for Described {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        self.kind
    }

    async fn scan(
        &self,
        _: &dyn Session,
        _: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Err(DataFusionError::Internal("a description has no rows".to_owned()))
    }
}
