//! `media`: what the bare device takes (P1.11): synchronous appends by several threads, in several sizes.
//!
//! [`ishigaki_device::probe`] measures; this gives its report the form of figures.

use std::ops::ControlFlow;

use ishigaki_device::{ProbeCase, ProbeReport, ProbeRun, ProbeSettings, probe};

use crate::{Case, Line, Metric, Origin, Progress, Result, Target};

/// The workload's name in figures.
const NAME: &str = "media";

type Figure = fn(&ProbeRun) -> f64;

const FIGURES: [(Metric, Figure); 4] = [
    (Metric::Throughput, |run| run.throughput),
    (Metric::Bandwidth, |run| run.bandwidth),
    (Metric::LatencyP50, |run| run.latency_p50.as_secs_f64()),
    (Metric::LatencyP99, |run| run.latency_p99.as_secs_f64()),
];

/// Measures every count of threads with every size.
pub fn run(
    settings: &ProbeSettings,
    target: &Target,
    origin: &Origin,
    progress: &mut dyn Progress,
) -> Result<Vec<Line>> {
    let report = probe(target.directory().as_ref(), settings, &mut |step| {
        progress.step(&format!("{} threads of {}", step.threads, step.size), step.done, step.of);
        ControlFlow::Continue(())
    })?;
    Ok(lines(&report, target.name(), origin))
}

/// A figure for each case and metric; `device` is what figures call the medium.
pub fn lines(report: &ProbeReport, device: &str, origin: &Origin) -> Vec<Line> {
    let of_case = |case: &ProbeCase| {
        let distinguishing = distinguishing(report, case, device);
        let line = |(metric, figure): (Metric, Figure)| {
            Line::new(NAME, distinguishing.clone(), metric, case.runs.iter().map(figure).collect(), origin)
        };
        FIGURES.map(line)
    };
    report.cases.iter().flat_map(of_case).collect()
}

fn distinguishing(report: &ProbeReport, case: &ProbeCase, device: &str) -> Case {
    let promise = report.promise;
    Case::from_iter([
        ("threads".to_owned(), case.threads.into()),
        ("size".to_owned(), case.size.as_u64().into()),
        ("device".to_owned(), device.into()),
        ("direct".to_owned(), promise.direct.into()),
        ("trim".to_owned(), promise.trim.into()),
        ("block_size".to_owned(), promise.block_size.into()),
        ("atomic_write".to_owned(), promise.atomic_write.into()),
        ("writes_through".to_owned(), report.writes_through.into()),
    ])
}
