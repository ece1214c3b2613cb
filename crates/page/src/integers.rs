//! Columns of a page as integers, for those who compute with them and want no arrays.
//!
//! Sums and groups need neither 128 bits of a price nor the text of a flag. A number is given as 64 bits where it and its
//! neighbours have room there, and with it bounds that cost nothing: packed values lie between their reference and what
//! their width can add. Whoever adds and multiplies within known bounds need not look for an overflow at each step. A string
//! is given as the number of its entry in the page's dictionary. What does not fit is not given, and is to be decoded.

use std::ops::RangeInclusive;

use arrow_schema::DataType;

use crate::bits::Packed;
use crate::column::{Chunk, Encoding, Rows, dictionary_of, holds_strings, packed_of, with_fixed};
use crate::error::{Refusal, Result};
use crate::number::Number;
use crate::page::Page;

/// How far from zero an integer may be: two of them can be added in 64 bits.
const MOST: i128 = 1 << 62;

/// From which part of the rows on it is faster to unpack all of them.
const DENSE: usize = 8;

impl Page {
    /// Puts the integers that stand for a column's values into `out`, in place of what is there: of a decimal its unscaled
    /// value, of a date its days. Of all rows, or of these, by their ascending indices. Says between which bounds they are, which
    /// may be wider than need be.
    ///
    /// Nothing, and `out` is of no use, if a value is null or may be beyond 2^62, or the type is not one of integers, decimals, dates and times.
    pub fn integers(
        &self,
        column: usize,
        rows: Option<&[u32]>,
        out: &mut Vec<i64>,
    ) -> Result<Option<RangeInclusive<i64>>> {
        let data_type = self.data_type(column)?;
        let rows = self.rows_of(rows)?;
        out.clear();
        if data_type.is_floating() {
            return Ok(None);
        }
        let chunk = self.chunk(column)?;
        let taken = Chunk::parse(chunk, self.rows()).and_then(|chunk| {
            with_fixed!(data_type, T => taken::<<T as arrow_array::ArrowPrimitiveType>::Native>(&chunk, rows, out),
                else Ok(None))
        });
        taken.map_err(|reason| self.damaged(reason))
    }

    /// Puts for each of these rows, or for all, the number of its string into `out`, in place of what is there, and gives the strings by these numbers.
    ///
    /// Nothing, and `out` is of no use, if a value is null, the page has no dictionary of the column, or it has no strings.
    pub fn entries(&self, column: usize, rows: Option<&[u32]>, out: &mut Vec<u32>) -> Result<Option<Vec<&[u8]>>> {
        let rows = self.rows_of(rows)?;
        out.clear();
        if !holds_strings(self.data_type(column)?) {
            return Ok(None);
        }
        let chunk = Chunk::parse(self.chunk(column)?, self.rows()).map_err(|reason| self.damaged(reason))?;
        if chunk.has_nulls() || chunk.head.encoding != Encoding::Dictionary {
            return Ok(None);
        }
        let is_text =
            !matches!(self.data_type(column)?, DataType::Binary | DataType::LargeBinary | DataType::BinaryView);
        let taken = dictionary_of(chunk, rows, out).and_then(|strings| {
            if is_text && strings.iter().any(|string| std::str::from_utf8(string).is_err()) {
                return Err("a column has text that is not UTF-8");
            }
            Ok(strings)
        });
        taken.map(Some).map_err(|reason| self.damaged(reason))
    }
}

fn taken<N: Number>(
    chunk: &Chunk<'_>,
    rows: Rows<'_>,
    out: &mut Vec<i64>,
) -> Result<Option<RangeInclusive<i64>>, Refusal> {
    if chunk.has_nulls() {
        return Ok(None);
    }
    match chunk.head.encoding {
        Encoding::Plain => {
            let bytes = chunk.body.get(..rows.of() * N::SIZE).ok_or("a column ends in its values")?;
            Ok(taken_plain::<N>(bytes, rows, out))
        }
        Encoding::Packed => {
            let (reference, differences) = packed_of::<N>(chunk, rows.of())?;
            let reference = N::widened(reference);
            let largest = u64::MAX.checked_shr(64 - u32::from(chunk.head.width)).unwrap_or(0);
            let highest = reference.saturating_add(largest.into());
            let Some(bounds) = bounds(reference, highest) else { return Ok(None) };
            add_packed(*bounds.start(), differences, rows, out);
            // Differences that lead out of the type are nothing that was ever packed; decoding says what they are.
            let fits = |value: i128| N::narrowed(value).is_some();
            let fit = fits(highest) || out.iter().all(|&value| fits(value.into()));
            Ok(fit.then_some(bounds))
        }
        Encoding::Dictionary => Err("numbers have an encoding that is not theirs"),
    }
}

fn taken_plain<N: Number>(bytes: &[u8], rows: Rows<'_>, out: &mut Vec<i64>) -> Option<RangeInclusive<i64>> {
    let mut values = Vec::with_capacity(rows.of());
    N::get_all(bytes, &mut values);
    let (mut low, mut high) = (MOST, -MOST);
    let mut take = |value: N| {
        let wide = N::widened(value.ordered());
        (low, high) = (low.min(wide), high.max(wide));
        out.push(wide as i64);
    };
    match rows {
        Rows::All(_) => values.into_iter().for_each(take),
        Rows::These(_, indices) => {
            indices.iter().filter_map(|&row| values.get(row as usize)).for_each(|value| take(*value))
        }
    }
    if out.is_empty() { Some(0..=0) } else { bounds(low, high) }
}

fn add_packed(reference: i64, differences: Packed<'_>, rows: Rows<'_>, out: &mut Vec<i64>) {
    out.reserve(rows.wanted());
    let above = |difference: u64| reference.wrapping_add(difference as i64);
    match rows {
        Rows::All(_) => {
            differences.unpack::<u64>(|block| out.extend(block.iter().map(|&difference| above(difference))))
        }
        Rows::These(of, indices) if indices.len() * DENSE < of => {
            out.extend(indices.iter().map(|&index| above(differences.get(index as usize))));
        }
        Rows::These(of, indices) => {
            let mut all: Vec<u64> = Vec::with_capacity(of);
            differences.unpack::<u64>(|block| all.extend_from_slice(block));
            out.extend(indices.iter().map(|&index| above(all.get(index as usize).copied().unwrap_or_default())));
        }
    }
}

fn bounds(low: i128, high: i128) -> Option<RangeInclusive<i64>> {
    let fit = -MOST <= low && high <= MOST;
    fit.then_some(low as i64..=high as i64)
}
