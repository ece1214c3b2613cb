//! Intervals as `PostgreSQL` compares them and writes them; days and times as it writes them.
//!
//! A month counts as 30 days there and a day as 24 hours, so that `30 days` and `1 month` are equal. Arrow compares the three numbers
//! of an interval one by one.

use std::fmt::Write as _;
use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, StringViewArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    DataType, Date32Type, DurationMicrosecondType, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit,
    TimeUnit, TimestampMicrosecondType,
};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::calendar::Day;
use super::numerals;
use super::plain::Moment;

/// A number by which intervals are compared: microseconds, where a month has 30 days.
pub fn span() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Of::Span.function());
    Arc::clone(&FUNCTION)
}

/// An interval, a day, a time or a floating-point number as a text: `1 year 2 mons 3 days 04:05:06.5`, `0044-03-15 BC`, `2024-01-01
/// 10:00:00.5`, `1e+20`.
pub fn plain_spelling() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Of::Text.function());
    Arc::clone(&FUNCTION)
}

/// A text as Arrow reads it to mean the [moment](Moment) that it means here.
pub fn plain_text(moment: Moment) -> Arc<ScalarUDF> {
    static DAY: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Of::Plain(Moment::Day).function());
    static TIME: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Of::Plain(Moment::Time).function());
    Arc::clone(match moment {
        Moment::Day => &DAY,
        Moment::Time => &TIME,
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Of {
    Span,
    Text,
    Plain(Moment),
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Function {
    of: Of,
    signature: Signature,
}

impl Of {
    fn function(self) -> Arc<ScalarUDF> {
        Arc::new(ScalarUDF::from(Function { of: self, signature: Signature::any(1, Volatility::Immutable) }))
    }
}

impl ScalarUDFImpl for Function {
    fn name(&self) -> &str {
        match self.of {
            Of::Span => "exact_span",
            Of::Text => "exact_text",
            Of::Plain(Moment::Day) => "exact_day_text",
            Of::Plain(Moment::Time) => "exact_time_text",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self.of {
            Of::Span => DataType::Decimal128(38, 0),
            Of::Text | Of::Plain(_) => DataType::Utf8View,
        })
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<datafusion::arrow::datatypes::FieldRef> {
        super::strict_field(self, &args)
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let made = |array: &ArrayRef| match self.of {
            Of::Span => spans(array),
            Of::Text => plain_texts(array),
            Of::Plain(moment) => moment.plain_texts(array),
        };
        match args.args.first() {
            Some(ColumnarValue::Array(array)) => made(array).map(ColumnarValue::Array),
            Some(ColumnarValue::Scalar(scalar)) => {
                let made = made(&scalar.to_array()?)?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&made, 0)?))
            }
            None => exec_err!("{} of nothing", self.name()),
        }
    }
}

const DAY: i64 = 86_400_000_000;

/// Intervals of any kind as those that have all three parts.
pub(super) fn intervals(array: &ArrayRef) -> Result<ArrayRef> {
    let all = DataType::Interval(IntervalUnit::MonthDayNano);
    Ok(match array.data_type() {
        found if *found == all => Arc::clone(array),
        // The difference of two times: whole days, and the rest.
        DataType::Duration(_) => {
            let durations = cast(array, &DataType::Duration(TimeUnit::Microsecond))?;
            let durations = durations.as_primitive::<DurationMicrosecondType>();
            let interval = |time: i64| {
                let days = i32::try_from(time / DAY).ok()?;
                Some(IntervalMonthDayNano::new(0, days, time % DAY * 1_000))
            };
            let made = durations.iter().map(|time| time.map(|time| interval(time).ok_or(time)).transpose());
            let made = made.collect::<std::result::Result<Vec<_>, _>>();
            let Ok(made) = made else { return exec_err!("interval out of range") };
            Arc::new(datafusion::arrow::array::IntervalMonthDayNanoArray::from(made))
        }
        _ => cast(array, &all)?,
    })
}

fn spans(array: &ArrayRef) -> Result<ArrayRef> {
    let intervals = intervals(array)?;
    let span = |interval: IntervalMonthDayNano| {
        let days = i128::from(interval.months) * 30 + i128::from(interval.days);
        days * i128::from(DAY) + i128::from(interval.nanoseconds / 1_000)
    };
    let spans: Decimal128Array = intervals.as_primitive::<IntervalMonthDayNanoType>().unary(span);
    Ok(Arc::new(spans.with_precision_and_scale(38, 0)?))
}

/// Floating-point numbers, bytes, and what [`moment_texts`] takes, as `PostgreSQL` writes them.
pub fn plain_texts(array: &ArrayRef) -> Result<ArrayRef> {
    Ok(match array.data_type() {
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => {
            let bytes = cast(array, &DataType::BinaryView)?;
            let texts = bytes.as_binary_view().iter().map(|bytes| bytes.map(hexadecimal));
            Arc::new(texts.collect::<StringViewArray>())
        }
        DataType::Float32 => numerals::reals(array),
        DataType::Float64 => numerals::doubles(array),
        _ => moment_texts(array)?,
    })
}

/// `\x00ff`.
fn hexadecimal(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 + 2 * bytes.len());
    text.push_str("\\x");
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Intervals, differences of times, days and times in microseconds, as `PostgreSQL` writes them.
pub fn moment_texts(array: &ArrayRef) -> Result<ArrayRef> {
    match array.data_type() {
        DataType::Date32 => {
            let days = array.as_primitive::<Date32Type>();
            let texts = days.iter().map(|days| days.map(|days| moment(i64::from(days), None)));
            return Ok(Arc::new(texts.collect::<StringViewArray>()));
        }
        DataType::Timestamp(TimeUnit::Microsecond, None) => {
            let times = array.as_primitive::<TimestampMicrosecondType>();
            return Ok(Arc::new(times.iter().map(|time| time.map(time_text)).collect::<StringViewArray>()));
        }
        _ => {}
    }
    let intervals = intervals(array)?;
    let intervals = intervals.as_primitive::<IntervalMonthDayNanoType>();
    Ok(Arc::new(intervals.iter().map(|interval| interval.map(text)).collect::<StringViewArray>()))
}

/// Microseconds since 1970, as a time is written.
pub(super) fn time_text(time: i64) -> String {
    moment(time.div_euclid(DAY), Some(time.rem_euclid(DAY)))
}

/// A day since 1970, and the microseconds of it.
fn moment(days: i64, time: Option<i64>) -> String {
    let Day { year, month, day } = Day::of(days);
    // There is no year 0.
    let mut text = format!("{:04}-{month:02}-{day:02}", if year > 0 { year } else { 1 - year });
    if let Some(time) = time {
        text.push(' ');
        clock(time.unsigned_abs(), &mut text);
    }
    if year <= 0 {
        text.push_str(" BC");
    }
    text
}

/// Hours, minutes, seconds, and as many digits of their fraction as there are.
fn clock(microseconds: u64, text: &mut String) {
    let (seconds, fraction) = (microseconds / 1_000_000, microseconds % 1_000_000);
    let _ = write!(text, "{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    if fraction != 0 {
        let _ = write!(text, ".{}", format!("{fraction:06}").trim_end_matches('0'));
    }
}

fn text(interval: IntervalMonthDayNano) -> String {
    let time = interval.nanoseconds / 1_000;
    let (mut text, mut is_before) = (String::new(), false);
    let parts = [(interval.months / 12, "year"), (interval.months % 12, "mon"), (interval.days, "day")];
    for (value, unit) in parts.into_iter().filter(|(value, _)| *value != 0) {
        let gap = if text.is_empty() { "" } else { " " };
        // A sign is told where it changes.
        let sign = if is_before && value > 0 { "+" } else { "" };
        let several = if value == 1 { "" } else { "s" };
        let _ = write!(text, "{gap}{sign}{value} {unit}{several}");
        is_before = value < 0;
    }
    if text.is_empty() || time != 0 {
        let gap = if text.is_empty() { "" } else { " " };
        let sign = match time {
            ..0 => "-",
            _ if is_before => "+",
            _ => "",
        };
        text.extend([gap, sign]);
        clock(time.unsigned_abs(), &mut text);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `PostgreSQL` 15 writes.
    #[test]
    fn an_interval_is_written_as_postgresql_writes_it() {
        let second = 1_000_000_000;
        for (months, days, nanoseconds, expected) in [
            (14, 3, (4 * 3600 + 5 * 60 + 6) * second + second / 2, "1 year 2 mons 3 days 04:05:06.5"),
            (-1, -3, -second, "-1 mons -3 days -00:00:01"),
            (0, 0, 0, "00:00:00"),
            (0, -1, 7200 * second, "-1 days +02:00:00"),
            (1, 0, -second, "1 mon -00:00:01"),
            (-14, 0, 0, "-1 years -2 mons"),
            (12, -2, 0, "1 year -2 days"),
            (-12, 2, 0, "-1 years +2 days"),
            (0, 0, 360_000 * second, "100:00:00"),
            (0, 0, 1_500, "00:00:00.000001"),
        ] {
            assert_eq!(text(IntervalMonthDayNano::new(months, days, nanoseconds)), expected);
        }
    }

    #[test]
    fn a_day_before_the_year_1_is_bc() {
        assert_eq!(moment(-719_162, None), "0001-01-01");
        assert_eq!(moment(-719_163, None), "0001-12-31 BC");
        assert_eq!(moment(-719_163, Some(DAY - 1)), "0001-12-31 23:59:59.999999 BC");
        assert_eq!(moment(-735_160, None), "0044-03-15 BC");
        assert_eq!(moment(19_782, Some(36_000_500_000)), "2024-02-29 10:00:00.5");
        assert_eq!(moment(2_932_897, None), "10000-01-01");
    }

    #[test]
    fn thirty_days_are_a_month_and_a_day_has_24_hours() {
        let day = DAY * 1_000;
        let all = [(1, 0, 0), (0, 30, 0), (0, 0, 30 * day), (0, 31, -day)];
        let values = all.map(|(months, days, nanoseconds)| IntervalMonthDayNano::new(months, days, nanoseconds));
        let array: ArrayRef = Arc::new(datafusion::arrow::array::IntervalMonthDayNanoArray::from(values.to_vec()));
        let spans = spans(&array).expect("numbers");
        let spans = spans.as_primitive::<datafusion::arrow::datatypes::Decimal128Type>();
        assert!(spans.iter().all(|span| span == Some(i128::from(30 * DAY))));
    }
}
