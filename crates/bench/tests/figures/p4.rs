//! The page and the plots of paper 4, of fixed lines.

use ishigaki_bench::figures::{self, Paper};
use ishigaki_bench::{Line, Metric};
use serde_json::json;

use crate::line;

/// A figure of inserts.
fn inserts(device: &str, side: &str, servers: u64, integers: u64, metric: Metric, runs: &[f64]) -> Line {
    of_server("mariadb", device, side, servers, integers, metric, "", runs)
}

/// The ratio of that name.
fn ratio(device: &str, side: &str, servers: u64, integers: u64, of: &str, runs: &[f64]) -> Line {
    of_server("mariadb", device, side, servers, integers, Metric::Ratio, of, runs)
}

#[expect(clippy::too_many_arguments, reason = "a case has as many words")]
fn of_server(
    server: &str,
    device: &str,
    side: &str,
    servers: u64,
    integers: u64,
    metric: Metric,
    of: &str,
    runs: &[f64],
) -> Line {
    let mut case = json!({
        "device": device, "server": server, "side": side, "waiting": side, "servers": servers, "integers": integers,
        "transactions": 100,
    });
    if !of.is_empty() {
        case["of"] = of.into();
    }
    line("inserts", &case, metric, runs)
}

/// One log's time over the separate ones', by `auto`.
fn share(device: &str, servers: u64, integers: u64, runs: &[f64]) -> Line {
    ratio(device, "auto", servers, integers, "elapsed over separate", runs)
}

fn arrivals(pattern: &str, side: &str, metric: Metric, runs: &[f64]) -> Line {
    let case = json!({"device": "ssd", "pattern": pattern, "side": side, "waiting": side, "members": 4});
    line("arrivals", &case, metric, runs)
}

/// Whether a finding holds, as its row says; the row that has these words.
#[track_caller]
fn holds(lines: &[Line], words: &str) -> bool {
    let page = Paper::P4.page(lines, &figures::plots(Paper::P4, lines).unwrap());
    let row = page.lines().find(|row| row.starts_with('|') && row.contains(words));
    let row = row.unwrap_or_else(|| panic!("{words} in {page}"));
    assert!(row.ends_with("| yes |") || row.ends_with("| **no** |"), "{row}");
    row.ends_with("| yes |")
}

#[test]
fn what_one_log_saves_is_held_against_theirs() {
    for (device, servers, just, more) in [("hdd", 4, 0.28, 0.29), ("ssd", 8, 0.93, 0.94)] {
        let words = format!("`{device}`, {servers} servers take");
        assert!(holds(&[share(device, servers, 2, &[just])], &words));
        assert!(!holds(&[share(device, servers, 2, &[more])], &words));
    }
    for (device, just, more) in [("hdd", 1.15, 1.16), ("ssd", 1.02, 1.03)] {
        let words = format!("`{device}`, one server alone takes up to");
        assert!(holds(&[share(device, 1, 2, &[just])], &words));
        assert!(!holds(&[share(device, 1, 2, &[more])], &words));
    }
    let aim = "`hdd`, one server alone takes at most 1.05";
    assert!(holds(&[share("hdd", 1, 2, &[1.05])], aim));
    assert!(!holds(&[share("hdd", 1, 2, &[1.06])], aim));
}

#[test]
fn more_servers_save_more_only_if_each_number_does() {
    let lines = |shares: [f64; 3]| [1, 2, 4].into_iter().zip(shares).map(|(n, of)| share("hdd", n, 2, &[of])).collect();
    let falling: Vec<Line> = lines([1.0, 0.5, 0.3]);
    let not_falling: Vec<Line> = lines([1.0, 0.3, 0.3]);
    assert!(holds(&falling, "the more servers"));
    assert!(!holds(&not_falling, "the more servers"));
}

#[test]
fn ways_of_waiting_are_held_against_sleeping() {
    let lines = |side: &str, time: f64| {
        let of = |side, time| inserts("hdd", side, 4, 2, Metric::Elapsed, &[time]);
        vec![of("sleep", 1.0), of(side, time), share("hdd", 4, 2, &[0.2])]
    };
    assert!(holds(&lines("poll", 0.96), "polling does not help"));
    assert!(!holds(&lines("poll", 0.90), "polling does not help"));
    assert!(holds(&lines("delay", 0.95), "a delay saves"));
    assert!(!holds(&lines("delay", 0.97), "a delay saves"));
}

#[test]
fn small_transactions_save_more_only_if_the_spreads_are_apart() {
    let lines = |small: &[f64], large: &[f64]| vec![share("hdd", 4, 2, small), share("hdd", 4, 50, large)];
    assert!(holds(&lines(&[0.2, 0.21], &[0.22, 0.25]), "the smaller a transaction"));
    assert!(!holds(&lines(&[0.2, 0.23], &[0.22, 0.25]), "the smaller a transaction"));
}

#[test]
fn polling_takes_a_processor_if_it_does_so_everywhere() {
    let of = |side: &str, share: f64| ratio("hdd", side, 4, 2, "pool's processor over elapsed", &[share]);
    assert!(holds(&[of("poll", 0.8), of("poll+delay", 1.0), of("sleep", 0.1)], "takes a processor"));
    assert!(!holds(&[of("poll", 0.7), of("poll+delay", 1.0)], "takes a processor"));
}

#[test]
fn of_bytes_logged_the_most_counts() {
    for (server, part) in [("mariadb", 8.0), ("postgresql", 15.0)] {
        let of = |device, share: f64| {
            of_server(server, device, "auto", 1, 2, Metric::Ratio, "logged over written", &[share])
        };
        let words = format!("1/{part} of the bytes that {server} writes");
        assert!(holds(&[of("hdd", 0.9 / part), of("ssd", 1.0 / part)], &words));
        assert!(!holds(&[of("hdd", 0.9 / part), of("ssd", 1.1 / part)], &words));
    }
}

#[test]
fn auto_is_held_against_the_best_fixed_way_of_each_pattern_and_alone_against_sleeping() {
    let lines = |bursty: f64| {
        let of = |pattern, side, rate| arrivals(pattern, side, Metric::Throughput, &[rate]);
        vec![
            of("steady", "sleep", 80.0),
            of("steady", "poll", 100.0),
            of("steady", "auto", 95.0),
            of("bursty", "sleep", 100.0),
            of("bursty", "auto", bursty),
        ]
    };
    assert!(holds(&lines(95.0), "0.95 of what the best fixed way"));
    assert!(!holds(&lines(94.0), "0.95 of what the best fixed way"));
    let alone = |auto: &[f64]| {
        let of = |side, runs| arrivals("alone", side, Metric::LatencyP50, runs);
        vec![of("sleep", &[1.0, 1.1]), of("auto", auto)]
    };
    assert!(holds(&alone(&[1.05, 1.2]), "waits no longer"));
    assert!(!holds(&alone(&[1.15, 1.2]), "waits no longer"));
}

#[test]
fn a_disk_that_is_slower_than_its_model_is_said_to_be() {
    let lines = |p50: f64| {
        let case = json!({"device": "ssd", "threads": 1, "size": 4096});
        vec![line("media", &case, Metric::LatencyP50, &[p50])]
    };
    assert!(Paper::P4.page(&lines(180e-6), &[]).contains("as fast as that"));
    assert!(Paper::P4.page(&lines(190e-6), &[]).contains("slower than that"));
}

#[test]
fn what_was_measured_has_a_table_and_its_plots() {
    let mut lines = vec![share("hdd", 2, 2, &[0.5]), share("hdd", 2, 50, &[0.6])];
    lines.push(inserts("hdd", "auto", 2, 2, Metric::Elapsed, &[1.5]));
    let plots = figures::plots(Paper::P4, &lines).unwrap();
    let names: Vec<&str> = plots.iter().map(|plot| plot.name.as_str()).collect();
    assert_eq!(names, ["p4-mariadb-hdd-time", "p4-mariadb-hdd-share", "p4-mariadb-hdd-sizes"]);
    let page = Paper::P4.page(&lines, &plots);
    assert!(page.contains("| 2 | auto | 1.5 s | 1.5 s | 1.5 s | 0.50 |"), "{page}");
    assert!(page.contains("(p4-mariadb-hdd-time.svg)") && !page.contains("How commits come"), "{page}");
}
