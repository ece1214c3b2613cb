//! A company: its warehouses in a database, to be filled, worked on, and audited.

use std::num::NonZero;
use std::sync::Arc;
use std::time::Duration;

use ishigaki_base::random::Seed;
use ishigaki_txn::{Database, Session};

use super::access::{Access, Tables};
use super::books::Books;
use super::conditions::Violation;
use super::inputs::Inputs;
use super::mix::{Kind, Mix};
use super::scale::Scale;
use super::terminal::{Acknowledge, Receipt, Terminal};
use super::{NAME, load, promised};
use crate::oltp::{Stop, Worker};
use crate::pace::{Pace, Round};
use crate::{Error, Progress, Result};

/// Warehouses with everything that belongs to them, in a database of their own.
///
/// [`crate::tpcc::run`] does all of it with a fresh database for each figure; this is for who has the database already, such
/// as a test that kills the process.
///
/// *A crash* at any moment of [`work`](Self::work): opened again, the database holds everything that was acknowledged, and
/// [`audit`](Self::audit) finds nothing. A crash while it is [filled](Self::populate) leaves a part of the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Company {
    /// How many warehouses there are.
    pub warehouses: NonZero<u16>,
    /// How much they have.
    pub scale: Scale,
    /// Of the rows, and of which of them are often used.
    pub seed: Seed,
}

/// Terminals at work.
#[derive(Clone)]
pub struct Shift {
    /// What they do.
    pub mix: Mix,
    /// How many there are, each a thread.
    pub terminals: u32,
    /// The number of the first. Terminals that work on the same database at other times need other numbers.
    pub first: u32,
    /// Transactions that each may have outstanding.
    pub outstanding: usize,
    /// How long they work.
    pub duration: Duration,
    /// Hears of everything that is acknowledged.
    pub acknowledge: Arc<Acknowledge>,
}

impl Company {
    /// Makes the tables of an empty database and fills them.
    pub fn populate(&self, database: &Database, progress: &mut dyn Progress) -> Result<()> {
        let mut tell = |done, of| progress.step("filling", done, of);
        self.fill(database, &mut tell).map_err(told)
    }

    /// Terminals work until the time is over or the log fails. A failed log is an error.
    pub fn work(&self, database: &Database, shift: &Shift) -> Result<()> {
        self.shift(database, shift).map_err(told)
    }

    /// The first violation of each of the specification's consistency conditions (clause 3.3.2) that does not hold, and of
    /// two of ours; none if all is well. `database` must be still.
    pub fn audit(&self, database: &Database) -> Result<Vec<Violation>> {
        self.books(database).map(|books| books.audit(true)).map_err(told)
    }

    /// Fails if something that was acknowledged is not there.
    pub fn check<'a>(&self, database: &Database, receipts: impl Iterator<Item = &'a Receipt>) -> Result<()> {
        let check = || promised::check(database, &Tables::find(database)?, receipts);
        check().map_err(told)
    }

    pub(super) fn fill(&self, database: &Database, tell: &mut dyn FnMut(u64, u64)) -> Result<(), Stop> {
        load::populate(database, self.scale, self.warehouses.get(), self.seed, tell)
    }

    pub(super) fn books(&self, database: &Database) -> Result<Books, Stop> {
        let tables = Tables::find(database)?;
        database
            .session()
            .run(|transaction| Books::read(&mut Access::new(transaction, &tables), self.scale, self.warehouses.get()))
    }

    /// A terminal that keeps its receipts, or gives them to whoever is to hear of them.
    pub(super) fn terminal(
        &self,
        tables: Tables,
        mix: Mix,
        number: u32,
        seed: Seed,
        acknowledge: Option<Arc<Acknowledge>>,
    ) -> Terminal {
        Terminal::new(tables, self.inputs(mix, number, seed), mix, acknowledge)
    }

    /// What the terminal of that number draws.
    pub(super) fn inputs(&self, mix: Mix, number: u32, seed: Seed) -> Inputs {
        // One constant for all terminals of a run.
        let constants = load::constants(self.seed).run(&mut self.seed.derive(1).generator());
        Inputs::new(self.scale, self.warehouses.get(), constants, mix, number, seed.generator())
    }

    fn shift(&self, database: &Database, shift: &Shift) -> Result<(), Stop> {
        let tables = Tables::find(database)?;
        let worker = |number: u32| {
            let number = shift.first + number;
            let seed = self.seed.derive(2).derive(u64::from(number));
            let terminal = self.terminal(tables, shift.mix, number, seed, Some(Arc::clone(&shift.acknowledge)));
            let session: Session = database.session();
            Worker::new(session, terminal, shift.outstanding, Kind::ALL.len(), seed.derive(0).generator())
        };
        let mut workers: Vec<_> = (0..shift.terminals).map(worker).collect();
        let body = |worker| {
            let worker: &mut Worker<Terminal> = worker;
            move |round: &Round| worker.work(round.times()).map(|times| vec![times])
        };
        Pace::new(shift.duration).threads(workers.iter_mut().map(body).collect()).map(drop)
    }
}

fn told(stop: Stop) -> Error {
    match stop {
        Stop::Engine(error) => Error::Engine(error),
        Stop::Wrong(reason) => Error::Wrong { workload: NAME, reason, path: "the database".into() },
    }
}
