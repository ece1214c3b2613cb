//! The experiments of paper 5, chapter 2, without the `ishigaki` program, which takes long to build.
//!
//! ```sh
//! cargo run --release -p ishigaki-bench --example paper5a -- OUT SCRATCH FEWER SMALLER ROUNDS [PART,…]
//! cargo run --release -p ishigaki-bench --example paper5a -- docs/results /tmp 50 20 3 all
//! ```
//!
//! Lines, plots and page go to OUT. `draw OUT FILE …` draws the lines of files again. As root, with Debian's nfs-ganesha-vfs, rpcbind, samba and rsync, and
//! rclone where it is to be a rival. Ctrl-C ends it, and nothing stays behind.

#[path = "program/measured.rs"]
mod measured;
#[path = "program/told.rs"]
mod told;

use std::path::PathBuf;

use ishigaki_bench::figures::{Paper, p5a};
use ishigaki_bench::migration::tree::{Shape, Shrink};

use measured::{Told, draw, origin};
use told::{Failure, STOP, until_told};

const USAGE: &str = "\
usage: paper5a OUT SCRATCH FEWER SMALLER ROUNDS [PART,…]
       paper5a draw OUT FILE …

PART is all, or some of: cut-over small office media wan first work response. For example:
       paper5a docs/results /tmp 50 20 3 all";

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["draw", out, ref files @ ..] => draw(out, Paper::P5a, files),
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
    let settings = p5a::Settings { scale, scratch: PathBuf::from(scratch), origin: origin(), stop: &STOP };
    let mut told = Told::new();
    let lines = p5a::run(&settings, &mut told)?;
    told.write(out, Paper::P5a, lines)
}
