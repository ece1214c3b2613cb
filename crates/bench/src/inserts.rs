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
//! Rooms: `side` is one side in one round, `load` the clients, `report` makes lines; what stands under servers is
//! `crate::one_log`.

mod load;
mod report;
mod side;

use ishigaki_servers::Kind;

use crate::one_log::{Host, Standing, Under, orders};
use crate::{Error, Line, Progress, Result};

pub(crate) use crate::one_log::way;
pub use crate::one_log::{Disk, Side};
use report::Report;

/// The workload's name in figures.
pub(crate) const NAME: &str = "inserts";

/// The most servers; more than that are no figures of one host.
const MOST_SERVERS: usize = 64;

/// The most integers of a row: what all servers have columns for.
const MOST_INTEGERS: usize = 500;

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
    /// Where it is done.
    pub host: Host,
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

    fn under(&self) -> Under<'_> {
        Under { workload: NAME, kind: self.kind, disk: &self.disk, servers: self.most_servers(), host: &self.host }
    }
}

/// Measures every side of one disk and one kind of server, and the disk by itself before.
pub fn run(settings: &Settings, progress: &mut dyn Progress) -> Result<Vec<Line>> {
    settings.check()?;
    let user = settings.kind.user()?;
    let works = settings.works();
    let steps = (settings.rounds * settings.sides.len() * works.len()) as u64;
    progress.step("an empty database", 0, steps);
    let tables: String = settings.integers.iter().map(|&integers| load::table(integers)).collect();
    let standing = Standing::new(settings.under(), user, &tables)?;
    let mut lines = standing.probe(settings.rounds, &settings.host.origin, progress)?;
    let mut report = Report::new(settings, &works);
    let mut done = 0;
    for order in orders(settings.sides.len(), settings.rounds, settings.host.origin.seed) {
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
