//! Which LSNs of a generation have been seen, in any order: the first one that is missing.

use std::collections::BTreeMap;

use ishigaki_base::Lsn;

/// LSNs of a word.
const WORD: u64 = u64::BITS as u64;

/// A set of LSNs from the generation's base on. What lies before the gap takes no memory.
#[derive(Debug)]
pub(super) struct Seen {
    gap: Lsn,
    /// A bit for each LSN from the gap's word on, by word; words without a bit are not there.
    words: BTreeMap<u64, u64>,
    /// The word that changes at the moment, not yet among the others.
    current: (u64, u64),
}

impl Seen {
    pub(super) fn new(base: Lsn) -> Self {
        Self { gap: base, words: BTreeMap::new(), current: (base.0 / WORD, 0) }
    }

    /// The first LSN that was not seen, as of the last [`settle`](Self::settle).
    pub(super) fn gap(&self) -> Lsn {
        self.gap
    }

    /// Adds one. False if it was there already, or is smaller than the base.
    pub(super) fn add(&mut self, lsn: Lsn) -> bool {
        let (word, bit) = (lsn.0 / WORD, 1 << (lsn.0 % WORD));
        if word != self.current.0 {
            self.put_back();
            self.current = (word, self.words.get(&word).copied().unwrap_or_default());
        }
        let is_new = lsn >= self.gap && self.current.1 & bit == 0;
        self.current.1 |= bit;
        is_new
    }

    /// Moves the gap behind all that follows it without a hole.
    pub(super) fn settle(&mut self) {
        self.put_back();
        loop {
            let word = self.gap.0 / WORD;
            let Some(bits) = self.words.get(&word) else { break };
            let ones = u64::from((bits >> (self.gap.0 % WORD)).trailing_ones());
            self.gap.0 += ones;
            if self.gap.0 / WORD == word {
                break;
            }
            self.words.remove(&word);
        }
        self.current = (self.gap.0 / WORD, self.words.get(&(self.gap.0 / WORD)).copied().unwrap_or_default());
    }

    fn put_back(&mut self) {
        let (word, bits) = self.current;
        if bits != 0 {
            self.words.insert(word, bits);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use ishigaki_testkit::seeded_runs;

    use super::*;

    #[test]
    fn the_gap_is_the_first_lsn_that_was_not_seen_whatever_the_order() {
        seeded_runs("the_gap_is_the_first_lsn_that_was_not_seen_whatever_the_order", 300, |seed| {
            let mut random = seed.generator();
            let base = random.u64(1..200);
            let (mut seen, mut model) = (Seen::new(Lsn(base)), BTreeSet::new());
            for _ in 0..random.usize(..600) {
                let (before, reach) = (random.u64(..base.min(3)), random.u64(1..400));
                let lsn = base - before + random.u64(..reach);
                assert_eq!(seen.add(Lsn(lsn)), lsn >= base && model.insert(lsn), "{lsn}");
                if random.u8(..8) == 0 {
                    seen.settle();
                    let gap = (base..=base + 400).find(|lsn| !model.contains(lsn)).unwrap();
                    assert_eq!(seen.gap(), Lsn(gap));
                }
            }
        });
    }

    #[test]
    fn an_lsn_far_away_costs_no_more_memory_than_a_near_one() {
        let mut seen = Seen::new(Lsn::FIRST);
        assert!(seen.add(Lsn(u64::MAX)) && seen.add(Lsn(1)) && !seen.add(Lsn(u64::MAX)));
        seen.settle();
        assert_eq!((seen.gap(), seen.words.len()), (Lsn(2), 2));
    }
}
