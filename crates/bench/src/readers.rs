//! `readers`: one server reads while others write, each with a log of its own, or all with one log: whether readers are harmed
//! (paper 4, section 6.3, with its queries 2 and 20 of TPC-H).
//!
//! ```text
//!  reader ─▶ server 0 ─┬─ TPC-H's tables, on the disk
//!  writer ─▶ server 1 ─┼─ logs, on the same disk, separate or in one        a row a transaction, one after the other
//!  writer ─▶ server 2 ─┘  data in memory
//! ```
//!
//! A side's reader asks both queries some times while nobody writes, and some times while all others do. Nothing of the tables is
//! in memory before a query but what fits into a buffer far smaller than they are; of files that the host has in its memory,
//! their pages are given back. The authors' readers have no writers beside them; what is compared here is harder on the one log.
//!
//! All answers to a query must be the same, and after the servers were killed and started again every acknowledged row is there.
//!
//! Rooms: `tables` makes the tables of `tpchgen`'s rows, `queries` are the two, `side` is one side in one round.

mod queries;
mod side;
mod tables;

use ishigaki_servers::Kind;

use crate::one_log::{Disk, Host, Side, Standing, Under, orders};
use crate::{Case, Error, Line, Metric, Progress, Result};

use side::Outcome;

/// The workload's name in figures and errors.
pub(crate) const NAME: &str = "readers";

/// What is measured.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Which servers.
    pub kind: Kind,
    /// Where logs and the reader's tables are.
    pub disk: Disk,
    /// Servers that write.
    pub writers: usize,
    /// The scale of the tables; 1 is about a gigabyte of text.
    pub scale: f64,
    /// How often each query is asked, with and without writers.
    pub times: usize,
    /// Runs of each side.
    pub rounds: usize,
    /// What is compared.
    pub sides: Vec<Side>,
    /// Where it is done.
    pub host: Host,
}

impl Settings {
    fn check(&self) -> Result<()> {
        if !(1..=63).contains(&self.writers) {
            return Err(Error::invalid("writers", "give a count from 1 to 63"));
        }
        if !(0.001..=1.0).contains(&self.scale) {
            return Err(Error::invalid("scale", "give a number from 0.001 to 1, such as 0.02"));
        }
        if self.times == 0 || self.rounds == 0 {
            return Err(Error::invalid("rounds", "at least one round and one query are needed"));
        }
        Ok(())
    }

    fn under(&self) -> Under<'_> {
        Under { workload: NAME, kind: self.kind, disk: &self.disk, servers: 1 + self.writers, host: &self.host }
    }
}

/// Measures every side of one disk and one kind of server.
pub fn run(settings: &Settings, progress: &mut dyn Progress) -> Result<Vec<Line>> {
    settings.check()?;
    let user = settings.kind.user()?;
    let steps = (settings.rounds * settings.sides.len()) as u64;
    progress.step("a database with TPC-H's tables", 0, steps);
    let standing = Standing::new(settings.under(), user, &tables::statements(settings.scale, settings.kind))?;
    let mut rounds: Vec<Vec<Outcome>> = settings.sides.iter().map(|_| Vec::new()).collect();
    let mut done = 0;
    let mut answers = None;
    for order in orders(settings.sides.len(), settings.rounds, settings.host.origin.seed) {
        for place in order {
            let side = settings.sides[place];
            progress.step(&format!("{side}: a reader beside {} that write", settings.writers), done, steps);
            rounds[place].push(side::run(&standing, settings, side, &mut answers)?);
            done += 1;
        }
    }
    Ok(lines(settings, &rounds))
}

fn lines(settings: &Settings, rounds: &[Vec<Outcome>]) -> Vec<Line> {
    let mut lines = Vec::new();
    for (side, outcomes) in settings.sides.iter().zip(rounds) {
        let case = Case::from_iter([
            ("device".to_owned(), settings.disk.to_string().into()),
            ("server".to_owned(), settings.kind.to_string().into()),
            ("side".to_owned(), side.to_string().into()),
            ("writers".to_owned(), settings.writers.into()),
            ("scale".to_owned(), settings.scale.into()),
            ("times".to_owned(), settings.times.into()),
        ]);
        let with = |parts: &[(&str, &str)]| {
            let more = parts.iter().map(|&(key, value)| (key.to_owned(), value.into()));
            case.clone().into_iter().chain(more).collect::<Case>()
        };
        let line = |case, metric, figure: &dyn Fn(&Outcome) -> f64| {
            Line::new(NAME, case, metric, outcomes.iter().map(figure).collect(), &settings.host.origin)
        };
        for (place, query) in queries::NAMES.into_iter().enumerate() {
            for (at, beside) in ["nobody", "writers"].into_iter().enumerate() {
                let case = with(&[("query", query), ("beside", beside)]);
                lines.push(line(case, Metric::Elapsed, &|outcome| outcome.queries[place][at]));
            }
            let case = with(&[("query", query), ("of", "beside writers over alone")]);
            lines.push(line(case, Metric::Ratio, &|outcome| outcome.queries[place][1] / outcome.queries[place][0]));
        }
        lines.push(line(with(&[("who", "writers")]), Metric::Throughput, &|outcome| outcome.written));
    }
    lines
}
