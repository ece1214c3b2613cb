//! What the lines say about what the author found, and about what we aim at.

use super::paper::{
    AIM_CUT_OVER, AIM_DONE, AIMS_OVER_RSYNC, CUT_OVER, FIRST_ACCESS, HALF_DONE, LOST_DURING, OVER_PRE_COPY,
};
use crate::figures::cases::{number, text};
use crate::figures::findings::Finding;
use crate::figures::units::Unit;
use crate::migration;
use crate::{Line, Metric};

/// Lines of a workload and a metric.
pub(super) fn of<'a>(lines: &'a [Line], bench: &'a str, metric: Metric) -> impl Iterator<Item = &'a Line> {
    lines.iter().filter(move |line| line.bench == bench && line.metric == metric)
}

/// Whether the case of a line has these texts.
fn has(line: &Line, parts: &[(&str, &str)]) -> bool {
    parts.iter().all(|(key, value)| text(line, key) == *value)
}

fn spread(line: &Line) -> String {
    format!("{:.2} (rounds {:.2} to {:.2})", line.median, line.min, line.max)
}

fn cut_overs(lines: &[Line], theirs: &str, limit: f64) -> Vec<Finding> {
    let finding = |line: &Line| Finding {
        theirs: theirs.to_owned(),
        ours: format!(
            "{}, {}, with {} files",
            text(line, "server"),
            Unit::Time.show(line.median),
            number(line, "files")
        ),
        holds: Some(line.max < limit),
    };
    of(lines, migration::CUT_OVER, Metric::Elapsed).map(finding).collect()
}

/// What the author found, and what holds here.
pub(super) fn findings(lines: &[Line]) -> Vec<Finding> {
    let mut found = cut_overs(lines, &format!("clients can not reach a server for {CUT_OVER} s at most"), CUT_OVER);
    for (server, slower) in OVER_PRE_COPY {
        let side = format!("ishigaki {server}");
        let near =
            of(lines, migration::TOTAL, Metric::Ratio).filter(|line| has(line, &[("link", "lan"), ("side", &side)]));
        let Some(worst) = near.map(|line| line.median).max_by(f64::total_cmp) else { continue };
        found.push(Finding {
            theirs: format!("by {server}, up to {slower:.2} times as long as a copy of all files before the cut-over"),
            ours: format!("{worst:.2} of rsync's time at worst"),
            holds: Some(worst > 1.0),
        });
    }
    for (server, longest) in FIRST_ACCESS {
        let near = of(lines, migration::FIRST, Metric::Elapsed)
            .filter(|line| has(line, &[("link", "lan"), ("server", server)]));
        let Some(line) = near.max_by(|one, other| one.median.total_cmp(&other.median)) else { continue };
        found.push(Finding {
            theirs: format!("by {server}, the first access takes up to {longest} s (depth 16, width 1000)"),
            ours: format!(
                "{} (depth {}, width {})",
                Unit::Time.show(line.median),
                number(line, "depth"),
                number(line, "width")
            ),
            holds: None,
        });
    }
    for (server, lost) in LOST_DURING {
        let parts = [("work", "mix"), ("state", "during"), ("server", server)];
        let Some(line) = of(lines, migration::WORK, Metric::Ratio).find(|line| has(line, &parts)) else { continue };
        found.push(Finding {
            theirs: format!("by {server}, mixed work loses {:.0}% at first during the migration", lost * 100.0),
            ours: format!("{} of the bare directory's throughput", spread(line)),
            holds: None,
        });
    }
    for (server, theirs) in HALF_DONE {
        let within = |passes: &str| {
            let strategy = format!("breadth first, {passes}");
            let parts =
                [("server", server), ("link", "lan"), ("of", "quantile"), ("done", "50"), ("strategy", &*strategy)];
            let mut lines = of(lines, migration::RESPONSE, Metric::Elapsed);
            lines.find(|line| has(line, &parts) && (number(line, "percent") - 99.0).abs() < 0.01)
        };
        let (Some(first), Some(at_once)) = (within("metadata first"), within("all at once")) else { continue };
        found.push(Finding {
            theirs: format!(
                "by {server}, half done, 99% of the files open within {} s metadata first, {} s all at once",
                theirs[0], theirs[1]
            ),
            ours: format!("{} and {}", Unit::Time.show(first.median), Unit::Time.show(at_once.median)),
            holds: Some(first.median < at_once.median),
        });
    }
    found
}

/// What we aimed at.
pub(super) fn aims(lines: &[Line]) -> Vec<Finding> {
    let mut aims = cut_overs(lines, &format!("`ls` of the root answers within {AIM_CUT_OVER} s"), AIM_CUT_OVER);
    for line in of(lines, migration::TOTAL, Metric::Ratio).filter(|line| text(line, "side").starts_with("ishigaki")) {
        let (tree, link, side) = (text(line, "tree"), text(line, "link"), text(line, "side"));
        let Some((_, aim)) = AIMS_OVER_RSYNC.iter().find(|(of, _)| *of == link) else { continue };
        aims.push(Finding {
            theirs: format!("{tree}, {link}: at most {aim:.1} of rsync's time"),
            ours: format!("{side}: {}", spread(line)),
            holds: Some(line.median <= *aim),
        });
    }
    for line in of(lines, migration::WORK, Metric::Ratio).filter(|line| text(line, "work") == "mix") {
        let server = text(line, "server");
        let (theirs, holds) = match text(line, "state").as_str() {
            "done" => (
                format!("mixed work on a tree that is here: at least {AIM_DONE} of the bare directory"),
                line.median >= AIM_DONE,
            ),
            // Nothing is left that could make a difference, so the difference is the spread's.
            "finished" => (
                "mixed work after `finish`: exactly as in a bare directory".to_owned(),
                line.min <= 1.0 && line.max >= 1.0,
            ),
            _ => continue,
        };
        aims.push(Finding { theirs, ours: format!("{server}: {}", spread(line)), holds: Some(holds) });
    }
    aims
}
