//! What the way to the source costs a crawler.
//!
//! `cargo run --release -p ishigaki-migrate --example crawl` copies a tree of many small files, deep in directories, from a source in memory each of whose calls takes
//! a round trip of so many milliseconds, into a directory in memory, or into one of a file system: `-- --to /srv/empty`. `--directories N`, `--files N` (in each),
//! `--parallel N` and `--milliseconds N` say how many.

#[path = "../tests/distant/mod.rs"]
#[allow(dead_code, reason = "a test looks at what this does not")]
mod distant;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use distant::{Distant, Trip, deep_tree};
use ishigaki_migrate::destination::Destination;
use ishigaki_migrate::destination::local::Local;
use ishigaki_migrate::destination::simulated::Simulated;
use ishigaki_migrate::engine::{Crawl, Engine, Origin, Passes, Settings};
use ishigaki_migrate::source::Cancel;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

struct Arguments {
    to: Option<PathBuf>,
    directories: usize,
    files: usize,
    parallel: usize,
    milliseconds: Vec<u64>,
}

fn arguments() -> Result<Arguments> {
    let (parallel, milliseconds) = (Crawl::default().threads, vec![0, 5, 20, 100]);
    let mut parsed = Arguments { to: None, directories: 400, files: 5, parallel, milliseconds };
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{name} needs a value"))?;
        match name.as_str() {
            "--to" => parsed.to = Some(value.into()),
            "--directories" => parsed.directories = value.parse()?,
            "--files" => parsed.files = value.parse()?,
            "--parallel" => parsed.parallel = value.parse()?,
            "--milliseconds" => parsed.milliseconds = vec![value.parse()?],
            _ => {
                return Err(format!(
                    "no option {name}: there are --to, --directories, --files, --parallel, --milliseconds"
                )
                .into());
            }
        }
    }
    Ok(parsed)
}

/// Seconds, and round trips that waited for each other where they are counted.
fn crawl<D: Destination>(destination: D, arguments: &Arguments, trip: Trip, passes: Passes) -> Result<(f64, u64)> {
    let (tree, _) = deep_tree(arguments.directories, arguments.files);
    let source = Arc::new(Distant::new(tree, trip));
    let origin = Origin { source: source.clone(), at: PathBuf::new() };
    let engine = Engine::open(destination, vec![origin], Settings::default(), &Cancel::new())?;
    let (began, before) = (Instant::now(), source.trips());
    engine.crawl(&Crawl { threads: arguments.parallel, passes, ..Crawl::default() }, &Cancel::new())?;
    let took = (began.elapsed().as_secs_f64(), source.trips() - before);
    engine.finish()?;
    Ok(took)
}

/// The same, into memory or into a new directory that is removed then.
fn measured(arguments: &Arguments, trip: Trip, passes: Passes) -> Result<(f64, u64)> {
    let Some(to) = &arguments.to else { return crawl(Simulated::new(), arguments, trip, passes) };
    let directory = to.join("crawl");
    std::fs::create_dir(&directory)?;
    let took = crawl(Local::open(&directory)?, arguments, trip, passes);
    std::fs::remove_dir_all(&directory)?;
    took
}

fn main() -> Result<()> {
    let arguments = arguments()?;
    let Arguments { directories, files, parallel, .. } = &arguments;
    println!("{directories} directories, ten deep, each with {files} small files; {parallel} lots at a time");
    for passes in [Passes::MetadataFirst, Passes::Bulk] {
        let counted = measured(&arguments, Trip::EndsWhenQuiet(Duration::from_millis(20)), passes)?.1;
        println!("{passes:?}: {counted} round trips that wait for each other");
        for milliseconds in &arguments.milliseconds {
            let trip = Trip::Takes(Duration::from_millis(*milliseconds));
            println!("  {milliseconds:>3} ms: {:>7.3} s", measured(&arguments, trip, passes)?.0);
        }
    }
    Ok(())
}
