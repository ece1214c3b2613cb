//! Lines for programs and a table for people.

use std::fmt::Write as _;

use ishigaki_base::ByteSize;

use super::{Figures, Load, NAME, Settings, Side, Way};
use crate::{Case, Line, Metric, Rounds, columns};

/// What figures call a side.
pub(super) fn name(side: &Side) -> &'static str {
    match side {
        Side::Local => "local",
        Side::Network(_) => "network",
        Side::Remote(_) => "remote",
    }
}

/// The figures of a case: of each side, and of each node the ratio of remote reads to local ones.
pub(super) fn lines(figures: &Figures, settings: &Settings) -> Vec<Line> {
    let (load, origin) = (figures.load, &settings.origin);
    let local = figures.sides.iter().find(|(side, _)| *side == Side::Local).map(|(_, rounds)| rounds);
    let mut lines = Vec::new();
    for (side, rounds) in &figures.sides {
        let case = case(load, settings, name(side), side);
        lines.extend(rounds.lines(NAME, &case, origin));
        let bytes = rounds.throughput.iter().map(|reads| reads * load.size as f64).collect();
        lines.push(Line::new(NAME, case, Metric::Bandwidth, bytes, origin));
        if let (Side::Remote(_), Some(local)) = (side, local) {
            lines.push(ratio(load, settings, side, "throughput", (rounds, local), |of| &of.throughput));
            lines.push(ratio(load, settings, side, "latency_p50", (rounds, local), |of| &of.quantiles[0]));
        }
    }
    lines
}

fn ratio(
    load: Load,
    settings: &Settings,
    side: &Side,
    of: &str,
    (remote, local): (&Rounds, &Rounds),
    values: impl Fn(&Rounds) -> &Vec<f64>,
) -> Line {
    let mut case = case(load, settings, "remote/local", side);
    case.insert("of".to_owned(), of.into());
    let runs = values(remote).iter().zip(values(local)).map(|(remote, local)| remote / local).collect();
    Line::new(NAME, case, Metric::Ratio, runs, &settings.origin)
}

fn case(load: Load, settings: &Settings, target: &str, side: &Side) -> Case {
    let mut case = Case::from_iter([
        ("size".to_owned(), load.size.into()),
        ("connections".to_owned(), load.connections.into()),
        ("depth".to_owned(), load.depth.into()),
        ("target".to_owned(), target.into()),
        ("device".to_owned(), settings.data.display().to_string().into()),
    ]);
    if let Side::Network(Way { mode, fabric }) | Side::Remote(Way { mode, fabric }) = side {
        case.insert("io".to_owned(), mode.to_string().into());
        case.insert("fabric".to_owned(), fabric.to_string().into());
    }
    case
}

/// A row for each case and way of I/O: reads in a second on each side, how many of the local ones the remote ones are, and
/// how long half of the reads took.
pub fn table(lines: &[Line]) -> String {
    let mut text = String::new();
    let Some(first) = lines.first() else { return text };
    let device = first.case.get("device").and_then(|device| device.as_str()).unwrap_or_default();
    let _ = writeln!(text, "{device} on {}, source {}, seed {}", first.machine, first.commit, first.seed);
    let heads = [
        "size",
        "conn",
        "depth",
        "io",
        "fabric",
        "local/s",
        "network/s",
        "remote/s",
        "remote/local",
        "spread",
        "local p50",
        "remote p50",
    ];
    let mut rows = vec![heads.map(str::to_owned)];
    rows.extend(lines.iter().filter(|line| of(line, "remote/local", "throughput")).map(|ratio| row(lines, ratio)));
    text + &columns(&rows, &[])
}

fn of(line: &Line, target: &str, of: &str) -> bool {
    line.case.get("target").is_some_and(|is| is == target) && line.case.get("of").is_some_and(|is| is == of)
}

fn row(lines: &[Line], ratio: &Line) -> [String; 12] {
    let word = |name: &str| ratio.case.get(name).and_then(|word| word.as_str()).unwrap_or_default().to_owned();
    let number = |name: &str| ratio.case.get(name).and_then(serde_json::Value::as_u64).unwrap_or(0);
    let figure = |target: &str, metric: Metric| {
        let same = |line: &&Line| {
            line.metric == metric
                && line.case.get("target").is_some_and(|is| is == target)
                && ["size", "connections", "depth"].iter().all(|name| line.case.get(*name) == ratio.case.get(*name))
                && (target == "local"
                    || ["io", "fabric"].iter().all(|name| line.case.get(*name) == ratio.case.get(*name)))
        };
        lines.iter().find(same).map_or(0.0, |line| line.median)
    };
    let reads = |target| format!("{:.0}", figure(target, Metric::Throughput));
    let micros = |target| format!("{:.0} us", figure(target, Metric::LatencyP50) * 1e6);
    [
        ByteSize(number("size")).to_string(),
        number("connections").to_string(),
        number("depth").to_string(),
        word("io"),
        word("fabric"),
        reads("local"),
        reads("network"),
        reads("remote"),
        format!("{:.2}", ratio.median),
        format!("{:.2}-{:.2}", ratio.min, ratio.max),
        micros("local"),
        micros("remote"),
    ]
}

#[cfg(test)]
mod tests {
    use ishigaki_base::random::Seed;
    use ishigaki_fabric::Fabric;
    use ishigaki_remote::Mode;

    use super::*;
    use crate::Origin;

    #[test]
    fn a_ratio_is_that_of_the_same_round_and_stands_in_its_row() {
        let rounds = |throughput: &[f64], p50: &[f64]| Rounds {
            throughput: throughput.to_vec(),
            quantiles: [p50.to_vec(), p50.to_vec(), p50.to_vec()],
        };
        let way = || Way { mode: Mode::Ring, fabric: Fabric::Tcp };
        let sides = vec![
            (Side::Local, rounds(&[100.0, 1000.0, 200.0], &[1e-4, 1e-4, 1e-4])),
            (Side::Network(way()), rounds(&[400.0; 3], &[1e-5; 3])),
            (Side::Remote(way()), rounds(&[50.0, 900.0, 180.0], &[2e-4, 2e-4, 2e-4])),
        ];
        let origin = Origin { machine: "a machine".into(), commit: "abc".into(), seed: Seed(7) };
        let settings = Settings::new("/srv/data", "ishigaki", origin);
        let lines = lines(&Figures { load: Load { size: 4096, connections: 1, depth: 64 }, sides }, &settings);
        let ratio = lines.iter().find(|line| of(line, "remote/local", "throughput")).expect("a ratio");
        assert_eq!((ratio.runs.as_slice(), ratio.median), ([0.5, 0.9, 0.9].as_slice(), 0.9));
        let text = table(&lines);
        let row: Vec<_> = text.lines().nth(2).expect("a row").split_whitespace().collect();
        assert_eq!(row[2..10], ["1", "64", "ring", "tcp", "200", "400", "180", "0.90"], "{text}");
        assert_eq!(row[10..], ["0.50-0.90", "100", "us", "200", "us"], "{text}");
    }
}
