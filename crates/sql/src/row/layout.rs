//! Where the columns of a table lie in the value bytes of its rows.
//!
//! `docs/format/rows.md` has the picture. Everything up to the variable part is at constant offsets for one table, so a
//! projection touches its own columns and the variable columns' ends next to them, nothing else.

use crate::table::TableDefinition;

use super::Flaw;

/// The first byte of every row's value.
pub(super) const VERSION: u8 = 1;

/// Where the null bitmap begins: behind the version and the count of columns.
const BITMAP_AT: usize = 3;

/// Bytes of one entry of the table of ends.
const END: usize = 4;

/// The place of a column in a row.
#[derive(Clone, Copy, Debug)]
pub(super) enum Slot {
    /// In the key, as its `n`-th column.
    Key(usize),
    /// At constant bytes of the value.
    Fixed {
        /// Its bit in the null bitmap.
        bit: usize,
        /// Where it begins.
        at: usize,
        /// How many bytes it has.
        width: usize,
    },
    /// In the variable part.
    Variable {
        /// Its bit in the null bitmap.
        bit: usize,
        /// Its entry in the table of ends.
        entry: usize,
    },
}

/// The layout of a table's rows.
#[derive(Debug)]
pub(super) struct Layout {
    /// By position in the table.
    slots: Vec<Slot>,
    /// How many columns are in the value.
    count: usize,
    /// How many of them are of variable width.
    variable: usize,
    /// Where the fixed-width columns begin.
    fixed_at: usize,
    /// Where the table of ends begins.
    ends_at: usize,
    /// Everything but the variable part of a row whose columns are all NULL. Behind it lies the variable part.
    blank: Vec<u8>,
}

impl Layout {
    /// The layout of `table`'s rows.
    pub(super) fn new(table: &TableDefinition) -> Self {
        let count = table.value_columns().count();
        let fixed_at = BITMAP_AT + count.div_ceil(8);
        let (mut bit, mut at, mut variable) = (0, fixed_at, 0);
        let mut slots = Vec::with_capacity(table.columns().len());
        for (position, column) in table.columns().iter().enumerate() {
            if let Some(place) = table.primary_key().iter().position(|&key| key == position) {
                slots.push(Slot::Key(place));
                continue;
            }
            if let Some(width) = column.sql_type.width() {
                slots.push(Slot::Fixed { bit, at, width });
                at += width;
            } else {
                slots.push(Slot::Variable { bit, entry: variable });
                variable += 1;
            }
            bit += 1;
        }
        let mut blank = vec![0; at + END * variable];
        blank[0] = VERSION;
        blank[1..BITMAP_AT].copy_from_slice(&(count as u16).to_le_bytes());
        for bit in 0..count {
            blank[BITMAP_AT + bit / 8] |= 1 << (bit % 8);
        }
        Self { slots, count, variable, fixed_at, ends_at: at, blank }
    }

    /// The place of the column at `position` of the table.
    pub(super) fn slot(&self, position: usize) -> Slot {
        self.slots[position]
    }

    /// Puts a row whose columns are all NULL into `out`, which loses what it held.
    pub(super) fn begin(&self, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(&self.blank);
    }

    /// Marks a column as not NULL.
    pub(super) fn set_present(out: &mut [u8], bit: usize) {
        out[BITMAP_AT + bit / 8] &= !(1 << (bit % 8));
    }

    /// Appends the bytes of the variable column with this entry; entries must come in order.
    pub(super) fn append(&self, out: &mut Vec<u8>, entry: usize, bytes: &[u8]) -> Result<(), Flaw> {
        out.extend_from_slice(bytes);
        let end = u32::try_from(out.len() - self.blank.len()).map_err(|_| "more than four gigabytes")?;
        let at = self.ends_at + END * entry;
        out[at..at + END].copy_from_slice(&end.to_le_bytes());
        Ok(())
    }

    /// Checks the frame of a stored value: version, count of columns, lengths.
    pub(super) fn open<'a>(&self, value: &'a [u8]) -> Result<Stored<'a>, Flaw> {
        match value {
            [VERSION, low, high, ..] if usize::from(u16::from_le_bytes([*low, *high])) == self.count => {}
            [VERSION, _, _, ..] => return Err("a count of columns other than the table's"),
            [VERSION, ..] => return Err("it ends within its head"),
            [_, ..] => return Err("a version that this program does not know"),
            [] => return Err("it is empty"),
        }
        let Some((head, data)) = value.split_at_checked(self.blank.len()) else {
            return Err("it ends before its columns do");
        };
        let unused = self.count.next_multiple_of(8) - self.count;
        if unused > 0 && head[self.fixed_at - 1] >> (8 - unused) != 0 {
            return Err("null bits of columns that are not there");
        }
        let (fixed, ends) = head.split_at(self.ends_at);
        let stored = Stored { fixed, ends, data };
        if stored.end(self.variable) == data.len() {
            Ok(stored)
        } else {
            Err("its length is not what its columns add up to")
        }
    }
}

/// A stored value whose frame is sound.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stored<'a> {
    /// Version, count, null bitmap and the fixed-width columns.
    fixed: &'a [u8],
    ends: &'a [u8],
    data: &'a [u8],
}

impl<'a> Stored<'a> {
    /// Whether the column of this bit is NULL.
    pub(super) fn is_null(&self, bit: usize) -> bool {
        self.fixed[BITMAP_AT + bit / 8] & (1 << (bit % 8)) != 0
    }

    /// The bytes of a fixed-width column.
    pub(super) fn fixed(&self, at: usize, width: usize) -> &'a [u8] {
        &self.fixed[at..at + width]
    }

    /// The bytes of a variable column.
    pub(super) fn variable(&self, entry: usize) -> Result<&'a [u8], Flaw> {
        self.data.get(self.end(entry)..self.end(entry + 1)).ok_or("columns that end before they begin")
    }

    /// Where the first `entries` variable columns end.
    fn end(&self, entries: usize) -> usize {
        match entries.checked_sub(1).and_then(|last| self.ends[END * last..].first_chunk::<END>()) {
            Some(end) => u32::from_le_bytes(*end) as usize,
            None => 0,
        }
    }
}
