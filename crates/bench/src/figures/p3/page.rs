//! The page about paper 3: the author's findings, which of them hold here, and our figures.

use std::fmt::Write as _;

use super::apart;
use super::charts::{Load, of_bench, page_bytes, that};
use super::findings::findings;
use super::paper::{MACHINE, REMOTE_OVER_LOCAL, SELECTIVITY};
use crate::figures::cases::{machines, number, numbers, text, with};
use crate::figures::findings::beside;
use crate::figures::units::Unit;
use crate::figures::{Plot, notes};
use crate::{Line, Metric};

/// The page for these lines, with the plots that were drawn of them.
pub(in crate::figures) fn page(lines: &[Line], plots: &[Plot]) -> String {
    let mut page = format!(
        "# The experiments of paper 3, run\n\n\
         The thesis (Kato, 2022) gives every server fast storage of its own and a fast way to that of the others, and asks \
         what remote reads cost and where the work of a query is best done. Here its three experiments are run: reads from a \
         storage node beside reads from our own disk and beside the network alone; the page accesses of a query done again; \
         and whole queries with pages and work here (*local*), pages there and work here (*fetch*), and both there (*push*), \
         by the size of pages. *Auto* is ours: the planner chooses between fetch and push, or divides a scan between both. \
         Client and node are processes of one machine and share its processors, its disk and its loopback network, except where \
         it is said that they are apart; figures of the thesis' two servers can not be compared with that as they stand. \
         All lines are in [p3.jsonl](p3.jsonl).\n\n\
         | | machine |\n|---|---|\n| the thesis | {MACHINE} |\n{}\n{}\n\
         Medians over the rounds; all sides of a case alternate, in an order drawn anew for each round. Every read is checked \
         for the bytes that it should have brought, every answer for its rows: all placements and rounds must give the same. No \
         page is kept in memory between queries, on neither side, except over a link.\n",
        machines(lines),
        notes::place(),
    );
    beside(&mut page, "What was found there, and what holds here", "the thesis", findings(lines));
    reads(&mut page, lines, plots);
    replay(&mut page, lines, plots);
    queries(&mut page, lines, plots);
    page += &apart::section(lines);
    show_plots(&mut page, plots, apart::PLOTS);
    page
}

fn show_plots(page: &mut String, plots: &[Plot], begin: &str) {
    for Plot { name, title, .. } in plots.iter().filter(|plot| plot.name.starts_with(begin)) {
        let _ = writeln!(page, "\n![{title}]({name}.svg)");
    }
}

/// A table for each number of connections and of reads in flight.
fn reads(page: &mut String, lines: &[Line], plots: &[Plot]) {
    let loads = Load::all(lines);
    if loads.is_empty() {
        return;
    }
    page.push_str("\n## Reads from a node (P3.3)\n");
    for load in loads {
        let _ = writeln!(
            page,
            "\n### {}\n\n| read | I/O | local | network alone | remote | remote/local | least | most | *the thesis* | local p50 \
             | remote p50 |\n|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
            load.title()
        );
        let own = load.of(lines);
        for ratio in that(&with(&own, Metric::Ratio), "of", "throughput") {
            let figure = |target: &str, metric| {
                let of: Vec<&Line> = with(&that(&own, "target", target), metric);
                let is = |line: &&&Line| {
                    line.case.get("size") == ratio.case.get("size")
                        && (target == "local" || line.case.get("io") == ratio.case.get("io"))
                };
                of.iter().find(is).map_or(0.0, |line| line.median)
            };
            let size = number(ratio, "size");
            let there = REMOTE_OVER_LOCAL.iter().find(|(known, _)| *known == size as u64);
            let rate = |target| Unit::Rate.show(figure(target, Metric::Throughput));
            let time = |target| Unit::Time.show(figure(target, Metric::LatencyP50));
            let _ = writeln!(
                page,
                "| {} | {} | {} | {} | {} | {:.2} | {:.2} | {:.2} | {} | {} | {} |",
                Unit::Bytes.show(size),
                text(ratio, "io"),
                rate("local"),
                rate("network"),
                rate("remote"),
                ratio.median,
                ratio.min,
                ratio.max,
                there.map_or_else(String::new, |(_, there)| format!("{there:.2}")),
                time("local"),
                time("remote"),
            );
        }
        show_plots(page, plots, &load.file());
    }
}

fn replay(page: &mut String, lines: &[Line], plots: &[Plot]) {
    let own = of_bench(lines, "replay");
    let Some(first) = own.first() else { return };
    let _ = writeln!(
        page,
        "\n## A query's reads again (P3.4)\n\nQuery {} at scale {}, run {} times one after the other over a node that noted what \
         was read: {} reads of {}, {} of them different, with {} in flight. A run reads each page once, since joins are done by \
         hashing: what there is of locality lies between the runs, and a cache that is too small for all of them finds nothing \
         if it drops the oldest.\n\n\
         | side | cache | time | least | most | bandwidth | remote over this | hits | hits of an LRU |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|---:|",
        text(first, "query"),
        text(first, "scale"),
        text(first, "times"),
        text(first, "reads"),
        Unit::Bytes.show(number(first, "bytes")),
        Unit::Bytes.show(number(first, "distinct")),
        text(first, "depth"),
    );
    for time in with(&own, Metric::LatencyP50) {
        let figure = |target: &str, metric| {
            let of = with(&that(&own, "target", target), metric);
            of.into_iter().find(|line| line.case.get("share") == time.case.get("share")).map(|line| line.median)
        };
        let target = text(time, "target");
        let shown = |value: Option<f64>, unit: Unit| value.map_or_else(String::new, |value| unit.show(value));
        let cache = number(time, "cache");
        let _ = writeln!(
            page,
            "| {target} | {} | {} | {} | {} | {} | {} | {} | {} |",
            if cache > 0.0 { Unit::Bytes.show(cache) } else { String::new() },
            Unit::Time.show(time.median),
            Unit::Time.show(time.min),
            Unit::Time.show(time.max),
            shown(figure(&target, Metric::Bandwidth), Unit::Bandwidth),
            figure("remote/cached", Metric::Ratio).map_or_else(String::new, |ratio| format!("{ratio:.2}")),
            shown(figure(&target, Metric::HitRatio), Unit::Share),
            shown(figure("lru", Metric::HitRatio), Unit::Share),
        );
    }
    show_plots(page, plots, "p3-replay");
}

/// A table for each query.
fn queries(page: &mut String, lines: &[Line], plots: &[Plot]) {
    let all = of_bench(lines, "tpch");
    let Some(first) = all.first() else { return };
    let _ = writeln!(
        page,
        "\n## Whole queries, by placement and size of pages (P3.5)\n\nAt scale {}.",
        text(first, "scale")
    );
    for query in numbers(&all, "query") {
        let own: Vec<&Line> = all.iter().filter(|line| number(line, "query") as u64 == query).copied().collect();
        let share = SELECTIVITY.iter().find(|(known, _)| *known == query);
        let passes = share.map_or_else(String::new, |(_, share)| {
            format!(" ({} of the rows of `lineitem` pass its condition, says the thesis)", Unit::Share.show(*share))
        });
        let _ = writeln!(
            page,
            "\n### Query {query}{passes}\n\n| page | placement | time | least | most | over local | client's processors | \
             node's processors | over the network |\n|---:|---|---:|---:|---:|---:|---:|---:|---:|",
        );
        for time in with(&own, Metric::LatencyP50) {
            let figure = |metric, key: &str, value: &str| {
                let of = if key.is_empty() { with(&own, metric) } else { that(&with(&own, metric), key, value) };
                let same =
                    |line: &&Line| ["page", "placement"].iter().all(|key| line.case.get(*key) == time.case.get(*key));
                of.into_iter().find(same).map(|line| line.median)
            };
            let shown = |value: Option<f64>, unit: Unit| value.map_or_else(String::new, |value| unit.show(value));
            let chosen = text(time, "chosen");
            let chosen = if chosen.is_empty() || chosen == text(time, "placement") {
                String::new()
            } else {
                format!(": {chosen}")
            };
            let _ = writeln!(
                page,
                "| {} | {}{chosen} | {} | {} | {} | {} | {} | {} | {} |",
                Unit::Bytes.show(page_bytes(time) as f64),
                text(time, "placement"),
                Unit::Time.show(time.median),
                Unit::Time.show(time.min),
                Unit::Time.show(time.max),
                figure(Metric::Ratio, "of", "time over local").map_or_else(String::new, |ratio| format!("{ratio:.2}")),
                shown(figure(Metric::Processor, "side", "client"), Unit::Time),
                shown(figure(Metric::Processor, "side", "node"), Unit::Time),
                shown(figure(Metric::BytesReceived, "", ""), Unit::Bytes),
            );
        }
        show_plots(page, plots, &format!("p3-q{query}-"));
    }
}
