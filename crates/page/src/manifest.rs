//! The manifest: which segments a page file has, and what is in them all together.

use std::sync::Arc;

use ishigaki_base::{Fields, crc32c};

use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, SchemaRef};

use crate::bound::{Bound, Extent, array_of};
use crate::column::{decode_whole, encode_whole};
use crate::error::{Error, Refusal};
use crate::schema::{self, Cursor};
use crate::settings::is_page_size;
use crate::sheet::VERSION;

/// With what it begins.
pub(crate) const MAGIC: [u8; 4] = *b"ISPM";
/// The bytes before the schema.
pub(crate) const HEADER: usize = 64;
/// What it has for each segment.
const SEGMENT: usize = 32;

/// One segment: the pages of an append, or of a part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    /// In its name.
    pub(crate) number: u32,
    /// Drawn at random, in each of its pages.
    pub(crate) identity: u64,
    /// How many pages it has; at least one.
    pub(crate) pages: u32,
    /// How long the zone maps behind them are.
    pub(crate) zones: u32,
    /// How many rows it has.
    pub(crate) rows: u64,
}

/// What is known of one column of the whole file, exactly.
#[derive(Clone, Debug)]
pub struct ColumnStatistics {
    /// The smallest value, an array of one row and of the column's type; null if there is none. Floating-point numbers
    /// are in IEEE 754's total order.
    pub min: ArrayRef,
    /// The largest value; null if there is none.
    pub max: ArrayRef,
    /// How many rows are null.
    pub nulls: u64,
}

/// What a manifest says.
#[derive(Clone, Debug)]
pub(crate) struct Manifest {
    /// Drawn at random when the file was made.
    pub(crate) file: u64,
    pub(crate) page_size: usize,
    /// How many appends there were.
    pub(crate) appends: u64,
    pub(crate) schema: SchemaRef,
    pub(crate) segments: Vec<Segment>,
    pub(crate) columns: Vec<ColumnStatistics>,
}

impl ColumnStatistics {
    /// Of no rows.
    pub(crate) fn empty(data_type: &DataType) -> Self {
        let none = array_of(data_type, &[None]);
        Self { min: Arc::clone(&none), max: none, nulls: 0 }
    }

    /// With what was appended.
    pub(crate) fn merged(&self, data_type: &DataType, appended: &Extent) -> Self {
        let mut extent = Extent { bounds: self.bounds(), nulls: self.nulls };
        extent.merge(appended);
        let (min, max) = extent.bounds.map_or((None, None), |(min, max)| (Some(min), Some(max)));
        Self { min: array_of(data_type, &[min]), max: array_of(data_type, &[max]), nulls: extent.nulls }
    }

    fn bounds(&self) -> Option<(Bound, Bound)> {
        let [min, max] = [&self.min, &self.max].map(|bound| encode_whole(bound.as_ref()).1.bounds);
        Some((min?.0, max?.1))
    }
}

impl Manifest {
    pub(crate) fn rows(&self) -> u64 {
        self.segments.iter().map(|segment| segment.rows).sum()
    }

    pub(crate) fn pages(&self) -> u64 {
        self.segments.iter().map(|segment| u64::from(segment.pages)).sum()
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut schema = Vec::new();
        schema::encode(&self.schema, &mut schema);
        let mut bytes = vec![0; HEADER];
        bytes.extend_from_slice(&schema);
        for segment in &self.segments {
            bytes.extend_from_slice(&segment.number.to_le_bytes());
            bytes.extend_from_slice(&segment.pages.to_le_bytes());
            bytes.extend_from_slice(&segment.identity.to_le_bytes());
            bytes.extend_from_slice(&segment.rows.to_le_bytes());
            bytes.extend_from_slice(&segment.zones.to_le_bytes());
            bytes.extend_from_slice(&[0; 4]);
        }
        for column in &self.columns {
            bytes.extend_from_slice(&column.nulls.to_le_bytes());
            for bound in [&column.min, &column.max] {
                let (chunk, _) = encode_whole(bound.as_ref());
                bytes.extend_from_slice(&(chunk.len() as u32).to_le_bytes());
                bytes.extend_from_slice(&chunk);
            }
        }
        let length = bytes.len() as u64 + 4;
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = VERSION;
        bytes[8..16].copy_from_slice(&length.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.file.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.appends.to_le_bytes());
        bytes[32..36].copy_from_slice(&(self.page_size as u32).to_le_bytes());
        bytes[36..40].copy_from_slice(&(self.segments.len() as u32).to_le_bytes());
        bytes[40..44].copy_from_slice(&(schema.len() as u32).to_le_bytes());
        let checksum = crc32c(&bytes);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Reads the manifest at the beginning of `bytes`; `file` is for messages.
    pub(crate) fn decode(file: &str, bytes: &[u8]) -> Result<Self, Error> {
        let damaged = |reason| Error::Damaged { file: file.to_owned(), part: "the manifest".to_owned(), reason };
        let fields = Fields(bytes);
        if bytes.len() < HEADER || fields.array::<4>(0) != MAGIC {
            return Err(damaged("it does not begin as it should"));
        }
        let length = usize::try_from(fields.u64(8)).ok().filter(|&length| length > HEADER + 4);
        let (bytes, checksum) = length
            .and_then(|length| bytes.get(..length))
            .and_then(|bytes| bytes.split_last_chunk::<4>())
            .ok_or_else(|| damaged("it is shorter than it says"))?;
        if crc32c(bytes) != u32::from_le_bytes(*checksum) {
            return Err(damaged("it does not fit its checksum"));
        }
        if bytes[4] != VERSION {
            return Err(Error::Version { file: file.to_owned(), version: bytes[4] });
        }
        Self::decode_sound(bytes).map_err(damaged)
    }

    /// Reads what fits its checksum.
    fn decode_sound(bytes: &[u8]) -> Result<Self, Refusal> {
        let fields = Fields(bytes);
        let page_size = fields.u32(32) as usize;
        if !is_page_size(page_size) {
            return Err("it has an impossible page size");
        }
        let mut cursor = Cursor(&bytes[HEADER..]);
        let mut schema_bytes = Cursor(cursor.take(fields.u32(40) as usize).ok_or("it ends in its schema")?);
        let schema = schema_bytes.schema()?;
        if !schema_bytes.0.is_empty() {
            return Err("there is something behind its schema");
        }
        let mut segments = Vec::new();
        for _ in 0..fields.u32(36) {
            segments.push(segment(cursor.take(SEGMENT).ok_or("it ends in its segments")?)?);
        }
        check_segments(&segments)?;
        let columns = schema.fields().iter().map(|field| column(field.data_type(), &mut cursor));
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        if !cursor.0.is_empty() {
            return Err("there is something behind its columns");
        }
        let (file, appends) = (fields.u64(16), fields.u64(24));
        Ok(Self { file, page_size, appends, schema, segments, columns })
    }
}

fn segment(bytes: &[u8]) -> Result<Segment, Refusal> {
    let fields = Fields(bytes);
    let segment = Segment {
        number: fields.u32(0),
        pages: fields.u32(4),
        identity: fields.u64(8),
        rows: fields.u64(16),
        zones: fields.u32(24),
    };
    if segment.pages == 0 || segment.rows < u64::from(segment.pages) || fields.u32(28) != 0 {
        return Err("it has an impossible segment");
    }
    Ok(segment)
}

/// Numbers must rise; and all rows must be counted without an overflow.
fn check_segments(segments: &[Segment]) -> Result<(), Refusal> {
    let rise = segments.windows(2).all(|pair| pair[0].number < pair[1].number);
    let rows = segments.iter().try_fold(0_u64, |rows, segment| rows.checked_add(segment.rows));
    if rise && rows.is_some() { Ok(()) } else { Err("it has impossible segments") }
}

fn column(data_type: &DataType, cursor: &mut Cursor<'_>) -> Result<ColumnStatistics, Refusal> {
    let short = "it ends in its columns";
    let nulls = cursor.u64().ok_or(short)?;
    let mut bound = || {
        let length = cursor.u32().ok_or(short)?;
        let array = decode_whole(data_type, cursor.take(length as usize).ok_or(short)?, 1)?;
        Ok::<_, Refusal>(array)
    };
    let (min, max) = (bound()?, bound()?);
    if min.is_null(0) == max.is_null(0) {
        Ok(ColumnStatistics { min, max, nulls })
    } else {
        Err("it has half a column's bounds")
    }
}
