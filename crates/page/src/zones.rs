//! The zone maps of a segment: how many rows each of its pages has, and what is in each column of it.
//!
//! They lie behind the segment's pages, a sheet whose rows are the pages: one chunk with numbers of rows, then for
//! each column of the file three chunks, smallest values, largest values and numbers of nulls, encoded as columns of
//! pages are. So those of one column are read alone.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt32Type;
use arrow_array::{Array, ArrayRef, UInt32Array};
use arrow_schema::DataType;

use crate::bound::{Bound, Extent, array_of};
use crate::column::{decode_whole, encode_whole};
use crate::error::Refusal;
use crate::page::Layout;
use crate::sheet::{Builder, Identity};

/// With what they begin.
pub(crate) const MAGIC: [u8; 4] = *b"ISPZ";

/// How many chunks there are for so many columns.
pub(crate) fn chunks(columns: usize) -> usize {
    1 + 3 * columns
}

/// What is known of one column of some pages, one page a row.
#[derive(Clone, Debug)]
pub struct Zones {
    /// A value that is not above any of the page's, of the column's type; null if there is none or it is not known.
    /// Long strings are cut.
    pub min: ArrayRef,
    /// A value that is not below any of the page's; null if there is none or it is not known.
    pub max: ArrayRef,
    /// How many nulls the page has.
    pub nulls: UInt32Array,
    /// How many rows the page has.
    pub rows: UInt32Array,
}

/// Gathers the zone maps of a segment while its pages are made.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    rows: Vec<u32>,
    /// Per column and page.
    columns: Vec<Column>,
}

#[derive(Debug, Default)]
struct Column {
    min: Vec<Option<Bound>>,
    max: Vec<Option<Bound>>,
    nulls: Vec<u32>,
}

impl Gathered {
    /// Adds a page.
    pub(crate) fn add(&mut self, layout: &Layout, rows: usize, extents: &[Extent]) {
        self.rows.push(rows as u32);
        self.columns.resize_with(layout.columns(), Column::default);
        for ((column, extent), field) in self.columns.iter_mut().zip(extents).zip(layout.schema.fields()) {
            let (min, max) = extent.shortened(field.data_type());
            column.min.push(min);
            column.max.push(max);
            column.nulls.push(extent.nulls as u32);
        }
    }

    /// The sheet of all pages added.
    pub(crate) fn encode(self, layout: &Layout, segment: u64) -> Vec<u8> {
        let mut sheet = Builder::new(chunks(layout.columns()), 4096);
        let mut chunk = |array: &dyn Array| sheet.chunk(|out| out.extend_from_slice(&encode_whole(array).0));
        let pages = self.rows.len() as u32;
        chunk(&UInt32Array::from(self.rows));
        for (column, field) in self.columns.into_iter().zip(layout.schema.fields()) {
            chunk(&array_of(field.data_type(), &column.min));
            chunk(&array_of(field.data_type(), &column.max));
            chunk(&UInt32Array::from(column.nulls));
        }
        sheet.finish(Identity { magic: MAGIC, file: layout.identity, segment, number: pages }, pages)
    }
}

/// The chunk with the numbers of rows.
pub(crate) const ROWS: usize = 0;

/// The chunks of a column, the first of three.
pub(crate) fn first_chunk(column: usize) -> usize {
    1 + 3 * column
}

/// Decodes numbers of rows or nulls.
pub(crate) fn decode_counts(chunk: &[u8], pages: usize) -> Result<UInt32Array, Refusal> {
    let counts = decode_whole(&DataType::UInt32, chunk, pages)?;
    if counts.null_count() > 0 { Err("a number is missing") } else { Ok(counts.as_primitive::<UInt32Type>().clone()) }
}

/// Decodes the three chunks of a column.
pub(crate) fn decode(data_type: &DataType, chunks: [&[u8]; 3], rows: &UInt32Array) -> Result<Zones, Refusal> {
    let [min, max, nulls] = chunks;
    Ok(Zones {
        min: decode_whole(data_type, min, rows.len())?,
        max: decode_whole(data_type, max, rows.len())?,
        nulls: decode_counts(nulls, rows.len())?,
        rows: rows.clone(),
    })
}

/// One after the other.
pub(crate) fn join(parts: &[Arc<Zones>]) -> Result<Option<Zones>, Refusal> {
    let all = |column: &dyn Fn(&Zones) -> ArrayRef| {
        let arrays: Vec<ArrayRef> = parts.iter().map(|part| column(part)).collect();
        let arrays: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
        arrow_select::concat::concat(&arrays).map_err(|_| "there are too many zone maps")
    };
    if parts.is_empty() {
        return Ok(None);
    }
    Ok(Some(Zones {
        min: all(&|zones| Arc::clone(&zones.min))?,
        max: all(&|zones| Arc::clone(&zones.max))?,
        nulls: all(&|zones| Arc::new(zones.nulls.clone()))?.as_primitive::<UInt32Type>().clone(),
        rows: all(&|zones| Arc::new(zones.rows.clone()))?.as_primitive::<UInt32Type>().clone(),
    }))
}
