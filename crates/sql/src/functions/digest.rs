//! `md5(text)` and `md5(bytea)`: the digest of RFC 1321 as hexadecimal digits.

use std::fmt::Write;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, StringViewBuilder};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};

#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Digest {
    signature: Signature,
}

impl Default for Digest {
    fn default() -> Self {
        Self { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Digest {
    fn name(&self) -> &'static str {
        "md5"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        match arguments {
            [DataType::Binary | DataType::LargeBinary | DataType::BinaryView] => Ok(vec![DataType::BinaryView]),
            [DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null] => {
                Ok(vec![DataType::Utf8View])
            }
            _ => plan_err!("md5 takes one TEXT or BYTEA"),
        }
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = arguments.number_rows;
        let is_scalar = matches!(arguments.args.as_slice(), [ColumnarValue::Scalar(_)]);
        let Some(values) = arguments.args.into_iter().next() else { return plan_err!("md5 takes one argument") };
        let values = cast(&values.into_array(if is_scalar { 1 } else { rows })?, &DataType::BinaryView)?;
        let mut digests = StringViewBuilder::with_capacity(values.len());
        for value in values.as_binary_view() {
            digests.append_option(value.map(hexadecimal));
        }
        let digests: ArrayRef = Arc::new(digests.finish());
        Ok(if is_scalar {
            ColumnarValue::Scalar(datafusion::common::ScalarValue::try_from_array(&digests, 0)?)
        } else {
            ColumnarValue::Array(digests)
        })
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(32);
    for byte in md5(bytes) {
        // Writing to a String does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// How far each step of a round turns.
const TURNS: [[u32; 4]; 4] = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];

/// RFC 1321, section 3.
fn md5(bytes: &[u8]) -> [u8; 16] {
    let mut padded = bytes.to_vec();
    padded.push(0x80);
    padded.resize(padded.len().next_multiple_of(64), 0);
    if padded.len() - bytes.len() < 9 {
        padded.resize(padded.len() + 64, 0);
    }
    let end = padded.len() - 8;
    padded[end..].copy_from_slice(&(bytes.len() as u64).wrapping_mul(8).to_le_bytes());
    let sines: [u32; 64] = std::array::from_fn(sine);
    let mut state = [0x6745_2301_u32, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
    for block in padded.chunks_exact(64) {
        let word =
            |at: usize| u32::from_le_bytes([block[4 * at], block[4 * at + 1], block[4 * at + 2], block[4 * at + 3]]);
        let [mut a, mut b, mut c, mut d] = state;
        for step in 0..64 {
            let (mixed, at) = match step / 16 {
                0 => ((b & c) | (!b & d), step),
                1 => ((d & b) | (!d & c), (5 * step + 1) % 16),
                2 => (b ^ c ^ d, (3 * step + 5) % 16),
                _ => (c ^ (b | !d), (7 * step) % 16),
            };
            let turned = a.wrapping_add(mixed).wrapping_add(sines[step]).wrapping_add(word(at));
            (a, d, c) = (d, c, b);
            b = b.wrapping_add(turned.rotate_left(TURNS[step / 16][step % 4]));
        }
        for (sum, part) in state.iter_mut().zip([a, b, c, d]) {
            *sum = sum.wrapping_add(part);
        }
    }
    let mut digest = [0; 16];
    for (four, part) in digest.chunks_exact_mut(4).zip(state) {
        four.copy_from_slice(&part.to_le_bytes());
    }
    digest
}

/// The constant of a step: the first 32 bits behind the point of a sine.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "the product lies between 0 and 2^32, and a step below 64 is exact"
)]
fn sine(step: usize) -> u32 {
    (((step + 1) as f64).sin().abs() * 4_294_967_296.0) as u32
}

#[cfg(test)]
mod tests {
    use super::hexadecimal;

    #[test]
    fn digests_are_those_of_the_rfc() {
        for (text, digest) in [
            ("", "d41d8cd98f00b204e9800998ecf8427e"),
            ("abc", "900150983cd24fb0d6963f7d28e17f72"),
            ("message digest", "f96b697d7cb7938d525a2f31aaf161d0"),
            (
                "12345678901234567890123456789012345678901234567890123456789012345678901234567890",
                "57edf4a22be3c955ac49da2e2107b67a",
            ),
        ] {
            assert_eq!(hexadecimal(text.as_bytes()), digest, "{text}");
        }
        // Around the length at which the padding takes a block of its own, as PostgreSQL 15 answers.
        for (length, digest) in LENGTHS {
            assert_eq!(hexadecimal("a".repeat(length).as_bytes()), digest, "{length}");
        }
    }

    const LENGTHS: [(usize, &str); 5] = [
        (55, "ef1772b6dff9a122358552954ad0df65"),
        (56, "3b0c8ac703f828b04c6c197006d17218"),
        (63, "b06521f39153d618550606be297466d5"),
        (64, "014842d480b571495a4a0363793f7367"),
        (119, "8a7bd0732ed6a28ce75f6dabc90e1613"),
    ];
}
