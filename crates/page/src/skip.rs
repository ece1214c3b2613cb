//! Which pages can be skipped: zone maps against a predicate.
//!
//! Pure: arrays in, bits out. A page is kept unless its zone map proves that no row of it can make the predicate true.
//! Values are compared as Arrow compares them, except that the two zeros of floating-point numbers are one.

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, BooleanArray, Float32Array, Float64Array, Scalar};
use arrow_buffer::BooleanBuffer;
use arrow_ord::cmp;
use arrow_schema::{ArrowError, DataType};
use std::sync::Arc;

use crate::zones::Zones;

/// How a column is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `=`
    Equal,
    /// `<>`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

impl Comparison {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Equal, Self::NotEqual, Self::Less, Self::LessOrEqual, Self::Greater, Self::GreaterOrEqual];
}

/// What is asked of a column.
#[derive(Clone, Debug)]
pub enum Test {
    /// How it compares to a value: an array of one row and of the column's type.
    Compare(Comparison, ArrayRef),
    /// `IS NULL`
    IsNull,
    /// `IS NOT NULL`
    IsNotNull,
}

/// Something simple that is asked of one column.
#[derive(Clone, Debug)]
pub struct Predicate {
    /// The column's index in the schema of the file.
    pub column: usize,
    /// What is asked of it.
    pub test: Test,
}

impl Predicate {
    /// A comparison to `literal`, an array of one row and of the column's type. One to null is never true.
    pub fn compare(column: usize, comparison: Comparison, literal: ArrayRef) -> Self {
        Self { column, test: Test::Compare(comparison, literal) }
    }
}

/// For each page whether one of its rows may pass the test. An error says what about the literal is wrong.
pub fn may_match(zones: &Zones, test: &Test) -> Result<BooleanBuffer, String> {
    let (nulls, rows) = (zones.nulls.values(), zones.rows.values());
    let each = |keep: &dyn Fn(usize) -> bool| BooleanBuffer::collect_bool(rows.len(), keep);
    let has_values = each(&|page| nulls[page] < rows[page]);
    match test {
        Test::IsNull => Ok(each(&|page| nulls[page] > 0)),
        Test::IsNotNull => Ok(has_values),
        Test::Compare(comparison, literal) => {
            check(zones.min.data_type(), literal)?;
            if literal.is_null(0) {
                return Ok(BooleanBuffer::new_unset(rows.len()));
            }
            let may = compare(zones, *comparison, literal).map_err(|error| error.to_string())?;
            Ok(&has_values & &may)
        }
    }
}

fn check(data_type: &DataType, literal: &ArrayRef) -> Result<(), String> {
    if literal.len() != 1 {
        return Err(format!("a literal is an array of one row, not of {}", literal.len()));
    }
    if literal.data_type() != data_type {
        return Err(format!(
            "a literal of {} can not be compared to a column of {data_type}; cast it",
            literal.data_type()
        ));
    }
    Ok(())
}

fn compare(zones: &Zones, comparison: Comparison, literal: &ArrayRef) -> Result<BooleanBuffer, ArrowError> {
    let (min, max) = (&zones.min, &zones.max);
    // Of the two zeros the one that keeps more.
    let (low, high) = (Scalar::new(zero_as(literal, -1.0)), Scalar::new(zero_as(literal, 1.0)));
    Ok(match comparison {
        Comparison::Less => unless_false(&cmp::lt(min, &high)?),
        Comparison::LessOrEqual => unless_false(&cmp::lt_eq(min, &high)?),
        Comparison::Greater => unless_false(&cmp::gt(max, &low)?),
        Comparison::GreaterOrEqual => unless_false(&cmp::gt_eq(max, &low)?),
        Comparison::Equal => &unless_false(&cmp::lt_eq(min, &high)?) & &unless_false(&cmp::gt_eq(max, &low)?),
        // All are equal to it only if both bounds are; those of long strings are cut, and then only one of them can be.
        Comparison::NotEqual => {
            let literal = Scalar::new(Arc::clone(literal));
            &unless_false(&cmp::neq(min, &literal)?) | &unless_false(&cmp::neq(max, &literal)?)
        }
    })
}

/// True also where nothing is known.
fn unless_false(answers: &BooleanArray) -> BooleanBuffer {
    match answers.nulls() {
        None => answers.values().clone(),
        Some(known) => answers.values() | &!known.inner(),
    }
}

/// A floating-point zero with the given sign; anything else as it is.
fn zero_as(literal: &ArrayRef, sign: f64) -> ArrayRef {
    match literal.data_type() {
        DataType::Float32 if literal.as_primitive::<Float32Type>().value(0) == 0.0 => {
            Arc::new(Float32Array::from(vec![0_f32.copysign(sign as f32)]))
        }
        DataType::Float64 if literal.as_primitive::<Float64Type>().value(0) == 0.0 => {
            Arc::new(Float64Array::from(vec![0_f64.copysign(sign)]))
        }
        _ => Arc::clone(literal),
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{Int32Array, UInt32Array};

    use super::*;

    /// One page of ten rows with these bounds.
    fn page(min: ArrayRef, max: ArrayRef, nulls: u32) -> Zones {
        Zones { min, max, nulls: UInt32Array::from(vec![nulls]), rows: UInt32Array::from(vec![10]) }
    }

    fn kept(zones: &Zones, literal: &ArrayRef) -> Vec<Comparison> {
        let keeps = |comparison: &Comparison| {
            let test = Test::Compare(*comparison, Arc::clone(literal));
            may_match(zones, &test).expect("one type").value(0)
        };
        Comparison::ALL.into_iter().filter(keeps).collect()
    }

    fn float(value: f64) -> ArrayRef {
        Arc::new(Float64Array::from(vec![value]))
    }

    fn integer(value: Option<i32>) -> ArrayRef {
        Arc::new(Int32Array::from(vec![value]))
    }

    #[test]
    fn a_page_is_kept_by_the_comparisons_that_its_bounds_allow() {
        use Comparison::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
        let between = page(integer(Some(3)), integer(Some(7)), 0);
        assert_eq!(kept(&between, &integer(Some(2))), [NotEqual, Greater, GreaterOrEqual]);
        assert_eq!(kept(&between, &integer(Some(3))), [Equal, NotEqual, LessOrEqual, Greater, GreaterOrEqual]);
        assert_eq!(kept(&between, &integer(Some(5))), Comparison::ALL);
        assert_eq!(kept(&between, &integer(Some(7))), [Equal, NotEqual, Less, LessOrEqual, GreaterOrEqual]);
        assert_eq!(kept(&between, &integer(Some(8))), [NotEqual, Less, LessOrEqual]);
        let one_value = page(integer(Some(3)), integer(Some(3)), 0);
        assert_eq!(kept(&one_value, &integer(Some(3))), [Equal, LessOrEqual, GreaterOrEqual]);
    }

    #[test]
    fn a_page_of_unknown_bounds_is_kept_and_one_of_nulls_is_not() {
        assert_eq!(kept(&page(integer(None), integer(None), 9), &integer(Some(3))), Comparison::ALL);
        assert_eq!(kept(&page(integer(None), integer(None), 10), &integer(Some(3))), []);
        assert_eq!(kept(&page(integer(Some(3)), integer(Some(7)), 0), &integer(None)), [], "nothing compares to null");
        let known_below = page(integer(Some(3)), integer(None), 0);
        assert!(!kept(&known_below, &integer(Some(2))).contains(&Comparison::Less));
        assert!(kept(&known_below, &integer(Some(2))).contains(&Comparison::Greater));
    }

    #[test]
    fn the_two_zeros_are_one() {
        use Comparison::{Equal, GreaterOrEqual, LessOrEqual};
        for stored in [0.0, -0.0] {
            for asked in [0.0, -0.0] {
                let kept = kept(&page(float(stored), float(stored), 0), &float(asked));
                let all_there = [Equal, LessOrEqual, GreaterOrEqual].iter().all(|comparison| kept.contains(comparison));
                assert!(all_there, "{stored} and {asked}: {kept:?}");
            }
        }
    }

    #[test]
    fn a_literal_of_another_type_is_refused() {
        let zones = page(integer(Some(3)), integer(Some(7)), 0);
        let refused = |literal| may_match(&zones, &Test::Compare(Comparison::Equal, literal)).expect_err("refused");
        assert!(refused(float(3.0)).contains("cast it"));
        assert!(refused(Arc::new(Int32Array::from(vec![1, 2]))).contains("one row"));
    }
}
