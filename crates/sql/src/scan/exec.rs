//! The operator that reads a table, page by page.
//!
//! Each poll reads one page: it takes the transaction's mutex, goes over at most a batch of rows or [`PAGE_BYTES`] of
//! them, decodes the columns asked for and lets go again. Nothing is read ahead, so a LIMIT locks no more than it reads.

use std::fmt;
use std::ops::{Bound, ControlFlow};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use datafusion::arrow::array::RecordBatchOptions;
use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::{Field, SchemaRef};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalSortExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties};
use futures::Stream;

use crate::current::Current;
use crate::database::BATCH_ROWS;
use crate::row::RowDecoder;
use crate::table::TableDefinition;

use super::pushdown::Access;

/// About how many bytes of values a page may have: large rows come in small pages.
const PAGE_BYTES: usize = 4 << 20;

/// Rows of a page that are only counted.
const COUNTED_ROWS: usize = 16 * BATCH_ROWS;

/// Reads some keys of a table.
#[derive(Clone, Debug)]
pub(crate) struct Scan {
    definition: Arc<TableDefinition>,
    current: Arc<Current>,
    schema: SchemaRef,
    /// Positions of columns; the one behind the last is the engine's key.
    projection: Vec<usize>,
    access: Access,
    /// The condition that `access` was made from, as text.
    condition: String,
    limit: Option<usize>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl Scan {
    pub(crate) fn new(
        definition: Arc<TableDefinition>,
        current: Arc<Current>,
        schema: SchemaRef,
        projection: Vec<usize>,
        access: Access,
        condition: String,
    ) -> Self {
        let order = ordering(&definition, &projection);
        let equivalences = EquivalenceProperties::new_with_orderings(Arc::clone(&schema), [order]);
        let properties = PlanProperties::new(
            equivalences,
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Self {
            definition,
            current,
            schema,
            projection,
            access,
            condition,
            limit: None,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    /// The same, with at most so many rows.
    pub(crate) fn with_limit(mut self, limit: Option<usize>) -> Self {
        self.limit = limit;
        self
    }

    /// A decoder of the projected columns, or `None` when there is nothing but rows to count.
    fn decoder(&self) -> Option<RowDecoder> {
        let key = self.definition.columns().len();
        let columns: Vec<usize> = self.projection.iter().copied().filter(|&column| column != key).collect();
        match (columns.is_empty(), columns.len() == self.projection.len()) {
            (true, true) => None,
            (_, true) => Some(RowDecoder::new(Arc::clone(&self.definition), Some(&columns))),
            (_, false) => Some(RowDecoder::new(Arc::clone(&self.definition), Some(&columns)).with_key()),
        }
    }
}

/// The order of the primary key, as far as its columns are there.
fn ordering(definition: &TableDefinition, projection: &[usize]) -> Vec<PhysicalSortExpr> {
    let mut order = Vec::new();
    for &column in definition.primary_key() {
        let Some(position) = projection.iter().position(|&projected| projected == column) else { break };
        let column = Column::new(&definition.columns()[column].name, position);
        // No column of a key is NULL; said as ORDER BY says it when it is not told where NULLs come.
        order.push(PhysicalSortExpr::new(Arc::new(column), SortOptions { descending: false, nulls_first: false }));
    }
    order
}

impl DisplayAs for Scan {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns: Vec<&str> = self.schema.fields().iter().map(|field| field.name().as_str()).collect();
        if matches!(format, DisplayFormatType::TreeRender) {
            return write!(f, "table={}\naccess={}", self.definition.name(), self.access.word());
        }
        write!(f, "IshigakiScan: table={}, access={}", self.definition.name(), self.access.word())?;
        if !self.condition.is_empty() {
            write!(f, ", condition=[{}]", self.condition)?;
        }
        write!(f, ", columns=[{}]", columns.join(", "))?;
        match self.limit {
            Some(limit) => write!(f, ", limit={limit}"),
            None => Ok(()),
        }
    }
}

impl ExecutionPlan for Scan {
    fn name(&self) -> &'static str {
        "IshigakiScan"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    ishigaki_scan::operator!(leaf);

    ishigaki_scan::operator!(no expressions);

    fn supports_limit_pushdown(&self) -> bool {
        false
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        Some(Arc::new(self.clone().with_limit(limit)))
    }

    fn fetch(&self) -> Option<usize> {
        self.limit
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let (start, end) = match &self.access {
            Access::Full | Access::Points(_) => (Bound::Unbounded, Bound::Unbounded),
            Access::Range(range) => (range.start.clone(), range.end.clone()),
        };
        let rest = match &self.access {
            Access::Points(keys) => Rest::Points(keys.clone().into_iter()),
            _ => Rest::Range { start, end },
        };
        Ok(Box::pin(Pages {
            decoder: self.decoder(),
            rest,
            left: self.limit.unwrap_or(usize::MAX),
            batch_rows: context.session_config().batch_size(),
            scan: self.clone(),
            metrics: BaselineMetrics::new(&self.metrics, partition),
        }))
    }
}

/// What is still to be read.
#[derive(Debug)]
enum Rest {
    Points(std::vec::IntoIter<Vec<u8>>),
    Range { start: Bound<Vec<u8>>, end: Bound<Vec<u8>> },
    Nothing,
}

/// The pages of a scan.
struct Pages {
    scan: Scan,
    decoder: Option<RowDecoder>,
    rest: Rest,
    /// Rows until the limit.
    left: usize,
    /// Rows of a page at most, if they have columns.
    batch_rows: usize,
    metrics: BaselineMetrics,
}

impl Pages {
    /// The next page, or `None` behind the last.
    fn read(&mut self) -> crate::Result<Option<RecordBatch>> {
        let page = self.left.min(if self.decoder.is_some() { self.batch_rows } else { COUNTED_ROWS });
        let rows = if page == 0 {
            0
        } else {
            match std::mem::replace(&mut self.rest, Rest::Nothing) {
                Rest::Nothing => 0,
                Rest::Points(keys) => self.read_points(keys, page)?,
                Rest::Range { start, end } => self.read_range(&start, end, page)?,
            }
        };
        self.left -= rows;
        if rows == 0 {
            return Ok(None);
        }
        let schema = &self.scan.schema;
        let batch = if let Some(decoder) = &mut self.decoder {
            in_order(decoder.finish()?, schema)?
        } else {
            let options = RecordBatchOptions::new().with_row_count(Some(rows));
            RecordBatch::try_new_with_options(Arc::clone(schema), Vec::new(), &options)?
        };
        Ok(Some(batch))
    }

    fn read_points(&mut self, mut keys: std::vec::IntoIter<Vec<u8>>, page: usize) -> crate::Result<usize> {
        let table = self.scan.definition.id();
        let decoder = &mut self.decoder;
        let mut rows = 0;
        self.scan.current.read(|_, mut view| {
            while rows < page
                && let Some(key) = keys.next()
            {
                let found = view.get_with(table, &key, |value| match decoder {
                    Some(decoder) => decoder.push(&key, value),
                    None => Ok(()),
                })?;
                if let Some(pushed) = found {
                    pushed?;
                    rows += 1;
                }
            }
            Ok(())
        })?;
        self.rest = Rest::Points(keys);
        Ok(rows)
    }

    fn read_range(&mut self, start: &Bound<Vec<u8>>, end: Bound<Vec<u8>>, page: usize) -> crate::Result<usize> {
        let table = self.scan.definition.id();
        let decoder = &mut self.decoder;
        let (mut rows, mut bytes) = (0, 0);
        let mut broken = None;
        let mut last = None;
        self.scan.current.read(|_, mut view| {
            let range = (start.as_ref().map(Vec::as_slice), end.as_ref().map(Vec::as_slice));
            view.scan(table, range, |key, value| {
                if let Some(decoder) = decoder
                    && let Err(error) = decoder.push(key, value)
                {
                    broken = Some(error);
                    return ControlFlow::Break(());
                }
                rows += 1;
                bytes += value.len();
                if rows < page && (bytes < PAGE_BYTES || decoder.is_none()) {
                    return ControlFlow::Continue(());
                }
                last = Some(key.to_vec());
                ControlFlow::Break(())
            })?;
            Ok(())
        })?;
        if let Some(error) = broken {
            return Err(error);
        }
        if let Some(last) = last {
            self.rest = Rest::Range { start: Bound::Excluded(last), end };
        }
        Ok(rows)
    }
}

/// A batch with its columns as the schema has them: the decoder puts the engine's key last.
fn in_order(batch: RecordBatch, schema: &SchemaRef) -> crate::Result<RecordBatch> {
    if batch.schema_ref() == schema {
        return Ok(batch);
    }
    let column = |field: &Arc<Field>| Ok(Arc::clone(batch.column(batch.schema_ref().index_of(field.name())?)));
    let columns: crate::Result<Vec<_>> = schema.fields().iter().map(column).collect();
    Ok(RecordBatch::try_new(Arc::clone(schema), columns?)?)
}

impl Stream for Pages {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let timer = self.metrics.elapsed_compute().clone();
        let page = {
            let _timer = timer.timer();
            self.read().map_err(DataFusionError::from).transpose()
        };
        self.metrics.record_poll(Poll::Ready(page))
    }
}

impl RecordBatchStream for Pages {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.scan.schema)
    }
}
