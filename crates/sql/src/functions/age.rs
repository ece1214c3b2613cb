//! `age(later, earlier)`: years, months, days and time between two timestamps, as a calendar counts them.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, IntervalMonthDayNanoArray};
use datafusion::arrow::datatypes::{
    DataType, IntervalMonthDayNano, IntervalUnit, TimeUnit, TimestampMicrosecondType as Microseconds,
};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};

#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Age {
    signature: Signature,
}

impl Default for Age {
    fn default() -> Self {
        Self { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Age {
    fn name(&self) -> &'static str {
        "age"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Interval(IntervalUnit::MonthDayNano))
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        let is_time = |found: &DataType| {
            matches!(found, DataType::Date32 | DataType::Timestamp(_, None) | DataType::Null) || found.is_string()
        };
        if arguments.len() != 2 || !arguments.iter().all(is_time) {
            return plan_err!("age takes one or two values of DATE or TIMESTAMP");
        }
        Ok(vec![DataType::Timestamp(TimeUnit::Microsecond, None); 2])
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = arguments.args.iter().all(|argument| matches!(argument, ColumnarValue::Scalar(_)));
        let arrays: Vec<ArrayRef> = ColumnarValue::values_to_arrays(&arguments.args)?;
        let [later, earlier] = arrays.as_slice() else { return plan_err!("age takes two timestamps") };
        let (later, earlier) = (later.as_primitive::<Microseconds>(), earlier.as_primitive::<Microseconds>());
        let of_row = |row| {
            let both = later.is_valid(row) && earlier.is_valid(row);
            both.then(|| between(later.value(row), earlier.value(row))).transpose()
        };
        let ages: IntervalMonthDayNanoArray = (0..later.len()).map(of_row).collect::<Result<_>>()?;
        if is_scalar {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&ages, 0)?));
        }
        Ok(ColumnarValue::Array(Arc::new(ages)))
    }
}

const DAY: i64 = 86_400_000_000;

/// A moment of the calendar.
struct Moment {
    year: i64,
    /// From 1 to 12.
    month: i64,
    day: i64,
    /// Microseconds since midnight.
    time: i64,
}

impl Moment {
    /// Of microseconds since 1970 (Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`).
    fn of(microseconds: i64) -> Self {
        let days = microseconds.div_euclid(DAY) + 719_468;
        let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
        let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted = (5 * of_year + 2) / 153;
        let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
        Self {
            year: year_of_era + era * 400 + i64::from(month <= 2),
            month,
            day: of_year - (153 * shifted + 2) / 5 + 1,
            time: microseconds.rem_euclid(DAY),
        }
    }

    /// How many days its month has.
    fn days_of_month(&self) -> i64 {
        let leaps = self.year % 4 == 0 && (self.year % 100 != 0 || self.year % 400 == 0);
        match self.month {
            2 => 28 + i64::from(leaps),
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        }
    }
}

/// `PostgreSQL`'s way: a difference of each field, and a day borrowed from the month of the earlier moment.
fn between(later: i64, earlier: i64) -> Result<IntervalMonthDayNano> {
    let sign = if later < earlier { -1 } else { 1 };
    let (from, to) = (Moment::of(later.min(earlier)), Moment::of(later.max(earlier)));
    let (mut months, mut days) = ((to.year - from.year) * 12 + to.month - from.month, to.day - from.day);
    let mut time = to.time - from.time;
    if time < 0 {
        time += DAY;
        days -= 1;
    }
    // A day is at most 30 less, and one for the time: a February may have to be borrowed twice.
    while days < 0 {
        days += from.days_of_month();
        months -= 1;
    }
    let (Ok(months), Ok(days)) = (i32::try_from(sign * months), i32::try_from(sign * days)) else {
        return exec_err!("interval out of range");
    };
    Ok(IntervalMonthDayNano::new(months, days, sign * time * 1_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_of_the_whole_range_have_their_days() {
        for (days, expected) in
            [(0, (1970, 1, 1)), (-1, (1969, 12, 31)), (19_782, (2024, 2, 29)), (-719_162, (1, 1, 1))]
        {
            let moment = Moment::of(days * DAY);
            assert_eq!((moment.year, moment.month, moment.day), expected, "{days}");
        }
    }

    #[test]
    fn days_are_borrowed_until_there_are_enough() {
        let day = |days: i64| days * DAY;
        // From 31 January to 1 March of a year without a leap day.
        assert_eq!(between(day(59), day(30)).expect("in range"), IntervalMonthDayNano::new(1, 1, 0));
        assert_eq!(between(day(30), day(59)).expect("in range"), IntervalMonthDayNano::new(-1, -1, 0));
        assert_eq!(between(day(1), 1).expect("in range"), IntervalMonthDayNano::new(0, 0, (DAY - 1) * 1_000));
    }
}
