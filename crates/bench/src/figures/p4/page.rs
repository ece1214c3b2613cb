//! The page about paper 4: the authors' findings, which of them hold here, what we aimed at, and our figures.

use std::fmt::Write as _;

use super::charts::{OF_SEPARATE, Setup, at, of_bench};
use super::findings::{aims, findings};
use super::paper::{MACHINE, SIDES};
use crate::figures::cases::{Figures, cases, machines, number, numbers, text, texts, with};
use crate::figures::findings::beside;
use crate::figures::units::Unit;
use crate::figures::{Plot, notes};
use crate::{Line, Metric};

/// What a disk takes for a write of 4 KiB that is durable, in a row, by its model: seconds.
const MODELLED: [(&str, f64); 2] = [("hdd", 60.0 / 7200.0), ("ssd", 170e-6)];

/// The page for these lines, with the plots that were drawn of them.
pub(in crate::figures) fn page(lines: &[Line], plots: &[Plot]) -> String {
    let mut page = format!(
        "# The experiments of paper 4, run\n\n\
         The paper (Saito and Yamada) puts the logs of several database servers on one disk into one, which is written in a row: \
         it changes MySQL, the guests' kernel and Xen. Here Debian's servers are what they are, and find their logs in folders \
         that a [pool](../log-pool.md) serves. Each server has a client that inserts a row, waits for the answer, and inserts the \
         next; a row is a transaction. *Separate*: each server's log is a file of its own, on an ext4 of the disk. The others \
         have one log, on the same disk, whose process waits in different ways: *sleep*, *poll*, *delay*, both, and *auto*, which \
         is ours. Figures of different machines can not be compared as they stand; what can be are ratios between sides. All \
         lines are in [p4.jsonl](p4.jsonl).\n\n\
         | | machine |\n|---|---|\n| the paper | {MACHINE} |\n{}\n{}\n\
         Medians over the rounds; sides alternate, in an order drawn anew for each round. Servers' data lie in memory, so that \
         nothing but logs is on the disk; of separate logs every byte was written before, so that no commit finds itself a place, and \
         on an emulated disk they lie a tenth of it apart, as images of virtual machines would. \
         `hdd` and `ssd` are [emulated](../media-models.md), real time and a block device. Servers, clients, disk and pool share \
         the processors. After each side of each round the servers are killed and started again: every row that was acknowledged \
         is there, once, or there are no figures.\n\n\
         | here | there |\n|---|---|\n",
        machines(lines),
        notes::place(),
    );
    for (here, there) in SIDES {
        let _ = writeln!(page, "| {here} | {there} |");
    }
    beside(&mut page, "What they found, and what holds here", "the paper", findings(lines));
    beside(&mut page, "What we aimed at beyond that", "aim", aims(lines));
    disks(&mut page, lines);
    for setup in Setup::all(lines) {
        let own = setup.of(lines);
        let _ = writeln!(page, "\n## {}", setup.title());
        for integers in numbers(&own, "integers") {
            table(&mut page, integers, &at(&own, "integers", integers));
        }
        let ours = |plot: &&Plot| plot.name.starts_with(&setup.file());
        for Plot { name, title, .. } in plots.iter().filter(ours) {
            let _ = writeln!(page, "\n![{title}]({name}.svg)");
        }
    }
    arrivals(&mut page, lines);
    page
}

/// What the disks take by themselves.
fn disks(page: &mut String, lines: &[Line]) {
    let probes = of_bench(lines, "media");
    if probes.is_empty() {
        return;
    }
    page.push_str(
        "\n## The disks by themselves\n\nDurable writes of 4 KiB in a row, each thread in a file of its own, in the same run and on \
         the same file system, before any server was started.\n\n\
         | disk | threads | writes | p50 | p99 | by its model, one thread | |\n|---|---:|---:|---:|---:|---:|---|\n",
    );
    for case in cases(&probes) {
        let device = text(case.0[0], "device");
        let modelled = MODELLED.iter().find(|(known, _)| *known == device && number(case.0[0], "threads") < 1.5);
        let is_kept = |(_, time): &(&str, f64)| case.median(Metric::LatencyP50).is_some_and(|p50| p50 <= 1.1 * time);
        let _ = writeln!(
            page,
            "| `{device}` | {} | {} | {} | {} | {} | {} |",
            number(case.0[0], "threads"),
            case.show(Metric::Throughput, Unit::Rate),
            case.show(Metric::LatencyP50, Unit::Time),
            case.show(Metric::LatencyP99, Unit::Time),
            modelled.map_or_else(String::new, |(_, time)| Unit::Time.show(*time)),
            modelled.map_or("", |modelled| if is_kept(modelled) {
                "as fast as that, within a tenth"
            } else {
                "**slower than that**: what follows is of a slower disk"
            }),
        );
    }
    for device in texts(probes.iter().copied(), "device") {
        let own = of_bench(lines, "inserts");
        let behind = own.iter().any(|line| {
            text(line, "device") == device
                && line.case.get("real_time").and_then(serde_json::Value::as_bool) == Some(false)
        });
        if behind {
            let _ = writeln!(
                page,
                "\n`{device}` had no real-time priority here: it waited for processors as all else did."
            );
        }
    }
}

/// Each side with each number of servers.
fn table(page: &mut String, integers: u64, lines: &[&Line]) {
    let Some(first) = lines.first() else { return };
    let _ = writeln!(
        page,
        "\n### {integers} integers a transaction, {} transactions of each server\n\n\
         | servers | side | time | least | most | over separate | p50 | p99 | disk writes | disk syncs | disk bytes | commits \
         a log write | logged/written | pool's processors |\n\
         |---:|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
        text(first, "transactions"),
    );
    for servers in numbers(lines, "servers") {
        let of_count = at(lines, "servers", servers);
        for side in texts(of_count.iter().copied(), "side") {
            let own: Vec<&Line> = of_count.iter().filter(|line| text(line, "side") == side).copied().collect();
            let Some(time) = with(&own, Metric::Elapsed).first().copied() else { continue };
            let waiting = text(time, "waiting");
            let side = if waiting.contains(':') { waiting } else { side };
            let plain = Figures(own.iter().filter(|line| line.metric != Metric::Ratio).copied().collect());
            let count = |metric| plain.median(metric).map_or_else(String::new, |count| format!("{count:.2}"));
            let ratio = |of: &str| {
                let found = own.iter().find(|line| text(line, "of") == of);
                found.map_or_else(String::new, |line| format!("{:.2}", line.median))
            };
            let inverse = own.iter().find(|line| text(line, "of") == "logged over written");
            let _ = writeln!(
                page,
                "| {servers} | {side} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
                Unit::Time.show(time.median),
                Unit::Time.show(time.min),
                Unit::Time.show(time.max),
                ratio(OF_SEPARATE),
                plain.show(Metric::LatencyP50, Unit::Time),
                plain.show(Metric::LatencyP99, Unit::Time),
                count(Metric::Writes),
                count(Metric::Syncs),
                plain.show(Metric::BytesWritten, Unit::Bytes),
                ratio("requests over log writes"),
                inverse.map_or_else(String::new, |line| format!("1/{:.1}", 1.0 / line.median)),
                ratio("pool's processor over elapsed"),
            );
        }
    }
    page.push_str("\nDisk writes, syncs and bytes are those of each transaction.\n");
}

/// The log by itself, by how commits come.
fn arrivals(page: &mut String, lines: &[Line]) {
    let all = of_bench(lines, "arrivals");
    if all.is_empty() {
        return;
    }
    let _ = writeln!(
        page,
        "\n## How commits come\n\nThe pool's log by itself on a modelled medium, no server, no file system: {} members commit \
         4 KiB with 346 fresh bytes *steadily*, one after the other; in *bursts* of five, with pauses between; and one member does \
         so *alone*. All ways of waiting have the same pauses.",
        numbers(&all, "members").last().copied().unwrap_or_default(),
    );
    for device in texts(all.iter().copied(), "device") {
        let _ = writeln!(
            page,
            "\n### On `{device}`\n\n| commits come | way | commits | least | most | p50 | p99 |\n|---|---|---:|---:|---:|---:|---:|"
        );
        let on: Vec<&Line> = all.iter().filter(|line| text(line, "device") == device).copied().collect();
        for case in cases(&on) {
            let throughput = case.0.iter().find(|line| line.metric == Metric::Throughput);
            let [least, most] =
                throughput.map_or_else(Default::default, |line| [line.min, line.max].map(|rate| Unit::Rate.show(rate)));
            let _ = writeln!(
                page,
                "| {} | {} | {} | {least} | {most} | {} | {} |",
                text(case.0[0], "pattern"),
                text(case.0[0], "waiting"),
                case.show(Metric::Throughput, Unit::Rate),
                case.show(Metric::LatencyP50, Unit::Time),
                case.show(Metric::LatencyP99, Unit::Time),
            );
        }
    }
}
