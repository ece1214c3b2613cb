//! The experiments of paper 5, chapter 2, without the `ishigaki` program, which takes long to build.
//!
//! ```sh
//! cargo run --release -p ishigaki-bench --example paper5a -- OUT SCRATCH FEWER SMALLER ROUNDS [PART,…]
//! cargo run --release -p ishigaki-bench --example paper5a -- docs/results /tmp 50 20 3 all
//! ```
//!
//! Lines, plots and page go to OUT. `draw OUT FILE …` draws the lines of files again. As root, with Debian's nfs-ganesha-vfs, rpcbind, samba and rsync, and
//! rclone where it is to be a rival. Ctrl-C ends it, and nothing stays behind.

#[path = "program/told.rs"]
mod told;

use std::path::PathBuf;
use std::process::Command;

use ishigaki_base::random::Seed;
use ishigaki_bench::figures::{self, Paper, p5a};
use ishigaki_bench::migration::tree::{Shape, Shrink};
use ishigaki_bench::{Origin, Progress, table};

use told::{Failure, STOP, until_told};

const USAGE: &str = "\
usage: paper5a OUT SCRATCH FEWER SMALLER ROUNDS [PART,…]
       paper5a draw OUT FILE …

PART is all, or some of: cut-over small office media wan first work response. For example:
       paper5a docs/results /tmp 50 20 3 all";

/// Says each step on stderr, and keeps the least and the most load that it saw.
struct Told {
    loads: Vec<f64>,
}

impl Progress for Told {
    fn step(&mut self, now: &str, done: u64, of: u64) {
        eprintln!("{done}/{of} {now}");
        self.loads.extend(load());
    }
}

/// How many processes ran or waited for a processor, in the last minute.
fn load() -> Option<f64> {
    std::fs::read_to_string("/proc/loadavg").ok()?.split(' ').next()?.parse().ok()
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["draw", out, ref files @ ..] => {
            let lines: Vec<_> = files.iter().map(|file| figures::read(file.as_ref())).collect::<Result<_, _>>()?;
            figures::write(out.as_ref(), Paper::P5a, &lines.concat())?;
            Ok(())
        }
        [out, scratch, fewer, smaller, rounds, ref parts @ ..] => {
            measure(out, scratch, [fewer, smaller], rounds, parts)
        }
        _ => {
            println!("{USAGE}");
            Ok(())
        }
    }
}

fn measure(out: &str, scratch: &str, [fewer, smaller]: [&str; 2], rounds: &str, parts: &[&str]) -> Result<(), Failure> {
    let _end = until_told()?;
    let has = |word: &str| parts.iter().flat_map(|one| one.split(',')).any(|part| part == word || part == "all");
    let standard = p5a::Scale::standard();
    let scale = p5a::Scale {
        cut_over: has("cut-over").then_some(1.0),
        trees: Shape::OF_PAPER.into_iter().filter(|shape| has(&shape.to_string())).collect(),
        wan: has("wan"),
        depths: if has("first") { standard.depths } else { Vec::new() },
        work: standard.work.filter(|_| has("work")),
        opened: if has("response") { standard.opened } else { 0 },
        shrink: Shrink { files: fewer.parse()?, bytes: smaller.parse()? },
        rounds: rounds.parse()?,
        ..p5a::Scale::standard()
    };
    let origin = Origin::here(commit(), Seed(1));
    let settings = p5a::Settings { scale, scratch: PathBuf::from(scratch), origin, stop: &STOP };
    let mut told = Told { loads: load().into_iter().collect() };
    let mut lines = p5a::run(&settings, &mut told)?;
    let most = told.loads.iter().copied().fold(0.0, f64::max);
    let before = told.loads.first().copied().unwrap_or_default();
    for line in &mut lines {
        line.machine = format!("{}, load {before:.1} before and up to {most:.1} with the measurement", line.machine);
    }
    print!("{}", table(&lines));
    figures::write(out.as_ref(), Paper::P5a, &lines)?;
    Ok(())
}

/// Of the source that this was built of, as far as git can tell.
fn commit() -> String {
    let described =
        Command::new("git").args(["-C", env!("CARGO_MANIFEST_DIR"), "describe", "--always", "--dirty"]).output();
    let text = described.ok().filter(|output| output.status.success()).map(|output| output.stdout);
    text.map_or_else(|| "unknown".to_owned(), |text| String::from_utf8_lossy(&text).trim().to_owned())
}
