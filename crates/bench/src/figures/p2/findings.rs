//! What the authors found, and whether it holds for our lines.
//!
//! Each finding is judged by a rule that is written beside it, over New-Order without inserts. Two figures count as equal
//! where the spreads of their rounds meet.

use super::charts::variant;
use super::paper::{GROUP_OVER_NONE, LONGEST, MIDDLE, MOST, SHORTEST};
use crate::figures::cases::{number, numbers, text};
use crate::figures::findings::Finding;
use crate::figures::units::Unit;
use crate::{Line, Metric};

/// The papers' workload.
pub(super) const MIX: &str = "new-order-no-insert";

/// The throughputs of the papers' workload.
pub(super) struct Throughputs<'a>(Vec<&'a Line>);

/// What distinguishes one of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) device: String,
    pub(super) warehouses: u64,
    pub(super) workers: u64,
}

impl<'a> Throughputs<'a> {
    pub(super) fn of(lines: &'a [Line]) -> Self {
        let is =
            |line: &&Line| text(line, "mix") == MIX && text(line, "type") == "all" && line.metric == Metric::Throughput;
        Self(lines.iter().filter(is).collect())
    }

    pub(super) fn numbers(&self, key: &str) -> Vec<u64> {
        numbers(&self.0, key)
    }

    /// Every device, number of warehouses and of workers, in the order of the lines.
    fn places(&self) -> Vec<Place> {
        let mut places: Vec<Place> = Vec::new();
        for line in &self.0 {
            let place = place(line);
            if !places.contains(&place) {
                places.push(place);
            }
        }
        places
    }

    fn line(&self, at: &Place, name: &str) -> Option<&'a Line> {
        self.0.iter().find(|line| place(line) == *at && variant(line) == name).copied()
    }

    /// Throughput of one variant over that of another.
    pub(super) fn ratio(&self, at: &Place, one: &str, other: &str) -> Option<f64> {
        Some(self.line(at, one)?.median / self.line(at, other)?.median)
    }

    /// What group commit gives to early release.
    pub(super) fn of_group(&self, at: &Place) -> Option<f64> {
        self.ratio(at, EARLY_GROUP, EARLY)
    }

    /// With the most workers.
    fn at(&self, device: &str, warehouses: u64) -> Option<Place> {
        let workers = self.numbers("workers").last().copied()?;
        Some(Place { device: device.to_owned(), warehouses, workers })
    }
}

const EARLY: &str = "early, no group";
const EARLY_GROUP: &str = "early, group 16";
const NORMAL: &str = "normal, no group";
const NORMAL_GROUP: &str = "normal, group 16";

fn place(line: &Line) -> Place {
    Place {
        device: text(line, "device"),
        warehouses: number(line, "warehouses") as u64,
        workers: number(line, "workers") as u64,
    }
}

/// Their findings, in their order, each that our lines say something about.
pub(super) fn findings(lines: &[Line]) -> Vec<Finding> {
    let throughputs = Throughputs::of(lines);
    let all =
        [best_everywhere, nothing_when_short, much_when_long, more_when_longer, more_warehouses, nearer, no_harm, most];
    all.into_iter().filter_map(|finding| finding(&throughputs)).collect()
}

/// Counts places: `n` of `all`; `None` of none.
fn everywhere(judged: impl Iterator<Item = bool>) -> Option<(usize, usize)> {
    let judged: Vec<bool> = judged.collect();
    (!judged.is_empty()).then(|| (judged.iter().filter(|holds| **holds).count(), judged.len()))
}

fn best_everywhere(throughputs: &Throughputs<'_>) -> Option<Finding> {
    let judge = |place: &Place| {
        let best = throughputs.line(place, EARLY_GROUP)?;
        let others: Vec<&Line> =
            [EARLY, NORMAL, NORMAL_GROUP].iter().filter_map(|name| throughputs.line(place, name)).collect();
        let first = others.iter().all(|other| best.median >= other.median);
        let equal = others.iter().all(|other| best.max >= other.min);
        (!others.is_empty()).then_some((first, equal))
    };
    let judged: Vec<(bool, bool)> = throughputs.places().iter().filter_map(judge).collect();
    let (first, all) = everywhere(judged.iter().map(|(first, _)| *first))?;
    let (equal, _) = everywhere(judged.iter().map(|(_, equal)| *equal))?;
    Some(Finding {
        theirs: "Early release with groups is the best everywhere".to_owned(),
        ours: format!(
            "of {all} cases it is the best in {first}, and the best or equal to it in {equal}; it holds if in all"
        ),
        holds: Some(equal == all),
    })
}

fn nothing_when_short(throughputs: &Throughputs<'_>) -> Option<Finding> {
    let place = throughputs.at(SHORTEST, 1)?;
    let ratio = throughputs.of_group(&place)?;
    Some(Finding {
        theirs: "At 500 ns groups give early release almost nothing (1 warehouse)".to_owned(),
        ours: format!("{ratio:.2} times, {}; it holds within a tenth", workers(&place)),
        holds: Some((ratio - 1.0).abs() <= 0.1),
    })
}

fn much_when_long(throughputs: &Throughputs<'_>) -> Option<Finding> {
    let place = throughputs.at(LONGEST, 1)?;
    let (ratio, [_, (_, there)]) = (throughputs.of_group(&place)?, GROUP_OVER_NONE);
    Some(Finding {
        theirs: format!("At 50 µs groups make early release {there} times as fast (1 warehouse)"),
        ours: format!("{ratio:.2} times, {}; it holds from three quarters of theirs on", workers(&place)),
        holds: Some(ratio >= 0.75 * there),
    })
}

fn more_when_longer(throughputs: &Throughputs<'_>) -> Option<Finding> {
    let place = |device| throughputs.at(device, 1).and_then(|place| throughputs.of_group(&place));
    let ratios = [place(SHORTEST)?, place(MIDDLE)?, place(LONGEST)?];
    Some(Finding {
        theirs: "The longer the latency, the more groups give (1 warehouse)".to_owned(),
        ours: format!("{:.2}, {:.2} and {:.2} times at 500 ns, 5 µs and 50 µs", ratios[0], ratios[1], ratios[2]),
        holds: Some(ratios.is_sorted_by(|shorter, longer| shorter < longer)),
    })
}

fn more_warehouses(throughputs: &Throughputs<'_>) -> Option<Finding> {
    let warehouses = throughputs.numbers("warehouses");
    let (&fewest, &most) = (warehouses.first()?, warehouses.last()?);
    let more = |place: &Place| {
        let beside = Place { warehouses: most, ..place.clone() };
        let variants = [NORMAL, NORMAL_GROUP, EARLY, EARLY_GROUP]
            .map(|name| Some(throughputs.line(&beside, name)?.median > throughputs.line(place, name)?.median));
        variants.into_iter().flatten().collect::<Vec<bool>>()
    };
    let few = throughputs.places().into_iter().filter(|place| place.warehouses == fewest && fewest < most);
    let (count, all) = everywhere(few.flat_map(|place| more(&place)))?;
    Some(Finding {
        theirs: "The more warehouses, the more transactions".to_owned(),
        ours: format!("with {most} warehouses more than with {fewest} in {count} of {all} cases; it holds if in all"),
        holds: Some(count == all),
    })
}

fn nearer(throughputs: &Throughputs<'_>) -> Option<Finding> {
    let warehouses = throughputs.numbers("warehouses");
    let (&fewest, &most) = (warehouses.first()?, warehouses.last()?);
    let share = |count| throughputs.ratio(&throughputs.at(SHORTEST, count)?, NORMAL, EARLY);
    let (few, many) = (share(fewest)?, share(most)?);
    (fewest < most).then(|| Finding {
        theirs: "At 500 ns, normal release without groups comes nearer to early release with more warehouses"
            .to_owned(),
        ours: format!("{few:.2} of it with {fewest}, and {many:.2} with {most}"),
        holds: Some((1.0 - many).abs() < (1.0 - few).abs()),
    })
}

fn no_harm(throughputs: &Throughputs<'_>) -> Option<Finding> {
    let judge = |place: &Place| {
        let pairs = [(EARLY, NORMAL), (EARLY_GROUP, NORMAL_GROUP)];
        pairs.map(|(early, normal)| Some(throughputs.line(place, early)?.max >= throughputs.line(place, normal)?.min))
    };
    let judged = throughputs.places();
    let (count, all) = everywhere(judged.iter().flat_map(judge).flatten())?;
    Some(Finding {
        theirs: "Early release makes nothing slower".to_owned(),
        ours: format!("as fast as normal release or faster in {count} of {all} cases; it holds if in all"),
        holds: Some(count == all),
    })
}

fn most(throughputs: &Throughputs<'_>) -> Option<Finding> {
    let best = throughputs.0.iter().max_by(|one, other| one.median.total_cmp(&other.median))?;
    let place = place(best);
    Some(Finding {
        theirs: format!("Up to {} on 24 cores, with 10 warehouses", Unit::Rate.show(MOST)),
        ours: format!(
            "up to {}: {}, {} warehouses, {} on {}",
            Unit::Rate.show(best.median),
            variant(best),
            place.warehouses,
            workers(&place),
            place.device
        ),
        holds: None,
    })
}

fn workers(place: &Place) -> String {
    format!("{} worker{}", place.workers, if place.workers == 1 { "" } else { "s" })
}
