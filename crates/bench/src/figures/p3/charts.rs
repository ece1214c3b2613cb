//! Which charts the lines of paper 3's experiments give: reads and what of local ones they are, by size, for each number of
//! connections and of reads in flight; the replay by the size of the cache; of each query time, processors and bytes by
//! the size of pages; and its time [over a link](super::apart).

use crate::figures::cases::{file_name, number, numbers, series, text, with};
use crate::figures::chart::{Axis, Chart, Point, Series};
use crate::figures::units::Unit;
use crate::{Line, Metric};

/// Where lines of reads belong: one table and its charts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Load {
    pub(super) connections: u64,
    pub(super) depth: u64,
}

impl Load {
    pub(super) fn all(lines: &[Line]) -> Vec<Self> {
        let reads = of_bench(lines, "remote");
        let depths = |connections| {
            let of: Vec<&Line> =
                reads.iter().filter(|line| number(line, "connections") as u64 == connections).copied().collect();
            numbers(&of, "depth").into_iter().map(move |depth| Self { connections, depth })
        };
        numbers(&reads, "connections").into_iter().flat_map(depths).collect()
    }

    pub(super) fn of(self, lines: &[Line]) -> Vec<&Line> {
        let here = |line: &&Line| {
            number(line, "connections") as u64 == self.connections && number(line, "depth") as u64 == self.depth
        };
        of_bench(lines, "remote").into_iter().filter(here).collect()
    }

    pub(super) fn title(self) -> String {
        let many = if self.connections == 1 { "" } else { "s" };
        format!("{} connection{many}, {} in flight on each", self.connections, self.depth)
    }

    pub(super) fn file(self) -> String {
        file_name(&["p3-reads", &format!("{}c", self.connections), &format!("{}d", self.depth)]) + "-"
    }
}

/// Those of a workload.
pub(super) fn of_bench<'a>(lines: &'a [Line], bench: &str) -> Vec<&'a Line> {
    lines.iter().filter(|line| line.bench == bench).collect()
}

/// Those whose case says so.
pub(super) fn that<'a>(lines: &[&'a Line], key: &str, value: &str) -> Vec<&'a Line> {
    lines.iter().filter(|line| text(line, key) == value).copied().collect()
}

/// The size of pages in bytes, which cases have as a person writes it.
pub(super) fn page_bytes(line: &Line) -> u64 {
    text(line, "page").parse::<ishigaki_base::ByteSize>().map_or(0, |size| size.as_u64())
}

/// Everything that these lines show.
pub(in crate::figures) fn charts(lines: &[Line]) -> Vec<Chart> {
    let mut charts: Vec<Chart> = Load::all(lines).into_iter().flat_map(|load| reads(load, &load.of(lines))).collect();
    charts.extend(replay(&of_bench(lines, "replay")));
    let queries = of_bench(lines, "tpch");
    charts.extend(numbers(&queries, "query").into_iter().flat_map(|query| of_query(query, &queries)));
    charts.extend(super::apart::charts(lines));
    charts
}

fn reads(load: Load, lines: &[&Line]) -> [Chart; 2] {
    let chart = |word: &str, label, unit, series| Chart {
        name: load.file() + word,
        title: format!("{}: {word}", load.title()),
        x: Axis { label: "bytes of a read", unit: Unit::Bytes },
        y: Axis { label, unit },
        steps: true,
        series,
    };
    let side = |line: &Line| [text(line, "target"), text(line, "io")].join(" ").trim().to_owned();
    let throughput = series(&with(lines, Metric::Throughput), side, "size").into_iter().map(styled).collect();
    let ratios: Vec<&Line> = that(&with(lines, Metric::Ratio), "of", "throughput");
    let ratios = series(&ratios, |line| text(line, "io"), "size");
    [
        chart("throughput", "reads", Unit::Rate, throughput),
        chart("share", "remote reads over local ones", Unit::Share, ratios),
    ]
}

/// A colour for each way of I/O; dashed where the network is alone.
fn styled(series: Series) -> Series {
    let colour = ["local", "dynamic", "static", "ring"].iter().position(|word| series.name.ends_with(word));
    Series { colour: colour.unwrap_or(0), dashed: series.name.starts_with("network"), ..series }
}

fn replay(lines: &[&Line]) -> [Chart; 2] {
    let chart = |word: &str, label, unit, series| Chart {
        name: file_name(&["p3-replay", word]),
        title: format!("a query's reads again: {word}"),
        x: Axis { label: "cache, in percent of all pages that are read", unit: Unit::Count },
        y: Axis { label, unit },
        steps: true,
        series,
    };
    let cached: Vec<&Line> = lines.iter().filter(|line| number(line, "share") > 0.0).copied().collect();
    let mut times = series(&with(&cached, Metric::LatencyP50), |line| text(line, "target"), "share");
    let shares = numbers(&cached, "share");
    for (colour, target) in [(1, "remote"), (2, "local")] {
        let flat = with(&that(lines, "target", target), Metric::LatencyP50);
        let Some(line) = flat.first().filter(|_| !shares.is_empty()) else { continue };
        let point = |share: &u64| Point { x: *share as f64, y: line.median, low: line.min, high: line.max };
        let points = shares.iter().map(point).collect();
        times.push(Series { name: target.to_owned(), points, colour, dashed: true });
    }
    let hits = series(&with(&cached, Metric::HitRatio), |line| text(line, "target"), "share");
    [chart("time", "time", Unit::Time, times), chart("hits", "pages that the cache had", Unit::Share, hits)]
}

fn of_query(query: u64, lines: &[&Line]) -> [Chart; 3] {
    let own: Vec<&Line> = lines.iter().filter(|line| number(line, "query") as u64 == query).copied().collect();
    let chart = |word: &str, label, unit, series| Chart {
        name: file_name(&["p3", &format!("q{query}"), word]),
        title: format!("query {query}: {word}"),
        x: Axis { label: "bytes of a page", unit: Unit::Bytes },
        y: Axis { label, unit },
        steps: true,
        series,
    };
    let by_placement = |metric| by_page(&with(&own, metric), |line| text(line, "placement"));
    let processors =
        by_page(&with(&own, Metric::Processor), |line| format!("{}, {}", text(line, "placement"), text(line, "side")));
    [
        chart("time", "time", Unit::Time, by_placement(Metric::LatencyP50).into_iter().map(placed).collect()),
        chart("processors", "processor time", Unit::Time, processors.into_iter().map(placed).collect()),
        chart(
            "bytes",
            "over the network",
            Unit::Bytes,
            by_placement(Metric::BytesReceived).into_iter().map(placed).collect(),
        ),
    ]
}

/// A colour for each placement; dashed where it is the node's.
fn placed(series: Series) -> Series {
    let colour = ["local", "fetch", "push", "auto"].iter().position(|word| series.name.starts_with(word));
    Series { colour: colour.unwrap_or(0), dashed: series.name.ends_with("node"), ..series }
}

/// Series over the size of pages, which is a text in cases.
fn by_page(lines: &[&Line], key: impl Fn(&Line) -> String) -> Vec<Series> {
    let numbered = |line: &&Line| {
        let mut line = Line::clone(line);
        line.case.insert("page_bytes".to_owned(), page_bytes(&line).into());
        line
    };
    let numbered: Vec<Line> = lines.iter().map(numbered).collect();
    series(&numbered.iter().collect::<Vec<_>>(), key, "page_bytes")
}
