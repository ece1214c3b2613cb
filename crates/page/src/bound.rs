//! The smallest and the largest value of a column, and how many are null.

use std::sync::Arc;

use arrow_array::builder::{BinaryBuilder, BinaryViewBuilder, BooleanBuilder, LargeBinaryBuilder, LargeStringBuilder};
use arrow_array::builder::{PrimitiveBuilder, StringBuilder, StringViewBuilder};
use arrow_array::{ArrayRef, ArrowPrimitiveType, new_null_array};
use arrow_schema::DataType;

use crate::column::with_fixed;
use crate::number::Number;

/// The longest string that a zone map keeps; of a longer one it keeps what is as near below or above as that allows.
const LONGEST: usize = 32;

/// A value, as far as its order goes. Only such of one column are compared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Bound {
    /// What orders a number, widened; false is 0 and true is 1.
    Number(i128),
    /// A string or bytes.
    Bytes(Vec<u8>),
}

/// What is known of a run of values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extent {
    /// The smallest and the largest value; none if all are null.
    pub(crate) bounds: Option<(Bound, Bound)>,
    /// How many are null.
    pub(crate) nulls: u64,
}

impl Extent {
    /// Takes another run in.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.nulls += other.nulls;
        let Some((low, high)) = &other.bounds else { return };
        match &mut self.bounds {
            None => self.bounds.clone_from(&other.bounds),
            Some((min, max)) => {
                if low < min {
                    min.clone_from(low);
                }
                if high > max {
                    max.clone_from(high);
                }
            }
        }
    }

    /// With long strings cut: the lower bound to one that is not above it, the upper one to one that is not below it,
    /// or none if there is no such.
    pub(crate) fn shortened(&self, data_type: &DataType) -> (Option<Bound>, Option<Bound>) {
        let text = matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
        match &self.bounds {
            None => (None, None),
            Some((low, high)) => (Some(low.cut_down(text)), high.cut_up(text)),
        }
    }
}

impl Bound {
    fn cut_down(&self, text: bool) -> Self {
        match self {
            Self::Bytes(bytes) if bytes.len() > LONGEST => Self::Bytes(prefix(bytes, text).to_vec()),
            whole => whole.clone(),
        }
    }

    fn cut_up(&self, text: bool) -> Option<Self> {
        match self {
            Self::Bytes(bytes) if bytes.len() > LONGEST => {
                let prefix = prefix(bytes, text);
                let raised = if text { raise_text(prefix) } else { raise_bytes(prefix) };
                raised.map(Self::Bytes)
            }
            whole => Some(whole.clone()),
        }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Number(_) => &[],
        }
    }

    fn text(&self) -> &str {
        std::str::from_utf8(self.bytes()).unwrap_or_default()
    }

    fn number(&self) -> i128 {
        match self {
            Self::Number(number) => *number,
            Self::Bytes(_) => 0,
        }
    }
}

/// The longest beginning that may be kept; of a text, whole characters.
fn prefix(bytes: &[u8], text: bool) -> &[u8] {
    let mut end = LONGEST.min(bytes.len());
    // A byte that continues a character begins with the bits 10.
    while text && end > 0 && bytes.get(end).is_some_and(|byte| byte & 0xc0 == 0x80) {
        end -= 1;
    }
    &bytes[..end]
}

/// The shortest bytes above all that begin with these.
fn raise_bytes(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte != u8::MAX)?;
    let mut raised = prefix[..=last].to_vec();
    raised[last] += 1;
    Some(raised)
}

/// The shortest text above all that begin with this one.
fn raise_text(prefix: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(prefix).ok()?;
    text.char_indices().rev().find_map(|(at, character)| {
        // Behind the last character before the surrogates come those behind them.
        let next = (character..=char::MAX).nth(1)?;
        Some([&prefix[..at], next.encode_utf8(&mut [0; 4]).as_bytes()].concat())
    })
}

/// What a column of an Arrow type is made of.
type Native<T> = <T as ArrowPrimitiveType>::Native;

/// Bounds as an array of a column's type, one a row; none is null.
pub(crate) fn array_of(data_type: &DataType, bounds: &[Option<Bound>]) -> ArrayRef {
    macro_rules! build {
        ($builder:expr, $value:expr) => {{
            let mut builder = $builder;
            for bound in bounds {
                builder.append_option(bound.as_ref().map($value));
            }
            Arc::new(builder.finish())
        }};
    }
    match data_type {
        DataType::Boolean => build!(BooleanBuilder::new(), |bound| bound.number() != 0),
        DataType::Utf8 => build!(StringBuilder::new(), Bound::text),
        DataType::LargeUtf8 => build!(LargeStringBuilder::new(), Bound::text),
        DataType::Utf8View => build!(StringViewBuilder::new(), Bound::text),
        DataType::Binary => build!(BinaryBuilder::new(), Bound::bytes),
        DataType::LargeBinary => build!(LargeBinaryBuilder::new(), Bound::bytes),
        DataType::BinaryView => build!(BinaryViewBuilder::new(), Bound::bytes),
        _ => with_fixed!(data_type, T => {
            let mut builder = PrimitiveBuilder::<T>::with_capacity(bounds.len()).with_data_type(data_type.clone());
            for bound in bounds {
                let ordered = bound.as_ref().and_then(|bound| <Native<T> as Number>::narrowed(bound.number()));
                builder.append_option(ordered.map(<Native<T> as Number>::from_ordered));
            }
            Arc::new(builder.finish())
        }, else new_null_array(data_type, bounds.len())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &str) -> (String, Option<String>) {
        let bound = Bound::Bytes(text.as_bytes().to_vec());
        let extent = Extent { bounds: Some((bound.clone(), bound)), nulls: 0 };
        let (low, high) = extent.shortened(&DataType::Utf8);
        (low.expect("there is always one below").text().to_owned(), high.map(|high| high.text().to_owned()))
    }

    #[test]
    fn long_texts_are_cut_to_texts_that_enclose_them() {
        assert_eq!(cut("short"), ("short".into(), Some("short".into())));
        let a = "a".repeat(40);
        assert_eq!(cut(&a), (a[..32].into(), Some(format!("{}b", &a[..31]))));
        // Three bytes a character: ten of them, and two bytes are left over.
        let stones = "石".repeat(20);
        assert_eq!(cut(&stones), ("石".repeat(10), Some("石".repeat(9) + "\u{77f4}")));
        let before_surrogates = "\u{d7ff}".repeat(11);
        assert_eq!(cut(&before_surrogates).1, Some("\u{d7ff}".repeat(9) + "\u{e000}"));
        let highest = char::MAX.to_string().repeat(9);
        assert_eq!(cut(&highest), (char::MAX.to_string().repeat(8), None));
        assert_eq!(cut(&format!("a{highest}")).1, Some("b".into()));
    }

    #[test]
    fn long_bytes_are_raised_at_the_last_byte_that_can_be() {
        assert_eq!(raise_bytes(&[1, 255, 255]), Some(vec![2]));
        assert_eq!(raise_bytes(&[255; 32]), None);
    }
}
