//! The page about paper 5, chapter 2: what the author found, what we aimed at, and our figures.

use std::fmt::Write as _;

use super::findings::{aims, findings, of};
use crate::figures::cases::{machines, number, numbers, text, texts};
use crate::figures::findings::beside;
use crate::figures::units::Unit;
use crate::figures::{Plot, notes};
use crate::migration;
use crate::{Line, Metric};

/// The page for these lines, with the plots that were drawn of them.
pub(in crate::figures) fn page(lines: &[Line], plots: &[Plot]) -> String {
    let mut page = format!(
        "# The experiments of paper 5, chapter 2, run\n\n\
         The paper replaces a file server by one that serves at once and copies later: a patched kernel, and a crawler of one thread. Here it is \
         [`ishigaki migrate`](../migrate.md). The old server is Debian's NFS-Ganesha (version 3 of NFS) and smbd (SMB 3.1.1), on a second host of the same \
         machine: a network namespace with half of the processors. `lan` is a link of 1 Gbit/s as near as the machine's own network, nearer than the 0.2 ms of \
         an office; `wan` is the same link behind a relay that keeps all bytes for 10 ms in each direction. All lines are in [p5a.jsonl](p5a.jsonl).\n\n\
         Drawn from a seed, trees have the directories, files, depths and mean sizes of the paper's data sets (table 2.2): (a) `small`, many files, deep; (b) \
         `office`, documents; (c) `media`, few and large; as many times fewer and smaller as each table says.\n\n\
         Made by `cargo run --release -p ishigaki-bench --example paper5a`, or by `ishigaki bench figures p5a`, as root.\n\n\
         | | machine |\n|---|---|\n{}{}\n{}\n",
        machines(lines),
        limits(lines),
        notes::place(),
    );
    beside(&mut page, "What the author found, and what holds here", "the paper", findings(lines));
    beside(&mut page, "What we aimed at", "aim", aims(lines));
    cut_over(&mut page, lines);
    total(&mut page, lines);
    first_access(&mut page, lines);
    work(&mut page, lines);
    response(&mut page, lines);
    for Plot { name, title, .. } in plots {
        let _ = writeln!(page, "\n![{title}]({name}.svg)");
    }
    page
}

/// The limit of that name.
fn limit(lines: &[Line], name: &str, metric: Metric) -> Option<f64> {
    of(lines, migration::LIMIT, metric).find(|line| text(line, "of") == name).map(|line| line.median)
}

/// What link and disk do by themselves, as rows of the machine's table.
fn limits(lines: &[Line]) -> String {
    let mut rows = String::new();
    if let (Some(bandwidth), Some(trip)) =
        (limit(lines, "link", Metric::Bandwidth), limit(lines, "link", Metric::LatencyP50))
    {
        let (bandwidth, trip) = (Unit::Bandwidth.show(bandwidth), Unit::Time.show(trip));
        let _ = writeln!(rows, "| link by itself (`lan`) | {bandwidth} over TCP; a byte is back after {trip} |");
    }
    if let Some(disk) = limit(lines, "disk", Metric::Bandwidth) {
        let _ = writeln!(
            rows,
            "| disk by itself | {} written in order, with a sync at the end |",
            Unit::Bandwidth.show(disk)
        );
    }
    rows
}

fn spread(line: &Line, unit: Unit) -> String {
    let [median, least, most] = [line.median, line.min, line.max].map(|value| unit.show(value));
    format!("{median} | {least} | {most}")
}

fn cut_over(page: &mut String, lines: &[Line]) {
    let mut own = of(lines, migration::CUT_OVER, Metric::Elapsed).peekable();
    if own.peek().is_none() {
        return;
    }
    let _ = writeln!(
        page,
        "\n## Until clients are served\n\nFrom the start of the service until `ls` of the root has its answer through the folder.\n\n\
         | server | files | time | least | most |\n|---|---:|---:|---:|---:|"
    );
    for line in own {
        let (server, files) = (text(line, "server"), number(line, "files"));
        let _ = writeln!(page, "| {server} | {files} | {} |", spread(line, Unit::Time));
    }
}

fn total(page: &mut String, lines: &[Line]) {
    let mut own = of(lines, migration::TOTAL, Metric::Elapsed).peekable();
    let Some(first) = own.peek() else { return };
    let _ = writeln!(
        page,
        "\n## Until all is here\n\n{} times fewer files than the paper's, {} times smaller; processors: {}. All sides begin with an empty directory, alternate in \
         an order drawn anew for each round, and read from the server's warm memory. Our time ends when all is here *and durable*; a rival's when it \
         ends, which syncs nothing. Before there is a figure, bytes are compared with the source; by NFS and rsync also owners, modes and times, by SMB times. \
         rclone brings bytes and files' times only. `rsync` is `rsync -aHAX` from a daemon beside the server; `rclone webdav` is `rclone copy` from an `rclone serve webdav` there, \
         `rclone smb` from smbd, both with 16 transfers at a time. `cp -a` from a mount does not apply: it takes an NFS or SMB client in the kernel, which \
         this machine's has not. The last column is what the link takes for the bytes alone.\n\n\
         | tree | link | files | directories | bytes | side | time | least | most | of rsync's | link alone |\n|---|---|---:|---:|---:|---|---:|---:|---:|---:|---:|",
        number(first, "fewer"),
        number(first, "smaller"),
        text(first, "processors"),
    );
    let bandwidth = limit(lines, "link", Metric::Bandwidth);
    for line in own {
        let [tree, link, side] = ["tree", "link", "side"].map(|key| text(line, key));
        let (files, directories, bytes) = (number(line, "files"), number(line, "directories"), number(line, "bytes"));
        let same = |other: &&Line| ["tree", "link", "side"].iter().all(|key| text(other, key) == text(line, key));
        let ratio = of(lines, migration::TOTAL, Metric::Ratio).find(same);
        let ratio = ratio.map_or_else(String::new, |line| format!("{:.2}", line.median));
        let least = bandwidth.map_or_else(String::new, |bandwidth| Unit::Time.show(bytes / bandwidth));
        let _ = writeln!(
            page,
            "| {tree} | {link} | {files} | {directories} | {} | {side} | {} | {ratio} | {least} |",
            Unit::Bytes.show(bytes),
            spread(line, Unit::Time),
        );
    }
}

fn first_access(page: &mut String, lines: &[Line]) {
    let own: Vec<&Line> = of(lines, migration::FIRST, Metric::Elapsed).collect();
    if own.is_empty() {
        return;
    }
    let widths = numbers(&own, "width");
    let _ = writeln!(
        page,
        "\n## The first access\n\nThe crawler rests; a client opens and reads a file of 4 KiB. `depth` counts the directories on the way, the root among them; each \
         has as many names as the column says. Medians.\n\n| server | link | depth |{}\n|---|---|---:|{}",
        widths.iter().map(|width| format!(" {width} names |")).collect::<Vec<_>>().concat(),
        "---:|".repeat(widths.len()),
    );
    for (server, link) in pairs(&own, "server", "link") {
        for depth in numbers(&own, "depth") {
            let of = |width: &u64| {
                let same = |line: &&&Line| {
                    text(line, "server") == server
                        && text(line, "link") == link
                        && number(line, "depth") as u64 == depth
                        && number(line, "width") as u64 == *width
                };
                own.iter()
                    .find(same)
                    .map_or_else(|| " |".to_owned(), |line| format!(" {} |", Unit::Time.show(line.median)))
            };
            let _ = writeln!(page, "| {server} | {link} | {depth} |{}", widths.iter().map(of).collect::<String>());
        }
    }
}

/// What lines have for two keys, once each.
fn pairs(lines: &[&Line], one: &str, other: &str) -> Vec<(String, String)> {
    let ones = texts(lines.iter().copied(), one);
    let others = texts(lines.iter().copied(), other);
    ones.iter().flat_map(|one| others.iter().map(move |other| (one.clone(), other.clone()))).collect()
}

fn work(page: &mut String, lines: &[Line]) {
    let own = |line: &&Line| line.bench == migration::WORK && line.metric != Metric::Ratio;
    let mut own = lines.iter().filter(own).peekable();
    let Some(first) = own.peek() else { return };
    let _ = writeln!(
        page,
        "\n## What clients get done\n\nOn a tree like `office` with {} files. `sequential read`: files of {}, as many at a time as there are sessions; what is here is read \
         eight times, out of the warm memory, so that nothing but the folder makes a difference. `mix`, after filebench's file server: as many threads create, write, append, read, look at and \
         delete files; what must be there is checked. `bare` is a directory that was never migrated; `during` begins with the migration, and the crawler works \
         beside the clients; `done` is the folder when all is here; `finished` the directory after `finish`, its service ended. Clients and service share these \
         processors: {}.\n\n\
         | work | sessions | state | server | rate | least | most | of bare |\n|---|---:|---|---|---:|---:|---:|---:|",
        number(first, "files"),
        Unit::Bytes.show(number(first, "large")),
        text(first, "processors"),
    );
    for line in own {
        let keys = ["work", "sessions", "state", "server"];
        let same = |other: &&Line| keys.iter().all(|key| text(other, key) == text(line, key));
        let ratio = of(lines, migration::WORK, Metric::Ratio).find(same);
        let ratio =
            ratio.map_or_else(String::new, |line| format!("{:.2} ({:.2} to {:.2})", line.median, line.min, line.max));
        let unit = if line.metric == Metric::Bandwidth { Unit::Bandwidth } else { Unit::Rate };
        let [work, sessions, state, server] = keys.map(|key| text(line, key));
        let _ = writeln!(page, "| {work} | {sessions} | {state} | {server} | {} | {ratio} |", spread(line, unit));
    }
}

fn response(page: &mut String, lines: &[Line]) {
    let own: Vec<&Line> = of(lines, migration::RESPONSE, Metric::Elapsed).collect();
    let Some(first) = own.first() else { return };
    let percents = [50, 90, 99, 100];
    let _ = writeln!(
        page,
        "\n## What clients wait for\n\nThe crawler rests when so much of the time of a whole migration of its kind is over, and one client opens {} files of a tree like \
         `office` one after the other and reads a byte of each, always the same ones. So many percent of them are there within: (medians)\n\n\
         | server | link | strategy | done | mean |{}\n|---|---|---|---:|---:|{}",
        number(first, "files"),
        percents.iter().map(|percent| format!(" {percent}% |")).collect::<Vec<_>>().concat(),
        "---:|".repeat(percents.len()),
    );
    for (server, link) in pairs(&own, "server", "link") {
        for (strategy, done) in pairs(&own, "strategy", "done") {
            let all = [("server", &server), ("link", &link), ("strategy", &strategy), ("done", &done)];
            let case: Vec<&&Line> =
                own.iter().filter(|line| all.iter().all(|(key, value)| text(line, key) == **value)).collect();
            let find = |percent: u32| {
                let found = case.iter().find(|line| (number(line, "percent") - f64::from(percent)).abs() < 0.01);
                found.map_or_else(|| " |".to_owned(), |line| format!(" {} |", Unit::Time.show(line.median)))
            };
            let _ = writeln!(
                page,
                "| {server} | {link} | {strategy} | {done}% |{}{}",
                find(0),
                percents.iter().map(|percent| find(*percent)).collect::<String>()
            );
        }
    }
}
