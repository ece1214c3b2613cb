//! How DataFusion finds the tables of the transaction that a statement runs in, and what SQL's type names mean to it.
//!
//! There is one catalog, `ishigaki`, with the schema `public`. A second schema, [`TARGETS`], is not listed anywhere: it
//! shows the same tables with one more column, the engine's key of each row, for the queries that UPDATE and DELETE make.

mod information;

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, SchemaRef};
use datafusion::catalog::information_schema::{INFORMATION_SCHEMA, InformationSchemaProvider};
use datafusion::catalog::{
    CatalogProvider, CatalogProviderList, MemoryCatalogProviderList, SchemaProvider, TableProvider,
};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SessionState;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::TableType;
use datafusion::logical_expr::planner::TypePlanner;
use datafusion::sql::sqlparser::ast::DataType as SqlDataType;
use parking_lot::RwLock;

use crate::catalog::Relation;
use crate::current::Current;
use crate::scan::Table;
use crate::statement::{CATALOG, SCHEMA};
use crate::types::SqlType;
use crate::view;
use information::{Described, Information};

/// The schema of the tables with their keys.
pub(crate) const TARGETS: &str = "__targets";

/// The place of the transaction that a session's catalog looks into; empty between statements.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slot {
    current: Arc<RwLock<Option<Arc<Current>>>>,
}

impl Slot {
    pub(crate) fn set(&self, current: Option<Arc<Current>>) {
        *self.current.write() = current;
    }

    fn get(&self) -> Result<Arc<Current>> {
        let current = self.current.read().clone();
        current.ok_or_else(|| DataFusionError::Execution("no statement is running".to_owned()))
    }
}

/// A copy of DataFusion's state with a catalog of its own.
pub(crate) fn with_catalog(state: &SessionState, slot: &Slot) -> SessionState {
    let catalogs = MemoryCatalogProviderList::new();
    catalogs.register_catalog(CATALOG.to_owned(), Arc::new(Catalog { slot: slot.clone(), described: false }));
    SessionStateBuilder::new_from_existing(state.clone()).with_catalog_list(Arc::new(catalogs)).build()
}

#[derive(Debug)]
struct Catalog {
    slot: Slot,
    /// Whether its tables are shown as they are defined, for the information schema.
    described: bool,
}

/// DataFusion's information schema, over tables as they are defined.
fn information(slot: &Slot) -> Arc<dyn SchemaProvider> {
    let catalogs = MemoryCatalogProviderList::new();
    catalogs.register_catalog(CATALOG.to_owned(), Arc::new(Catalog { slot: slot.clone(), described: true }));
    Arc::new(Information::new(slot.clone(), InformationSchemaProvider::new(Arc::new(catalogs))))
}

/// What a schema shows of tables.
#[derive(Clone, Copy, Debug)]
enum Show {
    Rows,
    /// Rows, with the engine's keys.
    Keys,
    /// Columns as they are defined, NOT NULL and all, and no rows.
    Description,
}

impl CatalogProvider for Catalog {
    fn schema_names(&self) -> Vec<String> {
        vec![SCHEMA.to_owned()]
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        let show = match name {
            _ if self.described => Show::Description,
            INFORMATION_SCHEMA => return Some(information(&self.slot)),
            TARGETS => Show::Keys,
            SCHEMA => Show::Rows,
            _ => return None,
        };
        (!self.described || name == SCHEMA).then(|| Arc::new(Tables { slot: self.slot.clone(), show }) as _)
    }
}

#[derive(Debug)]
struct Tables {
    slot: Slot,
    show: Show,
}

#[async_trait]
impl SchemaProvider for Tables {
    fn table_names(&self) -> Vec<String> {
        self.slot.get().map(|current| current.names()).unwrap_or_default()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let current = self.slot.get()?;
        let described = |schema: &SchemaRef, kind| Some(Arc::new(Described { schema: Arc::clone(schema), kind }) as _);
        Ok(match (current.find(name)?, self.show) {
            (None, _) | (Some(Relation::View(_)), Show::Keys) => None,
            (Some(Relation::Table(table)), Show::Description) => described(table.schema(), TableType::Base),
            (Some(Relation::View(view)), Show::Description) => described(view.schema(), TableType::View),
            (Some(Relation::View(_)), Show::Rows) => view::provider(name),
            (Some(Relation::Table(table)), show) => Some(match table.pages() {
                Some(paged) => current.paged(&table, paged)?,
                None => Arc::new(Table::new(table, current, matches!(show, Show::Keys))),
            }),
        })
    }

    fn table_exist(&self, name: &str) -> bool {
        self.slot.get().is_ok_and(|current| current.find(name).is_ok_and(|found| found.is_some()))
    }
}

/// Gives the types of a CAST the meaning that they have in CREATE TABLE.
#[derive(Debug)]
pub(crate) struct Planner;

impl TypePlanner for Planner {
    fn plan_type_field(&self, sql_type: &SqlDataType) -> Result<Option<FieldRef>> {
        // Types that no column can have, such as INTERVAL, are DataFusion's to know.
        Ok(SqlType::from_sql(sql_type).ok().map(|own| Arc::new(Field::new("", DataType::from(own), true))))
    }
}

impl From<SqlType> for DataType {
    fn from(own: SqlType) -> Self {
        own.arrow()
    }
}
