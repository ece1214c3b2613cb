//! Types of columns, and the families in which their values mix.

use std::fmt;

use fastrand::Rng;

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    SmallInt,
    Integer,
    BigInt,
    Real,
    Double,
    Decimal(u8, u8),
    Text,
    Varchar(u8),
    Boolean,
    Date,
    Timestamp,
    Bytea,
}

/// Types whose values one expression may mix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    Integer,
    Decimal,
    Float,
    Text,
    Boolean,
    Date,
    Timestamp,
    Bytes,
}

impl Family {
    pub(crate) const ALL: [Self; 8] = [
        Self::Integer,
        Self::Decimal,
        Self::Float,
        Self::Text,
        Self::Boolean,
        Self::Date,
        Self::Timestamp,
        Self::Bytes,
    ];

    /// One of them, integers and texts more often.
    pub(crate) fn any(random: &mut Rng) -> Self {
        if random.u8(..4) == 0 { Self::Integer } else { Self::ALL[random.usize(..Self::ALL.len())] }
    }

    /// What an expression of the family may be replaced with, simplest first.
    pub(crate) fn simplest(self) -> impl Iterator<Item = &'static str> {
        match self {
            Self::Integer => ["NULL::INTEGER", "0", "1"],
            Self::Decimal => ["NULL::DECIMAL(5,2)", "0.5", "1.0"],
            Self::Float => ["NULL::DOUBLE PRECISION", "0::DOUBLE PRECISION", "1::DOUBLE PRECISION"],
            Self::Text => ["NULL::TEXT", "''", "'a'"],
            Self::Boolean => ["NULL::BOOLEAN", "true", "false"],
            Self::Date => ["NULL::DATE", "DATE '2000-01-01'", "DATE '2024-02-29'"],
            Self::Timestamp => {
                ["NULL::TIMESTAMP", "TIMESTAMP '2000-01-01 00:00:00'", "TIMESTAMP '2024-02-29 12:00:00'"]
            }
            Self::Bytes => ["NULL::BYTEA", "'\\x00'::BYTEA", "'\\x'::BYTEA"],
        }
        .into_iter()
    }

    /// The type that NULL is cast to.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Integer => "INTEGER",
            Self::Decimal => "DECIMAL(12,3)",
            Self::Float => "DOUBLE PRECISION",
            Self::Text => "TEXT",
            Self::Boolean => "BOOLEAN",
            Self::Date => "DATE",
            Self::Timestamp => "TIMESTAMP",
            Self::Bytes => "BYTEA",
        }
    }
}

impl Type {
    pub(crate) fn any(random: &mut Rng) -> Self {
        match random.u8(..16) {
            0 => Self::SmallInt,
            1..=3 => Self::Integer,
            4 | 5 => Self::BigInt,
            6 => Self::Real,
            7 => Self::Double,
            8 => {
                let precision = random.u8(1..=38);
                Self::Decimal(precision, random.u8(0..=precision))
            }
            9 => [Self::Decimal(8, 2), Self::Decimal(38, 0), Self::Decimal(38, 10)][random.usize(..3)],
            10 | 11 => Self::Text,
            12 => Self::Varchar(random.u8(1..8)),
            13 => Self::Boolean,
            14 => Self::Date,
            _ => [Self::Timestamp, Self::Bytea][random.usize(..2)],
        }
    }

    pub(crate) fn family(self) -> Family {
        match self {
            Self::SmallInt | Self::Integer | Self::BigInt => Family::Integer,
            Self::Real | Self::Double => Family::Float,
            Self::Decimal(..) => Family::Decimal,
            Self::Text | Self::Varchar(_) => Family::Text,
            Self::Boolean => Family::Boolean,
            Self::Date => Family::Date,
            Self::Timestamp => Family::Timestamp,
            Self::Bytea => Family::Bytes,
        }
    }

    /// A literal of the type; not tame, one from the edges of the type.
    pub(crate) fn literal(self, tame: bool, random: &mut Rng) -> String {
        let mut one_of = |from: &[&str]| from[random.usize(..from.len())].to_owned();
        if !tame {
            match self {
                Self::SmallInt => return one_of(&["-32768", "32767", "0", "-1", "1", "32766"]),
                Self::Integer => return one_of(&["-2147483648", "2147483647", "0", "-1", "1", "2147483646"]),
                Self::BigInt => {
                    return one_of(&[
                        "-9223372036854775808",
                        "9223372036854775807",
                        "0",
                        "-1",
                        "1",
                        "9007199254740993",
                        "4611686018427387904",
                    ]);
                }
                Self::Real | Self::Double => {
                    let of = if self == Self::Real { "REAL" } else { "DOUBLE PRECISION" };
                    let large = if self == Self::Real { "3.4e38" } else { "1.7e308" };
                    let value = one_of(&["NaN", "Infinity", "-Infinity", "0", "-0", "0.1", "1e-30", "large", "-1"]);
                    return format!("'{}'::{of}", if value == "large" { large } else { &value });
                }
                Self::Decimal(precision, scale) => {
                    let digits = "9".repeat(usize::from(precision));
                    let (whole, part) = digits.split_at(usize::from(precision - scale));
                    let whole = if whole.is_empty() { "0" } else { whole };
                    let largest = if part.is_empty() { whole.to_owned() } else { format!("{whole}.{part}") };
                    let smallest = "0.".to_owned() + &"0".repeat(usize::from(scale).saturating_sub(1)) + "1";
                    let smallest = if scale == 0 { "1".to_owned() } else { smallest };
                    return match random.u8(..5) {
                        0 => largest,
                        1 => "-".to_owned() + &largest,
                        2 => smallest,
                        3 => "0".to_owned(),
                        _ => "-".to_owned() + &smallest,
                    };
                }
                Self::Date => {
                    return one_of(&[
                        "DATE '0001-01-01'",
                        "DATE '9999-12-31'",
                        "DATE '1969-12-31'",
                        "DATE '2024-02-29'",
                        "DATE '1582-10-10'",
                        "DATE '2262-04-12'",
                    ]);
                }
                Self::Timestamp => {
                    return one_of(&[
                        "TIMESTAMP '0001-01-01 00:00:00'",
                        "TIMESTAMP '9999-12-31 23:59:59.999999'",
                        "TIMESTAMP '1969-12-31 23:59:59.999999'",
                        "TIMESTAMP '2262-04-12 00:00:00'",
                        "TIMESTAMP '1677-09-20 00:00:00'",
                        "TIMESTAMP '2024-02-29 23:59:59.5'",
                    ]);
                }
                _ => {}
            }
        }
        match self {
            Self::SmallInt | Self::Integer | Self::BigInt => random.i32(-9..13).to_string(),
            Self::Real | Self::Double if random.u8(..6) == 0 => {
                let of = if self == Self::Real { "REAL" } else { "DOUBLE PRECISION" };
                format!("'{}'::{of}", ["0", "-0"][random.usize(..2)])
            }
            Self::Real => format!("'{}'::REAL", f64::from(random.i32(-40..40)) / 4.0),
            Self::Double => format!("'{}'::DOUBLE PRECISION", f64::from(random.i32(-80..80)) / 8.0),
            Self::Decimal(precision, scale) => decimal(precision, scale, random),
            Self::Text => text(12, random),
            Self::Varchar(length) => text(usize::from(length), random),
            Self::Boolean => ["true", "false"][random.usize(..2)].to_owned(),
            Self::Date => format!("DATE '2024-{:02}-{:02}'", random.u8(1..=3), random.u8(1..=28)),
            Self::Timestamp => {
                let (day, hour, second) = (random.u8(1..=4), random.u8(..24), random.u8(..60));
                format!("TIMESTAMP '2024-02-{day:02} {hour:02}:00:{second:02}'")
            }
            Self::Bytea => {
                let bytes: String = (0..random.usize(..3)).map(|_| ["00", "ff", "61"][random.usize(..3)]).collect();
                format!("'\\x{bytes}'::BYTEA")
            }
        }
    }
}

fn decimal(precision: u8, scale: u8, random: &mut Rng) -> String {
    let whole = 10_i64.pow(u32::from(precision - scale).min(2)) - 1;
    let part = 10_i64.pow(u32::from(scale).min(2)) - 1;
    let sign = if random.u8(..3) == 0 { "-" } else { "" };
    let whole = random.i64(0..=whole);
    if scale == 0 {
        format!("{sign}{whole}")
    } else {
        format!("{sign}{whole}.{:0width$}", random.i64(0..=part), width = usize::from(scale).min(2))
    }
}

fn text(longest: usize, random: &mut Rng) -> String {
    const WORDS: [&str; 14] = ["", "a", "A", "b", "ab", "abc", "a%", "a_b", " a", "a ", "Zß", "é", "it''s", "10"];
    let fitting: Vec<&str> =
        WORDS.into_iter().filter(|word| word.replace("''", "'").chars().count() <= longest).collect();
    format!("'{}'", fitting[random.usize(..fitting.len())])
}

/// As both sides read it.
impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SmallInt => "SMALLINT",
            Self::Integer => "INTEGER",
            Self::BigInt => "BIGINT",
            Self::Real => "REAL",
            Self::Double => "DOUBLE PRECISION",
            Self::Decimal(precision, scale) => return write!(f, "DECIMAL({precision},{scale})"),
            Self::Text => "TEXT",
            Self::Varchar(length) => return write!(f, "VARCHAR({length})"),
            Self::Boolean => "BOOLEAN",
            Self::Date => "DATE",
            Self::Timestamp => "TIMESTAMP",
            Self::Bytea => "BYTEA",
        })
    }
}
