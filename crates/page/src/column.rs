//! One column of a page: values in, bytes out, and back.
//!
//! The bytes of a column in one page are its *chunk*. There are three families, by how values are kept: [`fixed`] for
//! numbers of a fixed size (integers, decimals, dates, times, floating point), [`boolean`], and [`strings`] for text
//! and bytes. Each has
//!
//! - a [`Gauge`], which is shown rows, always says how many bytes they would take, and encodes them when told;
//! - a [`Sink`], which takes chunks of several pages one after the other and gives an array.
//!
//! What all chunks share is here: the header, and the nulls. A chunk never says how many rows it has; its page does.

use arrow_array::{Array, ArrayRef};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, NullBufferBuilder};
use arrow_schema::DataType;

use crate::bound::Extent;
use crate::error::Refusal;

mod boolean;
mod fixed;
mod strings;
#[cfg(test)]
mod tests;

pub(crate) use fixed::packed_of;
pub(crate) use strings::{dictionary_of, holds as holds_strings};

/// The bytes of a chunk's header. Everything in a chunk begins at a multiple of this.
pub(crate) const HEADER: usize = 8;

/// Does something for the Arrow type behind a data type of a fixed size, if it is one that pages hold.
macro_rules! with_fixed {
    ($data_type:expr, $T:ident => $then:expr, else $otherwise:expr) => {{
        use arrow_array::types as arrow;
        use arrow_schema::{DataType as D, TimeUnit as U};
        macro_rules! with {
            ($of:ty) => {{
                type $T = $of;
                $then
            }};
        }
        match $data_type {
            D::Int8 => with!(arrow::Int8Type),
            D::Int16 => with!(arrow::Int16Type),
            D::Int32 => with!(arrow::Int32Type),
            D::Int64 => with!(arrow::Int64Type),
            D::UInt8 => with!(arrow::UInt8Type),
            D::UInt16 => with!(arrow::UInt16Type),
            D::UInt32 => with!(arrow::UInt32Type),
            D::UInt64 => with!(arrow::UInt64Type),
            D::Float32 => with!(arrow::Float32Type),
            D::Float64 => with!(arrow::Float64Type),
            D::Decimal128(..) => with!(arrow::Decimal128Type),
            D::Date32 => with!(arrow::Date32Type),
            D::Date64 => with!(arrow::Date64Type),
            D::Time32(U::Second) => with!(arrow::Time32SecondType),
            D::Time32(U::Millisecond) => with!(arrow::Time32MillisecondType),
            D::Time64(U::Microsecond) => with!(arrow::Time64MicrosecondType),
            D::Time64(U::Nanosecond) => with!(arrow::Time64NanosecondType),
            D::Timestamp(U::Second, _) => with!(arrow::TimestampSecondType),
            D::Timestamp(U::Millisecond, _) => with!(arrow::TimestampMillisecondType),
            D::Timestamp(U::Microsecond, _) => with!(arrow::TimestampMicrosecondType),
            D::Timestamp(U::Nanosecond, _) => with!(arrow::TimestampNanosecondType),
            _ => $otherwise,
        }
    }};
}
pub(crate) use with_fixed;

/// Weighs rows of one column and encodes them.
pub(crate) trait Gauge: Send {
    /// Forgets everything: a new page begins.
    fn clear(&mut self);

    /// Takes in the rows `from` to `to` of `array`, whose row 0 is the page's first. `from` is where the last call
    /// ended.
    fn extend(&mut self, array: &dyn Array, from: usize, to: usize);

    /// How many bytes the chunk of all rows so far would have; a multiple of 8.
    fn size(&self) -> usize;

    /// How many bytes the strings of all rows so far have when they are spread out.
    fn spread(&self) -> usize {
        0
    }

    /// Remembers the rows so far as those to be encoded.
    fn mark(&mut self);

    /// Appends the chunk of the marked rows of the same array, as long as [`size`](Self::size) was, and says what is
    /// in it. What `out` has already is as long as a multiple of 8.
    fn encode(&self, array: &dyn Array, out: &mut Vec<u8>) -> Extent;
}

/// Which rows of a chunk are wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Rows<'a> {
    /// All of that many.
    All(usize),
    /// Some of that many, by their ascending indices.
    These(usize, &'a [u32]),
}

impl Rows<'_> {
    /// How many the chunk has.
    pub(crate) fn of(self) -> usize {
        match self {
            Self::All(rows) | Self::These(rows, _) => rows,
        }
    }

    /// How many are wanted.
    pub(crate) fn wanted(self) -> usize {
        match self {
            Self::All(rows) => rows,
            Self::These(_, indices) => indices.len(),
        }
    }
}

/// Decodes chunks into one array.
pub(crate) trait Sink: Send {
    /// Takes a chunk in. `spread` bounds what its strings may take. After a refusal the sink is not to be used.
    fn push(&mut self, chunk: Chunk<'_>, rows: Rows<'_>, spread: usize) -> Result<(), Refusal>;

    /// The array of all that was taken in; the sink is empty then.
    fn finish(&mut self) -> Result<ArrayRef, Refusal>;
}

/// The gauge for a type; none if pages do not hold it.
pub(crate) fn gauge_of(data_type: &DataType) -> Option<Box<dyn Gauge>> {
    Some(match data_type {
        DataType::Boolean => Box::new(boolean::BooleanGauge::default()),
        data_type if strings::holds(data_type) => Box::new(strings::StringGauge::default()),
        _ => with_fixed!(data_type, T => Box::new(fixed::FixedGauge::<T>::default()), else return None),
    })
}

/// The sink for a type; none if pages do not hold it.
pub(crate) fn sink_of(data_type: &DataType) -> Option<Box<dyn Sink>> {
    Some(match data_type {
        DataType::Boolean => Box::new(boolean::BooleanSink::default()),
        data_type if strings::holds(data_type) => Box::new(strings::StringSink::new(data_type.clone())),
        _ => with_fixed!(data_type, T => Box::new(fixed::FixedSink::<T>::new(data_type.clone())), else return None),
    })
}

/// Encodes a whole array, whatever its size, and says what is in it. Nothing for a type that pages do not hold.
pub(crate) fn encode_whole(array: &dyn Array) -> (Vec<u8>, Extent) {
    // By itself, since what is in a chunk is aligned to the chunk's beginning.
    let mut chunk = Vec::new();
    let extent = gauge_of(array.data_type()).map_or_else(Extent::default, |mut gauge| {
        gauge.clear();
        gauge.extend(array, 0, array.len());
        gauge.mark();
        gauge.encode(array, &mut chunk)
    });
    (chunk, extent)
}

/// Decodes one whole chunk.
pub(crate) fn decode_whole(data_type: &DataType, chunk: &[u8], rows: usize) -> Result<ArrayRef, Refusal> {
    let mut sink = sink_of(data_type).ok_or("it has a type that pages do not hold")?;
    sink.push(Chunk::parse(chunk, rows)?, Rows::All(rows), usize::MAX)?;
    sink.finish()
}

/// How the values of a chunk are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// As Arrow has them.
    Plain,
    /// As differences from the smallest one, in as few bits as the largest difference needs.
    Packed,
    /// As numbers of entries of a table.
    Dictionary,
}

/// What a chunk begins with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    pub(crate) encoding: Encoding,
    /// Bits of a difference, or of an entry's number.
    pub(crate) width: u8,
    /// Bits of a string's length above the shortest.
    pub(crate) length_width: u8,
    /// How many strings are in the table.
    pub(crate) entries: u32,
}

impl Head {
    pub(crate) fn plain() -> Self {
        Self { encoding: Encoding::Plain, width: 0, length_width: 0, entries: 0 }
    }

    pub(crate) fn packed(width: u8) -> Self {
        Self { encoding: Encoding::Packed, width, ..Self::plain() }
    }
}

/// The three states that the nulls of a chunk may be in, as its header has them.
const NO_NULLS: u8 = 0;
const SOME_NULLS: u8 = 1;
const ALL_NULL: u8 = 2;

/// How many bytes header and nulls take.
pub(crate) fn overhead(rows: usize, nulls: usize) -> usize {
    HEADER + if nulls == 0 || nulls == rows { 0 } else { bitmap_len(rows) }
}

fn bitmap_len(rows: usize) -> usize {
    rows.div_ceil(64) * 8
}

/// Appends the header and the nulls of the first `rows` rows of an array. Returns false if all are null: then the
/// chunk is complete.
pub(crate) fn begin_chunk(head: Head, array: &dyn Array, rows: usize, nulls: usize, out: &mut Vec<u8>) -> bool {
    let state = match nulls {
        0 => NO_NULLS,
        _ if nulls == rows => ALL_NULL,
        _ => SOME_NULLS,
    };
    let head = if state == ALL_NULL { Head::plain() } else { head };
    out.extend_from_slice(&[head.encoding as u8, head.width, state, head.length_width]);
    out.extend_from_slice(&head.entries.to_le_bytes());
    if let (SOME_NULLS, Some(nulls)) = (state, array.nulls()) {
        let start = out.len();
        out.extend_from_slice(nulls.inner().slice(0, rows).sliced().as_slice());
        // Behind the last row is whatever Arrow has there.
        out.truncate(start + rows.div_ceil(8));
        if let Some(last) = out.last_mut().filter(|_| !rows.is_multiple_of(8)) {
            *last &= (1 << (rows % 8)) - 1;
        }
        out.resize(start + bitmap_len(rows), 0);
    }
    state != ALL_NULL
}

/// A chunk, its header and nulls taken off.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chunk<'a> {
    pub(crate) head: Head,
    state: u8,
    bitmap: &'a [u8],
    /// What follows.
    pub(crate) body: &'a [u8],
}

impl<'a> Chunk<'a> {
    /// Takes a chunk of that many rows apart.
    pub(crate) fn parse(bytes: &'a [u8], rows: usize) -> Result<Self, Refusal> {
        let (head, body) = bytes.split_first_chunk::<HEADER>().ok_or("a column has no header")?;
        let &[encoding, width, state, length_width, entries @ ..] = head;
        let encoding = match encoding {
            0 => Encoding::Plain,
            1 => Encoding::Packed,
            2 => Encoding::Dictionary,
            _ => return Err("a column has an unknown encoding"),
        };
        let bitmap = match state {
            NO_NULLS | ALL_NULL => 0,
            SOME_NULLS => bitmap_len(rows),
            _ => return Err("a column has nulls of an unknown kind"),
        };
        let (bitmap, body) = body.split_at_checked(bitmap).ok_or("a column ends in its nulls")?;
        let entries = u32::from_le_bytes(entries);
        Ok(Self { head: Head { encoding, width, length_width, entries }, state, bitmap, body })
    }

    /// True if every value is null; then there are none.
    pub(crate) fn all_null(&self) -> bool {
        self.state == ALL_NULL
    }

    /// True if a value is null.
    pub(crate) fn has_nulls(&self) -> bool {
        self.state != NO_NULLS
    }

    /// The nulls of the wanted rows, if there are any.
    pub(crate) fn nulls(&self, rows: Rows<'_>) -> Option<NullBuffer> {
        match self.state {
            NO_NULLS => None,
            ALL_NULL => Some(NullBuffer::new_null(rows.wanted())),
            _ => Some(NullBuffer::new(match rows {
                Rows::All(rows) => BooleanBuffer::new(Buffer::from(self.bitmap), 0, rows),
                Rows::These(_, indices) => {
                    BooleanBuffer::collect_bool(indices.len(), |at| bit(self.bitmap, indices[at]))
                }
            })),
        }
    }

    /// Appends the nulls of the wanted rows.
    pub(crate) fn append_nulls(&self, rows: Rows<'_>, to: &mut NullBufferBuilder) {
        match self.nulls(rows) {
            None => to.append_n_non_nulls(rows.wanted()),
            Some(nulls) => to.append_buffer(&nulls),
        }
    }
}

/// The bit at `index`; false beyond the end.
pub(crate) fn bit(bitmap: &[u8], index: u32) -> bool {
    bitmap.get(index as usize / 8).is_some_and(|byte| byte >> (index % 8) & 1 == 1)
}

/// Fills up to a multiple of 8, counted from the beginning of `out`, which is aligned to that.
pub(crate) fn pad(out: &mut Vec<u8>) {
    out.resize(out.len().next_multiple_of(8), 0);
}
