//! The rounds of one case, and the figures that they come to.

use crate::pace::Run;
use crate::{Case, Line, Metric, Origin};

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
