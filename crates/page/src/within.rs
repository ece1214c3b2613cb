//! Which rows of a page have a value within bounds.
//!
//! A comparison of a column to a constant is an interval of what orders its values. Packed values are differences from a
//! reference; so the interval is moved there once, and each difference costs a subtraction and a comparison of as few bytes as
//! it has. No value is made of it, and where all or none can be within, not even a difference is looked at.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::{BooleanBuffer, Buffer};
use arrow_schema::DataType;

use crate::bits::{BLOCK, Packed, Word};
use crate::column::{Chunk, Encoding, Rows, packed_of, with_fixed};
use crate::error::{Refusal, Result};
use crate::number::Number;
use crate::page::Page;
use crate::skip::Comparison;

/// Values from one to another, both of them included, of a type that is ordered as integers are: integers, decimals, dates
/// and times. Null is in none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interval {
    data_type: DataType,
    /// What orders the smallest value, widened. Above `high` if there are no values.
    low: i128,
    high: i128,
}

impl Interval {
    /// The values of which a comparison to `literal`, an array of one row, is true. Nothing where they are no interval
    /// (`<>`), or where the type is another one.
    pub fn of(comparison: Comparison, literal: &ArrayRef) -> Option<Self> {
        let data_type = literal.data_type().clone();
        if data_type.is_floating() || literal.len() != 1 {
            return None;
        }
        let value = with_fixed!(&data_type, T => {
            let value = literal.as_primitive::<T>().value(0);
            <<T as arrow_array::ArrowPrimitiveType>::Native as Number>::widened(value.ordered())
        }, else return None);
        let (low, high) = match comparison {
            _ if literal.is_null(0) => (1, 0),
            Comparison::Equal => (value, value),
            Comparison::Less => (i128::MIN, value.checked_sub(1)?),
            Comparison::LessOrEqual => (i128::MIN, value),
            Comparison::Greater => (value.checked_add(1)?, i128::MAX),
            Comparison::GreaterOrEqual => (value, i128::MAX),
            Comparison::NotEqual => return None,
        };
        Some(Self { data_type, low, high })
    }

    /// The values that are in both, which are of one type.
    #[must_use]
    pub fn intersection(self, other: &Self) -> Self {
        Self { low: self.low.max(other.low), high: self.high.min(other.high), data_type: self.data_type }
    }

    fn contains(&self, value: i128) -> bool {
        self.low <= value && value <= self.high
    }

    /// As differences above `reference`, which are at most `largest`.
    fn above(&self, reference: i128, largest: u64) -> Within {
        let low = self.low.saturating_sub(reference).max(0);
        let high = self.high.saturating_sub(reference).min(largest.into());
        match (u64::try_from(low), u64::try_from(high)) {
            (Ok(0), Ok(high)) if high == largest => Within::All,
            (Ok(low), Ok(high)) if low <= high => Within::These(low, high),
            _ => Within::None,
        }
    }
}

/// Which differences are in an interval.
enum Within {
    All,
    None,
    /// From the first to the last.
    These(u64, u64),
}

impl Page {
    /// For each row whether its value in a column is within an interval of the column's type.
    pub fn within(&self, column: usize, interval: &Interval) -> Result<BooleanBuffer> {
        let data_type = self.data_type(column)?;
        if *data_type != interval.data_type {
            let (of, to) = (&interval.data_type, data_type);
            return Err(self.invalid(format!("values of {of} were asked for in a column of {to}")));
        }
        let rows = self.rows();
        let matching = Chunk::parse(self.chunk(column)?, rows).and_then(|chunk| {
            let values = with_fixed!(data_type, T => matching::<<T as arrow_array::ArrowPrimitiveType>::Native>(
                &chunk, rows, interval
            ), else Err("a column has a type that is not ordered as integers are"))?;
            Ok(match chunk.nulls(Rows::All(rows)) {
                None => values,
                Some(nulls) => &values & nulls.inner(),
            })
        });
        matching.map_err(|reason| self.damaged(reason))
    }
}

/// Which values of a chunk are in the interval, whatever stands where a null is.
fn matching<N: Number>(chunk: &Chunk<'_>, rows: usize, interval: &Interval) -> Result<BooleanBuffer, Refusal> {
    if chunk.all_null() {
        return Ok(BooleanBuffer::new_unset(rows));
    }
    match chunk.head.encoding {
        Encoding::Plain => {
            let bytes = chunk.body.get(..rows * N::SIZE).ok_or("a column ends in its values")?;
            let mut values = Vec::with_capacity(rows);
            N::get_all(bytes, &mut values);
            Ok(BooleanBuffer::collect_bool(rows, |row| interval.contains(N::widened(values[row].ordered()))))
        }
        Encoding::Packed => {
            let (reference, differences) = packed_of::<N>(chunk, rows)?;
            let width = chunk.head.width;
            Ok(match interval.above(N::widened(reference), u64::MAX.checked_shr(64 - u32::from(width)).unwrap_or(0)) {
                Within::All => BooleanBuffer::new_set(rows),
                Within::None => BooleanBuffer::new_unset(rows),
                Within::These(low, high) => match width {
                    0..=8 => between::<u8>(differences, rows, low, high),
                    9..=16 => between::<u16>(differences, rows, low, high),
                    17..=32 => between::<u32>(differences, rows, low, high),
                    _ => between::<u64>(differences, rows, low, high),
                },
            })
        }
        Encoding::Dictionary => Err("numbers have an encoding that is not theirs"),
    }
}

/// For each difference whether it is from `low` to `high`.
fn between<U: Word>(differences: Packed<'_>, rows: usize, low: u64, high: u64) -> BooleanBuffer {
    let (low, span) = (U::of(low), U::of(high - low));
    let mut words = Vec::with_capacity(rows.div_ceil(BLOCK));
    differences.unpack::<U>(|block| {
        let mut answers = [0; BLOCK];
        for (answer, difference) in answers.iter_mut().zip(block) {
            *answer = u8::from(difference.is_within(low, span));
        }
        words.push(gathered(&answers));
    });
    BooleanBuffer::new(Buffer::from_vec(words), 0, rows)
}

/// Bytes that are 0 or 1 as bits, the first one as the lowest.
fn gathered(answers: &[u8; BLOCK]) -> u64 {
    // Of eight bytes each is moved to its place in the uppermost one; no two meet anywhere.
    const PLACES: u64 = 0x0102_0408_1020_4080;
    let (eights, _) = answers.as_chunks::<8>();
    let bits = eights.iter().map(|eight| u64::from_le_bytes(*eight).wrapping_mul(PLACES) >> 56);
    bits.enumerate().fold(0, |word, (at, bits)| word | bits << (at * 8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_become_bits_in_their_order() {
        for at in 0..BLOCK {
            let mut answers = [0; BLOCK];
            answers[at] = 1;
            assert_eq!(gathered(&answers), 1 << at, "{at}");
        }
        assert_eq!(gathered(&[1; BLOCK]), u64::MAX);
    }
}
