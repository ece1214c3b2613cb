//! Filling a page: as many rows as fit.
//!
//! All columns are weighed together, a step of rows after the other, until the page would be too long; the rows before
//! that step are the page. The first step is nearly as long as the last page was, the others are short, so that hardly
//! a thirtieth of a page stays empty.

use arrow_array::{Array, ArrayRef};

use super::{Layout, MAGIC};
use crate::bound::Extent;
use crate::column::{Gauge, gauge_of};
use crate::settings::{max_rows, max_spread};
use crate::sheet::{Builder, Identity, header_len};

/// A page that was filled.
pub(crate) struct Filled {
    /// As long as a page.
    pub(crate) bytes: Vec<u8>,
    /// How many rows it took.
    pub(crate) rows: usize,
    /// What is in each column.
    pub(crate) extents: Vec<Extent>,
}

/// Why there is no page.
#[derive(Debug)]
pub(crate) enum Unfilled {
    /// More rows would fit.
    Wants,
    /// The first row alone takes so many bytes.
    TooLarge(usize),
}

/// Fills one page after the other.
pub(crate) struct Filler {
    gauges: Vec<Box<dyn Gauge>>,
    page_size: usize,
    /// How many rows the last page took.
    last: usize,
}

impl Filler {
    pub(crate) fn new(layout: &Layout) -> Self {
        let gauges = layout.schema.fields().iter().filter_map(|field| gauge_of(field.data_type())).collect();
        Self { gauges, page_size: layout.page_size, last: 64 }
    }

    /// How many rows the next page may take, about.
    pub(crate) fn expects(&self) -> usize {
        self.last
    }

    /// Fills a page from the first rows of these columns, all of the same length and not empty. If all of them fit,
    /// there is a page only if no more rows will come.
    pub(crate) fn fill(
        &mut self,
        columns: &[ArrayRef],
        (file, segment, number): (u64, u64, u32),
        no_more: bool,
    ) -> Result<Filled, Unfilled> {
        let available = columns.first().map_or(0, Array::len);
        let most = max_rows(self.page_size);
        let rows = self.weigh(columns, available.min(most))?;
        if rows == available && rows < most && !no_more {
            self.last = self.last.max(rows);
            return Err(Unfilled::Wants);
        }
        self.last = rows;
        let mut sheet = Builder::new(columns.len(), self.page_size);
        let pairs = self.gauges.iter().zip(columns);
        let extents = pairs.map(|(gauge, column)| sheet.chunk(|out| gauge.encode(column.as_ref(), out))).collect();
        let mut bytes = sheet.finish(Identity { magic: MAGIC, file, segment, number }, rows as u32);
        debug_assert!(bytes.len() <= self.page_size, "a page is as long as it was weighed");
        bytes.resize(self.page_size, 0);
        Ok(Filled { bytes, rows, extents })
    }

    /// How many of the first rows fit, `most` at most. They are marked.
    fn weigh(&mut self, columns: &[ArrayRef], most: usize) -> Result<usize, Unfilled> {
        let mut first = (self.last - self.last / 16).clamp(1, most);
        loop {
            self.gauges.iter_mut().for_each(|gauge| gauge.clear());
            let (mut fit, mut step) = (0, first);
            while fit < most {
                let to = most.min(fit + step);
                for (gauge, column) in self.gauges.iter_mut().zip(columns) {
                    gauge.extend(column.as_ref(), fit, to);
                }
                if !self.fits(columns.len()) {
                    break;
                }
                self.gauges.iter_mut().for_each(|gauge| gauge.mark());
                fit = to;
                step = (fit / 32).max(1);
            }
            match (fit, first) {
                (0, 1) => return Err(Unfilled::TooLarge(self.size(columns.len()))),
                // It was too bold.
                (0, _) => first /= 2,
                _ => return Ok(fit),
            }
        }
    }

    fn size(&self, columns: usize) -> usize {
        header_len(columns) + self.gauges.iter().map(|gauge| gauge.size()).sum::<usize>()
    }

    fn fits(&self, columns: usize) -> bool {
        let spread = max_spread(self.page_size);
        self.size(columns) <= self.page_size && self.gauges.iter().all(|gauge| gauge.spread() <= spread)
    }
}
