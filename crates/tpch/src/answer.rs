//! What a query answers, in few numbers, so that answers of two databases can be compared.
//!
//! Databases differ in the order of equal rows, and in the types of what they compute: one gives an average as a decimal of
//! six digits, another as a floating-point number. So of an answer there are kept the number of rows; the sum of the
//! CRC-32Cs of the rows' texts and whole numbers (joined by `|`, dates as 1995-03-15), modulo 2^64; and for each column with a
//! fraction the sum of its values, each times a weight from 1 to 2 that its row's CRC-32C gives, which ties it to its row.
//! Numbers with fractions are equal if they differ by a ten-millionth, or by no more than rounding to six digits allows.
//! Decimals without digits behind the point, such as the year of a date, are whole numbers.

mod expected;

use ishigaki_base::crc32c;
use ishigaki_sql::arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use ishigaki_sql::arrow::compute::cast;
use ishigaki_sql::arrow::datatypes::{DataType, Float64Type};
use ishigaki_sql::arrow::error::ArrowError;

pub use expected::expected;

/// An answer, summed up.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// How many rows.
    pub rows: u64,
    /// Of their texts and whole numbers.
    pub words: u64,
    /// Of each column of numbers with fractions, in the order of the columns.
    pub sums: Vec<f64>,
}

/// A column as it is summed up.
enum Column {
    Words(Vec<String>),
    Numbers(Vec<f64>),
}

impl Answer {
    /// Of the rows of a query.
    pub fn of(batches: &[RecordBatch]) -> Result<Self, ArrowError> {
        let mut answer = Self { rows: 0, words: 0, sums: Vec::new() };
        for batch in batches {
            let columns = batch.columns().iter().map(column).collect::<Result<Vec<_>, _>>()?;
            for row in 0..batch.num_rows() {
                answer.add(&columns, row);
            }
        }
        Ok(answer)
    }

    fn add(&mut self, columns: &[Column], row: usize) {
        let words = columns.iter().filter_map(|column| match column {
            Column::Words(words) => Some(words[row].as_str()),
            Column::Numbers(_) => None,
        });
        let crc = crc32c(words.collect::<Vec<_>>().join("|").as_bytes());
        let weight = 1.0 + f64::from(crc % 1000) / 1000.0;
        let numbers = columns.iter().filter_map(|column| match column {
            Column::Words(_) => None,
            Column::Numbers(numbers) => Some(numbers[row]),
        });
        self.rows += 1;
        self.words = self.words.wrapping_add(u64::from(crc));
        for (at, number) in numbers.enumerate() {
            if at == self.sums.len() {
                self.sums.push(0.0);
            }
            self.sums[at] += number * weight;
        }
    }

    /// What tells it from another one; nothing if they are the same.
    pub fn difference(&self, expected: &Self) -> Option<String> {
        if self.rows != expected.rows {
            return Some(format!("{} rows instead of {}", self.rows, expected.rows));
        }
        if self.words != expected.words {
            return Some("its texts or whole numbers are other ones".to_owned());
        }
        // Two digits' rounding at the sixth, weighed up to twice, in each row.
        let rounding = 2e-6 * self.rows as f64;
        let fits = |(own, other): (&f64, &f64)| (own - other).abs() <= other.abs() * 1e-7 + rounding;
        let fit = self.sums.len() == expected.sums.len() && self.sums.iter().zip(&expected.sums).all(fits);
        (!fit).then(|| format!("the sums of its numbers are {:?} instead of {:?}", self.sums, expected.sums))
    }
}

fn column(array: &ArrayRef) -> Result<Column, ArrowError> {
    Ok(match array.data_type() {
        DataType::Decimal128(_, 1..) | DataType::Decimal256(_, 1..) | DataType::Float32 | DataType::Float64 => {
            let numbers = cast(array, &DataType::Float64)?;
            Column::Numbers(numbers.as_primitive::<Float64Type>().iter().map(|number| number.unwrap_or(-1.0)).collect())
        }
        _ => {
            let words = cast(array, &DataType::Utf8)?;
            Column::Words(words.as_string::<i32>().iter().map(|word| word.unwrap_or("NULL").to_owned()).collect())
        }
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ishigaki_sql::arrow::array::{Decimal128Array, Float64Array, Int64Array, StringArray};

    use super::*;

    fn answer(names: [&str; 2], counts: [i64; 2], numbers: [f64; 2]) -> Answer {
        let columns: [ArrayRef; 3] = [
            Arc::new(StringArray::from(names.to_vec())),
            Arc::new(Int64Array::from(counts.to_vec())),
            Arc::new(Float64Array::from(numbers.to_vec())),
        ];
        let columns = ["name", "count", "number"].into_iter().zip(columns);
        Answer::of(&[RecordBatch::try_from_iter(columns).expect("a batch")]).expect("summed up")
    }

    #[test]
    fn the_order_of_rows_does_not_matter_and_anything_else_does() {
        let expected = answer(["a", "b"], [1, 2], [0.5, 0.25]);
        assert_eq!(answer(["b", "a"], [2, 1], [0.25, 0.5]).difference(&expected), None);
        assert_eq!(answer(["a", "b"], [1, 2], [0.500_000_4, 0.25]).difference(&expected), None);
        for other in [
            answer(["a", "c"], [1, 2], [0.5, 0.25]),
            answer(["a", "b"], [2, 1], [0.5, 0.25]),
            answer(["a", "b"], [1, 2], [0.25, 0.5]),
            answer(["a", "b"], [1, 2], [0.5001, 0.25]),
        ] {
            assert!(other.difference(&expected).is_some(), "{other:?}");
        }
    }

    #[test]
    fn a_decimal_without_a_fraction_is_a_whole_number() {
        let whole: ArrayRef = Arc::new(Int64Array::from(vec![1995, 1996]));
        let decimals = Decimal128Array::from(vec![1995, 1996]).with_precision_and_scale(10, 0).expect("ten digits");
        let summed_up = |years: ArrayRef| {
            Answer::of(&[RecordBatch::try_from_iter([("year", years)]).expect("a batch")]).expect("summed up")
        };
        assert_eq!(summed_up(Arc::new(decimals)), summed_up(whole));
    }
}
