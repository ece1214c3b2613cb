//! The rows of one table: keys in order, and their records.
//!
//! The index knows a record by its number ([`records`](crate::records)). A record that leaves the index is taken up again
//! when all guards are gone that were there at that time; so who has found it by its key has the record of that key as long
//! as the guard lasts, and later must ask the record itself.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ishigaki_index::{Change, Glance, Index, Seen, prefetch_soon};
use sdd::Guard;

use crate::key::{Key, KeyRange};
use crate::protocol::RecordLock;
use crate::record::Record;
use crate::records::{Before, RecordId, Records};

/// Key to record, in key order.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    index: Index,
    records: Records,
    /// Records that have left the index and are not spare yet.
    leaving: AtomicU64,
}

/// How a walk ended before the end of its range: at which key, and why.
pub(crate) type Walked<B> = ControlFlow<(Key, B)>;

impl Rows {
    /// The record of a number.
    #[inline]
    pub(crate) fn at(&self, id: RecordId) -> Record<'_> {
        self.records.at(id)
    }

    /// The lock of the record of a number.
    #[inline]
    pub(crate) fn lock(&self, id: RecordId) -> &RecordLock {
        self.records.lock(id)
    }

    /// The record of a key.
    #[inline]
    pub(crate) fn find(&self, key: &[u8], guard: &Guard) -> Option<(RecordId, Record<'_>)> {
        self.index.get(key, guard).map(|number| self.record(number))
    }

    /// The record of a key; if there is none, `seen` can tell later whether that is still so.
    #[inline]
    pub(crate) fn find_or_see(&self, key: &[u8], seen: &mut Seen, guard: &Guard) -> Option<(RecordId, Record<'_>)> {
        self.index.get_or_see(key, seen, guard).map(|number| self.record(number))
    }

    /// The record of a key, without a guard, if one attempt does. It is the key's if that is
    /// [still so](Glance::is_still_so) when it has been looked at.
    #[inline]
    pub(crate) fn glance(&self, key: &[u8]) -> Option<(Glance<'_>, Option<(RecordId, Record<'_>)>)> {
        let glance = self.index.glance(key)?;
        Some((glance, glance.number().map(|number| self.record(number))))
    }

    /// Looks up several keys side by side, tells `found` of each that there is its place in `keys` and its record, and asks
    /// for the memory of that.
    pub(crate) fn find_each<K: AsRef<[u8]>>(&self, keys: &[K], guard: &Guard, mut found: impl FnMut(usize, RecordId)) {
        self.index.get_each(keys, guard, |at, number| {
            if let Some(number) = number {
                let (id, record) = self.record(number);
                record.prefetch();
                found(at, id);
            }
        });
    }

    /// True if no key has come into or gone out of what was seen here.
    pub(crate) fn unchanged(&self, seen: &Seen) -> bool {
        self.index.unchanged(seen)
    }

    /// A record that no key has any more, with room for a value of so many bytes, if a record can have that and there is one.
    /// Says, too, what it was.
    pub(crate) fn claim(&self, room: usize) -> Option<(RecordId, Before)> {
        self.records.claim(room)
    }

    /// A record that no key ever had, with room for a value of so many bytes, if a record can have that.
    pub(crate) fn make(&self, room: usize) -> RecordId {
        self.records.make(room)
    }

    /// A spare record of any size, rather of one with room for a value of so many bytes.
    pub(crate) fn claim_spare(&self, room: usize) -> Option<RecordId> {
        self.records.claim_spare(room)
    }

    /// Gives memory of spare records back to the system, at least `wanted` bytes if there are as many; says how many.
    pub(crate) fn shrink(&self, wanted: u64) -> u64 {
        self.records.shrink(wanted)
    }

    /// Bytes of the index: in use, and kept for keys to come.
    pub(crate) fn index_bytes(&self) -> u64 {
        self.index.memory().0
    }

    /// Bytes of the index that are not in use and stay with it.
    pub(crate) fn index_spare(&self) -> u64 {
        self.index.spare().0
    }

    /// Gives back a record that was claimed, and that nobody else has ever seen.
    pub(crate) fn disclaim(&self, id: RecordId) {
        self.give_back(id);
    }

    /// Gives a key its record; nothing happens, and nothing is returned, if it has one.
    pub(crate) fn insert(&self, key: &[u8], id: RecordId, guard: &Guard) -> Option<Change> {
        self.index.insert(key, id.0, guard).ok()
    }

    /// Takes the record of a key out, if it is still this one.
    pub(crate) fn remove(self: &Arc<Self>, key: &[u8], id: RecordId, guard: &Guard) -> bool {
        let removed = self.index.remove_if(key, |number| number == id.0, guard).is_some();
        if removed {
            self.leaving.fetch_add(1, Ordering::Relaxed);
            let rows = Arc::downgrade(self);
            guard.defer_execute(move || {
                if let Some(rows) = rows.upgrade() {
                    rows.take_up_again(id);
                }
            });
        }
        removed
    }

    /// Shows the records of a range in key order until `visit` breaks; then tells at which key, and why. No key is shown twice
    /// and keys only grow, also when the index is rebuilt meanwhile.
    pub(crate) fn walk<B>(
        &self,
        range: KeyRange<'_>,
        seen: Option<&mut Seen>,
        mut visit: impl FnMut(&[u8], (RecordId, Record<'_>), &Guard) -> ControlFlow<B>,
    ) -> Walked<B> {
        let guard = Guard::new();
        let soon = |number| prefetch_soon(self.records.at(RecordId(number)).word());
        self.index.walk(range, seen, &guard, soon, |key, number| match visit(key, self.record(number), &guard) {
            ControlFlow::Continue(()) => ControlFlow::Continue(()),
            ControlFlow::Break(why) => ControlFlow::Break((Key::of_bound(key), why)),
        })
    }

    /// Lets a record that nobody can have found by its key begin again.
    fn take_up_again(&self, id: RecordId) {
        self.at(id).clear();
        self.records.renew_lock(id);
        self.give_back(id);
        self.leaving.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether records have left the index that are not spare yet.
    pub(crate) fn has_leaving(&self) -> bool {
        self.leaving.load(Ordering::Relaxed) > 0
    }

    /// Unless it is worn out: its timestamps can not grow.
    fn give_back(&self, id: RecordId) {
        if self.at(id).word().can_begin_again() {
            self.records.give_back(id);
        }
    }

    #[inline]
    fn record(&self, number: u64) -> (RecordId, Record<'_>) {
        let id = RecordId(number);
        (id, self.records.at(id))
    }
}

/// The part of a range that begins right behind `key`.
pub(crate) fn behind<'a>(key: &'a Key, end: Bound<&'a [u8]>) -> KeyRange<'a> {
    (Bound::Excluded(key), end)
}

#[cfg(test)]
mod tests {
    use ishigaki_base::Position;

    use super::*;
    use crate::protocol::{LAST, Stamp};
    use crate::record::Value;
    use crate::version::{Version, counted};

    #[test]
    fn a_record_is_taken_up_again_when_nobody_can_have_found_it() {
        counted(|values| {
            let rows = Arc::new(Rows::default());
            let id = rows.make(8);
            let record = rows.at(id);
            drop(record.overwrite(Some(Value::Outside(Version::new(b"value"))), Position::NONE));
            let life = rows.lock(id).generation();
            assert!(rows.insert(b"key", id, &Guard::new()).is_some());
            let guard = Guard::new();
            assert!(rows.remove(b"key", id, &guard) && !rows.remove(b"key", id, &guard));
            assert_eq!(rows.claim(8), None, "a guard is still there");
            assert_eq!(values(), 1);
            drop(guard);
            assert_eq!(claim_again(&rows), Some(id));
            assert!(rows.at(id).is_absent() && values() == 0, "nothing of the last key is left");
            assert_ne!(rows.lock(id).generation(), life);
        });
    }

    #[test]
    fn a_record_whose_timestamps_are_used_up_is_not_taken_up_again() {
        let (rows, guard) = (Arc::new(Rows::default()), Guard::new());
        let [_, living] = [(LAST, b"worn"), (LAST - 1, b"once")].map(|(last, key)| {
            let id = rows.make(8);
            let record = rows.at(id);
            record.word().store(Stamp::new(last, true).dead());
            assert!(rows.insert(key, id, &guard).is_some() && rows.remove(key, id, &guard));
            id
        });
        drop(guard);
        assert_eq!(claim_again(&rows), Some(living));
        assert_eq!(rows.claim(8), None, "that was all");
    }

    /// A record that some key had, once nobody can have found it.
    fn claim_again(rows: &Rows) -> Option<RecordId> {
        (0..1_000_000).find_map(|_| {
            Guard::new().accelerate();
            std::thread::yield_now();
            rows.claim(8).map(|(claimed, _)| claimed)
        })
    }

    #[test]
    fn only_the_record_itself_is_removed() {
        let (rows, guard) = (Arc::new(Rows::default()), Guard::new());
        let (one, other) = (rows.make(8), rows.make(8));
        assert!(rows.insert(b"key", one, &guard).is_some() && rows.insert(b"key", other, &guard).is_none());
        assert!(!rows.remove(b"key", other, &guard));
        assert_eq!(rows.find(b"key", &guard).map(|(id, _)| id), Some(one));
    }
}
