//! `inserts`: database servers of the host insert rows beside each other, each with a log of its own, or all with one log (paper
//! 4, sections 6.1 and 6.2).
//!
//! ```text
//!  client ─▶ server ─┬─ separate:  a folder for each log ──────────────────────────────┐
//!   one for each,    └─ pool:      a mount for each log ─ `PROGRAM log serve` ─ a folder ┴─ ext4 ─ a disk, emulated by
//!   one transaction      │                                                                       `PROGRAM media emulate`, or a
//!   after the other      └─ data: in memory                                                      folder of a real one
//! ```
//!
//! What servers write beside their logs lies in memory, so that nothing but logs is on the disk. Servers are copies of one that
//! was made before, and of their logs each byte is written: separate logs grow nowhere, and pay for no file system's journal. They
//! lie a tenth of an emulated disk apart, as the images of virtual machines do, and not side by side. All
//! servers of a side run all the time; those that a figure is not about stand idle. Sides alternate, in an order drawn anew for
//! each round.
//!
//! Each load is checked while the servers run. When all of a side are done they are killed, started again, recover from their
//! logs, and must have every acknowledged row, once.
//!
//! Rooms: `disk` is the place where logs are, `standing` all else that stands under servers, `side` one side in one round, `load`
//! the clients, `usage` what was asked of disk and pool, `report` makes lines.

pub(crate) mod disk;
mod load;
mod report;
mod side;
mod standing;
pub(crate) mod usage;

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fastrand::Rng;
use ishigaki_device::Medium;
use ishigaki_logpool::Waiting;
use ishigaki_servers::Kind;

use crate::{Error, Line, Origin, Progress, Result};

use report::Report;
use standing::Standing;

/// The workload's name in figures.
pub(crate) const NAME: &str = "inserts";

/// The most servers; more than that are no figures of one host.
const MOST_SERVERS: usize = 64;

/// The most integers of a row: what all servers have columns for.
const MOST_INTEGERS: usize = 500;

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

/// One load of a side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Work {
    pub(crate) servers: usize,
    pub(crate) integers: usize,
}

/// What is measured.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Which servers.
    pub kind: Kind,
    /// Where their logs are.
    pub disk: Disk,
    /// How many of them insert beside each other.
    pub servers: Vec<usize>,
    /// Integers of a transaction; the most servers have all sizes, fewer have the first.
    pub integers: Vec<usize>,
    /// Transactions of each server in each load.
    pub transactions: usize,
    /// Runs of each side.
    pub rounds: usize,
    /// What is compared.
    pub sides: Vec<Side>,
    /// The program that serves when it is called as `PROGRAM log serve …` and emulates as `PROGRAM media emulate …`.
    pub program: PathBuf,
    /// A folder of the host for mounts; everybody may pass through it.
    pub scratch: PathBuf,
    /// Where the figures come from.
    pub origin: Origin,
    /// When set, all ends as soon as it can, and nothing stays behind.
    pub stop: &'static AtomicBool,
}

impl Settings {
    fn check(&self) -> Result<()> {
        let invalid = |setting, reason: &str| Err(Error::invalid(setting, reason));
        if self.servers.is_empty() || self.servers.iter().any(|count| !(1..=MOST_SERVERS).contains(count)) {
            return invalid("servers", "give one or more counts from 1 to 64, such as 1,2,4");
        }
        if self.integers.is_empty() || self.integers.iter().any(|count| !(2..=MOST_INTEGERS).contains(count)) {
            return invalid("integers", "give one or more counts from 2 to 500, such as 2,12,20,50");
        }
        if self.transactions == 0 || self.rounds == 0 {
            return invalid("transactions", "at least one transaction and one round are needed");
        }
        Ok(())
    }

    fn most_servers(&self) -> usize {
        self.servers.iter().copied().max().unwrap_or(1)
    }

    /// The loads of each side, in their order.
    fn works(&self) -> Vec<Work> {
        let most = self.most_servers();
        let first = self.integers.iter().take(1);
        let of_few = first.flat_map(|&integers| self.servers.iter().map(move |&servers| Work { servers, integers }));
        let of_most = self.integers.iter().skip(1).map(|&integers| Work { servers: most, integers });
        of_few.chain(of_most).collect()
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// An error once somebody has asked to end.
    fn go_on(&self) -> Result<()> {
        if self.is_stopped() { Err(ishigaki_servers::Error::Stopped.into()) } else { Ok(()) }
    }
}

/// Measures every side of one disk and one kind of server, and the disk by itself before.
pub fn run(settings: &Settings, progress: &mut dyn Progress) -> Result<Vec<Line>> {
    settings.check()?;
    let user = settings.kind.user()?;
    let works = settings.works();
    let steps = (settings.rounds * settings.sides.len() * works.len()) as u64;
    progress.step("an empty database", 0, steps);
    let standing = Standing::new(settings, user)?;
    let mut lines = standing.probe(settings, progress)?;
    let mut report = Report::new(settings, &works);
    let mut random = Rng::with_seed(settings.origin.seed.0);
    let mut done = 0;
    for _ in 0..settings.rounds {
        let mut order: Vec<usize> = (0..settings.sides.len()).collect();
        random.shuffle(&mut order);
        for place in order {
            let side = settings.sides[place];
            let outcomes = side::run(&standing, settings, side, &works, &mut |work: Work| {
                let many = if work.servers == 1 { "" } else { "s" };
                progress.step(
                    &format!("{side}: {} server{many}, {} integers", work.servers, work.integers),
                    done,
                    steps,
                );
                done += 1;
            })?;
            report.add(place, outcomes);
        }
    }
    lines.extend(report.lines(standing.is_real_time()));
    Ok(lines)
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
