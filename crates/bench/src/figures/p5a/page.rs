//! The page about paper 5, chapter 2: what the author found, what we aimed at, and our figures.

use std::fmt::Write as _;

use super::paper::{AIM_CUT_OVER, AIMS_OVER_RSYNC, CUT_OVER, OVER_RSYNC};
use crate::figures::cases::{machines, number, text};
use crate::figures::findings::{Finding, beside};
use crate::figures::units::Unit;
use crate::figures::{Plot, notes};
use crate::migration;
use crate::{Line, Metric};

/// The page for these lines, with the plots that were drawn of them.
pub(in crate::figures) fn page(lines: &[Line], plots: &[Plot]) -> String {
    let mut page = format!(
        "# The experiments of paper 5, chapter 2, run\n\n\
         The paper replaces a file server by one that serves at once and copies later: a patched kernel, and a crawler of one thread. Here it is \
         [`ishigaki migrate`](../migrate.md). The old server is Debian's NFS-Ganesha, version 3 of NFS, on a second host of the same machine: a network \
         namespace with half of the processors. The rival is `rsync -aHAX` from a daemon beside it. `lan` is a link of 1 Gbit/s as near as the machine's own \
         network; `wan` is the same link behind a relay that keeps all bytes for 10 ms in each direction. Both sides begin with an empty directory, \
         alternate in an order drawn anew for each round, and read from the server's warm memory. Our time ends when all is here *and durable*; rsync's when \
         rsync ends, which syncs nothing. Before there is a figure, bytes, owners, modes and times are compared with the source. All lines are in \
         [p5a.jsonl](p5a.jsonl).\n\n\
         Not here yet: the first access by depth and width, reading and mixed work during a migration, the distribution of response times, SMB.\n\n\
         | | machine |\n|---|---|\n{}\n{}\n",
        machines(lines),
        notes::place(),
    );
    beside(&mut page, "What the author found, and what holds here", "the paper", findings(lines));
    beside(&mut page, "What we aimed at", "aim", aims(lines));
    table(&mut page, lines);
    for Plot { name, title, .. } in plots {
        let _ = writeln!(page, "\n![{title}]({name}.svg)");
    }
    page
}

fn cut_overs(lines: &[Line]) -> impl Iterator<Item = &Line> {
    lines.iter().filter(|line| line.bench == migration::CUT_OVER)
}

fn ratios(lines: &[Line]) -> impl Iterator<Item = &Line> {
    lines.iter().filter(|line| line.bench == migration::TOTAL && line.metric == Metric::Ratio)
}

fn cut_over(line: &Line, theirs: String, limit: f64) -> Finding {
    let ours = format!("{} with {} files", Unit::Time.show(line.median), number(line, "files"));
    Finding { theirs, ours, holds: Some(line.max < limit) }
}

fn findings(lines: &[Line]) -> Vec<Finding> {
    let theirs = format!("clients can not reach a server for {CUT_OVER} s at most");
    let mut found: Vec<Finding> = cut_overs(lines).map(|line| cut_over(line, theirs.clone(), CUT_OVER)).collect();
    let near: Vec<&Line> = ratios(lines).filter(|line| text(line, "link") == "lan").collect();
    let slower = near.iter().map(|line| line.median).fold(0.0, f64::max);
    if slower > 0.0 {
        found.push(Finding {
            theirs: format!("up to {OVER_RSYNC:.2} times slower than rsync, by NFS"),
            ours: format!("{slower:.2} of rsync's time at worst"),
            holds: Some(slower > 1.0),
        });
    }
    found
}

fn aims(lines: &[Line]) -> Vec<Finding> {
    let aim = format!("`ls` of the root answers within {AIM_CUT_OVER} s");
    let mut aims: Vec<Finding> = cut_overs(lines).map(|line| cut_over(line, aim.clone(), AIM_CUT_OVER)).collect();
    for line in ratios(lines) {
        let (tree, link) = (text(line, "tree"), text(line, "link"));
        let Some((_, aim)) = AIMS_OVER_RSYNC.iter().find(|(of, _)| *of == link) else { continue };
        aims.push(Finding {
            theirs: format!("{tree}, {link}: at most {aim:.1} of rsync's time"),
            ours: format!("{:.2} (rounds {:.2} to {:.2})", line.median, line.min, line.max),
            holds: Some(line.median <= *aim),
        });
    }
    aims
}

fn table(page: &mut String, lines: &[Line]) {
    let total = |line: &&Line| line.bench == migration::TOTAL && line.metric == Metric::Elapsed;
    let mut own = lines.iter().filter(total).peekable();
    let Some(first) = own.peek() else { return };
    let _ = writeln!(
        page,
        "\n## Until all is here\n\nTrees have the directories, files, depths and mean sizes of the paper's data sets (table 2.2), with {} times fewer files that \
         are {} times smaller; processors: {}.\n\n\
         | tree | link | files | directories | bytes | side | time | least | most |\n|---|---|---:|---:|---:|---|---:|---:|---:|",
        number(first, "fewer"),
        number(first, "smaller"),
        text(first, "processors"),
    );
    for line in own {
        let [tree, link, side] = ["tree", "link", "side"].map(|key| text(line, key));
        let [time, least, most] = [line.median, line.min, line.max].map(|time| Unit::Time.show(time));
        let (files, directories) = (number(line, "files"), number(line, "directories"));
        let bytes = Unit::Bytes.show(number(line, "bytes"));
        let _ = writeln!(
            page,
            "| {tree} | {link} | {files} | {directories} | {bytes} | {side} | {time} | {least} | {most} |"
        );
    }
}
