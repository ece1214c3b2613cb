//! Which of a worker's transactions: a bit each.

/// A set of numbers that are small and dense.
#[derive(Clone, Debug, Default)]
pub(super) struct Marks {
    words: Vec<u64>,
    count: u64,
}

impl Marks {
    /// Adds a number; false if it was there.
    pub(super) fn add(&mut self, number: u64) -> bool {
        let (word, bit) = ((number / 64) as usize, 1 << (number % 64));
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        let new = self.words[word] & bit == 0;
        self.words[word] |= bit;
        self.count += u64::from(new);
        new
    }

    /// How many there are.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// The first number that is in this set and not in the other.
    pub(super) fn first_not_in(&self, other: &Self) -> Option<u64> {
        let others = other.words.iter().copied().chain(std::iter::repeat(0));
        let missing = self.words.iter().zip(others).map(|(word, other)| word & !other);
        (0..).zip(missing).find(|(_, missing)| *missing != 0).map(|(at, missing)| {
            let at: u64 = at;
            at * 64 + u64::from(missing.trailing_zeros())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_missing_number_is_found() {
        let [mut some, mut all] = [Marks::default(), Marks::default()];
        for number in 0..200 {
            assert!(all.add(number));
            if number != 130 {
                some.add(number);
            }
        }
        assert!(!all.add(7));
        assert_eq!((some.count(), all.count()), (199, 200));
        assert_eq!(all.first_not_in(&some), Some(130));
        assert_eq!(some.first_not_in(&all), None);
        assert_eq!(all.first_not_in(&Marks::default()), Some(0));
    }
}
