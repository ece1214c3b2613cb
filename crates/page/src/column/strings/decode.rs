//! Strings out of chunks.
//!
//! Each chunk becomes an array of its own: of the table's strings, from which a dictionary's rows are taken by number.
//! Several are joined in the end. Text is checked once, where the table becomes an array.

use std::sync::Arc;

use arrow_array::types::{BinaryType, ByteArrayType, LargeBinaryType, LargeUtf8Type, Utf8Type};
use arrow_array::{ArrayRef, BinaryViewArray, GenericByteArray, StringViewArray, UInt32Array, new_null_array};
use arrow_buffer::{ArrowNativeType, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::DataType;
use arrow_select::{concat::concat, take::take};

use super::super::{Chunk, Encoding, Rows, Sink};
use super::empty;
use crate::bits::Packed;
use crate::error::Refusal;

pub(in crate::column) struct StringSink {
    data_type: DataType,
    parts: Vec<ArrayRef>,
}

impl StringSink {
    pub(in crate::column) fn new(data_type: DataType) -> Self {
        Self { data_type, parts: Vec::new() }
    }
}

impl Sink for StringSink {
    fn push(&mut self, chunk: Chunk<'_>, rows: Rows<'_>, spread: usize) -> Result<(), Refusal> {
        let part = if chunk.all_null() {
            new_null_array(&self.data_type, rows.wanted())
        } else {
            match chunk.head.encoding {
                Encoding::Plain => every_row(&self.data_type, chunk, rows)?,
                Encoding::Dictionary => by_number(&self.data_type, chunk, rows, spread)?,
                Encoding::Packed => return Err("strings have an encoding that is not theirs"),
            }
        };
        self.parts.push(part);
        Ok(())
    }

    fn finish(&mut self) -> Result<ArrayRef, Refusal> {
        let mut parts = std::mem::take(&mut self.parts);
        match parts.len() {
            0 => Ok(empty(&self.data_type)),
            1 => Ok(parts.remove(0)),
            _ => {
                let parts: Vec<_> = parts.iter().map(AsRef::as_ref).collect();
                concat(&parts).map_err(|_| "its strings together are longer than 2 GiB")
            }
        }
    }
}

fn every_row(data_type: &DataType, chunk: Chunk<'_>, rows: Rows<'_>) -> Result<ArrayRef, Refusal> {
    if chunk.head.entries as usize != rows.of() {
        return Err("a column has more or fewer strings than rows");
    }
    let table = Table::parse(chunk)?;
    let all = table.array(data_type, chunk.nulls(Rows::All(rows.of())))?;
    match rows {
        Rows::All(_) => Ok(all),
        Rows::These(_, indices) => pick(&all, &UInt32Array::from(indices.to_vec())),
    }
}

fn by_number(data_type: &DataType, chunk: Chunk<'_>, rows: Rows<'_>, spread: usize) -> Result<ArrayRef, Refusal> {
    let mut numbers = Vec::with_capacity(rows.wanted());
    let table = numbered(chunk, rows, &mut numbers)?;
    let nulls = chunk.nulls(rows);
    let lengths = numbers.iter().enumerate().map(|(row, &number)| {
        if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) { 0 } else { table.length(number) }
    });
    if lengths.fold(0_usize, usize::saturating_add) > spread {
        return Err("a column's strings are longer than a page's may be");
    }
    pick(&table.array(data_type, None)?, &UInt32Array::new(numbers.into(), nulls))
}

/// The table of a dictionary; the numbers of the wanted rows' entries go to `numbers`, and all of them are there.
fn numbered<'a>(chunk: Chunk<'a>, rows: Rows<'_>, numbers: &mut Vec<u32>) -> Result<Table<'a>, Refusal> {
    let entries = chunk.head.entries;
    if entries as usize > rows.of() {
        return Err("a column has more entries than rows");
    }
    let table = Table::parse(chunk)?;
    if chunk.head.width > 32 {
        return Err("a column has numbers of entries that are too wide");
    }
    let (packed, _) =
        Packed::split(table.rest, rows.of(), chunk.head.width).ok_or("a column ends in its entries' numbers")?;
    match rows {
        Rows::All(_) => packed.unpack::<u32>(|block| numbers.extend_from_slice(block)),
        Rows::These(_, indices) => numbers.extend(indices.iter().map(|&index| packed.get(index as usize) as u32)),
    }
    if numbers.iter().fold(0, |most, &number| most.max(number)) >= entries {
        return Err("a column has the number of an entry that is not there");
    }
    Ok(table)
}

/// The strings of a dictionary; the numbers of the wanted rows' strings go to `numbers`.
pub(crate) fn dictionary_of<'a>(
    chunk: Chunk<'a>,
    rows: Rows<'_>,
    numbers: &mut Vec<u32>,
) -> Result<Vec<&'a [u8]>, Refusal> {
    let table = numbered(chunk, rows, numbers)?;
    Ok(table.offsets.windows(2).map(|ends| &table.strings[ends[0] as usize..ends[1] as usize]).collect())
}

/// The strings of those numbers, all of which are there.
fn pick(strings: &ArrayRef, numbers: &UInt32Array) -> Result<ArrayRef, Refusal> {
    take(strings.as_ref(), numbers, None).map_err(|_| "its strings together are longer than 2 GiB")
}

/// A table of strings, its lengths added up.
struct Table<'a> {
    /// Where each string begins, and where the last one ends.
    offsets: Vec<i32>,
    strings: &'a [u8],
    /// What follows the table.
    rest: &'a [u8],
}

impl<'a> Table<'a> {
    fn parse(chunk: Chunk<'a>) -> Result<Self, Refusal> {
        let short = "a column ends in its strings";
        let count = chunk.head.entries as usize;
        if chunk.head.length_width > 32 {
            return Err("a column has lengths that are too wide");
        }
        let (sizes, body) = chunk.body.split_first_chunk::<8>().ok_or(short)?;
        let [bytes, shortest] =
            [&sizes[..4], &sizes[4..]].map(|size| u32::from_le_bytes(size.try_into().unwrap_or_default()));
        let (lengths, body) = Packed::split(body, count, chunk.head.length_width).ok_or(short)?;
        let (strings, rest) = body.split_at_checked(bytes as usize).ok_or(short)?;
        let mut offsets = Vec::with_capacity(count + 1);
        offsets.push(0);
        let mut end = 0_u64;
        lengths.unpack::<u32>(|block| {
            offsets.extend(block.iter().map(|&longer| {
                end += u64::from(shortest) + u64::from(longer);
                end as i32
            }));
        });
        // All ends are at most the last, so none of them was cut.
        if end != u64::from(bytes) || end > i32::MAX as u64 {
            return Err("a column's strings are not as long as their lengths say");
        }
        let padding = strings.len().next_multiple_of(8) - strings.len();
        let rest = rest.get(padding..).ok_or(short)?;
        Ok(Self { offsets, strings, rest })
    }

    fn length(&self, number: u32) -> usize {
        match self.offsets.get(number as usize..) {
            Some([start, end, ..]) => (end - start) as usize,
            _ => 0,
        }
    }

    /// As an array; text must be valid.
    fn array(&self, data_type: &DataType, nulls: Option<NullBuffer>) -> Result<ArrayRef, Refusal> {
        Ok(match data_type {
            DataType::Utf8 => Arc::new(self.bytes::<Utf8Type>(nulls)?),
            DataType::LargeUtf8 => Arc::new(self.bytes::<LargeUtf8Type>(nulls)?),
            DataType::Utf8View => Arc::new(StringViewArray::from(&self.bytes::<Utf8Type>(nulls)?)),
            DataType::Binary => Arc::new(self.bytes::<BinaryType>(nulls)?),
            DataType::LargeBinary => Arc::new(self.bytes::<LargeBinaryType>(nulls)?),
            _ => Arc::new(BinaryViewArray::from(&self.bytes::<BinaryType>(nulls)?)),
        })
    }

    fn bytes<T: ByteArrayType>(&self, nulls: Option<NullBuffer>) -> Result<GenericByteArray<T>, Refusal> {
        let offsets: ScalarBuffer<T::Offset> =
            self.offsets.iter().map(|&offset| T::Offset::usize_as(offset as usize)).collect();
        GenericByteArray::try_new(OffsetBuffer::new(offsets), Buffer::from(self.strings), nulls)
            .map_err(|_| "a column has text that is not UTF-8")
    }
}
