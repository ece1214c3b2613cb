//! Where the records of one table lie: memory that is theirs as long as the table is there.
//!
//! A record has a number, which never moves. One that has left the index is taken up again for another key, so a number may
//! be looked at at any time, without a guard and without a count of references; whether it is still the record of the same
//! key, its protocol tells: the word's timestamp and the lock's generation only grow, through all lives of a record.
//!
//! Records are one cache line or a few, by the room that they have for a value; none is much dearer than the smallest with
//! the value outside. Locks lie apart from them, and only if they are used.

mod locks;

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

use ishigaki_base::Grown;
use parking_lot::Mutex;

use crate::protocol::RecordLock;
use crate::record::{Head, Laid, Line, MOST_LINES, Record};
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
    free: Mutex<Vec<usize>>,
    /// How many are free; a hint.
    free_count: AtomicUsize,
}

impl<const L: usize, const FIRST: u32> Default for Slab<L, FIRST> {
    fn default() -> Self {
        Self { records: Grown::default(), locks: Locks::default(), unclaimed: Unclaimed::default() }
    }
}

impl<const L: usize, const FIRST: u32> Slab<L, FIRST> {
    #[inline]
    fn at(&self, number: usize) -> Record<'_> {
        self.records.get(number).expect("the number was claimed here").record()
    }

    fn claim(&self) -> (usize, bool) {
        let Unclaimed { next, free, free_count } = &self.unclaimed;
        if free_count.load(Ordering::Relaxed) > 0 {
            let mut free = free.lock();
            let number = free.pop();
            free_count.store(free.len(), Ordering::Relaxed);
            if let Some(number) = number {
                return (number, false);
            }
        }
        let number = next.fetch_add(1, Ordering::Relaxed);
        self.records.make(number);
        (number, true)
    }

    fn give_back(&self, number: usize) {
        let mut free = self.unclaimed.free.lock();
        free.push(number);
        self.unclaimed.free_count.store(free.len(), Ordering::Relaxed);
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

            /// A record that no key has, with room for a value of so many bytes if there is such a size; says whether no key
            /// ever had it.
            pub(crate) fn claim(&self, room: usize) -> (RecordId, bool) {
                let size = size_for(room);
                let (number, is_new) = match size {
                    $($at => self.$name.claim(),)*
                    _ => unreachable!("there is no such size"),
                };
                (RecordId((number as u64) << SIZE_BITS | size as u64), is_new)
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

/// What a record takes that is claimed for a value of so many bytes, without its lock.
#[cfg(test)]
fn bytes_for(room: usize) -> u64 {
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
            let (id, _) = records.claim(room);
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
                let record = records.at(records.claim(room).0);
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
        let ((first, _), (second, _)) = (records.claim(10), records.claim(10));
        records.give_back(first);
        assert_ne!(records.claim(100).0, first, "it has no room for that");
        assert_eq!(records.claim(20), (first, false));
        assert!(!matches!(records.claim(10), (id, _) if id == first || id == second));
    }
}
