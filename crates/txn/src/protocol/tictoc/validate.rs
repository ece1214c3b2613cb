//! Validation: what was read is valid at the transaction's timestamp, or is made so, or the transaction can not commit.
//!
//! All that it writes is locked when this begins. How ranges are protected against phantoms is decided here alone: they are
//! read again, and must show the same versions and nothing else. An index that counts the changes of its nodes could do
//! that faster.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use ishigaki_wal::Dependencies;
use sdd::Guard;

use super::read_set::{Point, Row, Scan, Seen};
use super::word::{LAST, Refused, Stamp, Timestamp};
use super::{Monopoly, STRIDE, Sets, TicToc, conflict};
use crate::index::{Walked, behind};
use crate::key::Key;
use crate::record::Record;
use crate::table::Table;
use crate::{Error, Result};

impl TicToc {
    /// Locks the tables that it wants for itself. Says a timestamp that is behind everything in them.
    ///
    /// Others look at a table's word after they have validated: whoever has not seen the lock then, has left the timestamp
    /// that he commits with where the walk finds it, or holds locks that it meets.
    pub(super) fn lock_tables(&mut self, mut least: Timestamp) -> Result<Timestamp> {
        let wanted = |monopoly| monopoly == Monopoly::Wanted;
        for slot in 0..self.sets.tables.len() {
            if !wanted(self.sets.tables[slot].monopoly) {
                continue;
            }
            self.patience.unblock();
            let before = self.sets.tables[slot].table.word.try_lock().map_err(conflict)?;
            self.sets.tables[slot].monopoly = Monopoly::Held;
            fence(Ordering::SeqCst);
            let table = &self.sets.tables[slot].table;
            let inside = last_in(table, |key| self.sets.writes.before(slot, key).is_some())?
                .max(table.absences.last())
                .max(before.rts());
            least = least.max(inside + 1);
        }
        Ok(least)
    }
}

impl Sets {
    /// The least timestamp that fits to everything read, and to `least`.
    pub(super) fn timestamp(&mut self, depends_on: &mut Dependencies, least: Timestamp) -> Result<Timestamp> {
        let mut timestamp = least.max(self.reads.floor);
        for touched in self.tables.iter_mut().filter(|touched| touched.absences) {
            touched.since = touched.table.absences.since();
            timestamp = timestamp.max(touched.since);
            touched.table.deletions().for_each(|position| depends_on.add(position));
        }
        if timestamp > LAST { Err(Error::TimestampsExhausted) } else { Ok(timestamp) }
    }

    /// Succeeds if all that was read is valid at that moment.
    pub(super) fn validate(&self, timestamp: Timestamp) -> Result<()> {
        for touched in self.tables.iter().filter(|touched| touched.absences) {
            touched.table.absences.extend(timestamp);
        }
        self.validate_points(timestamp)?;
        self.reads.scans.iter().try_for_each(|scan| self.validate_scan(scan, timestamp))?;
        // What had become absent before was noted there first, and now again: it has been so all the time between.
        if self.tables.iter().any(|touched| touched.absences && touched.table.absences.since() != touched.since) {
            return Err(conflict(Refused::Changed));
        }
        fence(Ordering::SeqCst);
        for touched in self.tables.iter().filter(|touched| touched.monopoly != Monopoly::Held) {
            let stamp = touched.table.word.load();
            if stamp.is_locked() || stamp.is_dead() {
                return Err(conflict(if stamp.is_dead() { Refused::Changed } else { Refused::Locked }));
            }
        }
        Ok(())
    }

    fn validate_points(&self, timestamp: Timestamp) -> Result<()> {
        let is_open = |point: &&Point| !matches!(point.seen, Seen::Record(stamp) if stamp.rts() >= timestamp);
        let mut open = self.reads.points.iter().filter(is_open).peekable();
        if open.peek().is_none() {
            return Ok(());
        }
        let guard = Guard::new();
        open.try_for_each(|point| self.validate_point(point, timestamp, &guard)).map_err(conflict)
    }

    fn validate_point(&self, point: &Point, timestamp: Timestamp, guard: &Guard) -> Result<(), Refused> {
        let key = self.reads.key(point);
        let table = &self.tables[point.slot].table;
        match point.seen {
            Seen::Record(stamp) => {
                if let Some(before) = self.writes.before(point.slot, key) {
                    return if before.is_same_version(stamp) { Ok(()) } else { Err(Refused::Changed) };
                }
                let record = table.index.peek(key, guard).ok_or(Refused::Changed)?;
                record.word.extend(stamp, timestamp)
            }
            Seen::Nothing => match table.index.peek(key, guard) {
                None => Ok(()),
                Some(record) => validate_absent(self.writes.before(point.slot, key), record, timestamp),
            },
        }
    }

    fn validate_scan(&self, scan: &Scan, timestamp: Timestamp) -> Result<()> {
        let table = &self.tables[scan.slot].table;
        let mut rows = self.reads.rows[scan.rows.clone()].iter();
        let (mut start, end) = scan.range();
        let mut reached: Key;
        loop {
            let mut seen = 0;
            let walked: Walked<Option<Refused>> = table.index.walk((start, end), |key, record, _| {
                let own = self.writes.before(scan.slot, key);
                if let Err(refused) = validate_row(own, record, &mut rows, timestamp) {
                    return ControlFlow::Break(Some(refused));
                }
                seen += 1;
                if seen == STRIDE { ControlFlow::Break(None) } else { ControlFlow::Continue(()) }
            });
            match walked {
                ControlFlow::Break((_, _, Some(refused))) => return Err(conflict(refused)),
                ControlFlow::Break((key, _, None)) => {
                    reached = key;
                    (start, _) = behind(&reached, end);
                }
                ControlFlow::Continue(()) => break,
            }
        }
        if rows.next().is_some() { Err(conflict(Refused::Changed)) } else { Ok(()) }
    }
}

/// A record that lies in a range that was read: its version must be the next one that was seen there, or none. `own` is what
/// its word said before this transaction locked it.
fn validate_row<'a>(
    own: Option<Stamp>,
    record: &Arc<Record>,
    rows: &mut impl Iterator<Item = &'a Row>,
    timestamp: Timestamp,
) -> Result<(), Refused> {
    let address = Arc::as_ptr(record).addr();
    let (stamp, version) = match own {
        Some(before) => (before, record.version()),
        None => record.word.read(|| record.version()).ok_or(Refused::Locked)?,
    };
    if stamp.is_dead() {
        // It is about to leave; whether that matters, the absences tell.
        return Ok(());
    }
    if !stamp.is_absent() && rows.next() != Some(&Row { version, address }) {
        return Err(Refused::Changed);
    }
    if own.is_some() { Ok(()) } else { record.word.extend(stamp, timestamp) }
}

/// A record where there was none: it must be absent, and stay so up to the timestamp.
fn validate_absent(own: Option<Stamp>, record: &Record, timestamp: Timestamp) -> Result<(), Refused> {
    if let Some(before) = own {
        return if before.is_absent() { Ok(()) } else { Err(Refused::Changed) };
    }
    let stamp = record.word.load();
    if stamp.is_dead() {
        return Ok(());
    }
    if stamp.is_locked() {
        return Err(Refused::Locked);
    }
    if stamp.is_absent() { record.word.extend(stamp, timestamp) } else { Err(Refused::Changed) }
}

/// The largest timestamp that anything in a table is valid at.
fn last_in(table: &Table, is_own: impl Fn(&Key) -> bool) -> Result<Timestamp> {
    let mut last = 0;
    let mut reached: Option<Key> = None;
    loop {
        let start = reached.as_ref().map_or(std::ops::Bound::Unbounded, |key| std::ops::Bound::Excluded(&**key));
        let mut seen = 0;
        let walked = table.index.walk((start, std::ops::Bound::Unbounded), |key, record, _| {
            let stamp = record.word.load();
            if stamp.is_locked() && !is_own(key) {
                return ControlFlow::Break(Some(Refused::Locked));
            }
            last = last.max(stamp.rts());
            seen += 1;
            if seen == STRIDE { ControlFlow::Break(None) } else { ControlFlow::Continue(()) }
        });
        match walked {
            ControlFlow::Break((_, _, Some(refused))) => return Err(conflict(refused)),
            ControlFlow::Break((key, _, None)) => reached = Some(key),
            ControlFlow::Continue(()) => return Ok(last),
        }
    }
}

#[cfg(test)]
mod tests {
    use ishigaki_base::{Lsn, Position, StreamId};
    use sdd::Owned;

    use super::*;
    use crate::key::Value;

    #[test]
    fn when_all_timestamps_are_used_commits_are_refused() {
        let mut sets = Sets::default();
        sets.reads.floor = LAST;
        assert_eq!(sets.timestamp(&mut Dependencies::default(), 0).unwrap(), LAST);
        let behind = Stamp::default().extended(LAST).rts() + 1;
        let refused = sets.timestamp(&mut Dependencies::default(), behind);
        assert!(matches!(refused, Err(Error::TimestampsExhausted)));
    }

    /// A transaction may write two keys of a range, and a scan pass one of them before it commits and the other one after;
    /// if the one that was seen is deleted then, the other one must not be taken for it.
    #[test]
    fn another_key_of_the_same_writer_is_another_row() {
        let version = Position::new(Lsn(5), StreamId(0));
        let record = || Arc::new(Record::committed(Owned::new(Value::new()), version));
        let (seen, missed) = (record(), record());
        let rows = [Row { version, address: Arc::as_ptr(&seen).addr() }];
        assert_eq!(validate_row(None, &seen, &mut rows.iter(), 3), Ok(()));
        assert_eq!(seen.word.load().rts(), 3);
        assert_eq!(validate_row(None, &missed, &mut rows.iter(), 3), Err(Refused::Changed));
        assert_eq!(validate_row(None, &seen, &mut [].iter(), 3), Err(Refused::Changed));
    }
}
