//! `date_trunc` of every time that there is. DataFusion's goes by nanoseconds, which reach from 1677 to 2262, and knows no unit above a year.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{Array, ArrayRef, AsArray, TimestampMicrosecondArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, FieldRef, TimeUnit, TimestampMicrosecondType};
use datafusion::common::{Result, exec_err, plan_err};
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::function::Hint;
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::calendar::Day;
use super::strict_field;

const TIME: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

/// Microseconds of a day.
const DAY: i64 = 86_400_000_000;

/// The function.
pub(super) fn function() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        let signature = Signature::user_defined(Volatility::Immutable);
        Arc::new(ScalarUDF::from(Truncation { signature, aliases: ["datetrunc".to_owned()] }))
    });
    Arc::clone(&FUNCTION)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Truncation {
    signature: Signature,
    aliases: [String; 1],
}

impl ScalarUDFImpl for Truncation {
    fn name(&self) -> &'static str {
        "date_trunc"
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let is_time = |of: &DataType| matches!(of, DataType::Date32 | DataType::Timestamp(_, None) | DataType::Null);
        match types {
            [unit, time] if (unit.is_string() || unit.is_null()) && (is_time(time) || time.is_string()) => {
                Ok(vec![DataType::Utf8View, TIME])
            }
            _ => plan_err!("date_trunc takes the name of a unit and a TIMESTAMP or a DATE"),
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(TIME)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        strict_field(self, &args)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let truncated = |arrays: &[ArrayRef]| {
            let [units, times] = arrays else { return plan_err!("date_trunc of a unit and a time") };
            let (units, times) = (cast(units, &DataType::Utf8View)?, cast(times, &TIME)?);
            let (units, times) = (units.as_string_view(), times.as_primitive::<TimestampMicrosecondType>());
            let truncate = |unit: Option<Unit>, time: Option<i64>| {
                unit.zip(time).map(|(unit, time)| unit.truncate(time)).transpose()
            };
            let truncated: Result<TimestampMicrosecondArray> = if units.len() == 1 {
                let unit = units.is_valid(0).then(|| Unit::of(units.value(0))).transpose()?;
                times.iter().map(|time| truncate(unit, time)).collect()
            } else {
                let rows = units.iter().zip(times);
                rows.map(|(unit, time)| truncate(unit.map(Unit::of).transpose()?, time)).collect()
            };
            Ok(Arc::new(truncated?) as ArrayRef)
        };
        make_scalar_function(truncated, vec![Hint::AcceptsSingular])(&args.args)
    }

    fn output_ordering(&self, of: &[ExprProperties]) -> Result<SortProperties> {
        Ok(match of {
            [unit, time] if unit.sort_properties == SortProperties::Singleton => time.sort_properties,
            _ => SortProperties::Unordered,
        })
    }
}

/// What a time is cut off to.
#[derive(Clone, Copy, Debug)]
enum Unit {
    /// So many microseconds, of which a day is a multiple.
    Clock(i64),
    Week,
    /// So many months, of which a year is a multiple.
    Months(i64),
    Decade,
    Century,
    Millennium,
}

impl Unit {
    fn of(name: &str) -> Result<Self> {
        Ok(match name.to_ascii_lowercase().as_str() {
            "microsecond" | "microseconds" | "us" | "usec" => Self::Clock(1),
            "millisecond" | "milliseconds" | "ms" | "msec" => Self::Clock(1_000),
            "second" | "seconds" | "s" | "sec" => Self::Clock(1_000_000),
            "minute" | "minutes" | "m" | "min" => Self::Clock(60_000_000),
            "hour" | "hours" | "h" => Self::Clock(3_600_000_000),
            "day" | "days" | "d" => Self::Clock(DAY),
            "week" | "weeks" | "w" => Self::Week,
            "month" | "months" | "mon" => Self::Months(1),
            "quarter" | "qtr" => Self::Months(3),
            "year" | "years" | "y" => Self::Months(12),
            "decade" | "decades" | "dec" => Self::Decade,
            "century" | "centuries" | "c" => Self::Century,
            "millennium" | "millennia" | "mil" => Self::Millennium,
            _ => {
                return exec_err!(
                    "date_trunc has no unit {name:?}; microseconds, milliseconds, second, minute, hour, day, week, month, quarter, year, decade, century and millennium are units"
                );
            }
        })
    }

    fn truncate(self, time: i64) -> Result<i64> {
        let days = time.div_euclid(DAY);
        // There is no year 0 for people: the first century begins with the year 1, and so does the one before it with 100 BC.
        let first_of = |years: i64, year: i64| (year - 1).div_euclid(years) * years + 1;
        let first_month = |year| Day { year, month: 1, day: 1 }.days();
        let Day { year, month, .. } = Day::of(days);
        let first_day = match self {
            Self::Clock(unit) => {
                return time.checked_sub(time.rem_euclid(unit)).map_or_else(|| exec_err!("timestamp out of range"), Ok);
            }
            // 1970 began on a Thursday.
            Self::Week => days - (days + 3).rem_euclid(7),
            Self::Months(months) => Day { year, month: month - (month - 1) % months, day: 1 }.days(),
            Self::Decade => first_month(year.div_euclid(10) * 10),
            Self::Century => first_month(first_of(100, year)),
            Self::Millennium => first_month(first_of(1000, year)),
        };
        first_day.checked_mul(DAY).map_or_else(|| exec_err!("timestamp out of range"), Ok)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn truncated(unit: &str, year: i64, month: i64, day: i64) -> (i64, i64, i64) {
        let time = Day { year, month, day }.days() * DAY + 3_723_000_001;
        let made = Unit::of(unit).and_then(|unit| unit.truncate(time)).expect("a time");
        assert_eq!(made.rem_euclid(DAY), 0);
        let Day { year, month, day } = Day::of(made.div_euclid(DAY));
        (year, month, day)
    }

    #[test]
    fn units_begin_where_those_of_postgresql_do() {
        assert_eq!(truncated("Week", 2024, 1, 3), (2024, 1, 1));
        assert_eq!(truncated("week", 99_999, 5, 5), (99_999, 5, 3));
        assert_eq!(truncated("month", 1500, 5, 5), (1500, 5, 1));
        assert_eq!(truncated("quarter", 2300, 12, 31), (2300, 10, 1));
        assert_eq!(truncated("year", 2300, 5, 5), (2300, 1, 1));
        for (year, decade, century, millennium) in [
            (2001, 2000, 2001, 2001),
            (2000, 2000, 1901, 1001),
            (1, 0, 1, 1),
            (0, 0, -99, -999),
            (-99, -100, -99, -999),
            (-100, -100, -199, -999),
        ] {
            assert_eq!(truncated("decade", year, 6, 6), (decade, 1, 1), "{year}");
            assert_eq!(truncated("century", year, 6, 6), (century, 1, 1), "{year}");
            assert_eq!(truncated("millennium", year, 6, 6), (millennium, 1, 1), "{year}");
        }
        assert_eq!(Unit::of("ms").and_then(|unit| unit.truncate(-1)).expect("a time"), -1_000);
        assert!(Unit::of("year").and_then(|unit| unit.truncate(i64::MIN)).is_err());
        assert!(Unit::of("fortnight").is_err());
    }
}
