//! `round`, `trunc`, `floor` and `ceil` of decimals, with one type for all values of a column.
//!
//! DataFusion's own say one type while a statement is planned and give values of another one, so that what compares the values to
//! a column finds others, or none. Here the digits behind the point are those that the second argument says where it is written
//! down, and those of the first one otherwise. A number that is written down is told from one that is folded later by the
//! statement's rewriting: beside the latter stands a third argument. Of all other numbers these are DataFusion's functions.

use std::hash::{Hash, Hasher};
use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Decimal128Array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Decimal128Type, Field, FieldRef, Int64Type};
use datafusion::common::{Result, ScalarValue, exec_err, internal_err, plan_err};
use datafusion::functions::math;
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::decimals::{self, Digits};

/// All of them.
pub(super) fn functions() -> &'static [Arc<ScalarUDF>; 4] {
    static FUNCTIONS: LazyLock<[Arc<ScalarUDF>; 4]> = LazyLock::new(|| {
        [
            (How::Nearest, math::round()),
            (How::TowardsZero, math::trunc()),
            (How::Down, math::floor()),
            (How::Up, math::ceil()),
        ]
        .map(|(how, inexact)| {
            let signature = Signature::user_defined(Volatility::Immutable);
            Arc::new(ScalarUDF::from(Rounding { how, inexact, signature }))
        })
    });
    &FUNCTIONS
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum How {
    /// A half goes away from zero.
    Nearest,
    TowardsZero,
    Down,
    Up,
}

#[derive(Debug)]
struct Rounding {
    how: How,
    /// DataFusion's function of this name.
    inexact: Arc<ScalarUDF>,
    signature: Signature,
}

impl PartialEq for Rounding {
    fn eq(&self, other: &Self) -> bool {
        self.how == other.how
    }
}

impl Eq for Rounding {}

impl Hash for Rounding {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.how.hash(state);
    }
}

impl Rounding {
    /// How many arguments it may have; the last one of three says that the second one is not written down.
    fn most(&self) -> usize {
        if matches!(self.how, How::Nearest | How::TowardsZero) { 3 } else { 1 }
    }

    /// The digits of a result.
    fn digits(&self, (precision, scale): Digits, places: Option<i64>) -> Digits {
        let scale = i16::from(scale);
        // 9.9 becomes 10.
        let before = i16::from(precision) - scale + i16::from(self.how != How::TowardsZero);
        // Zeros are added as far as there is room for them.
        let room = (38 - before).max(scale);
        let behind = places.map_or(scale, |places| places.clamp(0, room.into()) as i16);
        let digits = before + behind;
        (digits.clamp(1, 38).max(behind) as u8, behind as i8)
    }

    fn value(&self, value: i128, scale: i8, places: i64, (precision, behind): Digits) -> Option<i128> {
        let places = places.clamp(-40, scale.into());
        let Some(unit) = 10_i128.checked_pow(u32::try_from(i64::from(scale) - places).ok()?) else { return Some(0) };
        let (whole, rest) = (value / unit, value % unit);
        let more = match self.how {
            How::TowardsZero => 0,
            How::Down => -i128::from(rest < 0),
            How::Up => i128::from(rest > 0),
            How::Nearest if rest.unsigned_abs() < unit.unsigned_abs() - rest.unsigned_abs() => 0,
            How::Nearest => value.signum(),
        };
        let rounded = whole + if rest == 0 { 0 } else { more };
        if rounded == 0 {
            return Some(0);
        }
        let times = 10_i128.checked_pow(u32::try_from(i64::from(behind) - places).ok()?)?;
        rounded.checked_mul(times).filter(|made| decimals::fits(*made, precision))
    }

    fn decimals(&self, args: &[ColumnarValue], rows: usize, result: Digits) -> Result<ArrayRef> {
        let Some(values) = args.first() else { return exec_err!("{} of nothing", self.name()) };
        let values = values.to_array(rows)?;
        let DataType::Decimal128(_, scale) = *values.data_type() else {
            return internal_err!("{} of {} as of decimals", self.name(), values.data_type());
        };
        let values = values.as_primitive::<Decimal128Type>();
        let places: Option<ArrayRef> = match args.get(1) {
            Some(places) => Some(cast(&places.to_array(rows)?, &DataType::Int64)?),
            None => None,
        };
        let places = places.as_ref().map(AsArray::as_primitive::<Int64Type>);
        let of_row = |row: usize| {
            if values.is_null(row) || places.is_some_and(|places| places.is_null(row)) {
                return Ok(None);
            }
            let places = places.map_or(0, |places| places.value(row));
            let made = self.value(values.value(row), scale, places, result);
            made.map(Some).ok_or_else(|| decimals::too_many(result))
        };
        let made = (0..values.len()).map(of_row).collect::<Result<Decimal128Array, _>>()?;
        Ok(Arc::new(made.with_precision_and_scale(result.0, result.1)?))
    }
}

/// The type as a decimal of 128 bits, if it is any decimal that has no digits cut off before the point.
fn decimal(of: &DataType) -> Option<Digits> {
    match of {
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
            if *scale >= 0 =>
        {
            Some((*precision, *scale))
        }
        _ => None,
    }
}

impl ScalarUDFImpl for Rounding {
    fn name(&self) -> &str {
        self.inexact.name()
    }

    fn aliases(&self) -> &[String] {
        self.inexact.aliases()
    }

    fn display_name(&self, args: &[Expr]) -> Result<String> {
        let args: Vec<String> = args.iter().take(2).map(Expr::to_string).collect();
        Ok(format!("{}({})", self.name(), args.join(",")))
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let args: Vec<String> = args.iter().take(2).map(|arg| arg.schema_name().to_string()).collect();
        Ok(format!("{}({})", self.name(), args.join(",")))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        internal_err!("the type of {} depends on how many digits are wanted", self.name())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let Some(digits) = args.arg_fields.first().and_then(|of| decimal(of.data_type())) else {
            let most = args.arg_fields.len().min(2);
            return self.inexact.return_field_from_args(ReturnFieldArgs {
                arg_fields: &args.arg_fields[..most],
                scalar_arguments: &args.scalar_arguments[..most],
            });
        };
        let places = match args.scalar_arguments {
            [_] => Some(0),
            [_, Some(places)] => match places.cast_to(&DataType::Int64)? {
                ScalarValue::Int64(places) => places,
                _ => None,
            },
            _ => None,
        };
        let (precision, scale) = self.digits(digits, places);
        let nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(self.name(), DataType::Decimal128(precision, scale), nullable)))
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        if types.is_empty() || types.len() > self.most() {
            return plan_err!("{} does not take {} arguments", self.name(), types.len());
        }
        let mut coerced = types.to_vec();
        if let Some((precision, scale)) = decimal(&types[0]) {
            // The number of digits stays what is written down, without a cast.
            if !types.get(1).is_none_or(|places| places.is_integer() || places.is_null()) {
                return plan_err!("{} of a decimal takes a whole number of digits", self.name());
            }
            coerced[0] = DataType::Decimal128(precision, scale);
            return Ok(coerced);
        }
        let fields: Vec<FieldRef> =
            types.iter().take(2).map(|of| Arc::new(Field::new("", of.clone(), true)) as FieldRef).collect();
        for (place, field) in coerced.iter_mut().zip(fields_with_udf(&fields, self.inexact.as_ref())?) {
            *place = field.data_type().clone();
        }
        Ok(coerced)
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        args.args.truncate(2);
        args.arg_fields.truncate(2);
        let of = args.args.first().map(ColumnarValue::data_type);
        let DataType::Decimal128(precision, scale) = *args.return_type() else {
            return self.inexact.invoke_with_args(args);
        };
        if of.is_none_or(|of| decimal(&of).is_none()) {
            return self.inexact.invoke_with_args(args);
        }
        if args.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_))) {
            let made = self.decimals(&args.args, 1, (precision, scale))?;
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&made, 0)?));
        }
        self.decimals(&args.args, args.number_rows, (precision, scale)).map(ColumnarValue::Array)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounding(how: How) -> Rounding {
        let signature = Signature::user_defined(Volatility::Immutable);
        Rounding { how, inexact: math::round(), signature }
    }

    #[test]
    fn a_value_is_rounded_to_the_digits_of_its_type() {
        for (how, value, places, expected) in [
            (How::Nearest, 125, 1, Some(13)),
            (How::Nearest, -125, 1, Some(-13)),
            (How::Nearest, 124, 1, Some(12)),
            (How::Nearest, 9_999, 0, Some(100)),
            (How::Nearest, 9_999, -1, Some(100)),
            (How::Nearest, 9_999, -3, Some(0)),
            (How::Nearest, 50_000, -3, Some(1_000)),
            (How::Nearest, i64::MAX, -50, Some(0)),
            (How::TowardsZero, -129, 1, Some(-12)),
            (How::Down, -50, 0, Some(-1)),
            (How::Down, 50, 0, Some(0)),
            (How::Up, 999, 0, Some(10)),
            (How::Up, -999, 0, Some(-9)),
        ] {
            let of = rounding(how);
            let digits = of.digits((30, 2), Some(places));
            assert_eq!(of.value(value.into(), 2, places, digits), expected, "{how:?} {value} {places}");
        }
    }

    #[test]
    fn what_has_too_many_digits_is_an_error() {
        let (of, most) = (rounding(How::Nearest), 10_i128.pow(38) - 1);
        assert_eq!(of.digits((38, 0), Some(-1)), (38, 0));
        assert_eq!(of.value(most, 0, -1, (38, 0)), None);
        assert_eq!(of.digits((38, 38), Some(38)), (38, 38));
        assert_eq!(of.digits((10, 2), Some(5)), (14, 5));
        assert_eq!(of.digits((38, 2), Some(5)), (38, 2));
    }
}
