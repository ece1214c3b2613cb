//! What a COPY says about its file.

use std::path::Path;

use datafusion::sql::sqlparser::ast::{CopyLegacyCsvOption, CopyLegacyOption, CopyOption};

use crate::statement::Copy;
use crate::{Error, Result};

/// The format of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Csv(CsvOptions),
    Parquet,
}

/// How CSV is written. NULL and an empty text differ as in `PostgreSQL`: what is quoted is never NULL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CsvOptions {
    /// Whether the first line names the columns. Unsaid, a file that is written gets one, and a line that is read is one
    /// when all of its fields are names of the table's columns, unless it could be a row as well: then COPY is refused.
    pub(super) header: Option<bool>,
    pub(super) delimiter: u8,
    pub(super) quote: u8,
    pub(super) null: String,
}

/// What COPY was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Options {
    pub(super) format: Format,
}

/// Options as they come in, each at most once.
#[derive(Default)]
struct Given {
    format: Option<String>,
    header: Option<bool>,
    delimiter: Option<char>,
    quote: Option<char>,
    escape: Option<char>,
    null: Option<String>,
}

impl Options {
    /// Reads the options; the format is taken from the file's extension where it is not said.
    pub(super) fn new(path: &Path, copy: &Copy<'_>) -> Result<Self> {
        let mut given = Given::default();
        for option in copy.options {
            given.take(option)?;
        }
        for option in copy.legacy_options {
            given.take_legacy(option)?;
        }
        let extension = path.extension().map(|extension| extension.to_string_lossy().to_lowercase());
        let name = given.format.clone().or_else(|| extension.clone());
        let format = match name.as_deref() {
            Some("csv") => Format::Csv(given.csv(',')?),
            Some("tsv") => Format::Csv(given.csv('\t')?),
            Some("parquet") if given.is_plain() => Format::Parquet,
            Some("parquet") => {
                return Err(Error::unsupported("an option for CSV with a Parquet file", "leave the options out"));
            }
            Some(other) if given.format.is_some() => {
                return Err(Error::unsupported(
                    format!("COPY with FORMAT {other}"),
                    "FORMAT csv and FORMAT parquet are",
                ));
            }
            _ => {
                return Err(Error::File {
                    path: path.to_owned(),
                    reason: "its name does not tell its format; add WITH (FORMAT csv) or WITH (FORMAT parquet)"
                        .to_owned(),
                    source: None,
                });
            }
        };
        Ok(Self { format })
    }
}

impl Given {
    fn take(&mut self, option: &CopyOption) -> Result<()> {
        match option {
            CopyOption::Format(name) => set(&mut self.format, name.value.to_lowercase(), "FORMAT"),
            CopyOption::Header(header) => set(&mut self.header, *header, "HEADER"),
            CopyOption::Delimiter(delimiter) => set(&mut self.delimiter, *delimiter, "DELIMITER"),
            CopyOption::Null(null) => set(&mut self.null, null.clone(), "NULL"),
            CopyOption::Quote(quote) => set(&mut self.quote, *quote, "QUOTE"),
            CopyOption::Escape(escape) => set(&mut self.escape, *escape, "ESCAPE"),
            CopyOption::Encoding(name) if matches!(name.to_lowercase().as_str(), "utf8" | "utf-8") => Ok(()),
            other => Err(unsupported(&other.to_string())),
        }
    }

    fn take_legacy(&mut self, option: &CopyLegacyOption) -> Result<()> {
        match option {
            CopyLegacyOption::Csv(options) => {
                set(&mut self.format, "csv".to_owned(), "CSV")?;
                options.iter().try_for_each(|option| match option {
                    CopyLegacyCsvOption::Header => set(&mut self.header, true, "HEADER"),
                    CopyLegacyCsvOption::Quote(quote) => set(&mut self.quote, *quote, "QUOTE"),
                    CopyLegacyCsvOption::Escape(escape) => set(&mut self.escape, *escape, "ESCAPE"),
                    other => Err(unsupported(&other.to_string())),
                })
            }
            CopyLegacyOption::Parquet => set(&mut self.format, "parquet".to_owned(), "PARQUET"),
            CopyLegacyOption::Header => set(&mut self.header, true, "HEADER"),
            CopyLegacyOption::Delimiter(delimiter) => set(&mut self.delimiter, *delimiter, "DELIMITER"),
            CopyLegacyOption::Null(null) => set(&mut self.null, null.clone(), "NULL"),
            other => Err(unsupported(&other.to_string())),
        }
    }

    /// True when nothing was said that only CSV has.
    fn is_plain(&self) -> bool {
        self.header.is_none()
            && self.delimiter.is_none()
            && self.quote.is_none()
            && self.null.is_none()
            && self.escape.is_none()
    }

    fn csv(&self, delimiter: char) -> Result<CsvOptions> {
        let delimiter = byte(self.delimiter.unwrap_or(delimiter), "DELIMITER")?;
        let quote = byte(self.quote.unwrap_or('"'), "QUOTE")?;
        let null = self.null.clone().unwrap_or_default();
        if self.escape.is_some_and(|escape| escape != char::from(quote)) {
            return Err(Error::unsupported("an ESCAPE other than the QUOTE", "write a quote within quotes twice"));
        }
        if delimiter == quote
            || null.bytes().any(|byte| byte == delimiter || byte == quote || byte == b'\n' || byte == b'\r')
        {
            return Err(Error::unsupported(
                "a DELIMITER, QUOTE or NULL that holds another of them",
                "choose different characters",
            ));
        }
        Ok(CsvOptions { header: self.header, delimiter, quote, null })
    }
}

fn set<T>(place: &mut Option<T>, value: T, name: &str) -> Result<()> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(Error::unsupported(format!("{name} twice in one COPY"), "say it once")),
    }
}

fn byte(character: char, name: &str) -> Result<u8> {
    match u8::try_from(character) {
        Ok(byte) if byte.is_ascii() && byte != b'\n' && byte != b'\r' && byte != b'\0' => Ok(byte),
        _ => {
            Err(Error::unsupported(format!("{name} {character:?}"), "use one ASCII character that does not end a line"))
        }
    }
}

fn unsupported(option: &str) -> Error {
    Error::unsupported(
        format!("COPY with {option}"),
        "FORMAT, HEADER, DELIMITER, QUOTE and NULL are; the encoding is UTF-8",
    )
}
