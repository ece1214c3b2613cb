//! Sessions: where transactions begin, each bound to one stream of the log.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Weak};
use std::time::Duration;

use ishigaki_base::random::Seed;
use ishigaki_wal::{Receipt, Stream};
use parking_lot::Mutex;
use smallvec::SmallVec;

use crate::database::Shared;
use crate::memory::Float;
use crate::parking::{self, Parking};
use crate::protocol::{Age, Held, Interrupt, Unblock, Whose};
use crate::table::{TableId, TableRef};
use crate::{Database, Error, Release, Result, Snapshot, Transaction};

/// Begins transactions whose commits go to one stream of the log.
///
/// *Threads*: a session may be cloned and used from any number of threads; they share its stream, not its transactions.
/// One session per thread spreads commits best. A session, as everything that comes from it, keeps the database open.
///
/// ```
/// # fn main() -> ishigaki_txn::Result<()> {
/// # use std::sync::{Arc, Weak};
/// # let database = ishigaki_txn::Database::open_in(Arc::new(ishigaki_device::MemoryDirectory::new()), Default::default())?;
/// let session = database.session();
/// let total: u64 = session.run(|txn| {
///     let counters = match txn.table("counters")? {
///         Some(table) => table,
///         None => txn.create_table("counters")?,
///     };
///     let old = txn.get_with(counters, b"visits", |value| value.len() as u64)?.unwrap_or(0);
///     txn.put(counters, b"visits", &vec![b'|'; old as usize + 1])?;
///     Ok::<_, ishigaki_txn::Error>(old + 1)
/// })?;
/// assert_eq!(total, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Session {
    home: Arc<Home>,
}

/// A database and the stream that a session was given.
pub(crate) struct Home {
    pub(crate) database: Arc<Shared>,
    pub(crate) stream: Stream,
    /// Transactions that hold their locks until they are durable.
    pub(crate) parking: Parking,
    /// Ages that have been drawn and not been given out.
    pub(crate) ages: Mutex<Range<u64>>,
    /// Memory that is reserved and that no transaction has.
    pub(crate) float: Arc<Float>,
    /// Tables that were used last.
    tables: Mutex<SmallVec<[TableRef; 8]>>,
    system: TableRef,
}

/// The sessions of a database.
#[derive(Debug, Default)]
pub(crate) struct Homes(Mutex<Vec<Weak<Home>>>);

impl Homes {
    fn add(&self, home: &Arc<Home>) {
        let mut homes = self.0.lock();
        homes.retain(|home| home.strong_count() > 0);
        homes.push(Arc::downgrade(home));
    }

    /// Those that there are.
    pub(crate) fn living(&self) -> Vec<Arc<Home>> {
        // The last share of a session must not be dropped under this lock.
        self.0.lock().iter().filter_map(Weak::upgrade).collect()
    }

    /// Lets go of tables that are dropped. After they have been taken out of the database's: no session finds them again.
    pub(crate) fn forget_tables(&self, dropped: &[TableId]) {
        for home in self.living() {
            home.tables.lock().retain(|table| !dropped.contains(&table.id));
        }
    }
}

/// Tables that a session has at hand.
const AT_HAND: usize = 32;

impl Home {
    /// A table that exists.
    pub(crate) fn table(&self, id: TableId) -> Option<TableRef> {
        let mut at_hand = self.tables.lock();
        if let Some(table) = at_hand.iter().find(|table| table.id == id) {
            return Some(Arc::clone(table));
        }
        let table = Arc::new(self.database.tables.get(id)?);
        if at_hand.len() == AT_HAND {
            at_hand.clear();
        }
        at_hand.push(Arc::clone(&table));
        Some(table)
    }

    /// The system table.
    pub(crate) fn system(&self) -> TableRef {
        Arc::clone(&self.system)
    }

    /// Keeps the locks of a transaction that has committed until it is durable.
    pub(crate) fn park(&self, receipt: Receipt, held: Held) {
        if self.parking.add(receipt, held) >= self.database.group() {
            self.flush();
        }
    }

    /// Makes durable what the session's transactions still hold locks for, and lets go of those.
    pub(crate) fn flush(&self) -> bool {
        self.database.release() == Release::Normal && self.parking.flush(&self.stream)
    }

    /// Lets go of the locks of transactions that are durable.
    pub(crate) fn release_durable(&self) {
        if self.database.release() == Release::Normal {
            self.parking.release_durable(|receipt| self.database.log.has_settled(receipt));
        }
    }
}

impl Unblock for Home {
    fn unblock(&self, whose: Whose) -> bool {
        match whose {
            Whose::Own => self.flush(),
            Whose::Stale => {
                parking::flush_stale(&self.database.homes);
                false
            }
        }
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        self.flush();
    }
}

impl fmt::Debug for Home {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Home").field("stream", &self.stream.id()).finish_non_exhaustive()
    }
}

impl Session {
    pub(crate) fn new(database: Arc<Shared>, stream: Stream) -> Self {
        let float = database.memory.float();
        let system = Arc::new(Arc::clone(database.tables.system()));
        let (parking, ages, tables) = (Parking::default(), Mutex::default(), Mutex::default());
        let home = Arc::new(Home { database, stream, parking, ages, float, tables, system });
        home.database.homes.add(&home);
        Self { home }
    }

    #[cfg(test)]
    pub(crate) fn home(&self) -> &Arc<Home> {
        &self.home
    }

    #[cfg(test)]
    pub(crate) fn stream(&self) -> ishigaki_base::StreamId {
        self.home.stream.id()
    }

    /// The database that it belongs to.
    pub fn database(&self) -> Database {
        Database::of(Arc::clone(&self.home.database))
    }

    /// Begins a transaction, the youngest of all. Fails once the log has failed or was closed.
    pub fn begin(&self) -> Result<Transaction> {
        self.home.database.check_open()?;
        Ok(Transaction::new(Arc::clone(&self.home), self.home.database.youngest(&self.home)))
    }

    /// Begins a transaction in place of one that gave way to a conflict, with that one's
    /// [`age`](Transaction::age): it is taken up again rather than sent to the end of the line.
    pub fn begin_with_age(&self, age: Age) -> Result<Transaction> {
        self.home.database.check_open()?;
        Ok(Transaction::new(Arc::clone(&self.home), self.home.database.again(age)))
    }

    /// What all tables hold now, to be read for as long as one likes: see [`Snapshot`]. Fails once the log has failed or was
    /// closed.
    pub fn snapshot(&self) -> Result<Snapshot> {
        self.home.database.check_open()?;
        Ok(Snapshot::take(Arc::clone(&self.home)))
    }

    /// Runs `body` in a transaction and commits it; returns when it is durable.
    ///
    /// On a conflict everything starts again: `body` is called with a new transaction of the same age, after a short
    /// pause. So `body` must have no effects but those on its transaction, or bear them being repeated. Any error of its
    /// own rolls back and is returned. There is no limit on how often it is run. Under
    /// [`ProtocolKind::Locking`](crate::ProtocolKind) its age sees to it that it is not run for ever, unless somebody never
    /// ends a transaction that is in the way; under [`ProtocolKind::TicToc`](crate::ProtocolKind) pauses that grow make that
    /// unlikely. Nor is an error of `body` returned that came from a state that never was: then it is run again, too. A flag
    /// given to [`Transaction::set_interrupt`] ends the retries.
    pub fn run<T, E: From<Error>>(&self, mut body: impl FnMut(&mut Transaction) -> Result<T, E>) -> Result<T, E> {
        let mut txn = self.begin()?;
        let age = txn.age();
        let mut attempt = 0;
        loop {
            let outcome = body(&mut txn);
            let interrupt = txn.interrupt();
            // The transaction itself knows whether it died of a conflict, whatever `body` has made of the error.
            match outcome {
                Ok(value) => match txn.commit() {
                    Ok(ticket) => return ticket.wait().map(|()| value).map_err(E::from),
                    Err(Error::Conflict { .. }) => {}
                    Err(error) => return Err(error.into()),
                },
                // What followed from things that do not fit together did not happen.
                Err(error) if txn.validate().is_ok() => return Err(error),
                Err(_) => drop(txn),
            }
            back_off(age, attempt, &interrupt)?;
            attempt += 1;
            txn = self.begin_with_age(age)?;
        }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("stream", &self.home.stream.id()).finish_non_exhaustive()
    }
}

/// Pauses before the next attempt: a little longer each time, and differently for each transaction, so that two of them do
/// not keep meeting. The first attempts only give the processor to somebody else.
fn back_off(age: Age, attempt: u64, interrupt: &Interrupt) -> Result<()> {
    interrupt.check()?;
    let window = 10_u64 << attempt.min(8);
    let pause = Seed(age.0).derive(attempt).0 % window;
    if attempt < 2 {
        std::thread::yield_now();
    } else {
        std::thread::sleep(Duration::from_micros(pause));
    }
    Ok(())
}
