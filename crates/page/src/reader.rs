//! Reading a page file.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::UInt32Array;
use arrow_buffer::BooleanBuffer;
use arrow_schema::SchemaRef;
use bytes::Bytes;
use ishigaki_base::ByteSize;
use ishigaki_device::{Device, Directory};

use crate::blocks;
use crate::error::{Error, Result};
use crate::manifest::{ColumnStatistics, Manifest};
use crate::name;
use crate::page::{Layout, Page, PageDecoder};
use crate::segment::OpenSegment;
use crate::skip::{self, Predicate};
use crate::state::State;
use crate::zones::{self, Zones};

/// A page file as it was at one moment: appends that become current later do not show in it.
///
/// Opening reads the manifest alone. Zone maps are read per column and segment when they are asked for, and kept;
/// pages are read when they are asked for, and not kept. May be shared between threads.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{Int64Array, RecordBatch, cast::AsArray, types::Int64Type};
/// use ishigaki_device::{Directory, MemoryDirectory};
/// use ishigaki_page::{Comparison, Predicate, Reader, Settings, Writer};
///
/// let numbers = Int64Array::from_iter_values(0..100_000);
/// let batch = RecordBatch::try_from_iter([("n", Arc::new(numbers) as _)])?;
/// let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
/// let mut writer = Writer::create(directory.clone(), "numbers", batch.schema(), Settings::default())?;
/// writer.append_all([&batch])?;
///
/// let reader = Reader::open(directory, "numbers")?;
/// assert_eq!(reader.rows(), 100_000);
/// let last = Predicate::compare(0, Comparison::Greater, Arc::new(Int64Array::from(vec![99_998])));
/// let mut decoder = reader.decoder(&[0])?;
/// for number in reader.pages_that_may_match(&[last])?.set_indices() {
///     decoder.push(&reader.page(number as u64)?)?;
/// }
/// let found = decoder.finish()?;
/// assert_eq!(found.column(0).as_primitive::<Int64Type>().values().last(), Some(&99_999));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Reader {
    directory: Arc<dyn Directory>,
    layout: Arc<Layout>,
    manifest: Manifest,
    segments: Vec<Arc<OpenSegment>>,
    /// The number of each segment's first page.
    first_pages: Vec<u64>,
}

/// Where a page is: what a source of pages beside the directory needs to find it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PageAddress {
    /// The device within the directory.
    pub device: String,
    /// Where in the device, in bytes; a multiple of the page size.
    pub offset: u64,
    /// The segment's identity, drawn at random when it was written: a segment that was removed and another one of the
    /// same name never share one, so a cache can go by it.
    pub segment: u64,
    /// The page's place in the segment.
    pub within: u32,
}

impl Reader {
    /// Opens the page file of that name in the directory.
    pub fn open(directory: Arc<dyn Directory>, file: &str) -> Result<Self> {
        let manifest = read_manifest(directory.as_ref(), file)?;
        Ok(Self::new(directory, file, manifest, &mut HashMap::new()))
    }

    /// Opens what is left of the page file of that name: pages are read as far as its segments go, whatever length they have.
    /// Says what is wrong with its manifest's file, if that could be read all the same.
    pub(crate) fn remains(directory: &Arc<dyn Directory>, file: &str) -> Result<(Self, Option<String>)> {
        name::check(file)?;
        let name = name::manifest(file);
        let (manifest, fault) = match directory.open(&name) {
            Err(ishigaki_device::Error::Damaged { reason, .. }) => (directory.open_remains(&name), Some(reason)),
            opened => (opened, None),
        };
        let manifest = manifest_in(file, manifest)?;
        let mut reader = Self::new(Arc::clone(directory), file, manifest, &mut HashMap::new());
        let (entries, columns) = (&reader.manifest.segments, reader.layout.columns());
        let remains = |&entry| Arc::new(OpenSegment::remains(directory, entry, columns));
        reader.segments = entries.iter().map(remains).collect();
        Ok((reader, fault))
    }

    fn new(
        directory: Arc<dyn Directory>,
        file: &str,
        manifest: Manifest,
        known: &mut HashMap<u64, Arc<OpenSegment>>,
    ) -> Self {
        let layout = Arc::new(layout_of(file, &manifest));
        let mut next = 0;
        let (mut segments, mut first_pages) = (Vec::new(), Vec::new());
        for &entry in &manifest.segments {
            let open = || Arc::new(OpenSegment::new(&directory, entry, layout.columns()));
            segments.push(known.remove(&entry.identity).filter(|known| known.entry == entry).unwrap_or_else(open));
            first_pages.push(next);
            next += u64::from(entry.pages);
        }
        Self { directory, layout, manifest, segments, first_pages }
    }

    /// The file as it is now. What this one has read of segments is taken over.
    pub fn refreshed(&self) -> Result<Self> {
        let manifest = read_manifest(self.directory.as_ref(), &self.layout.file)?;
        let known = self.segments.iter().map(|segment| (segment.entry.identity, Arc::clone(segment)));
        let mut known = known.collect();
        Ok(Self::new(Arc::clone(&self.directory), &self.layout.file, manifest, &mut known))
    }

    /// The name of the file.
    pub fn name(&self) -> &str {
        &self.layout.file
    }

    /// What tells the file from others that had or will have its name: drawn at random when it was made.
    pub fn identity(&self) -> u64 {
        self.manifest.file
    }

    /// Which file it is, and how many appends it shows.
    pub fn state(&self) -> State {
        State::of(&self.manifest)
    }

    /// The columns.
    pub fn schema(&self) -> &SchemaRef {
        &self.layout.schema
    }

    /// The size of every page.
    pub fn page_size(&self) -> ByteSize {
        ByteSize(self.layout.page_size as u64)
    }

    /// How many pages there are; they are numbered from 0.
    pub fn pages(&self) -> u64 {
        self.manifest.pages()
    }

    /// How many rows there are.
    pub fn rows(&self) -> u64 {
        self.manifest.rows()
    }

    /// How many appends became current since the file was made: a cheap way to see whether it has changed.
    pub fn appends(&self) -> u64 {
        self.manifest.appends
    }

    /// What is known, exactly, of a column of the whole file.
    ///
    /// # Panics
    ///
    /// If there is no such column.
    pub fn statistics(&self, column: usize) -> &ColumnStatistics {
        &self.manifest.columns[column]
    }

    /// Where a page is.
    pub fn address(&self, page: u64) -> Result<PageAddress> {
        let (segment, within) = self.find(page)?;
        Ok(PageAddress {
            device: name::segment(&self.layout.file, segment.entry.number),
            offset: u64::from(within) * self.layout.page_size as u64,
            segment: segment.entry.identity,
            within,
        })
    }

    /// Each segment's device, and what is wrong with it beside its pages. Reads all zone maps.
    pub(crate) fn faults(&self) -> impl Iterator<Item = (String, Option<&str>, Option<Error>)> {
        self.segments.iter().map(|segment| {
            let zones = segment.check_zones(&self.layout).err();
            (name::segment(&self.layout.file, segment.entry.number), segment.fault(), zones)
        })
    }

    fn find(&self, page: u64) -> Result<(&OpenSegment, u32)> {
        let behind = self.first_pages.partition_point(|&first| first <= page);
        let found = behind.checked_sub(1).map(|at| (&self.segments[at], page - self.first_pages[at]));
        match found {
            Some((segment, within)) if within < u64::from(segment.entry.pages) => Ok((segment, within as u32)),
            _ => Err(self.layout.invalid(format!("there is no page {page} among {}", self.pages()))),
        }
    }

    /// Reads a page.
    pub fn page(&self, page: u64) -> Result<Page> {
        let (segment, within) = self.find(page)?;
        let bytes = segment.read_pages(&self.layout, within, 1)?;
        Page::new(&self.layout, page, segment.entry.identity, within, bytes)
    }

    /// Makes a page of bytes that came another way, over a network or out of a cache; they must be those at its
    /// [`address`](Self::address).
    pub fn page_of(&self, page: u64, bytes: Bytes) -> Result<Page> {
        let (segment, within) = self.find(page)?;
        Page::new(&self.layout, page, segment.entry.identity, within, bytes)
    }

    /// Reads several pages that follow each other, those of one segment by one read. They share their memory: it is
    /// free when the last of them is dropped.
    pub fn page_run(&self, pages: Range<u64>) -> Result<Vec<Page>> {
        let mut run = Vec::with_capacity(pages.clone().count());
        let mut next = pages.start;
        while next < pages.end {
            let (segment, within) = self.find(next)?;
            let left_in_segment = u64::from(segment.entry.pages - within);
            let count = left_in_segment.min(pages.end - next) as u32;
            let bytes = segment.read_pages(&self.layout, within, count)?;
            for at in 0..count {
                let start = at as usize * self.layout.page_size;
                let bytes = bytes.slice(start..start + self.layout.page_size);
                let number = next + u64::from(at);
                run.push(Page::new(&self.layout, number, segment.entry.identity, within + at, bytes)?);
            }
            next += u64::from(count);
        }
        Ok(run)
    }

    /// A decoder for some columns, by their indices in the schema and in this order; none is allowed, for who only
    /// counts.
    pub fn decoder(&self, projection: &[usize]) -> Result<PageDecoder> {
        PageDecoder::new(&self.layout, projection)
    }

    /// How many rows each page has. Reads no pages.
    pub fn page_rows(&self) -> Result<UInt32Array> {
        let mut rows = Vec::new();
        for segment in &self.segments {
            rows.extend_from_slice(segment.rows(&self.layout)?.values());
        }
        Ok(rows.into())
    }

    /// What is in a column of each page; none if the file has no pages. Reads no pages.
    pub fn zones(&self, column: usize) -> Result<Option<Zones>> {
        if column >= self.layout.columns() {
            return Err(self.layout.invalid(format!("there is no column {column}")));
        }
        let parts = self.segments.iter().map(|segment| segment.zones(&self.layout, column).cloned());
        let parts = parts.collect::<Result<Vec<_>>>()?;
        zones::join(&parts).map_err(|reason| self.layout.invalid(reason))
    }

    /// The pages that may have a row of which all predicates are true. Reads no pages.
    pub fn pages_that_may_match(&self, predicates: &[Predicate]) -> Result<BooleanBuffer> {
        let mut pages = BooleanBuffer::new_set(self.pages() as usize);
        for predicate in predicates {
            if let Some(zones) = self.zones(predicate.column)? {
                let these = skip::may_match(&zones, &predicate.test).map_err(|reason| self.layout.invalid(reason))?;
                pages = &pages & &these;
            }
        }
        Ok(pages)
    }
}

pub(crate) fn layout_of(file: &str, manifest: &Manifest) -> Layout {
    let schema = Arc::clone(&manifest.schema);
    Layout { file: file.to_owned(), identity: manifest.file, page_size: manifest.page_size, schema }
}

/// Reads the current manifest.
pub(crate) fn read_manifest(directory: &dyn Directory, file: &str) -> Result<Manifest> {
    name::check(file)?;
    manifest_in(file, directory.open(&name::manifest(file)))
}

fn manifest_in(file: &str, opened: ishigaki_device::Result<Arc<dyn Device>>) -> Result<Manifest> {
    let device = opened.map_err(|error| match error {
        ishigaki_device::Error::NotFound { .. } => Error::NotFound { file: file.to_owned() },
        other => other.into(),
    })?;
    let length = usize::try_from(device.len()).unwrap_or(usize::MAX);
    Manifest::decode(file, &blocks::read(device.as_ref(), 0, length)?)
}

/// The names of the page files in a directory, sorted.
pub fn page_files(directory: &dyn Directory) -> Result<Vec<String>> {
    let mut files: Vec<_> =
        directory.list()?.iter().filter_map(|name| name::file_of(name).map(str::to_owned)).collect();
    files.sort_unstable();
    Ok(files)
}
