//! What the planner is told of a table: exact where the manifests are, and guesses called so.

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, ScalarValue, Statistics};
use datafusion::error::Result;

use super::PagedTable;

/// Of all rows and columns.
pub(super) fn of_table(table: &PagedTable) -> Result<Statistics> {
    let columns: Result<Vec<_>> = (0..table.schema.fields().len()).map(|column| of_column(table, column)).collect();
    Ok(Statistics {
        num_rows: Precision::Exact(table.rows() as usize),
        total_byte_size: Precision::Absent,
        column_statistics: columns?,
    })
}

fn of_column(table: &PagedTable, column: usize) -> Result<ColumnStatistics> {
    let (mut min, mut max, mut nulls) = (None, None, 0);
    for part in table.parts() {
        let known = part.reader.statistics(column);
        nulls += known.nulls as usize;
        widen(&mut min, &known.min, |new, old| new < old)?;
        widen(&mut max, &known.max, |new, old| new > old)?;
    }
    // A page file orders floating-point numbers totally, which says little of NaN and of the two zeros.
    let exact = !matches!(table.schema.field(column).data_type(), DataType::Float32 | DataType::Float64);
    let bound = |bound: Option<ScalarValue>| match bound {
        None => Precision::Absent,
        Some(value) if exact => Precision::Exact(value),
        Some(value) => Precision::Inexact(value),
    };
    let mut known = ColumnStatistics::new_unknown();
    known.null_count = Precision::Exact(nulls);
    known.min_value = bound(min);
    known.max_value = bound(max);
    Ok(known)
}

/// Takes a bound in where it is `better` than what was there.
fn widen(
    bound: &mut Option<ScalarValue>,
    new: &ArrayRef,
    better: impl Fn(&ScalarValue, &ScalarValue) -> bool,
) -> Result<()> {
    let new = ScalarValue::try_from_array(new, 0)?;
    if !new.is_null() && bound.as_ref().is_none_or(|old| better(&new, old)) {
        *bound = Some(new);
    }
    Ok(())
}

/// The same of what a scan gives: some columns, of `rows` rows as far as is known.
pub(super) fn of_scan(table: &PagedTable, projection: &[usize], rows: Precision<usize>) -> Result<Statistics> {
    let whole = of_table(table)?;
    let all_rows = matches!(rows, Precision::Exact(_));
    let columns = projection.iter().map(|&column| {
        let known = whole.column_statistics[column].clone();
        if all_rows { known } else { known.to_inexact() }
    });
    Ok(Statistics { num_rows: rows, total_byte_size: Precision::Absent, column_statistics: columns.collect() })
}
