//! Floating-point numbers of a window's frame. They are summed up anew for each row: what was added can not be taken away again
//! without a trace, be it infinite or only large.

use std::collections::VecDeque;
use std::fmt::Debug;

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::Float64Type;
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::Accumulator;

/// What is told of numbers.
pub(super) trait Summary: Debug + Send + Sync + 'static {
    fn of(&self, values: &mut dyn Iterator<Item = f64>) -> Result<ScalarValue>;
}

#[derive(Debug)]
pub(super) struct Frame<S> {
    summary: S,
    values: VecDeque<Option<f64>>,
}

impl<S> Frame<S> {
    pub(super) fn new(summary: S) -> Self {
        Self { summary, values: VecDeque::new() }
    }
}

impl<S: Summary> Accumulator for Frame<S> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let Some(values) = values.first() else { return Ok(()) };
        self.values.extend(values.as_primitive::<Float64Type>().iter());
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let left = values.first().map_or(0, Array::len).min(self.values.len());
        self.values.drain(..left);
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.summary.of(&mut self.values.iter().flatten().copied())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        exec_err!("a window's frame is not computed in parts")
    }

    fn merge_batch(&mut self, _: &[ArrayRef]) -> Result<()> {
        exec_err!("a window's frame is not computed in parts")
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.values.capacity() * size_of::<Option<f64>>()
    }
}
