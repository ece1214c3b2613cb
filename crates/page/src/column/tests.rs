//! Chunks that no writer makes, and what of a chunk can not be seen from outside.

use arrow_array::{Array, ArrayRef, BooleanArray, Int64Array, StringArray};
use arrow_schema::DataType;
use std::sync::Arc;

use super::{Chunk, Rows, decode_whole, encode_whole, sink_of};
use crate::bound::Bound;
use crate::error::Refusal;

/// Five rows of two different texts, as a dictionary.
fn dictionary() -> (Vec<u8>, usize) {
    let texts = StringArray::from(vec![
        "the first text",
        "the other text",
        "the first text",
        "the first text",
        "the other text",
    ]);
    let (chunk, _) = encode_whole(&texts);
    assert_eq!((chunk[0], chunk[1], chunk[4]), (2, 1, 2), "a dictionary of two, in one bit");
    (chunk, texts.len())
}

/// Why a chunk is refused after `change`.
fn refusal(change: impl FnOnce(&mut Vec<u8>)) -> Refusal {
    let (mut chunk, rows) = dictionary();
    change(&mut chunk);
    decode_whole(&DataType::Utf8, &chunk, rows).expect_err("it must be refused")
}

#[test]
fn a_dictionary_that_contradicts_itself_is_refused() {
    decode_whole(&DataType::Utf8, &dictionary().0, 5).expect("sound");
    // Two bits instead of one: the run is one word in both.
    assert!(refusal(|chunk| chunk[1] = 2).contains("the number of an entry that is not there"));
    assert!(refusal(|chunk| chunk[4] = 6).contains("more entries than rows"));
    assert!(refusal(|chunk| chunk[1] = 33).contains("too wide"));
    assert!(refusal(|chunk| chunk[3] = 33).contains("too wide"));
    // The lengths of all strings, and of the shortest.
    assert!(refusal(|chunk| chunk[8] -= 1).contains("not as long as their lengths say"));
    assert!(refusal(|chunk| chunk[12] -= 1).contains("not as long as their lengths say"));
    assert!(refusal(|chunk| chunk[16] = 0xff).contains("not UTF-8"));
    assert!(refusal(|chunk| chunk.truncate(chunk.len() - 8)).contains("ends in its entries' numbers"));
    assert!(refusal(|chunk| chunk[0] = 7).contains("unknown encoding"));
    assert!(refusal(|chunk| chunk[2] = 3).contains("nulls of an unknown kind"));
    assert!(refusal(|chunk| chunk[0] = 0).contains("more or fewer strings than rows"));
    assert!(refusal(|chunk| chunk[0] = 1).contains("not theirs"));
}

#[test]
fn characters_are_not_cut_in_two() {
    let (mut chunk, _) = encode_whole(&StringArray::from(vec!["aß", "bc"]));
    assert_eq!((chunk[0], chunk[3]), (0, 1), "plain, lengths in one bit");
    // Lengths 2 and 3 instead of 3 and 2.
    chunk[16] = 0b10;
    let error = decode_whole(&DataType::Utf8, &chunk, 2).expect_err("it must be refused");
    assert!(error.contains("not UTF-8"), "{error}");
    decode_whole(&DataType::Binary, &chunk, 2).expect("bytes may be cut anywhere");
}

#[test]
fn strings_that_spread_out_too_far_are_refused() {
    let (chunk, rows) = dictionary();
    let push = |rows, spread| {
        let mut sink = sink_of(&DataType::Utf8).expect("text is held");
        sink.push(Chunk::parse(&chunk, 5).expect("sound"), rows, spread)
    };
    push(Rows::All(rows), 70).expect("five times fourteen");
    push(Rows::All(rows), 69).expect_err("one byte too many");
    push(Rows::These(rows, &[1, 2]), 28).expect("only what is wanted counts");
}

#[test]
fn numbers_that_contradict_their_type_are_refused() {
    let (chunk, _) = encode_whole(&Int64Array::from_iter_values(0..100));
    assert_eq!((chunk[0], chunk[1]), (1, 7), "packed in seven bits");
    let refused = |change: &dyn Fn(&mut Vec<u8>), data_type: &DataType| {
        let mut chunk = chunk.clone();
        change(&mut chunk);
        decode_whole(data_type, &chunk, 100).expect_err("it must be refused")
    };
    assert!(refused(&|chunk| chunk[1] = 9, &DataType::UInt8).contains("wider than its type"));
    assert!(refused(&|chunk| chunk[1] = 8, &DataType::Int64).contains("ends in its differences"));
    assert!(refused(&|chunk| chunk[0] = 0, &DataType::Int64).contains("ends in its values"));
    assert!(refused(&|chunk| chunk[0] = 2, &DataType::Int64).contains("not theirs"));
    assert!(refused(&|chunk| chunk.truncate(7), &DataType::Int64).contains("no header"));
    // Sums that overflow wrap around; they are some number.
    let mut largest = chunk.clone();
    largest[8..16].copy_from_slice(&i64::MAX.to_le_bytes());
    decode_whole(&DataType::Int64, &largest, 100).expect("a number is a number");
}

#[test]
fn booleans_know_whether_all_of_them_are_alike() {
    let bounds = |values: Vec<Option<bool>>| encode_whole(&BooleanArray::from(values)).1.bounds;
    let number = |number| Bound::Number(number);
    assert_eq!(bounds(vec![Some(true), None, Some(true)]), Some((number(1), number(1))));
    assert_eq!(bounds(vec![Some(false), Some(false)]), Some((number(0), number(0))));
    assert_eq!(bounds(vec![Some(true), Some(false)]), Some((number(0), number(1))));
    assert_eq!(bounds(vec![None, None]), None);
}

#[test]
fn nothing_of_what_arrow_keeps_beside_the_rows_gets_into_a_chunk() {
    let (values, valid): (Vec<i64>, Vec<bool>) = (0..80).map(|row| (row, row % 3 != 0)).unzip();
    let array = |hidden: i64, beyond: bool| -> ArrayRef {
        let values: Vec<i64> =
            values.iter().zip(&valid).map(|(&value, &valid)| if valid { value } else { hidden }).collect();
        let valid: Vec<bool> =
            valid.iter().enumerate().map(|(row, &valid)| if row < 68 { valid } else { beyond }).collect();
        Arc::new(Int64Array::new(values.into(), Some(valid.into())).slice(8, 60))
    };
    assert_eq!(encode_whole(&array(0, false)).0, encode_whole(&array(i64::MIN, true)).0);
    let rows = values.iter().zip(&valid).skip(8).take(60);
    let whole: Int64Array = rows.map(|(&value, &valid)| valid.then_some(value)).collect();
    assert_eq!(encode_whole(&whole).0, encode_whole(&array(7, true)).0);
    assert_eq!(
        &decode_whole(&DataType::Int64, &encode_whole(&whole).0, 60).expect("sound"),
        &(Arc::new(whole) as ArrayRef)
    );
}
