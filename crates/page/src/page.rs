//! Pages: some rows of all columns, in a fixed number of bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::{DataType, SchemaRef};
use bytes::Bytes;

use crate::column::{Chunk, Rows, Sink, sink_of};
use crate::error::{Error, Refusal, Result};
use crate::settings::{max_rows, max_spread};
use crate::sheet::{Header, Identity, Place};

pub(crate) mod fill;

/// With what a page begins.
pub(crate) const MAGIC: [u8; 4] = *b"ISPG";

/// What all pages of a file have in common.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) file: String,
    pub(crate) identity: u64,
    pub(crate) page_size: usize,
    pub(crate) schema: SchemaRef,
}

impl Layout {
    pub(crate) fn columns(&self) -> usize {
        self.schema.fields().len()
    }

    pub(crate) fn invalid(&self, reason: impl Into<String>) -> Error {
        Error::Invalid { file: self.file.clone(), reason: reason.into() }
    }

    pub(crate) fn damaged(&self, part: impl Into<String>, reason: Refusal) -> Error {
        Error::Damaged { file: self.file.clone(), part: part.into(), reason }
    }
}

/// The bytes of one page, its header found sound.
///
/// A column is checked against its checksum when it is first decoded, and then not again: so who keeps pages, keeps
/// these rather than bytes. May be shared between threads.
#[derive(Debug)]
pub struct Page {
    layout: Arc<Layout>,
    number: u64,
    bytes: Bytes,
    rows: usize,
    places: Box<[Place]>,
    checked: Box<[AtomicBool]>,
}

impl Page {
    /// Takes the bytes of page `number` of the file, which is the `identity.number`th of its segment.
    pub(crate) fn new(layout: &Arc<Layout>, number: u64, segment: u64, within: u32, bytes: Bytes) -> Result<Self> {
        let identity = Identity { magic: MAGIC, file: layout.identity, segment, number: within };
        let damaged = |reason| layout.damaged(format!("page {number}"), reason);
        if bytes.len() != layout.page_size {
            return Err(damaged("it is shorter or longer than a page"));
        }
        let header = Header::parse(&bytes, layout.page_size, identity, layout.columns()).map_err(damaged)?;
        let rows = header.rows as usize;
        if !(1..=max_rows(layout.page_size)).contains(&rows) {
            return Err(damaged("it has no rows, or more than a page may have"));
        }
        let places = (0..layout.columns()).map(|index| header.place(index)).collect();
        let checked = (0..layout.columns()).map(|_| AtomicBool::new(false)).collect();
        Ok(Self { layout: Arc::clone(layout), number, rows, places, checked, bytes })
    }

    /// Its number in the file, from 0.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// How many rows it has; at least one.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Its bytes, as they were given.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Checks everything: all columns, whether or not they are ever decoded, and that nothing is behind them.
    pub fn verify(&self) -> Result<()> {
        (0..self.places.len()).try_for_each(|column| self.chunk(column).map(drop))?;
        self.check_rest()
    }

    /// Checks that nothing is behind the columns. No checksum covers that, and no row has anything there.
    pub(crate) fn check_rest(&self) -> Result<()> {
        let end = self.places.last().map_or(0, |place| place.end);
        if self.bytes[end..].iter().all(|&byte| byte == 0) {
            Ok(())
        } else {
            Err(self.damaged("there is something behind its columns"))
        }
    }

    /// What a column is of.
    pub(crate) fn data_type(&self, column: usize) -> Result<&DataType> {
        let fields = self.layout.schema.fields();
        fields
            .get(column)
            .map(|field| field.data_type())
            .ok_or_else(|| self.invalid(format!("there is no column {column}")))
    }

    /// The bytes of a column, checked.
    pub(crate) fn chunk(&self, column: usize) -> Result<&[u8]> {
        let place = self.places[column];
        let bytes = &self.bytes[place.start..place.end];
        if !self.checked[column].load(Ordering::Relaxed) {
            place.check(bytes).map_err(|reason| self.damaged(reason))?;
            self.checked[column].store(true, Ordering::Relaxed);
        }
        Ok(bytes)
    }

    /// These of its rows, which must be named by ascending indices; or all.
    pub(crate) fn rows_of<'a>(&self, rows: Option<&'a [u32]>) -> Result<Rows<'a>> {
        let Some(rows) = rows else { return Ok(Rows::All(self.rows)) };
        let ascending = rows.windows(2).all(|pair| pair[0] < pair[1]);
        if !ascending || rows.last().is_some_and(|&last| last as usize >= self.rows) {
            return Err(self.invalid("rows of a page are named by ascending indices below its number of rows"));
        }
        Ok(Rows::These(self.rows, rows))
    }

    pub(crate) fn invalid(&self, reason: impl Into<String>) -> Error {
        self.layout.invalid(reason)
    }

    pub(crate) fn damaged(&self, reason: Refusal) -> Error {
        self.layout.damaged(format!("page {}", self.number), reason)
    }
}

/// Decodes pages of one file into batches of some of its columns.
///
/// Small pages are gathered: [`push`](Self::push) as many as make a batch of a good size, then
/// [`finish`](Self::finish). Columns that are not in the projection are neither decoded nor checked.
pub struct PageDecoder {
    layout: Arc<Layout>,
    projection: Vec<usize>,
    schema: SchemaRef,
    sinks: Vec<Box<dyn Sink>>,
    rows: usize,
    /// A push failed, and columns may be of different lengths.
    broken: bool,
}

impl std::fmt::Debug for PageDecoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PageDecoder")
            .field("projection", &self.projection)
            .field("rows", &self.rows)
            .finish_non_exhaustive()
    }
}

impl PageDecoder {
    pub(crate) fn new(layout: &Arc<Layout>, projection: &[usize]) -> Result<Self> {
        let schema = layout.schema.project(projection).map_err(|error| layout.invalid(error.to_string()))?;
        let mut decoder = Self {
            layout: Arc::clone(layout),
            projection: projection.to_vec(),
            schema: Arc::new(schema),
            sinks: Vec::new(),
            rows: 0,
            broken: false,
        };
        decoder.renew();
        Ok(decoder)
    }

    fn renew(&mut self) {
        self.sinks = self.schema.fields().iter().filter_map(|field| sink_of(field.data_type())).collect();
        self.rows = 0;
        self.broken = false;
    }

    /// The schema of the batches.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// How many rows were taken in since the last batch.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Takes in all rows of a page. After an error everything since the last batch is lost.
    pub fn push(&mut self, page: &Page) -> Result<()> {
        self.take(page, Rows::All(page.rows))
    }

    /// Takes in some rows of a page, named by their ascending indices within it. After an error everything since the
    /// last batch is lost.
    ///
    /// For those who have decoded the columns of a filter and want the others of the rows that passed: where these are
    /// few, the rest is not decoded.
    pub fn push_rows(&mut self, page: &Page, rows: &[u32]) -> Result<()> {
        self.take(page, page.rows_of(Some(rows))?)
    }

    fn take(&mut self, page: &Page, rows: Rows<'_>) -> Result<()> {
        if page.layout.identity != self.layout.identity {
            return Err(self.layout.invalid(format!("a page of {} was given", page.layout.file)));
        }
        if self.broken {
            self.renew();
        }
        self.broken = true;
        let spread = max_spread(self.layout.page_size);
        for (sink, &column) in self.sinks.iter_mut().zip(&self.projection) {
            let chunk = page.chunk(column)?;
            let taken = Chunk::parse(chunk, page.rows).and_then(|chunk| sink.push(chunk, rows, spread));
            taken.map_err(|reason| page.damaged(reason))?;
        }
        self.broken = false;
        self.rows += rows.wanted();
        Ok(())
    }

    /// The batch of all rows since the last one.
    pub fn finish(&mut self) -> Result<RecordBatch> {
        if self.broken {
            self.renew();
        }
        let columns: Result<Vec<_>, _> = self.sinks.iter_mut().map(|sink| sink.finish()).collect();
        let rows = std::mem::take(&mut self.rows);
        let columns = columns.map_err(|reason| self.layout.invalid(reason))?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        // Fails for a null in a column that has none by its schema; its writer would have refused that.
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
            .map_err(|_| self.layout.damaged("one of the pages just read", "a column that has no nulls has some"))
    }
}
