//! The pages of a scan in units: what is read by one request and worked on by one thread.

use std::ops::Range;

use datafusion::error::Result;
use ishigaki_page::Reader;

use super::filter::Filter;
use super::{PagedTable, prune, through};

/// How many bytes a unit has at most.
const UNIT: u64 = 1 << 20;

/// Pages that follow each other in one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unit {
    /// The part of the table.
    pub(crate) part: usize,
    pub(crate) pages: Range<u64>,
}

impl Unit {
    /// How many pages it has.
    pub(crate) fn count(&self) -> u64 {
        self.pages.end - self.pages.start
    }
}

/// What a scan reads.
#[derive(Debug)]
pub(crate) struct Units {
    pub(crate) runs: Vec<Unit>,
    /// How many of them are worked on at a time.
    pub(crate) partitions: usize,
    /// Pages in them.
    pub(crate) pages: u64,
    /// Rows in these pages.
    pub(crate) rows: u64,
    /// Pages that the filter can not need.
    pub(crate) skipped: u64,
}

impl Units {
    /// All pages of the table that may have a row that passes. Small tables get units so small that each thread has some.
    pub(crate) fn plan(table: &PagedTable, filter: Option<&Filter>, threads: usize) -> Result<Self> {
        let all = table.pages();
        let mut planned = Self { runs: Vec::new(), partitions: 1, pages: 0, rows: 0, skipped: 0 };
        for (part, file) in table.parts().iter().enumerate() {
            let reader = &file.reader;
            let kept = match filter {
                Some(filter) => prune::pages(reader, filter.expression(), &table.schema)?,
                None => None,
            };
            let fair = (all / (4 * threads.max(1)) as u64).max(1);
            let most = (UNIT / reader.page_size().as_u64()).clamp(1, fair);
            planned.add(part, reader.pages(), kept.as_deref(), most);
            planned.rows += match &kept {
                None => reader.rows(),
                Some(kept) => {
                    let rows = reader.page_rows().map_err(through)?;
                    let of_kept = rows.values().iter().zip(kept).filter(|(_, kept)| **kept);
                    of_kept.map(|(&rows, _)| u64::from(rows)).sum()
                }
            };
        }
        planned.skipped = all - planned.pages;
        planned.partitions = planned.runs.len().clamp(1, threads.max(1));
        Ok(planned)
    }

    /// Given pages of the only part, cut so that each thread has some.
    pub(crate) fn of_runs(reader: &Reader, runs: impl Iterator<Item = Range<u64>> + Clone, threads: usize) -> Self {
        let all: u64 = runs.clone().map(|run| run.end - run.start).sum();
        let fair = (all / (4 * threads.max(1)) as u64).max(1);
        let most = (UNIT / reader.page_size().as_u64()).clamp(1, fair);
        let mut planned = Self { runs: Vec::new(), partitions: 1, pages: all, rows: 0, skipped: 0 };
        for run in runs {
            for start in run.clone().step_by(most as usize) {
                planned.runs.push(Unit { part: 0, pages: start..run.end.min(start + most) });
            }
        }
        // As if they were all alike.
        planned.rows = reader.rows().saturating_mul(all).checked_div(reader.pages()).unwrap_or(0);
        planned.partitions = planned.runs.len().clamp(1, threads.max(1));
        planned
    }

    /// Those of some of the table's parts. Rows are counted as if all pages of a part were alike.
    pub(crate) fn of_parts(&self, wanted: impl Fn(usize) -> bool, table: &PagedTable) -> Self {
        let runs: Vec<Unit> = self.runs.iter().filter(|unit| wanted(unit.part)).cloned().collect();
        let pages = runs.iter().map(|unit| unit.pages.end - unit.pages.start).sum();
        let all: u64 =
            table.parts().iter().enumerate().filter(|(at, _)| wanted(*at)).map(|(_, part)| part.reader.pages()).sum();
        let rows = if pages == self.pages { self.rows } else { self.rows * pages / self.pages.max(1) };
        Self { partitions: runs.len().clamp(1, self.partitions), pages, rows, skipped: all - pages, runs }
    }

    fn add(&mut self, part: usize, pages: u64, kept: Option<&[bool]>, most: u64) {
        let mut next = 0;
        while next < pages {
            let is_kept = |page: u64| kept.is_none_or(|kept| kept.get(page as usize).is_none_or(|&kept| kept));
            if !is_kept(next) {
                next += 1;
                continue;
            }
            let end = (next + 1..pages.min(next + most)).find(|&page| !is_kept(page)).unwrap_or(pages.min(next + most));
            self.runs.push(Unit { part, pages: next..end });
            self.pages += end - next;
            next = end;
        }
    }

    /// The units of one partition, in their order.
    pub(super) fn of_partition(&self, partition: usize) -> Vec<Unit> {
        self.runs.iter().skip(partition).step_by(self.partitions).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(kept: &[bool], most: u64) -> Vec<Range<u64>> {
        let mut units = Units { runs: Vec::new(), partitions: 1, pages: 0, rows: 0, skipped: 0 };
        units.add(0, kept.len() as u64, Some(kept), most);
        assert_eq!(units.pages, kept.iter().filter(|kept| **kept).count() as u64);
        units.runs.into_iter().map(|unit| unit.pages).collect()
    }

    #[test]
    fn units_are_runs_of_kept_pages_that_are_not_too_long() {
        assert_eq!(runs(&[true; 5], 2), [0..2, 2..4, 4..5]);
        assert_eq!(runs(&[false, true, true, false, true], 8), [1..3, 4..5]);
        assert_eq!(runs(&[false; 3], 8), []);
    }

    #[test]
    fn partitions_share_all_units_and_none_twice() {
        let units = (0..7).map(|page| Unit { part: 0, pages: page..page + 1 }).collect();
        let units = Units { runs: units, partitions: 3, pages: 7, rows: 0, skipped: 0 };
        let mut shared: Vec<u64> =
            (0..3).flat_map(|partition| units.of_partition(partition)).map(|unit| unit.pages.start).collect();
        shared.sort_unstable();
        assert_eq!(shared, (0..7).collect::<Vec<_>>());
    }
}
