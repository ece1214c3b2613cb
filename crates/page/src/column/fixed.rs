//! Numbers of a fixed size: plain, or as packed differences from the smallest one (frame of reference).
//!
//! ```text
//! plain    header │ nulls │ values, padded to 8 bytes
//! packed   header │ nulls │ reference: 8 bytes, or 16 of a decimal │ differences, whole words
//! ```
//!
//! Plain wins unless packing saves a quarter: it is read by copying.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, PrimitiveArray};
use arrow_buffer::{NullBuffer, NullBufferBuilder, ScalarBuffer};
use arrow_schema::DataType;

use super::{Chunk, Encoding, Gauge, Head, Rows, Sink, begin_chunk, overhead, pad};
use crate::bits::{Packed, Word, pack, packed_len, width_of};
use crate::bound::{Bound, Extent};
use crate::error::Refusal;
use crate::number::Number;

/// Some values, and what stands for the nulls among them.
struct Values<'a, N>(&'a [N], Option<(&'a NullBuffer, N)>);

fn encode_packed<N: Number>(Values(values, nulls): &Values<'_, N>, min: N::Ordered, width: u8, out: &mut Vec<u8>) {
    out.extend_from_slice(&N::widened(min).to_le_bytes()[..reference_len::<N>()]);
    match nulls {
        None => pack(values.len(), width, |row| N::distance(values[row].ordered(), min), out),
        Some((nulls, _)) => {
            let difference = |row| if nulls.is_null(row) { 0 } else { N::distance(values[row].ordered(), min) };
            pack(values.len(), width, difference, out);
        }
    }
}

fn encode_plain<N: Number>(Values(values, nulls): &Values<'_, N>, out: &mut Vec<u8>) {
    out.reserve(values.len() * N::SIZE);
    match nulls {
        None => values.iter().for_each(|value| value.put(out)),
        Some((nulls, stand_in)) => {
            let mut put = |row| (if nulls.is_null(row) { *stand_in } else { values[row] }).put(out);
            (0..values.len()).for_each(&mut put);
        }
    }
    pad(out);
}

/// What is known of the rows so far.
#[derive(Clone, Copy, Debug, Default)]
struct State<O> {
    rows: usize,
    nulls: usize,
    /// The smallest and the largest value.
    bounds: Option<(O, O)>,
}

type Ordered<T> = <<T as ArrowPrimitiveType>::Native as Number>::Ordered;
type Difference<T> = <<T as ArrowPrimitiveType>::Native as Number>::Difference;

pub(super) struct FixedGauge<T: ArrowPrimitiveType<Native: Number>> {
    now: State<Ordered<T>>,
    marked: State<Ordered<T>>,
}

impl<T: ArrowPrimitiveType<Native: Number>> Default for FixedGauge<T> {
    fn default() -> Self {
        Self { now: State::default(), marked: State::default() }
    }
}

/// How many bytes the reference takes.
fn reference_len<N: Number>() -> usize {
    N::SIZE.max(8)
}

/// The width of the differences, if packing is worth it; and how many bytes the values take.
fn choose<N: Number>(rows: usize, bounds: Option<(N::Ordered, N::Ordered)>) -> (Option<u8>, usize) {
    let Some((min, max)) = bounds else { return (None, 0) };
    let plain = (rows * N::SIZE).next_multiple_of(8);
    if let Some(largest) = N::difference(max, min) {
        let width = width_of(largest);
        let packed = reference_len::<N>() + packed_len(rows, width);
        if packed * 4 <= plain * 3 {
            return (Some(width), packed);
        }
    }
    (None, plain)
}

impl<T: ArrowPrimitiveType<Native: Number>> Gauge for FixedGauge<T> {
    fn clear(&mut self) {
        *self = Self::default();
    }

    fn extend(&mut self, array: &dyn Array, from: usize, to: usize) {
        let part = array.as_primitive::<T>().slice(from, to - from);
        let now = &mut self.now;
        now.rows = to;
        now.nulls += part.null_count();
        let mut take_in = |values: &[T::Native]| {
            let Some(&first) = values.first() else { return };
            let first = first.ordered();
            let (mut min, mut max) = now.bounds.unwrap_or((first, first));
            for value in values {
                min = min.min(value.ordered());
                max = max.max(value.ordered());
            }
            now.bounds = Some((min, max));
        };
        match part.nulls().filter(|nulls| nulls.null_count() > 0) {
            None => take_in(part.values()),
            Some(nulls) => nulls.valid_slices().for_each(|(start, end)| take_in(&part.values()[start..end])),
        }
    }

    fn size(&self) -> usize {
        let State { rows, nulls, bounds } = self.now;
        overhead(rows, nulls) + choose::<T::Native>(rows, bounds).1
    }

    fn mark(&mut self) {
        self.marked = self.now;
    }

    fn encode(&self, array: &dyn Array, out: &mut Vec<u8>) -> Extent {
        let State { rows, nulls, bounds } = self.marked;
        let (width, _) = choose::<T::Native>(rows, bounds);
        let head = width.map_or_else(Head::plain, Head::packed);
        begin_chunk(head, array, rows, nulls, out);
        if let Some((min, _)) = bounds {
            let array = array.as_primitive::<T>().slice(0, rows);
            // What stands where a null is, is the smallest value, whatever Arrow has there.
            let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0);
            let values = Values(array.values(), nulls.map(|nulls| (nulls, T::Native::from_ordered(min))));
            match width {
                Some(width) => encode_packed(&values, min, width, out),
                None => encode_plain(&values, out),
            }
        }
        let wide = |ordered| Bound::Number(T::Native::widened(ordered));
        Extent { bounds: bounds.map(|(min, max)| (wide(min), wide(max))), nulls: nulls as u64 }
    }
}

pub(super) struct FixedSink<T: ArrowPrimitiveType> {
    data_type: DataType,
    values: Vec<T::Native>,
    nulls: NullBufferBuilder,
    /// How many rows the last array had: the next one will have about as many.
    last: usize,
}

impl<T: ArrowPrimitiveType> FixedSink<T> {
    pub(super) fn new(data_type: DataType) -> Self {
        Self { data_type, values: Vec::new(), nulls: NullBufferBuilder::new(0), last: 0 }
    }
}

/// The reference of a packed chunk of that many rows, and the differences from it.
pub(crate) fn packed_of<'a, N: Number>(chunk: &Chunk<'a>, rows: usize) -> Result<(N::Ordered, Packed<'a>), Refusal> {
    let width = chunk.head.width;
    if width > N::Difference::BITS {
        return Err("a column has differences wider than its type");
    }
    let short = "a column ends in its differences";
    let (reference, body) = chunk.body.split_at_checked(reference_len::<N>()).ok_or(short)?;
    let (differences, _) = Packed::split(body, rows, width).ok_or(short)?;
    let mut wide = [0; 16];
    wide[..reference.len()].copy_from_slice(reference);
    Ok((N::truncated(u128::from_le_bytes(wide)), differences))
}

/// From which part of the rows on it is faster to unpack all of them.
const DENSE: usize = 8;

impl<T: ArrowPrimitiveType<Native: Number>> Sink for FixedSink<T> {
    fn push(&mut self, chunk: Chunk<'_>, rows: Rows<'_>, _: usize) -> Result<(), Refusal> {
        chunk.append_nulls(rows, &mut self.nulls);
        if self.values.is_empty() {
            // A batch of many small pages is not to be moved again and again while it grows.
            self.values.reserve(self.last);
        }
        self.values.reserve(rows.wanted());
        if chunk.all_null() {
            self.values.resize(self.values.len() + rows.wanted(), T::Native::default());
            return Ok(());
        }
        match chunk.head.encoding {
            Encoding::Plain => self.push_plain(chunk.body, rows),
            Encoding::Packed => self.push_packed(chunk, rows),
            Encoding::Dictionary => Err("numbers have an encoding that is not theirs"),
        }
    }

    fn finish(&mut self) -> Result<ArrayRef, Refusal> {
        self.last = self.values.len();
        let values = ScalarBuffer::from(std::mem::take(&mut self.values));
        let array = PrimitiveArray::<T>::new(values, self.nulls.finish());
        Ok(Arc::new(array.with_data_type(self.data_type.clone())))
    }
}

impl<T: ArrowPrimitiveType<Native: Number>> FixedSink<T> {
    fn push_plain(&mut self, body: &[u8], rows: Rows<'_>) -> Result<(), Refusal> {
        let size = T::Native::SIZE;
        let bytes = body.get(..rows.of() * size).ok_or("a column ends in its values")?;
        match rows {
            Rows::All(_) => T::Native::get_all(bytes, &mut self.values),
            Rows::These(_, indices) => {
                let of_row = |row: u32| bytes.get(row as usize * size..(row as usize + 1) * size).unwrap_or_default();
                for &row in indices {
                    T::Native::get_all(of_row(row), &mut self.values);
                }
            }
        }
        Ok(())
    }

    fn push_packed(&mut self, chunk: Chunk<'_>, rows: Rows<'_>) -> Result<(), Refusal> {
        let width = chunk.head.width;
        let (reference, differences) = packed_of::<T::Native>(&chunk, rows.of())?;
        let values = &mut self.values;
        match rows {
            // One of two loops is compiled for numbers whose upper half is always zero.
            Rows::All(_) if T::Native::stays_small(reference, width) => differences.unpack::<Difference<T>>(|block| {
                values.extend(block.iter().map(|&difference| T::Native::above_small(reference, difference)));
            }),
            Rows::All(_) => differences.unpack::<Difference<T>>(|block| {
                values.extend(block.iter().map(|&difference| T::Native::above(reference, difference)));
            }),
            Rows::These(of, indices) if indices.len() * DENSE < of => {
                let difference = |index: u32| Word::of(differences.get(index as usize));
                values.extend(indices.iter().map(|&index| T::Native::above(reference, difference(index))));
            }
            Rows::These(of, indices) => {
                let mut all: Vec<Difference<T>> = Vec::with_capacity(of);
                differences.unpack(|block| all.extend_from_slice(block));
                let difference = |index: u32| all.get(index as usize).copied().unwrap_or_default();
                values.extend(indices.iter().map(|&index| T::Native::above(reference, difference(index))));
            }
        }
        Ok(())
    }
}
