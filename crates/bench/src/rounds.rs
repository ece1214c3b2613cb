//! The rounds of one case, and the figures that they come to.

use std::time::Duration;

use crate::pace::Run;
use crate::{Case, Error, Line, Metric, Origin, Result};

/// Refuses rounds of which none shows anything.
pub(crate) fn check(rounds: usize, duration: Duration) -> Result<()> {
    if rounds == 0 {
        return Err(Error::invalid("rounds", "at least one round is needed, and an odd number has a median"));
    }
    if duration.is_zero() {
        return Err(Error::invalid("seconds", "a round takes some time, such as 2"));
    }
    Ok(())
}

/// Refuses numbers of workers that there can not be.
pub(crate) fn check_workers(workers: &[usize]) -> Result<()> {
    if workers.is_empty() || workers.iter().any(|count| !(1..=256).contains(count)) {
        return Err(Error::invalid("workers", "give one or more counts from 1 to 256, such as 1,2,4"));
    }
    Ok(())
}

/// One value a round, in their order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rounds {
    /// Operations in a second.
    pub throughput: Vec<f64>,
    /// Seconds that half, 99% and 99.9% of the operations stayed within.
    pub quantiles: [Vec<f64>; 3],
}

impl Rounds {
    /// One more round.
    pub fn add(&mut self, run: &Run) {
        self.throughput.push(run.throughput());
        for (values, share) in self.quantiles.iter_mut().zip([0.5, 0.99, 0.999]) {
            values.push(run.latencies.quantile(share));
        }
    }

    /// Throughput and the three latencies.
    pub fn lines(&self, bench: &str, case: &Case, origin: &Origin) -> Vec<Line> {
        let metrics = [Metric::Throughput, Metric::LatencyP50, Metric::LatencyP99, Metric::LatencyP999];
        let values = [&self.throughput].into_iter().chain(&self.quantiles);
        let line =
            |(metric, values): (Metric, &Vec<f64>)| Line::new(bench, case.clone(), metric, values.clone(), origin);
        metrics.into_iter().zip(values).map(line).collect()
    }
}
