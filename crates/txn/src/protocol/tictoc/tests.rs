//! The steps of a few transactions one after the other, in orders that threads hit rarely.

use std::time::Duration;

use ishigaki_base::{ByteSize, Lsn, StreamId};

use super::*;
use crate::memory::Memory;
use crate::table::TableId;

fn table() -> TableRef {
    Arc::new(Table::new(TableId(1), 1, &Arc::new(Memory::new(ByteSize::mib(1)))))
}

/// A transaction on one table, and what it is going to write.
struct Steps {
    table: TableRef,
    txn: TicToc,
    purse: Purse,
    writes: Vec<(RecordId, Option<&'static [u8]>)>,
}

impl Steps {
    fn begin(table: &TableRef) -> Self {
        let txn = TicToc::begin(Patience::new(Duration::ZERO, None), true);
        Self { table: Arc::clone(table), txn, purse: Purse::default(), writes: Vec::new() }
    }

    /// Says whether the key is there.
    fn get(&mut self, key: &[u8]) -> bool {
        self.txn.read(&self.table, key, |value| value.is_some()).unwrap()
    }

    /// Says how many keys there are up to one, itself included.
    fn count(&mut self, last: &[u8]) -> usize {
        let mut count = 0;
        let visit = &mut |_: &[u8], _: &[u8]| {
            count += 1;
            ControlFlow::Continue(())
        };
        self.txn.scan(&self.table, (Bound::Unbounded, Bound::Included(last)), visit).unwrap();
        count
    }

    fn put(mut self, key: &[u8]) -> Self {
        self.reserve(key, Intent::Put);
        self
    }

    fn delete(mut self, key: &[u8]) -> Self {
        self.reserve(key, Intent::Delete);
        self
    }

    fn reserve(&mut self, key: &[u8], intent: Intent) -> RecordId {
        let key = Key::new(key).unwrap();
        let reserved = self.txn.reserve(&self.table, &key, 5, intent, &mut self.purse).unwrap();
        let record = reserved.expect("there is something to delete").record;
        self.writes.push((record, (intent != Intent::Delete).then_some(b"value")));
        record
    }

    /// Takes the last write back; its record stays reserved.
    fn take_back(mut self) -> Self {
        self.writes.pop().expect("there is a write");
        self
    }

    /// Locks what it writes and has written.
    fn prepare(&mut self) -> Result<()> {
        let writes: Vec<_> = self.writes.iter().map(|(record, _)| *record).collect();
        self.txn.prepare(writes.len(), |_, _, record| writes.contains(&record))
    }

    /// Decides; commits at `floor` or later.
    fn decide(&mut self, floor: Timestamp) -> Result<Timestamp> {
        self.prepare()?;
        self.txn.decide(floor)?;
        Ok(self.txn.timestamp)
    }

    /// Writes what it has decided to write, still locked.
    fn install(&mut self) {
        for (id, value) in self.writes.drain(..) {
            let position = Position::new(Lsn(self.txn.timestamp), StreamId(0));
            drop(self.txn.install(self.table.rows.at(id), value.map(Value::Bytes), position));
        }
    }

    fn commit(mut self, floor: Timestamp) -> Result<Timestamp> {
        let decided = self.decide(floor);
        if decided.is_ok() {
            self.install();
        }
        self.rollback();
        decided
    }

    /// Lets go of everything, whatever was installed.
    fn rollback(mut self) {
        self.txn.release(|_| false);
    }
}

fn put(table: &TableRef, key: &[u8]) -> Timestamp {
    Steps::begin(table).put(key).commit(0).unwrap()
}

fn is_conflict<T>(result: &Result<T>) -> bool {
    matches!(result, Err(Error::Conflict { .. }))
}

#[test]
fn a_key_that_came_and_went_while_its_absence_was_validated_is_noticed() {
    for comes in [false, true] {
        let table = table();
        let mut reader = Steps::begin(&table);
        assert!(!reader.get(b"key"));
        let TicToc { sets, depends_on, .. } = &mut reader.txn;
        let timestamp = sets.timestamp(depends_on, 1).unwrap();
        if comes {
            assert_eq!(put(&table, b"key"), timestamp, "at that moment it is there");
            Steps::begin(&table).delete(b"key").commit(0).unwrap();
        }
        assert_eq!(is_conflict(&sets.validate(timestamp)), comes);
    }
}

#[test]
fn a_key_that_came_and_is_about_to_go_was_not_absent_all_the_time() {
    let reads: [fn(&mut Steps) -> usize; 2] = [|reader| usize::from(reader.get(b"key")), |reader| reader.count(b"z")];
    for read in reads {
        let table = table();
        let mut reader = Steps::begin(&table);
        assert_eq!(read(&mut reader), 0);
        put(&table, b"key");
        let mut deletion = Steps::begin(&table).delete(b"key");
        assert_eq!(deletion.decide(100).unwrap(), 100);
        deletion.install();
        assert!(is_conflict(&reader.commit(50)));
        deletion.rollback();
    }
}

#[test]
fn what_was_read_again_for_a_validation_is_overwritten_only_behind_it() {
    let table = table();
    put(&table, b"a");
    let mut reader = Steps::begin(&table);
    assert_eq!(reader.count(b"b"), 1);
    put(&table, b"c");
    let read = reader.commit(50).unwrap();
    assert!(read >= 50 && put(&table, b"a") > read);
}

#[test]
fn who_missed_a_key_comes_before_whoever_has_begun_to_insert_it() {
    let table = table();
    let mut reader = Steps::begin(&table);
    assert!(!reader.get(b"key"));
    let writer = Steps::begin(&table).put(b"key");
    let read = reader.commit(50).unwrap();
    assert!(read >= 50 && writer.commit(0).unwrap() > read);
}

#[test]
fn who_read_an_absence_from_a_record_comes_before_those_who_insert_when_that_is_gone() {
    let table = table();
    let passing = Steps::begin(&table).put(b"key");
    let mut reader = Steps::begin(&table);
    assert!(!reader.get(b"key"));
    let read = reader.commit(50).unwrap();
    passing.rollback();
    assert!(read >= 50 && put(&table, b"key") > read);
}

#[test]
fn who_misses_a_key_comes_behind_its_deletion() {
    let table = table();
    put(&table, b"key");
    let deleted = Steps::begin(&table).delete(b"key").commit(50).unwrap();
    let mut reader = Steps::begin(&table);
    assert!(!reader.get(b"key"));
    assert!(deleted >= 50 && reader.commit(0).unwrap() >= deleted);
}

#[test]
fn a_deletion_at_the_end_of_a_range_is_noticed() {
    let table = table();
    put(&table, b"a");
    put(&table, b"b");
    let mut reader = Steps::begin(&table);
    assert_eq!(reader.count(b"c"), 2);
    Steps::begin(&table).delete(b"b").commit(0).unwrap();
    assert!(is_conflict(&reader.commit(50)));
}

#[test]
fn who_drops_a_table_gives_way_to_whoever_has_decided_to_write_to_it() {
    let table = table();
    put(&table, b"key");
    let mut writer = Steps::begin(&table).put(b"key");
    writer.decide(50).unwrap();
    let mut dropper = Steps::begin(&table);
    dropper.txn.monopolize(&table).unwrap();
    assert!(is_conflict(&dropper.commit(0)));
    writer.install();
    writer.rollback();
}

#[test]
fn who_drops_a_table_comes_behind_whoever_made_it() {
    let table = table();
    table.word.store(Stamp::new(30, false));
    let mut dropper = Steps::begin(&table);
    dropper.txn.monopolize(&table).unwrap();
    assert!(dropper.commit(0).unwrap() > 30);
}

#[test]
fn whoever_finds_anything_in_a_table_comes_behind_whoever_made_it() {
    let table = table();
    let mut maker = Steps::begin(&self::table());
    assert_eq!(maker.decide(30).unwrap(), 30);
    maker.txn.installed_table(&table);
    maker.rollback();
    let mut reader = Steps::begin(&table);
    assert!(!reader.get(b"key"));
    for user in [reader, Steps::begin(&table).put(b"key")] {
        assert!(user.commit(0).unwrap() >= 30);
    }
}

#[test]
fn who_has_seen_a_row_of_a_range_comes_behind_whoever_wrote_it() {
    let table = table();
    let written = Steps::begin(&table).put(b"key").commit(50).unwrap();
    let mut reader = Steps::begin(&table);
    assert_eq!(reader.count(b"z"), 1);
    assert!(written >= 50 && reader.commit(0).unwrap() >= written);
}

#[test]
fn a_record_that_has_just_left_the_index_is_not_read() {
    let table = table();
    let mut writer = Steps::begin(&table);
    let id = writer.reserve(b"key", Intent::Put);
    let word = table.rows.at(id).word();
    word.store(word.load().dead());
    let mut reader = Steps::begin(&table);
    assert!(is_conflict(&reader.txn.read(&table, b"key", |_| ())), "he waits until another look shows what is there");
    assert_eq!(reader.count(b"z"), 0);
    reader.commit(0).unwrap();
}

#[test]
fn a_record_that_has_become_another_keys_is_not_that_of_a_key_that_has_a_new_one() {
    let table = table();
    let mut first = Steps::begin(&table);
    let record = first.reserve(b"key", Intent::Put);
    first.commit(0).unwrap();
    let late = Steps::begin(&table).put(b"key");
    Steps::begin(&table).delete(b"key").commit(0).unwrap();
    // What was given back last is claimed first.
    let can_be_taken_up = (0..1_000_000).any(|_| {
        Guard::new().accelerate();
        std::thread::yield_now();
        let (claimed, _) = table.claim_for_recovery(5);
        table.disclaim(claimed);
        claimed == record
    });
    assert!(can_be_taken_up);
    let mut other = Steps::begin(&table);
    assert_eq!(other.reserve(b"other", Intent::Put), record);
    other.commit(0).unwrap();
    put(&table, b"key");
    assert!(is_conflict(&late.commit(0)));
}

#[test]
fn own_insertions_are_no_change_of_what_was_seen_and_those_of_others_are() {
    let table = table();
    put(&table, b"b");
    for others in [false, true] {
        let mut txn = Steps::begin(&table);
        txn.count(b"z");
        if others {
            put(&table, b"c");
        }
        let txn = txn.put(if others { b"d" } else { b"a" });
        let Touched { table, seen, .. } = &txn.txn.sets.tables[0];
        assert_eq!(table.rows.unchanged(seen), !others);
        txn.rollback();
    }
}

#[test]
fn who_has_read_what_another_one_has_locked_gives_way() {
    let table = table();
    put(&table, b"x");
    let mut reader = Steps::begin(&table);
    assert!(reader.get(b"x"));
    let mut writer = Steps::begin(&table).put(b"x");
    writer.prepare().unwrap();
    assert!(is_conflict(&reader.commit(50)));
    writer.rollback();
}

#[test]
fn own_writes_to_what_was_read_are_in_nobodys_way_and_those_of_others_are() {
    for others in [false, true] {
        let table = table();
        put(&table, b"a");
        let mut txn = Steps::begin(&table);
        assert!(txn.get(b"a") && txn.count(b"z") == 1);
        if others {
            put(&table, b"a");
        }
        assert_eq!(is_conflict(&txn.put(b"a").commit(0)), others);
    }
}

/// No version comes behind the one that was read, so nothing but its own range keeps later writers behind the reader.
#[test]
fn what_was_read_and_not_written_after_all_is_overwritten_only_behind_it() {
    let reads: [fn(&mut Steps) -> bool; 2] = [|reader| reader.get(b"key"), |reader| reader.count(b"key") > 0];
    for read in reads {
        for comes in [false, true] {
            let table = table();
            put(&table, b"key");
            let mut reader = Steps::begin(&table);
            assert!(read(&mut reader));
            let mut reader = reader.put(b"key").take_back();
            if comes {
                // The index has changed, so that ranges are read again.
                put(&table, b"other");
                reader.reserve(b"more", Intent::Put);
            }
            let read = reader.commit(50).unwrap();
            assert!(read >= 50 && put(&table, b"key") > read);
        }
    }
}

#[test]
fn an_absence_that_was_read_and_not_ended_after_all_is_ended_only_behind_it() {
    for others in [false, true] {
        let table = table();
        let passing = others.then(|| Steps::begin(&table).put(b"key"));
        let mut reader = Steps::begin(&table);
        if others {
            assert!(!reader.get(b"key"));
        }
        let mut reader = reader.put(b"key").take_back();
        assert!(!reader.get(b"key"));
        let read = reader.commit(50).unwrap();
        if let Some(passing) = passing {
            passing.rollback();
        }
        assert!(read >= 50 && put(&table, b"key") > read);
    }
}

#[test]
fn what_was_not_written_after_all_needs_no_timestamp_behind_its_readers() {
    let table = table();
    put(&table, b"key");
    let mut reader = Steps::begin(&table);
    assert!(reader.get(b"key"));
    assert_eq!(reader.commit(50).unwrap(), 50);
    assert!(Steps::begin(&table).put(b"key").take_back().commit(0).unwrap() <= 50);
}
