//! `ishigaki media`: what a medium can do, before anything is put on it; media that are not there; and what networks there are.
//!
//! Parts: [`fabric`] is what libfabric tells, [`emulate`] a block device that is a modelled drive.

mod emulate;
mod fabric;

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use ishigaki_base::ByteSize;
use ishigaki_base::random::Seed;
use ishigaki_bench::{Origin, media};
use ishigaki_device::{
    Device, FileDevice, Place, ProbeCase, ProbeReport, ProbeRun, ProbeSettings, RawDirectory, probe,
};
use ishigaki_remote::Anywhere;

use super::parse_seconds;
use crate::failure::Failure;

const EXAMPLES: &str = "\
Examples:
  ishigaki media probe /srv/data                 synchronous appends by 1, 2 and 4 threads in four sizes
  ishigaki media probe /srv/data --threads 1,16 --sizes 4KiB --seconds 5
  ishigaki media probe /srv/data --json          the same as JSON lines
  ishigaki media probe node://10.0.0.7:7117/t    a directory of a storage node's
  ishigaki media probe --fabric                  which networks libfabric knows here
  ishigaki media emulate hdd --size 2GiB --at /srv/disk    a block device with the times of a hard disk
  ishigaki media format /dev/sdb                 prepare a block device, then use it as raw:/dev/sdb";

/// Measure what a medium can do, emulate one that is not there, and prepare raw devices
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Probe(Box<ProbeArguments>),
    Emulate(emulate::Arguments),
    Format(FormatArguments),
}

/// Prepare a block device, or a file of a fixed size, to hold a database without a file system
///
/// What is on the device is lost. Afterwards `raw:PATH` names it, wherever a directory can be given.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
struct FormatArguments {
    /// The block device or file
    #[arg(value_name = "PATH")]
    path: PathBuf,

    /// Also when there is something on it
    #[arg(long)]
    force: bool,
}

/// Synchronous appends by several threads in several sizes, and what the medium supports
///
/// Every thread appends to a preallocated file of its own, each write durable before the next; the cases alternate over
/// the rounds, and each run reads its last writes back. Nothing stays on the medium.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
struct ProbeArguments {
    /// What to measure: a directory, ring:DIR, raw:PATH, node://HOST:PORT/DIR, mem, or a modelled medium: ssd, hdd, nvm:500ns
    #[arg(value_name = "PLACE", required_unless_present = "fabric")]
    place: Option<Anywhere>,

    /// Measure nothing and show by which networks libfabric could reach other hosts
    #[arg(long, conflicts_with = "place")]
    fabric: bool,

    /// How many threads write beside each other; each count is measured with each size
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_value = "1,2,4")]
    threads: Vec<usize>,

    /// Bytes of a write
    #[arg(long, value_name = "SIZES", value_delimiter = ',', default_value = "512B,4KiB,16KiB,64KiB")]
    sizes: Vec<ByteSize>,

    /// Time of each case in each round
    #[arg(long, value_name = "S", default_value = "0.5", value_parser = parse_seconds)]
    seconds: Duration,

    /// Rounds of each case
    #[arg(long, value_name = "NUMBER", default_value_t = 3)]
    rounds: usize,

    /// The seed of the bytes that are written, as in 7 or 0x2a; drawn if it is not given
    #[arg(long, value_name = "NUMBER")]
    seed: Option<Seed>,

    /// Print figures as JSON, one object a line, and nothing else on stdout
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Failure> {
    match arguments.command {
        Command::Probe(arguments) if arguments.fabric => fabric::run(arguments.json),
        Command::Probe(arguments) => run_probe(*arguments),
        Command::Emulate(arguments) => emulate::run(&arguments),
        Command::Format(arguments) => format(&arguments),
    }
}

fn failed(error: ishigaki_device::Error) -> Failure {
    Failure::of(error.kind(), error).without_hint()
}

fn format(FormatArguments { path, force }: &FormatArguments) -> Result<(), Failure> {
    let device = Arc::new(FileDevice::open_path(path).map_err(failed)?);
    let size = ByteSize(device.len());
    let formatted = if *force { RawDirectory::format_anyway(device) } else { RawDirectory::format(device) };
    drop(
        formatted
            .map_err(|error| failed(error).with_hint("`--force` formats it all the same; what is on it is lost"))?,
    );
    writeln!(io::stdout(), "{} is formatted, {size}; name it raw:{}", path.display(), path.display())?;
    Ok(())
}

fn run_probe(arguments: ProbeArguments) -> Result<(), Failure> {
    let ProbeArguments { place, threads, sizes, seconds, rounds, seed, json, .. } = arguments;
    let place = place.ok_or_else(|| Failure::usage("what is to be measured?"))?;
    let seed = seed.unwrap_or_else(Seed::from_entropy);
    let settings = ProbeSettings { threads, sizes, duration: seconds, rounds, seed, ..ProbeSettings::default() };
    settings.validate().map_err(|error| Failure::usage(error.to_string()))?;
    let site = Site::of(&place)?;
    let directory = site.place.open().map_err(|error| Failure::of(error.kind(), error).without_hint())?;
    let bar = ProgressBar::no_length();
    bar.set_style(
        ProgressStyle::with_template("{wide_bar} {pos}/{len} {msg}").unwrap_or_else(|_| ProgressStyle::default_bar()),
    );
    let report = probe(directory.as_ref(), &settings, &mut |step| {
        // The files have no names any more; without the directory nothing stays even if this process is killed.
        site.remove();
        bar.set_length(step.of);
        bar.set_position(step.done);
        bar.set_message(format!("{} of {}", crate::human::counted(step.threads as u64, "thread"), step.size));
        ControlFlow::Continue(())
    });
    bar.finish_and_clear();
    let report = report.map_err(failed)?;
    let origin = Origin::here(env!("ISHIGAKI_COMMIT"), seed);
    let text = if json { lines(&report, &place, &origin) } else { table(&report, &place, &origin) };
    io::stdout().write_all(text.as_bytes())?;
    Ok(())
}

/// Where to measure: in a file system a fresh directory below the given one, gone when dropped; else the place itself.
struct Site {
    place: Anywhere,
    fresh: Option<PathBuf>,
}

impl Site {
    fn of(place: &Anywhere) -> Result<Self, Failure> {
        let (path, kind): (_, fn(PathBuf) -> Place) = match place {
            Anywhere::Here(Place::File(path)) => (path, Place::File),
            Anywhere::Here(Place::Ring(path)) => (path, Place::Ring),
            other => return Ok(Self { place: other.clone(), fresh: None }),
        };
        let attributes = fs::metadata(path).map_err(|error| Failure::file(path.display(), &error))?;
        if !attributes.is_dir() {
            return Err(Failure::invalid(format!("{} is not a directory", path.display()))
                .with_hint("a block device is prepared by `ishigaki media format` and then named raw:PATH"));
        }
        let site = path.join(format!("media-probe-{}", std::process::id()));
        fs::create_dir(&site).map_err(|error| Failure::file(site.display(), &error))?;
        Ok(Self { place: kind(site.clone()).into(), fresh: Some(site) })
    }

    fn remove(&self) {
        if let Some(fresh) = &self.fresh {
            // Nothing more can be done about what can not be removed; the name says whose it was.
            let _ = fs::remove_dir_all(fresh);
        }
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.remove();
    }
}

/// A JSON object for each case and metric.
fn lines(report: &ProbeReport, place: &Anywhere, origin: &Origin) -> String {
    media::lines(report, &place.to_string(), origin).iter().fold(String::new(), |text, line| text + &line.json() + "\n")
}

/// What a person reads.
fn table(report: &ProbeReport, place: &Anywhere, origin: &Origin) -> String {
    let promise = report.promise;
    let known = |yes| if yes { "yes" } else { "no" };
    let mut text = format!(
        "{} on {}, source {}, seed {}\n\
         blocks of {}, atomic writes of {}, direct I/O: {}, trim: {}, writes through (FUA): {}\n\n",
        match place {
            Anywhere::Here(Place::File(path)) => path.display().to_string(),
            other => other.to_string(),
        },
        origin.machine,
        origin.commit,
        origin.seed,
        ByteSize(promise.block_size as u64),
        ByteSize(promise.atomic_write as u64),
        known(promise.direct),
        known(promise.trim),
        report.writes_through.map_or("not known", known),
    );
    let heads = ["threads", "size", "writes/s", "bandwidth", "p50", "p99", "spread"].map(str::to_owned);
    let rows: Vec<[String; 7]> = [heads].into_iter().chain(report.cases.iter().map(row)).collect();
    let widths: Vec<usize> =
        (0..7).map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)).collect();
    for row in &rows {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:>width$}")).collect();
        let _ = writeln!(text, "{}", cells.join("  "));
    }
    for size in &report.left_out {
        let _ = writeln!(text, "{size} is left out: it is no multiple of the medium's blocks");
    }
    text
}

fn row(case: &ProbeCase) -> [String; 7] {
    let micros = |of: fn(&ProbeRun) -> Duration| format!("{:.1} µs", case.median(|run| of(run).as_secs_f64()) * 1e6);
    let throughputs = || case.runs.iter().map(|run| run.throughput);
    let (least, most) = (throughputs().fold(f64::INFINITY, f64::min), throughputs().fold(0.0, f64::max));
    let middle = case.median(|run| run.throughput);
    [
        case.threads.to_string(),
        case.size.to_string(),
        format!("{middle:.0}"),
        format!("{:.1} MB/s", case.bandwidth() / 1e6),
        micros(|run| run.latency_p50),
        micros(|run| run.latency_p99),
        // Half the distance between the slowest and the fastest round.
        format!("±{:.0}%", (most - least) / 2.0 / middle.max(f64::MIN_POSITIVE) * 100.0),
    ]
}
