//! The experiments of paper 5, chapter 3, without the `ishigaki` program, which takes long to build.
//!
//! ```sh
//! cargo run --release -p ishigaki-bench --example paper5b -- OUT SCRATCH SECONDS ROUNDS FIFTEENTHS [PART,…]
//! cargo run --release -p ishigaki-bench --example paper5b -- docs/results /tmp 10 3 1,2 all
//! ```
//!
//! Lines, plots and page go to OUT. `draw OUT FILE …` draws the lines of files again. As root, with Debian's `PostgreSQL` 15, and a control group for memory.
//! Ctrl-C ends it, and nothing stays behind.

#[path = "program/measured.rs"]
mod measured;
#[path = "program/told.rs"]
mod told;

use std::path::PathBuf;
use std::time::Duration;

use ishigaki_bench::figures::p5b::Part;
use ishigaki_bench::figures::{Paper, p5b};

use measured::{Told, draw, origin};
use told::{Failure, STOP, until_told};

const USAGE: &str = "\
usage: paper5b OUT SCRATCH SECONDS ROUNDS FIFTEENTHS [PART,…]
       paper5b draw OUT FILE …

SECONDS is what a phase takes, of which there are twice ten. FIFTEENTHS are the sizes of the fast device, of the data.
PART is all, or some of: none rival demand plain fixed fixed=R adaptive units. For example:
       paper5b docs/results /tmp 10 3 1,2 all
       paper5b /tmp/out /tmp 4 1 2 none,rival,demand,plain,fixed=0.4,adaptive";

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["draw", out, ref files @ ..] => draw(out, Paper::P5b, files),
        [out, scratch, seconds, rounds, fifteenths, ref parts @ ..] => {
            measure(out, scratch, [seconds, rounds], fifteenths, parts)
        }
        _ => {
            println!("{USAGE}");
            Ok(())
        }
    }
}

fn measure(
    out: &str,
    scratch: &str,
    [seconds, rounds]: [&str; 2],
    fifteenths: &str,
    parts: &[&str],
) -> Result<(), Failure> {
    let _end = until_told()?;
    let mut scale = p5b::Scale { rounds: rounds.parse()?, ..p5b::Scale::standard() };
    scale.size.phase = Duration::from_secs_f64(seconds.parse()?);
    scale.fifteenths = fifteenths.split(',').map(str::parse).collect::<Result<_, _>>()?;
    let named: Vec<&str> = parts.iter().flat_map(|part| part.split(',')).collect();
    if !named.is_empty() && !named.contains(&"all") {
        let shares: Vec<f64> =
            named.iter().filter_map(|part| part.strip_prefix("fixed=")).map(str::parse).collect::<Result<_, _>>()?;
        scale.parts = named
            .iter()
            .map(|part| part.split('=').next().unwrap_or(part).parse::<Part>())
            .collect::<Result<Vec<_>, _>>()?;
        scale.parts.dedup();
        if !shares.is_empty() {
            scale.shares = shares;
        }
    }
    let settings = p5b::Settings { scale, scratch: PathBuf::from(scratch), origin: origin(), stop: &STOP };
    let mut told = Told::new();
    let lines = p5b::run(&settings, &mut told)?;
    told.write(out, Paper::P5b, lines)
}
