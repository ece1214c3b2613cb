//! Partial sums, averages and counts of groups, taken from pages without making rows of them.
//!
//! ```text
//!   AggregateExec (partial) ┐               filter ─▶ which rows ─▶ slots of their groups ─▶ counts and sums
//!   ProjectionExec          ├─▶ Tally       columns as 64-bit integers ─▶ sums and products ─┘
//!   IshigakiPageScan        ┘
//! ```
//!
//! What comes out are the same states of the same groups as from DataFusion's operators, to be merged by the same ones. A
//! page that is not made for this (a null, numbers that may need more than 64 bits, strings without a dictionary, too many
//! groups) ends it for its partition: what was counted until then comes out, and the rest of the pages goes through
//! DataFusion's operators, row by row. So a tally never answers otherwise than they do.
//!
//! Parts: [`recipe`] finds what can be counted this way, [`program`] computes columns, [`keys`] finds groups, [`sums`] adds.

mod keys;
mod program;
mod recipe;
mod rest;
mod sums;

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::metrics::{BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::{StreamExt, TryStreamExt};
use ishigaki_page::Page;

use super::exec::PageScan;
use super::filter::Chosen;
use super::reading::Reading;
use crate::aggregate;
use keys::Keys;
use program::Values;
use recipe::Recipe;
use sums::Sums;

/// The rule that has groups counted on pages wherever that can be: behind all others, since these know nothing of the operator.
#[derive(Debug, Default)]
pub struct TallyPages;

impl PhysicalOptimizerRule for TallyPages {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        tallied(plan)
    }

    fn name(&self) -> &'static str {
        "tally_pages"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// A plan in which groups are counted on pages wherever that can be.
pub(crate) fn tallied(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let changed = plan.transform_down(|plan| {
        let Some(aggregate) = plan.downcast_ref::<AggregateExec>() else { return Ok(Transformed::no(plan)) };
        Ok(match counted(&plan, aggregate)? {
            Some(counted) => Transformed::new(counted, true, TreeNodeRecursion::Jump),
            None => Transformed::no(plan),
        })
    })?;
    Ok(changed.data)
}

/// What gives the same as an aggregate, if its partial results can be counted on pages.
fn counted(plan: &Arc<dyn ExecutionPlan>, of: &AggregateExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let tally = |plan, of| Tally::of(plan, of).map(|tally| Arc::new(tally) as Arc<dyn ExecutionPlan>);
    let in_one = of.input().properties().partitioning.partition_count() == 1;
    if *of.mode() == AggregateMode::Partial {
        return Ok(tally(plan, of));
    }
    if !aggregate::splits(*of.mode()) || !in_one || of.limit_options().is_some() {
        return Ok(None);
    }
    let partial = aggregate::partial(of, Arc::clone(of.input()))?;
    let Some(tally) = tally(&(Arc::new(partial.clone()) as Arc<dyn ExecutionPlan>), &partial) else { return Ok(None) };
    Ok(Some(Arc::new(aggregate::whole(of, tally)?)))
}

/// Counts groups on the pages of a scan.
#[derive(Debug)]
pub(crate) struct Tally {
    /// The operators that it does the work of, the innermost first; the last one is the aggregate.
    instead_of: Vec<Arc<dyn ExecutionPlan>>,
    input: Arc<dyn ExecutionPlan>,
    scan: PageScan,
    recipe: Recipe,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl Tally {
    /// What does the work of an aggregate's, if it can be done on pages.
    fn of(plan: &Arc<dyn ExecutionPlan>, aggregate: &AggregateExec) -> Option<Self> {
        let (recipe, instead_of, input) = Recipe::of(plan, aggregate)?;
        let scan = input.downcast_ref::<PageScan>()?.clone();
        let properties = Arc::clone(aggregate.properties());
        Some(Self { instead_of, input, scan, recipe, properties, metrics: ExecutionPlanMetricsSet::new() })
    }

    /// The same on another input; by DataFusion's operators if that is no scan of pages.
    fn on(&self, input: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        tallied(rest::over(input, &self.instead_of)?)
    }
}

impl DisplayAs for Tally {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(aggregate) = self.instead_of.last().and_then(|last| last.downcast_ref::<AggregateExec>()) else {
            return write!(f, "IshigakiTally");
        };
        let groups: Vec<&str> = aggregate.group_expr().expr().iter().map(|(_, name)| name.as_str()).collect();
        let states: Vec<&str> = aggregate.aggr_expr().iter().map(|aggregate| aggregate.name()).collect();
        if matches!(format, DisplayFormatType::TreeRender) {
            return write!(f, "group_by={}\naggr={}", groups.join(", "), states.join(", "));
        }
        write!(f, "IshigakiTally: gby=[{}], aggr=[{}]", groups.join(", "), states.join(", "))
    }
}

impl ExecutionPlan for Tally {
    fn name(&self) -> &'static str {
        "IshigakiTally"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    crate::operator!(input by on);

    crate::operator!(no expressions);

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let reading = Reading::new(&self.scan, partition, context.session_config().batch_size())?;
        let counting = Counting::new(self, partition, &context)?;
        let (schema, instead_of) = (self.schema(), self.instead_of.clone());
        let batches = futures::stream::once(async move {
            let (counted, rest) = counting.count(reading).await?;
            let counted = futures::stream::iter(counted.map(Ok));
            Ok::<_, DataFusionError>(match rest {
                None => counted.boxed(),
                Some(rest) => counted.chain(rest::run(rest, &instead_of, context)?).boxed(),
            })
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches.try_flatten())))
    }
}

/// What was counted of one partition.
struct Counting {
    recipe: Recipe,
    schema: SchemaRef,
    keys: Keys,
    sums: Sums,
    memory: MemoryReservation,
    values: Values,
    slots: Vec<u32>,
    placed: Vec<u32>,
    metrics: BaselineMetrics,
    pages: Count,
}

impl Counting {
    fn new(tally: &Tally, partition: usize, context: &TaskContext) -> Result<Self> {
        let keys = tally.recipe.keys.clone();
        let slots = keys.slots().unwrap_or(keys::SLOTS);
        let memory = MemoryConsumer::new("IshigakiTally").register(context.memory_pool());
        memory.try_grow(Sums::bytes(tally.recipe.sums.len(), slots))?;
        Ok(Self {
            schema: tally.schema(),
            sums: Sums::new(tally.recipe.sums.len(), slots),
            recipe: tally.recipe.clone(),
            keys,
            memory,
            values: Values::default(),
            slots: Vec::new(),
            placed: Vec::new(),
            metrics: BaselineMetrics::new(&tally.metrics, partition),
            pages: MetricBuilder::new(&tally.metrics).counter("pages_counted", partition),
        })
    }

    /// Counts pages. Gives the states of the groups, and the reading if there are pages that are not made for this.
    async fn count(mut self, mut reading: Reading) -> Result<(Option<RecordBatch>, Option<Reading>)> {
        let mut rest = None;
        while let Some((part, pages)) = reading.next_pages().await? {
            let compute = self.metrics.elapsed_compute().clone();
            let timer = compute.timer();
            let chosen = reading.choose(part, &pages)?;
            let mut done = 0;
            for (page, chosen) in pages.iter().zip(&chosen) {
                if !self.add(page, chosen)? {
                    break;
                }
                done += 1;
            }
            self.pages.add(done);
            timer.done();
            if done < pages.len() {
                reading.give_back(part, pages[done..].to_vec());
                rest = Some(reading);
                break;
            }
            // Pages that are all in memory are nothing to wait for.
            tokio::task::consume_budget().await;
        }
        let states = self.states()?;
        if let Some(states) = &states {
            self.metrics.output_rows().add(states.num_rows());
        }
        Ok((states, rest))
    }

    /// Takes the rows of a page in; false if it is not made for this.
    fn add(&mut self, page: &Page, chosen: &Chosen) -> Result<bool> {
        // Where most rows pass, the others are counted for nobody.
        let (rows, placed) = match chosen {
            Chosen::All => (None, None),
            Chosen::These(rows) if rows.is_empty() => return Ok(true),
            Chosen::These(rows) if rows.len() * 2 > page.rows() => (None, Some(rows)),
            Chosen::These(rows) => (Some(rows.as_slice()), None),
        };
        let before = self.keys.radices();
        if !self.keys.find(page, rows, &mut self.slots)? {
            return Ok(false);
        }
        let now = self.keys.radices();
        if now != before {
            let bytes = Sums::bytes(self.recipe.sums.len(), now.iter().product());
            self.memory.try_resize(bytes)?;
            self.sums.renumber(&before, &now);
        }
        if !self.recipe.program.run(page, rows, &mut self.values).map_err(super::through)? {
            return Ok(false);
        }
        if let Some(rows) = placed {
            self.placed.clear();
            self.placed.resize(page.rows(), self.sums.nobody());
            for &row in rows {
                self.placed[row as usize] = self.slots[row as usize];
            }
            std::mem::swap(&mut self.placed, &mut self.slots);
        }
        let values: Vec<&[i64]> = self.recipe.sums.iter().map(|&step| self.values.of(step)).collect();
        let magnitude = self.recipe.sums.iter().map(|&step| self.values.magnitude(step)).max().unwrap_or(0);
        self.sums.add(&self.slots, &values, magnitude);
        Ok(true)
    }

    /// The states of all groups; nothing if there is none.
    fn states(&self) -> Result<Option<RecordBatch>> {
        let used = self.sums.used();
        if used.is_empty() {
            return Ok(None);
        }
        let mut columns = self.keys.columns(&used)?;
        columns.extend(self.recipe.states(&self.sums, &used, &self.schema)?);
        Ok(Some(RecordBatch::try_new(Arc::clone(&self.schema), columns)?))
    }
}
