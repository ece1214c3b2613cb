//! Every interleaving of a few threads over a record, over its word, and over the absences of a table: reading while
//! somebody writes, and the steps that the optimistic protocol is made of.
//!
//! Runs only under the model checker: `RUSTFLAGS="--cfg loom" cargo test -p ishigaki-txn --test loom --release`.

#![cfg(loom)]

use ishigaki_txn::model::{Absences, Pair, Refused, Stamp, Timestamp, Word};
use loom::sync::atomic::{AtomicU64, Ordering, fence};
use loom::sync::{Arc, RwLock};
use loom::thread;

/// A record: its word, and what the word protects.
#[derive(Default)]
struct Record {
    word: Word,
    value: AtomicU64,
    version: AtomicU64,
}

impl Record {
    fn read(&self) -> Option<(Stamp, (u64, u64))> {
        self.word.read(|| (self.value.load(Ordering::Acquire), self.version.load(Ordering::Acquire)))
    }

    /// Writes at the least timestamp that may be, which is also what it writes.
    fn write(&self) -> Result<Timestamp, Refused> {
        let timestamp = self.word.try_lock()?.rts() + 1;
        self.install(timestamp);
        Ok(timestamp)
    }

    fn install(&self, timestamp: Timestamp) {
        self.value.swap(timestamp, Ordering::AcqRel);
        self.version.store(timestamp, Ordering::Release);
        self.word.store(Stamp::new(timestamp, false).locked());
        self.word.store(Stamp::new(timestamp, false));
    }
}

#[test]
fn a_read_never_shows_parts_of_two_versions() {
    loom::model(|| {
        let record = Arc::new(Record::default());
        let writer = thread::spawn({
            let record = record.clone();
            move || (record.write().unwrap(), record.write().unwrap())
        });
        if let Some((stamp, (value, version))) = record.read() {
            assert!(value == version && stamp.wts() == value, "{stamp:?} {value} {version}");
        }
        assert_eq!(writer.join().unwrap(), (1, 2));
    });
}

/// As checkpoints do, and snapshots, and locking after it has locked.
#[test]
fn who_reads_without_any_right_sees_one_write_whole() {
    loom::model(|| {
        let record = Arc::new(Pair::default());
        record.overwrite(1);
        let writer = thread::spawn({
            let record = record.clone();
            move || record.overwrite(2)
        });
        let (lsn, value) = record.settled().unwrap();
        assert_eq!(value, [lsn; 2]);
        writer.join().unwrap();
        assert_eq!(record.settled(), Some((2, [2; 2])));
    });
}

#[test]
fn who_reads_by_the_word_sees_one_write_whole() {
    loom::model(|| {
        let record = Arc::new(Pair::default());
        let write = |record: &Pair, lsn| {
            assert!(record.lock());
            record.install(lsn);
        };
        write(&record, 1);
        let writer = thread::spawn({
            let record = record.clone();
            move || write(&record, 2)
        });
        if let Some((version, row)) = record.read() {
            assert_eq!(row, Some((version, [version; 2])));
        }
        writer.join().unwrap();
        assert_eq!(record.read(), Some((2, Some((2, [2; 2])))));
    });
}

#[test]
fn whoever_overwrites_comes_behind_all_who_have_read() {
    loom::model(|| {
        let record = Arc::new(Record::default());
        let reader = |timestamp| {
            let record = record.clone();
            move || record.word.extend(Stamp::default(), timestamp).is_ok().then_some(timestamp)
        };
        let readers = [thread::spawn(reader(3)), thread::spawn(reader(5))];
        let written = record.write().unwrap();
        let read = readers.map(|reader| reader.join().unwrap()).into_iter().flatten().max();
        assert!(read < Some(written), "written at {written}, read at {read:?}");
    });
}

#[test]
fn of_two_who_write_what_the_other_has_read_one_gives_way() {
    /// Locks one record, and has the other one valid at its own timestamp; writes nothing.
    fn prepare(own: &Record, other: &Record) -> bool {
        let Some((seen, _)) = other.read() else { return false };
        let Ok(before) = own.word.try_lock() else { return false };
        let timestamp = seen.wts().max(before.rts() + 1);
        let valid = other.word.extend(seen, timestamp).is_ok();
        if valid {
            own.install(timestamp);
        } else {
            own.word.store(before);
        }
        valid
    }
    loom::model(|| {
        let records = Arc::new([Record::default(), Record::default()]);
        let other = thread::spawn({
            let records = records.clone();
            move || prepare(&records[1], &records[0])
        });
        let this = prepare(&records[0], &records[1]);
        let other = other.join().unwrap();
        let stamps = [records[0].word.load(), records[1].word.load()];
        if this && other {
            // One of them has read what the other one wrote: it comes behind.
            assert_ne!(stamps[0].wts(), stamps[1].wts(), "{stamps:?}");
        }
    });
}

#[test]
fn whoever_inserts_comes_behind_all_who_found_the_key_absent() {
    loom::model(|| {
        let absences = Arc::new(Absences::default());
        // Whether the index has the record.
        let index = Arc::new(AtomicU64::new(0));
        let reader = |timestamp| {
            let (absences, index) = (absences.clone(), index.clone());
            move || {
                absences.extend(timestamp);
                (index.load(Ordering::Acquire) == 0).then_some(timestamp)
            }
        };
        let readers = [thread::spawn(reader(3)), thread::spawn(reader(5))];
        index.store(1, Ordering::Release);
        let inserted = absences.of_new_record(0).rts() + 1;
        let read = readers.map(|reader| reader.join().unwrap()).into_iter().flatten().max();
        assert!(read < Some(inserted), "inserted at {inserted}, read at {read:?}");
    });
}

#[test]
fn a_key_that_came_and_went_meanwhile_is_not_taken_for_absent_all_the_time() {
    loom::model(|| {
        let absences = Arc::new(Absences::default());
        let index = Arc::new(AtomicU64::new(0));
        let reader = thread::spawn({
            let (absences, index) = (absences.clone(), index.clone());
            move || {
                let since = absences.since();
                let timestamp = since.max(1);
                absences.extend(timestamp);
                let is_absent = index.load(Ordering::Acquire) == 0;
                (is_absent && absences.since() == since).then_some(timestamp)
            }
        });
        index.store(1, Ordering::Release);
        let inserted = absences.of_new_record(0).rts() + 1;
        let deleted = inserted + 1;
        absences.take_over(Stamp::new(deleted, true));
        index.store(0, Ordering::Release);
        if let Some(read) = reader.join().unwrap() {
            assert!(read < inserted || deleted <= read, "read at {read}, there from {inserted} to {deleted}");
        }
    });
}

#[test]
fn whoever_drops_a_table_comes_behind_all_who_have_read_it() {
    loom::model(|| {
        let (table, record) = (Arc::new(Word::default()), Arc::new(Record::default()));
        let reader = thread::spawn({
            let (table, record) = (table.clone(), record.clone());
            move || {
                let (seen, _) = record.read()?;
                record.word.extend(seen, 3).ok()?;
                fence(Ordering::SeqCst);
                let stamp = table.load();
                (!stamp.is_locked()).then_some(3)
            }
        });
        table.try_lock().unwrap();
        fence(Ordering::SeqCst);
        let dropped = record.word.load().rts() + 1;
        let read = reader.join().unwrap();
        assert!(read < Some(dropped), "dropped at {dropped}, read at {read:?}");
    });
}

/// The gates of two commits, and what a cut takes from them.
#[derive(Default)]
struct Gates {
    each: [RwLock<()>; 2],
    timestamps: [AtomicU64; 2],
    floor: AtomicU64,
}

/// Reads `other` and writes `own`, deciding while it holds its gate; says its timestamp.
fn commit(gates: &Gates, gate: usize, own: &Record, other: Option<&Record>) -> Option<Timestamp> {
    let seen = match other {
        Some(other) => Some((other, other.read()?.0)),
        None => None,
    };
    let before = own.word.try_lock().ok()?;
    let _passage = gates.each[gate].read().unwrap();
    let floor = gates.floor.load(Ordering::Relaxed);
    let timestamp = seen.map_or(0, |(_, seen)| seen.wts()).max(before.rts() + 1).max(floor);
    let valid = seen.is_none_or(|(other, seen)| other.word.extend(seen, timestamp).is_ok());
    if valid {
        own.install(timestamp);
        gates.timestamps[gate].store(timestamp, Ordering::Relaxed);
    } else {
        own.word.store(before);
    }
    valid.then_some(timestamp)
}

/// One reads what the other overwrites. Whoever is behind the cut comes behind whoever is before it.
#[test]
fn nobody_behind_a_cut_comes_before_it() {
    loom::model(|| {
        let shared = Arc::new((Gates::default(), Record::default(), Record::default()));
        // Read by somebody, long ago: for all that its readers know, it is valid for long.
        shared.2.word.extend(Stamp::default(), 5).unwrap();
        let spawn = |gate: usize| {
            let shared = shared.clone();
            thread::spawn(move || {
                let (gates, x, y) = &*shared;
                if gate == 0 { commit(gates, 0, x, Some(y)) } else { commit(gates, 1, y, None) }
            })
        };
        let (withdrawal, deposit) = (spawn(0), spawn(1));
        let (gates, x, y) = &*shared;
        let shown = {
            let _closed = (gates.each[0].write().unwrap(), gates.each[1].write().unwrap());
            let last = gates.timestamps.iter().map(|last| last.load(Ordering::Relaxed)).max().unwrap();
            gates.floor.store(last + 1, Ordering::Relaxed);
            [x.value.load(Ordering::Relaxed), y.value.load(Ordering::Relaxed)]
        };
        let committed = [withdrawal.join().unwrap(), deposit.join().unwrap()];
        let timestamps =
            |before: bool| (0..2).filter(move |&at| (shown[at] > 0) == before).filter_map(move |at| committed[at]);
        if let (Some(last), Some(first)) = (timestamps(true).max(), timestamps(false).min()) {
            assert!(last < first, "{shown:?} {committed:?}");
        }
    });
}
