//! One partition of a scan, from pages to batches.
//!
//! The next unit is read while this one is worked on. What others may have in mind is looked at before each unit: a join
//! that has read its other side, a TOP-K that has found better rows, and pages that can no longer matter are not read.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::runtime::SpawnedTask;
use datafusion::error::{DataFusionError, Result};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr_common::physical_expr::{snapshot_generation, snapshot_physical_expr};
use datafusion::physical_plan::metrics::{BaselineMetrics, Count, MetricBuilder, Time};
use futures::Stream;
use ishigaki_page::{Page, PageDecoder, Reader};

use super::divided::{Next, Run, Taker};
use super::exec::PageScan;
use super::filter::{Chosen, Filter};
use super::units::Unit;
use super::{PageCache, PagedTable, Part, labelled, prune, through};

/// Pages of one unit, as they become known.
type Pages = Vec<Arc<Page>>;

/// What is still to be done of one partition.
pub(super) struct Reading {
    table: Arc<PagedTable>,
    schema: SchemaRef,
    projection: Vec<usize>,
    filter: Option<Arc<Filter>>,
    dynamic: Dynamic,
    units: Source,
    /// The unit that is being read.
    ahead: Option<Ahead>,
    /// How many pages the unit has that is worked on.
    under_way: u64,
    /// Pages that somebody took and did not want.
    returned: Option<(usize, Pages)>,
    /// Decoders of the part that is worked on.
    decoders: Option<Decoders>,
    ready: VecDeque<RecordBatch>,
    batch_rows: usize,
    /// Rows until the limit.
    left: usize,
    metrics: Metrics,
}

/// Where units come from.
enum Source {
    Own(VecDeque<Unit>),
    /// A queue that others take from, too.
    Shared(Arc<Run>),
}

impl Source {
    fn next(&mut self) -> Next<Unit> {
        match self {
            Self::Own(units) => units.pop_front().map_or(Next::Nothing, Next::Now),
            Self::Shared(run) => run.fetch(),
        }
    }

    fn shared(&self) -> Option<Arc<Run>> {
        match self {
            Self::Own(_) => None,
            Self::Shared(run) => Some(Arc::clone(run)),
        }
    }

    /// So many pages that came from it are done.
    fn done(&self, pages: u64) {
        if let Self::Shared(run) = self {
            run.fetched(pages);
        }
    }
}

/// A unit that is being read.
struct Ahead {
    part: usize,
    /// With those that are skipped.
    pages: u64,
    fetch: Fetch,
}

/// A unit on its way.
enum Fetch {
    /// All of it was in the cache.
    Here(Pages),
    Coming(SpawnedTask<ishigaki_page::Result<Pages>>),
}

struct Decoders {
    part: usize,
    /// Of the columns that the filter needs unpacked.
    filter: Option<PageDecoder>,
    /// Of the columns that come out.
    output: PageDecoder,
}

struct Metrics {
    baseline: BaselineMetrics,
    read: Count,
    /// Of those read, what came from storage nodes.
    fetched: Count,
    cached: Count,
    skipped: Count,
    waiting: Time,
}

impl Reading {
    pub(super) fn new(scan: &PageScan, partition: usize, batch_rows: usize) -> Result<Self> {
        if partition >= scan.units.partitions {
            return Err(DataFusionError::Internal(format!("a scan has no partition {partition}")));
        }
        let counter = |name: &'static str| MetricBuilder::new(&scan.metrics).counter(name, partition);
        let metrics = Metrics {
            baseline: BaselineMetrics::new(&scan.metrics, partition),
            read: counter("pages_read"),
            fetched: counter("bytes_fetched"),
            cached: counter("pages_from_cache"),
            skipped: counter("pages_skipped"),
            waiting: MetricBuilder::new(&scan.metrics).subset_time("time_waiting_for_pages", partition),
        };
        if partition == 0 {
            metrics.skipped.add(scan.units.skipped as usize);
        }
        Ok(Self {
            table: Arc::clone(&scan.table),
            schema: Arc::clone(&scan.schema),
            projection: scan.projection.clone(),
            filter: scan.filter.clone(),
            dynamic: Dynamic::new(&scan.dynamic, &scan.schema, scan.table.parts().len()),
            units: match &scan.divided {
                None => Source::Own(scan.units.of_partition(partition).into()),
                Some(divided) => Source::Shared(divided.join(Taker::Here(partition))),
            },
            ahead: None,
            under_way: 0,
            returned: None,
            decoders: None,
            ready: VecDeque::new(),
            batch_rows,
            left: scan.limit.unwrap_or(usize::MAX),
            metrics,
        })
    }

    /// Of what comes out.
    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// All batches that are left.
    pub(super) fn batches(self) -> impl Stream<Item = Result<RecordBatch>> {
        futures::stream::try_unfold(self, |mut reading| async move {
            Ok::<_, DataFusionError>(reading.next().await?.map(|batch| (batch, reading)))
        })
    }

    /// The next batch; none behind the last.
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if self.left == 0 {
                return Ok(None);
            }
            if let Some(batch) = self.ready.pop_front() {
                let batch = if batch.num_rows() > self.left { batch.slice(0, self.left) } else { batch };
                self.left -= batch.num_rows();
                self.metrics.baseline.output_rows().add(batch.num_rows());
                return Ok(Some(batch));
            }
            let Some((part, pages)) = self.next_pages().await? else {
                if self.flush()? {
                    continue;
                }
                return Ok(None);
            };
            let compute = self.metrics.baseline.elapsed_compute().clone();
            let timer = compute.timer();
            self.work(part, &pages)?;
            timer.done();
            self.settle();
        }
    }

    /// The next pages of one part, and which part that is; none behind the last. Whoever asks has done all that came before. For
    /// those who have no use for batches.
    pub(super) async fn next_pages(&mut self) -> Result<Option<(usize, Pages)>> {
        if let Some(returned) = self.returned.take() {
            return Ok(Some(returned));
        }
        self.settle();
        let Some(Ahead { part, pages, fetch }) = self.take_unit().await? else { return Ok(None) };
        self.under_way = pages;
        Ok(Some((part, arrive(fetch, &self.metrics.waiting).await?)))
    }

    /// The unit that was worked on is done.
    fn settle(&mut self) {
        let pages = std::mem::take(&mut self.under_way);
        if pages > 0 {
            self.units.done(pages);
        }
    }

    /// Takes pages back that are to come out as batches after all.
    pub(super) fn give_back(&mut self, part: usize, pages: Pages) {
        self.returned = Some((part, pages));
    }

    /// Which rows of pages of one part pass.
    pub(super) fn choose(&mut self, part: usize, pages: &[Arc<Page>]) -> Result<Vec<Chosen>> {
        let Some(filter) = &self.filter else { return Ok(pages.iter().map(|_| Chosen::All).collect()) };
        let filter = Arc::clone(filter);
        filter.choose(pages, self.decoders(part)?.filter.as_mut())
    }

    /// The unit that was read ahead, and sees to the next one.
    async fn take_unit(&mut self) -> Result<Option<Ahead>> {
        while self.ahead.is_none() {
            match self.begin()? {
                Next::Now(ahead) => self.ahead = Some(ahead),
                Next::Later => {
                    if let Some(run) = self.units.shared() {
                        run.changed().await;
                    }
                }
                Next::Nothing => return Ok(None),
            }
        }
        let now = self.ahead.take();
        if let Next::Now(ahead) = self.begin()? {
            self.ahead = Some(ahead);
        }
        Ok(now)
    }

    /// Begins to read the next unit of which something may matter.
    fn begin(&mut self) -> Result<Next<Ahead>> {
        loop {
            let unit = match self.units.next() {
                Next::Now(unit) => unit,
                Next::Later => return Ok(Next::Later),
                Next::Nothing => return Ok(Next::Nothing),
            };
            let wanted = self.dynamic.wanted(&self.table, &unit)?;
            let (part, pages) = (unit.part, unit.count());
            self.metrics.skipped.add(pages as usize - wanted.len());
            if wanted.is_empty() {
                self.units.done(pages);
                continue;
            }
            let fetch = fetch(&self.table.parts()[part], &self.table.cache, wanted, &self.metrics)?;
            return Ok(Next::Now(Ahead { part, pages, fetch }));
        }
    }

    /// Decodes pages of one part.
    fn work(&mut self, part: usize, pages: &[Arc<Page>]) -> Result<()> {
        let chosen = self.choose(part, pages)?;
        let batch_rows = self.batch_rows;
        let decoders = self.decoders(part)?;
        let mut done = Vec::new();
        for (page, chosen) in pages.iter().zip(chosen) {
            chosen.decode(page, &mut decoders.output)?;
            if decoders.output.rows() >= batch_rows {
                done.push(decoders.output.finish().map_err(through)?);
            }
        }
        done.into_iter().try_for_each(|batch| self.hand_out(&batch))
    }

    /// The decoders of a part; what those of another one have is handed out before.
    fn decoders(&mut self, part: usize) -> Result<&mut Decoders> {
        if self.decoders.as_ref().is_none_or(|decoders| decoders.part != part) {
            self.flush()?;
            self.decoders = None;
        }
        let decoders = match self.decoders.take() {
            Some(decoders) => decoders,
            None => self.decoders_of(part)?,
        };
        Ok(self.decoders.insert(decoders))
    }

    fn decoders_of(&self, part: usize) -> Result<Decoders> {
        let reader = &self.table.parts()[part].reader;
        let unpacked = self.filter.as_ref().and_then(|filter| filter.unpacked());
        let filter = unpacked.map(|columns| reader.decoder(columns)).transpose();
        let output = reader.decoder(&self.projection);
        Ok(Decoders { part, filter: filter.map_err(through)?, output: output.map_err(through)? })
    }

    /// Hands out what is decoded and not enough for a whole batch. False if there is nothing.
    fn flush(&mut self) -> Result<bool> {
        match &mut self.decoders {
            Some(decoders) if decoders.output.rows() > 0 => {
                let batch = decoders.output.finish().map_err(through)?;
                self.hand_out(&batch)?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Puts a batch of the file's columns in line, as the plan has them.
    fn hand_out(&mut self, batch: &RecordBatch) -> Result<()> {
        self.ready.push_back(labelled(&self.schema, batch)?);
        Ok(())
    }
}

/// The pages of a unit, when all are there.
async fn arrive(fetch: Fetch, waiting: &Time) -> Result<Pages> {
    match fetch {
        Fetch::Here(pages) => Ok(pages),
        Fetch::Coming(task) => {
            let _timer = waiting.timer();
            let pages = task.await.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))?;
            pages.map_err(through)
        }
    }
}

/// Begins to read pages; those in the cache are not read.
fn fetch(part: &Part, cache: &Arc<PageCache>, wanted: Vec<u64>, metrics: &Metrics) -> Result<Fetch> {
    let reader = &part.reader;
    let mut pages: Vec<(u64, Option<Arc<Page>>)> = Vec::with_capacity(wanted.len());
    let mut missing = 0;
    for page in wanted {
        let found = cache.get(&reader.address(page).map_err(through)?);
        missing += usize::from(found.is_none());
        pages.push((page, found));
    }
    metrics.cached.add(pages.len() - missing);
    metrics.read.add(missing);
    if missing == 0 {
        return Ok(Fetch::Here(pages.into_iter().filter_map(|(_, page)| page).collect()));
    }
    let bytes = missing as u64 * reader.page_size().as_u64();
    if part.node.is_some() {
        metrics.fetched.add(bytes as usize);
    }
    let (part, cache) = (part.clone(), Arc::clone(cache));
    Ok(Fetch::Coming(SpawnedTask::spawn_blocking(move || {
        let begin = Instant::now();
        let pages = read_missing(&part.reader, &cache, pages);
        if let (Some(node), Ok(_)) = (&part.node, &pages) {
            node.observe(bytes, begin.elapsed());
        }
        pages
    })))
}

/// Reads what is missing, pages that follow each other by one request.
fn read_missing(
    reader: &Reader,
    cache: &PageCache,
    pages: Vec<(u64, Option<Arc<Page>>)>,
) -> ishigaki_page::Result<Pages> {
    let mut all = Vec::with_capacity(pages.len());
    let mut pages = pages.into_iter().peekable();
    while let Some((number, found)) = pages.next() {
        if let Some(page) = found {
            all.push(page);
            continue;
        }
        let mut end = number + 1;
        while pages.next_if(|(next, found)| *next == end && found.is_none()).is_some() {
            end += 1;
        }
        for page in reader.page_run(number..end)? {
            let page = Arc::new(page);
            cache.keep(&reader.address(page.number())?, &page);
            all.push(page);
        }
    }
    Ok(all)
}

/// Filters that become sharper, and what they say of pages now.
pub(super) struct Dynamic {
    filters: Vec<Arc<dyn PhysicalExpr>>,
    schema: SchemaRef,
    generation: Option<u64>,
    /// For each part whether its pages are wanted; nothing if all are.
    wanted: Vec<Option<Vec<bool>>>,
}

impl Dynamic {
    pub(super) fn new(filters: &[Arc<dyn PhysicalExpr>], schema: &SchemaRef, parts: usize) -> Self {
        let (filters, schema) = (filters.to_vec(), Arc::clone(schema));
        Self { filters, schema, generation: None, wanted: vec![None; parts] }
    }

    /// The pages of a unit that may matter.
    pub(super) fn wanted(&mut self, table: &PagedTable, unit: &Unit) -> Result<Vec<u64>> {
        if !self.filters.is_empty() {
            self.look(table)?;
        }
        let wanted = self.wanted.get(unit.part).and_then(Option::as_ref);
        let is_wanted =
            |page: &u64| wanted.is_none_or(|wanted| wanted.get(*page as usize).is_none_or(|&wanted| wanted));
        Ok(unit.pages.clone().filter(is_wanted).collect())
    }

    /// Judges all pages again if a filter has changed.
    fn look(&mut self, table: &PagedTable) -> Result<()> {
        let now = self.filters.iter().map(snapshot_generation).fold(0, u64::wrapping_add);
        if self.generation == Some(now) {
            return Ok(());
        }
        self.generation = Some(now);
        self.wanted.fill(None);
        for filter in &self.filters {
            let sharp = snapshot_physical_expr(Arc::clone(filter))?;
            for (wanted, part) in self.wanted.iter_mut().zip(table.parts()) {
                let Some(kept) = prune::pages(&part.reader, &sharp, &self.schema)? else { continue };
                match wanted {
                    None => *wanted = Some(kept),
                    Some(wanted) => wanted.iter_mut().zip(kept).for_each(|(wanted, kept)| *wanted &= kept),
                }
            }
        }
        Ok(())
    }
}
