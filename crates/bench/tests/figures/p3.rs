//! The page and the plots of paper 3, of fixed lines.

use ishigaki_bench::figures::{self, Paper};
use ishigaki_bench::{Line, Metric};
use serde_json::json;

use crate::line;

/// A query in three placements, with pages of two sizes.
fn queries(push: f64) -> Vec<Line> {
    queries_of(&[1.0], &[1.1], &[push])
}

/// The same with all rounds.
fn queries_of(local: &[f64], fetch: &[f64], push: &[f64]) -> Vec<Line> {
    let mut lines = Vec::new();
    for page in ["4.0 KiB", "128.0 KiB"] {
        for (placement, time) in [("local", local), ("fetch", fetch), ("push", push)] {
            let case = json!({"query": 6, "scale": "1", "placement": placement, "page": page});
            lines.push(line("tpch", &case, Metric::LatencyP50, time));
        }
    }
    lines
}

fn replay(hits: f64, lru: f64, worth: f64) -> Vec<Line> {
    let case = |target: &str| json!({"query": 3, "target": target, "share": 125, "depth": 4});
    vec![
        line("replay", &case("cached"), Metric::LatencyP50, &[1.0]),
        line("replay", &case("cached"), Metric::HitRatio, &[hits]),
        line("replay", &case("lru"), Metric::HitRatio, &[lru]),
        line("replay", &case("remote/cached"), Metric::Ratio, &[worth]),
    ]
}

/// Whether a finding holds, as its row says; the row that has these words.
#[track_caller]
fn holds(lines: &[Line], words: &str) -> bool {
    let page = Paper::P3.page(lines, &figures::plots(Paper::P3, lines).unwrap());
    let row = page.lines().find(|row| row.starts_with('|') && row.contains(words));
    let row = row.unwrap_or_else(|| panic!("{words} in {page}"));
    row.ends_with("| yes |")
}

#[test]
fn findings_are_judged_by_the_lines_alone() {
    assert!(holds(&queries(0.9), "beats even the local query"));
    assert!(!holds(&queries(1.05), "beats even the local query"));
    assert!(holds(&queries(0.9), "three placements are equal"));
    assert!(!holds(&queries(0.5), "three placements are equal"));
    assert!(!holds(&queries(1.2), "is the slowest"));
    assert!(holds(&replay(0.8, 0.8, 3.5), "future work"));
    assert!(!holds(&replay(0.8, 0.8, 2.5), "future work"));
    assert!(holds(&replay(0.9, 0.8, 3.5), "as much as an LRU"));
    assert!(!holds(&replay(0.7, 0.8, 3.5), "as much as an LRU"));
}

#[test]
fn figures_whose_spreads_meet_are_equal_and_fetch_is_compared_with_both_others() {
    // Faster in the middle, and not in every round.
    let (meeting, apart) = (&[0.8, 0.9, 1.0], &[0.7, 0.8, 0.9]);
    assert!(!holds(&queries_of(&[1.0, 1.1, 1.2], &[2.0], meeting), "beats even the local query"));
    assert!(holds(&queries_of(&[1.0, 1.1, 1.2], &[2.0], apart), "beats even the local query"));
    assert!(holds(&queries_of(&[1.0], &[0.9, 1.0, 1.1], &[1.1, 1.2, 1.3]), "is the slowest"));
    assert!(!holds(&queries_of(&[1.2], &[1.0, 1.1], &[0.9]), "is the slowest"), "the local query is slower");
    assert!(!holds(&queries_of(&[0.9], &[1.0, 1.1], &[1.2]), "is the slowest"), "remote processing is slower");
}

#[test]
fn what_was_measured_has_a_table_and_its_plots_and_nothing_else_does() {
    let lines = queries(0.9);
    let plots = figures::plots(Paper::P3, &lines).unwrap();
    let names: Vec<&str> = plots.iter().map(|plot| plot.name.as_str()).collect();
    assert_eq!(names, ["p3-q6-time"]);
    let page = Paper::P3.page(&lines, &plots);
    assert!(page.contains("| 4 KiB | push | 900 ms |") && page.contains("(p3-q6-time.svg)"), "{page}");
    assert!(!page.contains("(P3.3)") && !page.contains("(P3.4)"), "{page}");
}
