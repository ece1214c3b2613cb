//! What a transaction has read, to be validated when it commits.
//!
//! Keys lie in one buffer and all vectors are kept for the next transaction, so that reading allocates nothing once they
//! have grown. Records are looked up again by their keys when it matters: a read holds on to nothing, and touches no count
//! of references that others touch, too.

use std::ops::{Bound, Range};

use ishigaki_base::Position;

use super::word::{Stamp, Timestamp};
use crate::key::{Key, KeyRange};

/// All that was read.
#[derive(Debug, Default)]
pub(super) struct ReadSet {
    keys: Vec<u8>,
    pub(super) points: Vec<Point>,
    pub(super) scans: Vec<Scan>,
    pub(super) rows: Vec<Row>,
    /// The transaction can not commit before this: it has seen what was written then.
    pub(super) floor: Timestamp,
}

/// One key that was read.
#[derive(Debug)]
pub(super) struct Point {
    /// Its table, among those touched.
    pub(super) slot: usize,
    key: Range<usize>,
    pub(super) seen: Seen,
}

/// What was there.
#[derive(Clone, Copy, Debug)]
pub(super) enum Seen {
    /// No record.
    Nothing,
    /// A record.
    Record(Stamp),
}

/// A range that was read.
#[derive(Debug)]
pub(super) struct Scan {
    pub(super) slot: usize,
    pub(super) start: Bound<Key>,
    pub(super) end: Bound<Key>,
    /// What was in it, in order.
    pub(super) rows: Range<usize>,
}

/// How far a range was read.
#[derive(Debug)]
pub(super) enum Reached {
    Nothing,
    Key(Bound<Key>),
    End,
}

/// One version of one key of a range. Where another record lies at the same address later, its version is another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) version: Position,
    pub(super) address: usize,
}

impl ReadSet {
    /// A key was read.
    pub(super) fn add(&mut self, slot: usize, key: &[u8], seen: Seen) {
        if let Seen::Record(stamp) = seen {
            self.floor = self.floor.max(stamp.wts());
        }
        let start = self.keys.len();
        self.keys.extend_from_slice(key);
        self.points.push(Point { slot, key: start..self.keys.len(), seen });
    }

    /// A range is going to be read. If that never comes to its end, since the visitor panics, it counts as read without a
    /// row in it.
    pub(super) fn open(&mut self, slot: usize, (start, end): KeyRange<'_>) {
        let (start, end) = (start.map(Key::of_bound), end.map(Key::of_bound));
        self.scans.push(Scan { slot, start, end, rows: self.rows.len()..self.rows.len() });
    }

    /// A row of the open range was read.
    pub(super) fn add_row(&mut self, row: Row, stamp: Stamp) {
        self.floor = self.floor.max(stamp.wts());
        self.rows.push(row);
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

    /// The key of a point.
    pub(super) fn key(&self, point: &Point) -> &[u8] {
        &self.keys[point.key.clone()]
    }

    /// How many entries there is room for, in whichever part has the most.
    pub(super) fn capacity(&self) -> usize {
        self.keys.capacity().max(self.points.capacity()).max(self.rows.capacity())
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.keys.clear();
        self.points.clear();
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
