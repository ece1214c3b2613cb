//! Which charts the lines of paper 2's experiments give: throughput (their figures 3 to 5), aborts and latency by workers,
//! for each medium, mix and number of warehouses.

use crate::figures::cases::{file_name, number, numbers, series, text, texts, with};
use crate::figures::chart::{Axis, Chart, Series};
use crate::figures::units::Unit;
use crate::{Line, Metric};

/// Where lines belong: one table and its charts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Setup {
    pub(super) device: String,
    pub(super) mix: String,
    pub(super) warehouses: u64,
}

impl Setup {
    /// All that these lines have: media and mixes in their order, each with its warehouses from the fewest on.
    pub(super) fn all(lines: &[Line]) -> Vec<Self> {
        let mut all = Vec::new();
        for device in texts(lines, "device") {
            let on: Vec<&Line> = lines.iter().filter(|line| text(line, "device") == device).collect();
            for mix in texts(on.iter().copied(), "mix") {
                let of_mix: Vec<&Line> = on.iter().filter(|line| text(line, "mix") == mix).copied().collect();
                let setup = |warehouses| Self { device: device.clone(), mix: mix.clone(), warehouses };
                all.extend(numbers(&of_mix, "warehouses").into_iter().map(setup));
            }
        }
        all
    }

    /// Its lines of all types of transactions and all reasons together.
    pub(super) fn of<'a>(&self, lines: &'a [Line]) -> Vec<&'a Line> {
        let here = |line: &&Line| {
            text(line, "device") == self.device
                && text(line, "mix") == self.mix
                && number(line, "warehouses") as u64 == self.warehouses
                && [text(line, "type"), text(line, "reason")].contains(&"all".to_owned())
        };
        lines.iter().filter(here).collect()
    }

    /// For example `new-order, 4 warehouses, on nvm:5us`.
    pub(super) fn title(&self) -> String {
        let many = if self.warehouses == 1 { "" } else { "s" };
        format!("{}, {} warehouse{many}, on {}", self.mix, self.warehouses, self.device)
    }

    /// What the files of its charts begin with.
    pub(super) fn file(&self) -> String {
        file_name(&["p2", &self.mix, &format!("{}w", self.warehouses), &self.device]) + "-"
    }
}

/// A variant: `early, group 16`.
pub(super) fn variant(line: &Line) -> String {
    match number(line, "group") as u64 {
        1 => format!("{}, no group", text(line, "release")),
        group => format!("{}, group {group}", text(line, "release")),
    }
}

/// Everything that these lines show.
pub(in crate::figures) fn charts(lines: &[Line]) -> Vec<Chart> {
    Setup::all(lines).iter().flat_map(|setup| of(setup, &setup.of(lines))).collect()
}

fn of(setup: &Setup, lines: &[&Line]) -> [Chart; 3] {
    let parts = [
        (Metric::Throughput, "throughput", "transactions acknowledged", Unit::Rate),
        (Metric::Aborts, "aborts", "attempts repeated for each commit", Unit::Count),
        (Metric::LatencyP50, "latency", "until acknowledged, p50", Unit::Time),
    ];
    parts.map(|(metric, word, label, unit)| Chart {
        name: setup.file() + word,
        title: format!("{}: {word}", setup.title()),
        x: Axis { label: "workers", unit: Unit::Count },
        y: Axis { label, unit },
        steps: true,
        series: series(&with(lines, metric), variant, "workers").into_iter().map(styled).collect(),
    })
}

/// A colour for each release; dashed without groups.
fn styled(series: Series) -> Series {
    let early = series.name.starts_with("early");
    Series { colour: usize::from(early), dashed: series.name.ends_with("no group"), ..series }
}
