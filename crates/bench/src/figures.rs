//! `figures`: all experiments of a paper at a given scale, and what is to be seen of them.
//!
//! ```text
//! p1() ──▶ lines ──▶ write(): p1.jsonl, a plot (SVG) for each chart, p1.md
//!            ▲
//!  read() ───┘ of an earlier run
//! ```
//!
//! Plots and page are made of lines and nothing else, so that they can be drawn again, from one run or from several. They
//! say for each medium and machine what was measured there; whatever has no lines is left out.

mod chart;
mod p1;
mod page;
mod paper;
mod units;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ishigaki_base::ByteSize;
use ishigaki_device::ProbeSettings;
use ishigaki_wal::{self as engine, LogKind};

pub use units::Unit;

use crate::wal::{COMMITS, LOGS, Variant, Workload};
use crate::{Error, Line, Origin, Progress, Result, Target, long, media, wal};

/// How much of it is measured.
#[derive(Clone, Debug)]
pub struct Scale {
    /// Measured time of each run of the log, and of the device beside it.
    pub duration: Duration,
    /// Runs of each case.
    pub rounds: usize,
    /// Workers of the log.
    pub workers: Vec<usize>,
    /// Threads of the device test.
    pub threads: Vec<usize>,
    /// Bytes of a write in the device test.
    pub sizes: Vec<ByteSize>,
    /// Time of each case of the device test in each round.
    pub probe: Duration,
    /// How long each side of long writing is written. Zero leaves it out.
    pub long: Duration,
    /// The interval of its figures.
    pub interval: Duration,
    /// Its workers.
    pub writers: usize,
    /// Bytes over all of them after which the log's space is freed.
    pub free_after: ByteSize,
}

impl Scale {
    /// Figures to be kept: a good half hour for each medium.
    pub fn standard() -> Self {
        let kib = [4, 8, 16, 32, 64, 128].map(ByteSize::kib);
        Self {
            duration: Duration::from_secs(2),
            rounds: 5,
            workers: vec![1, 2, 4, 8, 16],
            threads: vec![1, 2, 4, 8, 16],
            sizes: [ByteSize::b(512)].into_iter().chain(kib).collect(),
            probe: Duration::from_millis(500),
            long: Duration::from_mins(2),
            interval: Duration::from_secs(1),
            writers: 16,
            free_after: ByteSize::mib(128),
        }
    }

    /// A second or two for each fast medium, which shows that everything works and nothing else.
    pub fn smoke() -> Self {
        Self {
            duration: Duration::from_millis(10),
            rounds: 1,
            workers: vec![1, 2],
            threads: vec![1, 2],
            sizes: vec![ByteSize::kib(4), ByteSize::kib(8)],
            probe: Duration::from_millis(5),
            long: Duration::from_millis(60),
            interval: Duration::from_millis(10),
            writers: 2,
            free_after: ByteSize::kib(256),
        }
    }
}

/// What is measured of a paper.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How much of it.
    pub scale: Scale,
    /// On which media; each has its own plots.
    pub targets: Vec<Target>,
    /// The log's settings beside those that the experiments set.
    pub log: engine::Settings,
    /// The sides of long writing.
    pub sides: Vec<long::Side>,
    /// Where the figures come from.
    pub origin: Origin,
}

/// The experiments of paper 1 (P1.11 to P1.13): the device test, U-1, U-10 and New-Order on every log, and long
/// writing, whose space `free` makes free.
pub fn p1(settings: &Settings, free: &long::Free<'_>, progress: &mut dyn Progress) -> Result<Vec<Line>> {
    let Settings { scale, targets, log, sides, origin } = settings;
    let mut lines = Vec::new();
    for target in targets {
        let probing = ProbeSettings {
            threads: scale.threads.clone(),
            sizes: scale.sizes.clone(),
            duration: scale.probe,
            rounds: scale.rounds,
            seed: origin.seed,
            ..ProbeSettings::default()
        };
        lines.extend(media::run(&probing, target, origin, &mut Stage::new("device test", target, progress))?);
        let workload = wal::Settings {
            workloads: Workload::ALL.to_vec(),
            variants: variants(),
            workers: scale.workers.clone(),
            duration: scale.duration,
            rounds: scale.rounds,
            log: log.clone(),
            ..wal::Settings::new(target.clone(), origin.clone())
        };
        lines.extend(wal::run(&workload, &mut Stage::new("log", target, progress))?);
        if scale.long.is_zero() || sides.is_empty() {
            continue;
        }
        let writing = long::Settings {
            workers: scale.writers,
            duration: scale.long,
            interval: scale.interval,
            free_after: scale.free_after,
            ..long::Settings::new(sides.clone(), target.clone(), origin.clone())
        };
        lines.extend(long::run(&writing, free, &mut Stage::new("long writing", target, progress))?);
    }
    Ok(lines)
}

/// Every log; both rules where the rule makes a difference.
fn variants() -> Vec<Variant> {
    let rules = |log| if log == LogKind::Parallel { &COMMITS[..] } else { &COMMITS[..1] };
    LOGS.iter().flat_map(|&log| Variant::product(&[log], rules(log))).collect()
}

/// Writes the lines, their plots and the page about paper 1 into a directory, which is made if it is not there. Gives the
/// files.
pub fn write(directory: &Path, lines: &[Line]) -> Result<Vec<PathBuf>> {
    let plots = plots(lines)?;
    let json: String = lines.iter().map(|line| line.json() + "\n").collect();
    let page = page::page(lines, &plots.iter().map(|plot| (plot.name.clone(), plot.title.clone())).collect::<Vec<_>>());
    let files = plots.into_iter().map(|plot| (format!("{}.svg", plot.name), plot.svg));
    let files = [("p1.jsonl".to_owned(), json), ("p1.md".to_owned(), page)].into_iter().chain(files);
    fs::create_dir_all(directory).map_err(|source| failed(directory, "making the directory", source))?;
    files
        .map(|(name, content)| {
            let path = directory.join(name);
            fs::write(&path, content).map_err(|source| failed(&path, "writing a figure", source))?;
            Ok(path)
        })
        .collect()
}

/// A plot that was drawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plot {
    /// Its file's name, without the ending.
    pub name: String,
    /// What is to be seen.
    pub title: String,
    /// The picture. Of the same lines always the same.
    pub svg: String,
}

/// The plots of paper 1 that these lines give.
pub fn plots(lines: &[Line]) -> Result<Vec<Plot>> {
    let draw = |chart: chart::Chart| {
        let svg = chart.svg()?;
        Ok(Plot { name: chart.name, title: chart.title, svg })
    };
    p1::charts(lines).into_iter().map(draw).collect()
}

/// The page about paper 1 for these lines, in Markdown.
pub fn page(lines: &[Line], plots: &[Plot]) -> String {
    page::page(lines, &plots.iter().map(|plot| (plot.name.clone(), plot.title.clone())).collect::<Vec<_>>())
}

/// The lines of an earlier run, from a file with an object a line.
pub fn read(path: &Path) -> Result<Vec<Line>> {
    let text = fs::read_to_string(path).map_err(|source| failed(path, "reading lines", source))?;
    let parse = |(at, line): (usize, &str)| {
        serde_json::from_str(line).map_err(|error| Error::Invalid {
            setting: "lines",
            reason: format!("{}, line {}: {error}", path.display(), at + 1),
        })
    };
    text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()).map(parse).collect()
}

fn failed(path: &Path, operation: &'static str, source: std::io::Error) -> Error {
    Error::Io { path: path.to_owned(), operation, source }
}

/// Puts the name of the experiment before what it says.
struct Stage<'a> {
    before: String,
    progress: &'a mut dyn Progress,
}

impl<'a> Stage<'a> {
    fn new(name: &str, target: &Target, progress: &'a mut dyn Progress) -> Self {
        Self { before: format!("{} on {}", name, target.name()), progress }
    }
}

impl Progress for Stage<'_> {
    fn step(&mut self, now: &str, done: u64, of: u64) {
        self.progress.step(&format!("{}: {now}", self.before), done, of);
    }
}
