//! Sums of many groups at a time.
//!
//! A row goes to any of them, so that the memory they take decides how fast rows are added: sums are kept in 64 bits as long as all
//! of them fit, and groups are counted only for averages.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Decimal128Array, Int64Array, UInt64Array};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::compute::kernels::boolean::not;
use datafusion::arrow::compute::{nullif, prep_null_mask_filter};
use datafusion::arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DataType, Decimal128Type, Int16Type, Int32Type, Int64Type, UInt64Type,
};
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};

use super::sums::{What, for_each, outgrown};

/// The sum of each group, and of how many values it is.
#[derive(Debug)]
pub(super) struct Groups {
    what: What,
    sums: Sums,
    values: Values,
}

/// The sums of groups.
#[derive(Debug)]
enum Sums {
    Narrow(Vec<i64>),
    /// Since one of them did not fit any more.
    Wide(Vec<i128>),
}

impl Sums {
    fn grow(&mut self, groups: usize) {
        match self {
            Self::Narrow(sums) => sums.resize(groups, 0),
            Self::Wide(sums) => sums.resize(groups, 0),
        }
    }

    fn add(&mut self, group: usize, value: i128) -> Result<()> {
        match self {
            Self::Narrow(sums) => {
                let sum = i64::try_from(value).ok().and_then(|value| sums[group].checked_add(value));
                match sum {
                    Some(sum) => sums[group] = sum,
                    None => return self.add_wide(group, value),
                }
            }
            Self::Wide(_) => return self.add_wide(group, value),
        }
        Ok(())
    }

    fn add_wide(&mut self, group: usize, value: i128) -> Result<()> {
        if let Self::Narrow(sums) = self {
            *self = Self::Wide(std::mem::take(sums).into_iter().map(i128::from).collect());
        }
        if let Self::Wide(sums) = self {
            let sum = sums[group].checked_add(value);
            sums[group] = sum.ok_or_else(|| outgrown("numeric field overflow: a sum has more than 38 digits"))?;
        }
        Ok(())
    }

    /// Adds a column without NULLs.
    fn add_column(&mut self, values: &ArrayRef, groups: &[usize]) -> Result<()> {
        let done = match self {
            Self::Narrow(sums) => add_narrow(sums, values, groups),
            Self::Wide(_) => 0,
        };
        if done == groups.len() {
            return Ok(());
        }
        let (rest, groups) = (values.slice(done, values.len() - done), &groups[done..]);
        for_each(&rest, |row, value| self.add_wide(groups[row], value))
    }

    fn take(&mut self, emit_to: EmitTo) -> Self {
        match self {
            Self::Narrow(sums) => Self::Narrow(emit_to.take_needed(sums)),
            Self::Wide(sums) => Self::Wide(emit_to.take_needed(sums)),
        }
    }

    fn wide(self) -> Vec<i128> {
        match self {
            Self::Narrow(sums) => sums.into_iter().map(i128::from).collect(),
            Self::Wide(sums) => sums,
        }
    }

    fn size(&self) -> usize {
        match self {
            Self::Narrow(sums) => sums.capacity() * size_of::<i64>(),
            Self::Wide(sums) => sums.capacity() * size_of::<i128>(),
        }
    }
}

/// Which groups have values.
#[derive(Debug)]
enum Values {
    /// How many, for averages.
    Counted(Vec<u64>),
    /// All of this many groups have some.
    All(usize),
    /// Whether they have any.
    Some(Vec<bool>),
}

impl Values {
    /// Has room for as many groups as there are with a batch. `are_all_there` says that each of its rows has a value.
    fn grow(&mut self, count: usize, groups: &[usize], are_all_there: bool) {
        match self {
            Self::Counted(counts) => counts.resize(count, 0),
            Self::All(before) if count == *before => {}
            Self::All(before) if are_all_there && occur(*before..count, groups) => *before = count,
            Self::All(before) => {
                let mut some = vec![true; *before];
                some.resize(count, false);
                *self = Self::Some(some);
            }
            Self::Some(some) => some.resize(count, false),
        }
    }

    fn add(&mut self, group: usize, count: u64) {
        match self {
            Self::Counted(counts) => counts[group] += count,
            Self::All(_) => {}
            Self::Some(some) => some[group] = true,
        }
    }

    fn add_each(&mut self, groups: &[usize]) {
        match self {
            Self::Counted(counts) => groups.iter().for_each(|group| counts[*group] += 1),
            Self::All(_) => {}
            Self::Some(some) => groups.iter().for_each(|group| some[*group] = true),
        }
    }

    fn take(&mut self, emit_to: EmitTo) -> Self {
        match self {
            Self::Counted(counts) => Self::Counted(emit_to.take_needed(counts)),
            Self::All(groups) => {
                let taken = match emit_to {
                    EmitTo::All => *groups,
                    EmitTo::First(first) => first.min(*groups),
                };
                *groups -= taken;
                Self::All(taken)
            }
            Self::Some(some) => Self::Some(emit_to.take_needed(some)),
        }
    }

    fn nulls(&self) -> Option<NullBuffer> {
        match self {
            Self::Counted(counts) => Some(counts.iter().map(|count| *count > 0).collect()),
            Self::All(_) => None,
            Self::Some(some) => Some(NullBuffer::from(some.as_slice())),
        }
    }

    fn size(&self) -> usize {
        match self {
            Self::Counted(counts) => counts.capacity() * size_of::<u64>(),
            Self::All(_) => 0,
            Self::Some(some) => some.capacity(),
        }
    }
}

/// Whether the rows of a batch are of all these groups. Groups have their numbers in the order in which they occur first; in
/// another order they are not found.
fn occur(new: std::ops::Range<usize>, groups: &[usize]) -> bool {
    let mut next = new.start;
    for group in groups {
        next += usize::from(*group == next);
    }
    next == new.end
}

/// Adds a column without NULLs to sums as long as they fit; the number of rows that it has added. This is where a query with many groups spends its time,
/// so that the loop has no more than it needs.
fn add_narrow(sums: &mut [i64], values: &dyn Array, groups: &[usize]) -> usize {
    fn add<T: Copy>(sums: &mut [i64], values: &[T], groups: &[usize]) -> usize
    where
        i64: TryFrom<T>,
    {
        for (row, (value, group)) in values.iter().zip(groups).enumerate() {
            let sum = &mut sums[*group];
            match i64::try_from(*value).ok().and_then(|value| sum.checked_add(value)) {
                Some(added) => *sum = added,
                None => return row,
            }
        }
        groups.len()
    }
    match values.data_type() {
        DataType::Int16 => add(sums, values.as_primitive::<Int16Type>().values(), groups),
        DataType::Int32 => add(sums, values.as_primitive::<Int32Type>().values(), groups),
        DataType::Int64 => add(sums, values.as_primitive::<Int64Type>().values(), groups),
        DataType::Decimal128(..) => add(sums, values.as_primitive::<Decimal128Type>().values(), groups),
        _ => 0,
    }
}

impl Groups {
    pub(super) fn new(what: What) -> Self {
        let values = if what.counts() { Values::Counted(Vec::new()) } else { Values::All(0) };
        Self { what, sums: Sums::Narrow(Vec::new()), values }
    }

    fn grow(&mut self, count: usize, groups: &[usize], are_all_there: bool) {
        self.sums.grow(count);
        self.values.grow(count, groups, are_all_there);
    }

    fn add(&mut self, group: usize, value: i128, count: u64) -> Result<()> {
        self.values.add(group, count);
        self.sums.add(group, value)
    }

    fn scale(&self) -> i8 {
        match self.what.sum_type() {
            DataType::Decimal128(_, scale) => scale,
            _ => 0,
        }
    }

    /// Sums as a part of a state.
    fn state_of(&self, sums: Decimal128Array) -> Result<Decimal128Array> {
        Ok(sums.with_precision_and_scale(DECIMAL128_MAX_PRECISION, self.scale())?)
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
        let are_all_there = filter.is_none() && values.first().is_some_and(|values| values.null_count() == 0);
        self.grow(count, groups, are_all_there);
        let Some(values) = values.first() else { return Ok(()) };
        match filter {
            None if are_all_there => {
                self.values.add_each(groups);
                self.sums.add_column(values, groups)
            }
            None => for_each(values, |row, value| self.add(groups[row], value, 1)),
            Some(filter) => for_each(values, |row, value| {
                if filter.is_valid(row) && filter.value(row) { self.add(groups[row], value, 1) } else { Ok(()) }
            }),
        }
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], count: usize) -> Result<()> {
        self.grow(count, groups, states.last().is_some_and(|sums| sums.null_count() == 0));
        let Some(sums) = states.last() else { return Ok(()) };
        if !self.what.counts() && sums.null_count() == 0 {
            self.values.add_each(groups);
            return self.sums.add_column(sums, groups);
        }
        let counts = self.what.counts().then(|| states[0].as_primitive::<UInt64Type>());
        for_each(sums, |row, value| self.add(groups[row], value, counts.map_or(1, |counts| counts.value(row))))
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let (sums, values) = (self.sums.take(emit_to), self.values.take(emit_to));
        let nulls = values.nulls();
        match (values, sums) {
            (Values::Counted(counts), sums) => self.what.results(sums.wide().into_iter().zip(counts)),
            (_, Sums::Narrow(sums)) if self.what.result_type() == DataType::Int64 => {
                Ok(Arc::new(Int64Array::new(sums.into(), nulls)))
            }
            (_, sums) => self.what.sums(sums.wide(), nulls),
        }
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let (sums, values) = (self.sums.take(emit_to), self.values.take(emit_to));
        let sums: ArrayRef = Arc::new(self.state_of(Decimal128Array::new(sums.wide().into(), values.nulls()))?);
        Ok(match values {
            Values::Counted(counts) => vec![Arc::new(UInt64Array::from(counts)), sums],
            _ => vec![sums],
        })
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let Some(values) = values.first() else { return Ok(Vec::new()) };
        let sums = self.state_of(as_decimals(values)?)?;
        let sums: ArrayRef = match filter {
            None => Arc::new(sums),
            Some(filter) => nullif(&sums, &not(&prep_null_mask_filter(filter))?)?,
        };
        if !self.what.counts() {
            return Ok(vec![sums]);
        }
        let counts = (0..sums.len()).map(|row| u64::from(sums.is_valid(row)));
        Ok(vec![Arc::new(UInt64Array::from_iter_values(counts)), sums])
    }

    fn size(&self) -> usize {
        self.sums.size() + self.values.size()
    }
}

/// A column of integers or decimals as numbers of 128 bits.
fn as_decimals(values: &ArrayRef) -> Result<Decimal128Array> {
    Ok(match values.data_type() {
        DataType::Int16 => values.as_primitive::<Int16Type>().unary(i128::from),
        DataType::Int32 => values.as_primitive::<Int32Type>().unary(i128::from),
        DataType::Int64 => values.as_primitive::<Int64Type>().unary(i128::from),
        DataType::Decimal128(..) => values.as_primitive::<Decimal128Type>().clone(),
        other => return exec_err!("{other} is not summed exactly"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums_of(of: &DataType) -> Groups {
        Groups::new(What::of(false, of).expect("a type that is summed exactly"))
    }

    fn column(values: &[Option<i64>]) -> ArrayRef {
        Arc::new(Int64Array::from(values.to_vec()))
    }

    fn decimals(array: &ArrayRef) -> Vec<Option<i128>> {
        array.as_primitive::<Decimal128Type>().iter().collect()
    }

    #[test]
    fn a_sum_goes_on_where_64_bits_end() {
        let mut groups = sums_of(&DataType::Int64);
        groups.update_batch(&[column(&[Some(i64::MAX), Some(7)])], &[0, 1], None, 2).expect("added");
        groups.update_batch(&[column(&[Some(i64::MAX), Some(-9)])], &[0, 1], None, 2).expect("added");
        let most = i128::from(i64::MAX);
        assert_eq!(decimals(&groups.evaluate(EmitTo::All).expect("sums")), [Some(2 * most), Some(-2)]);
    }

    #[test]
    fn a_sum_that_outgrows_64_bits_amid_a_column_loses_no_row_of_it() {
        let mut random = fastrand::Rng::with_seed(3);
        for round in 0..200 {
            let averages = round % 2 == 0;
            let mut groups = Groups::new(What::of(averages, &DataType::Int64).expect("is summed exactly"));
            let (mut sums, mut counts) = ([0_i128; 3], [0_i128; 3]);
            for batch in 0..4 {
                let values: Vec<i64> =
                    (0..20).map(|_| if random.u8(..30) == 0 { random.i64(..) } else { random.i64(-9..9) }).collect();
                let of: Vec<usize> =
                    (0..20).map(|row| if batch == 0 && row < 3 { row } else { random.usize(..3) }).collect();
                for (value, group) in values.iter().zip(&of) {
                    sums[*group] += i128::from(*value);
                    counts[*group] += 1;
                }
                groups.update_batch(&[Arc::new(Int64Array::from(values))], &of, None, 3).expect("added");
            }
            let state = groups.state(EmitTo::All).expect("states");
            assert_eq!(decimals(state.last().expect("sums")), sums.map(Some));
            if averages {
                let told = state[0].as_primitive::<UInt64Type>().values().iter().map(|count| i128::from(*count));
                assert!(told.eq(counts));
            }
            let mut merged = Groups::new(groups.what);
            for _ in 0..2 {
                merged.merge_batch(&state, &[0, 1, 2], 3).expect("merged");
            }
            let state = merged.state(EmitTo::All).expect("states");
            assert_eq!(decimals(state.last().expect("sums")), sums.map(|sum| Some(2 * sum)));
        }
    }

    #[test]
    fn a_group_without_values_has_no_sum_whichever_batch_it_came_with() {
        for nulls_first in [false, true] {
            let mut groups = sums_of(&DataType::Int64);
            let (whole, holey) = (column(&[Some(1), Some(2)]), column(&[None, Some(3)]));
            if nulls_first {
                groups.update_batch(&[holey], &[0, 1], None, 2).expect("added");
                groups.update_batch(&[whole], &[1, 2], None, 3).expect("added");
                assert_eq!(decimals(&groups.evaluate(EmitTo::First(2)).expect("sums")), [None, Some(4)]);
                assert_eq!(decimals(&groups.evaluate(EmitTo::All).expect("sums")), [Some(2)]);
            } else {
                groups.update_batch(&[whole], &[0, 1], None, 2).expect("added");
                groups.update_batch(&[holey], &[2, 0], None, 3).expect("added");
                assert_eq!(decimals(&groups.state(EmitTo::All).expect("sums")[0]), [Some(4), Some(2), None]);
            }
        }
    }

    #[test]
    fn a_group_that_no_row_is_of_has_no_sum() {
        let mut groups = sums_of(&DataType::Int64);
        groups.update_batch(&[column(&[])], &[], None, 1).expect("added");
        assert_eq!(decimals(&groups.evaluate(EmitTo::All).expect("sums")), [None]);
        let mut groups = sums_of(&DataType::Int64);
        let filter = BooleanArray::from(vec![true, false]);
        groups.update_batch(&[column(&[Some(1), Some(2)])], &[0, 1], Some(&filter), 2).expect("added");
        assert_eq!(decimals(&groups.evaluate(EmitTo::All).expect("sums")), [Some(1), None]);
    }

    #[test]
    fn a_row_becomes_a_state_of_its_own() {
        let groups = sums_of(&DataType::Int64);
        let filter = BooleanArray::from(vec![Some(true), None, Some(true)]);
        let states = groups.convert_to_state(&[column(&[Some(1), Some(2), None])], Some(&filter)).expect("states");
        assert_eq!(states.len(), 1);
        assert_eq!(decimals(&states[0]), [Some(1), None, None]);
    }
}
