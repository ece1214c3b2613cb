//! The operator that reads a table's pages.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::Statistics;
use datafusion::common::config::ConfigOptions;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::coop::make_cooperative;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, SchedulingType};
use datafusion::physical_plan::filter_pushdown::{
    ChildPushdownResult, FilterPushdownPhase, FilterPushdownPropagation, PushedDown,
};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties};
use parking_lot::Mutex;

use super::divided::Divided;
use super::filter::Filter;
use super::reading::Reading;
use super::units::Units;
use super::{PagedTable, statistics};
use crate::Placement;
use crate::cost::Estimate;

/// Reads some columns of the rows of a table that pass a filter.
#[derive(Clone, Debug)]
pub(crate) struct PageScan {
    pub(crate) table: Arc<PagedTable>,
    /// Of what comes out.
    pub(crate) schema: SchemaRef,
    /// Positions of the table's columns, in the order in which they come out.
    pub(crate) projection: Vec<usize>,
    pub(crate) filter: Option<Arc<Filter>>,
    /// Filters over `schema` that become sharper while the query runs. They skip pages; rows are left to who made them.
    pub(crate) dynamic: Vec<Arc<dyn PhysicalExpr>>,
    /// So many rows are enough of each partition.
    pub(crate) limit: Option<usize>,
    pub(crate) units: Arc<Units>,
    /// Where its units are shared with a node that works on some of them.
    pub(super) divided: Option<Arc<Divided>>,
    /// For parts at storage nodes, when it is known where the work is done.
    estimates: Arc<Mutex<Vec<Estimate>>>,
    properties: Arc<PlanProperties>,
    pub(super) metrics: ExecutionPlanMetricsSet,
}

impl PageScan {
    pub(crate) fn new(
        table: Arc<PagedTable>,
        projection: Vec<usize>,
        filter: Option<Arc<Filter>>,
        limit: Option<usize>,
        units: Units,
    ) -> Result<Self> {
        let schema = Arc::new(table.schema.project(&projection)?);
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&schema)),
            Partitioning::UnknownPartitioning(units.partitions),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        // Else a plan of one partition has an operator for that on top of the scan, and nothing of it could travel together.
        let properties = properties.with_scheduling_type(SchedulingType::Cooperative);
        Ok(Self {
            table,
            schema,
            projection,
            filter,
            dynamic: Vec::new(),
            limit,
            units: Arc::new(units),
            divided: None,
            estimates: Arc::default(),
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }

    /// Notes what fetching is estimated to take. A plan that is otherwise as it should be need not be made anew for that:
    /// its operators know each other by their filters.
    pub(crate) fn note(&self, estimates: Vec<Estimate>) {
        *self.estimates.lock() = estimates;
    }

    /// The same of some of the parts alone.
    pub(crate) fn of_parts(&self, wanted: impl Fn(usize) -> bool) -> Result<Self> {
        let units = self.units.of_parts(wanted, &self.table);
        let limited =
            Self::new(Arc::clone(&self.table), self.projection.clone(), self.filter.clone(), self.limit, units)?;
        Ok(Self { dynamic: self.dynamic.clone(), ..limited })
    }

    /// The same, of units that are shared. Of a scan of one part.
    pub(crate) fn divided(self, divided: &Arc<Divided>) -> Self {
        Self { divided: Some(Arc::clone(divided)), ..self }
    }

    /// Where the work is done, each placement once.
    fn placements(&self) -> String {
        let mut found: Vec<Placement> = Vec::new();
        let scanned = |at: usize| self.units.runs.iter().any(|unit| unit.part == at);
        let parts = self.table.parts().iter().enumerate();
        // Of those that are scanned; where nothing is, of all.
        for (_, part) in parts.filter(|(at, _)| self.units.runs.is_empty() || scanned(*at)) {
            if !found.contains(&part.placement()) {
                found.push(part.placement());
            }
        }
        if found.is_empty() {
            found.push(Placement::Local);
        }
        found.iter().map(ToString::to_string).collect::<Vec<_>>().join("+")
    }

    /// How many rows come out.
    pub(crate) fn rows(&self) -> Precision<usize> {
        let rows = self.units.rows as usize;
        match (&self.filter, self.limit) {
            (None, None) => Precision::Exact(rows),
            (None, Some(limit)) => Precision::Inexact(rows.min(limit)),
            (Some(filter), limit) => {
                let guessed = (self.table.rows() as f64 * filter.selectivity()) as usize;
                Precision::Inexact(guessed.min(rows).min(limit.unwrap_or(usize::MAX)))
            }
        }
    }
}

impl DisplayAs for PageScan {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, placement) = (self.table.name(), self.placements());
        let (pages, all) = (self.units.pages, self.units.pages + self.units.skipped);
        if matches!(format, DisplayFormatType::TreeRender) {
            return write!(f, "table={name}\nplacement={placement}\npages={pages} of {all}");
        }
        write!(f, "IshigakiPageScan: table={name}, placement={placement}, pages={pages} of {all}")?;
        self.write_conditions(f)?;
        let columns: Vec<&str> = self.schema.fields().iter().map(|field| field.name().as_str()).collect();
        write!(f, ", columns=[{}]", columns.join(", "))?;
        if let Some(limit) = self.limit {
            write!(f, ", limit={limit}")?;
        }
        if self.divided.is_some() {
            write!(f, ", divided")?;
        }
        for estimate in &*self.estimates.lock() {
            write!(f, ", estimated=[{estimate}]")?;
        }
        Ok(())
    }
}

impl PageScan {
    /// What rows and pages must be like, as `EXPLAIN` shows it wherever the scan is done.
    pub(super) fn write_conditions(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(filter) = &self.filter {
            write!(f, ", filter=[{}]", filter.expression())?;
        }
        if !self.dynamic.is_empty() {
            let filters: Vec<String> = self.dynamic.iter().map(ToString::to_string).collect();
            write!(f, ", skips pages by=[{}]", filters.join(", "))?;
        }
        Ok(())
    }
}

impl ExecutionPlan for PageScan {
    fn name(&self) -> &'static str {
        "IshigakiPageScan"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    crate::operator!(leaf);

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        if let Some(divided) = &self.divided {
            divided.reset();
        }
        Ok(self)
    }

    fn apply_expressions(
        &self,
        visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        for expression in &self.dynamic {
            if visit(expression)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(&self, _: &[Arc<Statistics>], args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        let rows = if args.partition().is_none() {
            self.rows()
        } else {
            // Units are alike.
            let share = |rows: usize| rows / self.units.partitions;
            self.rows().to_inexact().map(share)
        };
        Ok(Arc::new(statistics::of_scan(&self.table, &self.projection, rows)?))
    }

    /// Filters that are known before the query runs came by [`TableProvider::scan`](datafusion::catalog::TableProvider).
    /// Those of joins, aggregates and TOP-K come here, and only skip pages: rows are still to be judged above.
    fn handle_child_pushdown_result(
        &self,
        phase: FilterPushdownPhase,
        child_pushdown_result: ChildPushdownResult,
        _: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        let filters: Vec<_> = child_pushdown_result.parent_filters.into_iter().map(|result| result.filter).collect();
        let unanswered = FilterPushdownPropagation::with_parent_pushdown_result(vec![PushedDown::No; filters.len()]);
        if phase == FilterPushdownPhase::Pre || filters.is_empty() {
            return Ok(unanswered);
        }
        let mut with = self.clone();
        with.dynamic.extend(filters);
        Ok(unanswered.with_updated_node(Arc::new(with) as _))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let reading = Reading::new(self, partition, context.session_config().batch_size())?;
        let batches: SendableRecordBatchStream =
            Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), reading.batches()));
        Ok(make_cooperative(batches))
    }
}
