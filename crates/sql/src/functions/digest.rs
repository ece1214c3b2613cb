//! `md5(text)` and `md5(bytea)`: the digest of RFC 1321 as hexadecimal digits.

use std::fmt::Write;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, StringViewBuilder};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};
use md5::{Digest as _, Md5};

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
    for byte in Md5::digest(bytes) {
        // Writing to a String does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
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
    }
}
