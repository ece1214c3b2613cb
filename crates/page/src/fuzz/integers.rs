//! Integers and entries of a page against its decoded values.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, RecordBatch, UInt32Array};
use arrow_select::take::take;

use crate::column::with_fixed;
use crate::number::Number;
use crate::page::Page;

/// Asks for all columns of a page, of all rows and of these, which must answer or refuse.
///
/// # Panics
///
/// If an answer is not what was decoded, where all of the page could be.
pub(super) fn compare(page: &Page, some: &[u32], decoded: Option<&RecordBatch>) {
    let all: Vec<u32> = (0..page.rows() as u32).collect();
    let (mut integers, mut entries) = (Vec::new(), Vec::new());
    for column in 0..super::schema().fields().len() {
        for (rows, asked) in [(all.as_slice(), None), (some, Some(some))] {
            let expected = decoded.map(|batch| {
                take(batch.column(column), &UInt32Array::from(rows.to_vec()), None).expect("rows of the page")
            });
            if let Ok(Some(bounds)) = page.integers(column, asked, &mut integers) {
                assert!(integers.iter().all(|integer| bounds.contains(integer)), "column {column}: {bounds:?}");
                let Some(expected) = &expected else { continue };
                assert_eq!(expected.null_count(), 0, "column {column}");
                assert_eq!(widened(expected), integers.iter().map(|&integer| integer.into()).collect::<Vec<_>>());
            }
            if let Ok(Some(strings)) = page.entries(column, asked, &mut entries) {
                let picked: Vec<&[u8]> = entries.iter().map(|&entry| strings[entry as usize]).collect();
                let Some(expected) = &expected else { continue };
                assert_eq!(expected.null_count(), 0, "column {column}");
                let mut given = picked.into_iter();
                let equal = (0..expected.len()).all(|row| given.next() == Some(bytes_of(expected, row)));
                assert!(equal, "column {column}");
            }
        }
    }
}

/// What orders the values.
fn widened(values: &ArrayRef) -> Vec<i128> {
    with_fixed!(values.data_type(), T => {
        let values = values.as_primitive::<T>().values();
        values.iter().map(|value| <<T as ArrowPrimitiveType>::Native as Number>::widened(value.ordered())).collect()
    }, else panic!("{} is given as integers", values.data_type()))
}

fn bytes_of(strings: &ArrayRef, row: usize) -> &[u8] {
    use arrow_schema::DataType as D;
    match strings.data_type() {
        D::Utf8 => strings.as_string::<i32>().value(row).as_bytes(),
        D::LargeUtf8 => strings.as_string::<i64>().value(row).as_bytes(),
        D::Utf8View => strings.as_string_view().value(row).as_bytes(),
        D::Binary => strings.as_binary::<i32>().value(row),
        D::LargeBinary => strings.as_binary::<i64>().value(row),
        _ => strings.as_binary_view().value(row),
    }
}
