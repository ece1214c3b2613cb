//! What workers count, and the figures that it comes to.

use std::time::Duration;

use ishigaki_txn::ConflictReason;

use super::round::Outcome;
use crate::{Case, Latencies, Line, Metric, Origin};

/// What one worker counted, or all of them together.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    /// By type, of those transactions that began in the measured time: how long the committed ones took.
    pub(super) latencies: Vec<Latencies>,
    /// By type, likewise: how many their users took back.
    pub(super) rolled_back: Vec<u64>,
    /// Likewise: attempts that gave way, by reason.
    pub(super) aborts: Vec<(ConflictReason, u64)>,
    /// All that committed, measured or not.
    pub(crate) committed: u64,
}

impl Tally {
    pub(super) fn new(kinds: usize) -> Self {
        let latencies = (0..kinds).map(|_| Latencies::new()).collect();
        Self { latencies, rolled_back: vec![0; kinds], aborts: Vec::new(), committed: 0 }
    }

    pub(super) fn committed(&mut self, kind: usize, measured: Option<Duration>) {
        self.committed += 1;
        if let Some(time) = measured {
            self.latencies[kind].record(time);
        }
    }

    pub(super) fn rolled_back(&mut self, kind: usize, measured: bool) {
        self.rolled_back[kind] += u64::from(measured);
    }

    pub(super) fn aborted(&mut self, reason: ConflictReason, measured: bool) {
        if measured {
            self.abort(reason, 1);
        }
    }

    fn abort(&mut self, reason: ConflictReason, count: u64) {
        match self.aborts.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, known)) => *known += count,
            None => self.aborts.push((reason, count)),
        }
    }

    /// Takes in another worker's.
    pub(super) fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.latencies.iter_mut().zip(&other.latencies) {
            mine.add(theirs);
        }
        for (mine, theirs) in self.rolled_back.iter_mut().zip(&other.rolled_back) {
            *mine += theirs;
        }
        other.aborts.iter().for_each(|&(reason, count)| self.abort(reason, count));
        self.committed += other.committed;
    }

    /// Of all types together.
    fn all(&self) -> Latencies {
        let mut all = Latencies::new();
        self.latencies.iter().for_each(|latencies| all.add(latencies));
        all
    }
}

/// A reason as figures call it: `OlderInTheWay` is `older-in-the-way`.
fn word(reason: ConflictReason) -> String {
    let mut word = String::new();
    for letter in format!("{reason:?}").chars() {
        if letter.is_uppercase() && !word.is_empty() {
            word.push('-');
        }
        word.extend(letter.to_lowercase());
    }
    word
}

/// The figures of one case, a value for each round: those of all types together, those of each type that there was, and
/// the attempts that gave way, all of them and by reason.
pub(super) fn lines(bench: &str, case: &Case, kinds: &[&str], outcomes: &[Outcome], origin: &Origin) -> Vec<Line> {
    let with = |key: &str, value: &str| {
        let mut case = case.clone();
        case.insert(key.to_owned(), value.into());
        case
    };
    let line = |case: &Case, metric, figure: &dyn Fn(&Outcome) -> f64| {
        Line::new(bench, case.clone(), metric, outcomes.iter().map(figure).collect(), origin)
    };
    let of_latencies = |kind: &str, pick: &dyn Fn(&Outcome) -> Latencies| {
        let case = with("type", kind);
        let throughput = |outcome: &Outcome| pick(outcome).count() as f64 / outcome.elapsed.as_secs_f64();
        [
            line(&case, Metric::Throughput, &throughput),
            line(&case, Metric::LatencyP50, &|outcome| pick(outcome).quantile(0.5)),
            line(&case, Metric::LatencyP99, &|outcome| pick(outcome).quantile(0.99)),
        ]
    };
    let mut lines: Vec<Line> = of_latencies("all", &|outcome| outcome.tally.all()).into();
    let per_commit = |outcome: &Outcome, count: u64| count as f64 / outcome.tally.all().count().max(1) as f64;
    let all = with("type", "all");
    lines.push(line(&all, Metric::Rollbacks, &|outcome| per_commit(outcome, outcome.tally.rolled_back.iter().sum())));
    lines.push(line(&all, Metric::BytesWritten, &|outcome| outcome.bytes_per_commit));
    lines.push(line(&all, Metric::Writes, &|outcome| outcome.writes_per_commit));
    lines.push(line(&all, Metric::Processor, &|outcome| outcome.processor_per_commit));

    let sum = |outcome: &Outcome| outcome.tally.aborts.iter().map(|(_, count)| count).sum();
    lines.push(line(&with("reason", "all"), Metric::Aborts, &|outcome| per_commit(outcome, sum(outcome))));
    let mut reasons: Vec<ConflictReason> = Vec::new();
    for (reason, _) in outcomes.iter().flat_map(|outcome| &outcome.tally.aborts) {
        if !reasons.contains(reason) {
            reasons.push(*reason);
        }
    }
    for reason in reasons {
        let of_reason = |outcome: &Outcome| {
            let found = outcome.tally.aborts.iter().find(|(known, _)| *known == reason);
            per_commit(outcome, found.map_or(0, |(_, count)| *count))
        };
        lines.push(line(&with("reason", &word(reason)), Metric::Aborts, &of_reason));
    }
    for (kind, name) in kinds.iter().enumerate() {
        let there = |outcome: &Outcome| outcome.tally.latencies[kind].count() > 0;
        if kinds.len() > 1 && outcomes.iter().any(there) {
            lines.extend(of_latencies(name, &|outcome| outcome.tally.latencies[kind].clone()));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use ishigaki_base::random::Seed;

    #[test]
    fn figures_are_per_second_and_per_committed_transaction() {
        let mut tally = Tally::new(2);
        for (kind, micros) in [(0, 10), (0, 20), (1, 30)] {
            tally.committed(kind, Some(Duration::from_micros(micros)));
        }
        tally.committed(1, None);
        tally.rolled_back(0, true);
        tally.rolled_back(0, false);
        for reason in [ConflictReason::OlderInTheWay, ConflictReason::WaitedTooLong, ConflictReason::OlderInTheWay] {
            tally.aborted(reason, true);
            tally.aborted(reason, false);
        }
        let mut both = Tally::new(2);
        both.add(&tally);
        both.add(&tally);
        assert_eq!(both.committed, 8);
        let outcome = Outcome {
            tally: both,
            elapsed: Duration::from_secs(2),
            bytes_per_commit: 7.0,
            writes_per_commit: 0.5,
            processor_per_commit: 1e-6,
        };
        let origin = Origin { machine: String::new(), commit: String::new(), seed: Seed(1) };
        let lines = lines("test", &Case::new(), &["one", "other"], &[outcome], &origin);
        let figure = |key: &str, value: &str, metric| {
            let found = |line: &&Line| line.case.get(key).is_some_and(|it| it == value) && line.metric == metric;
            lines.iter().find(found).unwrap().median
        };
        assert!((figure("type", "all", Metric::Throughput) - 3.0).abs() < 1e-9);
        assert!((figure("type", "one", Metric::Throughput) - 2.0).abs() < 1e-9);
        assert!((figure("type", "other", Metric::LatencyP50) - 30e-6).abs() < 1e-7);
        assert!((figure("type", "all", Metric::Rollbacks) - 2.0 / 6.0).abs() < 1e-9);
        assert!((figure("reason", "all", Metric::Aborts) - 1.0).abs() < 1e-9);
        assert!((figure("reason", "older-in-the-way", Metric::Aborts) - 4.0 / 6.0).abs() < 1e-9);
        assert!((figure("type", "all", Metric::BytesWritten) - 7.0).abs() < 1e-9);
    }
}
