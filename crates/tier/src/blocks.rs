//! A set of the blocks of one chunk.

use std::ops::Range;

use crate::BLOCK;

/// Blocks of a chunk, as a bitmap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Blocks(Box<[u64]>);

impl Blocks {
    /// None of the blocks of a chunk of that many bytes.
    pub(crate) fn none(chunk: u64) -> Self {
        Self(vec![0; (chunk / BLOCK).div_ceil(64) as usize].into())
    }

    /// None of the blocks of such a chunk.
    pub(crate) fn none_like(other: &Self) -> Self {
        Self(vec![0; other.0.len()].into())
    }

    /// As they are on the medium.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        let words = bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default()));
        Self(words.collect())
    }

    pub(crate) fn words(&self) -> &[u64] {
        &self.0
    }

    pub(crate) fn words_mut(&mut self) -> &mut [u64] {
        &mut self.0
    }

    pub(crate) fn to_bytes(&self) -> impl Iterator<Item = u8> {
        self.0.iter().flat_map(|word| word.to_le_bytes())
    }

    /// Whether they are those of a chunk of that many bytes.
    pub(crate) fn fits(&self, chunk: u64) -> bool {
        self.0.len() as u64 == (chunk / BLOCK).div_ceil(64)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(|&word| word == 0)
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    pub(crate) fn has(&self, block: u64) -> bool {
        self.0[(block / 64) as usize] >> (block % 64) & 1 == 1
    }

    pub(crate) fn insert(&mut self, range: Range<u64>) {
        range.for_each(|block| self.0[(block / 64) as usize] |= 1 << (block % 64));
    }

    pub(crate) fn clear(&mut self) {
        self.0.fill(0);
    }

    pub(crate) fn has_any(&self, mut range: Range<u64>) -> bool {
        range.any(|block| self.has(block))
    }

    /// Those of either.
    pub(crate) fn union(&mut self, other: &Self) {
        self.combine(other, |one, other| one | other);
    }

    /// Those that are also of the other.
    pub(crate) fn keep(&mut self, other: &Self) {
        self.combine(other, |one, other| one & other);
    }

    /// Without the other's.
    pub(crate) fn subtract(&mut self, other: &Self) {
        self.combine(other, |one, other| one & !other);
    }

    fn combine(&mut self, other: &Self, by: impl Fn(u64, u64) -> u64) {
        self.0.iter_mut().zip(&other.0).for_each(|(one, &other)| *one = by(*one, other));
    }

    /// Those of a range that are in the set.
    pub(crate) fn within(&self, range: Range<u64>) -> Self {
        let mut some = Self::none_like(self);
        some.insert(range);
        some.keep(self);
        some
    }

    /// Those of a range that are not.
    pub(crate) fn missing(&self, range: Range<u64>) -> Self {
        let mut some = Self::none_like(self);
        some.insert(range);
        some.subtract(self);
        some
    }

    /// The range in runs, each with whether its blocks are in the set, in order.
    pub(crate) fn runs(&self, range: Range<u64>) -> impl Iterator<Item = (Range<u64>, bool)> {
        let mut next = range.start;
        std::iter::from_fn(move || {
            let first = next;
            let is_in = (first < range.end).then(|| self.has(first))?;
            next = (first..range.end).find(|&block| self.has(block) != is_in).unwrap_or(range.end);
            Some((first..next, is_in))
        })
    }

    /// The runs of blocks that are in the set.
    pub(crate) fn present(&self) -> impl Iterator<Item = Range<u64>> {
        self.runs(0..self.0.len() as u64 * 64).filter_map(|(run, is_in)| is_in.then_some(run))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(blocks: impl IntoIterator<Item = u64>) -> Blocks {
        let mut some = Blocks::none(1 << 20);
        blocks.into_iter().for_each(|block| some.insert(block..block + 1));
        some
    }

    #[test]
    fn a_range_comes_in_runs_that_are_in_the_set_or_not() {
        let some = of([0, 1, 63, 64, 200]);
        let runs: Vec<_> = some.runs(1..66).collect();
        assert_eq!(runs, [(1..2, true), (2..63, false), (63..65, true), (65..66, false)]);
        assert_eq!(some.present().collect::<Vec<_>>(), [0..2, 63..65, 200..201]);
        assert_eq!(some.runs(5..5).count(), 0);
    }

    #[test]
    fn sets_are_those_of_integers() {
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..100 {
            let draw = |random: &mut fastrand::Rng| {
                (0..20).map(|_| random.u64(0..256)).collect::<std::collections::BTreeSet<_>>()
            };
            let (a, b) = (draw(&mut random), draw(&mut random));
            let with = |by: fn(&mut Blocks, &Blocks)| {
                let mut made = of(a.iter().copied());
                by(&mut made, &of(b.iter().copied()));
                made
            };
            assert_eq!(with(Blocks::union), of(a.union(&b).copied()));
            assert_eq!(with(Blocks::keep), of(a.intersection(&b).copied()));
            assert_eq!(with(Blocks::subtract), of(a.difference(&b).copied()));
            let first = random.u64(0..256);
            let range = first..random.u64(first..=256);
            let some = of(a.iter().copied());
            assert_eq!(some.within(range.clone()), of(a.range(range.clone()).copied()));
            assert_eq!(some.missing(range.clone()), of(range.clone().filter(|block| !a.contains(block))));
            assert_eq!(some.has_any(range.clone()), a.range(range.clone()).next().is_some());
            assert_eq!(some.count(), a.len() as u64);
            assert_eq!(Blocks::from_bytes(&some.to_bytes().collect::<Vec<_>>()), some);
        }
    }
}
