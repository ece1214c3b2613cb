//! One measured figure, as a line of JSON or a row of a table.

use std::fmt::Write as _;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Origin, columns};

/// What distinguishes one figure of a workload from the next: sessions, target, sizes.
pub type Case = serde_json::Map<String, Value>;

/// What was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Metric {
    /// Operations finished in a second.
    Throughput,
    /// Bytes moved in a second.
    Bandwidth,
    /// The time that half of the operations stayed within.
    LatencyP50,
    /// The time that 99% of the operations stayed within.
    LatencyP99,
    /// The time that 99.9% of the operations stayed within.
    LatencyP999,
    /// The time that all of the work took; of several who work beside each other, the mean of their times.
    Elapsed,
    /// The time from an operation's begin until its own record was durable, which half of the operations stayed within.
    UntilFlushedP50,
    /// The same for 99% of the operations.
    UntilFlushedP99,
    /// The share of the operations' time that went by between their own record being durable and their being acknowledged.
    ShareOfWaiting,
    /// The share of pages read that a cache had.
    HitRatio,
    /// One figure divided by another of the same round; the case says which.
    Ratio,
    /// The engine's throughput divided by the bare device's of the same round.
    ShareOfDevice,
    /// Device writes that one transaction took.
    Writes,
    /// Syncs of the device that one transaction took.
    Syncs,
    /// Calls into the kernel that one transaction took; the case says which.
    Calls,
    /// Bytes that one transaction gave to such calls, or to the device.
    BytesWritten,
    /// Bytes that came over the network for one operation.
    BytesReceived,
    /// Attempts that gave way to another transaction and were repeated, for each transaction that committed.
    Aborts,
    /// Transactions that their user took back, for each that committed.
    Rollbacks,
    /// Processor time of the workers for each transaction that committed: what throughput comes to if nobody else has the
    /// processors and nothing is waited for. Of queries, that of the process for each; the case says which process.
    Processor,
}

impl Metric {
    /// The SI unit of its figures.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Throughput => "1/s",
            Self::Bandwidth => "B/s",
            Self::LatencyP50
            | Self::LatencyP99
            | Self::LatencyP999
            | Self::Elapsed
            | Self::UntilFlushedP50
            | Self::UntilFlushedP99
            | Self::Processor => "s",
            Self::ShareOfWaiting
            | Self::Ratio
            | Self::HitRatio
            | Self::ShareOfDevice
            | Self::Writes
            | Self::Syncs
            | Self::Calls
            | Self::Aborts
            | Self::Rollbacks => "1",
            Self::BytesWritten | Self::BytesReceived => "B",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Throughput => "throughput",
            Self::Bandwidth => "bandwidth",
            Self::LatencyP50 => "latency p50",
            Self::LatencyP99 => "latency p99",
            Self::LatencyP999 => "latency p99.9",
            Self::Elapsed => "elapsed",
            Self::UntilFlushedP50 => "until flushed p50",
            Self::UntilFlushedP99 => "until flushed p99",
            Self::ShareOfWaiting => "share of waiting",
            Self::Ratio => "ratio",
            Self::HitRatio => "hit ratio",
            Self::ShareOfDevice => "share of device",
            Self::Writes => "writes",
            Self::Syncs => "syncs",
            Self::Calls => "calls",
            Self::BytesWritten => "bytes written",
            Self::BytesReceived => "bytes received",
            Self::Aborts => "aborts",
            Self::Rollbacks => "rollbacks",
            Self::Processor => "processor",
        }
    }
}

/// One figure. Its JSON form, one object a line, is what `--json` prints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// The workload.
    pub bench: String,
    /// What distinguishes this figure from the workload's others.
    pub case: Case,
    /// What was measured.
    pub metric: Metric,
    /// The SI unit of the numbers.
    pub unit: String,
    /// The middle of the rounds' values.
    pub median: f64,
    /// The smallest of them.
    pub min: f64,
    /// The largest of them.
    pub max: f64,
    /// The value of each round, in the order of the rounds.
    pub runs: Vec<f64>,
    /// Where it was measured.
    pub machine: String,
    /// The source that was measured.
    pub commit: String,
    /// The seed of the run.
    pub seed: u64,
}

impl Line {
    /// A figure over the values of the rounds.
    pub fn new(bench: &str, case: Case, metric: Metric, runs: Vec<f64>, origin: &Origin) -> Self {
        let mut sorted = runs.clone();
        sorted.sort_by(f64::total_cmp);
        let at = |index: usize| sorted.get(index).copied().unwrap_or(0.0);
        Self {
            bench: bench.to_owned(),
            case,
            metric,
            unit: metric.unit().to_owned(),
            median: median(&runs),
            min: at(0),
            max: at(sorted.len().wrapping_sub(1)),
            runs,
            machine: origin.machine.clone(),
            commit: origin.commit.clone(),
            seed: origin.seed.0,
        }
    }

    /// The object as one line of JSON, without the line's end.
    #[expect(clippy::missing_panics_doc, reason = "no line makes it panic, as it says there")]
    pub fn json(&self) -> String {
        serde_json::to_string(self)
            .expect("a line is strings, numbers and maps with string keys, which JSON can all hold")
    }

    fn figure(&self, value: f64) -> String {
        match self.unit.as_str() {
            "s" if value.is_finite() && value >= 0.0 => seconds(value),
            "1/s" => format!("{value:.0}/s"),
            "B/s" => format!("{:.1} MB/s", value / 1e6),
            _ => format!("{value:.2}"),
        }
    }
}

/// The middle of the values, or the mean of the two that are; 0 of none.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => 0.0,
        count if count.is_multiple_of(2) => f64::midpoint(sorted[middle - 1], sorted[middle]),
        _ => sorted[middle],
    }
}

/// The figures for a person: a row each, under what they share.
pub fn table(lines: &[Line]) -> String {
    let mut text = String::new();
    let Some(first) = lines.first() else { return text };
    let _ = writeln!(text, "{}, source {}, seed {}", first.machine, first.commit, first.seed);
    let mut rows = vec![["bench", "case", "metric", "median", "min", "max"].map(str::to_owned)];
    rows.extend(lines.iter().map(row));
    text + &columns(&rows, &[0, 1, 2])
}

fn row(line: &Line) -> [String; 6] {
    let plain = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let case: Vec<String> = line.case.iter().map(|(name, value)| format!("{name}={}", plain(value))).collect();
    [
        line.bench.clone(),
        case.join(" "),
        line.metric.name().to_owned(),
        line.figure(line.median),
        line.figure(line.min),
        line.figure(line.max),
    ]
}

/// A time with three digits that matter: `81.2 us`.
fn seconds(value: f64) -> String {
    let (scaled, unit) = match Duration::try_from_secs_f64(value).unwrap_or(Duration::MAX) {
        time if time < Duration::from_millis(1) => (value * 1e6, "us"),
        time if time < Duration::from_secs(1) => (value * 1e3, "ms"),
        _ => (value, "s"),
    };
    format!("{scaled:.1} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use ishigaki_base::random::Seed;

    fn line(runs: &[f64]) -> Line {
        let origin = Origin { machine: "a machine".into(), commit: "abc".into(), seed: Seed(7) };
        let case = Case::from_iter([("sessions".to_owned(), 4.into()), ("target".to_owned(), "engine".into())]);
        Line::new("commit", case, Metric::LatencyP50, runs.to_vec(), &origin)
    }

    #[test]
    fn the_median_lies_in_the_middle_of_the_rounds() {
        let odd = line(&[3.0, 1.0, 2.0]);
        assert_eq!((odd.min, odd.median, odd.max), (1.0, 2.0, 3.0));
        assert_eq!(odd.runs, [3.0, 1.0, 2.0], "the rounds keep their order");
        let even = line(&[4.0, 1.0]);
        assert_eq!((even.min, even.median, even.max), (1.0, 2.5, 4.0));
        let none = line(&[]);
        assert_eq!((none.min, none.median, none.max), (0.0, 0.0, 0.0));
    }

    #[test]
    fn a_line_of_json_has_the_documented_form() {
        let line = line(&[0.5]);
        let expected = concat!(
            r#"{"bench":"commit","case":{"sessions":4,"target":"engine"},"metric":"latency_p50","unit":"s","#,
            r#""median":0.5,"min":0.5,"max":0.5,"runs":[0.5],"machine":"a machine","commit":"abc","seed":7}"#
        );
        assert_eq!(line.json(), expected);
        assert_eq!(serde_json::from_str::<Line>(expected).unwrap(), line);
    }

    #[test]
    fn a_table_has_a_row_for_each_line() {
        let text = table(&[line(&[0.000_081_23]), line(&[1.5])]);
        assert_eq!(text.lines().count(), 4);
        assert!(text.contains("81.2 us") && text.contains("1.5 s") && text.contains("sessions=4 target=engine"));
    }
}
