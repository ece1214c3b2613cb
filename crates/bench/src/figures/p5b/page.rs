//! The page about paper 5, chapter 3: what the author found, what we aimed at, and our figures.

use std::fmt::Write as _;

use super::charts::called;
use super::findings::{MIB, aims, findings, work};
use crate::figures::cases::{machines, number};
use crate::figures::findings::beside;
use crate::figures::units::Unit;
use crate::figures::{Plot, notes};
use crate::volumes::{READS, WORK};
use crate::{Line, Metric};

/// The page for these lines, with the plots that were drawn of them.
pub(in crate::figures) fn page(lines: &[Line], plots: &[Plot]) -> String {
    let mut page = format!(
        "# The experiments of paper 5, chapter 3, run\n\n\
         The paper has volumes of virtual machines over an SSD and six hard disks, and TPCx-V in 13 machines on them. Here they are \
         [`ishigaki volume`](../volumes.md), by its block devices of this host, and Debian's PostgreSQL 15 on them, each server on an ext4 of its own. The fast device \
         is a modelled SSD, the slow one a modelled hard disk of 7200 rpm with one head for all, which is as large as the volumes together: its arm has as far to go as that \
         of a large disk that is full. All lines are in [p5b.jsonl](p5b.jsonl).\n\n\
         {}\
         Made by `cargo run --release -p ishigaki-bench --example paper5b`, or by `ishigaki bench figures p5b`, as root.\n\n\
         | | machine |\n|---|---|\n{}\n{}\n",
        setup(lines),
        machines(lines),
        notes::place(),
    );
    beside(&mut page, "What the author found, and what holds here", "the paper", findings(lines));
    beside(&mut page, "What we aimed at", "aim", aims(lines));
    done(&mut page, lines);
    for Plot { name, title, .. } in plots {
        let _ = writeln!(page, "\n![{title}]({name}.svg)");
    }
    page
}

/// The servers and their load, as the lines say.
fn setup(lines: &[Line]) -> String {
    let work = work(lines);
    let Some(line) = work.first() else { return String::new() };
    let of = |key: &str| number(line, key);
    format!(
        "{} servers in four groups have tables of {} together, in {} pieces of the volumes: four tables each, which grew beside each other. A server has {}% of its data as the \
         page cache of its files. {} workers do transactions of one row; each draws its server by the shares of the phase, after TPCx-V's elasticity phases, so that a slow \
         group holds all back. 90% of the transactions go to 15% of each table, {}% change a row. Ten phases of {} s are gone through {} times, after one in which all \
         becomes warm; the prefetcher's window is {} s. After each run, the databases are counted by a service that was started anew: all changes that were acknowledged \
         are there.\n\n\
         `block cache` stands for FlashCache, which is for other kernels: blocks of 4 KiB come when they are read or written, the least recently used leaves. It lies in \
         the same place as the service, and is kinder than the original: it keeps in memory alone what lies where. `on demand` is the service without prefetch, which gives out its fast \
         device in chunks of 1 MiB. `plain` prefetches pieces of the disk, `layout` and `adaptive` pieces of files, of 3 MiB where nothing else is said.\n\n",
        of("servers"),
        Unit::Bytes.show(of("data")),
        of("extents"),
        of("cached_percent"),
        of("workers"),
        of("writing_percent"),
        of("phase"),
        of("sets"),
        of("window"),
    )
}

fn done(page: &mut String, lines: &[Line]) {
    let work = work(lines);
    if work.is_empty() {
        return;
    }
    let _ = writeln!(
        page,
        "\n## What gets done\n\nTransactions a second over all phases; medians of the rounds.\n\n\
         | fast device | way | unit | transactions | least | most | from the fast device | requests that read |\n|---:|---|---:|---:|---:|---:|---:|---:|"
    );
    for line in work {
        let beside = |metric: Metric, more: Option<&str>| {
            let same = |other: &&Line| {
                let rest = other.case.iter().filter(|(key, _)| *key != "of");
                let of = other.case.get("of").and_then(serde_json::Value::as_str);
                other.bench == WORK && other.metric == metric && of == more && rest.eq(line.case.iter())
            };
            lines.iter().find(same).map_or_else(String::new, |line| Unit::Share.show(line.median))
        };
        let [median, least, most] = [line.median, line.min, line.max].map(|value| Unit::Rate.show(value));
        let _ = writeln!(
            page,
            "| {}/15 | {} | {} | {median} | {least} | {most} | {} | {} |",
            number(line, "fifteenths"),
            called(line),
            Unit::Bytes.show(number(line, "unit") / MIB * MIB),
            beside(Metric::HitRatio, None),
            beside(Metric::Ratio, Some(READS)),
        );
    }
}
