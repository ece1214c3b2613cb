//! Comparisons on packed values against those on decoded ones.
//!
//! An input names a column, two comparisons and what they compare to, and then has a page. What the page has is compared as
//! it stands there, whatever a broken writer may have packed; and once more after it was written again, which makes every
//! kind of chunk a sound one.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, BooleanArray, RecordBatch, Scalar};
use arrow_ord::cmp;
use arrow_schema::{DataType, Schema};

use super::{layout, page_of, page_with, written};
use crate::bound::{Bound, array_of};
use crate::column::{Chunk, Encoding, decode_whole, packed_of, with_fixed};
use crate::number::Number;
use crate::page::Page;
use crate::{Comparison, Interval};

/// What comes before the page: the column, and two comparisons, each with a row and what its literal is above that row's value.
pub const QUESTION: usize = 1 + 2 * PART;
const PART: usize = 1 + 1 + 16;

/// Asks which rows of a page are within an interval; says whether there is a page and a column that can be asked so.
///
/// # Panics
///
/// If they are not those of which the comparisons are true.
pub fn within(bytes: &[u8]) -> bool {
    let Some((question, bytes)) = bytes.split_first_chunk::<QUESTION>() else { return false };
    let layout = layout();
    let Some(page) = page_of(&layout, bytes) else { return false };
    let column = usize::from(question[0]) % layout.columns();
    let (first, second) = question[1..].split_at(PART);
    let ask = |part, values: &ArrayRef| Asked::of(part, values);
    let Some(values) = values_of(&page, column) else {
        // It is damaged, which must be found out here, too, or do no harm.
        let nothing = array_of(layout.schema.field(column).data_type(), &[]);
        let _ = ask(first, &nothing).map(|asked| page.within(column, &asked.interval));
        return false;
    };
    let (Some(first), Some(second)) = (ask(first, &values), ask(second, &values)) else { return false };
    compare(&page, column, &values, [&first, &second]);
    let field = layout.schema.field(column).clone();
    let batch = RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![values]).expect("as the schema says");
    let again = written(&batch);
    for page in 0..again.pages() {
        let page = again.page(page).expect("sound");
        compare(&page, 0, &values_of(&page, 0).expect("sound"), [&first, &second]);
    }
    true
}

/// What a column of a page holds, if that can be decoded.
fn values_of(page: &Page, column: usize) -> Option<ArrayRef> {
    let chunk = page.chunk(column).ok()?;
    decode_whole(page.data_type(column).ok()?, chunk, page.rows()).ok()
}

/// One comparison.
struct Asked {
    comparison: Comparison,
    literal: ArrayRef,
    interval: Interval,
}

impl Asked {
    /// Nothing if it is no interval, which is so of every `<>` and of what is not ordered as integers are.
    fn of(part: &[u8], values: &ArrayRef) -> Option<Self> {
        let comparison = Comparison::ALL[usize::from(part[0]) % Comparison::ALL.len()];
        let base = usize::from(part[1]) % (values.len() + 1);
        let base = (base < values.len() && values.is_valid(base)).then(|| values.slice(base, 1));
        let literal = literal(&part[2..], base.as_ref(), values.data_type());
        let interval = Interval::of(comparison, &literal)?;
        Some(Self { comparison, literal, interval })
    }
}

/// A number above that of the row `base`; null if its type has no such value.
fn literal(above: &[u8], base: Option<&ArrayRef>, data_type: &DataType) -> ArrayRef {
    let above = i128::from_le_bytes(above.try_into().expect("16 bytes"));
    let base = base.and_then(ordered).map_or(0, |numbers| numbers[0]);
    array_of(data_type, &[Some(Bound::Number(base.wrapping_add(above)))])
}

/// What orders the values of an array of numbers.
fn ordered(array: &ArrayRef) -> Option<Vec<i128>> {
    with_fixed!(array.data_type(), T => {
        let values = array.as_primitive::<T>().values();
        Some(values.iter().map(|value| <<T as ArrowPrimitiveType>::Native as Number>::widened(value.ordered())).collect())
    }, else None)
}

/// Looks at each row by itself.
fn compare(page: &Page, column: usize, values: &ArrayRef, asked: [&Asked; 2]) {
    let truths = asked.map(|asked| truth(values, asked.comparison, &asked.literal));
    let sound = sound(page, column, values);
    let is_true = |truth: &BooleanArray, row: usize| truth.is_valid(row) && truth.value(row);
    let both = asked[0].interval.clone().intersection(&asked[1].interval);
    let questions = [(&asked[0].interval, &truths[..1]), (&asked[1].interval, &truths[1..]), (&both, &truths[..])];
    for (interval, truths) in questions {
        let found = page.within(column, interval).expect("what decodes can be compared");
        assert_eq!(found.len(), values.len());
        for row in (0..values.len()).filter(|&row| sound[row]) {
            let expected = truths.iter().all(|truth| is_true(truth, row));
            assert_eq!(found.value(row), expected, "row {row}, {interval:?}: {values:?}");
        }
    }
}

/// What Arrow says of each value.
fn truth(values: &ArrayRef, comparison: Comparison, literal: &ArrayRef) -> BooleanArray {
    let literal = Scalar::new(ArrayRef::clone(literal));
    let compared = match comparison {
        Comparison::Equal => cmp::eq(values, &literal),
        Comparison::NotEqual => cmp::neq(values, &literal),
        Comparison::Less => cmp::lt(values, &literal),
        Comparison::LessOrEqual => cmp::lt_eq(values, &literal),
        Comparison::Greater => cmp::gt(values, &literal),
        Comparison::GreaterOrEqual => cmp::gt_eq(values, &literal),
    };
    compared.expect("one type")
}

/// Which rows a writer can have written. A difference that leads beyond the type begins again at its other end; then a value
/// is below its reference, which is the smallest.
fn sound(page: &Page, column: usize, values: &ArrayRef) -> Vec<bool> {
    let numbers = ordered(values).expect("numbers");
    let chunk =
        page.chunk(column).and_then(|chunk| Chunk::parse(chunk, page.rows()).map_err(|reason| page.damaged(reason)));
    let chunk = chunk.expect("it was decoded");
    let reference = with_fixed!(values.data_type(), T => {
        let packed = chunk.head.encoding == Encoding::Packed && !chunk.all_null();
        packed.then(|| {
            let packed = packed_of::<<T as ArrowPrimitiveType>::Native>(&chunk, page.rows());
            <<T as ArrowPrimitiveType>::Native as Number>::widened(packed.expect("it was decoded").0)
        })
    }, else None);
    numbers.into_iter().map(|number| reference.is_none_or(|reference| number >= reference)).collect()
}

/// Questions about each column that can be asked, in pages whose values are near to each other and far apart.
pub fn questions() -> Vec<Vec<u8>> {
    let (layout, mut questions) = (layout(), Vec::new());
    for step in [0, 1, 9, 1 << 10, 1 << 22, 1 << 41, 1 << 57, 1 << 70] {
        let value = |row: i128| (row % 5 != 3).then_some(Bound::Number((row * 7 % 20 - 3) * step));
        let values: Vec<_> = (0..20).map(value).collect();
        let columns = layout.schema.fields().iter().map(|field| array_of(field.data_type(), &values)).collect();
        let page = page_with(&RecordBatch::try_new(layout.schema.clone(), columns).expect("as the schema says"));
        for column in 0..layout.columns() {
            let part = |comparison: u8, row: u8, above: i128| [&[comparison, row][..], &above.to_le_bytes()].concat();
            let range = [part(5, 7, 0), part(2, 5, step)].concat();
            let question = [&[column as u8][..], &range, &page].concat();
            // Text and floating-point numbers are no integers.
            questions.extend(within(&question).then_some(question));
        }
    }
    questions
}
