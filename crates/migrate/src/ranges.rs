//! Parts of a file.

use std::collections::BTreeMap;
use std::ops::Range;

/// A set of byte offsets, kept as ranges that neither touch nor overlap.
///
/// ```
/// use ishigaki_migrate::ranges::RangeSet;
///
/// let mut missing = RangeSet::from(0..100);
/// missing.remove(10..20);
/// assert_eq!(missing.within(5..15).collect::<Vec<_>>(), [5..10]);
/// assert_eq!(missing.len(), 90);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeSet {
    /// From the first byte of each range to the one behind its last.
    ends: BTreeMap<u64, u64>,
}

impl From<Range<u64>> for RangeSet {
    fn from(range: Range<u64>) -> Self {
        let mut set = Self::default();
        set.insert(range);
        set
    }
}

impl RangeSet {
    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// How many bytes are in it.
    pub fn len(&self) -> u64 {
        self.ends.iter().map(|(start, end)| end - start).sum()
    }

    /// How many ranges it takes to say what is in it.
    pub fn count(&self) -> usize {
        self.ends.len()
    }

    /// Its ranges in order.
    pub fn iter(&self) -> impl Iterator<Item = Range<u64>> {
        self.ends.iter().map(|(&start, &end)| start..end)
    }

    /// Adds a range.
    pub fn insert(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let (mut start, mut end) = (range.start, range.end);
        while let Some((&at, &until)) = self.ends.range(..=end).next_back()
            && until >= start
        {
            start = start.min(at);
            end = end.max(until);
            self.ends.remove(&at);
        }
        self.ends.insert(start, end);
    }

    /// Takes a range out.
    pub fn remove(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        while let Some((&at, &until)) = self.ends.range(..range.end).next_back()
            && until > range.start
        {
            self.ends.remove(&at);
            if at < range.start {
                self.ends.insert(at, range.start);
            }
            if until > range.end {
                self.ends.insert(range.end, until);
            }
        }
    }

    /// What of `range` is in it, in order.
    pub fn within(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
        let first = self.ends.range(..=range.start).next_back().map_or(range.start, |(&at, _)| at);
        let Range { start, end } = range;
        self.ends
            .range(first..end.max(first))
            .map(move |(&at, &until)| at.max(start)..until.min(end))
            .filter(|range| !range.is_empty())
    }

    /// Whether any byte of `range` is in it.
    pub fn touches(&self, range: Range<u64>) -> bool {
        self.within(range).next().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_of_ranges_is_a_set_of_bytes() {
        ishigaki_testkit::seeded_runs("a_set_of_ranges_is_a_set_of_bytes", 200, |seed| {
            let mut random = seed.generator();
            let (mut set, mut model) = (RangeSet::default(), [false; 64]);
            for _ in 0..40 {
                let (a, b) = (random.u64(0..64), random.u64(0..64));
                let range = a.min(b)..a.max(b);
                let add = random.bool();
                model[range.start as usize..range.end as usize].fill(add);
                if add {
                    set.insert(range);
                } else {
                    set.remove(range);
                }
                let c = random.u64(0..64);
                let asked = c.min(a)..c.max(a);
                let told: Vec<u64> = set.within(asked.clone()).flatten().collect();
                let want: Vec<u64> = asked.clone().filter(|&at| model[at as usize]).collect();
                assert_eq!(told, want);
                assert_eq!(set.touches(asked), !want.is_empty());
                assert_eq!(set.len(), model.iter().filter(|&&is| is).count() as u64);
                let ranges: Vec<_> = set.iter().collect();
                assert!(ranges.windows(2).all(|pair| pair[0].end < pair[1].start), "{ranges:?}");
            }
        });
    }
}
