//! The page: TPC-C and the reader, the authors' figures beside ours.

use std::fmt::Write as _;

use super::charts::{OF_SEPARATE, Setup};
use crate::figures::cases::{Figures, machines, number, numbers, text, texts, with};
use crate::figures::findings::{Finding, beside};
use crate::figures::units::Unit;
use crate::figures::{Plot, notes};
use crate::{Line, Metric};

/// What one log brings on a disk with so many servers, by the authors (section 6.3), and what we aimed at on the hard disk.
const THEIRS: [(&str, u64, f64); 2] = [("hdd", 4, 1.23), ("ssd", 8, 1.03)];

/// Within so much two times of a query are called the same.
const SAME: f64 = 1.05;

/// The page for these lines, with the plots that were drawn of them.
pub(in crate::figures) fn page(lines: &[Line], plots: &[Plot]) -> String {
    let mut page = format!(
        "# TPC-C and readers on one log, run\n\n\
         [The page about paper 4](p4.md) says what is compared: Debian's servers beside each other on one disk, each with a log of \
         its own (*separate*), or all with one that a [pool](../log-pool.md) serves. There they insert; here they do TPC-C through \
         SQL, and one of them reads while the others insert. All lines are in [p4-tpcc.jsonl](p4-tpcc.jsonl).\n\n\
         | | machine |\n|---|---|\n{}\n{}\n\
         Medians over the rounds; sides alternate, in an order drawn anew for each. A transaction of TPC-C is a stored procedure, one \
         statement of one client; nobody types or thinks, so these are no tpmC, and there are fewer customers and items than the \
         specification has. Conflicts are answered by trying again. After each load all consistency conditions of TPC-C hold and \
         everything that was acknowledged is there, after the last one in servers that were killed at once and started again; or \
         there are no figures. Unless said otherwise, servers' data are in memory, and nothing but logs on the disk: the authors' \
         data were on it, and moved its head.\n",
        machines(lines),
        notes::place(),
    );
    beside(&mut page, "What they found, and what holds here", "the paper", findings(lines));
    for setup in Setup::all(lines) {
        let own = setup.of(lines);
        let _ = writeln!(page, "\n## TPC-C, {}", setup.title());
        table(&mut page, &own);
        for Plot { name, title, .. } in plots.iter().filter(|plot| plot.name == setup.file()) {
            let _ = writeln!(page, "\n![{title}]({name}.svg)");
        }
    }
    readers(&mut page, lines);
    page
}

fn findings(lines: &[Line]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for setup in Setup::all(lines) {
        let own = setup.of(lines);
        for (device, servers, rate) in THEIRS {
            let here = |line: &&&Line| {
                text(line, "of") == OF_SEPARATE
                    && text(line, "device") == device
                    && text(line, "side") == "auto"
                    && number(line, "servers") as u64 == servers
            };
            let Some(line) = own.iter().find(here) else { continue };
            findings.push(Finding {
                theirs: format!(
                    "On `{device}`, {servers} servers commit {rate:.2} times as many transactions of TPC-C with one log"
                ),
                ours: format!(
                    "{}: {:.2} times as many by `auto` ({:.2} to {:.2})",
                    setup.title(),
                    line.median,
                    line.min,
                    line.max
                ),
                holds: Some(line.median >= rate),
            });
        }
    }
    for (server, device, query) in asked(lines) {
        let time = |side: &str| {
            let here = |line: &&Line| {
                let at = [
                    ("server", &*server),
                    ("device", &*device),
                    ("query", &*query),
                    ("side", side),
                    ("beside", "writers"),
                ];
                line.metric == Metric::Elapsed && at.iter().all(|(key, value)| text(line, key) == *value)
            };
            of_readers(lines).into_iter().find(here).map(|line| line.median)
        };
        let Some((one, separate)) = time("auto").zip(time("separate")) else { continue };
        findings.push(Finding {
            theirs: "Queries 2 and 20 of TPC-H take as long with one log".to_owned(),
            ours: format!(
                "{server} on `{device}`, {query} beside servers that write: {} by `auto`, {} with separate logs",
                Unit::Time.show(one),
                Unit::Time.show(separate)
            ),
            holds: Some(one <= SAME * separate),
        });
    }
    findings
}

fn of_readers(lines: &[Line]) -> Vec<&Line> {
    lines.iter().filter(|line| line.bench == crate::readers::NAME).collect()
}

/// Each kind of server on each disk with each query.
fn asked(lines: &[Line]) -> Vec<(String, String, String)> {
    let mut asked = Vec::new();
    for line in of_readers(lines) {
        let key = ["server", "device", "query"].map(|key| text(line, key));
        let [server, device, query] = key;
        if !query.is_empty() && !asked.contains(&(server.clone(), device.clone(), query.clone())) {
            asked.push((server, device, query));
        }
    }
    asked
}

/// Each side with each number of servers.
fn table(page: &mut String, lines: &[&Line]) {
    let Some(first) = lines.first() else { return };
    let _ = writeln!(
        page,
        "\n{} clients of each server, {} warehouses with {} items and 10 times {} customers each, {} s a load.\n\n\
         | servers | side | commits | least | most | over separate | New-Orders | p50 | p99 | Payment p50 | gave way | taken back | \
         disk writes | disk syncs | disk bytes | requests a log write | pool's processors |\n\
         |---:|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
        text(first, "clients"),
        text(first, "warehouses"),
        text(first, "items"),
        text(first, "customers"),
        text(first, "seconds"),
    );
    for servers in numbers(lines, "servers") {
        for side in texts(lines.iter().copied(), "side") {
            let here = |line: &&&Line| number(line, "servers") as u64 == servers && text(line, "side") == side;
            let own: Vec<&Line> = lines.iter().filter(here).copied().collect();
            let of = |transaction: &str| {
                Figures(own.iter().filter(|line| text(line, "transaction") == transaction).copied().collect())
            };
            let (all, orders, payments) = (of("all"), of("new-order"), of("payment"));
            let Some(rate) = with(&all.0, Metric::Throughput).first().copied() else { continue };
            let is_plain = |line: &&&Line| ["transaction", "of", "reason"].iter().all(|key| text(line, key).is_empty());
            let plain = Figures(own.iter().filter(is_plain).copied().collect());
            let count = |metric| plain.median(metric).map_or_else(String::new, |count| format!("{count:.2}"));
            let ratio = |of: &str| {
                let found = own.iter().find(|line| text(line, "of") == of);
                found.map_or_else(String::new, |line| format!("{:.2}", line.median))
            };
            let _ = writeln!(
                page,
                "| {servers} | {side} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
                Unit::Rate.show(rate.median),
                Unit::Rate.show(rate.min),
                Unit::Rate.show(rate.max),
                ratio(OF_SEPARATE),
                orders.show(Metric::Throughput, Unit::Rate),
                orders.show(Metric::LatencyP50, Unit::Time),
                orders.show(Metric::LatencyP99, Unit::Time),
                payments.show(Metric::LatencyP50, Unit::Time),
                plain.show(Metric::Aborts, Unit::Share),
                plain.show(Metric::Rollbacks, Unit::Share),
                count(Metric::Writes),
                count(Metric::Syncs),
                plain.show(Metric::BytesWritten, Unit::Bytes),
                ratio("requests over log writes"),
                ratio("pool's processor over elapsed"),
            );
        }
    }
    page.push_str(
        "\nCommits are those of all servers and of all five types; p50 and p99 are New-Order's. Disk writes, syncs and bytes are \
         those of each commit, reads not counted.\n",
    );
}

/// The reader, by side.
fn readers(page: &mut String, lines: &[Line]) {
    let all = of_readers(lines);
    let Some(first) = all.first() else { return };
    let _ = writeln!(
        page,
        "\n## A reader beside servers that write\n\nOne server has TPC-H's tables at scale {} on the disk and next to no memory for \
         them; in each round it is asked queries 2 and 20, {} of each while nobody writes, and again while {} others insert a row a \
         transaction. Times are medians.\n\n\
         | server | disk | query | side | alone | beside writers | least | most | over alone | rows written |\n\
         |---|---|---|---|---:|---:|---:|---:|---:|---:|",
        text(first, "scale"),
        text(first, "times"),
        text(first, "writers"),
    );
    for (server, device, query) in asked(lines) {
        let here = |line: &&&Line| text(line, "server") == server && text(line, "device") == device;
        let here: Vec<&Line> = all.iter().filter(here).copied().collect();
        for side in texts(here.iter().copied(), "side") {
            let own: Vec<&Line> = here.iter().filter(|line| text(line, "side") == side).copied().collect();
            let find = |parts: &[(&str, &str)]| {
                own.iter().find(|line| parts.iter().all(|(key, value)| text(line, key) == *value)).copied()
            };
            let alone = find(&[("query", &query), ("beside", "nobody")]);
            let Some(beside) = find(&[("query", &query), ("beside", "writers")]) else { continue };
            let show = |line: Option<&Line>, unit: Unit| line.map_or_else(String::new, |line| unit.show(line.median));
            let over = find(&[("query", &query), ("of", "beside writers over alone")]);
            let _ = writeln!(
                page,
                "| {server} | `{device}` | {query} | {side} | {} | {} | {} | {} | {} | {} |",
                show(alone, Unit::Time),
                Unit::Time.show(beside.median),
                Unit::Time.show(beside.min),
                Unit::Time.show(beside.max),
                over.map_or_else(String::new, |line| format!("{:.2}", line.median)),
                show(find(&[("who", "writers")]), Unit::Rate),
            );
        }
    }
}
