//! Which charts the lines give: work by the fast device's size, by the share of prefetch and by units, and what happens over time.

use std::collections::BTreeSet;

use super::findings::{MIB, is, of_mode, sizes, work};
use super::{SHARE, UNIT};
use crate::figures::cases::{number, series, text};
use crate::figures::chart::{Axis, Chart, Series};
use crate::figures::units::Unit;
use crate::volumes::TIME;
use crate::{Line, Metric};

/// Everything that these lines show.
pub(in crate::figures) fn charts(lines: &[Line]) -> Vec<Chart> {
    let work = work(lines);
    let mut charts = vec![by_size(&work), by_share(&work), by_unit(&work)];
    let over_time = [
        ("throughput", Metric::Throughput, Unit::Rate, "transactions a second"),
        ("hits", Metric::HitRatio, Unit::Share, "read from the fast device"),
        ("share", Metric::Ratio, Unit::Share, "share of prefetch"),
    ];
    for size in sizes(&work) {
        for (name, metric, unit, label) in over_time {
            let of =
                |line: &&Line| line.bench == TIME && line.metric == metric && is(line, "fifteenths", f64::from(size));
            let own: Vec<&Line> = lines.iter().filter(of).collect();
            let mut series = series(&own, called, "half_phase");
            for point in series.iter_mut().flat_map(|series| &mut series.points) {
                // The end of the half that it is of.
                point.x = f64::midpoint(point.x, 1.0);
            }
            charts.push(Chart {
                name: format!("p5b-{name}-{size}"),
                title: format!("Over time, {size}/15 of the data on the fast device"),
                x: Axis { label: "phase", unit: Unit::Count },
                y: Axis { label, unit },
                steps: false,
                series,
            });
        }
    }
    charts
}

/// What a way is called.
pub(super) fn called(line: &Line) -> String {
    let mode = text(line, "mode");
    if matches!(mode.as_str(), "plain" | "layout") { format!("{mode} r={}", number(line, "share")) } else { mode }
}

fn done(name: &str, title: &str, x: Axis, series: Vec<Series>) -> Chart {
    let y = Axis { label: "transactions a second", unit: Unit::Rate };
    Chart { name: name.to_owned(), title: title.to_owned(), x, y, steps: true, series }
}

fn by_size(work: &[&Line]) -> Chart {
    let own: Vec<&Line> = work.iter().filter(|line| is(line, "unit", UNIT.as_u64() as f64)).copied().collect();
    let x = Axis { label: "fast device, fifteenths of the data", unit: Unit::Count };
    done("p5b-work", "What gets done", x, series(&own, called, "fifteenths"))
}

/// The fixed shares, and beside them the one that is not fixed.
fn by_share(work: &[&Line]) -> Chart {
    let mut all = Vec::new();
    for (colour, size) in sizes(work).into_iter().enumerate() {
        let fixed = of_mode(work, "layout", size);
        let mut own = series(&fixed, |_| format!("{size}/15, fixed"), "share");
        let places: BTreeSet<u64> = fixed.iter().map(|line| number(line, "share").to_bits()).collect();
        let mut beside = series(&of_mode(work, "adaptive", size), |_| format!("{size}/15, adaptive"), "share");
        for series in &mut beside {
            let Some(point) = series.points.first().copied() else { continue };
            let at = |place: &u64| crate::figures::chart::Point { x: f64::from_bits(*place), ..point };
            series.points = places.iter().map(at).collect();
            series.dashed = true;
        }
        own.append(&mut beside);
        for series in &mut own {
            series.colour = colour;
        }
        all.append(&mut own);
    }
    let x = Axis { label: "share of the time for prefetch", unit: Unit::Share };
    done("p5b-shares", "What gets done, by the share of prefetch", x, all)
}

fn by_unit(work: &[&Line]) -> Chart {
    let largest = sizes(work).last().copied().unwrap_or(0);
    let has = |line: &&&Line| is(line, "fifteenths", f64::from(largest)) && is(line, "share", SHARE);
    let own: Vec<&Line> = work.iter().filter(has).copied().collect();
    let several = own.iter().any(|line| !is(line, "unit", 3.0 * MIB));
    let x = Axis { label: "unit", unit: Unit::Bytes };
    let series = if several { series(&own, |line| text(line, "mode"), "unit") } else { Vec::new() };
    done("p5b-units", "What gets done, by what is brought together", x, series)
}
