//! Paper 5, chapter 2: a whole run of a few dozen files, and the page of fixed lines.

use std::io::Write;

use ishigaki_bench::figures::{self, Paper, p5a};
use ishigaki_bench::{Error, Metric, Silent, migration};
use serde_json::json;

use crate::{line, origin};

#[test]
fn a_server_is_replaced_and_rsync_runs_beside_it() {
    let held = tempfile::tempdir().unwrap();
    let settings = p5a::Settings { scale: p5a::Scale::smoke(), scratch: held.path().to_owned(), origin: origin() };
    let lines = match p5a::run(&settings, &mut Silent) {
        Ok(lines) => lines,
        // Namespaces, packages and mounts are the host's. What comes wrong is another error.
        Err(error @ (Error::Hosts { .. } | Error::Process { .. })) => {
            let _ = writeln!(std::io::stderr(), "SKIPPED: a server is replaced: {error}");
            return;
        }
        Err(error) => panic!("{error}"),
    };
    let cases: Vec<_> = lines.iter().map(|line| (line.bench.as_str(), line.metric, line.runs.len())).collect();
    let total = [Metric::Elapsed, Metric::Elapsed, Metric::Ratio].map(|metric| (migration::TOTAL, metric, 1));
    let expected = [(migration::CUT_OVER, Metric::Elapsed, 1)].into_iter().chain([total; 3].concat());
    assert_eq!(cases, expected.collect::<Vec<_>>());
    assert!(lines.iter().all(|line| line.median > 0.0), "{lines:?}");
    // The long link: not even the first answer comes before its round trip.
    let far = lines.iter().filter(|line| line.case["link"] == "wan" && line.metric == Metric::Elapsed);
    assert!(far.map(|line| line.median).all(|time| time > 0.02));
    assert_eq!(std::fs::read_dir(held.path()).unwrap().count(), 0, "nothing is left");
}

#[test]
fn the_page_tells_what_holds_and_what_does_not() {
    let tree = |link: &str, more: serde_json::Value| {
        let mut case = json!({"tree": "small", "link": link, "files": 100, "directories": 10, "bytes": 1_048_576, "fewer": 50, "smaller": 20});
        case.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        case
    };
    let lines = [
        line(migration::CUT_OVER, &json!({"link": "lan", "files": 100_000}), Metric::Elapsed, &[0.5, 0.7, 0.6]),
        line(migration::TOTAL, &tree("lan", json!({"side": "ishigaki"})), Metric::Elapsed, &[3.0]),
        line(migration::TOTAL, &tree("lan", json!({"side": "rsync"})), Metric::Elapsed, &[2.0]),
        line(migration::TOTAL, &tree("lan", json!({"of": migration::OVER_RSYNC})), Metric::Ratio, &[1.5]),
        line(migration::TOTAL, &tree("wan", json!({"side": "ishigaki"})), Metric::Elapsed, &[3.0]),
        line(migration::TOTAL, &tree("wan", json!({"of": migration::OVER_RSYNC})), Metric::Ratio, &[0.4]),
    ];
    let plots = figures::plots(Paper::P5a, &lines).unwrap();
    assert_eq!(plots.iter().map(|plot| plot.name.as_str()).collect::<Vec<_>>(), ["p5a-total-lan", "p5a-total-wan"]);
    let page = Paper::P5a.page(&lines, &plots);
    for row in [
        "| `ls` of the root answers within 1 s | 600 ms with 100000 files | yes |",
        "| small, lan: at most 1.0 of rsync's time | 1.50 (rounds 1.50 to 1.50) | **no** |",
        "| small, wan: at most 0.5 of rsync's time | 0.40 (rounds 0.40 to 0.40) | yes |",
        "| small | lan | 100 | 10 | 1 MiB | rsync | 2 s | 2 s | 2 s |",
    ] {
        assert!(page.contains(row), "{row}\n{page}");
    }
}
