//! `min` and `max`, where NaN is larger than all other numbers, also in groups: DataFusion's own compare it to nothing there, and
//! give the largest number of the type for a group of NaNs.

use std::cmp::Ordering;
use std::fmt::Debug;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, PrimitiveArray};
use datafusion::arrow::datatypes::{DataType, Float32Type, Float64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, ReversedUDAF, SetMonotonicity, Signature,
    StatisticsArgs,
};

/// The least value.
pub fn least() -> Arc<AggregateUDF> {
    static FUNCTION: LazyLock<Arc<AggregateUDF>> = LazyLock::new(|| Extreme::function(min_udaf(), Ordering::Less));
    Arc::clone(&FUNCTION)
}

/// The greatest value.
pub fn greatest() -> Arc<AggregateUDF> {
    static FUNCTION: LazyLock<Arc<AggregateUDF>> = LazyLock::new(|| Extreme::function(max_udaf(), Ordering::Greater));
    Arc::clone(&FUNCTION)
}

#[derive(Debug)]
struct Extreme {
    /// How a value compares to those that it replaces.
    order: Ordering,
    /// DataFusion's function of this name.
    inexact: Arc<AggregateUDF>,
}

impl Extreme {
    fn function(inexact: Arc<AggregateUDF>, order: Ordering) -> Arc<AggregateUDF> {
        Arc::new(AggregateUDF::from(Self { order, inexact }))
    }
}

impl PartialEq for Extreme {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}

impl Eq for Extreme {}

impl Hash for Extreme {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.order.hash(state);
    }
}

impl AggregateUDFImpl for Extreme {
    fn name(&self) -> &str {
        self.inexact.name()
    }

    fn aliases(&self) -> &[String] {
        self.inexact.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inexact.signature()
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.inexact.coerce_types(types)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inexact.return_type(types)
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.inexact.accumulator(args)
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.inexact.create_sliding_accumulator(args)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        self.inexact.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        match args.return_field.data_type() {
            DataType::Float32 => Ok(Box::new(Groups::<Float32Type>::new(self.order))),
            DataType::Float64 => Ok(Box::new(Groups::<Float64Type>::new(self.order))),
            _ => self.inexact.create_groups_accumulator(args),
        }
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.inexact.order_sensitivity()
    }

    fn is_descending(&self) -> Option<bool> {
        self.inexact.is_descending()
    }

    fn value_from_stats(&self, statistics: &StatisticsArgs<'_>) -> Option<ScalarValue> {
        self.inexact.value_from_stats(statistics)
    }

    fn set_monotonicity(&self, of: &DataType) -> SetMonotonicity {
        self.inexact.inner().set_monotonicity(of)
    }
}

/// The extreme value of each group that has any.
#[derive(Debug)]
struct Groups<T: ArrowPrimitiveType> {
    order: Ordering,
    values: Vec<Option<T::Native>>,
}

impl<T: ArrowPrimitiveType> Groups<T> {
    fn new(order: Ordering) -> Self {
        Self { order, values: Vec::new() }
    }
}

/// NaN is equal to itself, and larger than all else.
fn compare<N: PartialOrd>(left: &N, right: &N) -> Ordering {
    let is_nan = |value: &N| value.partial_cmp(value).is_none();
    left.partial_cmp(right).unwrap_or_else(|| is_nan(left).cmp(&is_nan(right)))
}

impl<T> GroupsAccumulator for Groups<T>
where
    T: ArrowPrimitiveType + Debug + Send + Sync,
    T::Native: PartialOrd,
{
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        count: usize,
    ) -> Result<()> {
        self.values.resize(count, None);
        let Some(values) = values.first() else { return Ok(()) };
        for (row, value) in values.as_primitive::<T>().iter().enumerate() {
            let passes = filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row));
            let Some(value) = value.filter(|_| passes) else { continue };
            let place = &mut self.values[groups[row]];
            if place.as_ref().is_none_or(|known| compare(&value, known) == self.order) {
                *place = Some(value);
            }
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], count: usize) -> Result<()> {
        self.update_batch(states, groups, None, count)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let values = emit_to.take_needed(&mut self.values);
        Ok(Arc::new(values.into_iter().collect::<PrimitiveArray<T>>()))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(emit_to)?])
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let Some(values) = values.first() else { return Ok(Vec::new()) };
        let passes = |row: usize| filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row));
        let values = values.as_primitive::<T>().iter().enumerate();
        let states: PrimitiveArray<T> = values.map(|(row, value)| value.filter(|_| passes(row))).collect();
        Ok(vec![Arc::new(states)])
    }

    fn size(&self) -> usize {
        self.values.capacity() * size_of::<Option<T::Native>>()
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::Float64Array;

    use super::*;

    #[test]
    fn nan_is_larger_than_all_else_in_every_group() {
        let nan = f64::NAN;
        let values: ArrayRef =
            Arc::new(Float64Array::from(vec![Some(nan), Some(1.0), Some(nan), Some(-nan), None, Some(f64::INFINITY)]));
        let groups = [0, 0, 1, 1, 2, 0];
        for (order, expected) in
            [(Ordering::Less, [Some(1.0), Some(nan), None]), (Ordering::Greater, [Some(nan), Some(nan), None])]
        {
            let mut found = Groups::<Float64Type>::new(order);
            found.update_batch(&[Arc::clone(&values)], &groups, None, 3).expect("numbers");
            let found = found.evaluate(EmitTo::All).expect("numbers");
            let found: Vec<Option<f64>> = found.as_primitive::<Float64Type>().iter().collect();
            let same = |(one, other): (&Option<f64>, &Option<f64>)| match (one, other) {
                (Some(one), Some(other)) => compare(one, other) == Ordering::Equal,
                (one, other) => one.is_none() && other.is_none(),
            };
            assert!(found.iter().zip(&expected).all(same), "{found:?} is not {expected:?}");
        }
    }
}
