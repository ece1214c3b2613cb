//! Sums of floating-point numbers of which a NaN is the one that is equal to every other: that of `Infinity` and `-Infinity` has a sign.

use datafusion::arrow::array::{ArrayRef, BooleanArray};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{Accumulator, EmitTo, GroupsAccumulator};

use super::calls::with_one_nan;

/// One sum.
#[derive(Debug)]
pub(super) struct OneNan(pub(super) Box<dyn Accumulator>);

impl Accumulator for OneNan {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.0.update_batch(values)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(match self.0.evaluate()? {
            ScalarValue::Float32(Some(number)) if number.is_nan() => ScalarValue::Float32(Some(f32::NAN)),
            ScalarValue::Float64(Some(number)) if number.is_nan() => ScalarValue::Float64(Some(f64::NAN)),
            other => other,
        })
    }

    fn size(&self) -> usize {
        self.0.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.0.state()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.0.merge_batch(states)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.0.retract_batch(values)
    }

    fn supports_retract_batch(&self) -> bool {
        self.0.supports_retract_batch()
    }
}

/// Those of many groups.
pub(super) struct GroupsWithOneNan(pub(super) Box<dyn GroupsAccumulator>);

impl GroupsAccumulator for GroupsWithOneNan {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        count: usize,
    ) -> Result<()> {
        self.0.update_batch(values, groups, filter, count)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        Ok(with_one_nan(&self.0.evaluate(emit_to)?))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        self.0.state(emit_to)
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], count: usize) -> Result<()> {
        self.0.merge_batch(states, groups, count)
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        self.0.convert_to_state(values, filter)
    }

    fn size(&self) -> usize {
        self.0.size()
    }
}
