//! Lines of what was measured.

use super::{NAME, Outcome, Settings};
use crate::one_log::{Pooled, Side};
use crate::tpcc::mix::Kind;
use crate::{Case, Latencies, Line, Metric};

/// What every round gave, by side and number of servers.
pub(super) struct Report<'a> {
    settings: &'a Settings,
    /// By the place of the side among the settings', then by rounds, then by loads.
    rounds: Vec<Vec<Vec<Outcome>>>,
}

/// A figure of an outcome.
type Figure<'a> = &'a dyn Fn(&Outcome) -> Option<f64>;

impl<'a> Report<'a> {
    pub(super) fn new(settings: &'a Settings) -> Self {
        Self { settings, rounds: settings.sides.iter().map(|_| Vec::new()).collect() }
    }

    /// One more round of a side.
    pub(super) fn add(&mut self, side: usize, outcomes: Vec<Outcome>) {
        self.rounds[side].push(outcomes);
    }

    /// All lines, side by side for each number of servers.
    pub(super) fn lines(&self, real_time: Option<bool>) -> Vec<Line> {
        let mut lines = Vec::new();
        for (place, &servers) in self.settings.servers.iter().enumerate() {
            for (side, &name) in self.settings.sides.iter().enumerate() {
                let outcomes: Vec<&Outcome> = self.rounds[side].iter().map(|round| &round[place]).collect();
                let case = self.case(name, servers, real_time);
                lines.extend(self.of(&case, &outcomes));
                lines.extend(self.beside_separate(&case, name, place, &outcomes));
            }
        }
        lines
    }

    fn case(&self, side: Side, servers: usize, real_time: Option<bool>) -> Case {
        let Settings { kind, disk, data, clients, company, duration, .. } = self.settings;
        let waiting = match side {
            Side::Separate => String::new(),
            Side::Pool(waiting) => waiting.to_string(),
        };
        let mut case = Case::from_iter([
            ("device".to_owned(), disk.to_string().into()),
            ("server".to_owned(), kind.to_string().into()),
            ("side".to_owned(), side.to_string().into()),
            ("waiting".to_owned(), waiting.into()),
            ("servers".to_owned(), servers.into()),
            ("clients".to_owned(), (*clients).into()),
            ("data".to_owned(), data.to_string().into()),
            ("warehouses".to_owned(), company.warehouses.get().into()),
            ("items".to_owned(), company.scale.items.into()),
            ("customers".to_owned(), company.scale.customers.into()),
            ("seconds".to_owned(), duration.as_secs_f64().into()),
        ]);
        if let Some(real_time) = real_time {
            case.insert("real_time".to_owned(), real_time.into());
        }
        case
    }

    fn line(&self, case: &Case, metric: Metric, outcomes: &[&Outcome], figure: Figure<'_>) -> Option<Line> {
        let runs: Option<Vec<f64>> = outcomes.iter().map(|outcome| figure(outcome)).collect();
        runs.map(|runs| Line::new(NAME, case.clone(), metric, runs, &self.settings.host.origin))
    }

    fn of(&self, case: &Case, outcomes: &[&Outcome]) -> Vec<Line> {
        let all = |outcome: &Outcome| outcome.done.all();
        let mut lines = self.times(&with(case, "transaction", "all"), outcomes, &all);
        for kind in Kind::ALL {
            let own = |outcome: &Outcome| outcome.done.latencies[kind as usize].clone();
            lines.extend(self.times(&with(case, "transaction", Kind::NAMES[kind as usize]), outcomes, &own));
        }
        let commits = |outcome: &Outcome| outcome.done.all().count() as f64;
        let gave_way = |outcome: &Outcome| outcome.done.gave_way.values().sum::<u64>() as f64;
        let plain: [(Metric, Figure<'_>); 5] = [
            (Metric::Aborts, &|outcome| Some(gave_way(outcome) / commits(outcome))),
            (Metric::Rollbacks, &|outcome| Some(outcome.done.rollbacks as f64 / commits(outcome))),
            (Metric::Writes, &|outcome| Some(outcome.disk?.writes / commits(outcome))),
            (Metric::BytesWritten, &|outcome| Some(outcome.disk?.bytes / commits(outcome))),
            (Metric::Syncs, &|outcome| Some(outcome.disk?.syncs / commits(outcome))),
        ];
        lines.extend(plain.into_iter().filter_map(|(metric, figure)| self.line(case, metric, outcomes, figure)));
        for code in
            outcomes.iter().flat_map(|outcome| outcome.done.gave_way.keys()).collect::<std::collections::BTreeSet<_>>()
        {
            let of_code = |outcome: &Outcome| {
                Some(outcome.done.gave_way.get(code).copied().unwrap_or(0) as f64 / commits(outcome))
            };
            lines.extend(self.line(&with(case, "reason", code), Metric::Aborts, outcomes, &of_code));
        }
        let ratios: [(&str, Figure<'_>); 3] = [
            ("logged over written", &|outcome| pooled(outcome, |pool| (pool.logged, pool.written))),
            ("requests over log writes", &|outcome| pooled(outcome, |pool| (pool.requests, pool.writes))),
            ("pool's processor over elapsed", &|outcome| {
                Some(outcome.pool?.processor / outcome.done.elapsed.as_secs_f64())
            }),
        ];
        let ratio =
            |(of, figure): (&str, Figure<'_>)| self.line(&with(case, "of", of), Metric::Ratio, outcomes, figure);
        lines.extend(ratios.into_iter().filter_map(ratio));
        lines
    }

    /// Throughput and latencies of some transactions.
    fn times(&self, case: &Case, outcomes: &[&Outcome], own: &dyn Fn(&Outcome) -> Latencies) -> Vec<Line> {
        let figures: [(Metric, Figure<'_>); 3] = [
            (Metric::Throughput, &|outcome| Some(own(outcome).count() as f64 / outcome.done.elapsed.as_secs_f64())),
            (Metric::LatencyP50, &|outcome| Some(own(outcome).quantile(0.5))),
            (Metric::LatencyP99, &|outcome| Some(own(outcome).quantile(0.99))),
        ];
        figures.into_iter().filter_map(|(metric, figure)| self.line(case, metric, outcomes, figure)).collect()
    }

    /// What a side's throughput is of the separate logs', round by round.
    fn beside_separate(&self, case: &Case, side: Side, place: usize, outcomes: &[&Outcome]) -> Option<Line> {
        let separate = self.settings.sides.iter().position(|&other| other == Side::Separate && side != other)?;
        let rate = |outcome: &Outcome| outcome.done.all().count() as f64 / outcome.done.elapsed.as_secs_f64();
        let runs = outcomes.iter().zip(&self.rounds[separate]);
        let runs = runs.map(|(outcome, round)| rate(outcome) / rate(&round[place])).collect();
        Some(Line::new(
            NAME,
            with(case, "of", "throughput over separate"),
            Metric::Ratio,
            runs,
            &self.settings.host.origin,
        ))
    }
}

fn with(case: &Case, key: &str, value: &str) -> Case {
    let mut case = case.clone();
    case.insert(key.to_owned(), value.into());
    case
}

fn pooled(outcome: &Outcome, parts: fn(&Pooled) -> (f64, f64)) -> Option<f64> {
    let (part, whole) = parts(outcome.pool.as_ref()?);
    (whole > 0.0).then_some(part / whole)
}
