//! The door for `fuzz/`: pages, zone maps and manifests, with what must hold whatever they are made of.
//!
//! Compiled under `--cfg fuzzing` only.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, new_null_array};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use bytes::Bytes;
use ishigaki_base::random::Seed;
use ishigaki_base::{ByteSize, Fields, crc32c};
use ishigaki_device::{Directory, MemoryDirectory};

use crate::bound::{Bound, array_of};
use crate::manifest::{Manifest, Segment};
use crate::page::{Layout, Page, PageDecoder};
use crate::sheet::{CHECKSUM, Header, Identity, TABLE, header_checksum};
use crate::zones::{self, Gathered};
use crate::{Reader, Settings, Writer};

mod integers;
mod within;

pub use within::{QUESTION, questions, within};

const PAGE: usize = 4096;
const FILE: u64 = 1;
const SEGMENT: u64 = 2;
/// How many pages the fuzzed zone maps are of.
const PAGES: u32 = 5;

/// A column of each kind.
fn schema() -> SchemaRef {
    use DataType as D;
    let types = [
        D::Boolean,
        D::Int8,
        D::Int16,
        D::Date32,
        D::Int64,
        D::UInt8,
        D::UInt64,
        D::Float32,
        D::Float64,
        D::Decimal128(15, 2),
        D::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        D::Utf8,
        D::LargeUtf8,
        D::Utf8View,
        D::Binary,
        D::BinaryView,
    ];
    let field = |data_type: D| Field::new(data_type.to_string(), data_type, true);
    Arc::new(Schema::new(types.map(field).to_vec()))
}

fn layout() -> Arc<Layout> {
    Arc::new(Layout { file: "fuzzed".to_owned(), identity: FILE, page_size: PAGE, schema: schema() })
}

/// Decodes a page, its bytes filled up or cut to a page's size; says whether it is one.
///
/// # Panics
///
/// If rows alone are not what they are among all, or the integers that stand for them, or if what was decoded does not read
/// back after it was written.
pub fn page(bytes: &[u8]) -> bool {
    let layout = layout();
    let Some(page) = page_of(&layout, bytes) else { return false };
    let _ = page.verify();
    let all: Vec<usize> = (0..layout.columns()).collect();
    let mut decoder = PageDecoder::new(&layout, &all).expect("these are its columns");
    let some: Vec<u32> = (0..page.rows() as u32).step_by(11).collect();
    let batch = decoder.push(&page).and_then(|()| decoder.finish()).ok();
    integers::compare(&page, &some, batch.as_ref());
    let Some(batch) = batch else { return false };
    let few = decoder.push_rows(&page, &some).and_then(|()| decoder.finish()).expect("all of them were sound");
    for (at, &row) in some.iter().enumerate() {
        assert_eq!(few.slice(at, 1), batch.slice(row as usize, 1), "row {row}");
    }
    assert_eq!(rewritten(&batch), batch);
    true
}

/// A page, if its header is sound.
fn page_of(layout: &Arc<Layout>, bytes: &[u8]) -> Option<Page> {
    let mut whole = bytes.to_vec();
    whole.resize(PAGE, 0);
    Page::new(layout, 0, SEGMENT, 0, Bytes::from(whole)).ok()
}

/// What is read after a batch was written.
fn rewritten(batch: &RecordBatch) -> RecordBatch {
    let reader = written(batch);
    let all: Vec<usize> = (0..batch.num_columns()).collect();
    let mut decoder = reader.decoder(&all).expect("these are its columns");
    (0..reader.pages()).for_each(|page| decoder.push(&reader.page(page).expect("sound")).expect("sound"));
    decoder.finish().expect("sound")
}

/// A file in memory of one batch.
fn written(batch: &RecordBatch) -> Reader {
    let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
    let settings = Settings { page_size: ByteSize::mib(1), segment: ByteSize::mib(1), seed: Seed(1) };
    let mut writer = Writer::create(directory.clone(), "again", batch.schema(), settings).expect("a new one");
    writer.append_all([batch]).expect("memory never fails");
    Reader::open(directory, "again").expect("it is there")
}

/// Decodes the zone maps of five pages; says whether they are such.
pub fn zones(bytes: &[u8]) -> bool {
    let layout = layout();
    let entry = Segment { number: 1, identity: SEGMENT, pages: PAGES, zones: bytes.len() as u32, rows: 0 };
    let Ok(places) = crate::segment::places_of(&layout, entry, bytes, bytes.len()) else { return false };
    let chunk = |index: usize| places[index].check(&bytes[places[index].start..places[index].end]);
    let decode = || {
        let rows = zones::decode_counts(chunk(zones::ROWS)?, PAGES as usize)?;
        for (column, field) in layout.schema.fields().iter().enumerate() {
            let first = zones::first_chunk(column);
            let chunks = [chunk(first)?, chunk(first + 1)?, chunk(first + 2)?];
            let zones = zones::decode(field.data_type(), chunks, &rows)?;
            assert_eq!((zones.min.len(), zones.max.len(), zones.nulls.len()), (5, 5, 5));
        }
        Ok::<_, crate::error::Refusal>(())
    };
    decode().is_ok()
}

/// Decodes a manifest; says whether it is one.
///
/// # Panics
///
/// If it does not read back after it was encoded.
pub fn manifest(bytes: &[u8]) -> bool {
    let Ok(manifest) = Manifest::decode("fuzzed", bytes) else { return false };
    let again = Manifest::decode("fuzzed", &manifest.encode()).expect("it was just encoded");
    assert_eq!((&again.schema, &again.segments), (&manifest.schema, &manifest.segments));
    assert_eq!((again.file, again.appends, again.page_size), (manifest.file, manifest.appends, manifest.page_size));
    for (again, column) in again.columns.iter().zip(&manifest.columns) {
        assert_eq!((&again.min, &again.max, again.nulls), (&column.min, &column.max, column.nulls));
    }
    true
}

/// Puts right the checksums of a page or of zone maps.
pub fn seal_sheet(bytes: &mut [u8]) {
    if bytes.len() < TABLE {
        return;
    }
    let chunks = usize::from(u16::from_le_bytes([bytes[6], bytes[7]]));
    let Some(header) = bytes.get(..TABLE + 8 * chunks) else { return };
    let start = |index: usize| Fields(header).u32(TABLE + 8 * index) as usize;
    let end = |index: usize| if index + 1 < chunks { start(index + 1) } else { Fields(header).u32(32) as usize };
    let checksums: Vec<_> = (0..chunks).map(|index| bytes.get(start(index)..end(index)).map(crc32c)).collect();
    for (index, checksum) in checksums.into_iter().enumerate() {
        let place = TABLE + 8 * index + 4;
        bytes[place..place + 4].copy_from_slice(&checksum.unwrap_or_default().to_le_bytes());
    }
    let checksum = header_checksum(&bytes[..TABLE + 8 * chunks]);
    bytes[CHECKSUM..TABLE].copy_from_slice(&checksum.to_le_bytes());
}

/// Puts right the length and the checksum of a manifest.
pub fn seal_manifest(bytes: &mut [u8]) {
    if bytes.len() < 16 {
        return;
    }
    let length = bytes.len();
    bytes[8..16].copy_from_slice(&(length as u64).to_le_bytes());
    let checksum = crc32c(&bytes[..length - 4]);
    bytes[length - 4..].copy_from_slice(&checksum.to_le_bytes());
}

/// A batch of the fuzzed schema: numbers that rise, strings of `different` kinds, some nulls.
fn sample(rows: usize, different: usize) -> RecordBatch {
    let column = |data_type: &DataType| -> ArrayRef {
        let text = |row: usize| Bound::Bytes(format!("text {}", row % different).into_bytes());
        let number = |row: usize| Bound::Number((row % 100) as i128);
        let is_string = crate::column::holds_strings(data_type);
        let value = |row: usize| (row % 7 != 3).then(|| if is_string { text(row) } else { number(row) });
        array_of(data_type, &(0..rows).map(value).collect::<Vec<_>>())
    };
    let columns = schema().fields().iter().map(|field| column(field.data_type())).collect();
    RecordBatch::try_new(schema(), columns).expect("as the schema says")
}

/// Pages: without nulls and with nothing else, with dictionaries and without.
pub fn pages() -> Vec<Vec<u8>> {
    let columns = schema().fields().iter().map(|field| new_null_array(field.data_type(), 9)).collect();
    let nulls = RecordBatch::try_new(schema(), columns).expect("as the schema says");
    [nulls, sample(1, 1), sample(3, 3).slice(0, 3), sample(60, 3), sample(30, 100)]
        .map(|batch| page_with(&batch))
        .to_vec()
}

/// The page that begins with a batch, as far as it has bytes.
fn page_with(batch: &RecordBatch) -> Vec<u8> {
    let filler = &mut crate::page::fill::Filler::new(&layout());
    let mut bytes =
        filler.fill(batch.columns(), (FILE, SEGMENT, 0), true).map(|filled| filled.bytes).unwrap_or_default();
    let identity = Identity { magic: crate::page::MAGIC, file: FILE, segment: SEGMENT, number: 0 };
    let end = Header::parse(&bytes, PAGE, identity, batch.num_columns()).map_or(0, |header| header.end);
    bytes.truncate(end);
    bytes
}

/// Zone maps of five pages.
pub fn zone_maps() -> Vec<Vec<u8>> {
    let mut gathered = Gathered::default();
    for rows in 1..=PAGES as usize {
        let filler = &mut crate::page::fill::Filler::new(&layout());
        let filled = filler.fill(sample(rows, 3).columns(), (FILE, SEGMENT, 0), true);
        let extents = filled.map(|filled| filled.extents).unwrap_or_default();
        gathered.add(&layout(), rows, &extents);
    }
    vec![gathered.encode(&layout(), SEGMENT)]
}

/// Manifests, of a file without rows and of one with some.
pub fn manifests() -> Vec<Vec<u8>> {
    let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
    let settings = Settings { page_size: ByteSize::kib(4), segment: ByteSize::kib(4), seed: Seed(1) };
    let mut writer = Writer::create(directory.clone(), "sample", schema(), settings).expect("a new one");
    let current = || crate::reader::read_manifest(directory.as_ref(), "sample").expect("it is there").encode();
    let empty = current();
    writer.append_all([&sample(100, 50)]).expect("memory never fails");
    vec![empty, current()]
}
