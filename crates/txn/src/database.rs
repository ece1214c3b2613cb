//! The database: a directory, opened and recovered, that hands out sessions.

mod opening;
mod replay;

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use ishigaki_base::clock::{Clock, SystemClock};
use ishigaki_device::{Directory, DirectoryLock, FileDirectory, VigilantDirectory};
use ishigaki_wal::{Log, Progress};
use parking_lot::Mutex;

use crate::apart::{self, LogPlace};
use crate::checkpoint::{Checkpointer, Trigger};
use crate::memory::Memory;
use crate::protocol::{Age, Patience, TransactionId, Unblock};
use crate::session::{Home, Homes};
use crate::snapshot::Snapshots;
use crate::table::Tables;
use crate::unfinished;
use crate::{
    CheckpointProgress, CheckpointReport, Error, LogView, MemoryUse, ProtocolKind, Release, Result, Session, Settings,
};
pub(crate) use replay::Replay;

/// Ages that a session takes at once where they decide nothing.
const AGES_AT_ONCE: u64 = 1024;

/// Ordered tables of byte keys and byte values, changed by serializable transactions, durable through the log.
///
/// *Threads*: a handle; clones mean the same database, and everything may be called from any number of threads.
/// *Drop*: when the last handle, session, transaction and ticket are gone, the log is flushed and closed, without telling
/// of errors; [`close`](Database::close) does it at once and tells. *A crash*, of the process or of the power, at any
/// moment: the next [`open`](Database::open) has every transaction whose [`Ticket::wait`](crate::Ticket::wait) had
/// returned, and of the others each one whole or not at all. *A failed write or sync* closes the database for good: every
/// later begin, commit and wait returns [`Error::Log`] with the cause; open it again.
///
/// One process at a time: the directory is locked while the database is open.
///
/// ```
/// # fn main() -> ishigaki_txn::Result<()> {
/// # use std::sync::Arc;
/// use ishigaki_device::MemoryDirectory;
/// use ishigaki_txn::{Database, Settings};
///
/// // `Database::open("some/directory", Settings::default())` for one on disk.
/// let database = Database::open_in(Arc::new(MemoryDirectory::new()), Settings::default())?;
/// let session = database.session();
///
/// let mut txn = session.begin()?;
/// let fruit = txn.create_table("fruit")?;
/// txn.put(fruit, b"apple", b"red")?;
/// txn.commit()?.wait()?; // durable from here on
///
/// let mut txn = session.begin()?;
/// assert_eq!(txn.get(fruit, b"apple")?.as_deref(), Some(b"red".as_slice()));
/// txn.rollback();
/// database.close()
/// # }
/// ```
#[derive(Clone)]
pub struct Database {
    shared: Arc<Shared>,
}

/// What opening a database found and did.
#[derive(Clone, Debug)]
pub struct Recovery {
    /// The checkpoint that was loaded, if there was one.
    pub checkpoint: Option<LoadedCheckpoint>,
    /// What the log reports.
    pub log: ishigaki_wal::Recovery,
    /// Tables that exist.
    pub tables: usize,
    /// The current checkpoint was damaged, in this way: the one before it was loaded, and the log since then replayed, which has
    /// everything. A new checkpoint was made.
    pub repaired: Option<String>,
    /// Time from the lock on the directory to the finished recovery.
    pub elapsed: Duration,
}

/// A checkpoint that was loaded.
#[derive(Clone, Debug)]
pub struct LoadedCheckpoint {
    /// Its number.
    pub number: u64,
    /// Rows, names of tables among them.
    pub rows: u64,
    /// Bytes of its pages.
    pub bytes: u64,
    /// Time that loading it took.
    pub elapsed: Duration,
}

/// What all handles, sessions and transactions share.
pub(crate) struct Shared {
    pub(crate) log: Arc<Log>,
    pub(crate) tables: Arc<Tables>,
    pub(crate) memory: Arc<Memory>,
    pub(crate) checkpointer: Arc<Checkpointer>,
    pub(crate) snapshots: Snapshots,
    trigger: Option<Trigger>,
    pub(crate) homes: Homes,
    settings: Settings,
    /// Where the log is.
    of_log: Arc<dyn Directory>,
    recovery: Recovery,
    ages: AtomicU64,
    attempts: AtomicU64,
    closed: AtomicBool,
    /// Last, so that the directories are free only after everything else is gone.
    locks: Mutex<Vec<DirectoryLock>>,
}

impl Database {
    /// Opens the database in the directory `path` of the file system, or makes an empty one there, and recovers it.
    pub fn open(path: impl AsRef<Path>, settings: Settings) -> Result<Self> {
        Self::open_in(Arc::new(FileDirectory::open(path)?), settings)
    }

    /// Opens the database in a directory of any kind.
    ///
    /// Errors: [`Error::Device`] if somebody else has it open, [`Error::Log`] or [`Error::Corrupt`] if stored bytes are
    /// not what was written, [`Error::MemoryExhausted`] if the data does not fit into [`Settings::memory`].
    pub fn open_in(directory: Arc<dyn Directory>, settings: Settings) -> Result<Self> {
        Self::open_with_progress(directory, settings, &Progress::default())
    }

    /// [`open_in`](Self::open_in), and tells meanwhile how much of the log has been read.
    pub fn open_with_progress(directory: Arc<dyn Directory>, settings: Settings, progress: &Progress) -> Result<Self> {
        Self::open_both(directory, None, settings, progress, unfinished::refuse)
    }

    /// Opens a database whose log lies elsewhere than its tables, as in a log pool. A database that is made so is always
    /// opened so: its directory remembers it.
    ///
    /// Errors: as [`open_in`](Self::open_in), and [`Error::LogPlace`] if the database's log is not there.
    pub fn open_apart(
        directory: Arc<dyn Directory>,
        log: &LogPlace,
        settings: Settings,
        progress: &Progress,
    ) -> Result<Self> {
        Self::open_both(directory, Some(log), settings, progress, unfinished::refuse)
    }

    /// Opens what a backup or salvage has made so far.
    pub(crate) fn open_unfinished(
        directory: Arc<dyn Directory>,
        settings: Settings,
        progress: &Progress,
    ) -> Result<Self> {
        Self::open_both(directory, None, settings, progress, |_| Ok(()))
    }

    fn open_both(
        directory: Arc<dyn Directory>,
        place: Option<&LogPlace>,
        settings: Settings,
        progress: &Progress,
        check: impl FnOnce(&dyn Directory) -> Result<()>,
    ) -> Result<Self> {
        let clock = SystemClock::new();
        let mut locks = vec![directory.lock()?];
        check(directory.as_ref())?;
        // The log and the checkpoints make names in it, each of them syncing the other's, too.
        let directory: Arc<dyn Directory> = Arc::new(VigilantDirectory::new(directory));
        let of_log = if let Some(place) = place {
            locks.push(place.directory.lock()?);
            apart::settle(directory.as_ref(), place)?;
            place.directory.clone()
        } else {
            apart::refuse_note(directory.as_ref())?;
            directory.clone()
        };
        let opened = opening::open(directory.as_ref(), of_log.clone(), &settings, progress)?;
        let opening::Opened { memory, tables, log, report, before, loaded, repaired } = opened;
        let checkpointer = Arc::new(Checkpointer::new(
            directory,
            Arc::clone(&log),
            Arc::clone(&tables),
            settings.log.all_streams(),
            settings.checkpoint.clone(),
            before,
        ));
        let trigger = settings.checkpoint.automatic.then(|| Trigger::start(&checkpointer)).transpose()?;
        let old_versions = settings.snapshot_memory.map_or(settings.memory.0 / 4, |limit| limit.0);
        let snapshots = Snapshots::new(Arc::clone(&memory), old_versions);
        let elapsed = clock.now();
        let recovery = Recovery { checkpoint: loaded, log: report, tables: tables.count(), repaired, elapsed };
        tracing::info!(records = recovery.log.records, tables = recovery.tables, elapsed = ?recovery.elapsed, "opened");
        let shared = Shared {
            log,
            tables,
            memory,
            checkpointer,
            snapshots,
            trigger,
            homes: Homes::default(),
            settings,
            of_log,
            recovery,
            ages: AtomicU64::new(1),
            attempts: AtomicU64::new(0),
            locks: Mutex::new(locks),
            closed: AtomicBool::new(false),
        };
        let database = Self { shared: Arc::new(shared) };
        if database.recovery().repaired.is_some() {
            // The one that was damaged is gone: until the next one is made there is only that before it.
            if let Err(error) = database.checkpoint() {
                tracing::warn!(%error, "no checkpoint could be made in place of the damaged one");
            }
        }
        Ok(database)
    }

    /// A handle on what a session belongs to.
    pub(crate) fn of(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// What opening found and did.
    pub fn recovery(&self) -> &Recovery {
        &self.shared.recovery
    }

    /// A new session; they take the log's streams in turn.
    pub fn session(&self) -> Session {
        Session::new(Arc::clone(&self.shared), self.shared.log.assign())
    }

    /// How much memory is in use.
    pub fn memory(&self) -> MemoryUse {
        self.shared.memory.usage()
    }

    /// Writes all tables down while transactions run, so that the log before that is not needed any more. Returns when the
    /// checkpoint is durable; waits first for one that is being made already.
    ///
    /// After an error the checkpoint before it is still current, and the database works on unless the log has failed.
    pub fn checkpoint(&self) -> Result<CheckpointReport> {
        self.shared.checkpointer.run()
    }

    /// How far a checkpoint is that is being made now, by whomever.
    pub fn checkpoint_progress(&self) -> Option<CheckpointProgress> {
        self.shared.checkpointer.progress()
    }

    /// The next table that is made gets that number, if none ever had it or a larger one.
    pub(crate) fn reserve_table_ids_below(&self, id: crate::TableId) {
        self.shared.tables.reserve_ids(crate::TableId(id.0.saturating_sub(1)));
    }

    /// Where its tables are, and where its log.
    pub(crate) fn directories(&self) -> (&Arc<dyn Directory>, &Arc<dyn Directory>) {
        (self.shared.checkpointer.directory(), &self.shared.of_log)
    }

    /// Lets no checkpoint begin as long as what is returned lives.
    pub(crate) fn hold_checkpoints(&self) -> impl Sized + '_ {
        self.shared.checkpointer.hold()
    }

    /// The log underneath, to look at.
    pub fn log(&self) -> LogView<'_> {
        LogView::of(&self.shared.log)
    }

    /// Makes everything committed durable, marks the log as cleanly closed and lets go of the directory. Whoever still
    /// has a session gets [`Error::Log`] from its next begin or commit.
    pub fn close(self) -> Result<()> {
        self.shared.close()
    }
}

impl Shared {
    /// The identity of a transaction of a session, younger than all others. Where ages decide nothing, a session takes many
    /// at once, so that sessions do not meet in this number.
    pub(crate) fn youngest(&self, home: &Home) -> TransactionId {
        let age = match self.settings.protocol {
            ProtocolKind::Locking => self.ages.fetch_add(1, Ordering::Relaxed),
            ProtocolKind::TicToc => {
                let mut drawn = home.ages.lock();
                if drawn.is_empty() {
                    let first = self.ages.fetch_add(AGES_AT_ONCE, Ordering::Relaxed);
                    *drawn = first..first + AGES_AT_ONCE;
                }
                drawn.start += 1;
                drawn.start - 1
            }
        };
        TransactionId::first(Age(age))
    }

    /// The identity of one more attempt at a transaction.
    pub(crate) fn again(&self, age: Age) -> TransactionId {
        TransactionId::again(age, self.attempts.fetch_add(1, Ordering::Relaxed))
    }

    /// The patience of one transaction of a session.
    pub(crate) fn patience(&self, home: &Arc<Home>) -> Patience {
        let unblock = (self.settings.release == Release::Normal).then(|| Arc::clone(home) as Arc<dyn Unblock>);
        Patience::new(self.settings.lock_wait, unblock)
    }

    pub(crate) fn release(&self) -> Release {
        self.settings.release
    }

    /// How many transactions of a session become durable together, unless there is need before.
    pub(crate) fn group(&self) -> usize {
        self.settings.log.group.transactions.max(1)
    }

    pub(crate) fn protocol(&self) -> ProtocolKind {
        self.settings.protocol
    }

    pub(crate) fn range_protection(&self) -> bool {
        self.settings.range_protection
    }

    /// Sees now whether a checkpoint is due, if checkpoints are made by themselves.
    pub(crate) fn look_after_the_log(&self) {
        match &self.trigger {
            Some(trigger) => trigger.look(),
            None => self.checkpointer.relieve(),
        }
    }

    /// Fails once the log has failed or was closed.
    pub(crate) fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Relaxed) {
            return Err(Error::Log(ishigaki_wal::Error::Closed));
        }
        self.log.failure().map_or(Ok(()), |failure| Err(Error::Log(failure)))
    }

    fn close(&self) -> Result<()> {
        self.closed.store(true, Ordering::Relaxed);
        self.checkpointer.stop();
        if let Some(trigger) = &self.trigger {
            trigger.stop();
        }
        let closed = self.log.close();
        self.locks.lock().clear();
        Ok(closed?)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // A log that failed is closed, too: that waits for writes under way before the directory is free for others.
        if !self.closed.load(Ordering::Relaxed)
            && let Err(error) = self.close()
        {
            tracing::warn!(%error, "the database could not be closed cleanly");
        }
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").field("memory", &self.memory()).finish_non_exhaustive()
    }
}
