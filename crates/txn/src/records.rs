//! Where the records of one table lie: memory that is theirs as long as the table is there.
//!
//! A record has a number, which never moves. One that has left the index is taken up again for another key, so a number may
//! be looked at at any time, without a guard and without a count of references; whether it is still the record of the same
//! key, its protocol tells: the word's timestamp and the lock's generation only grow, through all lives of a record.
//!
//! Records are one cache line or a few, by the room that they have for a value; none is much dearer than the smallest with
//! the value outside. Locks lie apart from them, and only if they are used.

mod grown;

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::protocol::RecordLock;
use crate::record::{Head, Line, MOST_LINES, Record};
use grown::Grown;

/// The number of a record in its table: its size, and its number among those of that size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RecordId(pub(crate) u64);

/// Bits of a number that say the size.
const SIZE_BITS: u32 = 4;

/// A record with room for values in so many lines behind its head.
#[derive(Debug)]
#[repr(C)]
struct Sized<const L: usize> {
    head: Head,
    tail: [Line; L],
}

impl<const L: usize> Default for Sized<L> {
    fn default() -> Self {
        Self { head: Head::default(), tail: std::array::from_fn(|_| Line::default()) }
    }
}

/// Records of one size; `N` of them and their tails make up a chunk.
struct Slab<const L: usize, const N: usize> {
    records: Grown<Sized<L>, N>,
    locks: Grown<RecordLock, N>,
    /// The first number that no record has had.
    next: AtomicUsize,
    free: Mutex<Vec<usize>>,
    /// How many are free; a hint.
    free_count: AtomicUsize,
}

impl<const L: usize, const N: usize> Default for Slab<L, N> {
    fn default() -> Self {
        Self {
            records: Grown::default(),
            locks: Grown::default(),
            next: AtomicUsize::new(0),
            free: Mutex::default(),
            free_count: AtomicUsize::new(0),
        }
    }
}

impl<const L: usize, const N: usize> Slab<L, N> {
    #[inline]
    fn at(&self, number: usize) -> Record<'_> {
        let Sized { head, tail } = self.records.get(number).expect("the number was claimed here");
        Record::new(head, tail)
    }

    fn claim(&self) -> (usize, bool) {
        if self.free_count.load(Ordering::Relaxed) > 0 {
            let mut free = self.free.lock();
            let number = free.pop();
            self.free_count.store(free.len(), Ordering::Relaxed);
            if let Some(number) = number {
                return (number, false);
            }
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.records.make(number);
        (number, true)
    }

    fn give_back(&self, number: usize) {
        let mut free = self.free.lock();
        free.push(number);
        self.free_count.store(free.len(), Ordering::Relaxed);
    }
}

impl<const L: usize, const N: usize> Drop for Slab<L, N> {
    fn drop(&mut self) {
        for number in 0..*self.next.get_mut() {
            if let Some(Sized { head, tail }) = self.records.get(number) {
                Record::new(head, tail).clear();
            }
        }
    }
}

/// Declares the sizes: lines behind the head, records of a chunk (of about 32 KiB).
macro_rules! sizes {
    ($($at:literal $name:ident: $lines:literal, $chunk:literal;)*) => {
        /// See the module.
        #[derive(Default)]
        pub(crate) struct Records {
            $($name: Slab<$lines, $chunk>,)*
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
    0 of_1: 0, 512;
    1 of_2: 1, 256;
    2 of_3: 2, 128;
    3 of_4: 3, 128;
    4 of_5: 4, 64;
    5 of_6: 5, 64;
    6 of_7: 6, 64;
    7 of_8: 7, 64;
    8 of_9: 8, 32;
    9 of_10: 9, 32;
    10 of_11: 10, 32;
    11 of_12: 11, 32;
    12 of_13: 12, 32;
    13 of_14: 13, 32;
    14 of_15: 14, 32;
    15 of_16: 15, 32;
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
    use super::*;

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
    fn what_was_given_back_is_taken_up_again() {
        let records = Records::default();
        let ((first, _), (second, _)) = (records.claim(10), records.claim(10));
        records.give_back(first);
        assert_ne!(records.claim(100).0, first, "it has no room for that");
        assert_eq!(records.claim(20), (first, false));
        assert!(!matches!(records.claim(10), (id, _) if id == first || id == second));
    }
}
