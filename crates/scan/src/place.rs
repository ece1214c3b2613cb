//! Where each scan of a plan is done: the last rule that a physical plan goes through.
//!
//! ```text
//!   AggregateExec (partial) ┐
//!   ProjectionExec          ├─ the longest piece that can travel ─▶ PushScan
//!   IshigakiPageScan        ┘
//! ```
//!
//! A scan whose pages lie at storage nodes is pushed if the user wishes so, or if that is estimated to be faster
//! ([`cost`](crate::cost)); with it goes what is computed of its rows alone and makes fewer of them: partial aggregates,
//! and the first rows of an order. Parts of the same table may be placed differently; then the results are united. So they
//! are where a scan is left to us that is long enough to be divided: both ways are in the plan then, and which one does how
//! much turns out while it runs ([`division`](crate::division)). A plan that can not travel is fetched: pushing is a wish, and
//! an answer is the same either way.

use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::config::{ConfigExtension, ConfigOptions};
use datafusion::common::extensions_options;
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::union::UnionExec;

use crate::cost::{Estimate, Scan, choose, estimate};
use crate::forecast::{Forecast, surroundings};
use crate::fragment::step::Step;
use crate::table::{DIVISIBLE, Divided, PageScan, PushScan};
use crate::{Placement, Wish, aggregate};

extensions_options! {
    /// What the user wishes about scans, as `SET ishigaki.…` says it.
    pub struct ScanOptions {
        /// A [`Wish`].
        pub placement: String, default = Wish::default().to_string()
        /// Whether one scan may be done in both ways at the same time, in this process.
        pub divide: bool, default = true
    }
}

impl ConfigExtension for ScanOptions {
    const PREFIX: &'static str = "ishigaki";
}

impl ScanOptions {
    fn divides(options: &ConfigOptions) -> bool {
        options.extensions.get::<Self>().is_none_or(|own| own.divide)
    }

    /// What is wished, or the usual where nothing was said.
    pub fn wish(options: &ConfigOptions) -> Wish {
        options.extensions.get::<Self>().and_then(|own| own.placement.parse().ok()).unwrap_or_default()
    }
}

/// The rule.
#[derive(Debug, Default)]
pub struct PlaceScans;

impl PhysicalOptimizerRule for PlaceScans {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, options: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let threads = options.execution.target_partitions;
        Rule { wish: ScanOptions::wish(options), divides: ScanOptions::divides(options), threads }.place(plan)
    }

    fn name(&self) -> &'static str {
        "place_scans"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

struct Rule {
    wish: Wish,
    divides: bool,
    threads: usize,
}

/// Operators from one that may travel down to the scan.
struct Chain<'a> {
    /// Above the scan, the innermost first.
    above: Vec<&'a Arc<dyn ExecutionPlan>>,
    scan: &'a PageScan,
}

impl<'a> Chain<'a> {
    fn of(top: &'a Arc<dyn ExecutionPlan>) -> Option<Self> {
        let (mut above, mut node) = (Vec::new(), top);
        loop {
            if let Some(scan) = node.downcast_ref::<PageScan>() {
                above.reverse();
                return Some(Self { above, scan });
            }
            // At the top alone: what is above of it is not of single rows any more.
            let ends = node.is::<AggregateExec>() || node.is::<SortExec>();
            if !(node.is::<ProjectionExec>() || (ends && above.is_empty())) {
                return None;
            }
            above.push(node);
            node = node.children().first().copied()?;
        }
    }

    /// What of it can travel.
    fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        for node in &self.above {
            let step = if let Some(projection) = node.downcast_ref::<ProjectionExec>() {
                Step::of_projection(projection).ok()
            } else if let Some(sort) = node.downcast_ref::<SortExec>() {
                Step::of_sort(sort).ok().flatten()
            } else {
                let aggregate = node.downcast_ref::<AggregateExec>().filter(|of| aggregate::splits(*of.mode()));
                aggregate.and_then(|aggregate| Step::of_aggregate(aggregate).ok())
            };
            match step {
                Some(step) => steps.push(step),
                None => break,
            }
        }
        // Computing columns there makes nothing less here.
        while matches!(steps.last(), Some(Step::Project(_))) {
            steps.pop();
        }
        steps
    }
}

impl Rule {
    fn place(&self, plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        if let Some(placed) = Chain::of(&plan).map(|chain| self.place_chain(&plan, &chain)).transpose()? {
            return Ok(placed);
        }
        let children = plan.children().into_iter().map(|child| self.place(Arc::clone(child)));
        let children = children.collect::<Result<Vec<_>>>()?;
        replace_children_if_necessary(plan, children)
    }

    fn place_chain(&self, top: &Arc<dyn ExecutionPlan>, chain: &Chain<'_>) -> Result<Arc<dyn ExecutionPlan>> {
        let steps = chain.steps();
        let placed = self.parts(chain.scan, &steps);
        // For the case that it stays as it is.
        chain.scan.note(placed.fetched.iter().copied().chain(placed.divided.iter().map(|both| both.fetch)).collect());
        if placed.pushed.is_empty() && placed.divided.is_empty() {
            return Ok(Arc::clone(top));
        }
        let (within, beyond) = chain.above.split_at(steps.len());
        let Some(mut inputs) = placed.inputs(chain.scan, &steps, within)? else { return Ok(Arc::clone(top)) };
        let united = if inputs.len() > 1 { UnionExec::try_new(inputs)? } else { inputs.remove(0) };
        let before =
            within.last().map_or(chain.scan.units.partitions, |node| node.properties().partitioning.partition_count());
        over(complete(within, united, before)?, beyond)
    }

    /// What is decided about each part at a node that is scanned.
    fn parts(&self, scan: &PageScan, steps: &[Step]) -> Placed {
        let mut placed = Placed::default();
        for (at, part) in scan.table.parts().iter().enumerate() {
            let any = scan.units.runs.iter().any(|unit| unit.part == at);
            let Some(node) = part.node.as_ref().filter(|_| any) else { continue };
            let Forecast { scan, around } = Forecast::of(scan, at, steps, surroundings(node, self.threads));
            let of = |placement| estimate(placement, &scan, &around);
            let divisible = self.divides && scan.pages * scan.page_size.as_u64() >= DIVISIBLE;
            let estimate = match self.wish.settled(false) {
                Some(placement) => of(placement),
                None if divisible => {
                    let (fetch, push) = (of(Placement::Fetch), of(Placement::Push));
                    placed.divided.push(Both { part: at, scan, fetch, push });
                    continue;
                }
                None => choose(&scan, &around),
            };
            if estimate.placement == Placement::Push {
                placed.pushed.push(at);
                placed.estimates.push(estimate);
            } else {
                placed.fetched.push(estimate);
            }
        }
        placed
    }
}

/// Where the parts at nodes go.
#[derive(Default)]
struct Placed {
    pushed: Vec<usize>,
    /// Of those that are pushed.
    estimates: Vec<Estimate>,
    /// Estimates of those that are fetched.
    fetched: Vec<Estimate>,
    divided: Vec<Both>,
}

/// A part that is done in both ways.
struct Both {
    part: usize,
    scan: Scan,
    fetch: Estimate,
    push: Estimate,
}

impl Placed {
    /// What gives the results of all parts together; nothing if the work can not travel.
    fn inputs(
        self,
        scan: &PageScan,
        steps: &[Step],
        within: &[&Arc<dyn ExecutionPlan>],
    ) -> Result<Option<Vec<Arc<dyn ExecutionPlan>>>> {
        let schema = partial_schema(within, scan)?;
        let mut inputs: Vec<Arc<dyn ExecutionPlan>> = Vec::new();
        let goes = |part| self.pushed.contains(&part) || self.divided.iter().any(|both| both.part == part);
        let rest = scan.of_parts(|part| !goes(part))?;
        if !rest.units.runs.is_empty() {
            rest.note(self.fetched.clone());
            inputs.push(here(within, rest)?);
        }
        if !self.pushed.is_empty() {
            let instead = |part: &usize| -> Result<Arc<dyn ExecutionPlan>> {
                Ok(together(here(within, scan.of_parts(|other| other == *part)?)?))
            };
            let instead = self.pushed.iter().map(instead).collect::<Result<Vec<_>>>()?;
            let made =
                PushScan::new(scan, self.pushed.clone(), steps.to_vec(), instead, Arc::clone(&schema), self.estimates);
            let Ok(push) = made else { return Ok(None) };
            inputs.push(Arc::new(push));
        }
        for Both { part, scan: of, fetch, push } in self.divided {
            let own = scan.of_parts(|other| other == part)?;
            let divided = Arc::new(Divided::new(&own, &of, (&fetch, &push), steps.is_empty()));
            let made = PushScan::new(&own, vec![part], steps.to_vec(), Vec::new(), Arc::clone(&schema), vec![push]);
            let Ok(push) = made else { return Ok(None) };
            own.note(vec![fetch]);
            inputs.push(here(within, own.divided(&divided))?);
            inputs.push(Arc::new(push.divided(&divided)));
        }
        Ok(Some(inputs))
    }
}

/// The operators, one on the other, on another input.
fn over(input: Arc<dyn ExecutionPlan>, above: &[&Arc<dyn ExecutionPlan>]) -> Result<Arc<dyn ExecutionPlan>> {
    above.iter().try_fold(input, |input, node| replace_children_if_necessary(Arc::clone(node), vec![input]))
}

/// What comes out of the pushed steps.
fn partial_schema(within: &[&Arc<dyn ExecutionPlan>], scan: &PageScan) -> Result<SchemaRef> {
    let Some(last) = within.last() else { return Ok(Arc::clone(&scan.schema)) };
    match last.downcast_ref::<AggregateExec>() {
        Some(of) => Ok(aggregate::partial(of, Arc::clone(of.input()))?.schema()),
        None => Ok(last.schema()),
    }
}

/// The steps over a scan of our own, such that its results go with the pushed ones.
fn here(within: &[&Arc<dyn ExecutionPlan>], scan: PageScan) -> Result<Arc<dyn ExecutionPlan>> {
    partial(within, over(Arc::new(scan), &within[..within.len().saturating_sub(1)])?)
}

/// All partitions in one.
fn together(plan: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    if plan.properties().partitioning.partition_count() > 1 {
        Arc::new(CoalescePartitionsExec::new(plan))
    } else {
        plan
    }
}

/// The last of the steps where the work is done here, such that its results go with the pushed ones.
fn partial(within: &[&Arc<dyn ExecutionPlan>], input: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    match within.last() {
        Some(last) => match last.downcast_ref::<AggregateExec>() {
            Some(of) => Ok(Arc::new(aggregate::partial(of, input)?)),
            // A sort comes behind all of them.
            None => Ok(input),
        },
        None => Ok(input),
    }
}

/// Makes of partial results what was there before, in as many partitions where one was relied on.
fn complete(
    within: &[&Arc<dyn ExecutionPlan>],
    results: Arc<dyn ExecutionPlan>,
    partitions: usize,
) -> Result<Arc<dyn ExecutionPlan>> {
    let last = within.last();
    if let Some(of) = last.and_then(|last| last.downcast_ref::<AggregateExec>())
        && *of.mode() != AggregateMode::Partial
    {
        return Ok(Arc::new(aggregate::whole(of, together(results))?));
    }
    match last.filter(|last| last.is::<SortExec>()) {
        Some(sort) => {
            let sorts_each = sort.downcast_ref::<SortExec>().is_some_and(SortExec::preserve_partitioning);
            let input = if sorts_each && partitions > 1 { results } else { together(results) };
            replace_children_if_necessary(Arc::clone(sort), vec![input])
        }
        None if partitions == 1 => Ok(together(results)),
        None => Ok(results),
    }
}
