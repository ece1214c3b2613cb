//! Variances and standard deviations: of integers and decimals by sums that are exact, of floating-point numbers with NaN where
//! one of them is infinite or NaN. All of them are DOUBLE.

use std::collections::HashSet;
use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::{
    DECIMAL256_MAX_PRECISION, DataType, Decimal256Type, Field, FieldRef, Float64Type, Int64Type, UInt64Type, i256,
};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, ReversedUDAF, Signature, Volatility};

use super::frame::{Frame, Summary};
use super::sums::{for_each, outgrown};

/// The functions, by DataFusion's names for them.
pub(super) fn spreads() -> impl Iterator<Item = Arc<AggregateUDF>> {
    static FUNCTIONS: LazyLock<[Arc<AggregateUDF>; 4]> = LazyLock::new(|| {
        [(false, false), (true, false), (false, true), (true, true)]
            .map(|(of_all, is_root)| Arc::new(AggregateUDF::from(Spread::new(What { of_all, is_root }))))
    });
    FUNCTIONS.iter().cloned()
}

/// Which of the functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct What {
    /// The values are all there are, and not a sample.
    of_all: bool,
    /// A standard deviation.
    is_root: bool,
}

impl What {
    /// The result, where the squares of the distances to the mean sum up to this; nothing where there are too few values.
    fn result(self, count: u64, squares: impl FnOnce() -> Result<f64>) -> Result<Option<f64>> {
        if count <= u64::from(!self.of_all) {
            return Ok(None);
        }
        let divisor = if self.of_all { count } else { count - 1 };
        let variance = squares()? / divisor as f64;
        let result = if self.is_root { variance.sqrt() } else { variance };
        // There is one NaN, which is equal to itself.
        Ok(Some(if result.is_nan() { f64::NAN } else { result }))
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Spread {
    what: What,
    aliases: Vec<String>,
    signature: Signature,
}

impl Spread {
    fn new(what: What) -> Self {
        let aliases: &[&str] = match (what.of_all, what.is_root) {
            (false, false) => &["var_sample", "var_samp"],
            (true, false) => &["var_population"],
            (false, true) => &["stddev_samp"],
            (true, true) => &[],
        };
        let aliases = aliases.iter().map(|alias| (*alias).to_owned()).collect();
        Self { what, aliases, signature: Signature::user_defined(Volatility::Immutable) }
    }
}

/// The digits behind the point of numbers that are summed exactly.
fn scale(of: &DataType) -> Option<i8> {
    match of {
        DataType::Int16 | DataType::Int32 | DataType::Int64 => Some(0),
        DataType::Decimal128(_, scale) if *scale >= 0 => Some(*scale),
        _ => None,
    }
}

impl AggregateUDFImpl for Spread {
    fn name(&self) -> &str {
        match (self.what.of_all, self.what.is_root) {
            (false, false) => "var",
            (true, false) => "var_pop",
            (false, true) => "stddev",
            (true, true) => "stddev_pop",
        }
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let [of] = types else { return plan_err!("{} takes one argument, not {}", self.name(), types.len()) };
        Ok(vec![match of {
            DataType::Int8 | DataType::UInt8 => DataType::Int16,
            DataType::UInt16 => DataType::Int32,
            DataType::UInt32 => DataType::Int64,
            DataType::UInt64 => DataType::Decimal128(20, 0),
            DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
                DataType::Decimal128(*precision, *scale)
            }
            other if scale(other).is_some() => other.clone(),
            DataType::Float16 | DataType::Float32 | DataType::Float64 | DataType::Null => DataType::Float64,
            other => return plan_err!("{} of {other} is not supported; CAST it to a number first", self.name()),
        }])
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let is_exact = args.input_fields.first().is_some_and(|field| scale(field.data_type()).is_some());
        let sum = if is_exact { SUM } else { DataType::Float64 };
        let named = |name, of| Arc::new(Field::new(format_state_name(args.name, name), of, true));
        if args.is_distinct {
            let values = Arc::new(Field::new_list_field(sum, true));
            return Ok(vec![named("values", DataType::List(values))]);
        }
        Ok(vec![named("count", DataType::UInt64), named("sum", sum.clone()), named("squares", sum)])
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let what = self.what;
        let scale = args.expr_fields.first().and_then(|field| scale(field.data_type()));
        let (of, finish): (DataType, Box<dyn Accumulator>) = if let Some(scale) = scale {
            (SUM, Box::new(Exact { what, scale, count: 0, sum: i256::ZERO, squares: i256::ZERO }))
        } else {
            (DataType::Float64, Box::new(Floats::new(what)))
        };
        Ok(if args.is_distinct { Box::new(Different { of, values: HashSet::new(), finish }) } else { finish })
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let is_exact = args.expr_fields.first().is_some_and(|field| scale(field.data_type()).is_some());
        if is_exact || args.is_distinct {
            return self.accumulator(args);
        }
        Ok(Box::new(Frame::new(self.what)))
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

/// Of sums of integers and decimals, and of their squares.
const SUM: DataType = DataType::Decimal256(DECIMAL256_MAX_PRECISION, 0);

/// The sum of some integers or decimals and that of their squares, as whole numbers.
#[derive(Debug)]
struct Exact {
    what: What,
    scale: i8,
    count: u64,
    sum: i256,
    squares: i256,
}

impl Exact {
    fn add(&mut self, value: i128) -> Result<()> {
        let value = i256::from_i128(value);
        let squares = value.checked_mul(value).and_then(|square| self.squares.checked_add(square));
        self.squares = squares.ok_or_else(too_large)?;
        self.sum = self.sum.checked_add(value).ok_or_else(too_large)?;
        self.count += 1;
        Ok(())
    }

    /// The squares of the distances to the mean: those of the values, less that of the sum divided by how many there are.
    fn distances(&self) -> Result<f64> {
        let count = i256::from_i128(i128::from(self.count));
        let all = self.squares.checked_mul(count);
        let difference = all.zip(self.sum.checked_mul(self.sum)).and_then(|(all, square)| all.checked_sub(square));
        let difference = as_float(difference.ok_or_else(too_large)?);
        Ok(difference / self.count as f64 / 10_f64.powi(2 * i32::from(self.scale)))
    }
}

fn too_large() -> datafusion::common::DataFusionError {
    outgrown("numeric field overflow: the squares of a variance have more than 76 digits; CAST what it is of to DOUBLE")
}

/// The nearest floating-point number, or one next to it.
fn as_float(number: i256) -> f64 {
    let (low, high) = number.to_parts();
    let upper = high as f64 * 2_f64.powi(128);
    if high == 0 || high == -1 {
        // All of it is in the lower half, and its sign.
        return if high == 0 { low as f64 } else { -(low.wrapping_neg() as f64) };
    }
    upper + low as f64
}

impl Accumulator for Exact {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let Some(values) = values.first() else { return Ok(()) };
        for_each(values, |_, value| self.add(value))
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let Some(values) = values.first() else { return Ok(()) };
        for_each(values, |_, value| {
            let value = i256::from_i128(value);
            // They were added before.
            self.squares = self.squares.wrapping_sub(value.wrapping_mul(value));
            self.sum = self.sum.wrapping_sub(value);
            self.count = self.count.saturating_sub(1);
            Ok(())
        })
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Float64(self.what.result(self.count, || self.distances())?))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let sum = |value| ScalarValue::Decimal256(Some(value), DECIMAL256_MAX_PRECISION, 0);
        Ok(vec![ScalarValue::UInt64(Some(self.count)), sum(self.sum), sum(self.squares)])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let [counts, sums, squares] = states else { return exec_err!("a state of a variance has three parts") };
        let counts = counts.as_primitive::<UInt64Type>();
        let (sums, squares) = (sums.as_primitive::<Decimal256Type>(), squares.as_primitive::<Decimal256Type>());
        for row in (0..counts.len()).filter(|row| counts.is_valid(*row)) {
            self.count += counts.value(row);
            self.sum = self.sum.checked_add(sums.value(row)).ok_or_else(too_large)?;
            self.squares = self.squares.checked_add(squares.value(row)).ok_or_else(too_large)?;
        }
        Ok(())
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

/// The sum of some floating-point numbers and the squares of their distances to their mean (Youngs and Cramer, Technometrics 13, 1971), which loses fewer
/// digits than a mean that is kept up to date, and is what `PostgreSQL` computes.
#[derive(Debug)]
struct Floats {
    what: What,
    count: u64,
    sum: f64,
    squares: f64,
}

impl Floats {
    fn new(what: What) -> Self {
        Self { what, count: 0, sum: 0.0, squares: 0.0 }
    }

    fn add(&mut self, value: f64) -> Result<()> {
        let (before, was_finite) = (self.count as f64, self.sum.is_finite());
        self.count += 1;
        self.sum += value;
        if before > 0.0 {
            let count = self.count as f64;
            let distance = value * count - self.sum;
            self.squares += distance * distance / (count * before);
        }
        self.check(was_finite && value.is_finite())
    }

    /// Without an infinite number or a NaN, nothing else may come to be one.
    fn check(&mut self, all_finite: bool) -> Result<()> {
        if self.sum.is_finite() && self.squares.is_finite() {
            return Ok(());
        }
        if all_finite {
            return Err(outgrown("value out of range: overflow: a variance is too large"));
        }
        self.squares = f64::NAN;
        Ok(())
    }

    fn merge(&mut self, count: u64, sum: f64, squares: f64) -> Result<()> {
        if self.count == 0 {
            (self.count, self.sum, self.squares) = (count, sum, squares);
            return Ok(());
        }
        let all_finite = [self.sum, self.squares, sum, squares].iter().all(|number| number.is_finite());
        let (own, other) = (self.count as f64, count as f64);
        // Of whole numbers this is exact, where the difference of the means is not.
        let distance = self.sum * other - sum * own;
        self.count += count;
        self.sum += sum;
        self.squares += squares + distance * distance / (own * other * (own + other));
        self.check(all_finite)
    }
}

impl Accumulator for Floats {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let Some(values) = values.first() else { return Ok(()) };
        values.as_primitive::<Float64Type>().iter().flatten().try_for_each(|value| self.add(value))
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Float64(self.what.result(self.count, || Ok(self.squares))?))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let float = |value| ScalarValue::Float64(Some(value));
        Ok(vec![ScalarValue::UInt64(Some(self.count)), float(self.sum), float(self.squares)])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let [counts, sums, squares] = states else { return exec_err!("a state of a variance has three parts") };
        let counts = counts.as_primitive::<UInt64Type>();
        let (sums, squares) = (sums.as_primitive::<Float64Type>(), squares.as_primitive::<Float64Type>());
        for row in (0..counts.len()).filter(|row| counts.is_valid(*row) && counts.value(*row) > 0) {
            self.merge(counts.value(row), sums.value(row), squares.value(row))?;
        }
        Ok(())
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

impl Summary for What {
    fn of(&self, values: &mut dyn Iterator<Item = f64>) -> Result<ScalarValue> {
        let mut floats = Floats::new(*self);
        for value in values {
            floats.add(value)?;
        }
        floats.evaluate()
    }
}

/// Of different values alone.
#[derive(Debug)]
struct Different {
    /// The type of values in a state.
    of: DataType,
    values: HashSet<ScalarValue>,
    /// What they are given to at the end; nothing is in it before.
    finish: Box<dyn Accumulator>,
}

impl Different {
    fn insert(&mut self, values: &ArrayRef) -> Result<()> {
        for row in (0..values.len()).filter(|row| values.is_valid(*row)) {
            let value = match ScalarValue::try_from_array(values, row)? {
                // Zeros are one value, and so are NaNs.
                ScalarValue::Float64(Some(0.0)) => ScalarValue::Float64(Some(0.0)),
                ScalarValue::Float64(Some(number)) if number.is_nan() => ScalarValue::Float64(Some(f64::NAN)),
                other => other,
            };
            self.values.insert(value);
        }
        Ok(())
    }
}

impl Accumulator for Different {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let Some(values) = values.first() else { return Ok(()) };
        if self.of == DataType::Float64 {
            return self.insert(values);
        }
        for_each(values, |_, value| {
            self.values.insert(ScalarValue::Decimal256(Some(i256::from_i128(value)), DECIMAL256_MAX_PRECISION, 0));
            Ok(())
        })
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        for value in std::mem::take(&mut self.values) {
            let one = match value {
                ScalarValue::Decimal256(Some(value), ..) => {
                    let Some(value) = value.to_i128() else { return Err(too_large()) };
                    // Whole numbers, and the scale is known where they are summed.
                    ScalarValue::Decimal128(Some(value), datafusion::arrow::datatypes::DECIMAL128_MAX_PRECISION, 0)
                }
                other => other,
            };
            self.finish.update_batch(&[one.to_array()?])?;
        }
        self.finish.evaluate()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let values: Vec<ScalarValue> = self.values.iter().cloned().collect();
        Ok(vec![ScalarValue::List(ScalarValue::new_list_nullable(&values, &self.of))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let Some(lists) = states.first() else { return Ok(()) };
        for values in lists.as_list::<i32>().iter().flatten() {
            self.insert(&values)?;
        }
        Ok(())
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.values.capacity() * (size_of::<ScalarValue>() + size_of::<Int64Type>())
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{Float64Array, Int64Array};

    use super::*;

    fn result(what: What, parts: &[&[f64]]) -> ScalarValue {
        let new = || Floats::new(what);
        let mut merged = new();
        for part in parts {
            let mut one = new();
            one.update_batch(&[Arc::new(Float64Array::from(part.to_vec()))]).expect("counted");
            let state: Vec<ArrayRef> =
                one.state().expect("a state").iter().map(|part| part.to_array().expect("an array")).collect();
            merged.merge_batch(&state).expect("merged");
        }
        merged.evaluate().expect("a result")
    }

    #[test]
    fn what_is_not_finite_makes_a_variance_nan_and_parts_are_merged() {
        let what = What { of_all: true, is_root: false };
        let ScalarValue::Float64(Some(merged)) = result(what, &[&[1.0, 2.0], &[], &[4.0]]) else { panic!("a number") };
        assert!((merged - 14.0 / 9.0).abs() <= 2.0 * f64::EPSILON, "{merged}");
        assert_eq!(result(what, &[&[7.5]]), ScalarValue::Float64(Some(0.0)));
        assert_eq!(result(what, &[&[]]), ScalarValue::Float64(None));
        assert_eq!(result(What { of_all: false, is_root: true }, &[&[7.5]]), ScalarValue::Float64(None));
        for parts in [&[&[f64::NAN][..]][..], &[&[f64::INFINITY, 1.0]], &[&[1.0], &[f64::NEG_INFINITY]]] {
            let ScalarValue::Float64(Some(made)) = result(what, parts) else { panic!("a number") };
            assert!(made.is_nan(), "{parts:?}");
        }
    }

    #[test]
    fn large_numbers_near_each_other_keep_their_digits_and_an_overflow_is_an_error() {
        let what = What { of_all: true, is_root: false };
        let near = [1_000_000_003.0, 1_000_000_004.0, 1_000_000_006.0, 1_000_000_007.0];
        assert_eq!(result(what, &[&near]), ScalarValue::Float64(Some(2.5)));
        assert_eq!(result(what, &[&near[..1], &near[1..]]), ScalarValue::Float64(Some(2.5)));
        for parts in [&[1e200, -1e200][..], &[f64::MAX, f64::MAX], &[f64::MAX, -f64::MAX, f64::MAX]] {
            let mut floats = Floats::new(what);
            assert!(parts.iter().try_for_each(|value| floats.add(*value)).is_err(), "{parts:?}");
        }
        let mut floats = Floats::new(what);
        floats.add(1e200).expect("one number");
        assert!(floats.merge(1, -1e200, 0.0).is_err());
    }

    #[test]
    fn whole_numbers_that_no_double_tells_apart_have_a_variance() {
        let what = What { of_all: true, is_root: false };
        let mut exact = Exact { what, scale: 0, count: 0, sum: i256::ZERO, squares: i256::ZERO };
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![i64::MAX - 2, i64::MAX - 1, i64::MAX]));
        exact.update_batch(std::slice::from_ref(&numbers)).expect("counted");
        assert_eq!(exact.evaluate().expect("a result"), ScalarValue::Float64(Some(2.0 / 3.0)));
        exact.retract_batch(&[numbers.slice(0, 2)]).expect("taken away");
        assert_eq!(exact.evaluate().expect("a result"), ScalarValue::Float64(Some(0.0)));
        assert!((as_float(i256::MIN) + 2_f64.powi(255)).abs() < 1.0);
        assert!((as_float(i256::from_i128(-5)) + 5.0).abs() < f64::EPSILON);
    }
}
