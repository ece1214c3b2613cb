//! Numbers of which some are drawn far more often than others, after Zipf.
//!
//! The `i`-th most frequent is drawn `1 / i^skew` times as often as the first. The generator is that of Gray et al.
//! ("Quickly generating billion-record synthetic databases", SIGMOD 1994, figure 5): one random number for each draw, after
//! a sum over all numbers in the beginning.

use fastrand::Rng;

/// Draws from 0 to a count; the smaller a number, the more often.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Zipf {
    count: f64,
    skew: f64,
    alpha: f64,
    eta: f64,
    /// The sum of all weights, the first one's being one.
    zeta: f64,
    /// The sum of the first two.
    first_two: f64,
}

impl Zipf {
    /// Of `count` numbers, at least three, with a skew from 0, where all are alike, to less than 1.
    pub(super) fn new(count: u64, skew: f64) -> Self {
        let weight = |number: u64| (number as f64).powf(-skew);
        let zeta: f64 = (1..=count).map(weight).sum();
        let count = count as f64;
        let eta = (1.0 - (2.0 / count).powf(1.0 - skew)) / (1.0 - (1.0 + weight(2)) / zeta);
        Self { count, skew, alpha: 1.0 / (1.0 - skew), eta, zeta, first_two: 1.0 + 0.5_f64.powf(skew) }
    }

    pub(super) fn draw(&self, random: &mut Rng) -> u64 {
        let drawn = random.f64();
        if self.skew == 0.0 {
            return ((self.count * drawn) as u64).min(self.count as u64 - 1);
        }
        let scaled = drawn * self.zeta;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < self.first_two {
            return 1;
        }
        let number = self.count * (self.eta * drawn - self.eta + 1.0).powf(self.alpha);
        (number as u64).min(self.count as u64 - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ishigaki_base::random::Seed;

    fn counts(count: u64, skew: f64, draws: u32) -> Vec<u32> {
        let (zipf, mut random) = (Zipf::new(count, skew), Seed(1).generator());
        let mut counts = vec![0; count as usize];
        (0..draws).for_each(|_| counts[zipf.draw(&mut random) as usize] += 1);
        counts
    }

    #[test]
    fn without_skew_all_are_alike() {
        let counts = counts(100, 0.0, 200_000);
        assert!(counts.iter().all(|count| (1750..2250).contains(count)), "{counts:?}");
    }

    #[test]
    fn with_skew_frequencies_fall_as_zipf_says() {
        for skew in [0.5, 0.9, 0.99] {
            let draws = 1_000_000;
            let counts = counts(1000, skew, draws);
            let zeta: f64 = (1..=1000).map(|number| f64::from(number).powf(-skew)).sum();
            let share = |from: usize, to: usize| f64::from(counts[from..to].iter().sum::<u32>()) / f64::from(draws);
            let expected = |from: usize, to: usize| -> f64 {
                (from..to).map(|number| ((number + 1) as f64).powf(-skew)).sum::<f64>() / zeta
            };
            for (from, to) in [(0, 1), (1, 2), (0, 10), (10, 100), (100, 1000)] {
                let (is, should) = (share(from, to), expected(from, to));
                // The generator's curve is exact for the first two and near for the rest.
                assert!((is / should - 1.0).abs() < 0.12, "skew {skew}, {from}..{to}: {is} instead of {should}");
            }
        }
    }

    #[test]
    fn the_last_number_is_reached_and_none_behind_it() {
        for skew in [0.0, 0.99] {
            let counts = counts(50, skew, 200_000);
            assert!(counts[49] > 0);
        }
    }
}
