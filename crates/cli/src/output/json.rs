//! A result as JSON, one object a line. What is no number in JSON is a text: `"NaN"`, `"Infinity"`, `"-Infinity"`.

use std::io::Write;
use std::sync::{Arc, LazyLock};

use ishigaki_sql::arrow::array::{Array, AsArray, Float32Array, Float64Array};
use ishigaki_sql::arrow::datatypes::{DataType, FieldRef, Float32Type, Float64Type};
use ishigaki_sql::arrow::error::ArrowError;
use ishigaki_sql::arrow::json::writer::{LineDelimited, NullableEncoder, Writer as JsonWriter, make_encoder};
use ishigaki_sql::arrow::json::{Encoder, EncoderFactory, EncoderOptions, WriterBuilder};
use ishigaki_sql::arrow::record_batch::RecordBatch;
use ishigaki_sql::arrow::util::display::{ArrayFormatter, FormatOptions};

use super::Writer;
use crate::failure::Failure;

pub(super) struct Json<'o> {
    writer: JsonWriter<&'o mut dyn Write, LineDelimited>,
}

impl<'o> Json<'o> {
    pub(super) fn new(out: &'o mut dyn Write) -> Self {
        // Every object has every column.
        let builder = WriterBuilder::new().with_explicit_nulls(true).with_encoder_factory(Arc::new(Floats));
        Self { writer: builder.build(out) }
    }
}

/// Encodes floating-point numbers.
#[derive(Debug)]
struct Floats;

static PLAIN: LazyLock<EncoderOptions> = LazyLock::new(EncoderOptions::default);

impl EncoderFactory for Floats {
    fn make_default_encoder<'a>(
        &self,
        field: &'a FieldRef,
        array: &'a dyn Array,
        _: &'a EncoderOptions,
    ) -> Result<Option<NullableEncoder<'a>>, ArrowError> {
        let values = match array.data_type() {
            DataType::Float32 => Values::Real(array.as_primitive::<Float32Type>()),
            DataType::Float64 => Values::Double(array.as_primitive::<Float64Type>()),
            _ => return Ok(None),
        };
        let finite = make_encoder(field, array, &PLAIN)?;
        Ok(Some(NullableEncoder::new(Box::new(Numbers { values, finite }), array.nulls().cloned())))
    }
}

enum Values<'a> {
    Real(&'a Float32Array),
    Double(&'a Float64Array),
}

struct Numbers<'a> {
    values: Values<'a>,
    /// Writes those that are numbers in JSON.
    finite: NullableEncoder<'a>,
}

impl Encoder for Numbers<'_> {
    fn encode(&mut self, row: usize, out: &mut Vec<u8>) {
        let value = match self.values {
            Values::Real(values) => f64::from(values.value(row)),
            Values::Double(values) => values.value(row),
        };
        if value.is_nan() {
            out.extend_from_slice(br#""NaN""#);
        } else if value.is_infinite() {
            out.extend_from_slice(if value < 0.0 { br#""-Infinity""# } else { br#""Infinity""# });
        } else {
            self.finite.encode(row, out);
        }
    }
}

impl Writer for Json<'_> {
    fn batch(&mut self, batch: &RecordBatch) -> Result<(), Failure> {
        check_times(batch)?;
        Ok(self.writer.write(batch)?)
    }

    fn finish(&mut self) -> Result<(), Failure> {
        Ok(self.writer.finish()?)
    }
}

/// Fails at a time that has no date that can be written, beyond the year 262,142: Arrow's writer puts the text of an error
/// in its place.
fn check_times(batch: &RecordBatch) -> Result<(), Failure> {
    let strict = FormatOptions::new().with_display_error(false);
    for column in batch.columns().iter().filter(|column| matches!(column.data_type(), DataType::Timestamp(..))) {
        let formatter = ArrayFormatter::try_new(column, &strict)?;
        for row in 0..column.len() {
            formatter.value(row).try_to_string()?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ishigaki_sql::arrow::array::{ArrayRef, Float32Array, Float64Array, RecordBatch};

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
    fn what_is_no_number_in_json_is_a_text() {
        let numbers: ArrayRef = Arc::new(Float64Array::from(vec![
            Some(f64::NAN),
            Some(f64::INFINITY),
            Some(f64::NEG_INFINITY),
            None,
            Some(0.5),
        ]));
        let reals: ArrayRef = Arc::new(Float32Array::from(vec![1.5, f32::NAN, f32::INFINITY, 2.0, 3.0]));
        let batch = RecordBatch::try_from_iter([("d", numbers), ("r", reals)]).expect("a batch");
        let expected = concat!(
            r#"{"d":"NaN","r":1.5}"#,
            "\n",
            r#"{"d":"Infinity","r":"NaN"}"#,
            "\n",
            r#"{"d":"-Infinity","r":"Infinity"}"#,
            "\n",
            r#"{"d":null,"r":2.0}"#,
            "\n",
            r#"{"d":0.5,"r":3.0}"#,
            "\n"
        );
        assert_eq!(written(Format::Json, &[batch]), expected);
    }

    #[test]
    fn a_result_without_rows_is_empty() {
        assert_eq!(written(Format::Json, &[]), "");
    }
}
