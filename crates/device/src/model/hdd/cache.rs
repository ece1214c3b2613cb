//! What lies in the write cache: runs of bytes that are not on the disk yet.

use std::collections::BTreeMap;

/// Runs by their beginning; they neither overlap nor touch.
#[derive(Debug, Default)]
pub(super) struct Dirty {
    /// Beginning and end.
    runs: BTreeMap<u64, u64>,
    bytes: u64,
}

impl Dirty {
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds a run and joins it with what it touches.
    pub(super) fn add(&mut self, begin: u64, end: u64) {
        let (mut begin, mut end) = (begin, end);
        while let Some((&other, &other_end)) = self.runs.range(..=end).next_back() {
            if other_end < begin {
                break;
            }
            self.runs.remove(&other);
            self.bytes -= other_end - other;
            (begin, end) = (begin.min(other), end.max(other_end));
        }
        self.runs.insert(begin, end);
        self.bytes += end - begin;
    }

    /// Takes the next run upwards from the head, at most `most` bytes of it; from the bottom when there is none.
    pub(super) fn take(&mut self, head: u64, most: u64) -> Option<(u64, u64)> {
        let (&begin, &end) = self.runs.range(head..).next().or_else(|| self.runs.first_key_value())?;
        self.runs.remove(&begin);
        let cut = end.min(begin + most);
        if cut < end {
            self.runs.insert(cut, end);
        }
        self.bytes -= cut - begin;
        Some((begin, cut))
    }

    /// True if the whole run lies here.
    pub(super) fn holds(&self, begin: u64, end: u64) -> bool {
        self.runs.range(..=begin).next_back().is_some_and(|(_, run_end)| *run_end >= end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_that_touch_become_one() {
        let mut dirty = Dirty::default();
        for (begin, end) in [(10, 20), (40, 50), (20, 30), (5, 12), (60, 70), (30, 40)] {
            dirty.add(begin, end);
        }
        assert_eq!(dirty.bytes(), 55);
        assert!(dirty.holds(5, 50) && dirty.holds(61, 69) && !dirty.holds(49, 61));
        assert_eq!(dirty.take(0, 20), Some((5, 25)));
        assert_eq!(dirty.take(55, 20), Some((60, 70)));
        assert_eq!(dirty.take(55, 100), Some((25, 50)), "from the bottom again");
        assert_eq!((dirty.take(0, 1), dirty.bytes()), (None, 0));
    }
}
