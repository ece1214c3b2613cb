//! How long requests took: counts by time, with steps of less than 1%.

use std::time::Duration;

/// Times below this many nanoseconds have a count each; above, every doubling is divided into half as many steps.
const FINE: u64 = 256;

/// Counts of times. Its size does not depend on how many there are.
#[derive(Debug)]
pub(super) struct Latencies {
    counts: Vec<u64>,
}

impl Latencies {
    pub(super) fn new() -> Self {
        Self { counts: vec![0; step_of(u64::MAX) + 1] }
    }

    pub(super) fn record(&mut self, time: Duration) {
        self.counts[step_of(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))] += 1;
    }

    pub(super) fn add(&mut self, other: &Self) {
        for (count, other) in self.counts.iter_mut().zip(&other.counts) {
            *count += other;
        }
    }

    pub(super) fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The time that this share of the requests stayed within.
    pub(super) fn quantile(&self, share: f64) -> Duration {
        let wanted = (self.count() as f64 * share).ceil().max(1.0) as u64;
        let mut seen = 0;
        let step = self.counts.iter().position(|count| {
            seen += count;
            seen >= wanted
        });
        step.map_or(Duration::ZERO, |step| Duration::from_nanos(middle_of(step)))
    }
}

/// The step that a time in nanoseconds belongs to.
fn step_of(nanos: u64) -> usize {
    if nanos < FINE {
        return nanos as usize;
    }
    let doubling = u64::from(nanos.ilog2() - FINE.ilog2()) + 1;
    (FINE / 2 * (doubling - 1) + FINE / 2 + (nanos >> doubling)) as usize
}

/// The time in the middle of a step.
fn middle_of(step: usize) -> u64 {
    let step = step as u64;
    if step < FINE {
        return step;
    }
    let doubling = (step - FINE) / (FINE / 2) + 1;
    let place = (step - FINE) % (FINE / 2) + FINE / 2;
    (place << doubling) + (1 << doubling) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_is_told_to_within_a_hundredth() {
        let mut before = 0;
        for power in 0..64 {
            for nanos in [1_u64 << power, (1 << power) + (1 << power) / 3, (1 << power) - 1 + (1 << power)] {
                let step = step_of(nanos);
                assert!(step >= before, "steps rise with time");
                before = step;
                assert!(middle_of(step).abs_diff(nanos) <= nanos / 100, "{nanos} ns reads {}", middle_of(step));
            }
        }
    }

    #[test]
    fn quantiles_are_counted_over_all_threads() {
        let mut all = Latencies::new();
        for part in [1..=50, 51..=100] {
            let mut latencies = Latencies::new();
            part.for_each(|nanos| latencies.record(Duration::from_nanos(nanos)));
            all.add(&latencies);
        }
        assert_eq!(all.count(), 100);
        assert_eq!(all.quantile(0.5), Duration::from_nanos(50));
        assert_eq!(all.quantile(0.99), Duration::from_nanos(99));
        assert_eq!(all.quantile(1.0), Duration::from_nanos(100));
        assert_eq!(Latencies::new().quantile(0.5), Duration::ZERO);
    }
}
