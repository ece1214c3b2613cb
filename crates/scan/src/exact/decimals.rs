//! How many digits the result of an operation on decimals has, and the two operations that need more than 128 bits.
//!
//! `PostgreSQL` chooses the digits of a quotient for each row, so that 16 of them count; here a column has one scale. A quotient
//! has 16 digits behind the point, 20 where the digits before the point leave room for them, and never fewer than its operands.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Datum, Decimal128Array};
use datafusion::arrow::datatypes::{DECIMAL128_MAX_PRECISION, Decimal128Type, i256};
use datafusion::arrow::error::ArrowError;
use datafusion::logical_expr::Operator;

/// Digits of all decimals.
const MOST: i16 = DECIMAL128_MAX_PRECISION as i16;

/// Digits behind the point that a quotient has at least, and those that it has if there is room.
const QUOTIENT: (i16, i16) = (16, 20);

/// Precision and scale.
pub(super) type Digits = (u8, i8);

/// The digits of a result; nothing where a scale is negative.
pub(super) fn result(operator: Operator, left: Digits, right: Digits) -> Option<Digits> {
    let ((p, s), (q, t)) = ((i16::from(left.0), i16::from(left.1)), (i16::from(right.0), i16::from(right.1)));
    if s < 0 || t < 0 {
        return None;
    }
    let (before, behind) = match operator {
        Operator::Plus | Operator::Minus => ((p - s).max(q - t) + 1, s.max(t)),
        Operator::Modulo => ((p - s).min(q - t).max(0), s.max(t)),
        Operator::Multiply => {
            let before = (p - s) + (q - t) + 1;
            // All digits, if there is room for them.
            (before, if s + t <= MOST { s + t } else { (MOST - before).max(QUOTIENT.1).max(s).max(t) })
        }
        Operator::Divide => {
            let before = (p - s) + t;
            let (least, most) = (QUOTIENT.0.max(s).max(t), QUOTIENT.1.max(s).max(t));
            (before, (MOST - before).clamp(least, most))
        }
        _ => return None,
    };
    let precision = (before + behind).clamp(1, MOST).max(behind);
    Some((u8::try_from(precision).ok()?, i8::try_from(behind).ok()?))
}

/// The digits of an average of such numbers.
pub(super) fn average((precision, scale): Digits) -> Digits {
    let (before, scale) = (i16::from(precision) - i16::from(scale), i16::from(scale));
    let behind = (MOST - before).clamp(QUOTIENT.0.max(scale), QUOTIENT.1.max(scale));
    ((before + behind).min(MOST) as u8, behind as i8)
}

/// Whether a number has no more digits than that.
pub(super) fn fits(value: i128, precision: u8) -> bool {
    10_u128.checked_pow(precision.into()).is_none_or(|bound| value.unsigned_abs() < bound)
}

/// Whether that is so of all of them.
pub(super) fn all_fit(values: &[i128], precision: u8) -> bool {
    let bound = 10_u128.checked_pow(precision.into()).unwrap_or(u128::MAX);
    values.iter().all(|value| value.unsigned_abs() < bound)
}

/// The error of a result with too many digits.
pub(super) fn too_many((precision, scale): Digits) -> ArrowError {
    ArrowError::ArithmeticOverflow(format!(
        "numeric field overflow: a result does not fit DECIMAL({precision}, {scale}); CAST an operand to fewer digits, or to DOUBLE"
    ))
}

/// Fails if a number has more digits than its type.
pub(super) fn check(array: ArrayRef, digits: Digits) -> Result<ArrayRef, ArrowError> {
    let decimals = array.as_primitive::<Decimal128Type>();
    let fit = match decimals.null_count() {
        0 => all_fit(decimals.values(), digits.0),
        _ => decimals.iter().flatten().all(|value| fits(value, digits.0)),
    };
    if fit { Ok(array) } else { Err(too_many(digits)) }
}

/// Quotients, rounded half away from zero.
pub(super) fn divide(left: &dyn Datum, right: &dyn Datum, digits: Digits) -> Result<ArrayRef, ArrowError> {
    let (s, t) = (scale(left), scale(right));
    let more = u32::try_from(i16::from(digits.1) - i16::from(s) + i16::from(t)).unwrap_or(0);
    each(left, right, digits, |dividend, divisor| {
        if divisor == 0 {
            return Err(ArrowError::DivideByZero);
        }
        scaled_quotient(dividend, more, divisor).ok_or_else(|| too_many(digits))
    })
}

/// Products of which not all digits can be kept, rounded half away from zero.
pub(super) fn multiply(left: &dyn Datum, right: &dyn Datum, digits: Digits) -> Result<ArrayRef, ArrowError> {
    let less = i16::from(scale(left)) + i16::from(scale(right)) - i16::from(digits.1);
    let divisor = i256::from_i128(10).wrapping_pow(u32::try_from(less).unwrap_or(0));
    each(left, right, digits, |one, other| {
        let product = i256::from_i128(one).checked_mul(i256::from_i128(other));
        product.and_then(|product| rounded(product, divisor)).ok_or_else(|| too_many(digits))
    })
}

/// `dividend * 10^more / divisor`, rounded half away from zero. Nothing if it does not fit, or if the divisor is zero.
pub(super) fn scaled_quotient(dividend: i128, more: u32, divisor: i128) -> Option<i128> {
    let narrow = 10_i128.checked_pow(more).and_then(|times| dividend.checked_mul(times));
    let Some(dividend) = narrow else {
        let times = i256::from_i128(10).checked_pow(more)?;
        return rounded(i256::from_i128(dividend).checked_mul(times)?, i256::from_i128(divisor));
    };
    let quotient = dividend.checked_div(divisor)?;
    let rest = (dividend % divisor).unsigned_abs();
    if rest < divisor.unsigned_abs() - rest {
        return Some(quotient);
    }
    if (dividend < 0) == (divisor < 0) { quotient.checked_add(1) } else { quotient.checked_sub(1) }
}

fn rounded(dividend: i256, divisor: i256) -> Option<i128> {
    let (quotient, rest) = (dividend.checked_div(divisor)?, dividend.checked_rem(divisor)?);
    let (rest, size) = (rest.wrapping_abs(), divisor.wrapping_abs());
    let quotient = quotient.to_i128()?;
    if rest < size.wrapping_sub(rest) {
        return Some(quotient);
    }
    let zero = i256::from_i128(0);
    if (dividend < zero) == (divisor < zero) { quotient.checked_add(1) } else { quotient.checked_sub(1) }
}

fn scale(datum: &dyn Datum) -> i8 {
    datum.get().0.as_primitive::<Decimal128Type>().scale()
}

/// Something of each pair of numbers; NULL where one of them is.
fn each(
    left: &dyn Datum,
    right: &dyn Datum,
    (precision, scale): Digits,
    of: impl Fn(i128, i128) -> Result<i128, ArrowError>,
) -> Result<ArrayRef, ArrowError> {
    let ((left, left_is_one), (right, right_is_one)) = (left.get(), right.get());
    let (left, right) = (left.as_primitive::<Decimal128Type>(), right.as_primitive::<Decimal128Type>());
    let rows = if left_is_one { right.len() } else { left.len() };
    let value = |row: usize| {
        let (at, other) = (if left_is_one { 0 } else { row }, if right_is_one { 0 } else { row });
        if left.is_null(at) || right.is_null(other) {
            return Ok(None);
        }
        let value = of(left.value(at), right.value(other))?;
        if fits(value, precision) { Ok(Some(value)) } else { Err(too_many((precision, scale))) }
    };
    let values = (0..rows).map(value).collect::<Result<Decimal128Array, ArrowError>>()?;
    Ok(Arc::new(values.with_precision_and_scale(precision, scale)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotients_are_rounded_half_away_from_zero_in_128_bits_and_beyond() {
        for (dividend, more, divisor, expected) in [
            (10, 0, 4, Some(3)),
            (-10, 0, 4, Some(-3)),
            (10, 0, -4, Some(-3)),
            (9, 0, 4, Some(2)),
            (1, 3, 3, Some(333)),
            (2, 3, 3, Some(667)),
            (1, 0, 0, None),
            (i128::MIN, 0, -1, None),
            (10_i128.pow(37), 20, 10_i128.pow(20), Some(10_i128.pow(37))),
            (-5 * 10_i128.pow(36), 2, 10_i128.pow(38) - 1, Some(-5)),
            (10_i128.pow(37), 20, 1, None),
        ] {
            assert_eq!(scaled_quotient(dividend, more, divisor), expected, "{dividend} * 10^{more} / {divisor}");
        }
    }

    #[test]
    fn a_quotient_has_at_least_sixteen_digits_behind_the_point() {
        for (left, right, expected) in [
            ((10, 0), (10, 0), (30, 20)),
            ((15, 2), (15, 2), (35, 20)),
            ((38, 10), (38, 10), (38, 16)),
            ((38, 4), (38, 4), (38, 16)),
            ((19, 0), (19, 0), (38, 19)),
            ((30, 25), (5, 0), (30, 25)),
        ] {
            assert_eq!(result(Operator::Divide, left, right), Some(expected), "{left:?} / {right:?}");
        }
        assert_eq!(average((19, 0)), (38, 19));
        assert_eq!(average((15, 2)), (33, 20));
    }

    #[test]
    fn a_product_keeps_all_digits_that_there_is_room_for() {
        assert_eq!(result(Operator::Multiply, (15, 2), (16, 2)), Some((32, 4)));
        assert_eq!(result(Operator::Multiply, (38, 10), (38, 10)), Some((38, 20)));
        assert_eq!(result(Operator::Multiply, (38, 20), (38, 20)), Some((38, 20)));
        assert_eq!(result(Operator::Plus, (38, 10), (5, 0)), Some((38, 10)));
        assert_eq!(result(Operator::Modulo, (5, 5), (5, 0)), Some((5, 5)));
    }
}
