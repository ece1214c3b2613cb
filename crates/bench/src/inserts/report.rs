//! Lines of what was measured.

use std::time::Duration;

use super::side::Outcome;
use super::{NAME, Settings, Side, Work};
use crate::one_log::Pooled;
use crate::{Case, Line, Metric};

/// What every round gave, by side and load.
pub(super) struct Report<'a> {
    settings: &'a Settings,
    works: &'a [Work],
    /// By the place of the side among the settings', then by rounds, then by loads.
    rounds: Vec<Vec<Vec<Outcome>>>,
}

/// A figure of an outcome.
type Figure = fn(&Outcome, f64) -> Option<f64>;

impl<'a> Report<'a> {
    pub(super) fn new(settings: &'a Settings, works: &'a [Work]) -> Self {
        Self { settings, works, rounds: vec![Vec::new(); settings.sides.len()] }
    }

    /// One more round of a side.
    pub(super) fn add(&mut self, side: usize, outcomes: Vec<Outcome>) {
        self.rounds[side].push(outcomes);
    }

    /// All lines, side by side for each load.
    pub(super) fn lines(&self, real_time: Option<bool>) -> Vec<Line> {
        let mut lines = Vec::new();
        for (place, &work) in self.works.iter().enumerate() {
            for (side, &name) in self.settings.sides.iter().enumerate() {
                let outcomes: Vec<&Outcome> = self.rounds[side].iter().map(|round| &round[place]).collect();
                lines.extend(self.of(name, work, &outcomes, real_time));
                lines.extend(self.beside_separate(name, work, place, &outcomes, real_time));
            }
        }
        lines
    }

    fn case(&self, side: Side, work: Work, real_time: Option<bool>) -> Case {
        let Settings { kind, disk, transactions, .. } = self.settings;
        let waiting = match side {
            Side::Separate => String::new(),
            Side::Pool(waiting) => waiting.to_string(),
        };
        let mut case = Case::from_iter([
            ("device".to_owned(), disk.to_string().into()),
            ("server".to_owned(), kind.to_string().into()),
            ("side".to_owned(), side.to_string().into()),
            ("waiting".to_owned(), waiting.into()),
            ("servers".to_owned(), work.servers.into()),
            ("integers".to_owned(), work.integers.into()),
            ("transactions".to_owned(), (*transactions).into()),
        ]);
        if let Some(real_time) = real_time {
            case.insert("real_time".to_owned(), real_time.into());
        }
        case
    }

    fn of(&self, side: Side, work: Work, outcomes: &[&Outcome], real_time: Option<bool>) -> Vec<Line> {
        let transactions = (work.servers * self.settings.transactions) as f64;
        let case = self.case(side, work, real_time);
        let plain: [(Metric, Figure); 7] = [
            (Metric::Elapsed, |outcome, _| Some(mean(&outcome.done.elapsed))),
            (Metric::Throughput, |outcome, count| Some(count / longest(&outcome.done.elapsed))),
            (Metric::LatencyP50, |outcome, _| Some(outcome.done.latencies.quantile(0.5))),
            (Metric::LatencyP99, |outcome, _| Some(outcome.done.latencies.quantile(0.99))),
            (Metric::Writes, |outcome, count| Some(outcome.disk?.writes / count)),
            (Metric::BytesWritten, |outcome, count| Some(outcome.disk?.bytes / count)),
            (Metric::Syncs, |outcome, count| Some(outcome.disk?.syncs / count)),
        ];
        let line = |case: &Case, metric, figure: Figure| {
            let runs: Option<Vec<f64>> = outcomes.iter().map(|outcome| figure(outcome, transactions)).collect();
            runs.map(|runs| Line::new(NAME, case.clone(), metric, runs, &self.settings.host.origin))
        };
        let mut lines: Vec<Line> =
            plain.into_iter().filter_map(|(metric, figure)| line(&case, metric, figure)).collect();
        let ratios: [(&str, Figure); 4] = [
            ("logged over written", |outcome, _| pooled(outcome, |pool| (pool.logged, pool.written))),
            ("medium over written", |outcome, _| pooled(outcome, |pool| (pool.medium, pool.written))),
            ("requests over log writes", |outcome, _| pooled(outcome, |pool| (pool.requests, pool.writes))),
            ("pool's processor over elapsed", |outcome, _| {
                Some(outcome.pool?.processor / longest(&outcome.done.elapsed))
            }),
        ];
        lines.extend(ratios.into_iter().filter_map(|(of, figure)| line(&that(&case, of), Metric::Ratio, figure)));
        lines
    }

    /// What a side's time is of the separate logs', round by round.
    fn beside_separate(
        &self,
        side: Side,
        work: Work,
        place: usize,
        outcomes: &[&Outcome],
        real_time: Option<bool>,
    ) -> Option<Line> {
        let separate = self.settings.sides.iter().position(|&other| other == Side::Separate && side != other)?;
        let times = |outcome: &Outcome| mean(&outcome.done.elapsed);
        let runs = outcomes.iter().zip(&self.rounds[separate]);
        let runs = runs.map(|(outcome, round)| times(outcome) / times(&round[place])).collect();
        let case = that(&self.case(side, work, real_time), "elapsed over separate");
        Some(Line::new(NAME, case, Metric::Ratio, runs, &self.settings.host.origin))
    }
}

fn that(case: &Case, of: &str) -> Case {
    let mut case = case.clone();
    case.insert("of".to_owned(), of.into());
    case
}

fn pooled(outcome: &Outcome, parts: fn(&Pooled) -> (f64, f64)) -> Option<f64> {
    let (part, whole) = parts(outcome.pool.as_ref()?);
    (whole > 0.0).then_some(part / whole)
}

fn mean(times: &[Duration]) -> f64 {
    times.iter().map(Duration::as_secs_f64).sum::<f64>() / times.len().max(1) as f64
}

fn longest(times: &[Duration]) -> f64 {
    times.iter().max().map_or(f64::NAN, Duration::as_secs_f64)
}
