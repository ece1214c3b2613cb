//! Text and bytes: a table of strings, and in a dictionary the number of each row's entry.
//!
//! ```text
//! plain        header │ nulls │ table of every row's string
//! dictionary   header │ nulls │ table of the different strings │ packed numbers of entries, one a row
//!
//! table        bytes of all strings: 4 │ shortest length: 4 │ packed lengths above it │ strings, padded to 8 bytes
//! ```
//!
//! The dictionary wins where it is smaller. A null has an empty string, or in a dictionary some entry.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use hashbrown::{DefaultHashBuilder, HashTable};
use std::hash::BuildHasher;

use super::{Encoding, Gauge, Head, begin_chunk, overhead, pad};
use crate::bits::{pack, packed_len, width_of};
use crate::bound::{Bound, Extent};

mod decode;

pub(super) use decode::StringSink;
pub(crate) use decode::dictionary_of;

/// True for text and bytes.
pub(crate) fn holds(data_type: &DataType) -> bool {
    use DataType::{Binary, BinaryView, LargeBinary, LargeUtf8, Utf8, Utf8View};
    matches!(data_type, Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView)
}

/// An array of strings, whatever its layout.
#[derive(Clone, Copy)]
enum Strings<'a> {
    Utf8(&'a arrow_array::StringArray),
    LargeUtf8(&'a arrow_array::LargeStringArray),
    Utf8View(&'a arrow_array::StringViewArray),
    Binary(&'a arrow_array::BinaryArray),
    LargeBinary(&'a arrow_array::LargeBinaryArray),
    BinaryView(&'a arrow_array::BinaryViewArray),
}

impl<'a> Strings<'a> {
    fn of(array: &'a dyn Array) -> Self {
        match array.data_type() {
            DataType::Utf8 => Self::Utf8(array.as_string()),
            DataType::LargeUtf8 => Self::LargeUtf8(array.as_string()),
            DataType::Utf8View => Self::Utf8View(array.as_string_view()),
            DataType::Binary => Self::Binary(array.as_binary()),
            DataType::LargeBinary => Self::LargeBinary(array.as_binary()),
            _ => Self::BinaryView(array.as_binary_view()),
        }
    }

    #[inline]
    fn get(self, row: usize) -> &'a [u8] {
        match self {
            Self::Utf8(array) => array.value(row).as_bytes(),
            Self::LargeUtf8(array) => array.value(row).as_bytes(),
            Self::Utf8View(array) => array.value(row).as_bytes(),
            Self::Binary(array) => array.value(row),
            Self::LargeBinary(array) => array.value(row),
            Self::BinaryView(array) => array.value(row),
        }
    }
}

/// How large a table of strings is.
#[derive(Clone, Copy, Debug)]
struct Table {
    strings: usize,
    bytes: usize,
    shortest: usize,
    longest: usize,
}

impl Default for Table {
    fn default() -> Self {
        Self { strings: 0, bytes: 0, shortest: usize::MAX, longest: 0 }
    }
}

impl Table {
    fn add(&mut self, len: usize) {
        self.strings += 1;
        self.bytes += len;
        self.shortest = self.shortest.min(len);
        self.longest = self.longest.max(len);
    }

    fn length_width(&self) -> u8 {
        width_of(self.longest.saturating_sub(self.shortest) as u64)
    }

    fn size(&self) -> usize {
        8 + packed_len(self.strings, self.length_width()) + self.bytes.next_multiple_of(8)
    }

    /// Appends the table of the strings that `string` gives.
    fn encode<'a>(&self, string: impl Fn(usize) -> &'a [u8], out: &mut Vec<u8>) {
        let shortest = if self.strings == 0 { 0 } else { self.shortest };
        out.extend_from_slice(&(self.bytes as u32).to_le_bytes());
        out.extend_from_slice(&(shortest as u32).to_le_bytes());
        pack(self.strings, self.length_width(), |index| (string(index).len() - shortest) as u64, out);
        (0..self.strings).for_each(|index| out.extend_from_slice(string(index)));
        pad(out);
    }
}

/// What is known of the rows so far.
#[derive(Clone, Copy, Debug, Default)]
struct State {
    rows: usize,
    nulls: usize,
    every_row: Table,
    /// None when the dictionary was given up.
    different: Option<Table>,
    /// Rows with the smallest and the largest string.
    bounds: Option<(u32, u32)>,
}

/// How many rows are looked at before the dictionary may be given up, and how many of 4 of them must then be different.
const TRIAL: usize = 1024;
const TOO_MANY_OF_4: usize = 3;

#[derive(Default)]
pub(super) struct StringGauge {
    now: State,
    marked: State,
    hasher: DefaultHashBuilder,
    /// The entries, found by their strings.
    entries: HashTable<u32>,
    /// The first row of each entry.
    first_rows: Vec<u32>,
    /// Each row's entry.
    codes: Vec<u32>,
}

impl State {
    fn code_width(entries: usize) -> u8 {
        width_of(entries.saturating_sub(1) as u64)
    }

    /// The table and whether it is a dictionary's, and how many bytes the strings take.
    fn choose(&self) -> (Table, bool, usize) {
        if self.nulls == self.rows {
            return (Table::default(), false, 0);
        }
        let plain = self.every_row.size();
        if let Some(table) = self.different {
            let dictionary = table.size() + packed_len(self.rows, Self::code_width(table.strings));
            if dictionary < plain {
                return (table, true, dictionary);
            }
        }
        (self.every_row, false, plain)
    }
}

impl StringGauge {
    /// Finds or makes the entry of a row. Says whether it is new.
    fn enter(&mut self, strings: Strings<'_>, row: usize) -> bool {
        let string = strings.get(row);
        let (hasher, first_rows) = (&self.hasher, &mut self.first_rows);
        let entry_string = |entry: u32| strings.get(first_rows[entry as usize] as usize);
        let hash = hasher.hash_one(string);
        let found = self.entries.find(hash, |&entry| entry_string(entry) == string);
        if let Some(&entry) = found {
            self.codes.push(entry);
            return false;
        }
        let entry = first_rows.len() as u32;
        self.entries.insert_unique(hash, entry, |&entry| hasher.hash_one(entry_string(entry)));
        first_rows.push(row as u32);
        self.codes.push(entry);
        true
    }

    fn widen_bounds(&mut self, strings: Strings<'_>, row: usize) {
        let (mut min, mut max) = self.now.bounds.unwrap_or((row as u32, row as u32));
        let string = strings.get(row);
        if string < strings.get(min as usize) {
            min = row as u32;
        }
        if string > strings.get(max as usize) {
            max = row as u32;
        }
        self.now.bounds = Some((min, max));
    }
}

impl Gauge for StringGauge {
    fn clear(&mut self) {
        self.now = State { different: Some(Table::default()), ..State::default() };
        self.marked = self.now;
        self.entries.clear();
        self.first_rows.clear();
        self.codes.clear();
    }

    fn extend(&mut self, array: &dyn Array, from: usize, to: usize) {
        let strings = Strings::of(array);
        for row in from..to {
            if array.is_null(row) {
                self.now.nulls += 1;
                self.now.every_row.add(0);
                self.codes.push(0);
                continue;
            }
            let len = strings.get(row).len();
            self.now.every_row.add(len);
            let mut is_new = true;
            if self.now.different.is_some() {
                is_new = self.enter(strings, row);
                if let Some(different) = self.now.different.as_mut().filter(|_| is_new) {
                    different.add(len);
                }
            }
            // What was there before was compared before.
            if is_new {
                self.widen_bounds(strings, row);
            }
            if row >= TRIAL && self.first_rows.len() * 4 > row * TOO_MANY_OF_4 {
                self.now.different = None;
            }
        }
        self.now.rows = to;
    }

    fn size(&self) -> usize {
        overhead(self.now.rows, self.now.nulls) + self.now.choose().2
    }

    fn spread(&self) -> usize {
        self.now.every_row.bytes
    }

    fn mark(&mut self) {
        self.marked = self.now;
    }

    fn encode(&self, array: &dyn Array, out: &mut Vec<u8>) -> Extent {
        let strings = Strings::of(array);
        let State { rows, nulls, bounds, .. } = self.marked;
        let (table, is_dictionary, _) = self.marked.choose();
        let length_width = table.length_width();
        let head = if is_dictionary {
            let width = State::code_width(table.strings);
            Head { encoding: Encoding::Dictionary, width, length_width, entries: table.strings as u32 }
        } else {
            Head { encoding: Encoding::Plain, width: 0, length_width, entries: rows as u32 }
        };
        if begin_chunk(head, array, rows, nulls, out) {
            if is_dictionary {
                table.encode(|entry| strings.get(self.first_rows[entry] as usize), out);
                pack(rows, head.width, |row| u64::from(self.codes[row]), out);
            } else {
                // Arrow may have anything behind a null.
                table.encode(|row| if nulls > 0 && array.is_null(row) { &[] } else { strings.get(row) }, out);
            }
        }
        let bound = |row: u32| Bound::Bytes(strings.get(row as usize).to_vec());
        Extent { bounds: bounds.map(|(min, max)| (bound(min), bound(max))), nulls: nulls as u64 }
    }
}

/// An empty array of a type of strings.
fn empty(data_type: &DataType) -> ArrayRef {
    arrow_array::new_empty_array(data_type)
}
