//! Database servers of the host beside each other on one disk: each with a log of its own, or all with one log.
//!
//! ```text
//!  Standing: disk, memory, a database that was made ─▶ Place: servers of one side, copies of it ─▶ start(), kill(), start()
//! ```
//!
//! What an experiment's servers do is its own matter ([`crate::inserts`], [`crate::tpcc::sql`]); this is what stands under them.
//!
//! Rooms: `disk` is the place where logs are, `standing` all else that stands under servers, `place` the servers of one side,
//! `usage` what was asked of disk and pool.

pub(crate) mod disk;
mod place;
mod standing;
mod usage;

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fastrand::Rng;
use ishigaki_base::random::Seed;
use ishigaki_device::Medium;
use ishigaki_logpool::Waiting;
use ishigaki_servers::Kind;

use crate::{Error, Origin, Result};

pub(crate) use place::Place;
pub(crate) use standing::Standing;
pub(crate) use usage::{Counts, Pooled};

/// Where experiments with processes are done.
#[derive(Clone, Debug)]
pub struct Host {
    /// The program that serves when it is called as `PROGRAM log serve …` and emulates as `PROGRAM media emulate …`.
    pub program: PathBuf,
    /// A folder of the host for mounts; everybody may pass through it.
    pub scratch: PathBuf,
    /// Where the figures come from.
    pub origin: Origin,
    /// When set, all ends as soon as it can, and nothing stays behind.
    pub stop: &'static AtomicBool,
}

/// What an experiment asks for under its servers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Under<'a> {
    /// The experiment.
    pub(crate) workload: &'static str,
    pub(crate) kind: Kind,
    pub(crate) disk: &'a Disk,
    pub(crate) servers: usize,
    pub(crate) host: &'a Host,
}

impl Under<'_> {
    pub(crate) fn is_stopped(&self) -> bool {
        self.host.stop.load(Ordering::Acquire)
    }

    /// An error once somebody has asked to end.
    pub(crate) fn go_on(&self) -> Result<()> {
        if self.is_stopped() { Err(ishigaki_servers::Error::Stopped.into()) } else { Ok(()) }
    }
}

/// The order of so many sides in each round, drawn anew for each.
pub(crate) fn orders(sides: usize, rounds: usize, seed: Seed) -> impl Iterator<Item = Vec<usize>> {
    let mut random = Rng::with_seed(seed.0);
    std::iter::repeat_with(move || {
        let mut order: Vec<usize> = (0..sides).collect();
        random.shuffle(&mut order);
        order
    })
    .take(rounds)
}

/// Where the logs are.
#[derive(Clone, Debug, PartialEq)]
pub enum Disk {
    /// On an emulated drive.
    Emulated(Medium),
    /// In a folder of a file system of the host.
    Folder(PathBuf),
}

impl Disk {
    /// A delay that is worth its while on such a disk, for the ways of waiting that have one: found by trying, as the authors did.
    fn delay(&self) -> Duration {
        Duration::from_micros(if self.is_slow() { 1000 } else { 50 })
    }

    /// Whether a write takes milliseconds.
    pub fn is_slow(&self) -> bool {
        matches!(self, Self::Emulated(Medium::Hdd(_)))
    }

    /// Every side on such a disk, the separate logs first.
    pub fn sides(&self) -> Vec<Side> {
        let fixed = |polling, delay| Side::Pool(Waiting::Fixed { polling, delay });
        let delay = self.delay();
        vec![
            Side::Separate,
            Side::Pool(Waiting::SLEEP),
            Side::Pool(Waiting::POLL),
            fixed(false, delay),
            fixed(true, delay),
            Side::Pool(Waiting::Auto),
        ]
    }

    /// Those of the sides that are named; all if none are.
    pub(crate) fn named(&self, names: Option<&[String]>) -> Result<Vec<Side>> {
        let all = self.sides();
        let Some(names) = names else { return Ok(all) };
        let find = |name: &String| {
            let found = all.iter().find(|side| side.to_string() == *name);
            found.copied().ok_or_else(|| {
                let known: Vec<String> = all.iter().map(Side::to_string).collect();
                Error::invalid("sides", format!("there are {}, not `{name}`", known.join(", ")))
            })
        };
        names.iter().map(find).collect()
    }
}

impl fmt::Display for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Emulated(medium) => medium.fmt(f),
            Self::Folder(path) => path.display().fmt(f),
        }
    }
}

/// `hdd`, `ssd`, `nvm:5us`, or a folder; one with such a name is written `./ssd`.
impl FromStr for Disk {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("a disk is hdd, ssd, nvm:5us or a folder, not nothing".to_owned());
        }
        Ok(text.parse().map_or_else(|_| Self::Folder(text.into()), Self::Emulated))
    }
}

/// Where a server's data are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data {
    /// In memory: nothing but its log is on the disk.
    Memory,
    /// On the disk, beside the logs.
    Disk,
}

/// As figures call it: `memory`, `disk`.
impl fmt::Display for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Memory => "memory",
            Self::Disk => "disk",
        })
    }
}

impl FromStr for Data {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = [Self::Memory, Self::Disk].into_iter().find(|data| data.to_string() == text);
        found.ok_or_else(|| format!("data are in memory or on disk, not `{text}`"))
    }
}

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Each server writes a log of its own.
    Separate,
    /// All have one log, whose process waits so.
    Pool(Waiting),
}

/// As figures call it: `separate`, `sleep`, `poll`, `delay`, `poll+delay`, `auto`.
impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Separate => f.write_str("separate"),
            Self::Pool(waiting) => f.write_str(way(*waiting).as_str()),
        }
    }
}

/// A way of waiting, without how long.
pub(crate) fn way(waiting: Waiting) -> String {
    let text = waiting.to_string();
    text.split(':').next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_a_medium_or_a_folder() {
        for text in ["hdd", "ssd", "nvm:5us", "/srv/disk"] {
            assert_eq!(text.parse::<Disk>().unwrap().to_string(), text);
        }
        assert_eq!("./ssd".parse::<Disk>().unwrap(), Disk::Folder("./ssd".into()));
        assert!("".parse::<Disk>().is_err());
    }

    #[test]
    fn sides_are_called_by_their_way_of_waiting() {
        let names: Vec<String> = "hdd".parse::<Disk>().unwrap().sides().iter().map(Side::to_string).collect();
        assert_eq!(names, ["separate", "sleep", "poll", "delay", "poll+delay", "auto"]);
    }
}
