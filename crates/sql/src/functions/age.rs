//! `age(later, earlier)`: years, months, days and time between two timestamps, as a calendar counts them.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, IntervalMonthDayNanoArray};
use datafusion::arrow::datatypes::{
    DataType, IntervalMonthDayNano, IntervalUnit, TimeUnit, TimestampMicrosecondType as Microseconds,
};
use datafusion::common::{Result, exec_err, plan_err};
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};
use ishigaki_scan::exact::Day;

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
        make_scalar_function(of_rows, Vec::new())(&arguments.args)
    }
}

fn of_rows(arrays: &[ArrayRef]) -> Result<ArrayRef> {
    let [later, earlier] = arrays else { return plan_err!("age takes two timestamps") };
    let (later, earlier) = (later.as_primitive::<Microseconds>(), earlier.as_primitive::<Microseconds>());
    let of_row = |row| {
        let both = later.is_valid(row) && earlier.is_valid(row);
        both.then(|| between(later.value(row), earlier.value(row))).transpose()
    };
    let ages: IntervalMonthDayNanoArray = (0..later.len()).map(of_row).collect::<Result<_>>()?;
    Ok(Arc::new(ages))
}

const DAY: i64 = 86_400_000_000;

/// How many days the month of a day has.
fn days_of_month(Day { year, month, .. }: Day) -> i64 {
    let leaps = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 => 28 + i64::from(leaps),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// `PostgreSQL`'s way: a difference of each field, and a day borrowed from the month of the earlier moment.
fn between(later: i64, earlier: i64) -> Result<IntervalMonthDayNano> {
    let sign = if later < earlier { -1 } else { 1 };
    let moment = |time: i64| (Day::of(time.div_euclid(DAY)), time.rem_euclid(DAY));
    let ((from, from_time), (to, to_time)) = (moment(later.min(earlier)), moment(later.max(earlier)));
    let (mut months, mut days) = ((to.year - from.year) * 12 + to.month - from.month, to.day - from.day);
    let mut time = to_time - from_time;
    if time < 0 {
        time += DAY;
        days -= 1;
    }
    // A day is at most 30 less, and one for the time: a February may have to be borrowed twice.
    while days < 0 {
        days += days_of_month(from);
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
    fn days_are_borrowed_until_there_are_enough() {
        let day = |days: i64| days * DAY;
        // From 31 January to 1 March of a year without a leap day.
        assert_eq!(between(day(59), day(30)).expect("in range"), IntervalMonthDayNano::new(1, 1, 0));
        assert_eq!(between(day(30), day(59)).expect("in range"), IntervalMonthDayNano::new(-1, -1, 0));
        assert_eq!(between(day(1), 1).expect("in range"), IntervalMonthDayNano::new(0, 0, (DAY - 1) * 1_000));
    }
}
