//! Every interleaving of a few threads over the word of a record, and over the absences of a table: the steps that the
//! optimistic protocol is made of.
//!
//! Runs only under the model checker: `RUSTFLAGS="--cfg loom" cargo test -p ishigaki-txn --test loom --release`.

#![cfg(loom)]

use ishigaki_txn::model::{Absences, Refused, Stamp, Timestamp, Word};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering, fence};
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
