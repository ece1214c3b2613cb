//! `ishigaki media probe`, for a moment.

use std::fs;

use serde_json::Value;

use crate::program::{Program, database};

fn probe() -> Program {
    Program::new().args(["media", "probe", "--threads", "1,2", "--seconds", "0.02", "--rounds", "2"])
}

#[test]
fn a_probe_prints_a_json_object_for_each_figure_and_leaves_nothing_behind() {
    let directory = database();
    let answer = probe().args(["--sizes", "4KiB,64KiB", "--json"]).arg(directory.path()).succeeds();
    let lines: Vec<Value> = answer.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines.len(), 2 * 2 * 4, "{}", answer.stdout);
    for (threads, size) in [(1, 4096), (1, 65536), (2, 4096), (2, 65536)] {
        let median = |metric: &str, unit: &str| {
            let of_it = |line: &&Value| {
                line["case"]["threads"] == threads && line["case"]["size"] == size && line["metric"] == metric
            };
            let line = lines.iter().find(of_it).expect("a line");
            assert_eq!((&line["bench"], &line["unit"]), (&"media".into(), &unit.into()));
            assert_eq!(line["runs"].as_array().expect("rounds").len(), 2);
            line["median"].as_f64().expect("a number")
        };
        let (throughput, bandwidth) = (median("throughput", "1/s"), median("bandwidth", "B/s"));
        assert!((bandwidth / throughput / f64::from(size) - 1.0).abs() < 1e-9, "{bandwidth} of {throughput} writes");
        assert!(median("latency_p50", "s") <= median("latency_p99", "s"));
    }
    assert_eq!(answer.stderr, "");
    assert_eq!(fs::read_dir(directory.path()).expect("listed").count(), 0);
}

#[test]
fn a_probe_shows_a_table_and_what_the_medium_supports() {
    let directory = database();
    let answer = probe().args(["--sizes", "4KiB"]).arg(directory.path()).succeeds();
    for part in ["blocks of ", "direct I/O: ", "trim: ", "writes through (FUA): ", "threads", "4.0 KiB", "MB/s", "µs"]
    {
        assert!(answer.stdout.contains(part), "{part} in {}", answer.stdout);
    }
    assert_eq!(fs::read_dir(directory.path()).expect("listed").count(), 0);
}

#[test]
fn modelled_media_can_be_probed_too() {
    let answer = probe().args(["--sizes", "4KiB", "--threads", "1", "nvm:500ns"]).succeeds();
    assert!(answer.stdout.starts_with("nvm:500ns on "), "{}", answer.stdout);
}

#[test]
fn a_formatted_device_holds_a_database_and_is_not_formatted_again_by_mistake() {
    let home = database();
    let disk = home.path().join("disk");
    fs::File::create(&disk).and_then(|file| file.set_len(96 << 20)).expect("a file as large as a small disk");
    let format = || Program::new().args(["media", "format"]).arg(&disk);
    assert!(format().succeeds().stdout.contains("is formatted, 96.0 MiB"));
    let sql = |statement: &str| {
        let place = format!("raw:{}", disk.display());
        Program::new().args(["sql", "--format", "csv", "--data", &place, "-c", statement]).succeeds().stdout
    };
    sql("CREATE TABLE t (id BIGINT PRIMARY KEY); INSERT INTO t VALUES (7)");
    assert_eq!(sql("SELECT * FROM t"), "id\n7\n");
    let refused = format().fails_with(1);
    assert!(refused.stderr.contains("--force"), "{}", refused.stderr);
    format().args(["--force"]).succeeds();
    assert_eq!(sql("SELECT count(*) AS n FROM information_schema.tables WHERE table_name = 't'"), "n\n0\n");
}

#[test]
fn the_help_of_a_probe_shows_examples() {
    let answer = Program::new().args(["media", "probe", "--help"]).succeeds();
    assert!(answer.stdout.contains("Examples:") && answer.stdout.contains("--sizes"), "{}", answer.stdout);
}

#[test]
fn only_a_directory_can_be_probed_and_only_with_settings_that_make_sense() {
    let directory = database();
    let file = directory.path().join("file");
    fs::write(&file, "precious").expect("written");
    let answer = probe().arg(&file).fails_with(1);
    assert!(answer.stderr.contains("is not a directory") && answer.stderr.contains("hint: "), "{}", answer.stderr);
    assert_eq!(fs::read(&file).expect("read"), b"precious");
    let answer = probe().arg(directory.path().join("missing")).fails_with(1);
    assert!(answer.stderr.contains("missing"), "{}", answer.stderr);
    let answer = Program::new().args(["media", "probe", "--threads", "0"]).arg(directory.path()).fails_with(2);
    assert!(answer.stderr.starts_with("error: threads: "), "{}", answer.stderr);
    assert_eq!(fs::read_dir(directory.path()).expect("listed").count(), 1, "the file alone");
}
