//! `remote`: reads from a storage node's disk, beside reads of the same file from our own (paper 3, section 4).
//!
//! Three sides read blocks of one size from random places, each with as many threads as connections, and each thread with as
//! many reads in flight as the queue is deep:
//!
//! - *local*: this process from the file itself: `pread` where one read is in flight, `io_uring` where more are;
//! - *remote*: this process from the node, over one connection a thread;
//! - *network*: the same, but the node sends zeros from its memory instead of reading.
//!
//! Each way in which a node reads (dynamic, static, ring) has a node of its own, a process that runs the given program as
//! `PROGRAM node --data … --io …`; those whose turn it is not sleep. In each round all sides of a case run, in an order drawn
//! anew, so that a slow moment of the machine falls on all of them; a ratio is that of two sides of the same round.
//!
//! Every sector of the file holds its own number, and every read is checked for those it should have brought.
//!
//! Parts: [`file`](mod@file) is what is read, [`local`] and [`far`] the sides, [`report`] lines and table.

mod far;
mod file;
mod local;
mod report;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use ishigaki_base::ByteSize;
use ishigaki_fabric::Fabric;
use ishigaki_remote::Mode;

use crate::node::{Node, NodeOptions};
use crate::pace::{Pace, Run};
use crate::rounds;
use crate::site::Site;
use crate::{Error, Line, Origin, Progress, Result, Rounds};
use file::Pages;
pub use report::table;

/// The workload's name in figures and errors.
const NAME: &str = "remote";

/// What is measured, and how long.
#[derive(Clone, Debug)]
pub struct Settings {
    /// A directory on the medium to be measured; made if it is not there.
    pub data: PathBuf,
    /// The program that serves when it is called as `PROGRAM node …`.
    pub program: PathBuf,
    /// Bytes of a read. Those that are no multiple of the medium's blocks are left out. Default 512 B, 4, 16, 64, 128 KiB.
    pub sizes: Vec<ByteSize>,
    /// Connections, each with a thread of the client. Default 1.
    pub connections: Vec<usize>,
    /// Reads that each thread has in flight. Default 1, 8 and 64.
    pub depths: Vec<usize>,
    /// How the node reads. Default all three ways.
    pub modes: Vec<Mode>,
    /// What carries the bytes between client and node. Default TCP.
    pub fabrics: Vec<Fabric>,
    /// Bytes of the file. Default 256 MiB.
    pub file: ByteSize,
    /// Measured time of each side in each round. Default 1 s.
    pub duration: Duration,
    /// Rounds of each case. Default 5.
    pub rounds: usize,
    /// Where the figures come from.
    pub origin: Origin,
}

impl Settings {
    /// The defaults, for a medium and the program of the node.
    pub fn new(data: impl Into<PathBuf>, program: impl Into<PathBuf>, origin: Origin) -> Self {
        Self {
            data: data.into(),
            program: program.into(),
            sizes: vec![ByteSize::b(512), ByteSize::kib(4), ByteSize::kib(16), ByteSize::kib(64), ByteSize::kib(128)],
            connections: vec![1],
            depths: vec![1, 8, 64],
            modes: vec![Mode::Dynamic, Mode::Static, Mode::Ring],
            fabrics: vec![Fabric::Tcp],
            file: ByteSize::mib(256),
            duration: Duration::from_secs(1),
            rounds: 5,
            origin,
        }
    }

    fn validate(&self) -> Result<()> {
        rounds::check(self.rounds, self.duration)?;
        let within = |values: &[usize], most| !values.is_empty() && values.iter().all(|one| (1..=most).contains(one));
        if !within(&self.connections, 64) {
            return Err(Error::invalid("connections", "give one or more counts from 1 to 64, such as 1,4"));
        }
        if !within(&self.depths, 1024) {
            return Err(Error::invalid("depth", "give one or more depths of a queue from 1 to 1024, such as 1,8,64"));
        }
        if self.modes.is_empty() {
            return Err(Error::invalid("io", "give one or more ways of I/O, such as ring,static"));
        }
        if self.fabrics.is_empty() {
            return Err(Error::invalid("fabric", "give one or more transports, such as tcp,ofi:shm"));
        }
        let most = ishigaki_remote::MAX_READ as u64;
        if self.sizes.is_empty() || self.sizes.iter().any(|size| !(512..=most).contains(&size.0) || size.0 % 512 != 0) {
            return Err(Error::invalid("size", "give one or more multiples of 512 B up to 1 MiB, such as 4KiB,64KiB"));
        }
        if self.sizes.iter().any(|size| size.0 * 8 > self.file.0) {
            return Err(Error::invalid("file", "a file of eight reads at least is needed to choose from"));
        }
        Ok(())
    }
}

/// What distinguishes one comparison from the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Load {
    size: usize,
    connections: usize,
    depth: usize,
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { size, connections, depth } = *self;
        write!(f, "reads of {}, {depth} in flight, connections: {connections}", ByteSize(size as u64))
    }
}

/// How a node reads, and what carries the bytes from there.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Way {
    mode: Mode,
    fabric: Fabric,
}

/// One side of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Side {
    Local,
    Network(Way),
    Remote(Way),
}

/// All that one case came to.
#[derive(Debug)]
struct Figures {
    load: Load,
    sides: Vec<(Side, Rounds)>,
}

/// Measures and checks.
pub fn run(settings: &Settings, progress: &mut dyn Progress) -> Result<Vec<Line>> {
    settings.validate()?;
    Site::new(&settings.data, NAME)?.used_by(|site| measure(settings, site, progress))
}

fn measure(settings: &Settings, site: &Site, progress: &mut dyn Progress) -> Result<Vec<Line>> {
    progress.step("writing what is to be read", 0, 1);
    let pages = Pages::write(site, settings.file, settings.origin.seed)?;
    let loads = loads(settings, pages.block())?;
    let (mut nodes, mut sides) = (Vec::new(), vec![Side::Local]);
    for (&mode, fabric) in
        settings.modes.iter().flat_map(|mode| settings.fabrics.iter().map(move |fabric| (mode, fabric)))
    {
        let way = Way { mode, fabric: fabric.clone() };
        let connections = most_connections(settings);
        let options = NodeOptions { mode, fabric: fabric.clone(), connections, ..NodeOptions::default() };
        nodes.push((way.clone(), Node::start(&settings.program, site.path(), &options)?));
        sides.extend([Side::Network(way.clone()), Side::Remote(way)]);
    }
    let (of, mut done) = ((loads.len() * settings.rounds * sides.len()) as u64, 0);
    let (pace, mut random) = (Pace::new(settings.duration), settings.origin.seed.derive(1).generator());
    let mut lines = Vec::new();
    for load in loads {
        let mut figures = Figures { load, sides: sides.iter().map(|side| (side.clone(), Rounds::default())).collect() };
        for round in 0..settings.rounds {
            let mut order: Vec<usize> = (0..sides.len()).collect();
            random.shuffle(&mut order);
            for at in order {
                let (contender, rounds) = &mut figures.sides[at];
                let text = format!("{load}, round {}, {}", round + 1, report::name(contender));
                progress.step(&text, done, of);
                rounds.add(&one(&pages, &mut nodes, contender, load, pace)?);
                done += 1;
            }
        }
        lines.extend(report::lines(&figures, settings));
    }
    progress.step("done", done, of);
    Ok(lines)
}

/// The cases, without sizes that the medium can not read.
fn loads(settings: &Settings, block: usize) -> Result<Vec<Load>> {
    let mut loads = Vec::new();
    for size in settings.sizes.iter().map(|size| size.0 as usize).filter(|size| size.is_multiple_of(block)) {
        for &connections in &settings.connections {
            loads.extend(settings.depths.iter().map(|&depth| Load { size, connections, depth }));
        }
    }
    if loads.is_empty() {
        let reason = format!("the medium reads blocks of {}; give multiples of it", ByteSize(block as u64));
        return Err(Error::Invalid { setting: "size", reason });
    }
    Ok(loads)
}

fn most_connections(settings: &Settings) -> usize {
    settings.connections.iter().copied().max().unwrap_or(1)
}

/// One side in one round.
fn one(pages: &Pages, nodes: &mut [(Way, Node)], side: &Side, load: Load, pace: Pace) -> Result<Run> {
    let (way, network_alone) = match side {
        Side::Local => return local::round(pages, load, pace),
        Side::Network(way) => (way, true),
        Side::Remote(way) => (way, false),
    };
    let node = nodes.iter_mut().find(|(of, _)| of == way).map(|(_, node)| node);
    let node =
        node.ok_or_else(|| Error::Node { reason: format!("there is none for {} by {}", way.mode, way.fabric) })?;
    far::round(pages, (node, &way.fabric), load, network_alone, pace).map_err(|error| node.explain(error))
}
