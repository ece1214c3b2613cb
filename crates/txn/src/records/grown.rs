//! An array that grows and moves nothing: chunks, and levels of 1, 2, 4 … chunks.

use std::sync::OnceLock;

/// More than memory can hold.
const LEVELS: usize = 28;

type Chunk<T, const N: usize> = OnceLock<Box<[T; N]>>;

/// See the module. Chunks have `N` things.
pub(super) struct Grown<T, const N: usize> {
    levels: [OnceLock<Box<[Chunk<T, N>]>>; LEVELS],
}

impl<T, const N: usize> Default for Grown<T, N> {
    fn default() -> Self {
        Self { levels: [const { OnceLock::new() }; LEVELS] }
    }
}

/// Level and place of a chunk.
#[inline]
fn place(chunk: usize) -> (usize, usize) {
    let level = (chunk + 1).ilog2() as usize;
    (level, chunk + 1 - (1 << level))
}

impl<T: Default, const N: usize> Grown<T, N> {
    /// What is at a place, if it has been made.
    #[inline]
    pub(super) fn get(&self, at: usize) -> Option<&T> {
        let (level, chunk) = place(at / N);
        Some(&self.levels[level].get()?[chunk].get()?[at % N])
    }

    /// What is at a place; makes its chunk if need be.
    #[inline]
    pub(super) fn make(&self, at: usize) -> &T {
        let (level, chunk) = place(at / N);
        let chunks = self.levels[level].get_or_init(|| (0..1_usize << level).map(|_| OnceLock::new()).collect());
        &chunks[chunk].get_or_init(new_chunk)[at % N]
    }
}

#[cold]
#[expect(clippy::unnecessary_box_returns, reason = "a chunk is too large for a stack")]
fn new_chunk<T: Default, const N: usize>() -> Box<[T; N]> {
    let chunk: Box<[T]> = (0..N).map(|_| T::default()).collect();
    chunk.try_into().unwrap_or_else(|_| unreachable!("it has as many"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_is_one_of_its_own() {
        let grown = Grown::<u64, 8>::default();
        assert!(grown.get(0).is_none() && grown.get(100).is_none());
        let mut addresses: Vec<_> = (0..100).map(|at| std::ptr::from_ref(grown.make(at)).addr()).collect();
        assert!(
            (0..100).all(|at| grown.get(at).is_some_and(|thing| std::ptr::from_ref(thing).addr() == addresses[at]))
        );
        addresses.sort_unstable();
        addresses.dedup();
        assert_eq!(addresses.len(), 100);
        assert!(grown.get(104).is_none());
    }
}
