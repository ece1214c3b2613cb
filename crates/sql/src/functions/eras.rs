//! The decade, century or millennium of a year, or how many of them an interval has.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, Int32Array};
use datafusion::arrow::datatypes::{DataType, Int32Type};
use datafusion::common::{Result, plan_err};
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, cast,
};

/// The call for `year`, which is that of `of`, and eras of that many years.
pub(crate) fn era(years: i32, year: Expr, of: Expr) -> Expr {
    Eras::function(years).call(vec![cast(year, DataType::Int32), of])
}

/// All of them, for plans that name them.
pub(super) fn all() -> [Arc<ScalarUDF>; 3] {
    [10, 100, 1000].map(Eras::function)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Eras {
    years: i32,
    signature: Signature,
}

impl Eras {
    fn function(years: i32) -> Arc<ScalarUDF> {
        Arc::new(ScalarUDF::from(Self { years, signature: Signature::any(2, Volatility::Immutable) }))
    }
}

impl ScalarUDFImpl for Eras {
    fn name(&self) -> &'static str {
        match self.years {
            10 => "decade ;",
            100 => "century ;",
            _ => "millennium ;",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int32)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let of_rows = |arrays: &[ArrayRef]| -> Result<ArrayRef> {
            let [years, of] = arrays else { return plan_err!("an era is of a year") };
            let is_span = matches!(of.data_type(), DataType::Interval(_) | DataType::Duration(_));
            let era = |year| if is_span { year / self.years } else { of_year(year, self.years) };
            let eras: Int32Array = years.as_primitive::<Int32Type>().unary(era);
            Ok(Arc::new(eras))
        };
        make_scalar_function(of_rows, Vec::new())(&arguments.args)
    }
}

/// Decades begin with a year 0, the others with a year 1, and the first one before our era is -1. The year before 1 is 0.
fn of_year(year: i32, years: i32) -> i32 {
    match (years, year) {
        (10, year) => year.div_euclid(10),
        (_, 1..) => (year - 1) / years + 1,
        _ => -((-year) / years) - 1,
    }
}

#[cfg(test)]
mod tests {
    use super::of_year;

    #[test]
    fn eras_are_counted_from_one_and_decades_from_none() {
        for (year, expected) in [
            (2020, [202, 21, 3]),
            (2001, [200, 21, 3]),
            (2000, [200, 20, 2]),
            (1, [0, 1, 1]),
            (0, [0, -1, -1]),
            (-43, [-5, -1, -1]),
            (-99, [-10, -1, -1]),
            (-100, [-10, -2, -1]),
        ] {
            assert_eq!([10, 100, 1000].map(|years| of_year(year, years)), expected, "{year}");
        }
    }
}
