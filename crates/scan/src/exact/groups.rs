//! Sums of many groups at a time.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Decimal128Array, UInt64Array};
use datafusion::arrow::compute::kernels::boolean::not;
use datafusion::arrow::compute::{nullif, prep_null_mask_filter};
use datafusion::arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType, Decimal128Type, UInt64Type};
use datafusion::common::Result;
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};

use super::sums::{What, for_each, outgrown};

/// The sum of each group, and of how many values it is.
#[derive(Debug)]
pub(super) struct Groups {
    what: What,
    sums: Vec<i128>,
    counts: Vec<u64>,
}

impl Groups {
    pub(super) fn new(what: What) -> Self {
        Self { what, sums: Vec::new(), counts: Vec::new() }
    }

    fn grow(&mut self, groups: usize) {
        self.sums.resize(groups, 0);
        self.counts.resize(groups, 0);
    }

    fn add(&mut self, group: usize, value: i128, count: u64) -> Result<()> {
        let sum = self.sums[group].checked_add(value);
        self.sums[group] = sum.ok_or_else(|| outgrown("numeric field overflow: a sum has more than 38 digits"))?;
        self.counts[group] += count;
        Ok(())
    }

    fn scale(&self) -> i8 {
        match self.what.sum_type() {
            DataType::Decimal128(_, scale) => scale,
            _ => 0,
        }
    }
}

impl GroupsAccumulator for Groups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        count: usize,
    ) -> Result<()> {
        self.grow(count);
        let Some(values) = values.first() else { return Ok(()) };
        match filter {
            None => for_each(values, |row, value| self.add(groups[row], value, 1)),
            Some(filter) => for_each(values, |row, value| {
                if filter.is_valid(row) && filter.value(row) { self.add(groups[row], value, 1) } else { Ok(()) }
            }),
        }
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], count: usize) -> Result<()> {
        self.grow(count);
        let Some(sums) = states.last() else { return Ok(()) };
        let counts = self.what.counts().then(|| states[0].as_primitive::<UInt64Type>());
        for_each(sums, |row, value| self.add(groups[row], value, counts.map_or(1, |counts| counts.value(row))))
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let (sums, counts) = (emit_to.take_needed(&mut self.sums), emit_to.take_needed(&mut self.counts));
        self.what.results(sums.into_iter().zip(counts))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let (sums, counts) = (emit_to.take_needed(&mut self.sums), emit_to.take_needed(&mut self.counts));
        let sums = sums.into_iter().zip(&counts).map(|(sum, count)| (*count > 0).then_some(sum));
        let sums: Decimal128Array = sums.collect();
        let sums: ArrayRef = Arc::new(sums.with_precision_and_scale(DECIMAL128_MAX_PRECISION, self.scale())?);
        let counts: ArrayRef = Arc::new(UInt64Array::from(counts));
        Ok(if self.what.counts() { vec![counts, sums] } else { vec![sums] })
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let Some(values) = values.first() else { return Ok(Vec::new()) };
        let mut sums = vec![None; values.len()];
        for_each(values, |row, value| {
            sums[row] = Some(value);
            Ok(())
        })?;
        let sums: Decimal128Array = sums.into_iter().collect();
        let sums = sums.with_precision_and_scale(DECIMAL128_MAX_PRECISION, self.scale())?;
        let sums: ArrayRef = match filter {
            None => Arc::new(sums),
            Some(filter) => nullif(&sums, &not(&prep_null_mask_filter(filter))?)?,
        };
        let decimals = sums.as_primitive::<Decimal128Type>();
        let counts = (0..decimals.len()).map(|row| u64::from(decimals.is_valid(row)));
        let counts: ArrayRef = Arc::new(UInt64Array::from_iter_values(counts));
        Ok(if self.what.counts() { vec![counts, Arc::clone(&sums)] } else { vec![sums] })
    }

    fn size(&self) -> usize {
        self.sums.capacity() * size_of::<i128>() + self.counts.capacity() * size_of::<u64>()
    }
}
