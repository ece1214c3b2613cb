//! The page about paper 1: our figures beside the authors', with both machines named.

use std::fmt::Write as _;

use super::charts::{devices, variant};
use super::paper::{BEST, Best, DEVICE, MACHINE};
use crate::figures::cases::{Figures, cases, machines, number, numbers, text};
use crate::figures::units::Unit;
use crate::figures::{Plot, notes};
use crate::{Line, Metric};

/// The page for these lines, with the plots that were drawn of them.
pub(in crate::figures) fn page(lines: &[Line], plots: &[Plot]) -> String {
    let mut page = String::from(
        "# The experiments of paper 1, run\n\n\
         The parallel write-ahead log's paper (Kamiya, Kawashima, Hoshino, Tatebe: P-WAL, 2017) measures a log by itself: \
         the device test, the micro-benchmarks U-1 and U-10, TPC-C's New-Order, the two parts of latency, and long \
         writing. Here they are run on this log. Figures of different machines can not be compared as they stand; what can \
         be are ratios: how far the parallel log is from the serial one, and from what the device gives. All lines are in \
         [p1.jsonl](p1.jsonl).\n\n\
         | | machine |\n|---|---|\n",
    );
    let _ = writeln!(page, "| the paper | {MACHINE} |");
    let _ = write!(page, "{}\n{}", machines(lines), notes::place());
    page.push_str(
        "\nMedians over the rounds. *Share of device*: bandwidth of the log divided by that of the bare device in the same \
         run, with as many threads and writes of the log's mean size. *Known*: from a transaction's begin until it may be \
         acknowledged; *flushed*: until its own record is durable; *waiting*: the part of all time until known that came \
         after being flushed. A worker goes on with its next transactions before the earlier ones are known, up to the \
         number in the lines' `outstanding`: so each worker stands for that many clients, and a log that falls behind shows \
         it as latency. `ssd`, `hdd` and `nvm:TIME` are memory with the timing of such a medium.\n",
    );
    for device in devices(lines) {
        let lines: Vec<&Line> = lines.iter().filter(|line| text(line, "device") == device).collect();
        let _ = writeln!(page, "\n## On `{device}`");
        for best in &BEST {
            workload(&mut page, &lines, best);
        }
        device_test(&mut page, &lines);
        long(&mut page, &lines);
        let ours = |plot: &&Plot| plot.title.contains(&format!(" on {device}"));
        for Plot { name, title, .. } in plots.iter().filter(ours) {
            let _ = writeln!(page, "\n![{title}]({name}.svg)");
        }
    }
    page
}

fn workload(page: &mut String, lines: &[&Line], paper: &Best) {
    let of_workload = |line: &&&Line| line.bench == "wal" && text(line, "workload") == paper.workload;
    let lines: Vec<&Line> = lines.iter().filter(of_workload).copied().collect();
    if lines.is_empty() {
        return;
    }
    let _ = write!(
        page,
        "\n### {}: {}\n\n\
         | log | workers | group | transactions | bandwidth | share of device | known p50 | known p99 | flushed p50 | \
         waiting | writes each |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n",
        paper.name, paper.does
    );
    let optional = |value: Option<f64>, unit: Unit| value.map_or_else(String::new, |value| unit.show(value));
    let _ = writeln!(
        page,
        "| *the paper: P-WAL, best* | {} | 16 | {} | {} | {} | {} (mean) | | | {} | |",
        paper.workers,
        Unit::Rate.show(paper.throughput),
        Unit::Bandwidth.show(paper.bandwidth),
        Unit::Share.show(paper.share_of_device),
        optional(paper.latency, Unit::Time),
        optional(paper.share_of_waiting, Unit::Share),
    );
    let cases = cases(&lines);
    for case in &cases {
        let first = case.0[0];
        let _ = writeln!(
            page,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {:.3} |",
            variant(first),
            number(first, "workers"),
            number(first, "group"),
            case.show(Metric::Throughput, Unit::Rate),
            case.show(Metric::Bandwidth, Unit::Bandwidth),
            case.show(Metric::ShareOfDevice, Unit::Share),
            case.show(Metric::LatencyP50, Unit::Time),
            case.show(Metric::LatencyP99, Unit::Time),
            case.show(Metric::UntilFlushedP50, Unit::Time),
            case.show(Metric::ShareOfWaiting, Unit::Share),
            case.median(Metric::Writes).unwrap_or(0.0),
        );
    }
    over_serial(page, &cases, paper);
}

/// The ratio that the paper is about.
fn over_serial(page: &mut String, cases: &[Figures<'_>], paper: &Best) {
    let best = |log: &str| {
        let throughputs = cases.iter().filter(|case| text(case.0[0], "log") == log);
        throughputs.filter_map(|case| case.median(Metric::Throughput)).fold(0.0, f64::max)
    };
    let (parallel, serial) = (best("parallel"), best("serial"));
    if serial <= 0.0 {
        return;
    }
    let _ = write!(
        page,
        "\nThe best of the parallel log is **{:.2} times** the best of the serial one; in the paper {:.1} times",
        parallel / serial,
        paper.over_serial
    );
    if let Some(latency) = paper.latency_over_serial {
        let workers = |case: &Figures<'_>| number(case.0[0], "workers") as u64;
        let most = cases.iter().map(workers).max().unwrap_or(0);
        let median = |name: &str| {
            let case = cases.iter().find(|case| variant(case.0[0]) == name && workers(case) == most);
            case.and_then(|case| case.median(Metric::LatencyP50))
        };
        let of = |name| median(name).zip(median("serial")).map(|(parallel, serial)| parallel / serial);
        let _ = write!(
            page,
            ". Until a commit is known its transactions take {latency:.1} times as long there (mean of 16 threads)"
        );
        if let (Some(watermark), Some(dependencies)) = (of("parallel, watermark"), of("parallel, dependencies")) {
            let _ = write!(
                page,
                "; here, at {most} workers, {watermark:.2} times by the watermark and {dependencies:.2} times by \
                 dependencies (p50)"
            );
        }
    }
    page.push_str(".\n");
}

fn device_test(page: &mut String, lines: &[&Line]) {
    let is_bandwidth = |line: &&&Line| line.bench == "media" && line.metric == Metric::Bandwidth;
    let lines: Vec<&Line> = lines.iter().filter(is_bandwidth).copied().collect();
    if lines.is_empty() {
        return;
    }
    let threads = numbers(&lines, "threads");
    page.push_str("\n### Device test\n\n| write |");
    for threads in &threads {
        let _ = write!(page, " {threads} {} |", if *threads == 1 { "thread" } else { "threads" });
    }
    let _ = writeln!(page, " *the paper, 16 threads* |\n|---:|{}---:|", "---:|".repeat(threads.len()));
    for size in numbers(&lines, "size") {
        let _ = write!(page, "| {} |", Unit::Bytes.show(size as f64));
        for threads in &threads {
            let is = |line: &&&Line| number(line, "size") as u64 == size && number(line, "threads") as u64 == *threads;
            let cell = lines.iter().find(is).map_or_else(String::new, |line| Unit::Bandwidth.show(line.median));
            let _ = write!(page, " {cell} |");
        }
        let paper = DEVICE.iter().find(|(known, _)| *known == size);
        let _ =
            writeln!(page, " {} |", paper.map_or_else(String::new, |(_, bandwidth)| Unit::Bandwidth.show(*bandwidth)));
    }
}

fn long(page: &mut String, lines: &[&Line]) {
    let lines: Vec<&Line> = lines.iter().filter(|line| line.bench == "long").copied().collect();
    if lines.is_empty() {
        return;
    }
    page.push_str(
        "\n### Long writing\n\nIn the paper bandwidth sinks over time without trimming, faster with 8 KiB than with \
         128 KiB, and stays with it.\n\n\
         | write | trimmed | time | bandwidth | least | most | last quarter to first |\n\
         |---:|---|---:|---:|---:|---:|---:|\n",
    );
    for line in lines.iter().filter(|line| line.metric == Metric::Bandwidth) {
        let same = |other: &&&Line| {
            let keys = ["write", "trim", "workers"];
            other.metric == Metric::Ratio && keys.iter().all(|key| other.case.get(*key) == line.case.get(*key))
        };
        let ratio = lines.iter().find(same).map_or_else(String::new, |line| format!("{:.2}", line.median));
        let _ = writeln!(
            page,
            "| {} | {} | {} | {} | {} | {} | {ratio} |",
            Unit::Bytes.show(number(line, "write")),
            if text(line, "trim") == "true" { "yes" } else { "no" },
            Unit::Time.show(line.runs.len() as f64 * number(line, "interval")),
            Unit::Bandwidth.show(line.median),
            Unit::Bandwidth.show(line.min),
            Unit::Bandwidth.show(line.max),
        );
    }
}
