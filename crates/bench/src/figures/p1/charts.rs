//! Which charts the lines of paper 1's experiments give.
//!
//! Each medium has its own: the device test (their figure 3), throughput of U-1, U-10 and New-Order (7, 9 and 11),
//! bandwidth (8, 10 and 12), its share of the device's, latency in its two parts (13 and 14), and long writing (15).

use serde_json::Value;

use super::paper::{BEST, Best};
use crate::figures::cases::{file_name, number, numbers, series, text, texts, with};
use crate::figures::chart::{Axis, Chart, Point, Series};
use crate::figures::units::Unit;
use crate::{Line, Metric};

/// The media of these lines, in the order of their names.
pub(super) fn devices(lines: &[Line]) -> Vec<String> {
    let mut devices = texts(lines, "device");
    devices.sort();
    devices
}

/// A log by its names in the case: `parallel, watermark`.
pub(super) fn variant(line: &Line) -> String {
    let (log, commit) = (text(line, "log"), text(line, "commit"));
    // Of the others each acknowledges by one rule only.
    if log == "parallel" { format!("{log}, {commit}") } else { log }
}

/// Everything that these lines show.
pub(in crate::figures) fn charts(lines: &[Line]) -> Vec<Chart> {
    let mut charts = Vec::new();
    for device in devices(lines) {
        let lines: Vec<&Line> = lines.iter().filter(|line| text(line, "device") == device).collect();
        charts.extend(device_test(&lines, &device));
        for Best { workload, name, .. } in BEST {
            let of_workload = |line: &&&Line| line.bench == "wal" && text(line, "workload") == workload;
            let lines: Vec<&Line> = lines.iter().filter(of_workload).copied().collect();
            charts.extend(workers(&lines, &device, workload, name));
            charts.extend(latency(&lines, &device, workload, name));
        }
        charts.extend(long(&lines, &device));
    }
    charts
}

fn device_test(lines: &[&Line], device: &str) -> Option<Chart> {
    let lines: Vec<&Line> = lines.iter().filter(|line| line.bench == "media").copied().collect();
    let lines = with(&lines, Metric::Bandwidth);
    let threads = |line: &Line| match number(line, "threads") {
        1.0 => "1 thread".to_owned(),
        threads => format!("{threads} threads"),
    };
    (!lines.is_empty()).then(|| Chart {
        name: file_name(&["p1", "device", device]),
        title: format!("Device test on {device}"),
        x: Axis { label: "bytes of a synchronous write", unit: Unit::Bytes },
        y: Axis { label: "bandwidth", unit: Unit::Bandwidth },
        steps: true,
        series: series(&lines, threads, "size"),
    })
}

/// Throughput, bandwidth and its share, by workers.
fn workers(lines: &[&Line], device: &str, workload: &str, title: &str) -> Vec<Chart> {
    let charts = [
        (Metric::Throughput, "throughput", "transactions acknowledged", Unit::Rate),
        (Metric::Bandwidth, "bandwidth", "bandwidth of the log", Unit::Bandwidth),
        (Metric::ShareOfDevice, "share", "share of the bare device's bandwidth", Unit::Share),
    ];
    let chart = |(metric, word, label, unit)| {
        let lines = with(lines, metric);
        (!lines.is_empty()).then(|| Chart {
            name: file_name(&["p1", workload, word, device]),
            title: format!("{title} on {device}: {word}"),
            x: Axis { label: "workers", unit: Unit::Count },
            y: Axis { label, unit },
            steps: true,
            series: series(&lines, variant, "workers"),
        })
    };
    charts.into_iter().filter_map(chart).collect()
}

/// Until known in full lines, until flushed in dashed ones of the same colour. Epochs are left out: beside their tens of
/// milliseconds nothing else can be told apart; the page has them.
fn latency(lines: &[&Line], device: &str, workload: &str, title: &str) -> Option<Chart> {
    let lines: Vec<&Line> = lines.iter().filter(|line| text(line, "log") != "epoch").copied().collect();
    let known = series(&with(&lines, Metric::LatencyP50), variant, "workers");
    let flushed = series(&with(&lines, Metric::UntilFlushedP50), variant, "workers");
    let named = |series: Vec<Series>, part: &str, dashed| {
        series.into_iter().map(move |one| Series { name: format!("{}: {part}", one.name), dashed, ..one }).collect()
    };
    let (known, flushed): (Vec<Series>, Vec<Series>) = (named(known, "known", false), named(flushed, "flushed", true));
    (!known.is_empty()).then(|| Chart {
        name: file_name(&["p1", workload, "latency", device]),
        title: format!("{title} on {device}: until flushed and until known, p50"),
        x: Axis { label: "workers", unit: Unit::Count },
        y: Axis { label: "from begin", unit: Unit::Time },
        steps: true,
        series: known.into_iter().zip(flushed).flat_map(|(known, flushed)| [known, flushed]).collect(),
    })
}

fn long(lines: &[&Line], device: &str) -> Option<Chart> {
    let lines: Vec<&Line> = lines.iter().filter(|line| line.bench == "long").copied().collect();
    let lines = with(&lines, Metric::Bandwidth);
    let sizes = numbers(&lines, "write");
    let series = |line: &&Line| {
        let trim = line.case.get("trim").and_then(Value::as_bool).unwrap_or(false);
        let (size, interval) = (number(line, "write"), number(line, "interval"));
        let word = if trim { "trimmed" } else { "not trimmed" };
        let point = |(at, &y): (usize, &f64)| Point { x: (at + 1) as f64 * interval, y, low: y, high: y };
        Series {
            name: format!("{}, {word}", Unit::Bytes.show(size)),
            points: line.runs.iter().enumerate().map(point).collect(),
            colour: sizes.iter().position(|known| *known == size as u64).unwrap_or(0),
            dashed: !trim,
        }
    };
    (!lines.is_empty()).then(|| Chart {
        name: file_name(&["p1", "long", device]),
        title: format!("Long writing on {device}"),
        x: Axis { label: "time", unit: Unit::Time },
        y: Axis { label: "bandwidth", unit: Unit::Bandwidth },
        steps: false,
        series: lines.iter().map(series).collect(),
    })
}
