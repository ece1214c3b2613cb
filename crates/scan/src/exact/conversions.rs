//! Between decimals and floating-point numbers, as `PostgreSQL` has it: of a DOUBLE the fifteen digits are taken that are certain to be
//! right, of a REAL six, and of a decimal the floating-point number that is nearest to it.
//!
//! Arrow multiplies a DOUBLE by a power of ten, and so has `1e14` end in digits that it does not have; it divides a decimal of 128 bits as
//! a DOUBLE, which rounds twice; and what it reads from a text has no exponent, and wraps around beyond 256 bits.

use std::fmt::Write as _;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, StringViewBuilder};
use datafusion::arrow::compute::cast_with_options;
use datafusion::arrow::datatypes::{DataType, Decimal128Type, Float32Type, Float64Type};
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::format::DEFAULT_CAST_OPTIONS;
use datafusion::common::{Result, exec_err};

/// The digits of a DOUBLE and of a REAL that count.
const CERTAIN: (usize, usize) = (15, 6);

/// The most digits before the point that a decimal has, and one more than there may be behind it: by that one it is rounded.
const MOST: (usize, usize) = (38, 39);

/// Powers of ten that a DOUBLE and a REAL hold exactly.
const EXACT: (i8, i8) = (22, 10);

/// Numbers as texts of digits with at most one point, for a cast to a decimal. Of floating-point numbers and of texts.
///
/// # Errors
///
/// A value that is no number, or that no decimal has room for; NULL instead of an error if `safe`.
pub fn digits(array: &ArrayRef, safe: bool) -> Result<ArrayRef> {
    let mut made = StringViewBuilder::with_capacity(array.len());
    let mut append = |row: usize, digits: Option<Result<String, Refusal>>| {
        match digits {
            Some(Ok(digits)) => made.append_value(digits),
            None => made.append_null(),
            Some(Err(_)) if safe => made.append_null(),
            Some(Err(refusal)) => return Err(refusal.error(array, row)),
        }
        Ok(())
    };
    let texts = match array.data_type() {
        DataType::Float32 | DataType::Float64 => {
            let (numbers, certain) = match array.data_type() {
                DataType::Float32 => (cast_with_options(array, &DataType::Float64, &DEFAULT_CAST_OPTIONS)?, CERTAIN.1),
                _ => (Arc::clone(array), CERTAIN.0),
            };
            for (row, number) in numbers.as_primitive::<Float64Type>().iter().enumerate() {
                append(row, number.map(|number| of_float(number, certain)))?;
            }
            return Ok(Arc::new(made.finish()));
        }
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Dictionary(..) => {
            cast_with_options(array, &DataType::Utf8View, &DEFAULT_CAST_OPTIONS)?
        }
        DataType::Utf8View => Arc::clone(array),
        other => return exec_err!("{other} is not read as digits"),
    };
    for (row, text) in texts.as_string_view().iter().enumerate() {
        append(row, text.map(of_text))?;
    }
    Ok(Arc::new(made.finish()))
}

/// Why a value is no decimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusal {
    NoNumber,
    TooLarge,
}

impl Refusal {
    fn error(self, array: &ArrayRef, row: usize) -> datafusion::common::DataFusionError {
        let value = ArrayFormatter::try_new(array, &FormatOptions::default())
            .map_or_else(|_| "a value".to_owned(), |values| values.value(row).to_string());
        match self {
            Self::NoNumber => ArrowError::CastError(format!("Cannot cast string '{value}' to value of DECIMAL type")),
            Self::TooLarge => ArrowError::ArithmeticOverflow(format!(
                "numeric field overflow: {value} has more than {} digits before the point",
                MOST.0
            )),
        }
        .into()
    }
}

/// The digits of a number that is written down, and how many there are, in all and behind the point. Nothing if a decimal has no room
/// for them.
pub fn written(text: &str) -> Option<(String, u8, i8)> {
    let number = Written::read(text).ok()?;
    let behind = (number.digits.len() as i64 - number.point).max(0);
    let all = (number.point.max(0) + behind).max(1);
    let (all, behind) = (u8::try_from(all).ok()?, i8::try_from(behind).ok()?);
    (usize::from(all) <= MOST.0).then_some(())?;
    Some((number.plain().ok()?, all, behind))
}

fn of_float(number: f64, certain: usize) -> Result<String, Refusal> {
    if !number.is_finite() {
        return Err(if number.is_nan() { Refusal::NoNumber } else { Refusal::TooLarge });
    }
    let behind_first = certain - 1;
    of_text(&format!("{number:.behind_first$e}"))
}

fn of_text(text: &str) -> Result<String, Refusal> {
    Written::read(text)?.plain()
}

/// A number that is written with or without an exponent.
struct Written {
    is_negative: bool,
    /// In ASCII, from the first one that is not zero on.
    digits: Vec<u8>,
    /// How many of the digits stand before the point, which may lie outside of them.
    point: i64,
}

impl Written {
    /// Reads a text with spaces around it.
    fn read(text: &str) -> Result<Self, Refusal> {
        let text = text.trim_matches([' ', '\t', '\n', '\r', '\u{b}', '\u{c}']);
        let (is_negative, unsigned) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, of_exponent(exponent).ok_or(Refusal::NoNumber)?),
            None => (unsigned, 0),
        };
        let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let all: Vec<u8> = whole.bytes().chain(part.bytes()).collect();
        if all.is_empty() || !all.iter().all(u8::is_ascii_digit) {
            return Err(Refusal::NoNumber);
        }
        let zeros = all.iter().take_while(|digit| **digit == b'0').count();
        Ok(Self { is_negative, digits: all[zeros..].to_vec(), point: whole.len() as i64 - zeros as i64 + exponent })
    }

    /// Without an exponent, and with no more digits than decimals need to be rounded.
    fn plain(&self) -> Result<String, Refusal> {
        let Self { is_negative, digits, point } = self;
        if digits.is_empty() {
            return Ok("0".to_owned());
        }
        if *point > MOST.0 as i64 {
            return Err(Refusal::TooLarge);
        }
        let mut text = String::with_capacity(MOST.0 + MOST.1 + 3);
        text.push_str(if *is_negative { "-" } else { "" });
        let before = usize::try_from(*point).unwrap_or(0);
        let (whole, part) = digits.split_at(before.min(digits.len()));
        let _ = write!(text, "{:0<before$}", ascii(whole));
        text.push_str(if before == 0 { "0" } else { "" });
        let zeros = usize::try_from(-point).unwrap_or(0).min(MOST.1);
        let part = &part[..part.len().min(MOST.1 - zeros)];
        if !part.is_empty() {
            let _ = write!(text, ".{}{}", "0".repeat(zeros), ascii(part));
        }
        Ok(text)
    }
}

/// An exponent; one that is far outside of what is held, as one that is.
fn of_exponent(text: &str) -> Option<i64> {
    const FAR: i64 = 1 << 40;
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let size = digits.parse().unwrap_or(FAR).min(FAR);
    Some(if text.starts_with('-') { -size } else { size })
}

fn ascii(digits: &[u8]) -> &str {
    std::str::from_utf8(digits).unwrap_or_default()
}

/// Decimals as the floating-point numbers that are nearest to them; a REAL has room for all of them.
///
/// # Errors
///
/// Numbers that are no decimals of 128 bits.
pub fn nearest(array: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    let decimals = array.as_primitive::<Decimal128Type>();
    let DataType::Decimal128(_, scale) = *array.data_type() else { return exec_err!("decimals are Decimal128") };
    Ok(match to {
        DataType::Float32 => Arc::new(decimals.unary::<_, Float32Type>(|unscaled| {
            if unscaled.unsigned_abs() < 1 << 24 && (0..=EXACT.1).contains(&scale) {
                unscaled as f32 / 10_f32.powi(scale.into())
            } else {
                scientific(unscaled, scale).parse().unwrap_or(f32::NAN)
            }
        })),
        _ => Arc::new(decimals.unary::<_, Float64Type>(|unscaled| {
            if unscaled.unsigned_abs() < 1 << 53 && (0..=EXACT.0).contains(&scale) {
                unscaled as f64 / 10_f64.powi(scale.into())
            } else {
                scientific(unscaled, scale).parse().unwrap_or(f64::NAN)
            }
        })),
    })
}

fn scientific(unscaled: i128, scale: i8) -> String {
    format!("{unscaled}e{}", -i16::from(scale))
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::Decimal128Array;

    use super::*;

    #[test]
    fn texts_are_read_with_exponents_and_without() {
        for (text, expected) in [
            ("0", Ok("0")),
            ("-0.000", Ok("0")),
            (" +12.50\n", Ok("12.50")),
            (".5", Ok("0.5")),
            ("5.", Ok("5")),
            ("1e5", Ok("100000")),
            ("-1.5E-3", Ok("-0.0015")),
            ("123.456e1", Ok("1234.56")),
            ("123.456e-2", Ok("1.23456")),
            ("0.000123e3", Ok("0.123")),
            ("0001e37", Ok("10000000000000000000000000000000000000")),
            ("1e38", Err(Refusal::TooLarge)),
            ("1e99999999999999999999", Err(Refusal::TooLarge)),
            ("1e-99999999999999999999", Ok("0")),
            ("0e99999999999999999999", Ok("0")),
            ("", Err(Refusal::NoNumber)),
            (".", Err(Refusal::NoNumber)),
            ("1e", Err(Refusal::NoNumber)),
            ("1e+", Err(Refusal::NoNumber)),
            ("1.2.3", Err(Refusal::NoNumber)),
            ("--1", Err(Refusal::NoNumber)),
            ("1 2", Err(Refusal::NoNumber)),
            ("é", Err(Refusal::NoNumber)),
            ("NaN", Err(Refusal::NoNumber)),
        ] {
            assert_eq!(of_text(text).as_deref(), expected.as_ref().map(|text| *text), "{text:?}");
        }
    }

    #[test]
    fn a_number_that_is_written_down_has_its_digits() {
        let written = |text| written(text).map(|(digits, all, behind)| (digits, (all, behind)));
        for (text, expected) in [
            ("1e5", Some(("100000", (6, 0)))),
            ("1.50e1", Some(("15.0", (3, 1)))),
            ("2.5e-3", Some(("0.0025", (4, 4)))),
            ("0e0", Some(("0", (1, 0)))),
            ("1e37", Some(("10000000000000000000000000000000000000", (38, 0)))),
            ("1e38", None),
            ("1e-38", Some(("0.00000000000000000000000000000000000001", (38, 38)))),
            ("1e-39", None),
            ("1.5e37", Some(("15000000000000000000000000000000000000", (38, 0)))),
            ("1e300", None),
            ("1x", None),
        ] {
            assert_eq!(written(text), expected.map(|(digits, of)| (digits.to_owned(), of)), "{text}");
        }
    }

    #[test]
    fn a_float_has_the_digits_that_are_certain() {
        for (number, expected) in [
            (1e14, "100000000000000"),
            (0.1, "0.1"),
            (1.0 / 3.0, "0.333333333333333"),
            (123_456_789.123_456_78, "123456789.123457"),
            (-2.5e-7, "-0.00000025"),
            (1e37, "10000000000000000000000000000000000000"),
        ] {
            let digits = of_float(number, CERTAIN.0).expect("a decimal");
            assert_eq!(digits.trim_end_matches('0').trim_end_matches('.'), expected.trim_end_matches('0'), "{number}");
        }
        assert_eq!(of_float(f64::INFINITY, CERTAIN.0), Err(Refusal::TooLarge));
        assert_eq!(of_float(f64::NAN, CERTAIN.0), Err(Refusal::NoNumber));
        assert_eq!(of_float(1e300, CERTAIN.0), Err(Refusal::TooLarge));
    }

    #[test]
    fn a_decimal_becomes_the_nearest_float() {
        for (unscaled, scale) in [
            (1_i128, 1_i8),
            (123_456_789_012_345_678, 17),
            (9_007_199_254_740_993, 0),
            (99_999_999_999_999_999_999_999_999_999_999_999_999, 38),
            (-314_159_265_358_979_323_846_264_338_327_950_288, 35),
        ] {
            let decimals = Decimal128Array::from(vec![unscaled]).with_precision_and_scale(38, scale);
            let decimals = decimals.expect("a decimal");
            let text = decimals.value_as_string(0);
            let array: ArrayRef = Arc::new(decimals);
            let double = nearest(&array, &DataType::Float64).expect("doubles");
            let expected = text.parse::<f64>().expect("a number");
            assert_eq!(double.as_primitive::<Float64Type>().value(0).to_bits(), expected.to_bits());
            let real = nearest(&array, &DataType::Float32).expect("reals");
            let expected = text.parse::<f32>().expect("a number");
            assert_eq!(real.as_primitive::<Float32Type>().value(0).to_bits(), expected.to_bits());
        }
    }
}
