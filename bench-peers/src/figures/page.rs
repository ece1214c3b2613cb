//! The figures for people, in Markdown: made of lines and nothing else, so that they can be made again.
//!
//! First Ishigaki beside the best rival of every case; then a table for each workload and number of clients, the fastest
//! first; then the calls of each transaction, where they were traced. [`insert`] puts them into a page, whose words stay.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use anyhow::{Context, Result};
use ishigaki_bench::figures::Unit;
use ishigaki_bench::{Line, Metric};

use super::RATIOS;

/// Where the figures begin and end in a page.
const MARKS: [&str; 2] = ["<!-- figures, made by peers -->", "<!-- end of figures -->"];

/// The tables of these lines.
pub(crate) fn tables(lines: &[Line]) -> String {
    let parts = [beside_the_best(lines), cases(lines), calls(lines)];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n")
}

/// The page with these tables between its marks, in place of whatever is there.
pub(crate) fn insert(page: &str, tables: &str) -> Result<String> {
    let missing = || format!("no place for figures; make one of two lines: `{}` and `{}`", MARKS[0], MARKS[1]);
    let (before, rest) = page.split_once(MARKS[0]).with_context(missing)?;
    let (_, after) = rest.split_once(MARKS[1]).with_context(missing)?;
    Ok(format!("{before}{}\n\n{tables}\n{}{after}", MARKS[0], MARKS[1]))
}

fn word(line: &Line, name: &str) -> String {
    let value = line.case.get(name);
    value.map_or_else(String::new, |value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
}

/// Workload and clients.
type Group = (String, String);

fn group(line: &Line) -> Group {
    (word(line, "workload"), word(line, "clients"))
}

/// Each value once, as they come first.
fn distinct<T: Ord + Clone>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut seen = BTreeSet::new();
    values.filter(|value| seen.insert(value.clone())).collect()
}

fn origin(line: &Line) -> String {
    let rounds = if line.runs.len() == 1 { "one round".to_owned() } else { format!("{} rounds", line.runs.len()) };
    format!("{}, source {}, seed {}, {rounds}", line.machine, line.commit, line.seed)
}

/// A row for each of Ishigaki's entries and cases that had a rival.
fn beside_the_best(lines: &[Line]) -> String {
    let ratios: Vec<&Line> = lines.iter().filter(|line| line.metric == Metric::Ratio).collect();
    let Some(first) = ratios.first() else { return String::new() };
    let mut text = format!("### Ishigaki beside the best rival\n\n{}\n\n", origin(first));
    text.push_str("| updates | clients | engine | best rival | throughput | p50 | p99 | p99.9 |\n");
    text.push_str("|---|---:|---|---|---:|---:|---:|---:|\n");
    let entry = |line: &Line| (group(line), word(line, "engine"), word(line, "to"));
    for row in distinct(ratios.iter().map(|line| entry(line))) {
        let ((workload, clients), engine, to) = &row;
        let _ = write!(text, "| {workload} | {clients} | {engine} | {to} |");
        for of in RATIOS {
            let found = ratios.iter().find(|line| entry(line) == row && word(line, "of") == of);
            let _ = write!(text, " {} |", found.map_or_else(|| "-".to_owned(), |line| ratio(line)));
        }
        text.push('\n');
    }
    text
}

/// The median, and the smallest and largest round.
fn ratio(line: &Line) -> String {
    format!("{:.2} ({:.2} to {:.2})", line.median, line.min, line.max)
}

/// A table for each workload and number of clients.
fn cases(lines: &[Line]) -> String {
    let measured = || lines.iter().filter(|line| line.metric == Metric::Throughput);
    let Some(first) = measured().next() else { return String::new() };
    let tables: Vec<String> = distinct(measured().map(group)).iter().map(|group| case(lines, group)).collect();
    format!("### Everybody\n\n{}\n\n{}", origin(first), tables.join("\n"))
}

fn case(lines: &[Line], of: &Group) -> String {
    let lines: Vec<&Line> = lines.iter().filter(|line| group(line) == *of).collect();
    let (workload, clients) = of;
    let mut text = format!("#### Updates in a transaction: {workload}, clients: {clients}\n\n");
    text.push_str("| engine | transactions/s | min to max | p50 | p99 | p99.9 | syncs | to the best rival |\n");
    text.push_str("|---|---:|---:|---:|---:|---:|---:|---|\n");
    let mut rows: Vec<&Line> = lines.iter().copied().filter(|line| line.metric == Metric::Throughput).collect();
    rows.sort_by(|a, b| b.median.total_cmp(&a.median));
    for row in rows {
        let engine = word(row, "engine");
        let own = || lines.iter().copied().filter(|line| word(line, "engine") == engine);
        let latency = |metric| {
            let found = own().find(|line| line.metric == metric);
            found.map_or_else(|| "-".to_owned(), |line| Unit::Time.show(line.median))
        };
        let best = own().find(|line| line.metric == Metric::Ratio && word(line, "of") == RATIOS[0]);
        let best = best.map(|line| format!("{} of {}'s throughput", ratio(line), word(line, "to")));
        let _ = writeln!(
            text,
            "| {engine} {} | {:.0} | {:.0} to {:.0} | {} | {} | {} | {} | {} |",
            word(row, "version"),
            row.median,
            row.min,
            row.max,
            latency(Metric::LatencyP50),
            latency(Metric::LatencyP99),
            latency(Metric::LatencyP999),
            syncs(own()).map_or_else(|| "-".to_owned(), |syncs| format!("{syncs:.2}")),
            best.unwrap_or_default(),
        );
    }
    text
}

/// Syncs and durable writes of a transaction, of one engine in one case; none if they were not traced.
fn syncs<'a>(lines: impl Iterator<Item = &'a Line>) -> Option<f64> {
    let durable = lines.filter(|line| line.metric == Metric::Calls && word(line, "durable") == "true");
    durable.map(|line| line.median).reduce(|sum, count| sum + count)
}

/// What was traced: a row for each engine and case, a column for each kind of call that occurred.
fn calls(lines: &[Line]) -> String {
    let calls: Vec<&Line> = lines.iter().filter(|line| line.metric == Metric::Calls).collect();
    let Some(first) = calls.first() else { return String::new() };
    let occurs = |kind: &String| calls.iter().any(|line| line.median > 0.0 && word(line, "call") == *kind);
    let kinds: Vec<String> = distinct(calls.iter().map(|line| word(line, "call"))).into_iter().filter(occurs).collect();
    let mut text = format!("### Calls and bytes of a transaction\n\nUnder `strace`; {}\n\n", origin(first));
    text.push_str("| updates | clients | engine | transactions |");
    for kind in &kinds {
        text.extend([" ", kind, " |"]);
    }
    text.push_str(" bytes written |\n|---|---:|---|---:|");
    text.push_str(&"---:|".repeat(kinds.len() + 1));
    text.push('\n');
    let entry = |line: &Line| (group(line), word(line, "engine"));
    for row in distinct(calls.iter().map(|line| entry(line))) {
        let ((workload, clients), engine) = &row;
        let own = || lines.iter().filter(|line| entry(line) == row);
        let transactions = own().map(|line| word(line, "transactions")).find(|count| !count.is_empty());
        let _ = write!(text, "| {workload} | {clients} | {engine} | {} |", transactions.unwrap_or_default());
        for kind in &kinds {
            let found = own().find(|line| line.metric == Metric::Calls && word(line, "call") == *kind);
            let _ = write!(text, " {:.3} |", found.map_or(0.0, |line| line.median));
        }
        let bytes = own().find(|line| line.metric == Metric::BytesWritten).map_or(0.0, |line| line.median);
        let _ = writeln!(text, " {bytes:.0} |");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    use clap::Parser;
    use ishigaki_base::random::Seed;
    use ishigaki_bench::{Origin, Rounds};

    use crate::arguments::Arguments;
    use crate::figures;
    use crate::syncs::calls_of;
    use crate::workload::Workload;

    #[test]
    fn traced_calls_stand_beside_the_figures_of_their_engine() {
        let arguments = ["peers", "--data", "x", "--engines", "lmdb,fjall"];
        let engines = Arguments::try_parse_from(arguments).unwrap().engines();
        let number = |name: &str| engines.iter().position(|engine| engine.name() == name).unwrap();
        let (fjall, lmdb) = (number("fjall"), number("lmdb"));
        let origin = Origin { machine: "m".into(), commit: "c".into(), seed: Seed(1) };
        let rounds =
            |runs: [f64; 3]| Rounds { throughput: runs.into(), quantiles: [0; 3].map(|_| vec![1e-4, 2e-4, 9e-5]) };
        let results = [(lmdb, [10.0, 30.0, 20.0]), (fjall, [90.0, 70.0, 80.0])];
        let results = results.map(|(engine, runs)| ((Workload::Ten, 4, engine), rounds(runs)));
        let mut lines = figures::lines(&engines, &results.into(), &origin);
        let trace = "7 fdatasync(7</data>) = 0\n7 fdatasync(7</data>) = 0\n7 write(7</data>, \"\"..., 300) = 300\n";
        lines.extend(figures::calls(&engines, (Workload::Ten, 4, fjall), 4, &calls_of(trace), &origin));
        let tables = tables(&lines);
        assert!(tables.contains("#### Updates in a transaction: ten, clients: 4\n"), "{tables}");
        assert!(tables.contains("| 80 | 70 to 90 | 100 µs | 100 µs | 100 µs | 0.50 |  |\n"), "{tables}");
        assert!(tables.contains("| 20 | 10 to 30 | 100 µs | 100 µs | 100 µs | - |  |\n"), "{tables}");
        assert!(tables.contains("| engine | transactions | fdatasync | plain writes | bytes written |\n"), "{tables}");
        assert!(tables.ends_with("| ten | 4 | fjall | 4 | 0.500 | 0.250 | 75 |\n"), "{tables}");
        assert!(!tables.contains("beside the best rival"), "nobody is ours");
    }

    #[test]
    fn the_words_of_a_page_stay() {
        let page = format!("before\n{}\nold\n{}\nafter\n", MARKS[0], MARKS[1]);
        let once = insert(&page, "new\n").unwrap();
        assert_eq!(once, format!("before\n{}\n\nnew\n\n{}\nafter\n", MARKS[0], MARKS[1]));
        assert_eq!(insert(&once, "new\n").unwrap(), once);
        assert!(insert("before\nafter\n", "new\n").unwrap_err().to_string().contains("no place for figures"));
    }

    #[test]
    fn the_kept_page_shows_the_kept_lines() {
        let results = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/results");
        let page = fs::read_to_string(results.join("peers.md")).unwrap();
        let lines = ishigaki_bench::figures::read(&results.join("peers.jsonl")).unwrap();
        assert!(!lines.is_empty());
        assert!(insert(&page, &tables(&lines)).unwrap() == page, "run: peers --from …/peers.jsonl --page …/peers.md");
    }
}
