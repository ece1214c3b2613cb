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

/// Query 6 over a link: the times of a round in each placement, and what they are to each other.
fn apart(link: &str, node: &str, [fetch, push, auto]: [f64; 3]) -> Vec<Line> {
    let of = |more: serde_json::Value| {
        let mut case =
            json!({"query": 6, "scale": "1", "page": "128.0 KiB", "link": link, "node": node, "cores": "1 each"});
        case.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        case
    };
    let time = |placement: &str, time| line("apart", &of(json!({"placement": placement})), Metric::LatencyP50, &[time]);
    let ratio = |words: &str, ratio| line("apart", &of(json!({"of": words})), Metric::Ratio, &[ratio]);
    vec![
        time("fetch", fetch),
        time("push", push),
        time("auto", auto),
        ratio("auto over the better", auto / fetch.min(push)),
        ratio("fetch over push", fetch / push),
    ]
}

#[test]
fn queries_over_a_link_have_a_numbered_case_for_each_link_and_load_and_are_judged() {
    let lines = |auto: f64, push: f64| {
        let idle = apart("1 Gbit/s", "idle", [2.0, push, auto]);
        [idle, apart("unshaped", "spinning", [0.5, 1.0, 0.4])].concat()
    };
    let good = lines(0.11, 0.1);
    let plots = figures::plots(Paper::P3, &good).unwrap();
    assert_eq!(plots.iter().map(|plot| plot.name.as_str()).collect::<Vec<_>>(), ["p3-apart-q6"]);
    let page = Paper::P3.page(&good, &plots);
    assert!(page.contains("| 1 | 6 | 1 Gbit/s | idle | 2 s | 100 ms | 110 ms |"), "{page}");
    assert!(page.contains("| 2 | 6 | unshaped | spinning |") && page.contains("(p3-apart-q6.svg)"), "{page}");
    assert!(holds(&good, "times sooner") && holds(&good, "never more than"));
    assert!(!holds(&lines(0.12, 0.1), "never more than"), "a fifth behind");
    assert!(!holds(&lines(0.2, 0.25), "times sooner"), "eight times");
}
