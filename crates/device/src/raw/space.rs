//! Which runs of the device are free.

use std::collections::BTreeMap;

use parking_lot::Mutex;

/// The runs in use, by their begin. What lies between them is free.
#[derive(Debug)]
pub(super) struct Space {
    begin: u64,
    end: u64,
    /// Begin and length; never an empty one.
    used: Mutex<BTreeMap<u64, u64>>,
}

impl Space {
    /// All free, from `begin` to `end`.
    pub(super) fn new(begin: u64, end: u64) -> Self {
        Self { begin, end, used: Mutex::default() }
    }

    /// Takes the first free run of that length that begins at a multiple of `alignment`; `None` if there is none.
    pub(super) fn take(&self, length: u64, alignment: u64) -> Option<u64> {
        let mut used = self.used.lock();
        let mut begin = self.begin.checked_next_multiple_of(alignment)?;
        for (&other, &taken) in &*used {
            if begin.checked_add(length)? <= other {
                break;
            }
            begin = begin.max((other + taken).checked_next_multiple_of(alignment)?);
        }
        if begin.checked_add(length)? > self.end {
            return None;
        }
        if length > 0 {
            used.insert(begin, length);
        }
        Some(begin)
    }

    /// Takes that very run; false if any of it is taken or lies outside.
    pub(super) fn take_at(&self, begin: u64, length: u64) -> bool {
        let Some(end) = begin.checked_add(length).filter(|end| begin >= self.begin && *end <= self.end) else {
            return false;
        };
        let mut used = self.used.lock();
        let free = used.range(..end).next_back().is_none_or(|(other, taken)| other + taken <= begin);
        if free && length > 0 {
            used.insert(begin, length);
        }
        free || length == 0
    }

    /// Gives a run back.
    pub(super) fn give(&self, begin: u64, length: u64) {
        if length > 0 {
            self.used.lock().remove(&begin);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_run_that_is_long_enough_is_taken() {
        let space = Space::new(100, 200);
        assert_eq!([space.take(30, 1), space.take(30, 1), space.take(30, 1)], [Some(100), Some(130), Some(160)]);
        assert_eq!(space.take(11, 1), None);
        space.give(100, 30);
        assert_eq!([space.take(10, 1), space.take(10, 1)], [Some(100), Some(110)]);
        assert_eq!(space.take(11, 1), None, "10 are left in either place");
        assert_eq!([space.take(10, 1), space.take(10, 1), space.take(1, 1)], [Some(120), Some(190), None]);
        assert_eq!(space.take(0, 1), Some(100), "nothing fits anywhere");
    }

    #[test]
    fn a_run_begins_where_it_must() {
        let space = Space::new(100, 1000);
        assert_eq!(space.take(10, 64), Some(128));
        assert_eq!(space.take(10, 64), Some(192));
        assert_eq!(space.take(10, 1), Some(100));
        assert_eq!(space.take(u64::MAX, 1), None);
    }

    #[test]
    fn no_run_is_taken_twice() {
        let space = Space::new(100, 200);
        assert!(space.take_at(120, 20) && space.take_at(140, 20) && space.take_at(100, 20));
        for (begin, length) in
            [(120, 20), (110, 20), (130, 20), (110, 50), (125, 5), (90, 10), (190, 11), (u64::MAX, 2)]
        {
            assert!(!space.take_at(begin, length), "{length} from {begin}");
        }
        assert!(space.take_at(130, 0), "nothing is in nobody's way");
        assert!(space.take_at(160, 40));
    }
}
