//! Which charts the lines give: the total time by the files of a tree, the first access by depth, and how long clients wait by how far a migration is.

use super::findings::of;
use crate::figures::cases::{number, series, text, texts};
use crate::figures::chart::{Axis, Chart};
use crate::figures::units::Unit;
use crate::migration;
use crate::{Line, Metric};

/// Everything that these lines show.
pub(in crate::figures) fn charts(lines: &[Line]) -> Vec<Chart> {
    let total: Vec<&Line> = of(lines, migration::TOTAL, Metric::Elapsed).collect();
    let first: Vec<&Line> = of(lines, migration::FIRST, Metric::Elapsed).collect();
    let response: Vec<&Line> = of(lines, migration::RESPONSE, Metric::Elapsed).collect();
    let mut charts = Vec::new();
    for link in texts(total.iter().copied(), "link") {
        let own = with(&total, &[("link", &link)]);
        let (name, title) = (format!("p5a-total-{link}"), format!("Until all is here, {link}"));
        let x = Axis { label: "files of the tree", unit: Unit::Count };
        charts.push(Chart {
            series: series(&own, |line| text(line, "side"), "files"),
            ..time(name, title, x, "total time")
        });
    }
    for server in ["nfs", "smb"] {
        for link in texts(first.iter().copied(), "link") {
            let own = with(&first, &[("server", server), ("link", &link)]);
            let (name, title) = (format!("p5a-first-{server}-{link}"), format!("The first access by {server}, {link}"));
            let x = Axis { label: "directories on the way", unit: Unit::Count };
            let width = |line: &Line| format!("{} names in each", number(line, "width"));
            charts.push(Chart { series: series(&own, width, "depth"), ..time(name, title, x, "time of a read") });
        }
        for link in texts(response.iter().copied(), "link") {
            let own = with(&response, &[("server", server), ("link", &link), ("of", "quantile")]);
            let strategy = |line: &Line| text(line, "strategy");
            let late: Vec<&Line> = own.iter().filter(|line| is(line, "percent", 99.0)).copied().collect();
            let title = format!("What 99% of the files stay within, by {server}, {link}");
            let x = Axis { label: "percent of the migration", unit: Unit::Count };
            let chart = time(format!("p5a-response-{server}-{link}"), title, x, "time of an open");
            charts.push(Chart { series: series(&late, strategy, "done"), ..chart });
            let half: Vec<&Line> = own.iter().filter(|line| is(line, "done", 50.0)).copied().collect();
            let title = format!("Times of opens, half done, by {server}, {link}");
            let x = Axis { label: "percent of the files", unit: Unit::Count };
            let chart = time(format!("p5a-half-{server}-{link}"), title, x, "stay within");
            charts.push(Chart { series: series(&half, strategy, "percent"), ..chart });
        }
    }
    charts
}

fn is(line: &Line, key: &str, value: f64) -> bool {
    (number(line, key) - value).abs() < 0.01
}

fn with<'a>(lines: &[&'a Line], parts: &[(&str, &str)]) -> Vec<&'a Line> {
    lines.iter().filter(|line| parts.iter().all(|(key, value)| text(line, key) == *value)).copied().collect()
}

/// A chart of times, as yet without points.
fn time(name: String, title: String, x: Axis, y: &'static str) -> Chart {
    Chart { name, title, x, y: Axis { label: y, unit: Unit::Time }, steps: true, series: Vec::new() }
}
