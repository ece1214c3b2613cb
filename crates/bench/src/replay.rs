//! `replay`: the page accesses of a query, done again (paper 3, section 4): from our own disk, from a storage node's, and from
//! there with the client's cache.
//!
//! ```text
//! a node with notes ─▶ trace ─┬─▶ local:  this process from the files themselves
//!                             ├─▶ remote: from a node, which reads each time anew
//!                             ├─▶ cached: from there through a cache of some size, empty at the beginning
//!                             └─▶ lru:    only counted: the hits of a cache of the same size that drops the oldest
//! ```
//!
//! Each side has as many readers as reads are to be in flight; they take the next read of the trace. In a round all sides
//! run, in an order drawn anew, and a ratio is that of two sides of the same round. A *hit* is a page that the node was not asked
//! for: one that was there, or on its way for another reader. First every side reads the whole trace
//! once, and each read must bring the bytes that lie in the file; later the ends of each read are looked at.
//!
//! Rooms: `trace` is what is done again, `side` does it, `lru` counts, `report` makes lines and the table.

mod lru;
mod report;
mod side;
mod trace;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ishigaki_base::ByteSize;
use ishigaki_device::{Device, Directory, FileDirectory};
use ishigaki_fabric::Security;
use ishigaki_remote::{CacheSettings, CacheStatistics, Client, ClientSettings};

use crate::node::{Node, NodeOptions};
use crate::{Case, Error, Line, Origin, Progress, Result};
use side::Content;

pub use lru::hit_ratio;
pub use report::table;
pub use trace::{Access, Trace};

/// The workload's name in figures and errors.
const NAME: &str = "replay";

/// What is done again, and how.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The folder of the files that were read.
    pub folder: PathBuf,
    /// The program that serves when it is called as `PROGRAM node …`.
    pub program: PathBuf,
    /// The reads.
    pub trace: Trace,
    /// What is known of them, for the lines: the query, how often it was run, the tables' pages.
    pub case: Case,
    /// Sizes of the cache in percent of all different pages that are read. Default 25, 50 and 125.
    pub shares: Vec<u32>,
    /// What the cache keeps and drops together. Default 16 KiB.
    pub page: ByteSize,
    /// Reads that are in flight. Default 4.
    pub readers: usize,
    /// Rounds of all sides. Default 5.
    pub rounds: usize,
    /// Where the figures come from.
    pub origin: Origin,
}

impl Settings {
    /// The defaults.
    pub fn new(folder: impl Into<PathBuf>, program: impl Into<PathBuf>, trace: Trace, origin: Origin) -> Self {
        Self {
            folder: folder.into(),
            program: program.into(),
            trace,
            case: Case::new(),
            shares: vec![25, 50, 125],
            page: CacheSettings::default().page,
            readers: 4,
            rounds: 5,
            origin,
        }
    }

    fn validate(&self) -> Result<()> {
        if self.rounds == 0 {
            return Err(Error::invalid("rounds", "at least one round is needed, and an odd number has a median"));
        }
        if !(1..=64).contains(&self.readers) {
            return Err(Error::invalid("depth", "give a number of reads in flight from 1 to 64, such as 4"));
        }
        if self.shares.iter().any(|share| !(1..=1000).contains(share)) {
            return Err(Error::invalid("cache", "give one or more shares from 1 to 1000 percent, such as 25,50,125"));
        }
        if self.trace.accesses.is_empty() {
            return Err(Error::invalid("trace", "nothing was read; is there a node's table in the query?"));
        }
        Ok(())
    }

    /// What a cache of that share may take. A cache has room for a few pages at least.
    fn memory(&self, share: u32) -> ByteSize {
        let pages = self.trace.footprint(self.page.as_u64()) as u64 * u64::from(share) / 100;
        ByteSize(pages.max(16) * self.page.as_u64())
    }
}

/// One side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Local,
    Remote,
    /// With a cache of so many percent.
    Cached(u32),
}

/// All that one side came to.
#[derive(Debug, Default)]
struct Taking {
    seconds: Vec<f64>,
    hit_ratios: Vec<f64>,
}

/// Measures and checks.
pub fn run(settings: &Settings, progress: &mut dyn Progress) -> Result<Vec<Line>> {
    settings.validate()?;
    let options = NodeOptions { connections: settings.readers + 1, ..NodeOptions::default() };
    let mut node = Node::start(&settings.program, &settings.folder, &options)?;
    measure(settings, &node, progress).map_err(|error| node.explain(error))
}

fn measure(settings: &Settings, node: &Node, progress: &mut dyn Progress) -> Result<Vec<Line>> {
    let trace = &settings.trace;
    let cached = settings.shares.iter().map(|&share| Side::Cached(share));
    let sides: Vec<Side> = [Side::Local, Side::Remote].into_iter().chain(cached).collect();
    let (of, mut done) = ((sides.len() * (settings.rounds + 1)) as u64, 0);
    progress.step("what is to be read", done, of);
    let local = open(&FileDirectory::open(&settings.folder)?, &trace.files)?;
    let contents = side::contents(trace, &local)?;
    let mut takings: Vec<(Side, Taking)> = sides.iter().map(|&side| (side, Taking::default())).collect();
    let mut random = settings.origin.seed.derive(1).generator();
    for round in 0..=settings.rounds {
        let mut order: Vec<usize> = (0..sides.len()).collect();
        random.shuffle(&mut order);
        for at in order {
            let (side, taking) = &mut takings[at];
            progress.step(&format!("{}, round {round}", report::name(*side)), done, of);
            let (time, statistics) = one(settings, node, *side, &local, &contents, round == 0)?;
            if round > 0 {
                taking.seconds.push(time.as_secs_f64());
                taking.hit_ratios.extend(statistics.map(|found| {
                    // An LRU that is counted has a page from the moment on at which it is first asked for.
                    let spared = found.hits + found.joined;
                    spared as f64 / (spared + found.misses).max(1) as f64
                }));
            }
            done += 1;
        }
    }
    Ok(report::lines(settings, &takings))
}

/// One side once, from nothing: no connection and no copy of a page is left from the last time.
fn one(
    settings: &Settings,
    node: &Node,
    side: Side,
    local: &[Arc<dyn Device>],
    contents: &[Content],
    wholly: bool,
) -> Result<(Duration, Option<CacheStatistics>)> {
    let (trace, readers) = (&settings.trace, settings.readers);
    let cache = match side {
        Side::Local => return Ok((side::replay(trace, local, readers, contents, wholly)?, None)),
        Side::Remote => None,
        Side::Cached(share) => Some(CacheSettings { memory: settings.memory(share), page: settings.page }),
    };
    let client = ClientSettings { cache, ..ClientSettings::default() };
    let client = Client::connect(node.address(), &client, &Security::Open)?;
    let files = open(&client.directory(""), &trace.files)?;
    let time = side::replay(trace, &files, readers, contents, wholly)?;
    Ok((time, client.cache_statistics()))
}

fn open(directory: &dyn Directory, files: &[String]) -> Result<Vec<Arc<dyn Device>>> {
    files.iter().map(|name| Ok(directory.open(name)?)).collect()
}
