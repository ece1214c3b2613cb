//! The experiments of paper 5, chapter 2, without the `ishigaki` program, which takes long to build.
//!
//! ```sh
//! cargo run --release -p ishigaki-bench --example paper5a -- OUT SCRATCH FEWER SMALLER ROUNDS [TREE,…] [cut-over] [wan]
//! cargo run --release -p ishigaki-bench --example paper5a -- /tmp/figures /tmp 100 20 3 small,media cut-over wan
//! ```
//!
//! Lines, plots and page go to OUT. As root, with Debian's nfs-ganesha-vfs, rpcbind and rsync.

use std::error::Error;
use std::path::{Path, PathBuf};

use ishigaki_base::random::Seed;
use ishigaki_bench::figures::{self, Paper, p5a};
use ishigaki_bench::migration::tree::{Shape, Shrink};
use ishigaki_bench::{Origin, Progress, table};

const USAGE: &str = "usage: paper5a OUT SCRATCH FEWER SMALLER ROUNDS [TREE,…] [cut-over] [wan]\n\
     for example: paper5a /tmp/figures /tmp 100 20 3 small,office,media cut-over wan";

struct Told;

impl Progress for Told {
    fn step(&mut self, now: &str, done: u64, of: u64) {
        eprintln!("{done}/{of} {now}");
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [out, scratch, fewer, smaller, rounds, more @ ..] = &arguments[..] else {
        println!("{USAGE}");
        return Ok(());
    };
    let has = |word: &str| more.iter().any(|one| one == word);
    let named = |shape: &Shape| more.iter().flat_map(|one| one.split(',')).any(|name| name == shape.to_string());
    let scale = p5a::Scale {
        cut_over: has("cut-over").then_some(1.0),
        trees: Shape::OF_PAPER.into_iter().filter(named).collect(),
        wan: has("wan"),
        shrink: Shrink { files: fewer.parse()?, bytes: smaller.parse()? },
        rounds: rounds.parse()?,
    };
    let settings = p5a::Settings { scale, scratch: PathBuf::from(scratch), origin: Origin::here("unknown", Seed(1)) };
    let lines = p5a::run(&settings, &mut Told)?;
    print!("{}", table(&lines));
    figures::write(Path::new(out), Paper::P5a, &lines)?;
    Ok(())
}
