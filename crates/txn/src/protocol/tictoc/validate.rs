//! Validation: what was read is valid at the transaction's timestamp, or is made so, or the transaction can not commit.
//!
//! All that it writes is locked when this begins. How ranges and absences are protected against phantoms is decided here
//! alone: if no key has come into the leaves of the index that were seen, or gone out of them, nothing is missing and nothing
//! is new. Else that may have been beside what was read; then the ranges are read again, and must show the same versions and
//! nothing else, and the keys are looked up again.

use std::ops::ControlFlow;
use std::sync::atomic::{Ordering, fence};

use ishigaki_wal::Dependencies;
use sdd::Guard;
use smallvec::SmallVec;

use super::read_set::{Row, Scan};
use super::word::{LAST, Refused, Timestamp};
use super::write_locks::Own;
use super::{Monopoly, STRIDE, Sets, TicToc, Touched, conflict};
use crate::key::Key;
use crate::record::Record;
use crate::records::RecordId;
use crate::rows::{Walked, behind};
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
            let inside = last_in(table, |id| self.sets.writes.own(slot, id).is_some())?
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
        self.validate_points(timestamp).map_err(conflict)?;
        self.validate_absences(timestamp)?;
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

    fn validate_points(&self, timestamp: Timestamp) -> Result<(), Refused> {
        let mut open = self.reads.points.iter().filter(|point| point.row.stamp.rts() < timestamp);
        open.try_for_each(|point| self.validate_row(point.slot, point.row, timestamp))
    }

    /// Nothing has come into what was read, and nothing that was read has gone.
    fn validate_absences(&self, timestamp: Timestamp) -> Result<()> {
        if self.reads.scans.is_empty() && self.reads.nothings.is_empty() {
            return Ok(());
        }
        let is_unchanged = |slot, touched: &Touched| {
            touched.table.rows.unchanged(&touched.seen) && !self.writes.was_overtaken(slot, &touched.table)
        };
        let tables = self.tables.iter().enumerate();
        let changed: SmallVec<[bool; 8]> =
            tables.map(|(slot, touched)| touched.absences && !is_unchanged(slot, touched)).collect();
        for scan in &self.reads.scans {
            if changed[scan.slot] {
                self.scan_again(scan, timestamp)?;
            } else {
                let mut rows = self.reads.rows[scan.rows.clone()].iter();
                rows.try_for_each(|row| self.validate_row(scan.slot, *row, timestamp)).map_err(conflict)?;
            }
        }
        let guard = Guard::new();
        for nothing in self.reads.nothings.iter().filter(|nothing| changed[nothing.slot]) {
            if let Some((id, record)) = self.tables[nothing.slot].table.rows.find(self.reads.key(nothing), &guard) {
                let own = self.writes.own(nothing.slot, id);
                validate_absent(own, record, timestamp).map_err(conflict)?;
            }
        }
        Ok(())
    }

    /// A version that was read: it must be valid at the timestamp, or the one that this transaction overwrites.
    fn validate_row(&self, slot: usize, Row { id, stamp }: Row, timestamp: Timestamp) -> Result<(), Refused> {
        let record = self.tables[slot].table.rows.at(id);
        record.word().extend(stamp, timestamp).or_else(|refused| match self.writes.own(slot, id) {
            Some(own) if own.before.is_same_version(stamp) => {
                own.extend(record, timestamp);
                Ok(())
            }
            _ => Err(refused),
        })
    }

    fn scan_again(&self, scan: &Scan, timestamp: Timestamp) -> Result<()> {
        let table = &self.tables[scan.slot].table;
        let mut rows = self.reads.rows[scan.rows.clone()].iter().filter(|row| !row.stamp.is_absent());
        let (mut start, end) = scan.range();
        let mut reached: Key;
        loop {
            let mut seen = 0;
            let walked: Walked<Option<Refused>> = table.rows.walk((start, end), None, |_, (id, record), _| {
                let own = self.writes.own(scan.slot, id);
                if let Err(refused) = meet_again(own, (id, record), &mut rows, timestamp) {
                    return ControlFlow::Break(Some(refused));
                }
                seen += 1;
                if seen == STRIDE { ControlFlow::Break(None) } else { ControlFlow::Continue(()) }
            });
            match walked {
                ControlFlow::Break((_, Some(refused))) => return Err(conflict(refused)),
                ControlFlow::Break((key, None)) => {
                    reached = key;
                    (start, _) = behind(&reached, end);
                }
                ControlFlow::Continue(()) => break,
            }
        }
        if rows.next().is_some() { Err(conflict(Refused::Changed)) } else { Ok(()) }
    }
}

/// A record that lies in a range that was read: it must be the next one of `rows`, with the same version, or be absent.
/// `own` is there if this transaction has locked it.
fn meet_again<'a>(
    own: Option<Own>,
    (id, record): (RecordId, Record<'_>),
    rows: &mut impl Iterator<Item = &'a Row>,
    timestamp: Timestamp,
) -> Result<(), Refused> {
    let stamp = own.map_or_else(|| record.word().load(), |own| own.before);
    if stamp.is_dead() {
        // It is about to leave; whether that matters, the absences tell.
        return Ok(());
    }
    // Also of one that has just become absent: since when that is so, nobody else is told before it has left.
    if own.is_none() && stamp.is_locked() {
        return Err(Refused::Locked);
    }
    let is_next = |row: &Row| row.id == id && row.stamp.is_same_version(stamp);
    if !stamp.is_absent() && !rows.next().is_some_and(is_next) {
        return Err(Refused::Changed);
    }
    match own {
        Some(own) => {
            own.extend(record, timestamp);
            Ok(())
        }
        None => record.word().extend(stamp, timestamp),
    }
}

/// A record where there was none: it must be absent, and stay so up to the timestamp.
fn validate_absent(own: Option<Own>, record: Record<'_>, timestamp: Timestamp) -> Result<(), Refused> {
    if let Some(own) = own {
        if !own.before.is_absent() {
            return Err(Refused::Changed);
        }
        own.extend(record, timestamp);
        return Ok(());
    }
    let stamp = record.word().load();
    if stamp.is_dead() {
        return Ok(());
    }
    if stamp.is_locked() {
        return Err(Refused::Locked);
    }
    if stamp.is_absent() { record.word().extend(stamp, timestamp) } else { Err(Refused::Changed) }
}

/// The largest timestamp that anything in a table is valid at.
fn last_in(table: &Table, is_own: impl Fn(RecordId) -> bool) -> Result<Timestamp> {
    let mut last = 0;
    let mut reached: Option<Key> = None;
    loop {
        let start = reached.as_ref().map_or(std::ops::Bound::Unbounded, |key| std::ops::Bound::Excluded(&**key));
        let mut seen = 0;
        let walked = table.rows.walk((start, std::ops::Bound::Unbounded), None, |_, (id, record), _| {
            let stamp = record.word().load();
            if stamp.is_locked() && !is_own(id) {
                return ControlFlow::Break(Some(Refused::Locked));
            }
            last = last.max(stamp.rts());
            seen += 1;
            if seen == STRIDE { ControlFlow::Break(None) } else { ControlFlow::Continue(()) }
        });
        match walked {
            ControlFlow::Break((_, Some(refused))) => return Err(conflict(refused)),
            ControlFlow::Break((key, None)) => reached = Some(key),
            ControlFlow::Continue(()) => return Ok(last),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Stamp;
    use crate::record::{Laid, Line};

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
        let stamp = Stamp::new(1, false);
        let laid: [Laid<[Line; 0]>; 2] = Default::default();
        let [seen, missed] = laid.each_ref().map(Laid::record);
        seen.word().store(stamp);
        missed.word().store(stamp);
        let rows = [Row { id: RecordId(7), stamp }];
        assert_eq!(meet_again(None, (RecordId(7), seen), &mut rows.iter(), 3), Ok(()));
        assert_eq!(seen.word().load().rts(), 3);
        assert_eq!(meet_again(None, (RecordId(8), missed), &mut rows.iter(), 3), Err(Refused::Changed));
        assert_eq!(meet_again(None, (RecordId(7), seen), &mut [].iter(), 3), Err(Refused::Changed));
    }
}
