//! The experiments of paper 3 as a whole: reads from a storage node (P3.3), the replay of a query's page accesses (P3.4), and
//! whole queries in every placement by the size of pages (P3.5); and ours, over a link to a host of its own that may be busy.
//!
//! ```text
//! DIR/bench-p3-… ── a folder of data for each size of pages, made and removed again
//! bench::remote ┐
//! record, bench::replay ├─▶ lines, which bench::figures draws
//! run           ┘
//! ```

use std::path::{Path, PathBuf};
use std::time::Duration;

use ishigaki_base::ByteSize;
use ishigaki_bench::hosts::Speed;
use ishigaki_bench::{Line, Origin, Progress, Stage, remote, replay};
use ishigaki_remote::Mode;
use ishigaki_scan::{Placement, Wish};

use crate::apart::{Apart, Load, run_apart};
use crate::{Error, Host, LoadSettings, Query, Recording, Result, Settings, load, record, run};

/// How much of it is measured.
#[derive(Clone, Debug)]
pub struct Scale {
    /// Bytes of a read.
    pub sizes: Vec<ByteSize>,
    /// Connections.
    pub connections: Vec<usize>,
    /// Reads that each connection has in flight.
    pub depths: Vec<usize>,
    /// Bytes of the file that is read.
    pub file: ByteSize,
    /// Measured time of each side in each round.
    pub duration: Duration,
    /// The scale of TPC-H's data.
    pub data: f64,
    /// Sizes of pages; the replay's are the largest.
    pub pages: Vec<ByteSize>,
    /// How often the query of the replay is run.
    pub times: usize,
    /// Speeds of the link to a host of its own.
    pub links: Vec<Speed>,
    /// What that host does meanwhile.
    pub loads: Vec<Load>,
    /// Rounds of everything.
    pub rounds: usize,
}

impl Scale {
    /// Figures to be kept.
    pub fn standard() -> Self {
        Self {
            sizes: [ByteSize::b(512)].into_iter().chain([4, 16, 64, 128].map(ByteSize::kib)).collect(),
            connections: vec![1, 2],
            depths: vec![1, 64],
            file: ByteSize::mib(256),
            duration: Duration::from_millis(500),
            data: 1.0,
            pages: [4, 8, 16, 32, 64, 128].map(ByteSize::kib).to_vec(),
            times: 5,
            links: vec![Speed::Bits(1_000_000_000), Speed::Unshaped],
            loads: Load::ALL.to_vec(),
            rounds: 3,
        }
    }

    /// A few seconds, which show that everything works and nothing else.
    pub fn smoke() -> Self {
        Self {
            sizes: vec![ByteSize::kib(4), ByteSize::kib(16)],
            connections: vec![1],
            depths: vec![1, 8],
            file: ByteSize::mib(4),
            duration: Duration::from_millis(10),
            data: 0.002,
            pages: vec![ByteSize::kib(4), ByteSize::kib(128)],
            times: 3,
            links: vec![Speed::Bits(1_000_000_000)],
            loads: vec![Load::Idle, Load::Scans],
            rounds: 1,
        }
    }
}

/// What is measured.
#[derive(Clone, Debug)]
pub struct Experiments {
    /// How much of it.
    pub scale: Scale,
    /// A directory on the medium to measure; fresh folders in it are used, and removed.
    pub data: PathBuf,
    /// The program that serves when it is called as `PROGRAM node …`.
    pub program: PathBuf,
    /// Where the figures come from.
    pub origin: Origin,
}

/// The queries of P3.5, by how many rows their condition on `lineitem` lets pass: 97%, 1.3%, and 15% in the thesis' terms.
const QUERIES: [u8; 3] = [1, 6, 15];
/// The query of P3.4.
const REPLAYED: u8 = 3;

impl Experiments {
    /// Runs all of them. What can not be run here is left out, and `skipped` hears why.
    pub fn run(&self, progress: &mut dyn Progress, skipped: &mut dyn FnMut(String)) -> Result<Vec<Line>> {
        let mut lines = self.reads(progress)?;
        let largest = self.scale.pages.iter().copied().max();
        for &page_size in &self.scale.pages {
            let folder = Folder::new(&self.data, page_size);
            let settings = LoadSettings { data: folder.0.clone(), scale: self.scale.data, page_size, threads: None };
            load(&settings, &mut Stage::new(format!("data in pages of {page_size}"), progress))?;
            lines.extend(self.queries(&folder.0, &mut Stage::new(format!("pages of {page_size}"), progress))?);
            if Some(page_size) == largest {
                lines.extend(self.replay(&folder.0, &mut Stage::new("replay", progress))?);
                match self.apart(&folder.0, &mut Stage::new("apart", progress)) {
                    Err(Error::Bench(error @ ishigaki_bench::Error::Hosts { .. })) => skipped(error.to_string()),
                    apart => lines.extend(apart?),
                }
            }
        }
        Ok(lines)
    }

    fn reads(&self, progress: &mut dyn Progress) -> Result<Vec<Line>> {
        let Scale { sizes, connections, depths, file, duration, rounds, .. } = self.scale.clone();
        let settings = remote::Settings {
            sizes,
            connections,
            depths,
            modes: vec![Mode::Dynamic, Mode::Static, Mode::Ring],
            file,
            duration,
            rounds,
            ..remote::Settings::new(&self.data, &self.program, self.origin.clone())
        };
        Ok(remote::run(&settings, &mut Stage::new("reads", progress))?)
    }

    /// No page is kept in memory, so that each scan reads its pages where they lie.
    fn queries(&self, data: &Path, progress: &mut dyn Progress) -> Result<Vec<Line>> {
        let placements = [Placement::Local, Placement::Fetch, Placement::Push].map(Wish::Fixed);
        let settings = Settings {
            data: data.to_owned(),
            queries: QUERIES.into_iter().filter_map(Query::new).collect(),
            rounds: self.scale.rounds,
            placements: placements.into_iter().chain([Wish::Auto]).collect(),
            host: Host::Own { program: self.program.clone() },
            threads: None,
            page_memory: Some(ByteSize(0)),
        };
        run(&settings, &self.origin, progress)
    }

    fn apart(&self, data: &Path, progress: &mut dyn Progress) -> Result<Vec<Line>> {
        let apart = Apart {
            data: data.to_owned(),
            program: self.program.clone(),
            queries: QUERIES.into_iter().filter_map(Query::new).collect(),
            links: self.scale.links.clone(),
            loads: self.scale.loads.clone(),
            rounds: self.scale.rounds,
            ..Apart::default()
        };
        run_apart(&apart, &self.origin, progress)
    }

    fn replay(&self, data: &Path, progress: &mut dyn Progress) -> Result<Vec<Line>> {
        let Some(query) = Query::new(REPLAYED) else { return Ok(Vec::new()) };
        let recording =
            Recording { data: data.to_owned(), program: self.program.clone(), query, times: self.scale.times };
        let usual = record(&recording, progress)?.replay(self.origin.clone());
        Ok(replay::run(&replay::Settings { rounds: self.scale.rounds, ..usual }, progress)?)
    }
}

/// Data of one size of pages, gone with this.
struct Folder(PathBuf);

impl Folder {
    fn new(data: &Path, page_size: ByteSize) -> Self {
        Self(data.join(format!("bench-p3-{}-{}", std::process::id(), page_size.as_u64())))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What can not be removed says by its name whose it was.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
