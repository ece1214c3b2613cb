//! Figures: what the rounds come to, as lines that programs read; [`page`] shows them to people.
//!
//! Beside each engine's own figures there are ratios, round by round: Ishigaki against the best rival of that case, and
//! everybody's throughput against both bare loops'. The best rival is the one with the best median throughput, for latency
//! too: behind a lock that is not fair few clients are quick while the others starve, and starving leaves few samples.

mod page;

use std::collections::BTreeMap;

use ishigaki_bench::{Case, Line, Metric, Origin, Rounds, median};

use crate::contest::Bout;
use crate::engine::{Engine, Side};
use crate::syncs::{Calls, Kind};

pub(crate) use page::{insert, tables};

/// The workload's name in figures.
const BENCH: &str = "peers";

/// What Ishigaki's ratios to the best rival are of.
const RATIOS: [&str; 4] = ["throughput", "latency_p50", "latency_p99", "latency_p999"];

/// The lines of all bouts: by workload and clients, in the order of the engines.
pub(crate) fn lines(engines: &[Box<dyn Engine>], results: &BTreeMap<Bout, Rounds>, origin: &Origin) -> Vec<Line> {
    let mut lines = Vec::new();
    for (bout, rounds) in results {
        lines.extend(rounds.lines(BENCH, &own(engines, *bout), origin));
        let (workload, clients, _) = *bout;
        let peers = results.range((workload, clients, 0)..=(workload, clients, usize::MAX));
        let peers: Vec<(usize, &Rounds)> = peers.map(|(&(_, _, engine), rounds)| (engine, rounds)).collect();
        lines.extend(ratios(engines, *bout, rounds, &peers, origin));
    }
    lines
}

/// The lines of one traced run: the calls of each kind that a transaction took, and the bytes that it wrote. The case says
/// how many transactions there were.
pub(crate) fn calls(
    engines: &[Box<dyn Engine>],
    bout: Bout,
    transactions: u64,
    calls: &Calls,
    origin: &Origin,
) -> Vec<Line> {
    let mut case = own(engines, bout);
    case.insert("transactions".to_owned(), transactions.into());
    let line =
        |case, metric, count: u64| Line::new(BENCH, case, metric, vec![count as f64 / transactions as f64], origin);
    let of_kind = |kind: Kind| {
        let mut case = case.clone();
        case.insert("call".to_owned(), kind.name().into());
        case.insert("durable".to_owned(), kind.makes_durable().into());
        line(case, Metric::Calls, calls.of(kind))
    };
    let mut lines: Vec<Line> = Kind::ALL.map(of_kind).into();
    lines.push(line(case, Metric::BytesWritten, calls.bytes));
    lines
}

fn case(engines: &[Box<dyn Engine>], (workload, clients, engine): Bout) -> Case {
    Case::from_iter([
        ("engine".to_owned(), engines[engine].name().into()),
        ("clients".to_owned(), clients.into()),
        ("workload".to_owned(), workload.name().into()),
    ])
}

fn own(engines: &[Box<dyn Engine>], bout: Bout) -> Case {
    let mut case = case(engines, bout);
    case.insert("version".to_owned(), engines[bout.2].version().into());
    case
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
        let values = |rounds: &Rounds| [&rounds.throughput].into_iter().chain(&rounds.quantiles).cloned().collect();
        let (ours, theirs): (Vec<Vec<f64>>, Vec<Vec<f64>>) = (values(rounds), values(theirs));
        for (of, (ours, theirs)) in RATIOS.into_iter().zip(ours.iter().zip(&theirs)) {
            add(Metric::Ratio, of, *best, ours, theirs);
        }
    }
    if side(bout.2) != Side::Bare {
        for (bare, theirs) in peers.iter().filter(|(engine, _)| side(*engine) == Side::Bare) {
            add(Metric::ShareOfDevice, "throughput", *bare, &rounds.throughput, &theirs.throughput);
        }
    }
    lines
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
        let arguments = ["--engines", "ishigaki,ishigaki-tasks,redb,fjall,one-file", "--ishigaki", "default"];
        let arguments = ["peers", "--data", "x"].iter().chain(&arguments);
        let engines = Arguments::try_parse_from(arguments).unwrap().engines();
        let names: Vec<String> = engines.iter().map(|engine| engine.name()).collect();
        assert_eq!(names, ["ishigaki", "ishigaki (tasks)", "redb", "fjall", "one-file"]);
        // redb has the best single round, fjall the best median; the loop is nobody's rival, and neither are tasks.
        let throughput = [
            [200.0, 300.0, 400.0],
            [900.0, 600.0, 400.0],
            [90.0, 900.0, 80.0],
            [100.0, 150.0, 100.0],
            [800.0, 600.0, 800.0],
        ];
        let results = throughput.into_iter().enumerate().map(|(engine, runs)| {
            let quantiles = [0; 3].map(|_| runs.iter().map(|run| 1.0 / run).collect());
            ((Workload::One, 16, engine), Rounds { throughput: runs.to_vec(), quantiles })
        });
        let origin = Origin { machine: "m".into(), commit: "c".into(), seed: Seed(1) };
        let lines = lines(&engines, &results.collect(), &origin);
        let find = |engine: &str, metric, of: &str, to: &str| {
            let is = |line: &&Line| line.metric == metric && line.case["of"] == of && line.case["to"] == to;
            let mut found = lines.iter().filter(|line| line.case["engine"] == engine && line.case.contains_key("of"));
            found.find(is).map(|line| line.runs.clone())
        };
        assert_eq!(find("ishigaki", Metric::Ratio, "throughput", "fjall"), Some(vec![2.0, 2.0, 4.0]));
        assert_eq!(find("ishigaki", Metric::Ratio, "throughput", "redb"), None);
        assert_eq!(find("ishigaki", Metric::Ratio, "latency_p50", "fjall"), Some(vec![0.5, 0.5, 0.25]));
        assert_eq!(find("ishigaki", Metric::ShareOfDevice, "throughput", "one-file"), Some(vec![0.25, 0.5, 0.5]));
        assert_eq!(find("ishigaki (tasks)", Metric::Ratio, "throughput", "fjall"), Some(vec![9.0, 4.0, 4.0]));
        let tables = tables(&lines);
        assert!(tables.contains("| 2.00 (2.00 to 4.00) of fjall's throughput |"), "{tables}");
        assert!(tables.contains("| one | 16 | ishigaki (tasks) | fjall | 4.00 (4.00 to 9.00) | 0.25 (0.11 to 0.25) |"));
    }
}
