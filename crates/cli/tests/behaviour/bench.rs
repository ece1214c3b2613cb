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
        Program::new().args(["bench", "commit", "--sessions", "0", "--data"]).arg(directory.path()).fails_with(1);
    assert!(answer.stderr.starts_with("error: sessions: "), "{}", answer.stderr);
}
