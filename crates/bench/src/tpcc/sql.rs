//! TPC-C through SQL: the five transactions on Debian's servers, several beside each other on one disk, each with a log of its
//! own, or all with one log (paper 4, section 6.3).
//!
//! ```text
//!  client: call place_order(…); ─▶ procedure ─▶ rows, commit ─▶ log ─▶ disk        some clients for each server,
//!     ▲                                              │                             each one transaction after the other
//!     └────────────── ok 3012 …, rollback, abort ────┘
//! ```
//!
//! Population, mix, skew and inputs are those of [`crate::tpcc`]; a transaction is a stored procedure (`PostgreSQL`: a function),
//! so that what is measured is servers and their logs and not the way of forty statements. Nobody types or thinks: these are no
//! tpmC. Servers, sides and disks are those of [`crate::inserts`], with data in memory or beside the logs.
//!
//! After each load the servers hold still and must fulfil all consistency conditions of clause 3.3.2, and have everything that was
//! acknowledged. After the last one of a side they are killed at once, and recover from their logs, before they are asked.
//!
//! Rooms: `rows` is how rows look in SQL, `fill` the population, `call` the statements, `work` the clients, `audit` judges,
//! `report` makes lines.

mod audit;
mod call;
mod fill;
mod report;
mod rows;
mod work;

use std::time::Duration;

use ishigaki_servers::{Kind, Running};

use super::Company;
use crate::oltp::Stop;
use crate::one_log::{Counts, Data, Disk, Host, Place, Pooled, Side, Standing, Under, orders};
use crate::{Error, Line, Progress, Result};

use report::Report;
pub(super) use rows::InSql;
use work::Done;

/// The workload's name in figures and errors.
pub(crate) const NAME: &str = "tpcc-sql";

/// The most servers and the most clients of each; more than that are no figures of one host.
const MOST: usize = 64;

/// What is measured.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Which servers.
    pub kind: Kind,
    /// Where their logs are.
    pub disk: Disk,
    /// Where their data are.
    pub data: Data,
    /// How many of them work beside each other.
    pub servers: Vec<usize>,
    /// Clients of each.
    pub clients: usize,
    /// What each of them has.
    pub company: Company,
    /// How long each load takes.
    pub duration: Duration,
    /// Runs of each side.
    pub rounds: usize,
    /// What is compared.
    pub sides: Vec<Side>,
    /// Where it is done.
    pub host: Host,
}

impl Settings {
    fn check(&self) -> Result<()> {
        if self.servers.is_empty() || self.servers.iter().any(|count| !(1..=MOST).contains(count)) {
            return Err(Error::invalid("servers", "give one or more counts from 1 to 64, such as 1,4"));
        }
        if !(1..=MOST).contains(&self.clients) {
            return Err(Error::invalid("clients", "give a count from 1 to 64"));
        }
        if self.duration.is_zero() || self.rounds == 0 {
            return Err(Error::invalid("rounds", "at least one round of some time is needed"));
        }
        Ok(())
    }

    fn under(&self) -> Under<'_> {
        Under {
            workload: NAME,
            kind: self.kind,
            disk: &self.disk,
            servers: self.servers.iter().copied().max().unwrap_or(1),
            host: &self.host,
        }
    }
}

/// What came of a load, and what it took of disk and pool.
#[derive(Debug)]
struct Outcome {
    done: Done,
    disk: Option<Counts>,
    pool: Option<Pooled>,
}

/// Measures every side of one disk and one kind of server, and the disk by itself before.
pub fn run(settings: &Settings, progress: &mut dyn Progress) -> Result<Vec<Line>> {
    settings.check()?;
    let user = settings.kind.user()?;
    let steps = (settings.rounds * settings.sides.len() * settings.servers.len()) as u64;
    progress.step("a database with warehouses", 0, steps);
    let statements = fill::statements(&settings.company, settings.kind).map_err(|stop| told(settings, stop))?;
    let standing = Standing::new(settings.under(), user, &statements)?;
    let mut lines = standing.probe(settings.rounds, &settings.host.origin, progress)?;
    let mut report = Report::new(settings);
    let mut done = 0;
    for (round, order) in orders(settings.sides.len(), settings.rounds, settings.host.origin.seed).enumerate() {
        for place in order {
            let side = settings.sides[place];
            let outcomes = of_side(&standing, settings, side, round, &mut |servers| {
                let many = if servers == 1 { "" } else { "s" };
                progress.step(&format!("{side}: {servers} server{many}"), done, steps);
                done += 1;
            })?;
            report.add(place, outcomes);
        }
    }
    lines.extend(report.lines(standing.is_real_time()));
    Ok(lines)
}

/// Does all loads on one side; `tell` hears of each before it begins.
fn of_side(
    standing: &Standing<'_>,
    settings: &Settings,
    side: Side,
    round: usize,
    tell: &mut dyn FnMut(usize),
) -> Result<Vec<Outcome>> {
    let place = Place::new(standing, side, |_| (settings.data, &[]))?;
    let mut running = place.start()?;
    let mut receipts = vec![Vec::new(); place.servers.len()];
    let audit = |receipts: &[Vec<_>]| -> Result<()> {
        let stopped = || settings.under().is_stopped();
        for (server, receipts) in place.servers.iter().zip(receipts) {
            let checked = audit::check(&settings.company, server, receipts, &stopped);
            checked.map_err(|stop| told(settings, stop))?;
        }
        Ok(())
    };
    let mut outcomes = Vec::new();
    for (number, &servers) in settings.servers.iter().enumerate() {
        tell(servers);
        place.wait_until_up()?;
        standing.settle()?;
        let before = place.usage()?;
        let seed = settings.host.origin.seed.derive(round as u64);
        let (done, acknowledged) = work::run(settings, &place.servers[..servers], number, seed)?;
        let (disk, pool) = place.usage()?.since(before);
        outcomes.push(Outcome { done, disk, pool });
        receipts.iter_mut().zip(acknowledged).for_each(|(receipts, more)| receipts.extend(more));
        if outcomes.len() < settings.servers.len() {
            audit(&receipts)?;
        }
    }
    // At once, before anything that was written in vain finds its way to the log by itself. Nothing in memory is of help to one
    // that is killed: all it has is its log.
    running.iter_mut().try_for_each(Running::kill)?;
    drop(running);
    let _again = place.start()?;
    audit(&receipts)?;
    Ok(outcomes)
}

fn told(settings: &Settings, stop: Stop) -> Error {
    match stop {
        Stop::Engine(error) => Error::Engine(error),
        Stop::Wrong(reason) => Error::Wrong { workload: NAME, reason, path: settings.host.scratch.clone() },
    }
}
