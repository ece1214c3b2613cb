//! A set of keys, as sorted ranges that neither overlap nor touch.

use std::cmp::Ordering;
use std::ops::Bound;

use crate::key::{Key, KeyRange};

/// Keys from `start` to `end`; never empty by its bounds alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) start: Bound<Key>,
    pub(crate) end: Bound<Key>,
}

impl Range {
    /// A copy of a range by reference.
    pub(crate) fn new((start, end): KeyRange<'_>) -> Self {
        Self { start: start.map(Key::of_bound), end: end.map(Key::of_bound) }
    }

    /// Exactly one key.
    pub(crate) fn point(key: &[u8]) -> Self {
        let key = Key::of_bound(key);
        Self { start: Bound::Included(key.clone()), end: Bound::Included(key) }
    }

    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        starts_at_or_before(&self.start, key) && !ends_before_key(&self.end, key)
    }

    /// True if every key of this range is smaller than every key of `other` and some key could lie in between.
    fn is_apart_before(&self, other: &Self) -> bool {
        match (&self.end, &other.start) {
            (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
            (Bound::Excluded(end), Bound::Excluded(start)) => end <= start,
            (Bound::Included(end) | Bound::Excluded(end), Bound::Included(start) | Bound::Excluded(start)) => {
                end < start
            }
        }
    }

    /// The smallest range with both in it.
    fn absorb(&mut self, other: Self) {
        if compare_starts(&other.start, &self.start).is_lt() {
            self.start = other.start;
        }
        if compare_ends(&other.end, &self.end).is_gt() {
            self.end = other.end;
        }
    }
}

fn starts_at_or_before(start: &Bound<Key>, key: &[u8]) -> bool {
    match start {
        Bound::Unbounded => true,
        Bound::Included(start) => **start <= *key,
        Bound::Excluded(start) => **start < *key,
    }
}

fn ends_before_key(end: &Bound<Key>, key: &[u8]) -> bool {
    match end {
        Bound::Unbounded => false,
        Bound::Included(end) => **end < *key,
        Bound::Excluded(end) => **end <= *key,
    }
}

fn compare_starts(a: &Bound<Key>, b: &Bound<Key>) -> Ordering {
    let excludes = |bound: &Bound<Key>| matches!(bound, Bound::Excluded(_));
    match (a, b) {
        (Bound::Unbounded, Bound::Unbounded) => Ordering::Equal,
        (Bound::Unbounded, _) => Ordering::Less,
        (_, Bound::Unbounded) => Ordering::Greater,
        (Bound::Included(x) | Bound::Excluded(x), Bound::Included(y) | Bound::Excluded(y)) => {
            x.cmp(y).then(excludes(a).cmp(&excludes(b)))
        }
    }
}

fn compare_ends(a: &Bound<Key>, b: &Bound<Key>) -> Ordering {
    let includes = |bound: &Bound<Key>| matches!(bound, Bound::Included(_));
    match (a, b) {
        (Bound::Unbounded, Bound::Unbounded) => Ordering::Equal,
        (Bound::Unbounded, _) => Ordering::Greater,
        (_, Bound::Unbounded) => Ordering::Less,
        (Bound::Included(x) | Bound::Excluded(x), Bound::Included(y) | Bound::Excluded(y)) => {
            x.cmp(y).then(includes(a).cmp(&includes(b)))
        }
    }
}

/// The keys that one transaction has locked in one table.
///
/// Ranges that touch become one, so paging through a table leaves a single range behind.
#[derive(Debug, Default)]
pub(crate) struct RangeSet {
    ranges: Vec<Range>,
}

impl RangeSet {
    pub(crate) fn insert(&mut self, mut range: Range) {
        let from = self.ranges.partition_point(|old| old.is_apart_before(&range));
        let to = from + self.ranges[from..].partition_point(|old| !range.is_apart_before(old));
        if from == to {
            self.ranges.insert(from, range);
            return;
        }
        for old in self.ranges.drain(from + 1..to) {
            range.absorb(old);
        }
        self.ranges[from].absorb(range);
    }

    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        let at = self.ranges.partition_point(|range| ends_before_key(&range.end, key));
        self.ranges.get(at).is_some_and(|range| range.contains(key))
    }

    /// How many ranges it takes.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.ranges.len()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn bound(byte: u8, kind: u8) -> Bound<Key> {
        match kind % 3 {
            0 => Bound::Included(Key::of_bound(&[byte])),
            1 => Bound::Excluded(Key::of_bound(&[byte])),
            _ => Bound::Unbounded,
        }
    }

    fn as_range(range: &Range) -> KeyRange<'_> {
        (range.start.as_ref().map(|key| &**key), range.end.as_ref().map(|key| &**key))
    }

    proptest! {
        #[test]
        fn a_set_of_ranges_holds_the_keys_that_were_put_in(
            parts in prop::collection::vec((0_u8..40, 0_u8..20, 0_u8..40, 0_u8..20), 0..20),
        ) {
            let mut set = RangeSet::default();
            let mut model = BTreeSet::new();
            for (start, start_kind, end, end_kind) in parts {
                // Unbounded sides are rare, or every set would soon hold everything.
                let range = Range { start: bound(start, start_kind.min(2)), end: bound(end, end_kind.min(2)) };
                if crate::key::is_empty(as_range(&range)) {
                    continue;
                }
                model.extend((0..=50).filter(|&key| range.contains(&[key])));
                set.insert(range);
                for key in 0..=50_u8 {
                    prop_assert_eq!(set.contains(&[key]), model.contains(&key), "key {} of {:?}", key, set);
                }
                for pair in set.ranges.windows(2) {
                    prop_assert!(pair[0].is_apart_before(&pair[1]));
                }
            }
        }
    }

    #[test]
    fn pages_of_a_scan_become_one_range() {
        let mut set = RangeSet::default();
        set.insert(Range { start: bound(0, 0), end: bound(10, 0) });
        for page in 1..20 {
            set.insert(Range { start: bound(page * 10, 1), end: bound(page * 10 + 10, 0) });
        }
        assert_eq!(set.len(), 1);
        assert!(set.contains(&[199]) && !set.contains(&[201]));
    }

    #[test]
    fn points_stay_apart() {
        let mut set = RangeSet::default();
        for key in [5, 1, 3, 3] {
            set.insert(Range::point(&[key]));
        }
        assert_eq!(set.len(), 3);
        assert!(!set.contains(&[2]) && set.contains(&[3]) && !set.contains(&[3, 0]));
    }
}
