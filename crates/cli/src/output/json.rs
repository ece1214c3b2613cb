//! A result as JSON, one object a line.

use std::io::Write;

use ishigaki_sql::arrow::json::WriterBuilder;
use ishigaki_sql::arrow::json::writer::{LineDelimited, Writer as JsonWriter};
use ishigaki_sql::arrow::record_batch::RecordBatch;

use super::Writer;
use crate::failure::Failure;

pub(super) struct Json<'o> {
    writer: JsonWriter<&'o mut dyn Write, LineDelimited>,
}

impl<'o> Json<'o> {
    pub(super) fn new(out: &'o mut dyn Write) -> Self {
        // Every object has every column.
        Self { writer: WriterBuilder::new().with_explicit_nulls(true).build(out) }
    }
}

impl Writer for Json<'_> {
    fn batch(&mut self, batch: &RecordBatch) -> Result<(), Failure> {
        Ok(self.writer.write(batch)?)
    }

    fn finish(&mut self) -> Result<(), Failure> {
        Ok(self.writer.finish()?)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Format;
    use super::super::trial::{batch, written};

    #[test]
    fn every_row_is_an_object_with_every_column() {
        let expected = concat!(
            r#"{"id":1,"name":"a \"b\", c","weight":0.5}"#,
            "\n",
            r#"{"id":20,"name":"","weight":null}"#,
            "\n",
            r#"{"id":300,"name":null,"weight":12.25}"#,
            "\n"
        );
        assert_eq!(written(Format::Json, &[batch()]), expected);
    }

    #[test]
    fn a_result_without_rows_is_empty() {
        assert_eq!(written(Format::Json, &[]), "");
    }
}
