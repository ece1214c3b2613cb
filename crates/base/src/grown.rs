//! An array that grows and moves nothing: parts of zeros, each as large as all before it together.

use std::ops::Range;
use std::sync::OnceLock;

use crate::zeroed::{Blank, Zeroed};

/// An array that grows. Things have numbers from 0 on; the first part has `2^FIRST` of them, and there are at most `PARTS`
/// parts. A number finds its thing without a lock, and a thing stays where it is as long as the array is there.
#[derive(Debug)]
pub struct Grown<T, const FIRST: u32, const PARTS: usize> {
    parts: [OnceLock<Zeroed<T>>; PARTS],
}

impl<T, const FIRST: u32, const PARTS: usize> Default for Grown<T, FIRST, PARTS> {
    fn default() -> Self {
        Self { parts: [const { OnceLock::new() }; PARTS] }
    }
}

/// In which part of such an array a number is, and where there.
#[inline]
pub fn place_of<const FIRST: u32>(number: usize) -> (usize, usize) {
    let number = number as u64 + (1 << FIRST);
    let level = number.ilog2();
    ((level - FIRST) as usize, (number - (1 << level)) as usize)
}

impl<T: Blank, const FIRST: u32, const PARTS: usize> Grown<T, FIRST, PARTS> {
    /// What has a number, if its part has been made.
    #[inline]
    pub fn get(&self, number: usize) -> Option<&T> {
        let (part, at) = place_of::<FIRST>(number);
        self.parts.get(part)?.get()?.get(at)
    }

    /// What has a number; makes its part if need be.
    ///
    /// # Panics
    /// If that would be one part too many.
    #[inline]
    pub fn make(&self, number: usize) -> &T {
        let (part, at) = place_of::<FIRST>(number);
        &self.parts[part].get_or_init(|| Zeroed::new(1 << (part + FIRST as usize)))[at]
    }

    /// Gives back the memory of things of one part, which are zeros from then on: see [`Zeroed::blank`].
    pub fn blank(&self, numbers: Range<usize>) -> bool {
        let (part, at) = place_of::<FIRST>(numbers.start);
        let part = self.parts.get(part).and_then(OnceLock::get);
        part.is_some_and(|things| things.blank(at..at + numbers.len()))
    }

    /// The parts that have been made.
    pub fn parts(&self) -> impl Iterator<Item = &[T]> {
        self.parts.iter().filter_map(|part| part.get().map(|things| &**things))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    #[test]
    fn every_number_has_a_place_of_its_own() {
        let places: Vec<_> = (0..60).map(place_of::<2>).collect();
        let expected = (0..4).flat_map(|part| (0..4 << part).map(move |at| (part, at)));
        assert_eq!(places, expected.collect::<Vec<_>>());
    }

    #[test]
    fn nothing_moves() {
        let grown = Grown::<AtomicU64, 3, 5>::default();
        assert!(grown.get(0).is_none() && grown.get(100).is_none());
        let mut addresses: Vec<_> = (0..100).map(|at| std::ptr::from_ref(grown.make(at)).addr()).collect();
        let is_there = |at: usize| grown.get(at).is_some_and(|thing| std::ptr::from_ref(thing).addr() == addresses[at]);
        assert!((0..100).all(is_there));
        addresses.sort_unstable();
        addresses.dedup();
        assert_eq!(addresses.len(), 100);
        assert!(grown.get(120).is_none() && grown.get(usize::MAX - 8).is_none());
        assert_eq!(grown.parts().map(<[_]>::len).collect::<Vec<_>>(), [8, 16, 32, 64]);
    }
}
