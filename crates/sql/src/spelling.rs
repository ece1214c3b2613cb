//! Results as texts, where Arrow's own spelling is not that of `PostgreSQL`.

use std::sync::Arc;

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema};
use datafusion::arrow::record_batch::{RecordBatch, RecordBatchOptions};
use ishigaki_scan::exact;

use crate::Result;

/// Some rows, with intervals and days as texts: `1 year 2 mons 04:05:06`, `0044-03-15 BC`. Times in microseconds are left as they
/// are, or become texts as well: `2024-01-01 10:00:00.5`.
pub fn spelled(batch: &RecordBatch, times: bool) -> Result<RecordBatch> {
    let is_spelled = |of: &DataType| match of {
        DataType::Interval(_) | DataType::Duration(_) | DataType::Date32 => true,
        DataType::Timestamp(datafusion::arrow::datatypes::TimeUnit::Microsecond, None) => times,
        _ => false,
    };
    if !batch.schema_ref().fields().iter().any(|field| is_spelled(field.data_type())) {
        return Ok(batch.clone());
    }
    let mut fields: Vec<FieldRef> = Vec::with_capacity(batch.num_columns());
    let mut columns: Vec<ArrayRef> = Vec::with_capacity(batch.num_columns());
    for (field, column) in batch.schema_ref().fields().iter().zip(batch.columns()) {
        if is_spelled(field.data_type()) {
            fields.push(Arc::new(Field::new(field.name(), DataType::Utf8View, field.is_nullable())));
            columns.push(exact::moment_texts(column)?);
        } else {
            fields.push(Arc::clone(field));
            columns.push(Arc::clone(column));
        }
    }
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)?)
}
