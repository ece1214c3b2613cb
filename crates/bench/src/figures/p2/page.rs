//! The page about paper 2: the authors' findings, which of them hold here, and our figures.

use std::fmt::Write as _;

use super::charts::{Setup, variant};
use super::findings::{Place, Throughputs, findings};
use super::paper::{GROUP_OVER_NONE, MACHINE, VARIANTS};
use crate::figures::cases::{Figures, cases, machines, number, text, texts};
use crate::figures::findings::beside;
use crate::figures::units::Unit;
use crate::figures::{Plot, notes};
use crate::{Line, Metric};

/// The page for these lines, with the plots that were drawn of them.
pub(in crate::figures) fn page(lines: &[Line], plots: &[Plot]) -> String {
    let mut page = format!(
        "# The experiments of paper 2, run\n\n\
         The paper (Nakamura, Kawashima, Tatebe: TicToc with a parallel write-ahead log, on TPC-C) asks what early lock \
         release and group commit are worth: four variants of TicToc on P-WAL run TPC-C's New-Order, with three latencies of \
         a log write, three numbers of warehouses, and up to 24 workers. Here they are run on this engine. Figures of \
         different machines can not be compared as they stand; what can be are ratios between variants. All lines are in \
         [p2.jsonl](p2.jsonl).\n\n\
         | | machine |\n|---|---|\n| the paper | {MACHINE} |\n{}\n{}\n\
         As in the paper a worker writes a group and waits for it, so without groups it waits for each transaction: as many \
         are outstanding as a group has. Unlike there, tables are ordered and rows have keys, a transaction is acknowledged \
         only when all that it read is durable as well, and after each run all of TPC-C's consistency conditions hold in the \
         database opened again from its log. Medians over the rounds, on a medium alternating with all others of it.\n\n\
         | here | there |\n|---|---|\n",
        machines(lines),
        notes::place(),
    );
    for (release, group, there) in VARIANTS {
        let group = if group == 1 { "no group".to_owned() } else { format!("group {group}") };
        let _ = writeln!(page, "| {release}, {group} | {there} |");
    }
    beside(&mut page, "What they found, and what holds here", "the paper", findings(lines));
    worth(&mut page, lines);
    for setup in Setup::all(lines) {
        let _ = writeln!(page, "\n## {}", setup.title());
        table(&mut page, &setup.of(lines));
        let ours = |plot: &&Plot| plot.name.starts_with(&setup.file());
        for Plot { name, title, .. } in plots.iter().filter(ours) {
            let _ = writeln!(page, "\n![{title}]({name}.svg)");
        }
    }
    page
}

/// What groups are worth to early release, by latency, warehouses and workers.
fn worth(page: &mut String, lines: &[Line]) {
    let throughputs = Throughputs::of(lines);
    let workers = throughputs.numbers("workers");
    if workers.is_empty() {
        return;
    }
    page.push_str(
        "\n## What groups are worth to early release\n\nThroughput with groups over that without.\n\n| log write | warehouses |",
    );
    for workers in &workers {
        let _ = write!(page, " {workers} worker{} |", if *workers == 1 { "" } else { "s" });
    }
    let _ = writeln!(page, " *the paper, 24 cores* |\n|---|---:|{}---:|", "---:|".repeat(workers.len()));
    for device in texts(lines, "device") {
        for warehouses in throughputs.numbers("warehouses") {
            let at = |&workers: &u64| {
                let place = Place { device: device.clone(), warehouses, workers };
                throughputs.of_group(&place).map_or_else(String::new, |ratio| format!("{ratio:.2}"))
            };
            let cells: Vec<String> = workers.iter().map(at).collect();
            if cells.iter().all(String::is_empty) {
                continue;
            }
            let there = GROUP_OVER_NONE.iter().find(|(known, _)| *known == device && warehouses == 1);
            let there = there.map_or_else(String::new, |(_, ratio)| format!("{ratio:.2}"));
            let _ = writeln!(page, "| `{device}` | {warehouses} | {} | {there} |", cells.join(" | "));
        }
    }
}

/// Each variant with each number of workers.
fn table(page: &mut String, lines: &[&Line]) {
    page.push_str(
        "\n| variant | workers | transactions | least | most | p50 | p99 | repeated each | writes each | bytes each |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    for case in cases(lines).iter().filter(|case| text(case.0[0], "type") == "all") {
        let first = case.0[0];
        let throughput = case.0.iter().find(|line| line.metric == Metric::Throughput);
        let spread =
            throughput.map_or_else(Default::default, |line| [line.min, line.max].map(|rate| Unit::Rate.show(rate)));
        let [least, most]: [String; 2] = spread;
        let _ = writeln!(
            page,
            "| {} | {} | {} | {least} | {most} | {} | {} | {} | {:.3} | {} |",
            variant(first),
            number(first, "workers"),
            case.show(Metric::Throughput, Unit::Rate),
            case.show(Metric::LatencyP50, Unit::Time),
            case.show(Metric::LatencyP99, Unit::Time),
            aborts(case, lines),
            case.median(Metric::Writes).unwrap_or(0.0),
            case.show(Metric::BytesWritten, Unit::Bytes),
        );
    }
}

/// What gave way is in lines of their own, which have a reason instead of a type.
fn aborts(case: &Figures<'_>, lines: &[&Line]) -> String {
    let same = |line: &&&Line| {
        ["release", "group", "workers"].iter().all(|key| line.case.get(*key) == case.0[0].case.get(*key))
            && line.metric == Metric::Aborts
    };
    lines.iter().find(same).map_or_else(String::new, |line| format!("{:.3}", line.median))
}
