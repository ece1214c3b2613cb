//! What a transaction has read, to be validated when it commits.
//!
//! A record is known by its number, which needs no guard and no count of references. Only keys that have no record are kept
//! as keys; they lie in one buffer. All vectors are kept for the next transaction, so that reading allocates nothing once
//! they have grown.

use std::ops::{Bound, Range};

use ishigaki_wal::Dependencies;

use super::word::{Stamp, Timestamp};
use crate::key::{Key, KeyRange};
use crate::records::RecordId;
use crate::table::Table;

/// All that was read.
#[derive(Debug, Default)]
pub(super) struct ReadSet {
    pub(super) points: Vec<Point>,
    pub(super) nothings: Vec<Nothing>,
    keys: Vec<u8>,
    pub(super) scans: Vec<Scan>,
    pub(super) rows: Vec<Row>,
    /// The transaction can not commit before this: it has seen what was written then.
    pub(super) floor: Timestamp,
}

/// A record that was read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    /// Its table, among those touched.
    pub(super) slot: usize,
    pub(super) row: Row,
}

/// One version of one record.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) id: RecordId,
    pub(super) stamp: Stamp,
}

/// A key that was read and had no record.
#[derive(Debug)]
pub(super) struct Nothing {
    pub(super) slot: usize,
    key: Range<usize>,
}

/// A range that was read.
#[derive(Debug)]
pub(super) struct Scan {
    pub(super) slot: usize,
    pub(super) start: Bound<Key>,
    pub(super) end: Bound<Key>,
    /// The records in it, in order, absent ones included.
    pub(super) rows: Range<usize>,
}

/// How far a range was read.
#[derive(Debug)]
pub(super) enum Reached {
    Nothing,
    Key(Bound<Key>),
    End,
}

impl ReadSet {
    /// A record was read.
    #[inline]
    pub(super) fn add(&mut self, slot: usize, id: RecordId, stamp: Stamp) {
        self.floor = self.floor.max(stamp.wts());
        self.points.push(Point { slot, row: Row { id, stamp } });
    }

    /// That something is not in a table was read.
    pub(super) fn add_absence(&mut self, table: &Table, depends_on: &mut Dependencies) {
        self.floor = self.floor.max(table.absences.since());
        table.deletions().for_each(|position| depends_on.add(position));
    }

    /// A key was read that has no record.
    pub(super) fn add_nothing(&mut self, slot: usize, key: &[u8]) {
        let start = self.keys.len();
        self.keys.extend_from_slice(key);
        self.nothings.push(Nothing { slot, key: start..self.keys.len() });
    }

    /// A range is going to be read. If that never comes to its end, since the visitor panics, it counts as read without a
    /// row in it.
    pub(super) fn open(&mut self, slot: usize, (start, end): KeyRange<'_>) {
        let (start, end) = (start.map(Key::of_bound), end.map(Key::of_bound));
        self.scans.push(Scan { slot, start, end, rows: self.rows.len()..self.rows.len() });
    }

    /// A row of the open range was read.
    pub(super) fn add_row(&mut self, id: RecordId, stamp: Stamp) {
        self.floor = self.floor.max(stamp.wts());
        self.rows.push(Row { id, stamp });
    }

    /// The open range was read up to there.
    pub(super) fn close(&mut self, reached: Reached) {
        let Some(scan) = self.scans.last_mut() else { return };
        scan.rows.end = self.rows.len();
        match reached {
            Reached::End => {}
            Reached::Key(end) => scan.end = end,
            Reached::Nothing => self.scans.truncate(self.scans.len() - 1),
        }
    }

    /// The key that had no record.
    pub(super) fn key(&self, nothing: &Nothing) -> &[u8] {
        &self.keys[nothing.key.clone()]
    }

    /// How many entries there is room for, in whichever part has the most.
    pub(super) fn capacity(&self) -> usize {
        self.keys.capacity().max(self.points.capacity()).max(self.rows.capacity())
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.points.clear();
        self.nothings.clear();
        self.keys.clear();
        self.scans.clear();
        self.rows.clear();
        self.floor = 0;
    }
}

impl Scan {
    pub(super) fn range(&self) -> KeyRange<'_> {
        (self.start.as_ref().map(|key| &**key), self.end.as_ref().map(|key| &**key))
    }
}
