//! Pushed scans whose results are wanted in another process than the one that planned them.
//!
//! ```text
//!   PushScan ─▶ OrdersExec          travels in a plan to whoever runs it, cut by partitions
//!                 └ rows in memory   a partition is one page file; a row is one way to have its fragment done
//!                                    table │ place │ fragment
//! ```
//!
//! A fragment that is to be done lies in the plan itself, as a row: whoever cuts a plan into pieces, or sends it on, knows
//! what to do with rows in memory and nothing of fragments. A partition has a row for each place that has its page file, the
//! first one first. Whoever runs it asks the node that he himself stands beside if that has the file, else the first one, and
//! the next one where a node is not there or refuses, as long as nothing has come.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::arrow::array::{ArrayRef, AsArray, BinaryArray, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::Statistics;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties};
use futures::{StreamExt, TryStreamExt};
use ishigaki_base::ErrorKind;
use ishigaki_remote::{Location, RemoteDirectory};
use parking_lot::Mutex;
use tokio::sync::mpsc::Sender;

use super::push::{Arriving, Metrics, Order, Piece, PushFailed, PushScan, was_answered};

/// Connections to storage nodes for those who have orders done, and a count of where they were. May be shared.
#[derive(Debug, Default)]
pub struct Nodes {
    own: Option<String>,
    reached: Mutex<HashMap<String, RemoteDirectory>>,
    beside: AtomicU64,
    elsewhere: AtomicU64,
}

impl Nodes {
    /// For a process that stands beside the storage node with this name, `host:port`, if it stands beside one.
    pub fn new(own: Option<String>) -> Self {
        Self { own, ..Self::default() }
    }

    /// How many orders were done by the node beside, and how many by others.
    pub fn done(&self) -> (u64, u64) {
        (self.beside.load(Ordering::Relaxed), self.elsewhere.load(Ordering::Relaxed))
    }

    fn is_beside(&self, address: &str) -> bool {
        self.own.as_deref() == Some(address)
    }

    fn reach(&self, place: &str) -> ishigaki_remote::Result<RemoteDirectory> {
        if let Some(known) = self.reached.lock().get(place) {
            return Ok(known.clone());
        }
        // Not under the lock: a node that does not answer is in nobody else's way.
        let connected = place.parse::<Location>()?.connect()?;
        Ok(self.reached.lock().entry(place.to_owned()).or_insert(connected).clone())
    }

    fn note(&self, address: &str) {
        let count = if self.is_beside(address) { &self.beside } else { &self.elsewhere };
        count.fetch_add(1, Ordering::Relaxed);
    }
}

/// One way to have a partition done.
#[derive(Clone, Debug)]
struct Choice {
    table: String,
    place: String,
    /// Of the node in `place`.
    address: String,
    fragment: Vec<u8>,
}

/// Has storage nodes do what its input says.
#[derive(Clone, Debug)]
pub struct OrdersExec {
    orders: Arc<dyn ExecutionPlan>,
    schema: SchemaRef,
    nodes: Arc<Nodes>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

/// What an order consists of.
fn columns() -> SchemaRef {
    let field = |name: &str, data_type| Field::new(name, data_type, false);
    Arc::new(Schema::new(vec![
        field("table", DataType::Utf8),
        field("place", DataType::Utf8),
        field("fragment", DataType::Binary),
    ]))
}

impl OrdersExec {
    /// The same as a pushed scan does; nothing if `plan` is none.
    pub fn of(plan: &dyn ExecutionPlan, nodes: &Arc<Nodes>) -> Option<Result<Self>> {
        let pushed = plan.downcast_ref::<PushScan>()?;
        Some(Self::of_pushed(pushed, nodes))
    }

    fn of_pushed(pushed: &PushScan, nodes: &Arc<Nodes>) -> Result<Self> {
        let columns = columns();
        let batch = |orders: Vec<Order>| {
            let tables: ArrayRef = Arc::new(orders.iter().map(|order| Some(order.0.as_str())).collect::<StringArray>());
            let places: ArrayRef = Arc::new(orders.iter().map(|order| Some(order.1.as_str())).collect::<StringArray>());
            let fragments: ArrayRef =
                Arc::new(orders.iter().map(|order| Some(order.2.as_slice())).collect::<BinaryArray>());
            Ok(vec![RecordBatch::try_new(Arc::clone(&columns), vec![tables, places, fragments])?])
        };
        let batches: Result<Vec<Vec<RecordBatch>>> = pushed
            .orders()?
            .into_iter()
            .map(|orders| if orders.is_empty() { Ok(Vec::new()) } else { batch(orders) })
            .collect();
        let source = MemorySourceConfig::try_new(&batches?, Arc::clone(&columns), None)?;
        Self::new(DataSourceExec::from_data_source(source), pushed.schema(), Arc::clone(nodes))
    }

    /// Over orders that were made by [`of`](Self::of), or some partitions of them. `schema` is of the results.
    pub fn new(orders: Arc<dyn ExecutionPlan>, schema: SchemaRef, nodes: Arc<Nodes>) -> Result<Self> {
        if orders.schema().fields() != columns().fields() {
            return Err(DataFusionError::Plan(format!("these are no orders: {}", orders.schema())));
        }
        let partitions = orders.properties().output_partitioning().partition_count();
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&schema)),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        let metrics = ExecutionPlanMetricsSet::new();
        Ok(Self { orders, schema, nodes, properties: Arc::new(properties), metrics })
    }

    /// The names, `host:port`, of the nodes that have what a partition needs, the first choice first.
    pub fn addresses(&self, partition: usize) -> Vec<String> {
        let source = self.orders.downcast_ref::<DataSourceExec>();
        let rows = source.and_then(|source| {
            let source: &dyn std::any::Any = source.data_source().as_ref();
            source.downcast_ref::<MemorySourceConfig>()
        });
        let batches = rows.and_then(|rows| rows.partitions().get(partition));
        let choices = batches.map(|batches| choices(batches));
        choices.and_then(Result::ok).unwrap_or_default().into_iter().map(|choice| choice.address).collect()
    }

    /// The same over another input.
    fn over(&self, orders: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self::new(orders, Arc::clone(&self.schema), Arc::clone(&self.nodes))?))
    }
}

/// What rows say.
fn choices(batches: &[RecordBatch]) -> Result<Vec<Choice>> {
    let mut found = Vec::new();
    for batch in batches {
        let text = |column: usize| batch.columns().get(column).and_then(|column| column.as_string_opt::<i32>());
        let bytes = batch.columns().get(2).and_then(|column| column.as_binary_opt::<i32>());
        let (Some(tables), Some(places), Some(fragments)) = (text(0), text(1), bytes) else {
            return Err(DataFusionError::Execution("these rows are no orders".to_owned()));
        };
        for row in 0..batch.num_rows() {
            let place = places.value(row).to_owned();
            let node: Location = place.parse().map_err(|error| DataFusionError::External(Box::new(error)))?;
            let (table, fragment) = (tables.value(row).to_owned(), fragments.value(row).to_vec());
            found.push(Choice { table, place, address: node.address, fragment });
        }
    }
    Ok(found)
}

/// One partition's work, for the thread that asks.
struct Job {
    choices: Vec<Choice>,
    nodes: Arc<Nodes>,
}

impl Job {
    fn new(mut choices: Vec<Choice>, nodes: Arc<Nodes>) -> Self {
        // Beside the pages if that can be; the order of the others stays.
        choices.sort_by_key(|choice| !nodes.is_beside(&choice.address));
        Self { choices, nodes }
    }

    /// Passes the results on; what they end with.
    fn pull(&self, metrics: &Metrics, sender: &Sender<Result<Piece>>) -> Result<Piece> {
        let mut failed = None;
        for choice in &self.choices {
            let mut any = false;
            match self.attempt(choice, metrics, sender, &mut any) {
                Ok(()) => {
                    self.nodes.note(&choice.address);
                    return Ok(Piece::End);
                }
                Err(source) => {
                    let next = !any && (was_answered(&source) || source.kind() == ErrorKind::Unavailable);
                    tracing::warn!(place = %choice.place, error = %source, "a node does not do an order");
                    let (table, place) = (choice.table.clone(), choice.place.clone());
                    failed.get_or_insert(PushFailed { table, place, source });
                    if !next {
                        break;
                    }
                }
            }
        }
        match failed {
            None => Ok(Piece::Nothing),
            // Who runs plans may try such a one again.
            Some(failed) if failed.source.kind() == ErrorKind::Unavailable => {
                Err(DataFusionError::IoError(std::io::Error::other(failed.to_string())))
            }
            Some(failed) => Err(DataFusionError::External(Box::new(failed))),
        }
    }

    fn attempt(
        &self,
        choice: &Choice,
        metrics: &Metrics,
        sender: &Sender<Result<Piece>>,
        any: &mut bool,
    ) -> ishigaki_remote::Result<()> {
        let mut work = self.nodes.reach(&choice.place)?.client().work(&choice.fragment)?;
        metrics.orders.add(1);
        let wanted = || !sender.is_closed();
        while let Some(bytes) = work.next(&wanted)? {
            *any = true;
            metrics.received.add(bytes.len());
            if sender.blocking_send(Ok(Piece::Bytes(bytes))).is_err() {
                break;
            }
        }
        Ok(())
    }
}

impl DisplayAs for OrdersExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let partitions = self.properties.output_partitioning().partition_count();
        let places = |partition| self.addresses(partition).join(" or ");
        let places: Vec<String> = (0..partitions).map(places).collect();
        write!(f, "IshigakiOrders: at=[{}]", places.join(", "))
    }
}

impl ExecutionPlan for OrdersExec {
    fn name(&self) -> &'static str {
        "IshigakiOrders"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    crate::operator!(orders by over);

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![false]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        // A partition is where its pages are.
        vec![false]
    }

    crate::operator!(no expressions);

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(&self, _: &[Arc<Statistics>], _: &StatisticsArgs) -> Result<Arc<Statistics>> {
        Ok(Arc::new(Statistics::new_unknown(&self.schema)))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let metrics = Metrics::new(&self.metrics, partition);
        let orders = self.orders.execute(partition, context)?;
        let (schema, nodes) = (Arc::clone(&self.schema), Arc::clone(&self.nodes));
        let batches = futures::stream::once(async move {
            let orders: Vec<RecordBatch> = orders.try_collect().await?;
            let job = Job::new(choices(&orders)?, nodes);
            let arriving = Arriving::of(move |metrics, sender| job.pull(metrics, sender), schema, metrics);
            Ok::<_, DataFusionError>(arriving.rows())
        });
        let batches = batches.try_flatten().boxed();
        Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), batches)))
    }
}
