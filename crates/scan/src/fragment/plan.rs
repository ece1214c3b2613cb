//! A fragment where it is done: checked against the file that is there, and made into operators over it.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::error::{DataFusionError, Result};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use ishigaki_page::Reader;

use super::{Fragment, Refused, Run};
use crate::table::{Filter, PageCache, PageScan, PagedTable, Part, Units, tallied};

/// What a fragment is done with.
#[derive(Clone, Debug)]
pub(crate) struct Site {
    /// The page file, as it is now.
    pub(crate) reader: Arc<Reader>,
    pub(crate) cache: Arc<PageCache>,
    pub(crate) threads: usize,
}

impl Fragment {
    /// The operators that do it; one partition. What does not fit to the file is refused.
    pub(crate) fn plan(&self, site: &Site) -> Result<Arc<dyn ExecutionPlan>> {
        let refused = |reason: String| DataFusionError::External(Box::new(Refused(reason)));
        let reader = &site.reader;
        for run in self.runs.iter() {
            check(reader, run).map_err(|reason| refused(format!("{}: {reason}", self.file)))?;
        }
        let part = Part::here(Arc::clone(reader));
        let table = PagedTable::new(&self.file, &self.columns, vec![part], Arc::clone(&site.cache))
            .map_err(|error| DataFusionError::External(Box::new(error)))?;
        let columns = table.columns();
        if let Some(column) = self.projection.iter().find(|&&column| column >= columns.fields().len()) {
            return Err(refused(format!("there is no column {column}")));
        }
        let filter = match &self.filter {
            None => None,
            Some(filter) => {
                let filter = filter.over(columns)?;
                if filter.data_type(columns)? != DataType::Boolean {
                    return Err(refused(format!("`{filter}` is no condition")));
                }
                Some(Arc::new(Filter::new(filter, columns)?))
            }
        };
        let units = Units::of_runs(reader, self.runs.iter().map(|run| run.pages.clone()), site.threads);
        let limit = self.limit.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX));
        let scan = PageScan::new(Arc::new(table), self.projection.clone(), filter, limit, units)?;
        let mut plan: Arc<dyn ExecutionPlan> = Arc::new(scan);
        if limit.is_some() {
            plan = Arc::new(CoalescePartitionsExec::new(plan).with_fetch(limit));
        }
        for step in &self.steps {
            plan = step.over(plan)?;
        }
        plan = tallied(plan)?;
        Ok(if plan.properties().partitioning.partition_count() > 1 {
            Arc::new(CoalescePartitionsExec::new(plan))
        } else {
            plan
        })
    }
}

/// The pages are there, and those that the client means.
fn check(reader: &Reader, run: &Run) -> Result<(), String> {
    let pages = &run.pages;
    if pages.start >= pages.end || pages.end > reader.pages() {
        return Err(format!("there are no pages {} to {} among {}", pages.start, pages.end, reader.pages()));
    }
    for (page, expected) in [(pages.start, run.segments.0), (pages.end - 1, run.segments.1)] {
        let address = reader.address(page).map_err(|error| error.to_string())?;
        if address.segment != expected {
            return Err("there is another file of this name now; run the query again".to_owned());
        }
    }
    Ok(())
}
