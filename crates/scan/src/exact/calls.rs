//! Functions of which a plan has a call where SQL has none.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, Int64Array};
use datafusion::arrow::compute::cast_with_options;
use datafusion::arrow::compute::kernels::numeric::neg;
use datafusion::arrow::datatypes::{
    DataType, Date32Type, Field, FieldRef, Float32Type, Float64Type, Int64Type, IntervalMonthDayNanoType, IntervalUnit,
    TimeUnit,
};
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::format::DEFAULT_CAST_OPTIONS;
use datafusion::common::utils::normalize_float_zero;
use datafusion::common::{DataFusionError, Result, exec_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::conversions;
use super::spans::intervals;

/// `-a` of an integer, of which that of the smallest one is an error, or of a floating-point number.
pub fn negation() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Call::Negation.function());
    Arc::clone(&FUNCTION)
}

/// The whole number nearest to a floating-point one, the even one of two.
pub fn round_even() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Call::RoundEven.function());
    Arc::clone(&FUNCTION)
}

/// Its first argument, unless its second, the number of rows that there were, is more than one: then an error.
pub fn only_row() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Call::OnlyRow.function());
    Arc::clone(&FUNCTION)
}

/// A REAL of a DOUBLE, a decimal or a text. What is finite and not zero stays so, or is an error.
pub fn real() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Call::Real.function());
    Arc::clone(&FUNCTION)
}

/// A DOUBLE of a decimal or a text. What is finite and not zero stays so, or is an error.
pub fn double() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Call::Double.function());
    Arc::clone(&FUNCTION)
}

/// The digits of a floating-point number or of a text, to be cast to a decimal.
pub(super) fn digits() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Call::Digits.function());
    Arc::clone(&FUNCTION)
}

/// The day so many days after 1970 began, if it is one that `PostgreSQL` has.
pub(super) fn day() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Call::Day.function());
    Arc::clone(&FUNCTION)
}

/// The seconds since 1970 of a time or a day, or those of an interval, as a decimal.
pub fn epoch() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Call::Epoch.function());
    Arc::clone(&FUNCTION)
}

/// The microseconds within the minute of a time or a day, or those of an interval.
pub fn microseconds() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Call::Microseconds.function());
    Arc::clone(&FUNCTION)
}

/// Its first argument, which must not be NULL where the second one is not.
pub fn not_lost() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Call::NotLost.function());
    Arc::clone(&FUNCTION)
}

/// A number as it is, and a NaN as the one that is equal to every other. What processors make of `0 * Infinity` has a sign, by
/// which it would be smaller than all numbers.
pub fn one_nan() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Call::OneNan.function());
    Arc::clone(&FUNCTION)
}

/// A number that stands for all that are equal to it: 0 for -0, too, and the one NaN. Where numbers are compared by their bits, by
/// an order of them or by a table, these are compared.
pub fn one_zero() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Call::OneZero.function());
    Arc::clone(&FUNCTION)
}

/// The difference of two times as `PostgreSQL` gives it: whole days, and the rest.
pub fn difference() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Call::Difference.function());
    Arc::clone(&FUNCTION)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Call {
    OneNan,
    OneZero,
    Difference,
    Negation,
    RoundEven,
    Real,
    Double,
    Digits,
    Day,
    Epoch,
    Microseconds,
    OnlyRow,
    NotLost,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Function {
    call: Call,
    signature: Signature,
}

impl Call {
    fn function(self) -> Arc<ScalarUDF> {
        let arguments = if matches!(self, Self::OnlyRow | Self::NotLost) { 2 } else { 1 };
        let signature = Signature::any(arguments, Volatility::Immutable);
        Arc::new(ScalarUDF::from(Function { call: self, signature }))
    }
}

impl ScalarUDFImpl for Function {
    fn name(&self) -> &str {
        match self.call {
            Call::OneNan => "exact_one_nan",
            Call::OneZero => "exact_one_zero",
            Call::Difference => "exact_difference",
            Call::Negation => "exact_minus",
            Call::RoundEven => "exact_whole",
            Call::Real => "exact_real",
            Call::Double => "exact_double",
            Call::Digits => "exact_digits",
            Call::Day => "exact_day",
            Call::Epoch => "exact_epoch",
            Call::Microseconds => "exact_microseconds",
            Call::NotLost => "exact_not_lost",
            Call::OnlyRow => "exact_only_row",
        }
    }

    fn display_name(&self, args: &[Expr]) -> Result<String> {
        Ok(match (self.call, args) {
            (Call::Negation, [arg]) => format!("(- {arg})"),
            (Call::Epoch, [arg]) => format!("extract(EPOCH FROM {arg})"),
            (Call::Microseconds, [arg]) => format!("extract(MICROSECONDS FROM {arg})"),
            (_, args) => args.first().map(Expr::to_string).unwrap_or_default(),
        })
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(match (self.call, args) {
            (Call::Negation, [arg]) => format!("(- {})", arg.schema_name()),
            (Call::Epoch, [arg]) => format!("extract(EPOCH FROM {})", arg.schema_name()),
            (Call::Microseconds, [arg]) => format!("extract(MICROSECONDS FROM {})", arg.schema_name()),
            (_, args) => args.first().map(|arg| arg.schema_name().to_string()).unwrap_or_default(),
        })
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let Some(first) = types.first() else { return exec_err!("{} of nothing", self.name()) };
        Ok(match self.call {
            Call::Real => DataType::Float32,
            Call::Double => DataType::Float64,
            Call::Digits => DataType::Utf8View,
            Call::Day => DataType::Date32,
            Call::Difference => DataType::Interval(IntervalUnit::MonthDayNano),
            Call::Epoch => seconds_type(first)?,
            Call::Microseconds => seconds_type(first).map(|_| DataType::Int64)?,
            Call::Negation | Call::RoundEven | Call::OnlyRow | Call::NotLost | Call::OneNan | Call::OneZero => {
                first.clone()
            }
        })
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let Some(first) = args.arg_fields.first() else { return exec_err!("{} of nothing", self.name()) };
        let found = self.return_type(&[first.data_type().clone()])?;
        Ok(Arc::new(Field::new(self.name(), found, first.is_nullable())))
    }

    fn is_strict(&self) -> bool {
        !matches!(self.call, Call::OnlyRow | Call::NotLost)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let mut values = args.args.into_iter();
        let Some(value) = values.next() else { return exec_err!("{} of nothing", self.name()) };
        match self.call {
            Call::OneNan => each(value, |array| Ok(with_one_nan(array))),
            Call::OneZero => each(value, |array| Ok(normalize_float_zero(&with_one_nan(array)))),
            Call::Difference => each(value, intervals),
            Call::Negation => each(value, |array| {
                neg(array).map(|made| with_one_nan(&made)).map_err(|error| match error {
                    ArrowError::ArithmeticOverflow(what) => {
                        ArrowError::ArithmeticOverflow(format!("integer out of range: {what}")).into()
                    }
                    other => DataFusionError::from(other),
                })
            }),
            Call::RoundEven => each(value, |array| {
                Ok(match array.data_type() {
                    DataType::Float32 => {
                        Arc::new(array.as_primitive::<Float32Type>().unary::<_, Float32Type>(f32::round_ties_even))
                    }
                    DataType::Float64 => {
                        Arc::new(array.as_primitive::<Float64Type>().unary::<_, Float64Type>(f64::round_ties_even))
                    }
                    _ => Arc::clone(array),
                })
            }),
            Call::Real => each(value, |array| as_float(array, &DataType::Float32)),
            Call::Double => each(value, |array| as_float(array, &DataType::Float64)),
            Call::Digits => each(value, |array| conversions::digits(array, false)),
            Call::Day => each(value, days),
            Call::Epoch => each(value, seconds),
            Call::Microseconds => each(value, within_minute),
            Call::NotLost => {
                let Some(of) = values.next() else { return exec_err!("{} of one value", self.name()) };
                let (made, of) = (value.to_array(args.number_rows)?, of.into_array(args.number_rows)?);
                let lost = made.null_count() > of.logical_null_count();
                if lost && (0..made.len()).any(|row| made.is_null(row) && of.is_valid(row)) {
                    return exec_err!("timestamp out of range: it is not between 1677 and 2262");
                }
                Ok(value)
            }
            Call::OnlyRow => {
                let Some(rows) = values.next() else { return exec_err!("the number of rows is missing") };
                let rows = rows.into_array(args.number_rows)?;
                match rows.as_primitive_opt::<Int64Type>() {
                    Some(rows) if rows.iter().flatten().all(|rows| rows <= 1) => Ok(value),
                    Some(_) => exec_err!("more than one row returned by a subquery used as an expression"),
                    None => exec_err!("a number of rows is a BIGINT"),
                }
            }
        }
    }
}

/// Something of a column, or of the one value that it is.
fn each(value: ColumnarValue, of: impl Fn(&ArrayRef) -> Result<ArrayRef>) -> Result<ColumnarValue> {
    match value {
        ColumnarValue::Array(array) => of(&array).map(ColumnarValue::Array),
        ColumnarValue::Scalar(scalar) => {
            let made = of(&scalar.to_array()?)?;
            Ok(ColumnarValue::Scalar(datafusion::common::ScalarValue::try_from_array(&made, 0)?))
        }
    }
}

/// Numbers of which all that are NaN have the same bits.
pub(super) fn with_one_nan(array: &ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Float32 => {
            let numbers = array.as_primitive::<Float32Type>();
            if !numbers.values().iter().any(|number| number.is_nan()) {
                return Arc::clone(array);
            }
            let one = |number: f32| if number.is_nan() { f32::NAN } else { number };
            Arc::new(numbers.unary::<_, Float32Type>(one))
        }
        DataType::Float64 => {
            let numbers = array.as_primitive::<Float64Type>();
            if !numbers.values().iter().any(|number| number.is_nan()) {
                return Arc::clone(array);
            }
            let one = |number: f64| if number.is_nan() { f64::NAN } else { number };
            Arc::new(numbers.unary::<_, Float64Type>(one))
        }
        _ => Arc::clone(array),
    }
}

fn days(array: &ArrayRef) -> Result<ArrayRef> {
    let numbers = cast_with_options(array, &DataType::Int64, &DEFAULT_CAST_OPTIONS)?;
    let days = numbers.as_primitive::<Int64Type>().try_unary::<_, Date32Type, _>(|number| {
        let day = i32::try_from(number).ok().filter(|day| DAYS.contains(day));
        day.ok_or_else(|| ArrowError::ArithmeticOverflow(format!("date out of range: {number} days from 1970-01-01")))
    })?;
    Ok(Arc::new(days))
}

/// Numbers of a type of fewer digits, or those that texts are.
fn as_float(array: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    if array.data_type().is_decimal() {
        return conversions::nearest(array, to);
    }
    let made = cast_with_options(array, to, &DEFAULT_CAST_OPTIONS)?;
    if let Some(row) = lost(array, &made)? {
        let what = ArrayFormatter::try_new(array, &FormatOptions::default())?.value(row).to_string();
        let name = if *to == DataType::Float32 { "real" } else { "double precision" };
        return Err(ArrowError::ArithmeticOverflow(format!("value out of range for type {name}: {what}")).into());
    }
    Ok(with_one_nan(&made))
}

/// The first row of which a cast to floating-point numbers made infinity or zero, where it was neither.
pub fn lost(array: &dyn Array, made: &dyn Array) -> Result<Option<usize>> {
    let wide = cast_with_options(made, &DataType::Float64, &DEFAULT_CAST_OPTIONS)?;
    let suspicious = |value: f64| value == 0.0 || value.is_infinite();
    let rows = wide.as_primitive::<Float64Type>().iter().enumerate();
    for (row, value) in rows.filter_map(|(row, value)| Some((row, value.filter(|value| suspicious(*value))?))) {
        let is_lost = match array.data_type() {
            DataType::Float64 => array.as_primitive::<Float64Type>().value(row).to_bits() != value.to_bits(),
            _ => is_another(&ArrayFormatter::try_new(array, &FormatOptions::default())?.value(row).to_string(), value),
        };
        if is_lost {
            return Ok(Some(row));
        }
    }
    Ok(None)
}

/// Whether a text that was read as infinity or zero says something else.
fn is_another(text: &str, value: f64) -> bool {
    let text = text.to_ascii_lowercase();
    let digits = text.split('e').next().unwrap_or_default();
    if value == 0.0 { digits.contains(|digit: char| matches!(digit, '1'..='9')) } else { !text.contains("inf") }
}

/// As many digits behind the point as a time has; six for an interval, none for a day.
fn seconds_type(of: &DataType) -> Result<DataType> {
    Ok(match of {
        DataType::Date32 => DataType::Decimal128(15, 0),
        DataType::Timestamp(TimeUnit::Second, _) => DataType::Decimal128(19, 0),
        DataType::Timestamp(TimeUnit::Millisecond, _) => DataType::Decimal128(19, 3),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => DataType::Decimal128(19, 9),
        DataType::Timestamp(TimeUnit::Microsecond, _) | DataType::Interval(IntervalUnit::MonthDayNano) => {
            DataType::Decimal128(25, 6)
        }
        other => return plan_err!("EXTRACT of seconds from {other} is not supported; CAST it to TIMESTAMP first"),
    })
}

fn seconds(array: &ArrayRef) -> Result<ArrayRef> {
    let found = seconds_type(array.data_type())?;
    let values: Decimal128Array = match array.data_type() {
        DataType::Date32 => array.as_primitive::<Date32Type>().unary(|day| i128::from(day) * DAY),
        DataType::Interval(_) => array.as_primitive::<IntervalMonthDayNanoType>().unary(|interval| {
            let (years, months) = (i128::from(interval.months / 12), i128::from(interval.months % 12));
            // A year has a quarter of a day more than 365 of them, and a month thirty, as PostgreSQL has it.
            let days = months * 30 + i128::from(interval.days);
            (years * (DAY * 1461 / 4) + days * DAY) * 1_000_000 + i128::from(interval.nanoseconds / 1_000)
        }),
        _ => {
            let ticks = cast_with_options(array, &DataType::Int64, &DEFAULT_CAST_OPTIONS)?;
            ticks.as_primitive::<Int64Type>().unary(i128::from)
        }
    };
    let DataType::Decimal128(precision, scale) = found else { return exec_err!("seconds are decimals") };
    Ok(Arc::new(values.with_precision_and_scale(precision, scale)?))
}

fn within_minute(array: &ArrayRef) -> Result<ArrayRef> {
    let minute = |ticks: i64| 60 * ticks;
    let found: Int64Array = match array.data_type() {
        DataType::Date32 => array.as_primitive::<Date32Type>().unary(|_| 0),
        DataType::Interval(_) => array
            .as_primitive::<IntervalMonthDayNanoType>()
            .unary(|interval| interval.nanoseconds / 1_000 % minute(1_000_000)),
        time => {
            let per_second = match time {
                DataType::Timestamp(TimeUnit::Second, _) => 1,
                DataType::Timestamp(TimeUnit::Millisecond, _) => 1_000,
                DataType::Timestamp(TimeUnit::Microsecond, _) => 1_000_000,
                _ => 1_000_000_000,
            };
            let ticks = cast_with_options(array, &DataType::Int64, &DEFAULT_CAST_OPTIONS)?;
            let ticks = ticks.as_primitive::<Int64Type>();
            ticks.unary(|ticks| match per_second {
                1_000_000_000 => ticks.rem_euclid(minute(per_second)) / 1_000,
                _ => ticks.rem_euclid(minute(per_second)) * (1_000_000 / per_second),
            })
        }
    };
    Ok(Arc::new(found))
}

/// From 4714-11-24 BC to 5874897-12-31, in days after 1970 began.
const DAYS: std::ops::RangeInclusive<i32> = -2_440_588..=2_145_042_905;

/// The seconds of a day.
const DAY: i128 = 86_400;
