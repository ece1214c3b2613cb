//! Results on stdout: a table for people, CSV or JSON lines for programs.
//!
//! Rows are written batch by batch as the query yields them, so a result may be larger than memory. In CSV and JSON
//! nothing but rows is written to stdout; how many there were and how long it took is for people.

mod csv;
mod json;
mod table;

use std::io::Write;

use clap::ValueEnum;
use ishigaki_sql::arrow::datatypes::SchemaRef;
use ishigaki_sql::arrow::error::ArrowError;
use ishigaki_sql::arrow::record_batch::RecordBatch;

use crate::failure::Failure;

/// How rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A table for people, NULL as `NULL`.
    Table,
    /// Comma-separated values under a line of names; NULL is an empty field, an empty text is `""`.
    Csv,
    /// One JSON object a line.
    Json,
}

/// Writes one result.
pub(crate) trait Writer {
    /// Takes the next rows.
    fn batch(&mut self, batch: &RecordBatch) -> Result<(), Failure>;

    /// Writes what is still held; called once, at the end.
    fn finish(&mut self) -> Result<(), Failure>;
}

/// The writer of a result with these columns.
pub(crate) fn writer<'o>(
    format: Format,
    schema: &SchemaRef,
    out: &'o mut dyn Write,
) -> Result<Box<dyn Writer + 'o>, Failure> {
    Ok(match format {
        Format::Table => Box::new(table::Table::new(schema, out)),
        Format::Csv => Box::new(csv::Csv::new(schema, out)?),
        Format::Json => Box::new(json::Json::new(out)),
    })
}

/// A value that can not be shown, or an output that can not be written.
impl From<ArrowError> for Failure {
    fn from(error: ArrowError) -> Self {
        match error {
            ArrowError::IoError(_, error) => error.into(),
            other => Self::invalid(format!("the result can not be shown: {other}")),
        }
    }
}

#[cfg(test)]
pub(crate) mod trial {
    //! A small result with everything that is hard to show.

    use std::sync::Arc;

    use ishigaki_sql::arrow::array::{Float64Array, Int64Array, StringArray};
    use ishigaki_sql::arrow::datatypes::{DataType, Field, Schema};

    use super::*;

    pub(crate) fn batch() -> RecordBatch {
        let fields = vec![
            Field::new("id", DataType::Int64, false),
            Field::new("name", DataType::Utf8, true),
            Field::new("weight", DataType::Float64, true),
        ];
        let columns: Vec<ishigaki_sql::arrow::array::ArrayRef> = vec![
            Arc::new(Int64Array::from(vec![1, 20, 300])),
            Arc::new(StringArray::from(vec![Some("a \"b\", c"), Some(""), None])),
            Arc::new(Float64Array::from(vec![Some(0.5), None, Some(12.25)])),
        ];
        RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
    }

    pub(crate) fn written(format: Format, batches: &[RecordBatch]) -> String {
        let mut out = Vec::new();
        let mut writer = writer(format, &batch().schema(), &mut out).unwrap();
        for batch in batches {
            writer.batch(batch).unwrap();
        }
        writer.finish().unwrap();
        drop(writer);
        String::from_utf8(out).unwrap()
    }
}
