//! Queries over a link to a host of its own, idle and busy: what of them is shown. The thesis has no such experiment.

use std::fmt::Write as _;

use super::charts::{of_bench, that};
use crate::figures::cases::{file_name, number, numbers, text, texts, with};
use crate::figures::chart::{Axis, Chart, Point, Series};
use crate::figures::findings::Finding;
use crate::figures::units::Unit;
use crate::{Line, Metric};

/// The placements, in the order of the columns.
const PLACEMENTS: [&str; 3] = ["fetch", "push", "auto"];

/// How far behind the better placement `auto` may be.
const BEHIND: f64 = 1.15;
/// How much sooner query 6 is to be over when its work travels.
const SOONER: f64 = 10.0;
/// The link for that.
const NARROW: &str = "1 Gbit/s";

/// A link, and what the node does meanwhile.
struct Setting<'a> {
    link: String,
    node: String,
    lines: Vec<&'a Line>,
}

impl<'a> Setting<'a> {
    /// Of one query, in the order of the lines.
    fn all(own: &[&'a Line]) -> Vec<Self> {
        let mut all = Vec::new();
        for link in texts(own.iter().copied(), "link") {
            for node in texts(own.iter().copied(), "node") {
                let lines = that(&that(own, "link", &link), "node", &node);
                if !lines.is_empty() {
                    all.push(Self { link: link.clone(), node, lines });
                }
            }
        }
        all
    }

    fn time(&self, placement: &str) -> Option<&'a Line> {
        that(&with(&self.lines, Metric::LatencyP50), "placement", placement).first().copied()
    }

    fn ratio(&self, of: &str) -> Option<&'a Line> {
        that(&with(&self.lines, Metric::Ratio), "of", of).first().copied()
    }
}

fn of_query<'a>(lines: &[&'a Line], query: u64) -> Vec<&'a Line> {
    lines.iter().filter(|line| number(line, "query") as u64 == query).copied().collect()
}

/// For each query its time by the number of the case in its table.
pub(super) fn charts(lines: &[Line]) -> Vec<Chart> {
    let all = of_bench(lines, "apart");
    let chart = |query: u64| {
        let settings = Setting::all(&of_query(&all, query));
        let series = PLACEMENTS.iter().zip(1..).map(|(placement, colour)| {
            let point = |(at, setting): (usize, &Setting<'_>)| {
                let line = setting.time(placement)?;
                Some(Point { x: (at + 1) as f64, y: line.median, low: line.min, high: line.max })
            };
            let points = settings.iter().enumerate().filter_map(point).collect();
            Series { name: (*placement).to_owned(), points, colour, dashed: false }
        });
        Chart {
            name: file_name(&["p3-apart", &format!("q{query}")]),
            title: format!("query {query} over a link"),
            x: Axis { label: "case, as numbered in the table", unit: Unit::Count },
            y: Axis { label: "time", unit: Unit::Time },
            steps: true,
            series: series.collect(),
        }
    };
    numbers(&all, "query").into_iter().map(chart).collect()
}

/// The plots' files begin with this.
pub(super) const PLOTS: &str = "p3-apart";

/// The section's text and table, without its plots.
pub(super) fn section(lines: &[Line]) -> String {
    let mut page = String::new();
    let all = of_bench(lines, "apart");
    let Some(first) = all.first() else { return page };
    let _ = writeln!(
        page,
        "\n## Queries over a link, beside an idle and a busy node\n\nThe node is a process in a network namespace of its own, \
         reached by a veth pair whose two ends `tc`'s token bucket keeps to the speed of the link; processors: {}. At scale {}, \
         with pages of {}. The node keeps pages in memory, the client none. *Spinning*: four processes on each of the node's \
         processors count time. *Scans*: four other clients have query 1 pushed to the node, again and again. Of the last \
         columns each round gives one figure, and the median of these is shown: `auto` over the better one of the other two, and \
         `fetch` over `push`.\n\n\
         | case | query | link | node | fetch | push | auto | auto's spread | auto's scans | auto over the better | fetch over \
         push |\n|---:|---:|---|---|---:|---:|---:|---:|---|---:|---:|",
        text(first, "cores"),
        text(first, "scale"),
        text(first, "page"),
    );
    for query in numbers(&all, "query") {
        for (at, setting) in Setting::all(&of_query(&all, query)).iter().enumerate() {
            let time =
                |placement| setting.time(placement).map_or_else(String::new, |line| Unit::Time.show(line.median));
            let ratio = |of| setting.ratio(of).map_or_else(String::new, |line| format!("{:.2}", line.median));
            let auto = setting.time("auto");
            let spread = auto.map_or_else(String::new, |line| {
                format!("{} – {}", Unit::Time.show(line.min), Unit::Time.show(line.max))
            });
            let _ = writeln!(
                page,
                "| {} | {query} | {} | {} | {} | {} | {} | {spread} | {} | {} | {} |",
                at + 1,
                setting.link,
                setting.node,
                time("fetch"),
                time("push"),
                time("auto"),
                auto.map_or_else(String::new, |line| text(line, "chosen")),
                ratio("auto over the better"),
                ratio("fetch over push"),
            );
        }
    }
    page
}

/// What is ours to show.
pub(super) fn findings(lines: &[Line]) -> Vec<Finding> {
    [sooner(lines), never_behind(lines)].into_iter().flatten().collect()
}

fn sooner(lines: &[Line]) -> Option<Finding> {
    let settings = Setting::all(&of_query(&of_bench(lines, "apart"), 6));
    let setting = settings.iter().find(|setting| setting.link == NARROW && setting.node == "idle")?;
    let ratio = setting.ratio("fetch over push")?;
    Some(Finding {
        theirs: format!("(ours to show: over {NARROW} query 6 is over {SOONER} times sooner if its work travels)"),
        ours: format!("{:.1} times, {:.1} to {:.1}; it holds by the median", ratio.median, ratio.min, ratio.max),
        holds: Some(ratio.median >= SOONER),
    })
}

fn never_behind(lines: &[Line]) -> Option<Finding> {
    let all = with(&of_bench(lines, "apart"), Metric::Ratio);
    let ratios = that(&all, "of", "auto over the better");
    let worst = ratios.iter().max_by(|one, other| one.median.total_cmp(&other.median))?;
    let (least, within) = (
        ratios.iter().map(|line| line.median).fold(f64::INFINITY, f64::min),
        ratios.iter().filter(|line| line.median <= BEHIND).count(),
    );
    Some(Finding {
        theirs: format!(
            "(ours to show: `auto` is never more than {} behind the better one of fetching and pushing)",
            Unit::Share.show(BEHIND - 1.0)
        ),
        ours: format!(
            "so in {within} of {} cases; {least:.2} to {:.2} times the better one, the most with query {}, link {}, node {}; it \
             holds if in all, by the medians",
            ratios.len(),
            worst.median,
            text(worst, "query"),
            text(worst, "link"),
            text(worst, "node"),
        ),
        holds: Some(within == ratios.len()),
    })
}
