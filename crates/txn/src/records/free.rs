//! Records of one size that no key has, in runs of 64.
//!
//! A run whose records are all free can give its memory back: it becomes *blank*, and is zeros until a record is claimed
//! from it again. A transaction may still remember a record's number and look at its word, so a word must say in its next
//! life what it has never said before: with a blank run stays the least timestamp that no word of it has reached (its
//! *floor*), and all its words begin again from there.

use std::ops::Range;

use crate::protocol::Timestamp;

/// Records of a run: whole pages, whatever a record's size. A run begins at a multiple of it, counted so that each part of
/// the records begins at a power of two.
pub(super) const RUN: usize = 64;

/// All records of a run.
const ALL: u64 = u64::MAX;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Free {
    /// By run: which of its records are free. A blank run has none here.
    runs: Vec<u64>,
    /// The runs that have a free record.
    some: Vec<usize>,
    /// How many runs have nothing but free records.
    whole: usize,
    /// Blank runs, and their floors.
    blank: Vec<(usize, Timestamp)>,
    /// A run that was blank, and which of its records no thread has claimed since.
    opened: Option<(usize, u64)>,
}

/// A record that was claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Claimed {
    /// It was free.
    Free(usize),
    /// It was free and its memory given back.
    Blank(usize),
    /// It is of a run that was blank; its words have yet to begin again from there.
    Opened(usize, Timestamp),
}

impl Free {
    /// Whether there are any.
    pub(super) fn is_empty(&self) -> bool {
        self.some.is_empty() && self.blank.is_empty() && self.opened.is_none()
    }

    /// One that is free.
    pub(super) fn claim(&mut self) -> Option<Claimed> {
        if let Some(number) = self.claim_kept() {
            return Some(Claimed::Free(number));
        }
        if let Some((run, left)) = &mut self.opened {
            let number = *run * RUN + left.trailing_zeros() as usize;
            *left &= *left - 1;
            if *left == 0 {
                self.opened = None;
            }
            return Some(Claimed::Blank(number));
        }
        let (run, floor) = self.blank.pop()?;
        self.opened = Some((run, ALL & !1));
        Some(Claimed::Opened(run * RUN, floor))
    }

    /// One that is free and has its memory.
    pub(super) fn claim_kept(&mut self) -> Option<usize> {
        let &run = self.some.last()?;
        let free = &mut self.runs[run];
        if *free == ALL {
            self.whole -= 1;
        }
        let number = run * RUN + free.trailing_zeros() as usize;
        *free &= *free - 1;
        if *free == 0 {
            self.some.pop();
        }
        Some(number)
    }

    /// Takes one back.
    pub(super) fn give_back(&mut self, number: usize) {
        let (run, bit) = (number / RUN, 1 << (number % RUN));
        if self.runs.len() <= run {
            self.runs.resize(run + 1, 0);
        }
        let free = &mut self.runs[run];
        if *free == 0 {
            self.some.push(run);
        }
        *free |= bit;
        if *free == ALL {
            self.whole += 1;
        }
    }

    /// Blanks runs until `wanted` records are without memory, if there are as many. `floor` tells the floor of a range of
    /// records and `blank` blanks it, or says that it did not. Says how many records it were.
    pub(super) fn shrink(
        &mut self,
        wanted: usize,
        floor: impl Fn(Range<usize>) -> Timestamp,
        mut blank: impl FnMut(Range<usize>) -> bool,
    ) -> usize {
        if self.whole == 0 {
            return 0;
        }
        let Self { runs, some, whole, blank: blanks, .. } = self;
        let (mut done, mut at) = (0, 0);
        while at < runs.len() && done < wanted && *whole > 0 {
            if runs[at] != ALL {
                at += 1;
                continue;
            }
            // As many beside each other as there are, in one part of the records: that is one call, and whole huge pages.
            let most = at.saturating_add((wanted - done).div_ceil(RUN).max(TOGETHER));
            let limit = (at + 1).next_power_of_two().min(most).min(runs.len());
            let end = (at + 1..limit).find(|&run| runs[run] != ALL).unwrap_or(limit);
            let floors: Vec<_> = (at..end).map(|run| (run, floor(run * RUN..(run + 1) * RUN))).collect();
            if blank(at * RUN..end * RUN) {
                blanks.extend(floors);
                runs[at..end].fill(0);
                *whole -= end - at;
                done += (end - at) * RUN;
            }
            at = end;
        }
        some.retain(|&run| runs[run] != 0);
        done
    }
}

/// Runs that are given back together, if they lie beside each other, even if fewer would do.
const TOGETHER: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    fn with_free(count: usize) -> Free {
        let mut free = Free::default();
        (0..count).for_each(|number| free.give_back(number));
        free
    }

    #[test]
    fn every_record_is_claimed_once() {
        let mut free = with_free(200);
        assert_eq!(free.shrink(usize::MAX, |range| range.start as u64, |_| true), 192);
        let mut opened = Vec::new();
        let mut claimed: Vec<_> = std::iter::from_fn(|| free.claim())
            .map(|claimed| match claimed {
                Claimed::Free(number) | Claimed::Blank(number) => number,
                Claimed::Opened(number, floor) => {
                    opened.push((number, floor));
                    number
                }
            })
            .collect();
        claimed.sort_unstable();
        assert_eq!(claimed, (0..200).collect::<Vec<_>>());
        assert!(opened.len() == 3 && opened.iter().all(|(number, floor)| *number as u64 == *floor));
        assert!(free.is_empty());
    }

    #[test]
    fn a_run_with_a_record_in_use_keeps_its_memory() {
        let mut free = with_free(128);
        let number = free.claim_kept().unwrap();
        let mut blanked = Vec::new();
        let shrunk = free.shrink(
            usize::MAX,
            |_| 0,
            |range| {
                blanked.push(range);
                true
            },
        );
        assert_eq!((shrunk, blanked.len()), (64, 1));
        assert!(!blanked[0].contains(&number));
        free.give_back(number);
        assert_eq!(free.shrink(usize::MAX, |_| 0, |_| true), 64);
        assert_eq!(free.shrink(usize::MAX, |_| 0, |_| true), 0);
    }

    #[test]
    fn what_the_system_does_not_take_back_stays_free() {
        let mut free = with_free(64);
        assert_eq!(free.shrink(usize::MAX, |_| 0, |_| false), 0);
        assert_eq!((0..64).filter(|_| matches!(free.claim(), Some(Claimed::Free(_)))).count(), 64);
    }
}
