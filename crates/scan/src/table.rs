//! A table in page files, as DataFusion sees it.
//!
//! ```text
//! PagedTable: one page file in each location, as they were when the table was opened
//!    │ scan: filters ─▶ zone maps ─▶ units of pages that may match ─▶ PageScan, a partition for each thread
//!    ▼
//! PageScan ── partition p takes the units p, p + n, … ── read ahead by one unit ── PageCache
//!                 │  dynamic filters of joins and TOP-K skip more of them while the scan runs
//!                 ▼
//!            columns of the filter ─▶ which rows ─▶ the other columns of these rows ─▶ batches
//! ```
//!
//! Pages of a storage node are fetched by a `PageScan` like those of this machine; or a `PushScan` in its place has the node
//! work on them, and takes the results in.
//!
//! Parts: [`cache`] keeps pages, [`filter`] is a condition on rows, [`prune`] judges pages by it, [`statistics`] is what
//! the planner is told, [`exec`] the operator and [`reading`] the reading of one partition; [`push`] is the
//! operator for work that is done at a node, and [`orders`] the same for plans that travel themselves; [`divided`] is what
//! both operators share of a scan that is done in both ways at a time.

mod cache;
mod divided;
mod exec;
mod filter;
mod orders;
mod prune;
mod push;
mod reading;
mod statistics;
mod tally;
mod units;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{DFSchema, Statistics};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use ishigaki_page::Reader;

use crate::{NodeSide, Placement};

pub use cache::PageCache;
pub(crate) use divided::{DIVISIBLE, Divided};
pub(crate) use exec::PageScan;
pub(crate) use filter::Filter;
pub use orders::{Nodes, OrdersExec};
pub use push::PushFailed;
pub(crate) use push::PushScan;
pub use tally::TallyPages;
pub(crate) use tally::tallied;
pub(crate) use units::Units;

/// One page file of a table.
#[derive(Clone, Debug)]
pub struct Part {
    /// The file, as it was at one moment.
    pub reader: Arc<Reader>,
    /// The storage node that has it; none if it is on this machine.
    pub node: Option<Arc<NodeSide>>,
}

impl Part {
    /// A file of this machine.
    pub fn here(reader: Arc<Reader>) -> Self {
        Self { reader, node: None }
    }

    /// A file of a storage node's.
    pub fn at_node(reader: Arc<Reader>, node: Arc<NodeSide>) -> Self {
        Self { reader, node: Some(node) }
    }

    /// Where the work on its pages is done if it is done here.
    fn placement(&self) -> Placement {
        if self.node.is_some() { Placement::Fetch } else { Placement::Local }
    }
}

/// A table whose rows lie in one or several page files, to be read. It never changes: it shows the files as they were when
/// their readers were opened. May be shared between threads and queries.
pub struct PagedTable {
    name: String,
    parts: Vec<Part>,
    schema: SchemaRef,
    cache: Arc<PageCache>,
}

impl fmt::Debug for PagedTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PagedTable").field("name", &self.name).field("pages", &self.pages()).finish_non_exhaustive()
    }
}

impl PagedTable {
    /// A table of that name over page files that all have columns of these types, in this order. No part at all is an
    /// empty table.
    ///
    /// To DataFusion every column may be NULL: it takes a scalar subquery over a NOT NULL column for never NULL, also when
    /// it finds no row.
    pub fn new(
        name: impl Into<String>,
        columns: &Schema,
        parts: Vec<Part>,
        cache: Arc<PageCache>,
    ) -> ishigaki_page::Result<Self> {
        let name = name.into();
        for part in &parts {
            check(&part.reader, columns)?;
        }
        let fields: Vec<_> = columns.fields().iter().map(|field| field.as_ref().clone().with_nullable(true)).collect();
        Ok(Self { name, parts, schema: Arc::new(Schema::new(fields)), cache })
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its columns; to DataFusion all of them may be NULL.
    pub(crate) fn columns(&self) -> &SchemaRef {
        &self.schema
    }

    /// Its page files.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Whether a page of a part is in memory.
    pub(crate) fn keeps(&self, part: usize, page: u64) -> bool {
        let address = self.parts.get(part).and_then(|part| part.reader.address(page).ok());
        address.is_some_and(|address| self.cache.has(&address))
    }

    /// Puts one there.
    #[cfg(test)]
    pub(crate) fn keep(&self, part: usize, page: ishigaki_page::Page) {
        let address = self.parts[part].reader.address(page.number()).expect("a page");
        self.cache.keep(&address, &Arc::new(page));
    }

    /// How many rows it has.
    pub fn rows(&self) -> u64 {
        self.parts.iter().map(|part| part.reader.rows()).sum()
    }

    /// How many pages it has.
    pub fn pages(&self) -> u64 {
        self.parts.iter().map(|part| part.reader.pages()).sum()
    }
}

/// Refuses a page file whose columns are not the table's.
fn check(reader: &Reader, columns: &Schema) -> ishigaki_page::Result<()> {
    let (has, wants) = (reader.schema().fields(), columns.fields());
    let fits = has.len() == wants.len()
        && has.iter().zip(wants).all(|(has, wants)| has.name() == wants.name() && has.data_type() == wants.data_type());
    if fits {
        return Ok(());
    }
    let list = |fields: &datafusion::arrow::datatypes::Fields| {
        fields.iter().map(|field| format!("{} {}", field.name(), field.data_type())).collect::<Vec<_>>().join(", ")
    };
    Err(ishigaki_page::Error::Invalid {
        file: reader.name().to_owned(),
        reason: format!("it has the columns ({}), and the table has ({})", list(has), list(wants)),
    })
}

#[async_trait]
impl TableProvider for PagedTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    /// Exact for whatever can be answered from a row alone: the scan does it itself, row by row. The rest stays above.
    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(filters.iter().map(|filter| filter::support(filter)).collect())
    }

    fn statistics(&self) -> Option<Statistics> {
        statistics::of_table(self).ok()
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let projection = projection.cloned().unwrap_or_else(|| (0..self.schema.fields().len()).collect());
        let filter = match conjunction(filters.iter().cloned()) {
            None => None,
            Some(condition) => {
                let columns = DFSchema::try_from(Arc::clone(&self.schema))?;
                let expression = state.create_physical_expr(condition, &columns)?;
                Some(Arc::new(Filter::new(expression, &self.schema)?))
            }
        };
        let shared = Arc::new(self.share());
        let (planned, threads) = (Arc::clone(&shared), state.config().target_partitions());
        // Zone maps may have to be read.
        let pruned = tokio::task::spawn_blocking(move || {
            // Where the work is done is decided when the plan is complete, which must not wait.
            planned.parts.iter().filter_map(|part| part.node.as_ref()).for_each(|node| node.look());
            // Zone maps may have to be read.
            let units = Units::plan(&planned, filter.as_deref(), threads)?;
            Ok::<_, DataFusionError>((units, filter))
        });
        let (units, filter) = pruned.await.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))??;
        Ok(Arc::new(PageScan::new(shared, projection, filter, limit, units)?))
    }
}

impl PagedTable {
    /// Another handle to the same.
    fn share(&self) -> Self {
        Self {
            name: self.name.clone(),
            parts: self.parts.clone(),
            schema: Arc::clone(&self.schema),
            cache: Arc::clone(&self.cache),
        }
    }
}

/// The same rows under another schema's names, of the same types: others are refused, not believed.
pub fn labelled(schema: &SchemaRef, batch: &RecordBatch) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), batch.columns().to_vec(), &options)?)
}

/// An error of a page file on its way through DataFusion.
fn through(error: ishigaki_page::Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}
