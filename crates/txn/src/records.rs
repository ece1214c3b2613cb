//! Where the records of one table lie: memory that is theirs as long as the table is there.
//!
//! A record has a number, which never moves. One that has left the index is taken up again for another key, so a number may
//! be looked at at any time, without a guard and without a count of references; whether it is still the record of the same
//! key, its protocol tells: the word's timestamp and the lock's generation only grow, through all lives of a record.
//!
//! Records lie in chunks, chunks in levels of 1, 2, 4 … of them, so that growing moves nothing.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::record::Record;

/// Records of a chunk.
const CHUNK: u64 = 1 << CHUNK_BITS;
const CHUNK_BITS: u32 = 9;

/// More than memory can hold.
const LEVELS: usize = 40;

type Chunk = Box<[Record]>;
type Level = Box<[OnceLock<Chunk>]>;

/// The number of a record in its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RecordId(pub(crate) u64);

/// See the module.
pub(crate) struct Records {
    levels: [OnceLock<Level>; LEVELS],
    /// The first number that no record has had.
    next: AtomicU64,
    free: Mutex<Vec<RecordId>>,
    /// How many are free; a hint.
    free_count: AtomicUsize,
}

impl Default for Records {
    fn default() -> Self {
        Self {
            levels: [const { OnceLock::new() }; LEVELS],
            next: AtomicU64::new(0),
            free: Mutex::default(),
            free_count: AtomicUsize::new(0),
        }
    }
}

/// Level and place of a chunk.
#[inline]
fn place(chunk: u64) -> (usize, usize) {
    let level = (chunk + 1).ilog2();
    (level as usize, (chunk + 1 - (1 << level)) as usize)
}

impl Records {
    /// The record of a number that was claimed here.
    #[inline]
    pub(crate) fn at(&self, id: RecordId) -> &Record {
        let (level, at) = place(id.0 >> CHUNK_BITS);
        let chunk = self.levels[level].get().and_then(|level| level[at].get());
        &chunk.expect("the number was claimed here")[(id.0 % CHUNK) as usize]
    }

    /// A record that no key has; says whether no key ever had it.
    pub(crate) fn claim(&self) -> (RecordId, bool) {
        if self.free_count.load(Ordering::Relaxed) > 0
            && let Some(id) = self.take_free()
        {
            return (id, false);
        }
        let id = RecordId(self.next.fetch_add(1, Ordering::Relaxed));
        let (level, at) = place(id.0 >> CHUNK_BITS);
        let level = self.levels[level].get_or_init(|| (0..1_u64 << level).map(|_| OnceLock::new()).collect());
        level[at].get_or_init(|| (0..CHUNK).map(|_| Record::default()).collect());
        (id, true)
    }

    /// Gives back a record that no key has, when nobody can have found it by its key.
    pub(crate) fn give_back(&self, id: RecordId) {
        let mut free = self.free.lock();
        free.push(id);
        self.free_count.store(free.len(), Ordering::Relaxed);
    }

    fn take_free(&self) -> Option<RecordId> {
        let mut free = self.free.lock();
        let id = free.pop();
        self.free_count.store(free.len(), Ordering::Relaxed);
        id
    }
}

impl fmt::Debug for Records {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Records").field("claimed", &self.next).field("free", &self.free_count).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_record_has_a_place_of_its_own() {
        let records = Records::default();
        let ids: Vec<_> = (0..5 * CHUNK + 3).map(|_| records.claim()).collect();
        assert!(ids.iter().all(|(_, is_new)| *is_new));
        let mut addresses: Vec<_> = ids.iter().map(|(id, _)| std::ptr::from_ref(records.at(*id)).addr()).collect();
        addresses.sort_unstable();
        assert!(addresses.windows(2).all(|pair| pair[1] - pair[0] >= size_of::<Record>()));
    }

    #[test]
    fn what_was_given_back_is_taken_up_again() {
        let records = Records::default();
        let ((first, _), (second, _)) = (records.claim(), records.claim());
        records.give_back(first);
        assert_eq!(records.claim(), (first, false));
        assert!(!matches!(records.claim(), (id, _) if id == first || id == second));
    }
}
