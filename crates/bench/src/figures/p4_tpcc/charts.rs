//! Which charts these lines give: for each disk and kind of server, how many transactions commit by servers (their figures 9 and
//! 10).

use crate::figures::cases::{file_name, series, text, texts, with};
use crate::figures::chart::{Axis, Chart, Series};
use crate::figures::units::Unit;
use crate::{Line, Metric};

/// What one log's throughput is of the separate logs'.
pub(super) const OF_SEPARATE: &str = "throughput over separate";

/// Where lines of TPC-C belong: one table and one chart.
pub(super) struct Setup {
    pub(super) device: String,
    pub(super) server: String,
    pub(super) data: String,
}

impl Setup {
    /// All that these lines have, in their order.
    pub(super) fn all(lines: &[Line]) -> Vec<Self> {
        let mut setups: Vec<Self> = Vec::new();
        for line in tpcc(lines) {
            let [device, server, data] = ["device", "server", "data"].map(|key| text(line, key));
            if !setups.iter().any(|known| (&known.device, &known.server, &known.data) == (&device, &server, &data)) {
                setups.push(Self { device, server, data });
            }
        }
        setups
    }

    pub(super) fn of<'a>(&self, lines: &'a [Line]) -> Vec<&'a Line> {
        let here = |line: &&Line| {
            text(line, "device") == self.device
                && text(line, "server") == self.server
                && text(line, "data") == self.data
        };
        tpcc(lines).into_iter().filter(here).collect()
    }

    pub(super) fn title(&self) -> String {
        let place = if self.data == "memory" { "" } else { ", with data on the disk" };
        format!("{} on {}{place}", self.server, self.device)
    }

    /// Its chart's file.
    pub(super) fn file(&self) -> String {
        file_name(&["p4-tpcc", &self.server, self.device.trim_matches('/'), &self.data])
    }
}

fn tpcc(lines: &[Line]) -> Vec<&Line> {
    lines.iter().filter(|line| line.bench == crate::tpcc::sql::NAME).collect()
}

/// Everything that these lines show.
pub(in crate::figures) fn charts(lines: &[Line]) -> Vec<Chart> {
    Setup::all(lines).iter().map(|setup| of(setup, &setup.of(lines))).collect()
}

fn of(setup: &Setup, lines: &[&Line]) -> Chart {
    let all = with(lines, Metric::Throughput).into_iter().filter(|line| text(line, "transaction") == "all");
    let all: Vec<&Line> = all.collect();
    let sides = texts(all.iter().copied(), "side");
    let styled = |series: Series| {
        let colour = sides.iter().position(|side| *side == series.name).unwrap_or(0);
        Series { colour, dashed: series.name == "separate", ..series }
    };
    Chart {
        name: setup.file(),
        title: format!("{}: TPC-C by servers", setup.title()),
        x: Axis { label: "servers", unit: Unit::Count },
        y: Axis { label: "commits, all servers", unit: Unit::Rate },
        steps: true,
        series: series(&all, |line| text(line, "side"), "servers").into_iter().map(styled).collect(),
    }
}
