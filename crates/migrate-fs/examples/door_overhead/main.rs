//! What a door costs: the same operations on a directory and through a door, in turn, in one process.
//!
//! `cargo run --release -p ishigaki-migrate-fs --example door_overhead -- [--full] [--json] [--rounds N] [--only WORDS] [FOLDER]`. It works in a folder of
//! its own in `FOLDER`, or in that of temporary files, and removes it; takes root. Prints the median of the rounds for each operation, in
//! microseconds: on the directory, through the door, and the quotient bare to door, of the time and of the processors' time. Without `--full`
//! it does little, to see that it works; `--only mix` measures what has these words in its name.

mod mix;
mod operations;
mod served;

use std::error::Error;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ishigaki_migrate_fs::{AllHere, Door};
use operations::{OPERATIONS, Side, Sizes, prepare, timed};
use rustix::time::{ClockId, clock_gettime};
use served::OddIsServed;

const SMALL: Sizes = Sizes { file: 4 << 20, names: 1_000, calls: 100, mix: (40, 1) };
const FULL: Sizes = Sizes { file: 64 << 20, names: 1_000, calls: 2_000, mix: (800, 2) };

/// What the door reads itself.
const SERVED: &str = "read of 4 KiB of a stub";

struct Asked {
    sizes: Sizes,
    json: bool,
    rounds: usize,
    only: String,
    folder: PathBuf,
}

impl Asked {
    fn read(mut arguments: impl Iterator<Item = std::ffi::OsString>) -> Result<Self, Box<dyn Error>> {
        let mut asked =
            Self { sizes: SMALL, json: false, rounds: 3, only: String::new(), folder: std::env::temp_dir() };
        while let Some(argument) = arguments.next() {
            match argument.to_str() {
                Some("--full") => (asked.sizes, asked.rounds) = (FULL, 7),
                Some("--json") => asked.json = true,
                Some("--rounds") => {
                    let number = arguments.next().and_then(|number| number.to_str()?.parse().ok());
                    asked.rounds = number.filter(|&number| number > 0).ok_or("--rounds takes a number")?;
                }
                Some("--only") => {
                    let words = arguments.next().and_then(|words| words.into_string().ok());
                    asked.only = words.ok_or("--only takes words of an operation's name")?;
                }
                Some(other) if other.starts_with('-') => {
                    let usage = "door_overhead [--full] [--json] [--rounds N] [--only WORDS] [FOLDER]";
                    return Err(format!("{other}: usage: {usage}").into());
                }
                _ => asked.folder = argument.into(),
            }
        }
        Ok(asked)
    }
}

/// One operation.
struct Row {
    name: &'static str,
    bare: f64,
    door: f64,
    /// Seconds of processors for all of it, with what is made before and removed after.
    processors: [f64; 2],
}

impl Row {
    fn print(&self, json: bool) {
        let Self { name, bare, door, processors: [own, through] } = self;
        if json {
            println!(
                "{{\"operation\":\"{name}\",\"bare_us\":{bare:.3},\"door_us\":{door:.3},\"bare_processors_s\":{own:.4},\"door_processors_s\":{through:.4}}}"
            );
        } else {
            println!("{name:38}{bare:10.2}{door:10.2}{:8.2}{:12.2}", bare / door, own / through);
        }
    }
}

/// Seconds of processors that this process, which is the door too, has used. Other programs on the machine do not change that much.
fn busy() -> f64 {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    used.tv_sec as f64 + used.tv_nsec as f64 / 1e9
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

fn measure(place: &Path, asked: &Asked) -> Result<(), Box<dyn Error>> {
    let [bare, destination, at] = ["bare", "destination", "at"].map(|name| place.join(name));
    for directory in [&bare, &destination, &at] {
        fs::create_dir(directory)?;
    }
    prepare(&bare, asked.sizes)?;
    prepare(&destination, asked.sizes)?;
    let door = match Door::open(&destination, &at, Arc::new(AllHere)) {
        Ok(door) => door,
        // Where there is no FUSE, or another user than root, nothing is to be measured.
        Err(error) => {
            println!("SKIPPED: {error}");
            return Ok(());
        }
    };
    if !asked.json {
        println!("{:38}{:>10}{:>10}{:>8}{:>12}", "microseconds", "bare", "door", "ratio", "processors");
    }
    let sides = [bare, at.clone()].map(|folder| Side { folder, sizes: asked.sizes });
    for (name, operation) in OPERATIONS.into_iter().filter(|(name, _)| name.contains(&asked.only)) {
        let mut took = [Vec::new(), Vec::new()];
        let mut processors = [0.0; 2];
        for _ in 0..asked.rounds {
            for ((side, took), processors) in sides.iter().zip(&mut took).zip(&mut processors) {
                let began = busy();
                took.push(operation(side)?);
                *processors += busy() - began;
            }
        }
        let [bare, door] = took.map(median);
        Row { name, bare, door, processors }.print(asked.json);
    }
    drop(door);
    if !SERVED.contains(&asked.only) {
        return Ok(());
    }
    serve(&destination, &at, asked)
}

/// What the door reads and writes itself, because something of it may be missing.
fn serve(destination: &Path, at: &Path, asked: &Asked) -> Result<(), Box<dyn Error>> {
    fs::write(destination.join("odd"), vec![1; 1_000_001])?;
    let door = Door::open(destination, at, Arc::new(OddIsServed))?;
    let mut took = [Vec::new(), Vec::new()];
    let mut processors = [0.0; 2];
    for _ in 0..asked.rounds {
        for ((folder, took), processors) in [destination, at].iter().zip(&mut took).zip(&mut processors) {
            let began = busy();
            let file = OpenOptions::new().read(true).open(folder.join("odd"))?;
            let mut bytes = [0; 4096];
            took.push(timed(asked.sizes.calls, |number| -> io::Result<()> {
                file.read_exact_at(&mut bytes, u64::from(number % 200) * 4096)
            })?);
            *processors += busy() - began;
        }
    }
    let [bare, served] = took.map(median);
    Row { name: SERVED, bare, door: served, processors }.print(asked.json);
    drop(door);
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let asked = Asked::read(std::env::args_os().skip(1))?;
    let place = tempfile::tempdir_in(&asked.folder)?;
    measure(place.path(), &asked)
}
