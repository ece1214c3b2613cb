//! Which group a row belongs to, by numbers alone.
//!
//! A key column has a digit for each of its values: a number how far it is above the column's smallest, a string the place
//! at which it was first met. The digits of all keys, as of a number whose places have different radices, are the number of the
//! group's slot. So the group of a row is found by a multiplication and an addition for each key, and no hash. Where there
//! would be too many slots, nothing is found.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BinaryViewArray, LargeBinaryArray, PrimitiveArray,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Int8Type, Int16Type, Int32Type, Int64Type,
};
use datafusion::error::Result;
use ishigaki_page::Page;

use crate::table::{PagedTable, through};

/// How many slots there are at most.
pub(super) const SLOTS: usize = 1 << 16;

/// How many different strings a key has room for at first.
const TEXTS: usize = 16;

/// A key column.
#[derive(Clone, Debug)]
struct Key {
    /// Its position in the page file.
    column: usize,
    data_type: DataType,
    digits: Digits,
    /// How many digits there are.
    radix: usize,
}

#[derive(Clone, Debug)]
enum Digits {
    /// How far above the smallest.
    Above(i64),
    Met(Met),
}

/// Strings, by when they were first met.
#[derive(Clone, Debug, Default)]
struct Met {
    texts: Vec<Box<[u8]>>,
    digits: HashMap<Box<[u8]>, u32>,
}

impl Met {
    fn digit(&mut self, text: &[u8]) -> u32 {
        if let Some(&digit) = self.digits.get(text) {
            return digit;
        }
        let digit = self.texts.len() as u32;
        self.texts.push(text.into());
        self.digits.insert(text.into(), digit);
        digit
    }
}

/// The keys of a grouping, in its order.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    each: Vec<Key>,
    /// Each key's digit of each row.
    found: Vec<Vec<u32>>,
    numbers: Vec<i64>,
}

impl Keys {
    /// The keys that these columns of the page files are, for groups of that many columns' types. Nothing if one is of another type,
    /// or if there would be too many slots.
    pub(super) fn new(columns: &[usize], table: &PagedTable) -> Option<Self> {
        let keys = columns.iter().map(|&column| Key::new(column, table)).collect::<Option<Vec<_>>>()?;
        let found = vec![Vec::new(); keys.len()];
        let keys = Self { each: keys, found, numbers: Vec::new() };
        (keys.slots()? <= SLOTS).then_some(keys)
    }

    /// How many slots there are. Nothing if that is not a number.
    pub(super) fn slots(&self) -> Option<usize> {
        self.each.iter().try_fold(1_usize, |slots, key| slots.checked_mul(key.radix))
    }

    /// How many digits each key has.
    pub(super) fn radices(&self) -> Vec<usize> {
        self.each.iter().map(|key| key.radix).collect()
    }

    /// Finds the slots of rows of a page. A slot may have another number afterwards than before, as the
    /// [radices](Self::radices) say. False, and nothing is changed, if these keys are not for slots.
    pub(super) fn find(&mut self, page: &Page, rows: Option<&[u32]>, slots: &mut Vec<u32>) -> Result<bool> {
        let before = self.radices();
        let found = self.find_digits(page, rows)? && self.slots().is_some_and(|slots| slots <= SLOTS);
        if !found {
            self.each.iter_mut().zip(before).for_each(|(key, before)| key.radix = before);
            return Ok(false);
        }
        slots.clear();
        slots.resize(rows.map_or(page.rows(), <[u32]>::len), 0);
        for (key, digits) in self.each.iter().zip(&self.found) {
            let radix = key.radix as u32;
            slots.iter_mut().zip(digits).for_each(|(slot, digit)| *slot = *slot * radix + digit);
        }
        Ok(true)
    }

    fn find_digits(&mut self, page: &Page, rows: Option<&[u32]>) -> Result<bool> {
        for (key, digits) in self.each.iter_mut().zip(&mut self.found) {
            if !key.find(page, rows, &mut self.numbers, digits)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The keys of groups, by their slots.
    pub(super) fn columns(&self, slots: &[usize]) -> Result<Vec<ArrayRef>> {
        let mut columns = Vec::with_capacity(self.each.len());
        let mut left = slots.to_vec();
        for key in self.each.iter().rev() {
            let digits: Vec<usize> = left.iter().map(|slot| slot % key.radix).collect();
            for slot in &mut left {
                *slot /= key.radix;
            }
            columns.push(key.values(&digits)?);
        }
        columns.reverse();
        Ok(columns)
    }
}

/// The number of a slot when each key has more digits than before.
pub(super) fn moved(mut slot: usize, before: &[usize], now: &[usize]) -> usize {
    let (mut number, mut place) = (0, 1);
    for (before, now) in before.iter().zip(now).rev() {
        number += slot % before * place;
        slot /= before;
        place *= now;
    }
    number
}

impl Key {
    fn new(column: usize, table: &PagedTable) -> Option<Self> {
        let data_type = table.columns().field(column).data_type().clone();
        let (digits, radix) = match &data_type {
            DataType::Utf8
            | DataType::LargeUtf8
            | DataType::Utf8View
            | DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView => (Digits::Met(Met::default()), TEXTS),
            _ => {
                let known = || table.parts().iter().map(|part| part.reader.statistics(column));
                let least = known().filter_map(|known| number(&known.min)).min()?;
                let most = known().filter_map(|known| number(&known.max)).max()?;
                let span = usize::try_from(most.checked_sub(least)?).ok()?;
                (Digits::Above(least), span.checked_add(1)?)
            }
        };
        Some(Self { column, data_type, digits, radix })
    }

    /// The digit of each row; false if one has none.
    fn find(
        &mut self,
        page: &Page,
        rows: Option<&[u32]>,
        numbers: &mut Vec<i64>,
        digits: &mut Vec<u32>,
    ) -> Result<bool> {
        match &mut self.digits {
            Digits::Above(least) => {
                if page.integers(self.column, rows, numbers).map_err(through)?.is_none() {
                    return Ok(false);
                }
                digits.clear();
                let mut largest = 0;
                digits.extend(numbers.iter().map(|number| {
                    let digit = number.wrapping_sub(*least) as u64;
                    largest = largest.max(digit);
                    digit as u32
                }));
                // Of a file whose statistics are wrong.
                Ok(largest < self.radix as u64)
            }
            Digits::Met(met) => {
                let Some(texts) = page.entries(self.column, rows, digits).map_err(through)? else { return Ok(false) };
                if texts.len() > SLOTS || met.texts.len() > SLOTS {
                    return Ok(false);
                }
                let of_entry: Vec<u32> = texts.iter().map(|text| met.digit(text)).collect();
                for digit in digits {
                    *digit = of_entry.get(*digit as usize).copied().unwrap_or_default();
                }
                while self.radix < met.texts.len() {
                    self.radix *= 2;
                }
                Ok(true)
            }
        }
    }

    /// The values of digits.
    fn values(&self, digits: &[usize]) -> Result<ArrayRef> {
        match &self.digits {
            Digits::Above(least) => {
                let values = digits.iter().map(|&digit| least.wrapping_add(digit as i64));
                Ok(match &self.data_type {
                    DataType::Int8 => numbers::<Int8Type>(values),
                    DataType::Int16 => numbers::<Int16Type>(values),
                    DataType::Int32 => numbers::<Int32Type>(values),
                    DataType::Date32 => numbers::<Date32Type>(values),
                    _ => numbers::<Int64Type>(values),
                })
            }
            Digits::Met(met) => {
                let values = digits.iter().map(|&digit| met.texts.get(digit).map_or(&[][..], AsRef::as_ref));
                Ok(match &self.data_type {
                    DataType::Utf8 | DataType::Binary => cast(&BinaryArray::from_iter_values(values), &self.data_type)?,
                    DataType::LargeUtf8 | DataType::LargeBinary => {
                        cast(&LargeBinaryArray::from_iter_values(values), &self.data_type)?
                    }
                    _ => cast(&BinaryViewArray::from_iter_values(values), &self.data_type)?,
                })
            }
        }
    }
}

fn numbers<T: ArrowPrimitiveType<Native: TryFrom<i64>>>(values: impl Iterator<Item = i64>) -> ArrayRef {
    let narrowed = |value: i64| T::Native::try_from(value).unwrap_or_default();
    Arc::new(PrimitiveArray::<T>::from_iter_values(values.map(narrowed)))
}

/// The number in an array of one, of the types whose values can be digits.
fn number(bound: &ArrayRef) -> Option<i64> {
    if bound.len() != 1 || bound.is_null(0) {
        return None;
    }
    match bound.data_type() {
        DataType::Int8 => Some(bound.as_primitive::<Int8Type>().value(0).into()),
        DataType::Int16 => Some(bound.as_primitive::<Int16Type>().value(0).into()),
        DataType::Int32 => Some(bound.as_primitive::<Int32Type>().value(0).into()),
        DataType::Date32 => Some(bound.as_primitive::<Date32Type>().value(0).into()),
        DataType::Int64 => Some(bound.as_primitive::<Int64Type>().value(0)),
        _ => None,
    }
}
