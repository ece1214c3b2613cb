//! A result as comma-separated values (RFC 4180), the way that `PostgreSQL`'s COPY writes them: NULL is an empty field, an
//! empty text is `""`.
//!
//! Arrow's own CSV writer writes both the same way, and a reader could not tell them apart.

use std::fmt::Write as _;
use std::io::Write;

use ishigaki_sql::arrow::array::Array;
use ishigaki_sql::arrow::datatypes::{DataType, SchemaRef};
use ishigaki_sql::arrow::record_batch::RecordBatch;
use ishigaki_sql::arrow::util::display::{ArrayFormatter, FormatOptions};

use super::Writer;
use crate::failure::Failure;

const OPTIONS: FormatOptions<'static> = FormatOptions::new().with_display_error(false);

pub(super) struct Csv<'o> {
    out: &'o mut dyn Write,
}

impl<'o> Csv<'o> {
    /// Writes the line of names.
    pub(super) fn new(schema: &SchemaRef, out: &'o mut dyn Write) -> Result<Self, Failure> {
        let names: Vec<String> = schema.fields().iter().map(|field| quoted(field.name())).collect();
        writeln!(out, "{}", names.join(","))?;
        Ok(Self { out })
    }
}

impl Writer for Csv<'_> {
    fn batch(&mut self, batch: &RecordBatch) -> Result<(), Failure> {
        let columns = batch.columns();
        let formatters =
            columns.iter().map(|column| ArrayFormatter::try_new(column, &OPTIONS)).collect::<Result<Vec<_>, _>>()?;
        let mut value = String::new();
        for row in 0..batch.num_rows() {
            for (index, (column, formatter)) in columns.iter().zip(&formatters).enumerate() {
                if index > 0 {
                    self.out.write_all(b",")?;
                }
                // The type of a bare NULL has no bits for nulls.
                if column.is_valid(row) && !column.data_type().is_null() {
                    value.clear();
                    // As COPY writes and reads it.
                    if matches!(column.data_type(), DataType::Binary | DataType::BinaryView) {
                        value.push_str("\\x");
                    }
                    // Writing to a string does not fail, but a value may be one that can not be written.
                    if write!(value, "{}", formatter.value(row)).is_err() {
                        value = formatter.value(row).try_to_string()?;
                    }
                    self.out.write_all(quoted(&value).as_bytes())?;
                }
            }
            self.out.write_all(b"\n")?;
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Failure> {
        Ok(())
    }
}

/// In quotes if it must be.
fn quoted(value: &str) -> String {
    if value.is_empty() || value.contains([',', '"', '\n', '\r']) || value != value.trim() {
        format!("\"{}\"", value.replace('"', "\"\""))
    } else {
        value.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Format;
    use super::super::trial::{batch, written};

    #[test]
    fn null_is_empty_and_an_empty_text_is_quoted() {
        let expected = "id,name,weight\n1,\"a \"\"b\"\", c\",0.5\n20,\"\",\n300,,12.25\n";
        assert_eq!(written(Format::Csv, &[batch()]), expected);
    }

    #[test]
    fn a_result_without_rows_is_its_names() {
        assert_eq!(written(Format::Csv, &[]), "id,name,weight\n");
    }
}
