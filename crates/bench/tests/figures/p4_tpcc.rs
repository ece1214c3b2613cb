//! TPC-C and readers on one log: what the page says of fixed lines.

use ishigaki_bench::figures::{self, Paper};
use ishigaki_bench::{Line, Metric};
use serde_json::json;

use super::line;

fn tpcc(side: &str, more: &[(&str, &str)], metric: Metric, runs: &[f64]) -> Line {
    let mut case = json!({
        "device": "hdd", "server": "mariadb", "side": side, "waiting": side, "servers": 4, "clients": 4, "data": "memory",
        "warehouses": 4, "items": 3333, "customers": 100, "seconds": 10.0,
    });
    for (key, value) in more {
        case[*key] = json!(value);
    }
    line("tpcc-sql", &case, metric, runs)
}

fn reading(side: &str, time: f64) -> Line {
    let case = json!({
        "device": "hdd", "server": "mariadb", "side": side, "writers": 3, "scale": 0.02, "times": 3, "query": "q2",
        "beside": "writers",
    });
    line("readers", &case, Metric::Elapsed, &[time])
}

/// Whether what has these words is said to hold.
fn holds(lines: &[Line], words: &str) -> bool {
    let page = Paper::P4Tpcc.page(lines, &figures::plots(Paper::P4Tpcc, lines).unwrap());
    let row = page.lines().find(|row| row.starts_with('|') && row.contains(words));
    let row = row.unwrap_or_else(|| panic!("{words} in {page}"));
    assert!(row.ends_with("| yes |") || row.ends_with("| **no** |"), "{row}");
    row.ends_with("| yes |")
}

#[test]
fn what_one_log_brings_to_tpcc_is_held_against_theirs() {
    let of = |rate| [tpcc("auto", &[("of", "throughput over separate")], Metric::Ratio, &[rate])];
    assert!(holds(&of(1.23), "1.23 times as many"));
    assert!(!holds(&of(1.22), "1.23 times as many"));
}

#[test]
fn readers_are_harmed_if_they_take_longer_than_beside_separate_logs() {
    let lines = |one| [reading("separate", 1.0), reading("auto", one)];
    assert!(holds(&lines(1.05), "take as long"));
    assert!(!holds(&lines(1.06), "take as long"));
}

#[test]
fn tpcc_has_a_table_and_a_plot_and_readers_a_table() {
    let all = [("transaction", "all")];
    let mut lines = vec![tpcc("separate", &all, Metric::Throughput, &[90.0, 100.0, 110.0])];
    lines.push(tpcc("auto", &all, Metric::Throughput, &[250.0]));
    lines.push(tpcc("auto", &[], Metric::Aborts, &[0.02]));
    lines.push(reading("separate", 0.5));
    let plots = figures::plots(Paper::P4Tpcc, &lines).unwrap();
    assert_eq!(plots.iter().map(|plot| plot.name.as_str()).collect::<Vec<_>>(), ["p4-tpcc-mariadb-hdd-memory"]);
    let page = Paper::P4Tpcc.page(&lines, &plots);
    assert!(page.contains("| 4 | separate | 100/s | 90/s | 110/s |"), "{page}");
    assert!(
        page.contains("(p4-tpcc-mariadb-hdd-memory.svg)") && page.contains("| mariadb | `hdd` | q2 | separate |"),
        "{page}"
    );
}
