//! A file server is replaced: how long until clients are served, what they wait for and get done meanwhile, and how long until all is here, beside rivals
//! over the same link.
//!
//! ```text
//!   here: Serving, its door, clients, rivals ══ 1 Gbit/s [── relay, 20 ms ──] ══ there: NFS-Ganesha, smbd, the rivals' servers
//!                │                                                                   │
//!        scratch: to-N, at-N                                                scratch: old/NAME, the trees
//! ```
//!
//! All sides of a comparison begin with an empty directory on the same file system, alternate, and take the same half of the processors. What has come is
//! compared with what was written, bytes, and owners, modes and times as far as they come by that way, before there is a figure.
//!
//! However a measurement ends, nothing of it stays: its programs end with this process, its namespace and directory go with it, and a caretaker clears up
//! after one that is killed. Data that is wrong is kept, and the error says where.
//!
//! Parts: [`tree`] draws what the server has, `old_server` is the server, `delay` the longer link, `served` a migration at work, `scratch` the directory,
//! `call` runs programs; `cut_over`, `total`, `first_access`, `work` with its `mix`, `response` and `limits` are the experiments.

mod call;
mod cut_over;
mod delay;
mod first_access;
mod limits;
mod mix;
mod old_server;
mod response;
mod scratch;
mod served;
mod total;
pub mod tree;
mod work;

use std::cell::Cell;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;

pub use self::first_access::FirstAccess;
use self::old_server::OldServer;
pub use self::old_server::missing;
pub use self::response::Response;
use self::scratch::Scratch;
use self::tree::{Shape, Shrink, Tree};
pub use self::work::Work;
use crate::{Case, Error, Line, Origin, Progress, Result};

/// The workload of a cut-over, as lines call it.
pub const CUT_OVER: &str = "migration-cut-over";
/// The workload of a whole migration.
pub const TOTAL: &str = "migration-total";
/// What a ratio of [`TOTAL`] is.
pub const OVER_RSYNC: &str = "elapsed over rsync";
/// The workload of a file's first access.
pub const FIRST: &str = "migration-first-access";
/// The workload of clients that read and write.
pub const WORK: &str = "migration-work";
/// What a ratio of [`WORK`] is.
pub const OVER_BARE: &str = "over the bare directory";
/// The workload of clients that open files one after the other.
pub const RESPONSE: &str = "migration-response";
/// What the link and the disk do by themselves.
pub const LIMIT: &str = "migration-limit";

/// The way to the old server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// As near as the machine's own.
    Lan,
    /// A round trip of 20 ms.
    Wan,
}

impl Link {
    fn round_trip(self) -> Duration {
        match self {
            Self::Lan => Duration::ZERO,
            Self::Wan => Duration::from_millis(20),
        }
    }
}

/// As cases call it.
impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Self::Lan { "lan" } else { "wan" })
    }
}

/// How the old server is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Version 3, from NFS-Ganesha.
    Nfs,
    /// Version 3.1.1, from smbd.
    Smb,
}

impl Protocol {
    const BOTH: [Self; 2] = [Self::Nfs, Self::Smb];
}

/// As cases call it.
impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Self::Nfs { "nfs" } else { "smb" })
    }
}

/// What is measured.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How many times fewer files than 100,000 the server of the cut-over has; `None` leaves it out.
    pub cut_over: Option<f64>,
    /// The trees that are brought whole, each over which links.
    pub trees: Vec<(Shape, Vec<Link>)>,
    /// Where files lie that are opened first.
    pub first_access: Option<FirstAccess>,
    /// What clients get done.
    pub work: Option<Work>,
    /// What clients wait for.
    pub response: Option<Response>,
    /// How much smaller than the paper's trees are.
    pub shrink: Shrink,
    /// Runs of each side.
    pub rounds: usize,
    /// A directory for trees, destinations and mounts; all of it is gone at the end, unless what has come is wrong.
    pub scratch: PathBuf,
    /// Where the figures come from.
    pub origin: Origin,
    /// When set, all ends as soon as it can, and nothing stays behind.
    pub stop: &'static AtomicBool,
}

fn io(path: &Path, operation: &'static str, source: std::io::Error) -> Error {
    Error::Io { path: path.to_owned(), operation, source }
}

fn wrong(path: &Path, reason: String) -> Error {
    Error::Wrong { workload: "migration", reason, path: path.to_owned() }
}

fn migration(error: &ishigaki_migrate_service::Error) -> Error {
    Error::Process { what: "a migration", reason: error.to_string() }
}

/// The case of a line, of an object.
fn case(object: serde_json::Value) -> Case {
    if let serde_json::Value::Object(case) = object { case } else { Case::new() }
}

/// The experiments (P5a.8). Takes root, NFS-Ganesha, smbd and rsync, and has rclone as a rival where it is installed; [`missing`] tells what is not there.
pub fn run(settings: &Settings, progress: &mut dyn Progress) -> Result<Vec<Line>> {
    if settings.rounds == 0 {
        return Err(Error::invalid("rounds", "at least one round is needed, and an odd number has a median"));
    }
    let mut scratch = Scratch::new(&settings.scratch)?;
    let measured = measure(settings, scratch.path(), progress);
    if let Err(Error::Wrong { .. }) = measured {
        // It says where the data lies.
        scratch.keep();
    }
    measured
}

fn measure(settings: &Settings, scratch: &Path, progress: &mut dyn Progress) -> Result<Vec<Line>> {
    let mut names: Vec<String> = [Shape::Flat].iter().chain(&Shape::OF_PAPER).map(ToString::to_string).collect();
    names.extend([work::TREE, response::TREE].map(str::to_owned));
    let widths = settings.first_access.iter().flat_map(|first| &first.widths);
    names.extend(widths.map(|width| first_access::tree_name(*width)));
    let server = OldServer::start(scratch, &names)?;
    let mut stage = Running { settings, scratch, server, made: Cell::new(0), done: 0, of: 0 };
    stage.of = stage.runs();
    let mut lines = stage.limits()?;
    if let Some(fewer) = settings.cut_over {
        lines.extend(stage.cut_over(fewer, progress)?);
    }
    for (shape, links) in &settings.trees {
        let tree = stage.grow(*shape, settings.shrink)?;
        for link in links {
            lines.extend(stage.total(*shape, &tree, *link, progress)?);
        }
        stage.remove(&shape.to_string())?;
    }
    if let Some(first) = &settings.first_access {
        lines.extend(stage.first_access(first, progress)?);
    }
    if let Some(work) = &settings.work {
        lines.extend(stage.work(work, progress)?);
    }
    if let Some(response) = &settings.response {
        lines.extend(stage.response(response, progress)?);
    }
    Ok(lines)
}

struct Running<'a> {
    settings: &'a Settings,
    scratch: &'a Path,
    server: OldServer,
    /// Directories that were made.
    made: Cell<u64>,
    /// Steps.
    done: u64,
    of: u64,
}

impl Running<'_> {
    /// How many steps there are.
    fn runs(&self) -> u64 {
        let Settings { cut_over, trees, first_access, work, response, rounds, .. } = self.settings;
        let runs = cut_over.map_or(0, |_| Protocol::BOTH.len())
            + trees.iter().map(|(_, links)| links.len() * total::runs()).sum::<usize>()
            + first_access.as_ref().map_or(0, FirstAccess::runs)
            + work.as_ref().map_or(0, |_| work::runs())
            + response.as_ref().map_or(0, Response::runs);
        (runs * rounds) as u64
    }

    fn step(&mut self, now: &str, progress: &mut dyn Progress) -> Result<()> {
        if self.settings.stop.load(Ordering::Acquire) {
            return Err(served::stopped());
        }
        progress.step(now, self.done, self.of);
        self.done += 1;
        Ok(())
    }

    /// A tree that the server has from now on.
    fn grow(&self, shape: Shape, shrink: Shrink) -> Result<Tree> {
        let tree = Tree::new(shape, shrink, self.settings.origin.seed.derive(shape as u64));
        self.write(&tree, &shape.to_string())?;
        Ok(tree)
    }

    /// The server has that tree by that name from now on. A name is used once: the server remembers for a while what a directory held.
    fn write(&self, tree: &Tree, name: &str) -> Result<()> {
        tree.write(&self.server.tree(name))?;
        // What is still to be written would be written while the first side is measured.
        self.sync()
    }

    /// The server has no tree of that name any more.
    fn remove(&self, name: &str) -> Result<()> {
        self.clear(&[&self.server.tree(name)])
    }

    /// What is the same in all lines about a tree.
    fn case(&self, name: &str, tree: &Tree, link: Link, Shrink { files, bytes }: Shrink) -> Case {
        case(json!({
            "tree": name, "link": link.to_string(), "files": tree.files.len(), "directories": tree.directories.len(),
            "bytes": tree.bytes(), "fewer": files, "smaller": bytes, "processors": self.server.processors(),
        }))
    }

    fn call(&self, program: &'static str, arguments: &[&str]) -> Result<Output> {
        call::call(program, arguments, self.settings.stop)
    }

    /// Has all that was written on the disks.
    fn sync(&self) -> Result<()> {
        self.call("sync", &[]).map(drop)
    }
}
