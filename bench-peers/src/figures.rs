//! Figures: what the rounds come to, as lines that programs read and as a table for people.
//!
//! Beside each engine's own figures there are ratios, round by round: Ishigaki against the best rival of that case, and
//! everybody's throughput against both bare loops'. The best rival is the one with the best median throughput, for latency
//! too: behind a lock that is not fair few clients are quick while the others starve, and starving leaves few samples.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use ishigaki_bench::{Case, Line, Metric, Origin};

use crate::contest::{Bout, Rounds};
use crate::engine::{Engine, Side};

/// The workload's name in figures.
const BENCH: &str = "peers";

/// The lines of all bouts: by workload and clients, in the order of the engines.
pub(crate) fn lines(engines: &[Box<dyn Engine>], results: &BTreeMap<Bout, Rounds>, origin: &Origin) -> Vec<Line> {
    let mut lines = Vec::new();
    for (bout, rounds) in results {
        lines.extend(own(engines, *bout, rounds, origin));
        let (workload, clients, _) = *bout;
        let peers = results.range((workload, clients, 0)..=(workload, clients, usize::MAX));
        let peers: Vec<(usize, &Rounds)> = peers.map(|(&(_, _, engine), rounds)| (engine, rounds)).collect();
        lines.extend(ratios(engines, *bout, rounds, &peers, origin));
    }
    lines
}

fn case(engines: &[Box<dyn Engine>], (workload, clients, engine): Bout) -> Case {
    Case::from_iter([
        ("engine".to_owned(), engines[engine].name().into()),
        ("clients".to_owned(), clients.into()),
        ("workload".to_owned(), workload.name().into()),
    ])
}

fn own(engines: &[Box<dyn Engine>], bout: Bout, rounds: &Rounds, origin: &Origin) -> Vec<Line> {
    let mut case = case(engines, bout);
    case.insert("version".to_owned(), engines[bout.2].version().into());
    let line = |metric, runs: &Vec<f64>| Line::new(BENCH, case.clone(), metric, runs.clone(), origin);
    let mut lines = vec![line(Metric::Throughput, &rounds.throughput)];
    let metrics = [Metric::LatencyP50, Metric::LatencyP99, Metric::LatencyP999];
    lines.extend(metrics.into_iter().zip(&rounds.quantiles).map(|(metric, runs)| line(metric, runs)));
    lines
}

fn ratios(
    engines: &[Box<dyn Engine>],
    bout: Bout,
    rounds: &Rounds,
    peers: &[(usize, &Rounds)],
    origin: &Origin,
) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut add = |metric, of: &str, to: usize, ours: &[f64], theirs: &[f64]| {
        let mut case = case(engines, bout);
        case.insert("of".to_owned(), of.into());
        case.insert("to".to_owned(), engines[to].name().into());
        let runs = ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs).collect();
        lines.push(Line::new(BENCH, case, metric, runs, origin));
    };
    let side = |engine: usize| engines[engine].side();
    let rivals = || peers.iter().filter(|(engine, _)| side(*engine) == Side::Rival);
    let best = rivals().max_by(|a, b| median(&a.1.throughput).total_cmp(&median(&b.1.throughput)));
    if let (Side::Ours, Some((best, theirs))) = (side(bout.2), best) {
        add(Metric::Ratio, "throughput", *best, &rounds.throughput, &theirs.throughput);
        for (at, of) in ["latency_p50", "latency_p99", "latency_p999"].into_iter().enumerate() {
            add(Metric::Ratio, of, *best, &rounds.quantiles[at], &theirs.quantiles[at]);
        }
    }
    if side(bout.2) != Side::Bare {
        for (bare, theirs) in peers.iter().filter(|(engine, _)| side(*engine) == Side::Bare) {
            add(Metric::ShareOfDevice, "throughput", *bare, &rounds.throughput, &theirs.throughput);
        }
    }
    lines
}

/// As [`Line`] computes it.
fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        count if count % 2 == 1 => sorted[count / 2],
        count => f64::midpoint(sorted[count / 2 - 1], sorted[count / 2]),
    }
}

/// The figures for a person, in Markdown: a table for each workload and number of clients, the fastest first.
pub(crate) fn table(lines: &[Line]) -> String {
    let mut text = String::new();
    let Some(first) = lines.first() else { return text };
    let _ =
        writeln!(text, "{}, source {}, seed {}, {} rounds", first.machine, first.commit, first.seed, first.runs.len());
    let word = |line: &Line, name: &str| line.case.get(name).map(|value| value.to_string().replace('"', ""));
    let mut groups: Vec<(Option<String>, Option<String>)> = Vec::new();
    for line in lines {
        let group = (word(line, "workload"), word(line, "clients"));
        if !groups.contains(&group) {
            groups.push(group);
        }
    }
    for group in groups {
        let lines: Vec<&Line> =
            lines.iter().filter(|line| (word(line, "workload"), word(line, "clients")) == group).collect();
        let (workload, clients) = (group.0.unwrap_or_default(), group.1.unwrap_or_default());
        let _ = writeln!(text, "\nworkload {workload}, {clients} clients\n");
        let _ = writeln!(text, "| engine | transactions/s | min to max | p50 | p99 | p99.9 | to the best rival |");
        let _ = writeln!(text, "|---|---:|---:|---:|---:|---:|---|");
        let mut rows: Vec<&Line> = lines.iter().copied().filter(|line| line.metric == Metric::Throughput).collect();
        rows.sort_by(|a, b| b.median.total_cmp(&a.median));
        for row in rows {
            let engine = word(row, "engine");
            let of = |metric| {
                let found = lines.iter().find(|line| line.metric == metric && word(line, "engine") == engine);
                found.map_or_else(|| "-".to_owned(), |line| time(line.median))
            };
            let ratio = |of: &str| {
                lines
                    .iter()
                    .find(|line| {
                        line.metric == Metric::Ratio
                            && word(line, "engine") == engine
                            && word(line, "of").as_deref() == Some(of)
                    })
                    .map(|line| {
                        let to = word(line, "to").unwrap_or_default();
                        format!("{:.2} ({:.2} to {:.2}) of {to}'s {of}", line.median, line.min, line.max)
                    })
            };
            let ratios: Vec<String> = ["throughput", "latency_p50"].into_iter().filter_map(ratio).collect();
            let _ = writeln!(
                text,
                "| {} {} | {:.0} | {:.0} to {:.0} | {} | {} | {} | {} |",
                engine.clone().unwrap_or_default(),
                word(row, "version").unwrap_or_default(),
                row.median,
                row.min,
                row.max,
                of(Metric::LatencyP50),
                of(Metric::LatencyP99),
                of(Metric::LatencyP999),
                ratios.join("; "),
            );
        }
    }
    text
}

/// Three digits that matter, or so: `81.2 us`.
fn time(seconds: f64) -> String {
    match seconds {
        small if small < 1e-3 => format!("{:.1} µs", small * 1e6),
        middle if middle < 1.0 => format!("{:.2} ms", middle * 1e3),
        large => format!("{large:.2} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use ishigaki_base::random::Seed;

    use crate::arguments::Arguments;
    use crate::workload::Workload;

    #[test]
    fn the_best_rival_is_the_one_with_the_best_median() {
        let arguments = ["peers", "--data", "x", "--engines", "ishigaki,redb,fjall,one-file"];
        let engines = Arguments::try_parse_from(arguments).unwrap().engines();
        let names: Vec<String> = engines.iter().map(|engine| engine.name()).collect();
        assert_eq!(names, ["ishigaki", "redb", "fjall", "one-file"]);
        // redb has the best single round, fjall the best median; the loop is nobody's rival.
        let throughput = [[200.0, 300.0, 400.0], [90.0, 900.0, 80.0], [100.0, 150.0, 100.0], [800.0, 600.0, 800.0]];
        let results = throughput.into_iter().enumerate().map(|(engine, runs)| {
            let quantiles = [0; 3].map(|_| runs.iter().map(|run| 1.0 / run).collect());
            ((Workload::One, 4, engine), Rounds { throughput: runs.to_vec(), quantiles })
        });
        let origin = Origin { machine: "m".into(), commit: "c".into(), seed: Seed(1) };
        let lines = lines(&engines, &results.collect(), &origin);
        let find = |metric, of: &str, to: &str| {
            let is = |line: &&Line| line.metric == metric && line.case["of"] == of && line.case["to"] == to;
            let found = lines.iter().filter(|line| line.case["engine"] == "ishigaki" && line.case.contains_key("of"));
            found.clone().find(is).map(|line| line.runs.clone())
        };
        assert_eq!(find(Metric::Ratio, "throughput", "fjall"), Some(vec![2.0, 2.0, 4.0]));
        assert_eq!(find(Metric::Ratio, "throughput", "redb"), None);
        assert_eq!(find(Metric::Ratio, "latency_p50", "fjall"), Some(vec![0.5, 0.5, 0.25]));
        assert_eq!(find(Metric::ShareOfDevice, "throughput", "one-file"), Some(vec![0.25, 0.5, 0.5]));
        assert!(table(&lines).contains("2.00 (2.00 to 4.00) of fjall's throughput"));
    }
}
