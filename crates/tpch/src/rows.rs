//! The rows of an answer, to be compared with those of the same program in another placement: equal to the last digit.
//!
//! Rows that a query does not order may come in any order, and so may those that are equal by what it orders by. What is
//! compared is so: the rows as a set that may have the same row more than once, and in their own order the columns that the
//! query orders by. Floating-point numbers, whose sums depend on the order of adding, may differ in the tenth digit; decimals
//! may not.

use std::cmp::Ordering;

use ishigaki_sql::arrow::array::{Array, AsArray, RecordBatch};
use ishigaki_sql::arrow::compute::cast;
use ishigaki_sql::arrow::datatypes::{DataType, Float64Type};
use ishigaki_sql::arrow::error::ArrowError;

/// All rows of an answer, in their order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    columns: Vec<String>,
    rows: Vec<Vec<Cell>>,
}

/// One value of a row.
#[derive(Clone, Debug, PartialEq)]
enum Cell {
    Null,
    /// Everything that has one exact text.
    Exact(String),
    Float(f64),
}

impl Cell {
    fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Float(own), Self::Float(other)) => (own - other).abs() <= other.abs() * 1e-10,
            _ => self == other,
        }
    }

    /// Floating-point numbers last, so that rows are told apart by what is exact.
    fn order(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Exact(own), Self::Exact(other)) => own.cmp(other),
            (Self::Float(own), Self::Float(other)) => own.total_cmp(other),
            _ => self.rank().cmp(&other.rank()),
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Null => 0,
            Self::Exact(_) => 1,
            Self::Float(_) => 2,
        }
    }
}

impl Rows {
    /// Of what a query gave.
    pub fn of(batches: &[RecordBatch]) -> Result<Self, ArrowError> {
        let mut all = Self::default();
        for batch in batches {
            all.columns = batch.schema().fields().iter().map(|field| field.name().clone()).collect();
            let columns = batch.columns().iter().map(|array| cells(array.as_ref())).collect::<Result<Vec<_>, _>>()?;
            let mut columns: Vec<_> = columns.into_iter().map(Vec::into_iter).collect();
            all.rows.extend((0..batch.num_rows()).map(|_| columns.iter_mut().filter_map(Iterator::next).collect()));
        }
        Ok(all)
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// What tells them from other ones, of which the columns of these names are ordered; nothing if they are the same.
    pub fn difference(&self, expected: &Self, ordered: &[&str]) -> Option<String> {
        if self.len() != expected.len() {
            return Some(format!("{} rows instead of {}", self.len(), expected.len()));
        }
        for name in ordered {
            let column = |rows: &Self| rows.columns.iter().position(|column| column == name);
            let (Some(at), Some(_)) = (column(self), column(expected)) else {
                if self.is_empty() {
                    continue;
                }
                return Some(format!("there is no column {name}, by which rows are ordered, to compare them by"));
            };
            let pairs = self.rows.iter().zip(&expected.rows).map(|(own, other)| (own.get(at), other.get(at)));
            if let Some(row) = pairs.into_iter().position(|(own, other)| !same(own, other)) {
                return Some(format!("row {} is another one by {name}, by which rows are ordered", row + 1));
            }
        }
        let (own, other) = (self.sorted(), expected.sorted());
        let differ = |(own, other): &(&&Vec<Cell>, &&Vec<Cell>)| {
            own.len() != other.len() || own.iter().zip(other.iter()).any(|(own, other)| !own.is(other))
        };
        let found = own.iter().zip(&other).find(differ);
        found.map(|(own, other)| format!("there is a row {own:?}, and {other:?} should be there"))
    }

    fn sorted(&self) -> Vec<&Vec<Cell>> {
        let mut rows: Vec<_> = self.rows.iter().collect();
        let exact = |row: &Vec<Cell>| row.iter().filter(|cell| cell.rank() < 2).cloned().collect::<Vec<_>>();
        let by_cells = |own: &[Cell], other: &[Cell]| {
            own.iter().zip(other).map(|(own, other)| own.order(other)).find(|order| order.is_ne())
        };
        rows.sort_by(|own, other| {
            let by_exact = by_cells(&exact(own), &exact(other));
            by_exact.or_else(|| by_cells(own, other)).unwrap_or(Ordering::Equal)
        });
        rows
    }
}

fn same(own: Option<&Cell>, other: Option<&Cell>) -> bool {
    match (own, other) {
        (Some(own), Some(other)) => own.is(other),
        _ => own.is_none() && other.is_none(),
    }
}

fn cells(array: &dyn Array) -> Result<Vec<Cell>, ArrowError> {
    Ok(match array.data_type() {
        DataType::Float32 | DataType::Float64 => {
            let numbers = cast(array, &DataType::Float64)?;
            numbers.as_primitive::<Float64Type>().iter().map(|cell| cell.map_or(Cell::Null, Cell::Float)).collect()
        }
        _ => {
            let texts = cast(array, &DataType::Utf8)?;
            let cell = |text: Option<&str>| text.map_or(Cell::Null, |text| Cell::Exact(text.to_owned()));
            texts.as_string::<i32>().iter().map(cell).collect()
        }
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ishigaki_sql::arrow::array::{ArrayRef, Float64Array, Int64Array, StringArray};

    use super::*;

    fn rows(names: &[&str], counts: &[i64], numbers: &[f64]) -> Rows {
        let columns: [(&str, ArrayRef); 3] = [
            ("name", Arc::new(StringArray::from(names.to_vec()))),
            ("count", Arc::new(Int64Array::from(counts.to_vec()))),
            ("number", Arc::new(Float64Array::from(numbers.to_vec()))),
        ];
        Rows::of(&[RecordBatch::try_from_iter(columns).expect("a batch")]).expect("rows")
    }

    #[test]
    fn rows_that_are_equal_by_the_order_may_change_places_and_no_others() {
        let expected = rows(&["a", "b", "c"], &[1, 1, 2], &[0.5, 0.25, 0.125]);
        let swapped = rows(&["b", "a", "c"], &[1, 1, 2], &[0.25, 0.5, 0.125]);
        assert_eq!(swapped.difference(&expected, &["count"]), None);
        assert_eq!(swapped.difference(&expected, &[]), None);
        let reason = swapped.difference(&expected, &["name"]).expect("ordered by name");
        assert!(reason.contains("row 1") && reason.contains("name"), "{reason}");
        let reason = swapped.difference(&expected, &["count", "date"]).expect("there is no such column");
        assert!(reason.contains("no column date"), "{reason}");
        assert_eq!(Rows::default().difference(&Rows::default(), &["date"]), None);
    }

    #[test]
    fn any_other_value_is_a_difference_but_for_the_last_digits_of_a_float() {
        let expected = rows(&["a", "b"], &[1, 2], &[0.5, 0.25]);
        assert_eq!(rows(&["a", "b"], &[1, 2], &[0.500_000_000_000_1, 0.25]).difference(&expected, &[]), None);
        for other in [
            rows(&["a"], &[1], &[0.5]),
            rows(&["a", "c"], &[1, 2], &[0.5, 0.25]),
            rows(&["a", "b"], &[1, 3], &[0.5, 0.25]),
            rows(&["a", "b"], &[1, 2], &[0.25, 0.5]),
            rows(&["a", "a"], &[1, 1], &[0.5, 0.5]),
            rows(&["a", "b"], &[1, 2], &[0.500_01, 0.25]),
        ] {
            assert!(other.difference(&expected, &[]).is_some(), "{other:?}");
        }
    }
}
