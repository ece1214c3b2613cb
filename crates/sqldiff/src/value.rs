//! Values and answers as both sides' are compared: of numbers what they are, not how many digits were printed.

use std::fmt;

/// One value of a result.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Null,
    Boolean(bool),
    /// An integer, in digits. It is not the decimal of the same digits: what is computed of it is cut.
    Whole(String),
    /// A decimal, in digits, with no zeros behind its last digit after the point.
    Exact(String),
    /// A floating-point number, and whether it had 32 bits.
    Float(f64, bool),
    Text(String),
    Bytes(String),
    /// A date, timestamp or time, as `PostgreSQL` writes it.
    Moment(String),
}

impl Value {
    /// A decimal from its digits.
    pub(crate) fn exact(digits: &str) -> Self {
        let digits = digits.strip_prefix('+').unwrap_or(digits);
        let plain = if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits };
        Self::Exact(if matches!(plain, "-0" | "" | "-") { "0".to_owned() } else { plain.to_owned() })
    }

    /// Its place among others, so that two multisets can be laid side by side.
    pub(crate) fn rank(&self) -> (u8, f64, &str) {
        match self {
            Self::Null => (0, 0.0, ""),
            Self::Boolean(value) => (1, f64::from(u8::from(*value)), ""),
            Self::Whole(digits) | Self::Exact(digits) => (2, digits.parse().unwrap_or(f64::NAN), digits),
            Self::Float(value, _) => (3, if *value == 0.0 { 0.0 } else { *value }, ""),
            Self::Text(text) => (4, 0.0, text),
            Self::Bytes(text) => (5, 0.0, text),
            Self::Moment(text) => (6, 0.0, text),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("NULL"),
            Self::Boolean(value) => write!(f, "{value}"),
            Self::Whole(text) | Self::Moment(text) => f.write_str(text),
            // So that it is told from an integer.
            Self::Exact(text) => {
                f.write_str(text).and_then(|()| f.write_str(if text.contains('.') { "" } else { ".0" }))
            }
            Self::Float(value, _) => write!(f, "{value:?}"),
            Self::Text(text) => write!(f, "'{}'", text.escape_debug()),
            Self::Bytes(text) => write!(f, "x'{text}'"),
        }
    }
}

/// A row of a result.
pub(crate) type Row = Vec<Value>;

/// Why a statement failed, as far as the two sides can agree on that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Class {
    /// A number, date or time beyond its type.
    Overflow,
    DivisionByZero,
    /// A text that is no value of the type.
    Conversion,
    /// A text too long for its column.
    TooLong,
    DuplicateKey,
    NotNull,
    /// A scalar subquery of several rows.
    Cardinality,
    /// Another error of evaluation.
    Evaluation,
    /// Syntax, names, types.
    Statement,
    /// It took too long.
    Time,
    /// The two have no word in common for it.
    Other,
}

impl Class {
    /// It depends on which rows an expression was evaluated for.
    pub(crate) fn is_of_evaluation(self) -> bool {
        !matches!(self, Self::Statement | Self::Other | Self::Time)
    }
}

/// What one side says to a statement.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    Rows(Vec<Row>),
    /// How many rows were changed, where that is told.
    Changed(Option<u64>),
    Failed(Class, String),
    /// Ours alone: there is no such thing here, and the message says so.
    Refused(String),
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rows(rows) => {
                write!(f, "{} rows", rows.len())?;
                for row in rows.iter().take(12) {
                    let values: Vec<String> = row.iter().map(ToString::to_string).collect();
                    write!(f, "\n    {}", values.join(" | "))?;
                }
                if rows.len() > 12 { f.write_str("\n    …") } else { Ok(()) }
            }
            Self::Changed(Some(rows)) => write!(f, "{rows} rows changed"),
            Self::Changed(None) => f.write_str("done"),
            Self::Failed(class, message) => write!(f, "error ({class:?}): {message}"),
            Self::Refused(message) => write!(f, "refused: {message}"),
        }
    }
}
