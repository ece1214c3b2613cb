//! Where the records of one table lie: memory that is theirs as long as the table is there.
//!
//! A record has a number, which never moves. One that has left the index is taken up again for another key, so a number may
//! be looked at at any time, without a guard and without a count of references; whether it is still the record of the same
//! key, its protocol tells: the word's timestamp and the lock's generation only grow, through all lives of a record.
//!
//! Records are one cache line or a few, by the room that they have for a value; none is much dearer than the smallest with
//! the value outside. Locks lie apart from them, and only if they are used.
//!
//! Where many records beside each other are free and memory is short, theirs goes back to the system ([`free`]).

mod free;
mod locks;

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use ishigaki_base::Grown;
use parking_lot::Mutex;

use crate::protocol::{RecordLock, Stamp};
use crate::record::{Head, Laid, Line, MOST_LINES, Record};
use free::{Claimed, Free, RUN};
use locks::Locks;

/// The number of a record in its table: its size, and its number among those of that size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RecordId(pub(crate) u64);

/// Bits of a number that say the size.
const SIZE_BITS: u32 = 4;

/// As many parts of records are more than memory can hold.
const PARTS: usize = 26;

/// Records of one size; `2^FIRST` of them make up the first part.
struct Slab<const L: usize, const FIRST: u32> {
    records: Grown<Laid<[Line; L]>, FIRST, PARTS>,
    locks: Locks,
    unclaimed: Unclaimed,
}

/// Records without a key. Whoever inserts writes here, and is apart from those who only look at records.
#[derive(Default)]
#[repr(align(128))]
struct Unclaimed {
    /// The first number that no record has had.
    next: AtomicUsize,
    free: Mutex<Free>,
    /// Whether some are free; a hint.
    has_free: AtomicBool,
}

/// What a claimed record was before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Before {
    /// It was spare.
    Spare,
    /// It was spare once, and its memory was given back, but not its lock's.
    Blank,
}

impl<const L: usize, const FIRST: u32> Default for Slab<L, FIRST> {
    fn default() -> Self {
        Self { records: Grown::default(), locks: Locks::default(), unclaimed: Unclaimed::default() }
    }
}

impl<const L: usize, const FIRST: u32> Slab<L, FIRST> {
    /// What a record's number is less than its place in [`Free`], where every part begins at a power of two.
    const OFFSET: usize = 1 << FIRST;

    #[inline]
    fn at(&self, number: usize) -> Record<'_> {
        self.records.get(number).expect("the number was claimed here").record()
    }

    /// One that is free, if there is one; says what it was.
    fn claim(&self) -> Option<(usize, Before)> {
        let Unclaimed { free, has_free, .. } = &self.unclaimed;
        if has_free.load(Ordering::Relaxed) {
            let mut free = free.lock();
            let claimed = free.claim();
            if let Some(Claimed::Opened(first, floor)) = claimed {
                for place in first..first + RUN {
                    self.at(place - Self::OFFSET).word().store(Stamp::new(floor, true).dead());
                }
            }
            has_free.store(!free.is_empty(), Ordering::Relaxed);
            match claimed {
                Some(Claimed::Free(place)) => return Some((place - Self::OFFSET, Before::Spare)),
                Some(Claimed::Blank(place) | Claimed::Opened(place, _)) => {
                    return Some((place - Self::OFFSET, Before::Blank));
                }
                None => {}
            }
        }
        None
    }

    /// A new one.
    fn make(&self) -> usize {
        let number = self.unclaimed.next.fetch_add(1, Ordering::Relaxed);
        self.records.make(number);
        number
    }

    /// One that is spare, if there is one.
    fn claim_spare(&self) -> Option<usize> {
        if !self.unclaimed.has_free.load(Ordering::Relaxed) {
            return None;
        }
        self.unclaimed.free.lock().claim_kept().map(|place| place - Self::OFFSET)
    }

    fn give_back(&self, number: usize) {
        let mut free = self.unclaimed.free.lock();
        free.give_back(number + Self::OFFSET);
        self.unclaimed.has_free.store(true, Ordering::Relaxed);
    }

    /// Gives memory of free records back to the system, of `wanted` records if there are as many; says of how many.
    fn shrink(&self, wanted: usize) -> usize {
        if !self.unclaimed.has_free.load(Ordering::Relaxed) {
            return 0;
        }
        // A free record has no owner, and no transaction writes to the word of one that is dead: so it goes on from here.
        let floor =
            |run: Range<usize>| run.map(|place| self.at(place - Self::OFFSET).word().next_life()).max().unwrap_or(0);
        let blank = |run: Range<usize>| self.records.blank(run.start - Self::OFFSET..run.end - Self::OFFSET);
        self.unclaimed.free.lock().shrink(wanted, floor, blank)
    }
}

impl<const L: usize, const FIRST: u32> Drop for Slab<L, FIRST> {
    fn drop(&mut self) {
        for number in 0..*self.unclaimed.next.get_mut() {
            if let Some(laid) = self.records.get(number) {
                laid.record().clear();
            }
        }
    }
}

/// Declares the sizes: lines behind the head, records of the first part as a power of two (about 16 KiB).
macro_rules! sizes {
    ($($at:literal $name:ident: $lines:literal, $first:literal;)*) => {
        /// See the module.
        #[derive(Default)]
        pub(crate) struct Records {
            $($name: Slab<$lines, $first>,)*
        }

        /// Lines of the sizes, from the smallest.
        const LINES: &[usize] = &[$($lines),*];

        impl Records {
            /// The record of a number that was claimed here.
            #[inline]
            pub(crate) fn at(&self, id: RecordId) -> Record<'_> {
                match id.size() {
                    $($at => self.$name.at(id.number()),)*
                    _ => unreachable!("the number was claimed here"),
                }
            }

            /// The lock of a record that was claimed here.
            #[inline]
            pub(crate) fn lock(&self, id: RecordId) -> &RecordLock {
                match id.size() {
                    $($at => self.$name.locks.make(id.number()),)*
                    _ => unreachable!("the number was claimed here"),
                }
            }

            /// Lets the lock of a record begin again, if it was ever used.
            pub(crate) fn renew_lock(&self, id: RecordId) {
                let lock = match id.size() {
                    $($at => self.$name.locks.get(id.number()),)*
                    _ => None,
                };
                lock.inspect(|lock| lock.begin_again());
            }

            /// A record that no key has any more, with room for a value of so many bytes if there is such a size, if there is
            /// one; says what it was.
            pub(crate) fn claim(&self, room: usize) -> Option<(RecordId, Before)> {
                let size = size_for(room);
                let claimed = match size {
                    $($at => self.$name.claim(),)*
                    _ => unreachable!("there is no such size"),
                };
                claimed.map(|(number, before)| (RecordId::new(size, number), before))
            }

            /// A record that no key ever had, with room for a value of so many bytes if there is such a size.
            pub(crate) fn make(&self, room: usize) -> RecordId {
                let size = size_for(room);
                let number = match size {
                    $($at => self.$name.make(),)*
                    _ => unreachable!("there is no such size"),
                };
                RecordId::new(size, number)
            }

            /// A spare record of any size, rather of one that has room for a value of so many bytes.
            pub(crate) fn claim_spare(&self, room: usize) -> Option<RecordId> {
                let fitting = size_for(room);
                let claim = |size: usize| {
                    let number = match size {
                        $($at => self.$name.claim_spare(),)*
                        _ => unreachable!("there is no such size"),
                    };
                    number.map(|number| RecordId::new(size, number))
                };
                (fitting..LINES.len()).chain((0..fitting).rev()).find_map(claim)
            }

            /// Gives memory of spare records back to the system, at least `wanted` bytes if there are as many. Says how many,
            /// without the locks.
            pub(crate) fn shrink(&self, wanted: u64) -> u64 {
                let mut given = 0;
                $(
                    if given < wanted {
                        let of_one = record_bytes($lines);
                        let records = (wanted - given).div_ceil(of_one).try_into().unwrap_or(usize::MAX);
                        given += self.$name.shrink(records) as u64 * of_one;
                    }
                )*
                given
            }

            /// Gives back a record that no key has, when nobody can have found it by its key.
            pub(crate) fn give_back(&self, id: RecordId) {
                match id.size() {
                    $($at => self.$name.give_back(id.number()),)*
                    _ => unreachable!("the number was claimed here"),
                }
            }
        }
    };
}

sizes! {
    0 of_1: 0, 8;
    1 of_2: 1, 7;
    2 of_3: 2, 6;
    3 of_4: 3, 6;
    4 of_5: 4, 5;
    5 of_6: 5, 5;
    6 of_7: 6, 5;
    7 of_8: 7, 5;
    8 of_9: 8, 4;
    9 of_10: 9, 4;
    10 of_11: 10, 4;
    11 of_12: 11, 4;
    12 of_13: 12, 4;
    13 of_14: 13, 4;
    14 of_15: 14, 4;
    15 of_16: 15, 4;
}

const _: () = assert!(LINES[LINES.len() - 1] == MOST_LINES && LINES.len() <= 1 << SIZE_BITS);

impl RecordId {
    fn new(size: usize, number: usize) -> Self {
        Self((number as u64) << SIZE_BITS | size as u64)
    }

    #[inline]
    fn size(self) -> usize {
        (self.0 % (1 << SIZE_BITS)) as usize
    }

    #[inline]
    fn number(self) -> usize {
        (self.0 >> SIZE_BITS) as usize
    }

    /// What the record takes, without its lock.
    pub(crate) fn bytes(self) -> u64 {
        record_bytes(LINES[self.size()])
    }
}

fn record_bytes(lines: usize) -> u64 {
    (size_of::<Head>() + lines * size_of::<Line>()) as u64
}

/// The smallest size that has room for a value of so many bytes; the smallest of all if none has.
fn size_for(room: usize) -> usize {
    LINES.iter().position(|lines| room <= Record::room(*lines)).unwrap_or(0)
}

/// What a record takes that is made for a value of so many bytes, without its lock.
pub(crate) fn bytes_for(room: usize) -> u64 {
    record_bytes(LINES[size_for(room)])
}

impl fmt::Debug for Records {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Records")
    }
}

#[cfg(test)]
mod tests {
    use ishigaki_base::Position;

    use super::*;
    use crate::record::Value;
    use crate::version::{Version, counted};

    #[test]
    fn a_record_has_the_room_that_was_asked_for() {
        let records = Records::default();
        for room in [0, 1, 40, 41, 104, 105, 300, 655, 1000] {
            let id = records.make(room);
            let record = records.at(id);
            assert!(record.has_room_for(room) && !record.has_room_for(2 * room + 41), "{room}");
            assert_eq!(id.bytes(), bytes_for(room));
        }
        assert_eq!(bytes_for(1001), bytes_for(0), "it lies outside");
    }

    #[test]
    fn values_go_with_the_records() {
        counted(|values| {
            let records = Records::default();
            for room in [0, 100, 1000] {
                let record = records.at(records.make(room));
                drop(record.overwrite(Some(Value::Outside(Version::new(b"value"))), Position::NONE));
            }
            assert_eq!(values(), 3);
            drop(records);
            assert_eq!(values(), 0);
        });
    }

    #[test]
    fn what_was_given_back_is_taken_up_again() {
        let records = Records::default();
        let (first, second) = (records.make(10), records.make(10));
        assert!(first != second && records.claim(10).is_none());
        records.give_back(first);
        assert_eq!(records.claim(100), None, "it has no room for that");
        assert_eq!(records.claim(20), Some((first, Before::Spare)));
        assert_eq!(records.claim(10), None);
    }

    #[test]
    fn a_word_says_nothing_again_after_its_memory_was_given_back() {
        let records = Records::default();
        let ids: Vec<_> = (0..100_000).map(|_| records.make(100)).collect();
        let found = Stamp::new(77, false);
        for &id in &ids {
            let word = records.at(id).word();
            word.store(found);
            word.store(Stamp::new(78, true).dead());
            records.give_back(id);
        }
        let given = records.shrink(1);
        assert!(
            given > 0 && given < 100_000 * 128,
            "as much as was wanted, and no more than that and a little: {given}"
        );
        assert!(records.shrink(u64::MAX) + given > 90_000 * 128, "nearly all of it");
        let is_old = |&id: &RecordId| records.at(id).word().load().is_same_version(found);
        assert!(!ids.iter().any(is_old), "zeros are no version of any key");
        let again: Vec<_> = (0..100_000).map_while(|_| records.claim(100)).collect();
        assert!(again.iter().filter(|(_, before)| *before == Before::Blank).count() > 90_000);
        for (id, _) in again {
            assert!(records.at(id).word().begin_again() > 78 && records.at(id).is_absent());
        }
    }

    #[test]
    fn a_spare_record_of_another_size_is_better_than_none() {
        let records = Records::default();
        assert_eq!(records.claim_spare(10), None);
        let ids = [10, 100, 500].map(|room| records.make(room));
        for id in ids {
            records.give_back(id);
        }
        assert_eq!(
            [300, 300, 300, 300].map(|room| records.claim_spare(room)),
            [Some(ids[2]), Some(ids[1]), Some(ids[0]), None]
        );
    }
}
