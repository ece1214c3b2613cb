//! Paper 1: its experiments at smoke size, and plots and page of fixed lines.

use std::sync::Arc;

use ishigaki_base::ByteSize;
use ishigaki_bench::figures::{self, Paper, Plot, p1};
use ishigaki_bench::{Line, Metric, Silent, Target, long};
use ishigaki_device::{ModelledDirectory, Pace};

use super::{line, origin};

/// U-1 on one medium: two logs with one, two and four workers; the device test; long writing.
fn fixed() -> Vec<Line> {
    let mut lines = of_logs("u1");
    for threads in [1, 16] {
        for size in [4096, 8192] {
            let parts = serde_json::json!({"threads": threads, "size": size, "device": "ssd"});
            lines.push(line("media", &parts, Metric::Bandwidth, &[f64::from(threads * size) * 1e4]));
        }
    }
    for trim in [false, true] {
        let parts = serde_json::json!({"write": 8192, "trim": trim, "workers": 4, "interval": 1.0, "device": "ssd"});
        lines.push(line("long", &parts, Metric::Bandwidth, &[3e8, 2e8, 1e8]));
        lines.push(line("long", &parts, Metric::Ratio, &[0.33]));
    }
    lines
}

/// A workload on two logs with one, two and four workers.
fn of_logs(workload: &str) -> Vec<Line> {
    let mut lines = Vec::new();
    for (log, commit, each) in [("parallel", "watermark", 100e3), ("serial", "watermark", 50e3)] {
        for workers in [1, 2, 4] {
            let parts = serde_json::json!({
                "workload": workload, "log": log, "commit": commit, "workers": workers, "group": 16, "device": "ssd"
            });
            let throughput = each * if log == "serial" { 1.0 } else { f64::from(workers) };
            let figures = [
                (Metric::Throughput, throughput),
                (Metric::Bandwidth, throughput * 420.0),
                (Metric::ShareOfDevice, 0.9),
                (Metric::LatencyP50, 150e-6),
                (Metric::LatencyP99, 250e-6),
                (Metric::UntilFlushedP50, 120e-6),
                (Metric::UntilFlushedP99, 200e-6),
                (Metric::ShareOfWaiting, 0.2),
                (Metric::Writes, 0.0625),
            ];
            lines
                .extend(figures.map(|(metric, value)| line("wal", &parts, metric, &[value * 0.9, value, value * 1.1])));
        }
    }
    lines
}

fn plots(lines: &[Line]) -> Vec<Plot> {
    figures::plots(Paper::P1, lines).unwrap()
}

fn count(text: &str, part: &str) -> usize {
    text.matches(part).count()
}

#[test]
fn fixed_lines_give_the_same_plots_each_time_and_each_shows_its_series() {
    let plots = plots(&fixed());
    assert_eq!(plots, self::plots(&fixed()));
    let names: Vec<&str> = plots.iter().map(|plot| plot.name.as_str()).collect();
    let expected = [
        "p1-device-ssd",
        "p1-u1-throughput-ssd",
        "p1-u1-bandwidth-ssd",
        "p1-u1-share-ssd",
        "p1-u1-latency-ssd",
        "p1-long-ssd",
    ];
    assert_eq!(names, expected);
    let svg = |name: &str| &plots.iter().find(|plot| plot.name == name).unwrap().svg;

    let throughput = svg("p1-u1-throughput-ssd");
    assert_eq!(count(throughput, "<svg"), 1);
    assert_eq!(count(throughput, "<circle"), 6, "a mark for each of three numbers of workers and two logs");
    for word in ["U-1 on ssd: throughput", "parallel, watermark", "serial", "workers", "100 k/s", "500 k/s"] {
        assert!(throughput.contains(word), "{word}");
    }
    assert!(throughput.contains("prefers-color-scheme: dark"));

    let latency = svg("p1-u1-latency-ssd");
    assert_eq!(count(latency, "<circle"), 12, "known and flushed");
    for word in ["serial: known", "serial: flushed", "50 µs", "150 µs"] {
        assert!(latency.contains(word), "{word}");
    }
    assert!(svg("p1-u1-share-ssd").contains("100%"));
    for word in ["1 thread", "16 threads", "8 KiB", "GB/s"] {
        assert!(svg("p1-device-ssd").contains(word), "{word}");
    }
    for word in ["8 KiB, trimmed", "8 KiB, not trimmed", "300 MB/s", "3 s"] {
        assert!(svg("p1-long-ssd").contains(word), "{word}");
    }
}

#[test]
fn the_page_lays_fixed_lines_beside_the_papers_figures() {
    let lines = fixed();
    let page = Paper::P1.page(&lines, &plots(&lines));
    for word in [
        "| ours | a machine; source abc |",
        "Intel Xeon E5-2665 (16 cores)",
        "## On `ssd`",
        "| *the paper: P-WAL, best* | 16 | 16 | 1.82 M/s | 814 MB/s | 97% | 330 µs (mean) |",
        "| parallel, watermark | 4 | 16 | 400 k/s | 168 MB/s | 90% | 150 µs | 250 µs | 120 µs | 20% | 0.062 |",
        "**8.00 times** the best of the serial one; in the paper 10.0 times",
        "| 8 KiB | 81.9 MB/s | 1.31 GB/s | 840 MB/s |",
        "| 8 KiB | no | 3 s | 200 MB/s | 100 MB/s | 300 MB/s | 0.33 |",
        "![U-1 on ssd: throughput](p1-u1-throughput-ssd.svg)",
    ] {
        assert!(page.contains(word), "{word} is not in\n{page}");
    }
    assert!(!page.contains("U-10:"), "what has no lines is left out");
}

#[test]
fn new_order_has_its_plots_and_the_papers_figures() {
    let lines = of_logs("tpcc");
    let plots = plots(&lines);
    let names: Vec<&str> = plots.iter().map(|plot| plot.name.as_str()).collect();
    assert_eq!(names, ["throughput", "bandwidth", "share", "latency"].map(|what| format!("p1-tpcc-{what}-ssd")));
    let page = Paper::P1.page(&lines, &plots);
    for word in [
        "### TPC-C: New-Order, 8 warehouses",
        "| *the paper: P-WAL, best* | 16 | 16 | 67.8 k/s | 533 MB/s | 64% | 4.7 ms (mean) | | | 55% | |",
        "in the paper 2.3 times. Until a commit is known its transactions take 4.8 times as long there",
        "![TPC-C on ssd: throughput](p1-tpcc-throughput-ssd.svg)",
    ] {
        assert!(page.contains(word), "{word} is not in\n{page}");
    }
}

#[test]
fn the_experiments_of_paper_1_run_and_are_written() {
    let directory = tempfile::tempdir().unwrap();
    let medium = ModelledDirectory::in_memory("nvm:5us".parse().unwrap(), Pace::Real);
    let log = ishigaki_wal::Settings { segment: ByteSize::mib(1), ..ishigaki_wal::Settings::default() };
    let settings = p1::Settings {
        scale: p1::Scale::smoke(),
        targets: vec![Target::new("nvm:5us", Arc::new(medium))],
        sides: long::Side::both(&log),
        log,
        origin: origin(),
    };
    let lines = p1::run(&settings, &long::free_up_to_now, &mut Silent).unwrap();
    for bench in ["media", "wal", "long"] {
        assert!(lines.iter().any(|line| line.bench == bench), "{bench}");
    }
    let out = directory.path().join("figures");
    let files = figures::write(&out, Paper::P1, &lines).unwrap();
    assert!(files.iter().all(|file| file.is_file()));
    assert_eq!(files.iter().filter(|file| file.extension().is_some_and(|ending| ending == "svg")).count(), 14);
    let read = figures::read(&out.join("p1.jsonl")).unwrap();
    let what = |lines: &[Line]| lines.iter().map(|line| (line.case.clone(), line.metric)).collect::<Vec<_>>();
    assert!(what(&read) == what(&lines), "the lines that were written are read");
    let page = std::fs::read_to_string(out.join("p1.md")).unwrap();
    for word in ["U-1:", "U-10:", "TPC-C:", "Device test", "Long writing", "| epoch |", "| serial |"] {
        assert!(page.contains(word), "{word}");
    }
}
