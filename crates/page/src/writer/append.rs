//! One append, from its first batch to its commit.

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::SchemaRef;
use arrow_select::concat::concat_batches;
use ishigaki_base::ByteSize;
use std::sync::Arc;

use super::{Writer, remove_if_there};
use crate::blocks;
use crate::bound::Extent;
use crate::error::{Error, Result};
use crate::manifest::Segment;
use crate::name;
use crate::page::fill::{Filled, Filler, Unfilled};
use crate::reader::read_manifest;
use crate::zones::Gathered;

/// How many times as large as a page the waiting rows may be in memory before it is tried to fill pages.
const LARGE: usize = 8;

/// Rows on their way into a page file. Keeps one segment and the rows of about two pages in memory, beside what it is
/// given.
///
/// After an error it can only be dropped; the file is as it was before.
pub struct Append<'w> {
    writer: &'w mut Writer,
    filler: Filler,
    /// Rows that no page has yet, and how many bytes they take in memory, about.
    waiting: Vec<RecordBatch>,
    waiting_rows: usize,
    waiting_bytes: usize,
    /// They did not fill a page: so many must wait before it is tried again.
    next_try: usize,
    /// The pages of the segment that is not written yet, one after the other, and what is in them.
    pages: Vec<u8>,
    gathered: Gathered,
    segment: Segment,
    /// Segments that are written.
    written: Vec<Segment>,
    /// What was appended, per column.
    extents: Vec<Extent>,
    rows: u64,
}

/// What an append has brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// How many rows.
    pub rows: u64,
    /// On how many pages.
    pub pages: u64,
}

impl<'w> Append<'w> {
    pub(super) fn new(writer: &'w mut Writer) -> Result<Self> {
        let file = &writer.layout.file;
        let in_use = writer.directory.list()?.iter().filter_map(|name| name::segment_number(file, name)).max();
        let named = writer.manifest.segments.last().map(|segment| segment.number);
        let number = next_number(file, in_use.max(named))?;
        let identity = writer.random.u64(..);
        Ok(Self {
            filler: Filler::new(&writer.layout),
            waiting: Vec::new(),
            waiting_rows: 0,
            waiting_bytes: 0,
            next_try: 0,
            pages: Vec::new(),
            gathered: Gathered::default(),
            segment: Segment { number, identity, pages: 0, zones: 0, rows: 0 },
            written: Vec::new(),
            extents: vec![Extent::default(); writer.layout.columns()],
            rows: 0,
            writer,
        })
    }

    /// The columns that batches must have.
    pub fn schema(&self) -> &SchemaRef {
        self.writer.schema()
    }

    /// Takes rows in. Their columns must have the types of the file's, in its order; names do not matter.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        self.check(batch)?;
        if batch.num_rows() == 0 {
            return Ok(());
        }
        // Under the file's own schema, so that batches can be joined.
        let columns = batch.columns().to_vec();
        let batch = RecordBatch::try_new(Arc::clone(self.schema()), columns)
            .map_err(|error| self.writer.layout.invalid(error.to_string()))?;
        self.waiting_rows += batch.num_rows();
        self.waiting_bytes += batch.columns().iter().map(slice_bytes).sum::<usize>();
        self.waiting.push(batch);
        let many = self.waiting_rows > 2 * self.filler.expects();
        let large = self.waiting_bytes > LARGE * self.writer.layout.page_size;
        if (many || large) && self.waiting_rows >= self.next_try {
            self.fill_pages(false)?;
        }
        Ok(())
    }

    fn check(&self, batch: &RecordBatch) -> Result<()> {
        let invalid = |reason| Err(self.writer.layout.invalid(reason));
        let (given, own) = (batch.schema(), self.schema());
        if given.fields().len() != own.fields().len() {
            return invalid(format!(
                "it has {} columns, and the batch has {}",
                own.fields().len(),
                given.fields().len()
            ));
        }
        for (column, (given, own)) in batch.columns().iter().zip(given.fields().iter().zip(own.fields())) {
            if given.data_type() != own.data_type() {
                return invalid(format!(
                    "column {} is {}, not {}; cast it",
                    own.name(),
                    own.data_type(),
                    given.data_type()
                ));
            }
            if !own.is_nullable() && column.null_count() > 0 {
                return invalid(format!("column {} has no nulls, and the batch has one there", own.name()));
            }
        }
        Ok(())
    }

    /// Makes pages of the rows that wait; of the last ones only if no more will come.
    fn fill_pages(&mut self, no_more: bool) -> Result<()> {
        let batches = std::mem::take(&mut self.waiting);
        let joined = match batches.as_slice() {
            [] => return Ok(()),
            [one] => one.clone(),
            several => concat_batches(self.schema(), several)
                .map_err(|error| self.writer.layout.invalid(format!("rows can not be joined: {error}")))?,
        };
        let mut start = 0;
        while start < joined.num_rows() {
            let rest: Vec<ArrayRef> = joined.slice(start, joined.num_rows() - start).columns().to_vec();
            let place = (self.writer.layout.identity, self.segment.identity, self.segment.pages);
            match self.filler.fill(&rest, place, no_more) {
                Ok(filled) => {
                    start += filled.rows;
                    self.add(&filled)?;
                }
                Err(Unfilled::Wants) => break,
                Err(Unfilled::TooLarge(needed)) => {
                    return Err(Error::RowTooLarge {
                        file: self.writer.layout.file.clone(),
                        row: self.rows,
                        needed: ByteSize(needed as u64),
                        page: self.writer.settings.page_size,
                    });
                }
            }
        }
        let left = joined.slice(start, joined.num_rows() - start);
        // Twice as many, so that rows which come one by one are not weighed again and again.
        self.next_try = if start == 0 { 2 * left.num_rows() } else { 0 };
        self.waiting_rows = left.num_rows();
        self.waiting_bytes = left.columns().iter().map(slice_bytes).sum();
        if self.waiting_rows > 0 {
            self.waiting.push(left);
        }
        Ok(())
    }

    fn add(&mut self, page: &Filled) -> Result<()> {
        self.gathered.add(&self.writer.layout, page.rows, &page.extents);
        for (all, extent) in self.extents.iter_mut().zip(&page.extents) {
            all.merge(extent);
        }
        self.pages.extend_from_slice(&page.bytes);
        self.segment.pages += 1;
        self.segment.rows += page.rows as u64;
        self.rows += page.rows as u64;
        if (self.pages.len() + page.bytes.len()) as u64 > self.writer.settings.segment.as_u64() {
            self.write_segment()?;
        }
        Ok(())
    }

    /// Writes the pages that are gathered as a segment, whose name is not durable yet.
    fn write_segment(&mut self) -> Result<()> {
        let zones = std::mem::take(&mut self.gathered).encode(&self.writer.layout, self.segment.identity);
        self.segment.zones = zones.len() as u32;
        // Known before it is tried, so that whatever is made of it is removed.
        self.written.push(self.segment);
        let file = &self.writer.layout.file;
        let name = name::segment(file, self.segment.number);
        blocks::write_new(self.writer.directory.as_ref(), &name, &[&self.pages, &zones])?;
        self.pages.clear();
        let number = next_number(file, Some(self.segment.number))?;
        self.segment = Segment { number, identity: self.writer.random.u64(..), pages: 0, zones: 0, rows: 0 };
        Ok(())
    }

    /// Makes everything durable and then visible, all at once. An append without rows changes nothing.
    ///
    /// Should it fail with [`Error::Device`] at its very end, the append may be there or not, and the writer refuses
    /// everything after it: open the file again and look.
    pub fn commit(mut self) -> Result<Appended> {
        self.fill_pages(true)?;
        if self.segment.pages > 0 {
            self.write_segment()?;
        }
        let appended =
            Appended { rows: self.rows, pages: self.written.iter().map(|segment| u64::from(segment.pages)).sum() };
        if self.written.is_empty() {
            return Ok(appended);
        }
        let writer = &mut *self.writer;
        let current = read_manifest(writer.directory.as_ref(), &writer.layout.file)?;
        if (current.file, current.appends) != (writer.manifest.file, writer.manifest.appends) {
            return Err(Error::Overtaken { file: writer.layout.file.clone() });
        }
        let mut manifest = writer.manifest.clone();
        manifest.appends += 1;
        manifest.segments.extend_from_slice(&self.written);
        let columns = manifest.columns.iter_mut().zip(&self.extents).zip(writer.layout.schema.fields());
        columns.for_each(|((column, extent), field)| *column = column.merged(field.data_type(), extent));
        writer.make_current(manifest)?;
        self.written.clear();
        Ok(appended)
    }
}

impl Drop for Append<'_> {
    /// Removes the segments of an append that was not committed. What can not be removed now, the next writer removes.
    fn drop(&mut self) {
        // They may be named by a manifest that is current after all.
        if self.writer.closed {
            return;
        }
        for segment in &self.written {
            let name = name::segment(&self.writer.layout.file, segment.number);
            let _ = remove_if_there(self.writer.directory.as_ref(), &name);
        }
        // Their space is free when their names are gone for good.
        if !self.written.is_empty() {
            let _ = self.writer.directory.sync();
        }
    }
}

fn next_number(file: &str, last: Option<u32>) -> Result<u32> {
    last.map_or(Some(1), |last| last.checked_add(1)).ok_or_else(|| Error::Invalid {
        file: file.to_owned(),
        reason: "there are no more numbers for segments; load the file again into another one".to_owned(),
    })
}

/// How many bytes an array's own rows take in memory, about.
fn slice_bytes(array: &ArrayRef) -> usize {
    array.to_data().get_slice_memory_size().unwrap_or(0)
}
