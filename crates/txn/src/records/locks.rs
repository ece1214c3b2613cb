//! Locks by number: chunks that are made when one of their locks is asked for, and levels of 1, 2, 4 … chunks.

use std::sync::OnceLock;

use ishigaki_base::place_of;

use crate::protocol::RecordLock;

/// Locks of a chunk.
const CHUNK: usize = 128;

/// More than memory can hold.
const LEVELS: usize = 32;

type Chunk = OnceLock<Box<[RecordLock; CHUNK]>>;

/// See the module.
#[derive(Default)]
pub(super) struct Locks {
    levels: [OnceLock<Box<[Chunk]>>; LEVELS],
}

impl Locks {
    /// The lock of a number, if it has been made.
    #[inline]
    pub(super) fn get(&self, number: usize) -> Option<&RecordLock> {
        let (level, chunk) = place_of::<0>(number / CHUNK);
        Some(&self.levels[level].get()?[chunk].get()?[number % CHUNK])
    }

    /// The lock of a number; makes its chunk if need be.
    #[inline]
    pub(super) fn make(&self, number: usize) -> &RecordLock {
        let (level, chunk) = place_of::<0>(number / CHUNK);
        let chunks = self.levels[level].get_or_init(|| (0..1_usize << level).map(|_| OnceLock::new()).collect());
        &chunks[chunk].get_or_init(new_chunk)[number % CHUNK]
    }
}

#[cold]
fn new_chunk() -> Box<[RecordLock; CHUNK]> {
    let chunk: Box<[RecordLock]> = (0..CHUNK).map(|_| RecordLock::default()).collect();
    chunk.try_into().unwrap_or_else(|_| unreachable!("it has as many"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_a_lock_of_its_own() {
        let locks = Locks::default();
        assert!(locks.get(0).is_none() && locks.get(1000).is_none());
        let mut addresses: Vec<_> = (0..1000).map(|at| std::ptr::from_ref(locks.make(at)).addr()).collect();
        let is_there = |at: usize| locks.get(at).is_some_and(|lock| std::ptr::from_ref(lock).addr() == addresses[at]);
        assert!((0..1000).all(is_there));
        addresses.sort_unstable();
        addresses.dedup();
        assert_eq!(addresses.len(), 1000);
        assert!(locks.get(1024).is_none());
    }
}
