//! Booleans: a bit each.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray};
use arrow_buffer::{BooleanBufferBuilder, NullBufferBuilder};

use super::{Chunk, Encoding, Gauge, Head, Rows, Sink, begin_chunk, bit, overhead, pad};
use crate::bound::{Bound, Extent};
use crate::error::Refusal;

#[derive(Clone, Copy, Debug, Default)]
struct State {
    rows: usize,
    nulls: usize,
    trues: usize,
}

#[derive(Debug, Default)]
pub(super) struct BooleanGauge {
    now: State,
    marked: State,
}

impl Gauge for BooleanGauge {
    fn clear(&mut self) {
        *self = Self::default();
    }

    fn extend(&mut self, array: &dyn Array, from: usize, to: usize) {
        let part = array.slice(from, to - from);
        self.now.rows = to;
        self.now.nulls += part.null_count();
        self.now.trues += part.as_boolean().true_count();
    }

    fn size(&self) -> usize {
        let State { rows, nulls, .. } = self.now;
        overhead(rows, nulls) + if nulls == rows { 0 } else { rows.div_ceil(64) * 8 }
    }

    fn mark(&mut self) {
        self.marked = self.now;
    }

    fn encode(&self, array: &dyn Array, out: &mut Vec<u8>) -> Extent {
        let State { rows, nulls, trues } = self.marked;
        let values = array.as_boolean().slice(0, rows);
        if begin_chunk(Head::plain(), array, rows, nulls, out) {
            for start in (0..rows).step_by(8) {
                let byte = (start..rows.min(start + 8))
                    .filter(|&row| values.is_valid(row) && values.value(row))
                    .fold(0, |byte, row| byte | 1 << (row - start));
                out.push(byte);
            }
            pad(out);
        }
        let falses = rows - nulls - trues;
        let least = Bound::Number(i128::from(falses == 0));
        let bounds = (nulls < rows).then(|| (least, Bound::Number(i128::from(trues > 0))));
        Extent { bounds, nulls: nulls as u64 }
    }
}

pub(super) struct BooleanSink {
    values: BooleanBufferBuilder,
    nulls: NullBufferBuilder,
}

impl Default for BooleanSink {
    fn default() -> Self {
        Self { values: BooleanBufferBuilder::new(0), nulls: NullBufferBuilder::new(0) }
    }
}

impl Sink for BooleanSink {
    fn push(&mut self, chunk: Chunk<'_>, rows: Rows<'_>, _: usize) -> Result<(), Refusal> {
        chunk.append_nulls(rows, &mut self.nulls);
        if chunk.all_null() {
            self.values.append_n(rows.wanted(), false);
            return Ok(());
        }
        if chunk.head.encoding != Encoding::Plain {
            return Err("booleans have an encoding that is not theirs");
        }
        let bits = chunk.body.get(..rows.of().div_ceil(8)).ok_or("a column ends in its booleans")?;
        match rows {
            Rows::All(rows) => self.values.append_packed_range(0..rows, bits),
            Rows::These(_, indices) => indices.iter().for_each(|&index| self.values.append(bit(bits, index))),
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<ArrayRef, Refusal> {
        Ok(Arc::new(BooleanArray::new(self.values.finish(), self.nulls.finish())))
    }
}
