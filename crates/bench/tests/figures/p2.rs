//! Paper 2: its experiments at smoke size, and plots and page of fixed lines.

use std::collections::BTreeSet;
use std::num::NonZero;

use ishigaki_base::ByteSize;
use ishigaki_bench::figures::{self, Paper, p2};
use ishigaki_bench::oltp::Engine;
use ishigaki_bench::{Line, Metric, Silent, Target, tpcc};

use super::{line, origin};

/// Latencies, and what groups give to either release with them.
const LATENCIES: [(&str, f64); 3] = [("nvm:500ns", 1.0), ("nvm:5us", 1.5), ("nvm:50us", 2.25)];

/// The transactions of a case, such that all that the paper found holds.
fn rate(device: &str, release: &str, group: u32, warehouses: u32, workers: u32) -> f64 {
    let gain = LATENCIES.iter().find(|(known, _)| *known == device).unwrap().1;
    let base = 100e3 * f64::from(workers) * (1.0 + f64::from(warehouses) / 10.0) / gain;
    let held = if release == "early" { 1.0 } else { 0.5 + f64::from(warehouses) / 25.0 };
    base * held * if group == 16 { gain } else { 1.0 }
}

/// New-Order without inserts everywhere, with them at one place, each rate changed.
fn fixed_but(change: &dyn Fn(&str, &str, u32, u32, f64) -> f64) -> Vec<Line> {
    let mut lines = Vec::new();
    for (device, _) in LATENCIES {
        for (mix, warehouses) in
            [("new-order-no-insert", 1), ("new-order-no-insert", 4), ("new-order-no-insert", 10), ("new-order", 4)]
        {
            if mix == "new-order" && device != "nvm:5us" {
                continue;
            }
            for (release, group) in [("normal", 1), ("normal", 16), ("early", 1), ("early", 16)] {
                for workers in [1, 2, 4] {
                    let rate = rate(device, release, group, warehouses, workers);
                    let rate = change(device, release, group, warehouses, rate);
                    lines.extend(of_case(device, mix, (release, group), warehouses, workers, rate));
                }
            }
        }
    }
    lines
}

fn fixed() -> Vec<Line> {
    fixed_but(&|_, _, _, _, rate| rate)
}

fn of_case(
    device: &str,
    mix: &str,
    (release, group): (&str, u32),
    warehouses: u32,
    workers: u32,
    rate: f64,
) -> Vec<Line> {
    let case = |key: &str, value: &str| {
        let mut case = serde_json::json!({
            "device": device, "mix": mix, "protocol": "tictoc", "release": release, "group": group,
            "warehouses": warehouses, "workers": workers
        });
        case[key] = value.into();
        case
    };
    let all = case("type", "all");
    vec![
        line("tpcc", &all, Metric::Throughput, &[rate * 0.99, rate, rate * 1.01]),
        line("tpcc", &all, Metric::LatencyP50, &[20e-6]),
        line("tpcc", &all, Metric::LatencyP99, &[90e-6]),
        line("tpcc", &all, Metric::Writes, &[1.0 / f64::from(group)]),
        line("tpcc", &all, Metric::BytesWritten, &[2048.0]),
        line("tpcc", &case("reason", "all"), Metric::Aborts, &[0.125]),
        line("tpcc", &case("reason", "value-changed"), Metric::Aborts, &[0.25]),
        line("tpcc", &case("type", "new-order"), Metric::Throughput, &[7.0]),
    ]
}

fn page(lines: &[Line]) -> String {
    Paper::P2.page(lines, &figures::plots(Paper::P2, lines).unwrap())
}

/// Whether each finding holds, in the order of the page.
fn verdicts(page: &str) -> Vec<&str> {
    let findings = page.split("## What they found").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows = findings.lines().filter(|row| row.starts_with("| ")).skip(1);
    rows.map(|row| row.trim_end_matches('|').rsplit('|').next().unwrap().trim()).collect()
}

#[test]
fn each_latency_and_number_of_warehouses_has_its_charts_and_each_shows_four_variants() {
    let lines = fixed();
    let plots = figures::plots(Paper::P2, &lines).unwrap();
    assert_eq!(plots, figures::plots(Paper::P2, &lines).unwrap());
    let names: BTreeSet<&str> = plots.iter().map(|plot| plot.name.as_str()).collect();
    assert_eq!((plots.len(), names.len()), (30, 30), "three for each of nine places, and of one with inserts");
    for plot in &plots {
        assert_eq!(plot.svg.matches("<circle").count(), 12, "{}: four variants, three numbers of workers", plot.name);
        for word in ["normal, no group", "normal, group 16", "early, no group", "early, group 16", "workers"] {
            assert!(plot.svg.contains(word), "{}: {word}", plot.name);
        }
    }
    let svg = |name: &str| &plots.iter().find(|plot| plot.name == name).unwrap_or_else(|| panic!("no {name}")).svg;
    assert!(svg("p2-new-order-no-insert-10w-nvm-500ns-throughput").contains("800 k/s"));
    assert!(svg("p2-new-order-no-insert-1w-nvm-50us-aborts").contains("attempts repeated for each commit"));
    assert!(svg("p2-new-order-4w-nvm-5us-latency").contains("20 µs"));
}

#[test]
fn the_page_lays_fixed_lines_beside_what_the_paper_found() {
    let page = page(&fixed());
    for word in [
        "| ours | a machine; source abc |",
        "Intel Xeon E5-2695 v2 (24 cores)",
        "| early, group 16 | TT (ELR) + PWAL (Group) |",
        "| At 50 µs groups make early release 2.25 times as fast (1 warehouse) | 2.25 times, 4 workers;",
        "| The longer the latency, the more groups give (1 warehouse) | 1.00, 1.50 and 2.25 times at 500 ns, 5 µs and 50 µs | yes |",
        "with more warehouses | 0.54 of it with 1, and 0.90 with 10 | yes |",
        "| Up to 2.5 M/s on 24 cores, with 10 warehouses | up to 800 k/s: early, group 16, 10 warehouses, 4 workers on",
        "| `nvm:50us` | 1 | 2.25 | 2.25 | 2.25 | 2.25 |",
        "| `nvm:50us` | 10 | 2.25 | 2.25 | 2.25 |  |",
        "## new-order-no-insert, 1 warehouse, on nvm:500ns",
        "| early, group 16 | 2 | 220 k/s | 218 k/s | 222 k/s | 20 µs | 90 µs | 0.125 | 0.062 | 2 KiB |",
        "(p2-new-order-4w-nvm-5us-throughput.svg)",
    ] {
        assert!(page.contains(word), "{word} is not in\n{page}");
    }
    assert!(page.find("1 warehouse, on nvm:5us") < page.find("1 warehouse, on nvm:50us"), "in the order of the lines");
    assert_eq!(page.matches(".svg)").count(), 30, "each chart once");
    assert_eq!(verdicts(&page), ["yes", "yes", "yes", "yes", "yes", "yes", "yes", ""]);
}

#[test]
fn a_finding_that_does_not_hold_is_said_so() {
    let no = "**no**";
    // One case where normal release wins clearly: it is not best everywhere, and early release does harm.
    let page_of = |change: &dyn Fn(&str, &str, u32, u32, f64) -> f64| page(&fixed_but(change));
    let page = page_of(&|device, release, group, warehouses, rate| {
        let one = (device, release, group, warehouses) == ("nvm:5us", "normal", 16, 4);
        if one { rate * 3.0 } else { rate }
    });
    assert_eq!(verdicts(&page), [no, "yes", "yes", "yes", "yes", "yes", no, ""]);
    assert!(page.contains("of 27 cases it is the best in 24, and the best or equal to it in 24"), "{page}");
    assert!(page.contains("in 51 of 54 cases"), "{page}");

    // Groups give as little at 50 us as at 500 ns.
    let page =
        page_of(&|device, _, group, _, rate| if device == "nvm:50us" && group == 16 { rate / 2.25 } else { rate });
    assert_eq!(verdicts(&page), ["yes", "yes", no, no, "yes", "yes", "yes", ""]);

    // Groups give much at 500 ns, and what normal release lacks does not depend on warehouses.
    let page = page_of(&|device, release, group, warehouses, rate| match (device, release, group) {
        ("nvm:500ns", "normal", 1) => rate / (0.5 + f64::from(warehouses) / 25.0) / 2.0,
        ("nvm:500ns", _, 16) => rate * 1.2,
        _ => rate,
    });
    assert_eq!(verdicts(&page), ["yes", no, "yes", "yes", "yes", no, "yes", ""]);

    // Warehouses give nothing.
    let page =
        page_of(&|_, _, _, warehouses, rate| rate / (1.0 + f64::from(warehouses) / 10.0) / f64::from(warehouses));
    assert_eq!(verdicts(&page), ["yes", "yes", "yes", "yes", no, "yes", "yes", ""]);
}

#[test]
fn figures_whose_spreads_meet_count_as_equal() {
    let nearly = |by: f64| {
        let lines = fixed_but(&|device, release, group, warehouses, rate| match (release, group) {
            ("normal", 16) => {
                self::rate(device, "early", 16, warehouses, 1) * by * rate
                    / self::rate(device, "normal", 16, warehouses, 1)
            }
            _ => rate,
        });
        page(&lines)
    };
    assert_eq!((verdicts(&nearly(1.01))[0], verdicts(&nearly(1.03))[0]), ("yes", "**no**"));
    assert!(nearly(1.01).contains("of 27 cases it is the best in 0, and the best or equal to it in 27"));
}

#[test]
fn the_page_says_nothing_of_what_was_not_measured() {
    let lines: Vec<Line> = fixed().into_iter().filter(|line| line.case["device"] == "nvm:500ns").collect();
    let page = page(&lines);
    assert!(!page.contains("At 50 µs") && !page.contains("The longer the latency"), "{page}");
    assert_eq!(verdicts(&page).len(), 6);
}

#[test]
fn the_experiments_of_paper_2_run_and_are_written() {
    let directory = tempfile::tempdir().unwrap();
    let target = |name: &str| Target::open(&name.parse().unwrap(), "figures").unwrap();
    let mut engine = Engine::roomy();
    engine.log.segment = ByteSize::mib(1);
    let settings = p2::Settings {
        scale: p2::Scale { rounds: 2, ..p2::Scale::smoke() },
        targets: vec![target("nvm:500ns"), target("nvm:50us")],
        engine,
        origin: origin(),
    };
    assert_eq!(settings.scale.tables, tpcc::Scale::divided(NonZero::<u32>::MAX));
    let lines = p2::run(&settings, &mut Silent).unwrap();
    let throughputs: Vec<&Line> = lines
        .iter()
        .filter(|line| line.metric == Metric::Throughput && line.case.get("type").is_some_and(|kind| kind == "all"))
        .collect();
    let count = |key: &str, value: serde_json::Value| throughputs.iter().filter(|line| line.case[key] == value).count();
    // Four variants and two numbers of workers: everywhere with one and two warehouses, and at one place in two more mixes.
    assert_eq!(throughputs.len(), 8 * (2 * 2 + 2));
    assert!(throughputs.iter().all(|line| line.median > 0.0 && line.runs.len() == 2));
    assert_eq!(count("protocol", "tictoc".into()), throughputs.len());
    assert_eq!(count("mix", "new-order-no-insert".into()), 32);
    assert_eq!((count("mix", "new-order".into()), count("mix", "full".into())), (8, 8));
    assert_eq!((count("release", "early".into()), count("release", "normal".into())), (24, 24));
    for line in &throughputs {
        assert_eq!(line.case["outstanding"], line.case["group"], "a worker waits for each group");
        assert!(line.case["mix"] == "new-order-no-insert" || line.case["device"] == "nvm:50us");
    }
    let alone = |line: &&Line| line.metric == Metric::Writes && line.case["group"] == 1 && line.case["mix"] != "full";
    for line in lines.iter().filter(alone) {
        assert!(line.median > 0.99, "without groups each transaction is a write: {:?}", line.case);
    }

    let out = directory.path().join("figures");
    let files = figures::write(&out, Paper::P2, &lines).unwrap();
    assert_eq!(files.iter().filter(|file| file.extension().is_some_and(|ending| ending == "svg")).count(), 18);
    let read = figures::read(&out.join("p2.jsonl")).unwrap();
    assert_eq!(page(&read), std::fs::read_to_string(out.join("p2.md")).unwrap(), "read again it gives the same page");
}
