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
use ishigaki_sql::spelled;

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
    // Programs read times with a T.
    let times = format == Format::Table;
    let schema = spelled(&RecordBatch::new_empty(SchemaRef::clone(schema)), times)?.schema();
    let inner: Box<dyn Writer + 'o> = match format {
        Format::Table => Box::new(table::Table::new(&schema, out)),
        Format::Csv => Box::new(csv::Csv::new(&schema, out)?),
        Format::Json => Box::new(json::Json::new(out)),
    };
    Ok(Box::new(Spelled { inner, times }))
}

/// Writes intervals and days as `PostgreSQL` does.
struct Spelled<'o> {
    inner: Box<dyn Writer + 'o>,
    times: bool,
}

impl Writer for Spelled<'_> {
    fn batch(&mut self, batch: &RecordBatch) -> Result<(), Failure> {
        self.inner.batch(&spelled(batch, self.times)?)
    }

    fn finish(&mut self) -> Result<(), Failure> {
        self.inner.finish()
    }
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

    #[test]
    fn intervals_and_days_are_written_as_postgresql_writes_them() {
        use ishigaki_sql::arrow::array::{Date32Array, IntervalMonthDayNanoArray, TimestampMicrosecondArray};
        use ishigaki_sql::arrow::datatypes::{IntervalMonthDayNano, IntervalUnit, TimeUnit};
        let fields = vec![
            Field::new("i", DataType::Interval(IntervalUnit::MonthDayNano), true),
            Field::new("d", DataType::Date32, true),
            Field::new("t", DataType::Timestamp(TimeUnit::Microsecond, None), true),
        ];
        let columns: Vec<ishigaki_sql::arrow::array::ArrayRef> = vec![
            Arc::new(IntervalMonthDayNanoArray::from(vec![
                Some(IntervalMonthDayNano::new(14, 0, 1_500_000_000)),
                None,
            ])),
            Arc::new(Date32Array::from(vec![Some(-719_163), Some(19_782)])),
            Arc::new(TimestampMicrosecondArray::from(vec![Some(500_000), None])),
        ];
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap();
        for (format, expected) in [
            (Format::Csv, "i,d,t\n1 year 2 mons 00:00:01.5,0001-12-31 BC,1970-01-01T00:00:00.500\n,2024-02-29,\n"),
            (Format::Table, "| 1 year 2 mons 00:00:01.5 | 0001-12-31 BC | 1970-01-01 00:00:00.5 |"),
            (Format::Json, "{\"i\":\"1 year 2 mons 00:00:01.5\",\"d\":\"0001-12-31 BC\","),
        ] {
            let mut out = Vec::new();
            let mut writer = writer(format, &batch.schema(), &mut out).unwrap();
            writer.batch(&batch).unwrap();
            writer.finish().unwrap();
            drop(writer);
            let text = String::from_utf8(out).unwrap();
            assert!(text.contains(expected), "{text}");
        }
    }

    #[test]
    fn a_time_that_can_not_be_written_is_an_error_and_no_value() {
        use ishigaki_sql::arrow::array::{ArrayRef, TimestampMicrosecondArray};
        let times: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![i64::MAX]));
        let batch = RecordBatch::try_from_iter([("t", times)]).unwrap();
        for format in [Format::Csv, Format::Json] {
            let mut out = Vec::new();
            let mut writer = writer(format, &batch.schema(), &mut out).unwrap();
            assert!(writer.batch(&batch).is_err(), "{format:?}");
        }
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
