//! The operator whose work is done at a storage node: it sends a fragment there and takes the results in.
//!
//! A partition is one page file. A thread asks for results and passes them on, so that the next ones are on their way
//! while these are worked on; it holds a few pieces at most, and the node makes no more than it may have ahead. What
//! joins and TOP-K have found out when the first rows are wanted goes along: pages that can no longer matter are left
//! out, and rows, where it can be said to the node.
//!
//! A node may answer that it does not do the work: for want of room, memory or time, because it finds fault with the order, or
//! because the work fails there. If nothing has come of it by then, its pages are fetched and the work is done here: pushing
//! is a wish, and no reason for a query to fail. A lost connection is an error, and so are results that end without
//! having said so: no rows may be missing.
//!
//! A scan that is [divided](super::divided) has many fragments, one after the other ([`turns`]), of those pages that are not
//! fetched meanwhile.

#[cfg(test)]
mod tests;
mod turns;

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::buffer::Buffer;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::ipc::reader::StreamDecoder;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::Statistics;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::utils::split_conjunction;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_expr_common::physical_expr::snapshot_physical_expr;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties};
use futures::StreamExt;
use futures::stream::BoxStream;
use ishigaki_remote::Location;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::divided::{Divided, Taker};
use super::exec::PageScan;
use super::reading::Dynamic;
use super::units::Unit;
use super::{labelled, through};
use crate::NodeSide;
use crate::cost::Estimate;
use crate::fragment::expression::Expression;
use crate::fragment::step::Step;
use crate::fragment::{Fragment, NotPushable, Runs};
use turns::Turns;

/// How many pieces of results, of a mebibyte at most, may wait.
const AHEAD: usize = 2;

/// Work that a storage node could not do.
#[derive(Debug, thiserror::Error)]
#[error("table {table}, location {place}: {source}")]
pub struct PushFailed {
    /// The table.
    pub table: String,
    /// The node's directory.
    pub place: String,
    /// What is wrong.
    pub source: ishigaki_remote::Error,
}

/// Has nodes scan some parts of a table, and do more with their rows.
#[derive(Clone, Debug)]
pub(crate) struct PushScan {
    /// What would be done here.
    scan: Arc<PageScan>,
    /// Positions of the parts, each a partition.
    parts: Vec<usize>,
    /// The scan's filter.
    filter: Option<Expression>,
    steps: Vec<Step>,
    /// Of each of the parts the same work done here, for the case that its node refuses it.
    instead: Vec<Arc<dyn ExecutionPlan>>,
    /// Where its units are shared with those who fetch some of them; it has one part then.
    divided: Option<Arc<Divided>>,
    schema: SchemaRef,
    estimates: Vec<Estimate>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl PushScan {
    /// `schema` is of what comes out behind the steps, and `instead` does the same for each part, in one partition.
    pub(crate) fn new(
        scan: &PageScan,
        parts: Vec<usize>,
        steps: Vec<Step>,
        instead: Vec<Arc<dyn ExecutionPlan>>,
        schema: SchemaRef,
        estimates: Vec<Estimate>,
    ) -> Result<Self, NotPushable> {
        let filter = scan.filter.as_ref().map(|filter| Expression::of(filter.expression())).transpose()?;
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&schema)),
            Partitioning::UnknownPartitioning(parts.len()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        let pushed = Self {
            scan: Arc::new(scan.clone()),
            parts,
            filter,
            steps,
            instead,
            divided: None,
            schema,
            estimates,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        };
        // Whatever can not be written down is known before anybody relies on it.
        pushed
            .parts
            .iter()
            .try_for_each(|&part| pushed.job(part).fragment(Runs::default(), None).encode().map(drop))?;
        Ok(pushed)
    }

    /// The same, of units that are shared. Of a scan of one part, and instead of it nothing: its pages are fetched then.
    pub(crate) fn divided(self, divided: &Arc<Divided>) -> Self {
        Self { divided: Some(Arc::clone(divided)), ..self }
    }

    fn job(&self, part: usize) -> Job {
        Job { pushed: self.clone(), part }
    }

    /// For each partition who can do it: nobody, if none of its pages can matter; those with replicas behind the first one.
    pub(super) fn orders(&self) -> Result<Vec<Vec<Order>>> {
        self.parts.iter().map(|&part| self.job(part).order()).collect()
    }
}

/// What a node can be asked to do: the table, the place, and the fragment for the node there.
pub(super) type Order = (String, String, Vec<u8>);

/// One partition's work, for the thread that asks.
struct Job {
    pushed: PushScan,
    part: usize,
}

impl Job {
    fn fragment(&self, runs: Runs, sharper: Option<Expression>) -> Fragment {
        let (scan, part) = (&self.pushed.scan, &self.pushed.scan.table.parts()[self.part]);
        let filter = self.pushed.filter.iter().cloned().chain(sharper).reduce(and);
        Fragment {
            directory: part.node.as_ref().map_or_else(String::new, |node| node.path().to_owned()),
            file: part.reader.name().to_owned(),
            columns: Arc::clone(part.reader.schema()),
            runs,
            filter,
            projection: scan.projection.clone(),
            limit: scan.limit.map(|limit| limit as u64),
            steps: self.pushed.steps.clone(),
        }
    }

    fn node(&self) -> Option<Arc<NodeSide>> {
        self.pushed.scan.table.parts()[self.part].node.clone()
    }

    /// All of the part's units.
    fn units(&self) -> Vec<Unit> {
        self.pushed.scan.units.runs.iter().filter(|unit| unit.part == self.part).cloned().collect()
    }

    fn order(&self) -> Result<Vec<Order>> {
        let runs = self.runs(&self.units())?;
        let table = &self.pushed.scan.table;
        let Some(node) = table.parts()[self.part].node.as_ref().filter(|_| !runs.is_empty()) else {
            return Ok(Vec::new());
        };
        let first: Location = node.place().parse().map_err(|error| DataFusionError::External(Box::new(error)))?;
        let mut fragment = self.fragment(runs, None);
        let replicas: Vec<Location> = first.of_replicas().collect();
        let first = Location { replicas: Vec::new(), ..first };
        let choices = std::iter::once(first).chain(replicas).map(|location| {
            fragment.directory.clone_from(&location.directory);
            // A node does it only with the file that is meant, or a copy of that: it compares the segments.
            let bytes = fragment.encode().map_err(|error| DataFusionError::External(Box::new(error)))?;
            Ok((table.name().to_owned(), location.to_string(), bytes))
        });
        choices.collect()
    }

    /// Pages of these units, which may come in any order, that may matter as far as is known now.
    fn runs(&self, units: &[Unit]) -> Result<Runs> {
        let scan = &self.pushed.scan;
        let (table, reader) = (&scan.table, &scan.table.parts()[self.part].reader);
        let mut dynamic = Dynamic::new(&scan.dynamic, &scan.schema, table.parts().len());
        let mut pages = Vec::new();
        for unit in units {
            for page in dynamic.wanted(table, unit)? {
                pages.push((page, reader.address(page).map_err(through)?.segment));
            }
        }
        Ok(Runs::of_pages(pages))
    }

    /// What the dynamic filters say of rows now, over the table's columns; what can not travel is left to those above.
    fn sharper(&self) -> Option<Expression> {
        let scan = &self.pushed.scan;
        let known = scan.dynamic.iter().filter_map(|filter| snapshot_physical_expr(Arc::clone(filter)).ok());
        let conjuncts = known.flat_map(|filter| split_conjunction(&filter).into_iter().cloned().collect::<Vec<_>>());
        conjuncts.filter_map(|conjunct| Expression::of(&conjunct).ok()?.of_columns(&scan.projection)).reduce(and)
    }

    /// Has the node work on these units and passes the results on; what they end with. When the first ones have come it is
    /// asked whether they are wanted.
    fn pull(
        &self,
        units: &[Unit],
        metrics: &Metrics,
        sender: &Sender<Result<Piece>>,
        are_wanted: &dyn Fn() -> bool,
    ) -> Result<Piece> {
        let runs = self.runs(units)?;
        let pages = runs.pages();
        let skipped = units.iter().map(Unit::count).sum::<u64>() - pages;
        let Some(node) = self.node().filter(|_| !runs.is_empty()) else {
            metrics.skipped.add(if are_wanted() { skipped as usize } else { 0 });
            return Ok(Piece::Nothing);
        };
        let failed = |source| {
            let (table, place) = (self.pushed.scan.table.name().to_owned(), node.place().to_owned());
            DataFusionError::External(Box::new(PushFailed { table, place, source }))
        };
        let fragment = self.fragment(runs, self.sharper()).encode();
        let fragment = fragment.map_err(|error| DataFusionError::External(Box::new(error)))?;
        let mut work = node.work(&fragment).map_err(failed)?;
        metrics.orders.add(1);
        let (wanted, mut any) = (|| !sender.is_closed(), false);
        while let Some(bytes) = work.next(&wanted).map_err(failed)? {
            if !std::mem::replace(&mut any, true) {
                if !are_wanted() {
                    return Ok(Piece::Nothing);
                }
                metrics.pages.add(pages as usize);
                metrics.skipped.add(skipped as usize);
            }
            metrics.received.add(bytes.len());
            if sender.blocking_send(Ok(Piece::Bytes(bytes))).is_err() {
                break;
            }
        }
        Ok(Piece::End)
    }
}

/// What the thread that asks passes on. The last one is an end, or an error.
#[derive(Debug)]
pub(super) enum Piece {
    Bytes(Vec<u8>),
    /// The node has said that there is no more.
    End,
    /// There was nothing to ask for.
    Nothing,
}

fn and(left: Expression, right: Expression) -> Expression {
    let (left, right) = (Box::new(left), Box::new(right));
    Expression::Binary { operator: Operator::And, checked: false, left, right }
}

#[derive(Clone)]
pub(super) struct Metrics {
    baseline: BaselineMetrics,
    pub(super) received: Count,
    refused: Count,
    pages: Count,
    skipped: Count,
    /// Pieces of work that the node was asked to do.
    pub(super) orders: Count,
    /// Those of them that were done here after all, because they were late.
    taken_back: Count,
}

impl Metrics {
    /// Of one partition of an operator.
    pub(super) fn new(of: &ExecutionPlanMetricsSet, partition: usize) -> Self {
        let counter = |name: &'static str| MetricBuilder::new(of).counter(name, partition);
        Self {
            baseline: BaselineMetrics::new(of, partition),
            received: counter("bytes_received"),
            refused: counter("refused"),
            pages: counter("pages_at_node"),
            skipped: counter("pages_skipped"),
            orders: counter("orders"),
            taken_back: counter("orders_taken_back"),
        }
    }
}

/// Results as they come.
pub(super) struct Arriving {
    pieces: Receiver<Result<Piece>>,
    decoder: StreamDecoder,
    piece: Buffer,
    schema: SchemaRef,
    metrics: Metrics,
    any: bool,
}

impl Arriving {
    /// Of a thread that passes pieces on, and gives what they end with.
    pub(super) fn of(
        pull: impl FnOnce(&Metrics, &Sender<Result<Piece>>) -> Result<Piece> + Send + 'static,
        schema: SchemaRef,
        metrics: Metrics,
    ) -> Self {
        let (sender, pieces) = channel(AHEAD);
        let own = metrics.clone();
        // Ends by itself when nobody receives any more.
        drop(tokio::task::spawn_blocking(move || {
            let last = pull(&own, &sender);
            // Who does not want it any more does not hear it.
            let _ = sender.blocking_send(last);
        }));
        Self::new(pieces, schema, metrics)
    }

    fn new(pieces: Receiver<Result<Piece>>, schema: SchemaRef, metrics: Metrics) -> Self {
        let (decoder, piece) = (StreamDecoder::new(), Buffer::from_vec(Vec::<u8>::new()));
        Self { pieces, decoder, piece, schema, metrics, any: false }
    }

    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            while !self.piece.is_empty() {
                let compute = self.metrics.baseline.elapsed_compute().clone();
                let _timer = compute.timer();
                if let Some(batch) = self.decoder.decode(&mut self.piece)? {
                    self.metrics.baseline.output_rows().add(batch.num_rows());
                    return self.labelled(&batch).map(Some);
                }
            }
            match self.pieces.recv().await.transpose()? {
                Some(Piece::Bytes(bytes)) => {
                    self.piece = Buffer::from_vec(bytes);
                    self.any = true;
                }
                Some(Piece::Nothing) => return Ok(None),
                Some(Piece::End) if self.is_whole() => return Ok(None),
                Some(Piece::End) => return Err(cut_off("the node's results have no end")),
                None => return Err(cut_off("the thread that takes a node's results in ended before its time")),
            }
        }
    }

    /// Whether all of a stream has come, from its schema to the mark of its end.
    fn is_whole(&mut self) -> bool {
        // The decoder itself is content with an end between two messages; behind the mark it takes no further byte.
        let mut more = Buffer::from_vec(vec![0_u8]);
        self.decoder.schema().is_some() && self.decoder.finish().is_ok() && self.decoder.decode(&mut more).is_err()
    }

    fn labelled(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        labelled(&self.schema, batch)
    }

    /// The rows, in order. If the node refuses before the first of them has come, they are those of the plan that is given.
    async fn or(
        mut self,
        instead: impl FnOnce() -> Result<SendableRecordBatchStream>,
    ) -> BoxStream<'static, Result<RecordBatch>> {
        let first = match self.next().await {
            Err(error) if !self.any && is_refused(&error) => {
                tracing::warn!(%error, "the work is done here instead");
                self.metrics.refused.add(1);
                return match instead() {
                    Ok(batches) => {
                        let schema = Arc::clone(&self.schema);
                        batches.map(move |batch| labelled(&schema, &batch?)).boxed()
                    }
                    Err(error) => futures::stream::once(async move { Err(error) }).boxed(),
                };
            }
            Ok(None) => return futures::stream::empty().boxed(),
            Ok(Some(batch)) => Ok(batch),
            Err(error) => Err(error),
        };
        futures::stream::once(async move { first }).chain(self.rows()).boxed()
    }

    /// The rows that are still to come, in order.
    pub(super) fn rows(self) -> BoxStream<'static, Result<RecordBatch>> {
        let rows = futures::stream::try_unfold(self, |mut arriving| async move {
            Ok::<_, DataFusionError>(arriving.next().await?.map(|batch| (batch, arriving)))
        });
        rows.boxed()
    }
}

/// Whether a node has said itself that it does not do the work, for whatever reason; one that is lost says nothing.
fn is_refused(error: &DataFusionError) -> bool {
    let DataFusionError::External(error) = error.find_root() else { return false };
    error.downcast_ref::<PushFailed>().is_some_and(|failed| was_answered(&failed.source))
}

/// Whether this error is the node's own answer to an order, so that the connection and the node go on.
///
/// A node that has no memory for an order answers [`Refused`](ishigaki_remote::Error::Refused). One that finds fault with
/// it, or fails at the work, answers with an error of its medium.
pub(super) fn was_answered(error: &ishigaki_remote::Error) -> bool {
    matches!(error, ishigaki_remote::Error::Refused { .. } | ishigaki_remote::Error::Device(_))
}

fn cut_off(what: &str) -> DataFusionError {
    DataFusionError::Execution(format!("{what}, so rows may be missing; the log of whoever failed tells why"))
}

impl DisplayAs for PushScan {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, units) = (self.scan.table.name(), &self.scan.units);
        let pages: u64 = units.runs.iter().map(|unit| unit.pages.end - unit.pages.start).sum();
        let all = units.pages + units.skipped;
        if matches!(format, DisplayFormatType::TreeRender) {
            return write!(f, "table={name}\nplacement=push\npages={pages} of {all}");
        }
        write!(f, "IshigakiPushScan: table={name}, placement=push, pages={pages} of {all}")?;
        self.scan.write_conditions(f)?;
        for step in &self.steps {
            write!(f, ", then {step}")?;
        }
        let columns: Vec<&str> = self.schema.fields().iter().map(|field| field.name().as_str()).collect();
        write!(f, ", columns=[{}]", columns.join(", "))?;
        if let Some(limit) = self.scan.limit {
            write!(f, ", limit={limit}")?;
        }
        if self.divided.is_some() {
            write!(f, ", divided")?;
        }
        for estimate in &self.estimates {
            write!(f, ", estimated=[{estimate}]")?;
        }
        Ok(())
    }
}

impl ExecutionPlan for PushScan {
    fn name(&self) -> &'static str {
        "IshigakiPushScan"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    crate::operator!(leaf);

    fn apply_expressions(
        &self,
        visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.scan.apply_expressions(visit)
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(&self, _: &[Arc<Statistics>], _: &StatisticsArgs) -> Result<Arc<Statistics>> {
        Ok(Arc::new(Statistics::new_unknown(&self.schema)))
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        if let Some(divided) = &self.divided {
            divided.reset();
        }
        Ok(self)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if let (Some(divided), Some(&part), 0) = (&self.divided, self.parts.first(), partition) {
            let (run, metrics) = (divided.join(Taker::There), Metrics::new(&self.metrics, partition));
            let turns = Turns { job: Arc::new(self.job(part)), run, schema: Arc::clone(&self.schema), metrics };
            return Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), turns.rows())));
        }
        let (Some(&part), Some(instead)) = (self.parts.get(partition), self.instead.get(partition).cloned()) else {
            return Err(DataFusionError::Internal(format!("a scan has no partition {partition}")));
        };
        let metrics = Metrics::new(&self.metrics, partition);
        let node = self.scan.table.parts()[part].node.clone();
        let instead = move || {
            if let Some(node) = &node {
                node.note_refusal();
            }
            instead.execute(0, context)
        };
        let begun = (self.job(part), Arc::clone(&self.schema), metrics);
        // Not before somebody wants rows: until then joins may find out more.
        let batches = futures::stream::once(async move {
            let (job, schema, metrics) = begun;
            let pull = move |metrics: &Metrics, sender: &Sender<Result<Piece>>| {
                job.pull(&job.units(), metrics, sender, &|| true)
            };
            Arriving::of(pull, schema, metrics).or(instead).await
        });
        let batches = batches.flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), batches)))
    }
}
