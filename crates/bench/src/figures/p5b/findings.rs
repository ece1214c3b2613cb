//! What the lines say about what the author found, and about what we aim at.

use super::paper::{ADAPTIVE_OVER_PLAIN, ADAPTIVE_OVER_RIVAL, BEST_SHARE, BEST_UNIT, FIXED_OVER_RIVAL, LAYOUT_IN_FOUR};
use super::{SHARE, UNIT};
use crate::figures::cases::{number, text};
use crate::figures::findings::Finding;
use crate::volumes::WORK;
use crate::{Line, Metric};

/// Bytes of a MiB.
pub(super) const MIB: f64 = 1_048_576.0;

/// The work of all ways.
pub(super) fn work(lines: &[Line]) -> Vec<&Line> {
    lines.iter().filter(|line| line.bench == WORK && line.metric == Metric::Throughput).collect()
}

pub(super) fn is(line: &Line, key: &str, value: f64) -> bool {
    (number(line, key) - value).abs() < 1e-9
}

/// The work of a mode with a fast device of that size, in units as everywhere.
pub(super) fn of_mode<'a>(work: &[&'a Line], mode: &str, fifteenths: u32) -> Vec<&'a Line> {
    let has = |line: &&&Line| {
        text(line, "mode") == mode
            && is(line, "fifteenths", f64::from(fifteenths))
            && is(line, "unit", UNIT.as_u64() as f64)
    };
    work.iter().filter(has).copied().collect()
}

/// The one of these that gets most done.
fn best<'a>(lines: &[&'a Line]) -> Option<&'a Line> {
    lines.iter().copied().max_by(|one, other| one.median.total_cmp(&other.median))
}

/// The sizes of the fast device that there are, the smallest first.
pub(super) fn sizes(work: &[&Line]) -> Vec<u32> {
    let mut sizes: Vec<u32> =
        work.iter().map(|line| number(line, "fifteenths") as u32).filter(|&size| size > 0).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// How many times as much one gets done as the other, with the least and the most that their rounds allow.
fn over(one: &Line, other: &Line) -> (f64, String) {
    let ratio = one.median / other.median.max(1e-9);
    let (least, most) = (one.min / other.max.max(1e-9), one.max / other.min.max(1e-9));
    (ratio, format!("{ratio:.2} (rounds {least:.2} to {most:.2})"))
}

fn at_least(theirs: String, one: Option<&Line>, other: Option<&Line>, limit: f64, size: u32) -> Option<Finding> {
    let (ratio, told) = over(one?, other?);
    Some(Finding { theirs, ours: format!("{size}/15: {told}"), holds: Some(ratio >= limit) })
}

/// What the author found, and what holds here.
pub(super) fn findings(lines: &[Line]) -> Vec<Finding> {
    let work = work(lines);
    let sizes = sizes(&work);
    let Some(&largest) = sizes.last() else { return Vec::new() };
    let of = |mode: &str| of_mode(&work, mode, largest);
    let [rival, layout, adaptive, plain] = ["block cache", "layout", "adaptive", "plain"].map(|mode| best(&of(mode)));
    let mut found: Vec<Finding> = [
        (
            format!("prefetch by layout, r fixed: {FIXED_OVER_RIVAL} of FlashCache's work"),
            layout,
            rival,
            FIXED_OVER_RIVAL,
        ),
        (format!("r adaptive: {ADAPTIVE_OVER_RIVAL} of FlashCache's work"), adaptive, rival, ADAPTIVE_OVER_RIVAL),
        (format!("r adaptive: {ADAPTIVE_OVER_PLAIN} of prefetch without layout"), adaptive, plain, ADAPTIVE_OVER_PLAIN),
    ]
    .into_iter()
    .filter_map(|(theirs, one, other, limit)| at_least(theirs, one, other, limit, largest))
    .collect();
    for (size, share) in BEST_SHARE {
        let fixed = of_mode(&work, "layout", size);
        let Some(best) = best(&fixed).filter(|_| fixed.len() > 1) else { continue };
        found.push(Finding {
            theirs: format!("{size}/15: the best of the fixed shares is {share}"),
            ours: format!("{}", number(best, "share")),
            holds: Some(is(best, "share", share)),
        });
    }
    let of_units: Vec<&Line> = work
        .iter()
        .filter(|line| is(line, "fifteenths", f64::from(largest)) && is(line, "share", SHARE))
        .copied()
        .collect();
    let by =
        |mode: &str| -> Vec<&Line> { of_units.iter().filter(|line| text(line, "mode") == mode).copied().collect() };
    let layouts = by("layout");
    if let Some(best) = best(&layouts).filter(|_| layouts.len() > 1) {
        let unit = number(best, "unit") / MIB;
        found.push(Finding {
            theirs: format!("units of {BEST_UNIT} MiB get most done"),
            ours: format!("{unit} MiB"),
            holds: Some((unit - BEST_UNIT).abs() < 1e-9),
        });
    }
    let four = |mode: &str| by(mode).into_iter().find(|line| is(line, "unit", 4.0 * MIB));
    let theirs = format!("in units of 4 MiB, layout gets {LAYOUT_IN_FOUR} of what is done without");
    found.extend(at_least(theirs, four("layout"), four("plain"), LAYOUT_IN_FOUR, largest));
    found
}

/// What we aimed at.
pub(super) fn aims(lines: &[Line]) -> Vec<Finding> {
    let work = work(lines);
    let mut aims = Vec::new();
    for size in sizes(&work) {
        let of = |mode: &str| best(&of_mode(&work, mode, size));
        let adaptive = of("adaptive");
        let rows = [
            ("a cache of blocks", of("block cache"), ADAPTIVE_OVER_RIVAL),
            ("on demand", of("on demand"), ADAPTIVE_OVER_RIVAL),
            ("prefetch without layout", of("plain"), 1.17),
            ("the best of the fixed shares", of("layout"), 1.0),
        ];
        for (name, other, limit) in rows {
            let theirs = format!("adaptive: at least {limit} of what {name} gets done");
            aims.extend(at_least(theirs, adaptive, other, limit, size));
        }
    }
    aims
}
