//! The written form of a formula: one byte a step, and two more for the digits of a decimal.
//!
//! | Byte | Step |
//! |---:|---|
//! | 0 | the next argument |
//! | 1 to 7 | `+`, `-`, `*`, `/`, `%`, minus, the nearest whole number |
//! | 16 to 21 | a cast to SMALLINT, INTEGER, BIGINT, REAL, DOUBLE, DATE |
//! | 22 | a cast to a decimal: its precision (1), its scale (1) |

use std::sync::Arc;

use datafusion::arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType};
use datafusion::logical_expr::ScalarUDF;

use super::{Formula, Step};
use crate::exact::{OPERATORS, arithmetic, negation, round_even};

/// Those of a cast, from 16 on.
const TYPES: [DataType; 6] =
    [DataType::Int16, DataType::Int32, DataType::Int64, DataType::Float32, DataType::Float64, DataType::Date32];

const DECIMAL: u8 = 22;

/// Those of a call, from 1 on.
fn functions() -> impl Iterator<Item = Arc<ScalarUDF>> {
    OPERATORS.into_iter().filter_map(arithmetic).chain([negation(), round_even()])
}

/// The steps of a formula; nothing of any other function.
pub(in crate::exact) fn encode(function: &ScalarUDF) -> Option<Vec<u8>> {
    let formula = function.inner().downcast_ref::<Formula>()?;
    let mut bytes = Vec::with_capacity(formula.steps.len());
    for step in &formula.steps {
        match step {
            Step::Argument(_) => bytes.push(0),
            Step::Call(function) => {
                bytes.push(u8::try_from(functions().position(|known| known == *function)?).ok()? + 1);
            }
            Step::Cast(DataType::Decimal128(precision, scale)) => {
                bytes.extend_from_slice(&[DECIMAL, *precision, u8::try_from(*scale).ok()?]);
            }
            Step::Cast(to) => bytes.push(u8::try_from(TYPES.iter().position(|known| known == to)?).ok()? + 16),
        }
    }
    Some(bytes)
}

/// The formula of these steps; nothing if they are none.
pub(in crate::exact) fn decode(bytes: &[u8]) -> Option<Arc<ScalarUDF>> {
    let (mut steps, mut arguments, mut bytes) = (Vec::new(), 0, bytes.iter().copied());
    while let Some(byte) = bytes.next() {
        steps.push(match byte {
            0 => {
                arguments += 1;
                Step::Argument(arguments - 1)
            }
            1..16 => Step::Call(functions().nth(usize::from(byte) - 1)?),
            DECIMAL => {
                let (precision, scale) = (bytes.next()?, i8::try_from(bytes.next()?).ok()?);
                let fits = (1..=DECIMAL128_MAX_PRECISION).contains(&precision) && scale.unsigned_abs() <= precision;
                Step::Cast(fits.then_some(DataType::Decimal128(precision, scale))?)
            }
            other => Step::Cast(TYPES.get(usize::from(other) - 16)?.clone()),
        });
    }
    Formula::new(steps).map(Formula::function)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_formula_is_read_as_it_was_written() {
        let bytes = [0, 0, 1, DECIMAL, 12, 2, 0, 4, 6, 7, 20];
        let formula = decode(&bytes).expect("a formula");
        assert_eq!(encode(&formula).expect("of steps"), bytes);
        assert_eq!(formula.return_type(&[DataType::Int32, DataType::Int32, DataType::Utf8]).ok(), None);
        let decimal = DataType::Decimal128(5, 1);
        assert_eq!(formula.return_type(&[DataType::Int32, DataType::Int32, decimal]).ok(), Some(DataType::Float64));
    }

    #[test]
    fn steps_that_do_not_go_together_are_no_formula() {
        for bytes in [
            &[][..],
            &[1],
            &[0, 1],
            &[0, 0],
            &[0, 8],
            &[0, 23],
            &[0, DECIMAL, 39, 0],
            &[0, DECIMAL, 5, 6],
            &[0, DECIMAL],
        ] {
            assert!(decode(bytes).is_none(), "{bytes:?}");
        }
    }
}
