//! Floating-point numbers as `PostgreSQL` writes them: `100000`, `1e+20`, `1.5e-07`, `Infinity`.

use std::fmt::{LowerExp, Write as _};
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, StringViewArray};
use datafusion::arrow::datatypes::{Float32Type, Float64Type};

/// The exponent of ten from which on a DOUBLE is written with one, and that of a REAL.
const LARGE: (i32, i32) = (15, 6);

/// The same for small numbers.
const SMALL: i32 = -4;

/// The numbers of a column as texts.
pub(super) fn reals(array: &ArrayRef) -> ArrayRef {
    let numbers = array.as_primitive::<Float32Type>().iter();
    let texts = numbers.map(|number| number.map(|number| text(number, f64::from(number), LARGE.1)));
    Arc::new(texts.collect::<StringViewArray>())
}

/// The numbers of a column as texts.
pub(super) fn doubles(array: &ArrayRef) -> ArrayRef {
    let numbers = array.as_primitive::<Float64Type>().iter();
    let texts = numbers.map(|number| number.map(|number| text(number, number, LARGE.0)));
    Arc::new(texts.collect::<StringViewArray>())
}

/// With the fewest digits that no other number of the type has. `large`: from which exponent on one is written.
fn text(number: impl LowerExp, value: f64, large: i32) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    let sign = if value.is_sign_negative() { "-" } else { "" };
    if value.is_infinite() {
        return format!("{sign}Infinity");
    }
    let scientific = format!("{number:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let mut text = sign.to_owned();
    if exponent < SMALL || exponent >= large {
        let (first, rest) = digits.split_at(1);
        let point = if rest.is_empty() { "" } else { "." };
        let (sign, size) = (if exponent < 0 { '-' } else { '+' }, exponent.unsigned_abs());
        let _ = write!(text, "{first}{point}{rest}e{sign}{size:02}");
    } else if exponent < 0 {
        let zeros = "0".repeat(exponent.unsigned_abs() as usize - 1);
        let _ = write!(text, "0.{zeros}{digits}");
    } else {
        let whole = exponent.unsigned_abs() as usize + 1;
        if digits.len() > whole {
            let (whole, part) = digits.split_at(whole);
            let _ = write!(text, "{whole}.{part}");
        } else {
            let _ = write!(text, "{digits:0<whole$}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_are_written_as_postgresql_does() {
        for (number, expected) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (100_000.0, "100000"),
            (1e14, "100000000000000"),
            (1e15, "1e+15"),
            (-1.5e300, "-1.5e+300"),
            (0.1, "0.1"),
            (1.25e-4, "0.000125"),
            (1e-5, "1e-05"),
            (5e-324, "5e-324"),
            (123_456.789, "123456.789"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(text(number, number, LARGE.0), expected);
        }
    }

    #[test]
    fn reals_are_written_as_postgresql_does() {
        for (number, expected) in [
            (100_000_f32, "100000"),
            (1e6, "1e+06"),
            (123_456.7, "123456.7"),
            (16_777_216.0, "1.6777216e+07"),
            (0.1, "0.1"),
        ] {
            assert_eq!(text(number, f64::from(number), LARGE.1), expected);
        }
    }
}
