//! A file server is replaced: how long until clients are served, and until all is here, beside rsync over the same link.
//!
//! ```text
//!   here: Serving, its door, `ls`, rsync ══ 1 Gbit/s [── relay, 20 ms ──] ══ there: NFS-Ganesha, rsync daemon
//!                │                                                                   │
//!        scratch: to-NAME, at-NAME                                          scratch: the trees
//! ```
//!
//! Both sides of a comparison begin with an empty directory on the same file system, alternate, and take the same half of the processors. What has come is
//! compared with what was written, bytes, owners, modes and times, before there is a figure.
//!
//! Parts: [`tree`] draws what the server has, `old_server` is the server, `delay` the longer link.

mod delay;
mod old_server;
pub mod tree;

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use ishigaki_migrate::source::Cancel;
use ishigaki_migrate_service::status::Phase;
use ishigaki_migrate_service::{Config, Serving};
use serde_json::json;

use self::old_server::OldServer;
use self::tree::{Shape, Shrink, Tree};
use crate::{Case, Error, Line, Metric, Origin, Progress, Result};

/// The workload of a cut-over, as lines call it.
pub const CUT_OVER: &str = "migration-cut-over";
/// The workload of a whole migration.
pub const TOTAL: &str = "migration-total";
/// What a ratio of [`TOTAL`] is.
pub const OVER_RSYNC: &str = "elapsed over rsync";

/// How often a status is asked for.
const ASKED: Duration = Duration::from_millis(2);
/// A migration that does nothing new for so long has failed.
const STUCK: Duration = Duration::from_mins(5);

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

/// Which of two ways to get a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Ishigaki,
    Rsync,
}

impl Side {
    const BOTH: [Self; 2] = [Self::Ishigaki, Self::Rsync];

    fn name(self) -> &'static str {
        if self == Self::Ishigaki { "ishigaki" } else { "rsync" }
    }
}

/// What is measured.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How many times fewer files than 100,000 the server of the cut-over has; `None` leaves it out.
    pub cut_over: Option<f64>,
    /// The trees that are brought whole, each over which links.
    pub trees: Vec<(Shape, Vec<Link>)>,
    /// How much smaller than the paper's they are.
    pub shrink: Shrink,
    /// Runs of each side.
    pub rounds: usize,
    /// A directory for trees, destinations and mounts; all of it is gone at the end, unless what has come is wrong.
    pub scratch: PathBuf,
    /// Where the figures come from.
    pub origin: Origin,
}

/// The directory of a measurement; what is in it goes with it.
struct Scratch(PathBuf);

impl Scratch {
    fn new(below: &Path) -> Result<Self> {
        let path = below.join(format!("ishigaki-migration-{}", std::process::id()));
        fs::create_dir(&path).map_err(|source| io(&path, "making a scratch directory", source))?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn io(path: &Path, operation: &'static str, source: std::io::Error) -> Error {
    Error::Io { path: path.to_owned(), operation, source }
}

/// The experiments (P5a.8): the cut-over, and the total time. Takes root, NFS-Ganesha and rsync; what is missing is an error by its name.
pub fn run(settings: &Settings, progress: &mut dyn Progress) -> Result<Vec<Line>> {
    if settings.rounds == 0 {
        return Err(Error::invalid("rounds", "at least one round is needed, and an odd number has a median"));
    }
    let scratch = Scratch::new(&settings.scratch)?;
    let measured = measure(settings, &scratch.0, progress);
    if let Err(Error::Wrong { .. }) = measured {
        // It says where the data lies.
        std::mem::forget(scratch);
    }
    measured
}

fn measure(settings: &Settings, scratch: &Path, progress: &mut dyn Progress) -> Result<Vec<Line>> {
    let names: Vec<String> = [Shape::Flat].iter().chain(&Shape::OF_PAPER).map(ToString::to_string).collect();
    let server = OldServer::start(scratch, &names)?;
    let mut stage = Running { settings, scratch, server, done: 0, of: 0 };
    let pairs: usize = settings.trees.iter().map(|(_, links)| links.len()).sum();
    stage.of = ((pairs * 2 + usize::from(settings.cut_over.is_some())) * settings.rounds) as u64;
    let mut lines = Vec::new();
    if let Some(fewer) = settings.cut_over {
        lines.push(stage.cut_over(fewer, progress)?);
    }
    for (shape, links) in &settings.trees {
        let tree = stage.grow(*shape, settings.shrink)?;
        for link in links {
            lines.extend(stage.total(*shape, &tree, *link, progress)?);
        }
    }
    Ok(lines)
}

struct Running<'a> {
    settings: &'a Settings,
    scratch: &'a Path,
    server: OldServer,
    done: u64,
    of: u64,
}

impl Running<'_> {
    fn step(&mut self, now: &str, progress: &mut dyn Progress) {
        progress.step(now, self.done, self.of);
        self.done += 1;
    }

    /// A tree that the server has from now on.
    fn grow(&self, shape: Shape, shrink: Shrink) -> Result<Tree> {
        let tree = Tree::new(shape, shrink, self.settings.origin.seed.derive(shape as u64));
        tree.write(&self.server.tree(&shape.to_string()))?;
        // What is still to be written would be written while the first side is measured.
        sync();
        Ok(tree)
    }

    /// What is the same in all lines about a tree.
    fn case(&self, shape: Shape, tree: &Tree, link: Link) -> Case {
        let Shrink { files, bytes } = self.settings.shrink;
        let case = json!({
            "tree": shape.to_string(), "link": link.to_string(), "files": tree.files.len(), "directories": tree.directories.len(),
            "bytes": tree.bytes(), "fewer": files, "smaller": bytes, "processors": self.server.processors(),
        });
        case.as_object().cloned().unwrap_or_default()
    }

    /// From the begin of the service until `ls` of the root has its answer through the door.
    fn cut_over(&mut self, fewer: f64, progress: &mut dyn Progress) -> Result<Line> {
        let tree = self.grow(Shape::Flat, Shrink { files: fewer, bytes: 1.0 })?;
        let mut times = Vec::new();
        for round in 0..self.settings.rounds {
            self.step(&format!("cut-over, {} files", tree.files.len()), progress);
            let (to, at) = (self.fresh("to")?, self.fresh("at")?);
            let config = self.config(Shape::Flat, &to, &at)?;
            let stay = self.server.stay_here()?;
            let began = Instant::now();
            let serving = serve(&config)?;
            let shown = call("ls", &[&at.display().to_string()])?;
            let time = began.elapsed();
            drop(stay);
            let found = String::from_utf8_lossy(&shown.stdout).lines().count();
            let expected = tree.directories.iter().filter(|path| path.components().count() == 1).count();
            if found != expected {
                let reason = format!("round {round}: ls shows {found} names of {expected}");
                return Err(Error::Wrong { workload: CUT_OVER, reason, path: at });
            }
            serving.stop().map_err(|error| migration(&error))?;
            clear(&[to, at])?;
            times.push(time.as_secs_f64());
        }
        let mut case = self.case(Shape::Flat, &tree, Link::Lan);
        case.insert("fewer".to_owned(), fewer.into());
        case.insert("smaller".to_owned(), 1.0.into());
        Ok(Line::new(CUT_OVER, case, Metric::Elapsed, times, &self.settings.origin))
    }

    /// Until all is here and settled, by both sides.
    fn total(&mut self, shape: Shape, tree: &Tree, link: Link, progress: &mut dyn Progress) -> Result<Vec<Line>> {
        self.server.set_round_trip(link.round_trip())?;
        let mut random = self.settings.origin.seed.derive(0x5a).generator();
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..self.settings.rounds {
            let mut sides = Side::BOTH;
            random.shuffle(&mut sides);
            for side in sides {
                self.step(&format!("{} brings {shape} over {link}", side.name()), progress);
                let time = match side {
                    Side::Ishigaki => self.migrate(shape, tree)?,
                    Side::Rsync => self.rsync(shape, tree)?,
                };
                times[side as usize].push(time.as_secs_f64());
            }
        }
        let case = self.case(shape, tree, link);
        let ratios = times[0].iter().zip(&times[1]).map(|(ours, theirs)| ours / theirs).collect();
        let mut lines = Vec::new();
        for (side, times) in Side::BOTH.into_iter().zip(times) {
            let mut case = case.clone();
            case.insert("side".to_owned(), side.name().into());
            lines.push(Line::new(TOTAL, case, Metric::Elapsed, times, &self.settings.origin));
        }
        let mut case = case;
        case.insert("of".to_owned(), OVER_RSYNC.into());
        lines.push(Line::new(TOTAL, case, Metric::Ratio, ratios, &self.settings.origin));
        Ok(lines)
    }

    fn migrate(&self, shape: Shape, tree: &Tree) -> Result<Duration> {
        let (to, at) = (self.fresh("to")?, self.fresh("at")?);
        let config = self.config(shape, &to, &at)?;
        let stay = self.server.stay_here()?;
        let began = Instant::now();
        let serving = serve(&config)?;
        let mut news = (0, Instant::now());
        let status = loop {
            let status = serving.status();
            if status.phase == Phase::Done {
                break status;
            }
            let now = status.listed + status.whole + status.copied;
            if now != news.0 {
                news = (now, Instant::now());
            }
            if news.1.elapsed() > STUCK {
                return Err(wrong(&to, format!("nothing new for {} s: {:?}", STUCK.as_secs(), status.trouble)));
            }
            std::thread::sleep(ASKED);
        };
        let time = began.elapsed();
        drop(stay);
        if let Some(problem) = status.first_problems.first() {
            return Err(wrong(&to, format!("{}: {}", problem.path, problem.message)));
        }
        serving.stop().map_err(|error| migration(&error))?;
        self.check(shape, tree, &to)?;
        clear(&[to, at])?;
        Ok(time)
    }

    fn rsync(&self, shape: Shape, tree: &Tree) -> Result<Duration> {
        let to = self.fresh("to")?;
        let from = self.server.rsync(&shape.to_string());
        let stay = self.server.stay_here()?;
        let began = Instant::now();
        call("rsync", &["-aHAX", "--numeric-ids", &from, &format!("{}/", to.display())])?;
        let time = began.elapsed();
        drop(stay);
        self.check(shape, tree, &to)?;
        clear(&[to])?;
        Ok(time)
    }

    fn config(&self, shape: Shape, to: &Path, at: &Path) -> Result<Config> {
        let from = self.server.nfs(&shape.to_string());
        Config::new(&from, to.to_owned(), at.to_owned()).map_err(|error| migration(&error))
    }

    fn check(&self, shape: Shape, tree: &Tree, to: &Path) -> Result<()> {
        tree.check(&self.server.tree(&shape.to_string()), to).map_err(|reason| wrong(to, reason))
    }

    fn fresh(&self, name: &str) -> Result<PathBuf> {
        let path = self.scratch.join(format!("{name}-{}", self.done));
        fs::create_dir(&path).map_err(|source| io(&path, "making a directory", source))?;
        Ok(path)
    }
}

fn serve(config: &Config) -> Result<Serving> {
    Serving::start(config, &Cancel::new()).map_err(|error| migration(&error))
}

/// Removes what a run has made, so that the next one finds the disk as this one did.
fn clear(paths: &[PathBuf]) -> Result<()> {
    for path in paths {
        fs::remove_dir_all(path).map_err(|source| io(path, "removing a copy", source))?;
    }
    sync();
    Ok(())
}

/// Has all that was written on the disks.
fn sync() {
    let _ = call("sync", &[]);
}

fn wrong(path: &Path, reason: String) -> Error {
    Error::Wrong { workload: TOTAL, reason, path: path.to_owned() }
}

fn migration(error: &ishigaki_migrate_service::Error) -> Error {
    Error::Process { what: "a migration", reason: error.to_string() }
}

/// Runs a program to its end; what it says if it fails.
fn call(program: &'static str, arguments: &[&str]) -> Result<Output> {
    let failed = |reason: String| Error::Process { what: program, reason };
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let output = output.map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        return Ok(output);
    }
    Err(failed(format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim())))
}
