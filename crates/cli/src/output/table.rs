//! A result as a table for people.
//!
//! Column widths are known only when the rows are, so rows are held; a long result becomes several tables, each under its
//! own heading, rather than one that fills memory first.

use std::io::Write;
use std::sync::Arc;

use ishigaki_sql::arrow::array::{Array, ArrayRef, StringArray};
use ishigaki_sql::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use ishigaki_sql::arrow::record_batch::RecordBatch;
use ishigaki_sql::arrow::util::display::{ArrayFormatter, FormatOptions};
use ishigaki_sql::arrow::util::pretty::pretty_format_batches_with_options;

use super::Writer;
use crate::failure::Failure;

/// The most rows of one table.
const ROWS: usize = 10_000;

/// The most that a number is moved to the right, below a name that is longer: no line of a table is longer than 65,535.
const WIDEST: usize = 60_000;

const OPTIONS: FormatOptions<'static> =
    FormatOptions::new().with_null("NULL").with_display_error(true).with_timestamp_format(Some("%Y-%m-%d %H:%M:%S%.f"));

pub(super) struct Table<'o> {
    schema: SchemaRef,
    out: &'o mut dyn Write,
    held: Vec<RecordBatch>,
    rows: usize,
    is_first: bool,
}

impl<'o> Table<'o> {
    pub(super) fn new(schema: &SchemaRef, out: &'o mut dyn Write) -> Self {
        Self { schema: Arc::clone(schema), out, held: Vec::new(), rows: 0, is_first: true }
    }

    fn write(&mut self) -> Result<(), Failure> {
        if self.held.is_empty() {
            self.held.push(RecordBatch::new_empty(Arc::clone(&self.schema)));
        }
        let aligned = align(&self.schema, &self.held)?;
        writeln!(self.out, "{}", pretty_format_batches_with_options(&aligned, &OPTIONS)?)?;
        self.held.clear();
        self.rows = 0;
        self.is_first = false;
        Ok(())
    }
}

impl Writer for Table<'_> {
    fn batch(&mut self, batch: &RecordBatch) -> Result<(), Failure> {
        let mut from = 0;
        while from < batch.num_rows() {
            let rows = (batch.num_rows() - from).min(ROWS - self.rows);
            self.held.push(batch.slice(from, rows));
            self.rows += rows;
            from += rows;
            if self.rows == ROWS {
                self.write()?;
            }
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Failure> {
        if self.is_first || self.rows > 0 { self.write() } else { Ok(()) }
    }
}

/// Numbers stand on the right: columns of numbers become columns of text, filled up with spaces in front.
fn align(schema: &SchemaRef, batches: &[RecordBatch]) -> Result<Vec<RecordBatch>, Failure> {
    let fields: Vec<Field> = schema.fields().iter().map(|field| shown_as(field)).collect();
    let shown = Arc::new(Schema::new(fields));
    let mut columns: Vec<Vec<ArrayRef>> = vec![Vec::new(); batches.len()];
    for (index, field) in schema.fields().iter().enumerate() {
        let parts = batches.iter().map(|batch| batch.column(index));
        let parts = if is_number(field) { right(field, parts)? } else { parts.map(Arc::clone).collect() };
        columns.iter_mut().zip(parts).for_each(|(columns, part)| columns.push(part));
    }
    let batches = batches.iter().zip(columns).map(|(batch, columns)| {
        // A result may have rows and no columns.
        let options =
            ishigaki_sql::arrow::record_batch::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(Arc::clone(&shown), columns, &options)
    });
    Ok(batches.collect::<Result<_, _>>()?)
}

fn is_number(field: &Field) -> bool {
    field.data_type().is_numeric()
}

fn shown_as(field: &Field) -> Field {
    let data_type = if is_number(field) { DataType::Utf8 } else { field.data_type().clone() };
    Field::new(field.name(), data_type, true)
}

/// The parts of one column of numbers as text of one width.
fn right<'b>(field: &Field, parts: impl Iterator<Item = &'b ArrayRef>) -> Result<Vec<ArrayRef>, Failure> {
    let mut texts: Vec<Vec<String>> = Vec::new();
    let mut width = field.name().chars().count();
    for part in parts {
        let formatter = ArrayFormatter::try_new(part, &OPTIONS)?;
        let part: Vec<String> = (0..part.len()).map(|row| formatter.value(row).to_string()).collect();
        width = part.iter().map(String::len).fold(width, usize::max);
        texts.push(part);
    }
    let width = width.min(WIDEST);
    let pad = |text: String| format!("{text:>width$}");
    Ok(texts
        .into_iter()
        .map(|part| Arc::new(StringArray::from_iter_values(part.into_iter().map(pad))) as ArrayRef)
        .collect())
}

#[cfg(test)]
mod tests {
    use super::super::Format;
    use super::super::trial::{batch, written};
    use super::*;

    #[test]
    fn numbers_stand_on_the_right_and_null_is_seen() {
        let expected = "\
+-----+----------+--------+
| id  | name     | weight |
+-----+----------+--------+
|   1 | a \"b\", c |    0.5 |
|  20 |          |   NULL |
| 300 | NULL     |  12.25 |
+-----+----------+--------+
";
        assert_eq!(written(Format::Table, &[batch()]), expected);
    }

    #[test]
    fn a_result_without_rows_shows_its_columns() {
        assert_eq!(written(Format::Table, &[]).lines().nth(1), Some("| id | name | weight |"));
    }

    #[test]
    fn a_long_result_becomes_several_tables() {
        let batches = vec![batch(); ROWS / 3 + 1];
        let text = written(Format::Table, &batches);
        assert_eq!(text.lines().filter(|line| line.contains("weight")).count(), 2);
        assert_eq!(text.lines().filter(|line| line.starts_with("| 300 ")).count(), batches.len());
    }

    #[test]
    fn a_number_may_have_a_very_long_name() {
        let name = "n".repeat(70_000);
        let column: ArrayRef = Arc::new(ishigaki_sql::arrow::array::Int64Array::from(vec![7]));
        let batch = RecordBatch::try_from_iter([(name.as_str(), column)]).unwrap();
        let mut out = Vec::new();
        let mut table = Table::new(&batch.schema(), &mut out);
        table.batch(&batch).unwrap();
        table.finish().unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains(&format!("{}7", " ".repeat(WIDEST - 1))), "{}", text.len());
    }
}
