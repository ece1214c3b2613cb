//! `ishigaki bench tpch`, `bench remote --replay` and `bench figures p3`: queries over a storage node, which is a process of its
//! own.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;

use crate::node::served::Served;
use crate::program::{Program, database};

fn load(scale: &str, page_size: &str) -> TempDir {
    let directory = database();
    Program::new()
        .args(["bench", "tpch", "--load", "--scale", scale, "--page-size", page_size, "--data"])
        .arg(directory.path().join("tpch"))
        .succeeds();
    directory
}

/// Small data, and their folder.
fn data() -> (TempDir, PathBuf) {
    let directory = load("0.01", "16KiB");
    let data = directory.path().join("tpch");
    (directory, data)
}

fn lines(program: Program) -> Vec<Value> {
    let answer = program.succeeds();
    assert_eq!(answer.stderr, "");
    answer.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn tpch(data: &Path) -> Program {
    Program::new().args(["bench", "tpch", "--rounds", "1", "--data"]).arg(data)
}

/// The median of the only line that is so.
#[track_caller]
fn median(lines: &[Value], metric: &str, of: &[(&str, &str)]) -> f64 {
    let is = |line: &&Value| {
        let text = |key: &str| line["case"][key].as_str().map_or_else(|| line["case"][key].to_string(), str::to_owned);
        line["metric"] == metric && of.iter().all(|(key, value)| text(key) == *value)
    };
    let found: Vec<&Value> = lines.iter().filter(is).collect();
    let [line] = found[..] else { panic!("{} lines of {metric} {of:?}", found.len()) };
    line["median"].as_f64().expect("a number")
}

#[test]
fn every_placement_gives_the_same_answer_and_says_what_it_took_of_both_sides() {
    let (_kept, data) = data();
    let lines = lines(tpch(&data).args([
        "--query",
        "1,3,6,15",
        "--placement",
        "local,fetch,push,auto",
        "--page-memory",
        "0",
        "--json",
    ]));
    for query in ["1", "3", "6", "15"] {
        for placement in ["local", "fetch", "push", "auto"] {
            let of = [("query", query), ("placement", placement)];
            assert!(median(&lines, "latency_p50", &of) > 0.0);
            let [first, second] = of;
            assert!(median(&lines, "processor", &[first, second, ("side", "client")]) > 0.0);
            if placement != "local" {
                assert!(median(&lines, "processor", &[first, second, ("side", "node")]) > 0.0);
                assert!(median(&lines, "ratio", &[first, second, ("of", "time over local")]) > 0.0);
            }
        }
        let received = |placement| median(&lines, "bytes_received", &[("query", query), ("placement", placement)]);
        assert!(received("push") > 0.0, "query {query}");
        assert!(received("push") < received("fetch"), "query {query}: results are less than pages");
    }
    // All of lineitem travels, and of query 6 a row comes back.
    assert!(median(&lines, "bytes_received", &[("query", "6"), ("placement", "fetch")]) > 1e6);
    assert!(median(&lines, "bytes_received", &[("query", "6"), ("placement", "push")]) < 1e4);
    assert!(lines.iter().all(|line| line["case"]["checked"] == "expected answer"));
}

#[test]
fn a_person_gets_a_row_for_each_query_and_placement() {
    let (_kept, data) = data();
    let answer = tpch(&data).args(["--query", "6", "--placement", "local,push"]).succeeds();
    let rows: Vec<&str> = answer.stdout.lines().skip(3).collect();
    assert_eq!(rows.len(), 2, "{}", answer.stdout);
    assert!(rows[0].contains("local") && rows[1].contains("push"), "{}", answer.stdout);
    assert!(answer.stdout.starts_with("TPC-H at scale 0.01, pages of 16.0 KiB"), "{}", answer.stdout);
}

#[test]
fn a_node_that_is_there_is_used_and_one_with_other_rows_gives_no_figure() {
    let (_kept, data) = data();
    let own = Served::start(&data.join("pages"), &["--read-only"]);
    let found = lines(tpch(&data).args(["--query", "6", "--placement", "push", "--json", "--node", own.address()]));
    assert_eq!(found.iter().filter(|line| line["metric"] == "latency_p50").count(), 1);
    let ended = own.ends_by("TERM");
    assert!(ended["bytes_of_results"].as_u64().is_some_and(|bytes| bytes > 0), "{ended}");

    let other = load("0.002", "16KiB");
    let pages = other.path().join("tpch/pages");
    let node = Served::start(&pages, &["--read-only"]);
    let place = format!("node://{}/", node.address());
    let answer = tpch(&data).args(["--query", "6", "--placement", "push", "--node", &place]).fails_with(4);
    assert!(answer.stderr.contains("query 6 gives a wrong answer in placement push"), "{}", answer.stderr);

    // Of a scale of which no answer is known, what the first placement gave is what the others must give.
    let small = load("0.003", "16KiB");
    let answer = tpch(&small.path().join("tpch"))
        .args(["--query", "6", "--placement", "local,push", "--node", &place])
        .fails_with(4);
    assert!(answer.stderr.contains("not the rows of the first time"), "{}", answer.stderr);
}

#[test]
fn what_can_not_be_run_is_refused_with_the_remedy() {
    let (_kept, data) = data();
    let answer = tpch(&data).args(["--placement", "fetch,fetch"]).fails_with(2);
    assert!(answer.stderr.contains("placement: give one or more, each once"), "{}", answer.stderr);
    let answer = tpch(&data).args(["--placement", "far"]).fails_with(2);
    assert!(answer.stderr.contains("auto, local, fetch or push"), "{}", answer.stderr);
    let answer = tpch(&data).args(["--link", "fast"]).fails_with(2);
    assert!(answer.stderr.contains("as in 1Gbit"), "{}", answer.stderr);
    let answer = tpch(&data).args(["--node", "nowhere"]).fails_with(2);
    assert!(answer.stderr.contains("host or port is missing"), "{}", answer.stderr);
    let nothing = database();
    let answer = Program::new().args(["bench", "remote", "--replay", "--data"]).arg(nothing.path()).fails_with(1);
    assert!(answer.stderr.contains("--load"), "{}", answer.stderr);
}

#[test]
fn over_a_link_to_a_host_of_its_own_each_case_says_how_far_auto_is_behind() {
    let (_kept, data) = data();
    let program = tpch(&data).args(["--query", "6", "--placement", "fetch,push,auto", "--page-memory", "1GiB"]).args([
        "--link",
        "100Mbit,none",
        "--busy",
        "idle,scans",
        "--json",
    ]);
    let mut running = program.start();
    running.say("");
    let answer = running.ends();
    if answer.code != Some(0) && answer.stderr.contains("no second host on this one") {
        let _ = writeln!(std::io::stderr(), "SKIPPED: queries over a link: {}", answer.stderr);
        return;
    }
    assert_eq!((answer.code, answer.stderr.as_str()), (Some(0), ""));
    let lines: Vec<Value> = answer.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let time = |link, node, placement| {
        median(&lines, "latency_p50", &[("link", link), ("node", node), ("placement", placement)])
    };
    for link in ["100 Mbit/s", "unshaped"] {
        for node in ["idle", "scans"] {
            for placement in ["fetch", "push", "auto"] {
                assert!(time(link, node, placement) > 0.0, "{link}, {node}, {placement}");
            }
            let ratio = |of| median(&lines, "ratio", &[("link", link), ("node", node), ("of", of)]);
            assert!(ratio("auto over the better") > 0.0 && ratio("fetch over push") > 0.0);
        }
    }
    let received = |link| {
        let of = [("link", link), ("node", "idle"), ("placement", "fetch")];
        median(&lines, "bytes_received", &of)
    };
    // As long as the bytes need, and not as long without.
    let needed = received("100 Mbit/s") * 8.0 / 1e8;
    assert!(time("100 Mbit/s", "idle", "fetch") > 0.8 * needed, "{needed} seconds are needed");
    assert!(received("unshaped") > 1e6, "all of lineitem travels");
    assert!(lines.iter().all(|line| line["bench"] == "apart" && line["seed"].is_u64()));
}

#[test]
fn the_reads_of_a_query_are_done_again_with_a_cache_and_without() {
    let (_kept, data) = data();
    let replay = || {
        Program::new()
            .args(["bench", "remote", "--replay", "--rounds", "1", "--times", "3", "--cache", "30,200"])
            // With several in flight, what is on its way may be asked for again: misses that an LRU does not have.
            .args(["--depth", "1", "--data"])
            .arg(&data)
    };
    let lines = lines(replay().arg("--json"));
    for target in ["local", "remote"] {
        assert!(median(&lines, "latency_p50", &[("target", target)]) > 0.0);
    }
    let hits = |target, share| median(&lines, "hit_ratio", &[("target", target), ("share", share)]);
    // Three runs of one query, and room for all of their pages: the first run alone misses.
    assert!(hits("lru", "200") > 0.6 && hits("lru", "200") < 0.7, "{}", hits("lru", "200"));
    assert!((hits("cached", "200") - hits("lru", "200")).abs() < 0.02, "{}", hits("cached", "200"));
    // Pages come again when as many others have passed as there are: too many for an LRU with less room.
    assert!(hits("lru", "30") < 0.2, "{}", hits("lru", "30"));
    assert!(hits("cached", "30") >= hits("lru", "30"), "{}", hits("cached", "30"));
    let answer = replay().succeeds();
    assert_eq!(answer.stdout.lines().count(), 3 + 4, "{}", answer.stdout);
    assert!(fs::read_dir(&data).expect("listed").count() == 2, "no notes are left behind");
}

#[test]
fn figures_of_paper_3_are_drawn_and_their_page_lays_them_beside_the_thesis() {
    let place = database();
    let out = place.path().join("out");
    let figures = |more: &[&str]| {
        let program = Program::new().args(["bench", "figures", "p3", "--out"]).arg(&out).args(more);
        program.succeeds().stdout
    };
    let data = place.path().join("data");
    fs::create_dir(&data).expect("a folder");
    let said = figures(&["--smoke", "--data", data.to_str().expect("text")]);
    for name in ["p3.jsonl", "p3.md", "p3-replay-hits.svg", "p3-q6-time.svg", "p3-reads-1c-8d-share.svg"] {
        assert!(said.contains(name) && out.join(name).is_file(), "{name} in {said}");
    }
    assert_eq!(fs::read_dir(&data).expect("listed").count(), 0, "nothing is left of the data");
    let page = fs::read_to_string(out.join("p3.md")).expect("the page");
    for words in ["What was found there", "(P3.3)", "(P3.4)", "(P3.5)", "Query 15", "| push |", "p3-q1-processors.svg"]
    {
        assert!(page.contains(words), "{words} in {page}");
    }
    // Drawn again of the lines alone it is the same page.
    let lines = out.join("p3.jsonl");
    figures(&["--from", lines.to_str().expect("text")]);
    assert_eq!(fs::read_to_string(out.join("p3.md")).expect("the page"), page);
}
