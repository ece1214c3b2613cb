//! An interval multiplied or divided by a number.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{Array, ArrayRef, AsArray, IntervalMonthDayNanoArray};
use datafusion::arrow::datatypes::{
    DataType, Float64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit,
};
use datafusion::common::{Result, exec_err, plan_err};
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::{
    ColumnarValue, Expr, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, cast,
};

/// The call for an operator.
pub(crate) fn scaled(operator: Operator, interval: &Expr, by: &Expr) -> Expr {
    static MULTIPLY: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Scaled::function(false));
    static DIVIDE: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Scaled::function(true));
    let function = if operator == Operator::Divide { &DIVIDE } else { &MULTIPLY };
    function.call(vec![interval.clone(), cast(by.clone(), DataType::Float64)])
}

/// Both functions, for plans that name them.
pub(super) fn all() -> [Arc<ScalarUDF>; 2] {
    [Scaled::function(false), Scaled::function(true)]
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Scaled {
    divides: bool,
    signature: Signature,
}

impl Scaled {
    fn function(divides: bool) -> Arc<ScalarUDF> {
        let interval = DataType::Interval(IntervalUnit::MonthDayNano);
        let signature = Signature::exact(vec![interval, DataType::Float64], Volatility::Immutable);
        Arc::new(ScalarUDF::from(Self { divides, signature }))
    }

    fn written(&self, args: &[Expr], write: impl Fn(&Expr) -> String) -> Result<String> {
        let [interval, by] = args else { return plan_err!("an interval and a number") };
        let by = match by {
            Expr::Cast(cast) => cast.expr.as_ref(),
            other => other,
        };
        Ok(format!("{} {} {}", write(interval), if self.divides { "/" } else { "*" }, write(by)))
    }
}

impl ScalarUDFImpl for Scaled {
    fn name(&self) -> &str {
        if self.divides { "interval / ;" } else { "interval * ;" }
    }

    fn display_name(&self, args: &[Expr]) -> Result<String> {
        self.written(args, Expr::to_string)
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        self.written(args, |arg| arg.schema_name().to_string())
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Interval(IntervalUnit::MonthDayNano))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        make_scalar_function(|arrays| self.of_rows(arrays), Vec::new())(&arguments.args)
    }
}

impl Scaled {
    fn of_rows(&self, arrays: &[ArrayRef]) -> Result<ArrayRef> {
        let [intervals, factors] = arrays else { return plan_err!("an interval and a number") };
        let (intervals, factors) =
            (intervals.as_primitive::<IntervalMonthDayNanoType>(), factors.as_primitive::<Float64Type>());
        let of_row = |row| {
            let both = intervals.is_valid(row) && factors.is_valid(row);
            both.then(|| scale(intervals.value(row), factors.value(row), self.divides)).transpose()
        };
        let scaled: IntervalMonthDayNanoArray = (0..intervals.len()).map(of_row).collect::<Result<_>>()?;
        Ok(Arc::new(scaled))
    }
}

const SECONDS_OF_DAY: f64 = 86_400.0;

/// `PostgreSQL`'s way: what is left of a month becomes days, of which it has 30, and what is left of a day time.
fn scale(of: IntervalMonthDayNano, factor: f64, divides: bool) -> Result<IntervalMonthDayNano> {
    if divides && factor == 0.0 {
        return exec_err!("division by zero");
    }
    let times = |field: f64| if divides { field / factor } else { field * factor };
    // To microseconds.
    let rounded = |seconds: f64| (seconds * 1e6).round_ties_even() / 1e6;
    let (months, days) = (times(of.months.into()), times(of.days.into()));
    let days_of_month = rounded((months - months.trunc()) * 30.0);
    let seconds = rounded((days - days.trunc() + days_of_month - days_of_month.trunc()) * SECONDS_OF_DAY);
    let more_days = (seconds / SECONDS_OF_DAY).trunc();
    let all_days = days.trunc() + more_days + days_of_month.trunc();
    let seconds = seconds - more_days * SECONDS_OF_DAY;
    let micros = (times((of.nanoseconds / 1_000) as f64) + seconds * 1e6).round_ties_even();
    let fits = |field: f64| field.abs() < f64::from(i32::MAX);
    if !(fits(months.trunc()) && fits(all_days) && micros.abs() < i64::MAX as f64 / 1e3) {
        return exec_err!("interval out of range");
    }
    Ok(IntervalMonthDayNano::new(months.trunc() as i32, all_days as i32, micros as i64 * 1_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_of_a_field_goes_to_the_next_one() {
        let hour = 3_600_000_000_000;
        for (of, factor, divides, expected) in [
            ((0, 1, 0), 1.5, false, (0, 1, 12 * hour)),
            ((1, 0, 0), 0.5, false, (0, 15, 0)),
            ((0, 3, 0), 2.0, true, (0, 1, 12 * hour)),
            ((1, 1, hour), -2.0, false, (-2, -2, -2 * hour)),
        ] {
            let interval = |(months, days, nanos)| IntervalMonthDayNano::new(months, days, nanos);
            assert_eq!(scale(interval(of), factor, divides).expect("in range"), interval(expected));
        }
        scale(IntervalMonthDayNano::new(1, 0, 0), 0.0, true).expect_err("by zero");
        scale(IntervalMonthDayNano::new(i32::MAX, 0, 0), 2.0, false).expect_err("out of range");
        scale(IntervalMonthDayNano::new(1, 0, 0), f64::NAN, false).expect_err("no number");
    }
}
