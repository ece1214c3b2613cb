//! How long transactions took: a histogram for each client, added up at the end.

use std::time::Duration;

use hdrhistogram::Histogram;

/// The longest time that is told apart; whatever takes longer counts as this long.
const LONGEST: Duration = Duration::from_mins(10);

/// Times to three significant digits.
#[derive(Clone, Debug)]
pub(crate) struct Latencies {
    nanoseconds: Histogram<u64>,
}

impl Latencies {
    pub(crate) fn new() -> Self {
        let longest = LONGEST.as_nanos() as u64;
        Self { nanoseconds: Histogram::new_with_bounds(1, longest, 3).expect("fixed bounds that a histogram accepts") }
    }

    pub(crate) fn record(&mut self, time: Duration) {
        self.nanoseconds.saturating_record(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).max(1));
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.nanoseconds.add(&other.nanoseconds).expect("both have the same bounds");
    }

    pub(crate) fn count(&self) -> u64 {
        self.nanoseconds.len()
    }

    /// The time in seconds that this share of the transactions stayed within.
    pub(crate) fn quantile(&self, share: f64) -> f64 {
        self.nanoseconds.value_at_quantile(share) as f64 / 1e9
    }
}
