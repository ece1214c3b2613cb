//! `mode() WITHIN GROUP (ORDER BY x)`: the most frequent value, and of several such values the first one in that order.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Int64Type};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{Accumulator, AggregateUDFImpl, Signature, Volatility};

#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Mode {
    signature: Signature,
}

impl Default for Mode {
    fn default() -> Self {
        Self { signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl AggregateUDFImpl for Mode {
    fn name(&self) -> &'static str {
        "mode"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let [of] = types else { return exec_err!("mode is of one value") };
        Ok(of.clone())
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let [of] = args.input_fields else { return exec_err!("mode is of one value") };
        let list = |name, of: DataType| {
            let items = Arc::new(Field::new_list_field(of, true));
            Arc::new(Field::new(format_state_name(args.name, name), DataType::List(items), true))
        };
        Ok(vec![list("values", of.data_type().clone()), list("counts", DataType::Int64)])
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let [of] = args.expr_fields else { return exec_err!("mode is of one value") };
        let descending = args.order_bys.first().is_some_and(|order| order.options.descending);
        Ok(Box::new(Counted { of: of.data_type().clone(), descending, counts: HashMap::new(), bytes: 0 }))
    }

    fn supports_within_group_clause(&self) -> bool {
        true
    }
}

/// How often each value was seen.
#[derive(Debug)]
struct Counted {
    of: DataType,
    descending: bool,
    counts: HashMap<ScalarValue, i64>,
    /// What the values take.
    bytes: usize,
}

impl Counted {
    fn count(&mut self, values: &ArrayRef, times: impl Fn(usize) -> i64) -> Result<()> {
        for row in (0..values.len()).filter(|row| values.is_valid(*row)) {
            let value = same(ScalarValue::try_from_array(values, row)?);
            if let Some(count) = self.counts.get_mut(&value) {
                *count += times(row);
            } else {
                self.bytes += value.size() + size_of::<i64>();
                self.counts.insert(value, times(row));
            }
        }
        Ok(())
    }

    /// Which of two values is the mode.
    fn order(&self, left: (&ScalarValue, i64), right: (&ScalarValue, i64)) -> Ordering {
        let first = left.0.partial_cmp(right.0).unwrap_or(Ordering::Equal);
        left.1.cmp(&right.1).then(if self.descending { first } else { first.reverse() })
    }
}

/// Zeros are one value, and so are NaNs.
fn same(value: ScalarValue) -> ScalarValue {
    match value {
        ScalarValue::Float32(Some(0.0)) => ScalarValue::Float32(Some(0.0)),
        ScalarValue::Float64(Some(0.0)) => ScalarValue::Float64(Some(0.0)),
        ScalarValue::Float32(Some(number)) if number.is_nan() => ScalarValue::Float32(Some(f32::NAN)),
        ScalarValue::Float64(Some(number)) if number.is_nan() => ScalarValue::Float64(Some(f64::NAN)),
        other => other,
    }
}

impl Accumulator for Counted {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let Some(values) = values.first() else { return exec_err!("mode is of one value") };
        self.count(values, |_| 1)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let most = self.counts.iter().max_by(|left, right| self.order((left.0, *left.1), (right.0, *right.1)));
        match most {
            Some((value, _)) => Ok(value.clone()),
            None => ScalarValue::try_from(&self.of),
        }
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.bytes
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let (values, counts): (Vec<_>, Vec<_>) =
            self.counts.iter().map(|(value, count)| (value.clone(), ScalarValue::Int64(Some(*count)))).unzip();
        Ok(vec![
            ScalarValue::List(ScalarValue::new_list_nullable(&values, &self.of)),
            ScalarValue::List(ScalarValue::new_list_nullable(&counts, &DataType::Int64)),
        ])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let [values, counts] = states else { return exec_err!("a state of mode is values and their counts") };
        let (values, counts) = (values.as_list::<i32>(), counts.as_list::<i32>());
        for row in (0..values.len()).filter(|row| values.is_valid(*row) && counts.is_valid(*row)) {
            let (values, counts) = (values.value(row), counts.value(row));
            let counts = counts.as_primitive::<Int64Type>();
            self.count(&values, |at| counts.value(at))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::Int32Array;

    use super::*;

    #[test]
    fn counts_of_several_states_are_added() {
        let counted = |descending| Counted { of: DataType::Int32, descending, counts: HashMap::new(), bytes: 0 };
        let batch = |values: Vec<Option<i32>>| vec![Arc::new(Int32Array::from(values)) as ArrayRef];
        for (descending, expected) in [(false, 1), (true, 3)] {
            let mut merged = counted(descending);
            for values in [vec![Some(1), Some(2), None, None, None], vec![Some(3), Some(1)], vec![Some(3)], vec![]] {
                let mut one = counted(descending);
                one.update_batch(&batch(values)).expect("counted");
                let state = one.state().expect("a state");
                let arrays = state.iter().map(|list| list.to_array().expect("an array")).collect::<Vec<_>>();
                merged.merge_batch(&arrays).expect("merged");
            }
            assert_eq!(merged.evaluate().expect("a mode"), ScalarValue::Int32(Some(expected)));
        }
    }
}
