//! Which charts the lines of paper 4's experiments give: for each disk and kind of server the time by servers (their figures 5
//! and 6), and what it is of the separate logs', by servers and by the size of a transaction (their figures 7 and 8).

use crate::figures::cases::{file_name, number, numbers, series, text, texts, with};
use crate::figures::chart::{Axis, Chart, Series};
use crate::figures::units::Unit;
use crate::{Line, Metric};

/// What one log's time is of the separate logs'.
pub(super) const OF_SEPARATE: &str = "elapsed over separate";

/// Where lines belong: one table and its charts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Setup {
    pub(super) device: String,
    pub(super) server: String,
}

impl Setup {
    /// All that these lines have, in their order.
    pub(super) fn all(lines: &[Line]) -> Vec<Self> {
        let inserts = of_bench(lines, "inserts");
        let servers = |device: String| {
            let on: Vec<&Line> = inserts.iter().filter(|line| text(line, "device") == device).copied().collect();
            texts(on, "server").into_iter().map(move |server| Self { device: device.clone(), server })
        };
        texts(inserts.iter().copied(), "device").into_iter().flat_map(servers).collect()
    }

    pub(super) fn of<'a>(&self, lines: &'a [Line]) -> Vec<&'a Line> {
        let here = |line: &&Line| text(line, "device") == self.device && text(line, "server") == self.server;
        of_bench(lines, "inserts").into_iter().filter(here).collect()
    }

    pub(super) fn title(&self) -> String {
        format!("{} on {}", self.server, self.device)
    }

    /// What the files of its charts begin with.
    pub(super) fn file(&self) -> String {
        file_name(&["p4", &self.server, self.device.trim_matches('/')]) + "-"
    }
}

/// Those of a workload.
pub(super) fn of_bench<'a>(lines: &'a [Line], bench: &str) -> Vec<&'a Line> {
    lines.iter().filter(|line| line.bench == bench).collect()
}

/// Those whose case has this number.
pub(super) fn at<'a>(lines: &[&'a Line], key: &str, value: u64) -> Vec<&'a Line> {
    lines.iter().filter(|line| number(line, key) as u64 == value).copied().collect()
}

/// Ratios of a kind.
pub(super) fn ratios<'a>(lines: &[&'a Line], of: &str) -> Vec<&'a Line> {
    with(lines, Metric::Ratio).into_iter().filter(|line| text(line, "of") == of).collect()
}

/// The size that all numbers of servers have: the smallest.
pub(super) fn smallest(lines: &[&Line]) -> u64 {
    numbers(lines, "integers").first().copied().unwrap_or(0)
}

/// Everything that these lines show.
pub(in crate::figures) fn charts(lines: &[Line]) -> Vec<Chart> {
    Setup::all(lines).iter().flat_map(|setup| of(setup, &setup.of(lines))).collect()
}

fn of(setup: &Setup, lines: &[&Line]) -> Vec<Chart> {
    let small = at(lines, "integers", smallest(lines));
    let chart = |word: &str, over: &str, x: &'static str, label: &'static str, unit, lines: &[&Line], key| Chart {
        name: setup.file() + word,
        title: format!("{}: {over}", setup.title()),
        x: Axis { label: x, unit: Unit::Count },
        y: Axis { label, unit },
        steps: true,
        series: series(lines, |line| text(line, "side"), key).into_iter().map(styled).collect(),
    };
    let mut charts = vec![
        chart(
            "time",
            "time by servers",
            "servers",
            "until all is committed",
            Unit::Time,
            &with(&small, Metric::Elapsed),
            "servers",
        ),
        chart(
            "share",
            "one log's time over the separate logs'",
            "servers",
            "time over separate",
            Unit::Share,
            &ratios(&small, OF_SEPARATE),
            "servers",
        ),
    ];
    if numbers(lines, "integers").len() > 1 {
        let most = numbers(lines, "servers").last().copied().unwrap_or(0);
        charts.push(chart(
            "sizes",
            &format!("one log's time over the separate logs' by size, {most} servers"),
            "integers of a transaction",
            "time over separate",
            Unit::Share,
            &ratios(&at(lines, "servers", most), OF_SEPARATE),
            "integers",
        ));
    }
    charts
}

/// A colour for each side; dashed where logs are separate.
fn styled(series: Series) -> Series {
    let sides = ["separate", "sleep", "poll", "delay", "poll+delay", "auto"];
    let colour = sides.iter().position(|side| series.name == *side).unwrap_or(0);
    Series { colour, dashed: series.name == "separate", ..series }
}
