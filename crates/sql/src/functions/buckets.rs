//! `width_bucket(operand, low, high, count)`: which of `count` equal parts between two bounds a number falls into.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Int32Array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Decimal256Type, Float64Type, Int32Type, i256};
use datafusion::common::{Result, exec_err, plan_err};
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};

#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct WidthBucket {
    signature: Signature,
}

impl Default for WidthBucket {
    fn default() -> Self {
        Self { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for WidthBucket {
    fn name(&self) -> &'static str {
        "width_bucket"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int32)
    }

    /// Floating-point numbers if one of the three is; exact decimals of one scale otherwise.
    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        let [numbers @ .., count] = arguments else { return plan_err!("width_bucket takes four numbers") };
        if numbers.len() != 3 || !count.is_integer() && *count != DataType::Null {
            return plan_err!("width_bucket takes three numbers and an INTEGER");
        }
        let mut scale = 0;
        for number in numbers {
            match number {
                DataType::Decimal128(_, own) | DataType::Decimal256(_, own) => scale = scale.max(*own),
                DataType::Null => {}
                number if number.is_integer() || number.is_floating() => {}
                _ => return plan_err!("width_bucket takes three numbers and an INTEGER"),
            }
        }
        let common =
            if numbers.iter().any(DataType::is_floating) { DataType::Float64 } else { DataType::Decimal256(76, scale) };
        Ok(vec![common.clone(), common.clone(), common, DataType::Int32])
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        make_scalar_function(of_rows, Vec::new())(&arguments.args)
    }
}

fn of_rows(arrays: &[ArrayRef]) -> Result<ArrayRef> {
    let [operand, low, high, count] = arrays else { return plan_err!("width_bucket takes four numbers") };
    let length = operand.len();
    let count = cast(count, &DataType::Int32)?;
    let count = count.as_primitive::<Int32Type>();
    let valid = |at: usize| arrays.iter().all(|array| array.is_valid(at));
    let buckets: Int32Array = if operand.data_type().is_floating() {
        let [operand, low, high] = [operand, low, high].map(AsArray::as_primitive::<Float64Type>);
        let bucket = |at: usize| float(operand.value(at), low.value(at), high.value(at), count.value(at));
        (0..length).map(|at| valid(at).then(|| bucket(at)).transpose()).collect::<Result<_>>()?
    } else {
        let [operand, low, high] = [operand, low, high].map(AsArray::as_primitive::<Decimal256Type>);
        let bucket = |at: usize| exact(operand.value(at), low.value(at), high.value(at), count.value(at));
        (0..length).map(|at| valid(at).then(|| bucket(at)).transpose()).collect::<Result<_>>()?
    };
    Ok(Arc::new(buckets))
}

/// The bucket behind the last one.
fn behind(count: i32) -> Result<i32> {
    let Some(behind) = count.checked_add(1) else {
        return exec_err!("integer out of range: width_bucket of {count} buckets");
    };
    Ok(behind)
}

fn check(count: i32, is_empty: bool) -> Result<()> {
    if count <= 0 {
        return exec_err!("count must be greater than zero in width_bucket, and is {count}");
    }
    if is_empty {
        return exec_err!("lower bound cannot equal upper bound in width_bucket");
    }
    Ok(())
}

fn exact(operand: i256, low: i256, high: i256, count: i32) -> Result<i32> {
    check(count, low == high)?;
    // From the higher bound down, it is the same mirrored.
    let (operand, low, high) =
        if low < high { (operand, low, high) } else { (mirrored(operand)?, mirrored(low)?, mirrored(high)?) };
    if operand < low {
        return Ok(0);
    }
    if operand >= high {
        return behind(count);
    }
    let parts = operand.checked_sub(low).and_then(|above| above.checked_mul(i256::from(count)));
    let bucket = parts.zip(high.checked_sub(low)).and_then(|(parts, width)| parts.checked_div(width));
    let Some(bucket) = bucket.and_then(i256::to_i128).and_then(|bucket| i32::try_from(bucket).ok()) else {
        return exec_err!("width_bucket of numbers of too many digits");
    };
    behind(bucket)
}

fn mirrored(number: i256) -> Result<i256> {
    let Some(number) = number.checked_neg() else {
        return exec_err!("width_bucket of numbers of too many digits");
    };
    Ok(number)
}

fn float(operand: f64, low: f64, high: f64, count: i32) -> Result<i32> {
    if operand.is_nan() || low.is_nan() || high.is_nan() {
        return exec_err!("operand, lower bound, and upper bound cannot be NaN in width_bucket");
    }
    if low.is_infinite() || high.is_infinite() {
        return exec_err!("lower and upper bounds must be finite in width_bucket");
    }
    #[expect(clippy::float_cmp, reason = "bounds that are the same number have nothing between them")]
    check(count, low == high)?;
    let (operand, low, high) = if low < high { (operand, low, high) } else { (-operand, -low, -high) };
    if operand < low {
        return Ok(0);
    }
    if operand >= high {
        return behind(count);
    }
    // Halves, lest the difference of large bounds is infinite.
    let part = if (high - low).is_finite() {
        (operand - low) / (high - low)
    } else {
        (operand / 2.0 - low / 2.0) / (high / 2.0 - low / 2.0)
    };
    #[expect(clippy::cast_possible_truncation, reason = "a part below one of count lies below count")]
    let bucket = (f64::from(count) * part) as i32;
    behind(bucket.min(count - 1))
}
