//! `bank`: transfers between few accounts by many sessions, and books that give away every broken promise.
//!
//! Each transaction moves an amount from one account to another and enters it in a journal under the session's number and a
//! sequence number that grows by one from each transaction of that session to its next. Few accounts make nearly every
//! transaction wait for another one's lock.
//!
//! ```text
//! table account   account            -> balance, transfers that touched it
//! table journal   session, sequence  -> from, to, amount
//! ```
//!
//! The [`Books`] show whether everything is there whole: a balance that is not its account's journal is a transaction in
//! part; a hole in a session's sequence is a transaction lost while a later one of the same session survived; and a journal that
//! lacks an entry whose acknowledgement was seen is a broken promise. The database in the directory stays, and the
//! next run continues it: kill one at any moment, [`check`], and run again.

mod books;
mod teller;

use std::io;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use ishigaki_txn::{self as txn, Database};
use ishigaki_wal as wal;

pub use books::{Books, Entry, Report};

use crate::{Error, Line, Origin, Result};

/// The workload's name in figures and errors.
const NAME: &str = "bank";

/// What every account begins with.
const OPENING_BALANCE: i64 = 1000;

/// A bank and how it is used.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The database's directory; made if it is not there, continued if it is.
    pub data: PathBuf,
    /// How many sessions transfer beside each other. Default 4.
    pub sessions: u32,
    /// Accounts of a new bank, at least 2; one that is there keeps its own. Default 16.
    pub accounts: u32,
    /// When to stop; `None` means never. Default `None`.
    pub duration: Option<Duration>,
    /// The engine's log.
    pub log: wal::Settings,
    /// Where the figures come from; its seed draws the transfers.
    pub origin: Origin,
}

impl Settings {
    /// The defaults, for a directory.
    pub fn new(data: impl Into<PathBuf>, origin: Origin) -> Self {
        let log = wal::Settings::default();
        Self { data: data.into(), sessions: 4, accounts: 16, duration: None, log, origin }
    }

    fn open(&self) -> Result<Database> {
        let settings = txn::Settings { log: self.log.clone(), ..txn::Settings::default() };
        Ok(Database::open(&self.data, settings)?)
    }

    fn validate(&self) -> Result<()> {
        let invalid = |setting, reason: &str| Err(Error::invalid(setting, reason));
        if !(1..=1024).contains(&self.sessions) {
            return invalid("sessions", "give 1 to 1024");
        }
        if !(2..=1_000_000).contains(&self.accounts) {
            return invalid("accounts", "a transfer needs 2 accounts; give 2 to 1000000");
        }
        Ok(())
    }
}

/// Hears of each transaction (session, sequence) after the engine reported it durable. Called from the sessions' threads.
pub type Acknowledge<'a> = dyn Fn(u32, u64) -> io::Result<()> + Sync + 'a;

/// The line that tells another process of an acknowledged transaction; to be written with one call, so that a kill can
/// not leave it half told and half not.
pub fn acknowledgement(session: u32, sequence: u64) -> String {
    format!("ack {session} {sequence}\n")
}

/// Opens the bank, or founds it, and transfers until the time is over or `stop` is set; then checks the books.
///
/// The books are checked at the beginning too, so a bank that a crash left wrong is not continued.
pub fn run(
    settings: &Settings,
    stop: &AtomicBool,
    acknowledge: Option<&Acknowledge<'_>>,
) -> Result<(Report, Vec<Line>)> {
    settings.validate()?;
    let database = settings.open()?;
    let before = books::found_or_read(&database, settings)?;
    let lines = teller::transfer(&database, settings, &before, stop, acknowledge)?;
    let after = Books::read(&database)?;
    let report = audit(settings, &after)?;
    database.close()?;
    Ok((report, lines))
}

/// Opens the database and checks the books; an empty database is a bank without accounts, and right.
pub fn check(settings: &Settings) -> Result<Report> {
    let database = settings.open()?;
    let books = Books::read(&database)?;
    database.close()?;
    audit(settings, &books)
}

fn audit(settings: &Settings, books: &Books) -> Result<Report> {
    books.audit().map_err(|reason| Error::Wrong { workload: NAME, reason, path: settings.data.clone() })
}
