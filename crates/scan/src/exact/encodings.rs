//! `encode` and `decode`: bytes as texts and back, as `PostgreSQL` writes and reads them. DataFusion's leave the end of `base64` out.

use std::sync::{Arc, LazyLock};

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, BinaryArray, StringArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, exec_err, plan_err};
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::function::Hint;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::strict_field;

/// How long a line of `base64` is.
const LINE: usize = 76;

/// What is behind the last byte need not be zero, as in `PostgreSQL`.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical),
);

/// Both functions.
pub(super) fn functions() -> &'static [Arc<ScalarUDF>; 2] {
    static FUNCTIONS: LazyLock<[Arc<ScalarUDF>; 2]> = LazyLock::new(|| {
        [Way::Encode, Way::Decode].map(|way| {
            let signature = Signature::user_defined(Volatility::Immutable);
            Arc::new(ScalarUDF::from(Encoding { way, signature }))
        })
    });
    &FUNCTIONS
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Way {
    /// Bytes to texts.
    Encode,
    /// Texts to bytes.
    Decode,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Encoding {
    way: Way,
    signature: Signature,
}

impl ScalarUDFImpl for Encoding {
    fn name(&self) -> &'static str {
        match self.way {
            Way::Encode => "encode",
            Way::Decode => "decode",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let is_text = |of: &DataType| of.is_string() || of.is_null();
        match (self.way, types) {
            (Way::Encode, [bytes, format]) if (bytes.is_binary() || is_text(bytes)) && is_text(format) => {
                Ok(vec![DataType::Binary, DataType::Utf8])
            }
            (Way::Decode, [text, format]) if is_text(text) && is_text(format) => {
                Ok(vec![DataType::Utf8, DataType::Utf8])
            }
            (Way::Encode, _) => plan_err!("encode takes a BYTEA and the name of a format"),
            (Way::Decode, _) => plan_err!("decode takes a TEXT and the name of a format"),
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self.way {
            Way::Encode => DataType::Utf8,
            Way::Decode => DataType::Binary,
        })
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        strict_field(self, &args)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let made = |arrays: &[ArrayRef]| {
            let [values, formats] = arrays else { return plan_err!("{} of a value and a format", self.name()) };
            let formats = cast(formats, &DataType::Utf8)?;
            let formats = formats.as_string::<i32>();
            let format = |row: usize| {
                let row = if formats.len() == 1 { 0 } else { row };
                formats.is_valid(row).then(|| Format::of(formats.value(row))).transpose()
            };
            Ok(match self.way {
                Way::Encode => {
                    let bytes = cast(values, &DataType::Binary)?;
                    let rows = bytes.as_binary::<i32>().iter().enumerate();
                    let text = |(row, bytes): (usize, Option<&[u8]>)| {
                        Ok(bytes.zip(format(row)?).map(|(bytes, format)| format.encode(bytes)))
                    };
                    Arc::new(rows.map(text).collect::<Result<StringArray>>()?) as ArrayRef
                }
                Way::Decode => {
                    let texts = cast(values, &DataType::Utf8)?;
                    let rows = texts.as_string::<i32>().iter().enumerate();
                    let bytes = |(row, text): (usize, Option<&str>)| {
                        text.zip(format(row)?).map(|(text, format)| format.decode(text)).transpose()
                    };
                    Arc::new(rows.map(bytes).collect::<Result<BinaryArray>>()?)
                }
            })
        };
        make_scalar_function(made, vec![Hint::Pad, Hint::AcceptsSingular])(&args.args)
    }
}

#[derive(Clone, Copy, Debug)]
enum Format {
    Base64,
    Hex,
    /// Bytes that are no ASCII in octal digits behind a backslash.
    Escape,
}

impl Format {
    fn of(name: &str) -> Result<Self> {
        Ok(match name.to_ascii_lowercase().as_str() {
            "base64" => Self::Base64,
            "hex" => Self::Hex,
            "escape" => Self::Escape,
            _ => return exec_err!("unrecognized encoding: {name:?}; base64, hex and escape are encodings"),
        })
    }

    fn encode(self, bytes: &[u8]) -> String {
        match self {
            Self::Base64 => {
                let text = BASE64.encode(bytes);
                let mut lines = String::with_capacity(text.len() + text.len() / LINE);
                for (at, letter) in text.chars().enumerate() {
                    if at > 0 && at % LINE == 0 {
                        lines.push('\n');
                    }
                    lines.push(letter);
                }
                lines
            }
            Self::Hex => {
                let digit = |half: u8| char::from(b"0123456789abcdef"[usize::from(half)]);
                bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
            }
            Self::Escape => {
                let octal = |digit: u8| char::from(b'0' + (digit & 7));
                let mut text = String::with_capacity(bytes.len());
                for &byte in bytes {
                    match byte {
                        b'\\' => text.push_str("\\\\"),
                        0 | 128.. => text.extend(['\\', octal(byte >> 6), octal(byte >> 3), octal(byte)]),
                        _ => text.push(char::from(byte)),
                    }
                }
                text
            }
        }
    }

    fn decode(self, text: &str) -> Result<Vec<u8>> {
        let dense = || text.bytes().filter(|byte| !matches!(byte, b' ' | b'\t' | b'\n' | b'\r'));
        match self {
            Self::Base64 => {
                BASE64.decode(dense().collect::<Vec<u8>>()).or_else(|error| exec_err!("invalid base64: {error}"))
            }
            Self::Hex => {
                let digit = |byte: u8| {
                    let digit = char::from(byte).to_digit(16).map(|digit| digit as u8);
                    digit.map_or_else(|| exec_err!("invalid hexadecimal digit: {:?}", char::from(byte)), Ok)
                };
                let digits = dense().map(digit).collect::<Result<Vec<u8>>>()?;
                let (pairs, rest) = digits.as_chunks::<2>();
                if !rest.is_empty() {
                    return exec_err!("invalid hexadecimal data: odd number of digits");
                }
                Ok(pairs.iter().map(|[high, low]| high << 4 | low).collect())
            }
            Self::Escape => unescape(text.as_bytes()),
        }
    }
}

fn unescape(mut text: &[u8]) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    loop {
        text = match text {
            [] => return Ok(bytes),
            [b'\\', b'\\', rest @ ..] => {
                bytes.push(b'\\');
                rest
            }
            [b'\\', a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', rest @ ..] => {
                bytes.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                rest
            }
            [b'\\', ..] => {
                return exec_err!(
                    "invalid input syntax for type BYTEA: a backslash stands before \\ or three octal digits"
                );
            }
            [byte, rest @ ..] => {
                bytes.push(*byte);
                rest
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_from_each_format() {
        let all: Vec<u8> = (0..=255).chain([0; 3]).collect();
        for length in 0..all.len() {
            for format in [Format::Base64, Format::Hex, Format::Escape] {
                let text = format.encode(&all[..length]);
                assert_eq!(format.decode(&text).expect("its own text"), &all[..length], "{format:?}: {text}");
            }
        }
    }

    #[test]
    fn formats_are_those_of_postgresql() {
        assert_eq!(Format::Base64.encode(&[0]), "AA==");
        assert_eq!(Format::Base64.encode(&[b'a'; 58]).split('\n').map(str::len).collect::<Vec<_>>(), [76, 4]);
        assert_eq!(Format::Escape.encode(b"\x00\\A\xff\n"), "\\000\\\\A\\377\n");
        assert_eq!(Format::Base64.decode("Y Q=\n=").expect("spaces are none"), b"a");
        assert_eq!(Format::Hex.decode("0a F0").expect("spaces are none"), [0x0a, 0xf0]);
        for (format, text) in [
            (Format::Base64, "YQ"),
            (Format::Base64, "YQ==="),
            (Format::Base64, "Y!=="),
            (Format::Hex, "0"),
            (Format::Hex, "0g"),
            (Format::Escape, "\\400"),
            (Format::Escape, "a\\"),
        ] {
            assert!(format.decode(text).is_err(), "{text}");
        }
    }
}
