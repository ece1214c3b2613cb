//! Latencies of one round: a histogram per worker, added up at the end.

use std::time::Duration;

use hdrhistogram::Histogram;

/// The longest time that is told apart; whatever takes longer counts as this long.
const LONGEST: Duration = Duration::from_mins(10);

/// How long operations took, to three significant digits.
#[derive(Clone, Debug)]
pub struct Latencies {
    nanoseconds: Histogram<u64>,
}

impl Default for Latencies {
    fn default() -> Self {
        let longest = LONGEST.as_nanos() as u64;
        let nanoseconds = Histogram::new_with_bounds(1, longest, 3).expect("fixed bounds that a histogram accepts");
        Self { nanoseconds }
    }
}

impl Latencies {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// One operation took this long.
    pub fn record(&mut self, time: Duration) {
        self.nanoseconds.saturating_record(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).max(1));
    }

    /// Takes in those of another worker.
    #[expect(clippy::missing_panics_doc, reason = "all histograms have the same bounds")]
    pub fn add(&mut self, other: &Self) {
        self.nanoseconds.add(&other.nanoseconds).expect("both have the same bounds");
    }

    /// How many operations there were.
    pub fn count(&self) -> u64 {
        self.nanoseconds.len()
    }

    /// The time in seconds that this share of the operations stayed within.
    pub fn quantile(&self, share: f64) -> f64 {
        self.nanoseconds.value_at_quantile(share) as f64 / 1e9
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_seconds() {
        let mut all = Latencies::new();
        for part in [0..50_u64, 50..100] {
            let mut latencies = Latencies::new();
            part.for_each(|at| latencies.record(Duration::from_micros(at + 1)));
            all.add(&latencies);
        }
        assert_eq!(all.count(), 100);
        assert!((all.quantile(0.5) - 50e-6).abs() < 1e-7);
        assert!((all.quantile(0.99) - 99e-6).abs() < 1e-7);
        all.record(Duration::MAX);
        assert!(all.quantile(1.0) >= 599.0);
    }
}
