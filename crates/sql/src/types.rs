//! SQL types: what a column may hold, and what it is called in SQL, in Arrow and in the catalog.
//!
//! Strings and byte strings are Arrow *views* in memory: that is what DataFusion itself makes of SQL's `VARCHAR` and of
//! Parquet files, so scans meet no casts on their way through a plan.

use std::fmt;

use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::sql::sqlparser::ast::{
    CharLengthUnits, CharacterLength, DataType as Ast, ExactNumberInfo, TimezoneInfo,
};

use crate::{Error, Result};

/// The largest precision of a `DECIMAL`, in decimal digits.
pub const MAX_PRECISION: u8 = 38;

/// Decimals of up to this many digits are stored in eight bytes.
pub(crate) const MAX_SHORT_PRECISION: u8 = 18;

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SqlType {
    /// 16-bit integer.
    SmallInt,
    /// 32-bit integer.
    Integer,
    /// 64-bit integer.
    BigInt,
    /// 32-bit IEEE 754 number.
    Real,
    /// 64-bit IEEE 754 number.
    Double,
    /// Exact number of `precision` decimal digits, `scale` of them after the point.
    Decimal {
        /// All digits, 1 to [`MAX_PRECISION`].
        precision: u8,
        /// Digits after the point, at most `precision`.
        scale: u8,
    },
    /// True or false.
    Boolean,
    /// Unicode text.
    Text {
        /// How many characters (Unicode scalar values) a value may have; `None` is no limit.
        max_length: Option<u32>,
    },
    /// Bytes.
    Bytea,
    /// A day of the Gregorian calendar.
    Date,
    /// A day and a time of it in microseconds, in no time zone.
    Timestamp,
}

impl SqlType {
    /// The type that holds such values in memory.
    pub fn arrow(self) -> DataType {
        match self {
            Self::SmallInt => DataType::Int16,
            Self::Integer => DataType::Int32,
            Self::BigInt => DataType::Int64,
            Self::Real => DataType::Float32,
            Self::Double => DataType::Float64,
            Self::Decimal { precision, scale } => DataType::Decimal128(precision, scale as i8),
            Self::Boolean => DataType::Boolean,
            Self::Text { .. } => DataType::Utf8View,
            Self::Bytea => DataType::BinaryView,
            Self::Date => DataType::Date32,
            Self::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
        }
    }

    /// The smallest type that holds every value of an Arrow type, for tables made from a query or a file.
    pub fn from_arrow(arrow: &DataType) -> Result<Self> {
        Ok(match arrow {
            DataType::Int8 | DataType::UInt8 | DataType::Int16 => Self::SmallInt,
            DataType::UInt16 | DataType::Int32 => Self::Integer,
            DataType::UInt32 | DataType::Int64 => Self::BigInt,
            DataType::UInt64 => Self::Decimal { precision: 20, scale: 0 },
            DataType::Float16 | DataType::Float32 => Self::Real,
            DataType::Float64 => Self::Double,
            DataType::Decimal32(precision, scale)
            | DataType::Decimal64(precision, scale)
            | DataType::Decimal128(precision, scale) => match u8::try_from(*scale) {
                Ok(scale) if scale <= *precision => Self::Decimal { precision: *precision, scale },
                _ => {
                    return Err(unsupported(arrow, "CAST the column to a DECIMAL whose scale is within its precision"));
                }
            },
            DataType::Boolean => Self::Boolean,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Self::Text { max_length: None },
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
                Self::Bytea
            }
            DataType::Date32 => Self::Date,
            DataType::Date64 | DataType::Timestamp(_, None) => Self::Timestamp,
            DataType::Dictionary(_, values) => return Self::from_arrow(values),
            _ => return Err(unsupported(arrow, "CAST the column to a type that CREATE TABLE knows")),
        })
    }

    /// The type that a column definition names. `FLOAT` is `DOUBLE`, `DECIMAL` without digits is `DECIMAL(38, 10)`, and
    /// `CHAR(n)` is `VARCHAR(n)`: values are not padded.
    pub fn from_sql(ast: &Ast) -> Result<Self> {
        Ok(match ast {
            Ast::SmallInt(_) | Ast::Int2(_) | Ast::Int16 => Self::SmallInt,
            Ast::Int(_) | Ast::Integer(_) | Ast::Int4(_) | Ast::Int32 => Self::Integer,
            Ast::BigInt(_) | Ast::Int8(_) | Ast::Int64 => Self::BigInt,
            Ast::Real | Ast::Float4 | Ast::Float32 | Ast::Float(ExactNumberInfo::Precision(1..=24)) => Self::Real,
            Ast::Float(ExactNumberInfo::None | ExactNumberInfo::Precision(25..=53))
            | Ast::Double(ExactNumberInfo::None)
            | Ast::DoublePrecision
            | Ast::Float8
            | Ast::Float64 => Self::Double,
            Ast::Numeric(digits) | Ast::Decimal(digits) | Ast::Dec(digits) => decimal(ast, digits)?,
            Ast::Boolean | Ast::Bool => Self::Boolean,
            Ast::Character(None) | Ast::Char(None) => Self::Text { max_length: Some(1) },
            Ast::Character(length)
            | Ast::Char(length)
            | Ast::CharacterVarying(length)
            | Ast::CharVarying(length)
            | Ast::Varchar(length)
            | Ast::Nvarchar(length) => text(ast, length.as_ref())?,
            Ast::Text
            | Ast::String(None)
            | Ast::Clob(None)
            | Ast::CharacterLargeObject(None)
            | Ast::CharLargeObject(None) => Self::Text { max_length: None },
            Ast::Bytea | Ast::Blob(None) | Ast::Varbinary(None) | Ast::Bytes(None) => Self::Bytea,
            Ast::Date | Ast::Date32 => Self::Date,
            Ast::Timestamp(None | Some(6), TimezoneInfo::None | TimezoneInfo::WithoutTimeZone)
            | Ast::TimestampNtz(None | Some(6))
            | Ast::Datetime(None | Some(6)) => Self::Timestamp,
            _ => return Err(unsupported(ast, remedy(ast))),
        })
    }

    /// What the SQL standard and `PostgreSQL` call the type, without its parameters.
    pub fn standard_name(self) -> &'static str {
        match self {
            Self::SmallInt => "smallint",
            Self::Integer => "integer",
            Self::BigInt => "bigint",
            Self::Real => "real",
            Self::Double => "double precision",
            Self::Decimal { .. } => "numeric",
            Self::Boolean => "boolean",
            Self::Text { max_length: None } => "text",
            Self::Text { max_length: Some(_) } => "character varying",
            Self::Bytea => "bytea",
            Self::Date => "date",
            Self::Timestamp => "timestamp without time zone",
        }
    }

    /// The byte that stands for the type in the catalog, without its parameters. Never given to another type.
    pub(crate) fn tag(self) -> u8 {
        match self {
            Self::SmallInt => 1,
            Self::Integer => 2,
            Self::BigInt => 3,
            Self::Real => 4,
            Self::Double => 5,
            Self::Decimal { .. } => 6,
            Self::Boolean => 7,
            Self::Text { .. } => 8,
            Self::Bytea => 9,
            Self::Date => 10,
            Self::Timestamp => 11,
        }
    }

    /// How many bytes a value takes where all values take the same number, or `None`.
    pub(crate) fn width(self) -> Option<usize> {
        Some(match self {
            Self::Boolean => 1,
            Self::SmallInt => 2,
            Self::Integer | Self::Real | Self::Date => 4,
            Self::BigInt | Self::Double | Self::Timestamp => 8,
            Self::Decimal { precision, .. } if precision <= MAX_SHORT_PRECISION => 8,
            Self::Decimal { .. } => 16,
            Self::Text { .. } | Self::Bytea => return None,
        })
    }

    /// True when the parameters are within their limits.
    pub(crate) fn is_valid(self) -> bool {
        match self {
            Self::Decimal { precision, scale } => (1..=MAX_PRECISION).contains(&precision) && scale <= precision,
            Self::Text { max_length } => max_length != Some(0),
            _ => true,
        }
    }
}

impl fmt::Display for SqlType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SmallInt => "SMALLINT",
            Self::Integer => "INTEGER",
            Self::BigInt => "BIGINT",
            Self::Real => "REAL",
            Self::Double => "DOUBLE",
            Self::Decimal { precision, scale } => return write!(f, "DECIMAL({precision}, {scale})"),
            Self::Boolean => "BOOLEAN",
            Self::Text { max_length: None } => "TEXT",
            Self::Text { max_length: Some(length) } => return write!(f, "VARCHAR({length})"),
            Self::Bytea => "BYTEA",
            Self::Date => "DATE",
            Self::Timestamp => "TIMESTAMP",
        })
    }
}

fn decimal(ast: &Ast, digits: &ExactNumberInfo) -> Result<SqlType> {
    let (precision, scale) = match *digits {
        ExactNumberInfo::None => (38, 10),
        ExactNumberInfo::Precision(precision) => (precision, 0),
        ExactNumberInfo::PrecisionAndScale(precision, scale) => (precision, scale),
    };
    match (u8::try_from(precision), u8::try_from(scale)) {
        (Ok(precision), Ok(scale)) if SqlType::is_valid(SqlType::Decimal { precision, scale }) => {
            Ok(SqlType::Decimal { precision, scale })
        }
        _ => Err(unsupported(ast, "use a precision from 1 to 38 and a scale from 0 to the precision")),
    }
}

fn text(ast: &Ast, length: Option<&CharacterLength>) -> Result<SqlType> {
    match length {
        None | Some(CharacterLength::Max) => Ok(SqlType::Text { max_length: None }),
        Some(CharacterLength::IntegerLength { length, unit: None | Some(CharLengthUnits::Characters) }) => {
            match u32::try_from(*length) {
                Ok(length) if length > 0 => Ok(SqlType::Text { max_length: Some(length) }),
                _ => Err(unsupported(ast, format!("use a length from 1 to {}, or TEXT", u32::MAX))),
            }
        }
        Some(CharacterLength::IntegerLength { .. }) => Err(unsupported(ast, "give the length in characters")),
    }
}

/// What to write instead of a type that there is not.
fn remedy(ast: &Ast) -> &'static str {
    match ast {
        Ast::TinyInt(_) | Ast::UTinyInt | Ast::TinyIntUnsigned(_) | Ast::UInt8 => "use SMALLINT",
        Ast::MediumInt(_) | Ast::SmallIntUnsigned(_) | Ast::USmallInt | Ast::UInt16 => "use INTEGER",
        Ast::IntUnsigned(_) | Ast::IntegerUnsigned(_) | Ast::UInt32 => "use BIGINT",
        Ast::BigIntUnsigned(_) | Ast::UBigInt | Ast::UInt64 => "use DECIMAL(20, 0)",
        Ast::HugeInt | Ast::Int128 => "use DECIMAL(38, 0)",
        Ast::Timestamp(..) | Ast::Datetime(_) | Ast::TimestampNtz(_) => {
            "use TIMESTAMP, which counts microseconds in no time zone"
        }
        Ast::Uuid | Ast::JSON | Ast::JSONB | Ast::Enum(..) | Ast::Time(..) => "use TEXT",
        Ast::Binary(_) | Ast::Varbinary(_) | Ast::Blob(_) | Ast::Bytes(_) => "use BYTEA",
        _ => {
            "use one of SMALLINT, INTEGER, BIGINT, REAL, DOUBLE, DECIMAL(p, s), BOOLEAN, TEXT, VARCHAR(n), BYTEA, DATE, \
             TIMESTAMP"
        }
    }
}

fn unsupported(type_name: impl fmt::Display, remedy: impl Into<String>) -> Error {
    Error::unsupported(format!("type {type_name}"), remedy)
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    use super::*;

    fn parse(text: &str) -> Result<SqlType> {
        let ast = Parser::new(&PostgreSqlDialect {}).try_with_sql(text).and_then(|mut p| p.parse_data_type());
        SqlType::from_sql(&ast.expect("SQL names of types"))
    }

    #[test]
    fn names_and_aliases_name_their_type() {
        let text = |max_length| SqlType::Text { max_length };
        let decimal = |precision, scale| SqlType::Decimal { precision, scale };
        for (names, expected) in [
            ("SMALLINT,INT2", SqlType::SmallInt),
            ("INTEGER,INT,INT4", SqlType::Integer),
            ("BIGINT,INT8", SqlType::BigInt),
            ("REAL,FLOAT4,FLOAT(24)", SqlType::Real),
            ("DOUBLE,DOUBLE PRECISION,FLOAT,FLOAT8,FLOAT(25)", SqlType::Double),
            ("DECIMAL,NUMERIC,DEC", decimal(38, 10)),
            ("DECIMAL(5),NUMERIC(5)", decimal(5, 0)),
            ("BOOLEAN,BOOL", SqlType::Boolean),
            ("TEXT,VARCHAR,CHARACTER VARYING,STRING,CLOB", text(None)),
            ("VARCHAR(7),CHAR VARYING(7),CHAR(7),CHARACTER(7)", text(Some(7))),
            ("CHAR,CHARACTER", text(Some(1))),
            ("BYTEA,BLOB", SqlType::Bytea),
            ("DATE", SqlType::Date),
            ("TIMESTAMP,TIMESTAMP WITHOUT TIME ZONE,TIMESTAMP(6),DATETIME", SqlType::Timestamp),
        ] {
            for name in names.split(',') {
                assert_eq!(parse(name).expect(name), expected, "{name}");
            }
            assert_eq!(parse(&expected.to_string()).unwrap(), expected, "what is displayed reads back");
            assert_eq!(SqlType::from_arrow(&expected.arrow()).unwrap().arrow(), expected.arrow());
        }
        assert_eq!(parse("NUMERIC(5, 2)").unwrap(), decimal(5, 2));
    }

    #[test]
    fn other_types_are_refused_with_a_remedy() {
        for (name, remedy) in [
            ("TIMESTAMP WITH TIME ZONE", "use TIMESTAMP"),
            ("TIMESTAMP(3)", "use TIMESTAMP"),
            ("TINYINT", "use SMALLINT"),
            ("UUID", "use TEXT"),
            ("DECIMAL(39, 0)", "precision from 1 to 38"),
            ("DECIMAL(5, 6)", "scale from 0"),
            ("VARCHAR(0)", "a length from 1"),
            ("INTERVAL", "use one of"),
        ] {
            let error = parse(name).expect_err(name).to_string();
            assert!(error.contains(remedy), "{error}");
        }
    }
}
