//! A stretch of a table as it was at a snapshot: what is in the index, and then what has left it, in key order.
//!
//! Rows are copied out of the index before any of them is shown, since the history has to be asked after the index was: a
//! version that is replaced in between is then found in one of the two.

use std::cmp::Ordering;
use std::ops::{ControlFlow, Range};

use ishigaki_base::Lsn;

use super::see;
use crate::history::Gone;
use crate::key::{Key, KeyRange};
use crate::table::Table;

/// How many keys the first stretch of a scan has at most; the next ones have more.
const FIRST: usize = 16;

/// How many keys a stretch has at most, and about how many bytes.
const MOST: (usize, usize) = (1024, 256 << 10);

/// See the module. Can be read again and again.
#[derive(Debug, Default)]
pub(super) struct Stretch {
    bytes: Vec<u8>,
    rows: Vec<Row>,
    gone: Vec<Gone>,
    limit: usize,
    newest: Lsn,
}

/// A key of the index.
#[derive(Debug)]
struct Row {
    key: Range<usize>,
    /// What it was at the snapshot. While the index is read: if that is known yet.
    value: Option<Range<usize>>,
}

impl Stretch {
    /// Reads the beginning of a range, which is not inverted. Says the key up to which that is, unless it is all.
    pub(super) fn read(&mut self, table: &Table, range: KeyRange<'_>, snapshot: Lsn) -> Option<Key> {
        self.bytes.clear();
        self.rows.clear();
        self.gone.clear();
        self.newest = Lsn::ZERO;
        self.limit = (self.limit * 4).clamp(FIRST, MOST.0);
        let mut reached = self.read_index(table, range, snapshot);
        self.ask_history(table, snapshot);
        let until = reached.as_ref().map_or(range.1, |key| std::ops::Bound::Included(&**key));
        if let Some(key) = table.history.find_gone((range.0, until), snapshot, &mut self.gone) {
            self.rows.truncate(self.rows.partition_point(|row| self.bytes[row.key.clone()] <= *key));
            self.gone.retain(|gone| gone.key <= key);
            reached = Some(key);
        }
        self.gone.sort_unstable_by(|one, other| one.key.cmp(&other.key));
        self.newest = self.gone.iter().map(|gone| gone.from).fold(self.newest, Lsn::max);
        reached
    }

    fn read_index(&mut self, table: &Table, range: KeyRange<'_>, snapshot: Lsn) -> Option<Key> {
        let Self { bytes, rows, limit, newest, .. } = self;
        let walked = table.rows.walk(range, None, |key, (_, record), guard| {
            let key = append(bytes, key);
            let value = see(record, guard, |version| {
                let (position, value) = version.filter(|(position, _)| position.lsn() <= snapshot)?;
                *newest = position.lsn().max(*newest);
                Some(append(bytes, value))
            });
            rows.push(Row { key, value });
            let is_enough = rows.len() == *limit || bytes.len() >= MOST.1;
            if is_enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        walked.break_value().map(|(key, ())| key)
    }

    /// Of keys that have something newer now, or nothing, the history knows what was there.
    fn ask_history(&mut self, table: &Table, snapshot: Lsn) {
        let Self { bytes, rows, newest, .. } = self;
        let mut found = Vec::new();
        for row in rows.iter_mut().filter(|row| row.value.is_none()) {
            found.clear();
            if let Some(from) = table.history.find(&bytes[row.key.clone()], snapshot, &mut found) {
                *newest = from.max(*newest);
                row.value = Some(append(bytes, &found));
            }
        }
    }

    /// The last LSN that wrote any of it.
    pub(super) fn newest(&self) -> Lsn {
        self.newest
    }

    /// Shows the rows that there were, in key order.
    pub(super) fn show(&self, visit: &mut impl FnMut(&[u8], &[u8]) -> ControlFlow<()>) -> ControlFlow<()> {
        let mut gone = self.gone.iter().peekable();
        for row in &self.rows {
            let key = &self.bytes[row.key.clone()];
            while let Some(before) = gone.next_if(|gone| *gone.key < *key) {
                visit(&before.key, &before.value)?;
            }
            // It has come back to the index, or was on its way out.
            let same = gone.next_if(|gone| (*gone.key).cmp(key) == Ordering::Equal);
            match (&row.value, same) {
                (Some(value), _) => visit(key, &self.bytes[value.clone()])?,
                (None, Some(gone)) => visit(key, &gone.value)?,
                (None, None) => {}
            }
        }
        gone.try_for_each(|gone| visit(&gone.key, &gone.value))
    }
}

fn append(bytes: &mut Vec<u8>, more: &[u8]) -> Range<usize> {
    let start = bytes.len();
    bytes.extend_from_slice(more);
    start..bytes.len()
}
