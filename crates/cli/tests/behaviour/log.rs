//! `ishigaki log`.

use std::fs;

use serde_json::Value;

use crate::program::{Program, database};
use crate::sql::{sql, stones};

fn inspect() -> Program {
    Program::new().args(["log", "inspect"])
}

#[test]
fn a_log_is_shown_with_its_streams_and_where_it_stops() {
    let directory = stones();
    let answer = inspect().arg(directory.path()).succeeds();
    for word in ["generation", "closed cleanly", "watermark", "stream 0:", "stops in segment"] {
        assert!(answer.stdout.contains(word), "no `{word}` in\n{}", answer.stdout);
    }
}

#[test]
fn a_log_is_shown_to_programs_as_one_object() {
    let directory = stones();
    let answer = inspect().arg("--json").arg(directory.path()).succeeds();
    let log: Value = serde_json::from_str(&answer.stdout).expect("one JSON object");
    assert!(log["records"].as_u64() > Some(0), "{log}");
    assert_eq!(log["problem"], Value::Null);
    assert!(log["streams"][0]["end"]["reason"].is_string(), "{log}");
}

#[test]
fn looking_changes_nothing() {
    let directory = stones();
    let files = || {
        let mut files: Vec<_> = fs::read_dir(directory.path())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .map(|path| (path.clone(), fs::read(path).unwrap()))
            .collect();
        files.sort();
        files
    };
    let before = files();
    inspect().arg(directory.path()).succeeds();
    assert!(before == files());
}

#[test]
fn a_directory_without_a_log_is_told_from_one_that_is_not_there() {
    let directory = database();
    let missing = inspect().arg(directory.path().join("missing")).fails_with(1);
    assert!(missing.stderr.contains("there is no such directory"), "{}", missing.stderr);
    let empty = inspect().arg(directory.path()).fails_with(1);
    assert!(empty.stderr.contains("there is no log"), "{}", empty.stderr);
}

#[test]
fn a_damaged_log_is_shown_as_far_as_it_goes_and_not_opened() {
    let directory = stones();
    let segment = directory.path().join("wal-000-00000000");
    let mut bytes = fs::read(&segment).unwrap();
    bytes[100] ^= 1;
    fs::write(&segment, bytes).unwrap();
    let shown = inspect().arg(directory.path()).fails_with(4);
    assert!(shown.stdout.contains("problem     the log is damaged"), "{}", shown.stdout);
    assert!(shown.stderr.starts_with("error: the log is damaged"), "{}", shown.stderr);
    let refused = sql(directory.path()).args(["-c", "SELECT * FROM stones"]).fails_with(4);
    assert_eq!(refused.stdout, "");
    assert!(refused.stderr.contains("; `ishigaki verify DIR` shows every damage"), "{}", refused.stderr);
}

fn changes() -> Program {
    Program::new().args(["log", "changes"])
}

#[test]
fn what_was_committed_is_shown_transaction_by_transaction() {
    let directory = stones();
    sql(directory.path()).args(["-c", "DELETE FROM stones WHERE id = 2"]).succeeds();
    let answer = changes().arg("--json").arg(directory.path()).succeeds();
    let shown: Vec<Value> = answer.stdout.lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
    let puts = |change: &Value| change["operations"].as_array().unwrap().iter().filter(|o| o["put"].is_u64()).count();
    let inserted = shown.iter().find(|change| puts(change) == 3).expect("three rows in one transaction");
    let table = &inserted["operations"][0]["put"];
    let last = shown.last().unwrap();
    assert_eq!(&last["operations"][0]["delete"], table, "{last}");
    assert_eq!(last["operations"][0]["key"], inserted["operations"][1]["key"], "{last}");

    let from = last["lsn"].to_string();
    let answer = changes().args(["--from", &from]).arg(directory.path()).succeeds();
    let expected = format!("LSN {from} in stream {}\n  delete ", last["stream"]);
    assert!(answer.stdout.starts_with(&expected), "{}", answer.stdout);
    assert_eq!(answer.stdout.lines().count(), 2, "{}", answer.stdout);
}

#[test]
fn changes_that_a_checkpoint_has_taken_are_not_there_any_more() {
    let directory = stones();
    sql(directory.path()).args(["-c", "CHECKPOINT", "-c", "DELETE FROM stones WHERE id = 2"]).succeeds();
    let answer = changes().arg(directory.path()).succeeds();
    assert!(answer.stdout.contains("delete") && !answer.stdout.contains("put"), "{}", answer.stdout);
    let refused = changes().args(["--from", "1"]).arg(directory.path()).fails_with(1);
    assert!(refused.stderr.contains("trimmed"), "{}", refused.stderr);
}
