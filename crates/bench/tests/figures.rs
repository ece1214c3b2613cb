//! The experiments of the papers at smoke size, and plots and pages of fixed lines.

#[path = "figures/p1.rs"]
mod p1;
#[path = "figures/p2.rs"]
mod p2;
#[path = "figures/p3.rs"]
mod p3;
#[path = "figures/p4.rs"]
mod p4;
#[path = "figures/p4_tpcc.rs"]
mod p4_tpcc;
#[path = "figures/p5a.rs"]
mod p5a;
#[path = "figures/p5b.rs"]
mod p5b;

use std::fs;
use std::path::Path;

use ishigaki_base::random::Seed;
use ishigaki_bench::figures::{self, Paper};
use ishigaki_bench::{Error, Line, Metric, Origin};

fn origin() -> Origin {
    Origin { machine: "a machine".to_owned(), commit: "abc".to_owned(), seed: Seed(1) }
}

fn line(bench: &str, parts: &serde_json::Value, metric: Metric, runs: &[f64]) -> Line {
    Line::new(bench, parts.as_object().unwrap().clone(), metric, runs.to_vec(), &origin())
}

#[test]
fn without_lines_there_are_no_plots() {
    for paper in Paper::ALL {
        assert!(figures::plots(paper, &[]).unwrap().is_empty());
    }
}

#[test]
fn a_paper_is_called_as_its_files_are() {
    for paper in Paper::ALL {
        assert_eq!(paper.to_string().parse::<Paper>().unwrap(), paper);
    }
    assert!("p5".parse::<Paper>().unwrap_err().to_string().contains("p1, p2, p3 and p4"));
}

#[test]
fn what_is_by_hand_stays_when_a_page_is_written_again() {
    for (paper, bench) in [(Paper::P1, "wal"), (Paper::P2, "tpcc")] {
        let directory = tempfile::tempdir().unwrap();
        let page = directory.path().join(format!("{paper}.md"));
        let lines = |device: &str| {
            let case = serde_json::json!({"device": device, "mix": "full", "warehouses": 1, "workers": 1});
            vec![line(bench, &case, Metric::Throughput, &[1.0])]
        };
        figures::write(directory.path(), paper, &lines("disk-one")).unwrap();
        let drawn = fs::read_to_string(&page).unwrap();
        assert!(drawn.contains("disk-one"), "{drawn}");
        let end = "<!-- end of what is by hand -->";
        fs::write(&page, drawn.replace(end, &format!("It is so because.\n\n{end}"))).unwrap();
        figures::write(directory.path(), paper, &lines("disk-two")).unwrap();
        let again = fs::read_to_string(&page).unwrap();
        assert!(
            again.contains("It is so because.") && again.contains("disk-two") && !again.contains("disk-one"),
            "{again}"
        );
    }
}

#[test]
fn a_page_without_a_place_for_notes_is_not_written_over_and_the_lines_are_kept() {
    let directory = tempfile::tempdir().unwrap();
    let page = directory.path().join("p2.md");
    fs::write(&page, "by hand\n").unwrap();
    let refused = figures::write(directory.path(), Paper::P2, &[]).unwrap_err();
    assert!(matches!(&refused, Error::Invalid { setting: "out", .. }), "{refused}");
    assert_eq!(fs::read_to_string(&page).unwrap(), "by hand\n");
    assert!(figures::read(&directory.path().join("p2.jsonl")).unwrap().is_empty());
}

#[test]
fn the_pages_in_the_documentation_are_what_their_lines_give() {
    let results = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/results");
    for paper in Paper::ALL {
        let [lines, page] = ["jsonl", "md"].map(|ending| results.join(format!("{paper}.{ending}")));
        if !page.exists() {
            continue;
        }
        let directory = tempfile::tempdir().unwrap();
        let copy = directory.path().join(format!("{paper}.md"));
        fs::copy(&page, &copy).unwrap();
        figures::write(directory.path(), paper, &figures::read(&lines).unwrap()).unwrap();
        let remedy = format!(
            "draw it again: `ishigaki bench figures {paper} --from {0}/{paper}.jsonl --out {0}`",
            "docs/results"
        );
        assert!(fs::read(&copy).unwrap() == fs::read(&page).unwrap(), "{}: {remedy}", page.display());
    }
}
