//! Paper 5, chapter 2: a whole run of a few dozen files, a run that is stopped, and the page of fixed lines.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use ishigaki_bench::figures::{self, Paper, p5a};
use ishigaki_bench::{Error, Metric, Progress, Silent, migration};
use serde_json::json;

use crate::{line, origin};

/// Whether there can be old servers here; says what is missing if not. Everything else that fails is the measurement's fault.
fn can_run() -> bool {
    let missing = migration::missing();
    if let Some(lack) = &missing {
        let _ = writeln!(std::io::stderr(), "SKIPPED: a server is replaced: {lack}");
    }
    missing.is_none()
}

fn smoke(scratch: &Path, stop: &'static AtomicBool) -> p5a::Settings {
    p5a::Settings { scale: p5a::Scale::smoke(), scratch: scratch.to_owned(), origin: origin(), stop }
}

/// Nothing of this process is left: no file, no mount, no namespace.
fn assert_nothing_is_left(scratch: &Path) {
    assert_eq!(std::fs::read_dir(scratch).unwrap().count(), 0, "a file is left");
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(&scratch.display().to_string()), "a mount is left: {mounts}");
    assert!(!Path::new("/run/netns").join(format!("isg{}", std::process::id())).exists(), "a namespace is left");
}

#[test]
fn a_server_is_replaced_with_rivals_beside_it_and_one_that_is_stopped_leaves_nothing() {
    static NEVER: AtomicBool = AtomicBool::new(false);
    static STOP: AtomicBool = AtomicBool::new(false);
    /// Stops in the middle of what it is told.
    struct Stopping;
    impl Progress for Stopping {
        fn step(&mut self, _now: &str, done: u64, _of: u64) {
            STOP.store(done >= 4, Ordering::Release);
        }
    }

    if !can_run() {
        return;
    }
    // Both in one test: a process has one other host at a time.
    let held = tempfile::tempdir().unwrap();
    let error = p5a::run(&smoke(held.path(), &STOP), &mut Stopping).unwrap_err();
    assert!(matches!(error, Error::Server(ishigaki_servers::Error::Stopped)), "{error}");
    assert_nothing_is_left(held.path());

    let lines = p5a::run(&smoke(held.path(), &NEVER), &mut Silent).unwrap();
    assert_nothing_is_left(held.path());
    assert!(lines.iter().all(|line| line.runs.len() == 1 && line.median > 0.0), "{lines:?}");
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for line in lines.iter().filter(|line| line.metric != Metric::Ratio) {
        *counts.entry(&line.bench).or_default() += 1;
    }
    // Where rclone is, it is a rival by both of its ways.
    let sides = if Path::new("/usr/bin/rclone").exists() { 5 } else { 3 };
    let expected = [
        (migration::CUT_OVER, 2),
        // Two depths, two links, two servers.
        (migration::FIRST, 8),
        (migration::LIMIT, 3),
        // Two servers, four strategies, five shares; a mean and nine quantiles.
        (migration::RESPONSE, 2 * 4 * 5 * 10),
        // Two trees, one of them over both links.
        (migration::TOTAL, 3 * sides),
        // The bare directory, and three states of a migration from each server; a read and the mix.
        (migration::WORK, 7 * 2),
    ];
    assert_eq!(counts, BTreeMap::from(expected));
    // The long link: not even the first answer comes before its round trip.
    let far = lines.iter().filter(|line| line.case.get("link").is_some_and(|link| link == "wan"));
    assert!(far.filter(|line| line.metric == Metric::Elapsed).all(|line| line.median > 0.02));
    let page = Paper::P5a.page(&lines, &figures::plots(Paper::P5a, &lines).unwrap());
    for title in [
        "Until clients are served",
        "Until all is here",
        "The first access",
        "What clients get done",
        "What clients wait for",
    ] {
        assert!(page.contains(&format!("\n## {title}\n")), "{title}");
    }
}

#[test]
fn the_page_tells_what_holds_and_what_does_not() {
    let tree = |link: &str, more: serde_json::Value| {
        let mut case = json!({"tree": "small", "link": link, "files": 100, "directories": 10, "bytes": 1_048_576, "fewer": 50, "smaller": 20});
        case.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        case
    };
    let ours = |link| tree(link, json!({"side": "ishigaki nfs"}));
    let over = |link| tree(link, json!({"side": "ishigaki nfs", "of": migration::OVER_RSYNC}));
    let mix = |state: &str, more: serde_json::Value| {
        let mut case =
            json!({"work": "mix", "sessions": 4, "state": state, "server": "smb", "files": 9, "large": 1024});
        case.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        case
    };
    let over_bare = || json!({"of": migration::OVER_BARE});
    let half = |passes: &str| json!({"server": "nfs", "link": "lan", "strategy": format!("breadth first, {passes}"), "done": 50, "of": "quantile", "percent": 99.0, "files": 7});
    let first = json!({"server": "nfs", "link": "lan", "width": 1000, "depth": 16});
    let lines = [
        line(migration::LIMIT, &json!({"of": "link"}), Metric::Bandwidth, &[1_048_576.0]),
        line(migration::LIMIT, &json!({"of": "link"}), Metric::LatencyP50, &[0.0002]),
        line(migration::CUT_OVER, &json!({"server": "nfs", "files": 100_000}), Metric::Elapsed, &[0.5, 0.7, 0.6]),
        line(migration::TOTAL, &ours("lan"), Metric::Elapsed, &[3.0]),
        line(migration::TOTAL, &over("lan"), Metric::Ratio, &[1.5]),
        line(migration::TOTAL, &tree("lan", json!({"side": "rsync"})), Metric::Elapsed, &[2.0]),
        line(migration::TOTAL, &ours("wan"), Metric::Elapsed, &[3.0]),
        line(migration::TOTAL, &over("wan"), Metric::Ratio, &[0.4]),
        line(migration::FIRST, &first, Metric::Elapsed, &[0.25]),
        line(migration::WORK, &mix("bare", json!({})), Metric::Throughput, &[1000.0]),
        line(migration::WORK, &mix("done", over_bare()), Metric::Ratio, &[0.8, 0.85, 0.89]),
        line(migration::WORK, &mix("finished", over_bare()), Metric::Ratio, &[0.98, 1.0, 1.01]),
        line(migration::RESPONSE, &half("metadata first"), Metric::Elapsed, &[0.005]),
        line(migration::RESPONSE, &half("all at once"), Metric::Elapsed, &[0.02]),
    ];
    let plots = figures::plots(Paper::P5a, &lines).unwrap();
    let names: Vec<_> = plots.iter().map(|plot| plot.name.as_str()).collect();
    let expected = ["p5a-total-lan", "p5a-total-wan", "p5a-first-nfs-lan", "p5a-response-nfs-lan", "p5a-half-nfs-lan"];
    assert_eq!(names, expected);
    let page = Paper::P5a.page(&lines, &plots);
    for row in [
        "| link by itself (`lan`) | 1.05 MB/s over TCP; a byte is back after 200 µs |",
        "| `ls` of the root answers within 1 s | nfs, 600 ms, with 100000 files | yes |",
        "| small, lan: at most 1.0 of rsync's time | ishigaki nfs: 1.50 (rounds 1.50 to 1.50) | **no** |",
        "| small, wan: at most 0.5 of rsync's time | ishigaki nfs: 0.40 (rounds 0.40 to 0.40) | yes |",
        "| mixed work on a tree that is here: at least 0.9 of the bare directory | smb: 0.85 (rounds 0.80 to 0.89) | **no** |",
        "| mixed work after `finish`: exactly as in a bare directory | smb: 1.00 (rounds 0.98 to 1.01) | yes |",
        "5.83 s metadata first, 11.25 s all at once | 5 ms and 20 ms | yes |",
        "| small | lan | 100 | 10 | 1 MiB | ishigaki nfs | 3 s | 3 s | 3 s | 1.50 | 1 s |",
        "| small | lan | 100 | 10 | 1 MiB | rsync | 2 s | 2 s | 2 s |  | 1 s |",
        "| nfs | lan | 16 | 250 ms |",
        "| mix | 4 | bare | smb | 1 k/s | 1 k/s | 1 k/s |  |",
    ] {
        assert!(page.contains(row), "{row}\n{page}");
    }
}
