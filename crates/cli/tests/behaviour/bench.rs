//! `ishigaki bench`, for a moment.

use serde_json::Value;

use crate::program::{Program, database};

#[test]
fn commit_prints_a_json_object_for_each_figure_of_engine_and_device() {
    let directory = database();
    let answer = Program::new()
        .args(["bench", "commit", "--sessions", "1,2", "--seconds", "0.02", "--rounds", "1", "--json", "--data"])
        .arg(directory.path())
        .succeeds();
    let lines: Vec<Value> = answer.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    for target in ["engine", "device"] {
        for metric in ["throughput", "latency_p50", "latency_p99", "latency_p999"] {
            let of_it = |line: &&Value| line["case"]["target"] == target && line["metric"] == metric;
            assert_eq!(lines.iter().filter(of_it).count(), 2, "{target} {metric} in {}", answer.stdout);
        }
    }
    assert_eq!(answer.stderr, "");
}

fn lines(arguments: &[&str]) -> Vec<Value> {
    let answer = Program::new().args(["bench"]).args(arguments).args(["--rounds", "1", "--json"]).succeeds();
    assert_eq!(answer.stderr, "");
    answer.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn tpcc_prints_figures_of_every_mix_and_type_on_every_medium() {
    let lines = lines(&[
        "tpcc",
        "--scale",
        "100",
        "--seconds",
        "0.05",
        "--warehouses",
        "2",
        "--workers",
        "1,2",
        "--device",
        "none,mem",
        "--mix",
        "full,new-order",
        "--outstanding",
        "1,64",
    ]);
    for mix in ["full", "new-order"] {
        for device in ["none", "mem"] {
            let of_all = |line: &&Value| {
                let case = &line["case"];
                line["metric"] == "throughput"
                    && case["type"] == "all"
                    && case["mix"] == mix
                    && case["device"] == device
            };
            assert_eq!(lines.iter().filter(of_all).count(), 4, "{mix} on {device}: two workers, two ways to wait");
        }
    }
    for kind in ["new-order", "payment", "order-status", "delivery", "stock-level"] {
        assert!(lines.iter().any(|line| line["case"]["type"] == kind && line["metric"] == "latency_p99"), "{kind}");
    }
}

#[test]
fn ycsb_prints_figures_of_every_workload_and_skew() {
    let lines = lines(&[
        "ycsb",
        "--records",
        "1000",
        "--seconds",
        "0.05",
        "--workload",
        "a,f,reads:20",
        "--skew",
        "0,0.99",
        "--group",
        "4,16",
    ]);
    let throughputs = lines.iter().filter(|line| line["metric"] == "throughput").count();
    assert_eq!(throughputs, 3 * 2 * 2);
    assert!(lines.iter().any(|line| line["metric"] == "aborts" && line["case"]["reason"] == "all"));
}

#[test]
fn a_mix_that_there_is_not_is_refused_with_those_that_there_are() {
    let answer = Program::new().args(["bench", "tpcc", "--mix", "half"]).fails_with(2);
    assert!(answer.stderr.contains("full, new-order, new-order-no-insert and new-order-payment"), "{}", answer.stderr);
}

#[test]
fn the_books_of_a_bank_are_right_and_can_be_checked_again() {
    let directory = database();
    let bank = || Program::new().args(["bench", "bank", "--data"]).arg(directory.path());
    let answer = bank().args(["--seconds", "0.1", "--sessions", "2"]).succeeds();
    assert!(answer.stdout.contains("the books are right"), "{}", answer.stdout);
    let answer = bank().arg("--check").succeeds();
    assert!(answer.stdout.starts_with("the books are right: 16 accounts"), "{}", answer.stdout);
}

#[test]
fn a_setting_that_makes_no_sense_is_refused() {
    let directory = database();
    let answer =
        Program::new().args(["bench", "commit", "--sessions", "0", "--data"]).arg(directory.path()).fails_with(2);
    assert!(answer.stderr.starts_with("error: sessions: "), "{}", answer.stderr);
}
