//! How a pool opens: everything is rebuilt, made durable where it might not be, and only then served.

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use ishigaki_base::{ByteSize, ErrorKind};
use ishigaki_device::{Directory, VigilantDirectory};
use ishigaki_wal::{CommitRule, Group, Log, LogKind, Settings as LogSettings};
use parking_lot::{Mutex, RwLock};

use super::{Core, Pool, roster, spawn};
use crate::format::Roster;
use crate::home::DEVICES;
use crate::keeper::Keeper;
use crate::meter::{Meter, MeteredDirectory};
use crate::process::Process;
use crate::recovery::{Homes, Rebuilt, RebuiltMember, Together};
use crate::scrub::Scrubber;
use crate::{Error, Result, Settings};

/// Groups of entries that nobody waits for are written after this time.
const HELD: Duration = Duration::from_millis(100);

impl Settings {
    /// The log's: one stream, which holds what nobody waits for.
    fn of_log(&self) -> LogSettings {
        LogSettings {
            kind: LogKind::Parallel,
            commit: CommitRule::Watermark,
            streams: 1,
            relief: 0,
            group: Group { transactions: usize::MAX, bytes: ByteSize::mib(1), time: HELD },
            segment: self.segment,
            space: self.log,
            space_wait: self.patience,
            background: self.background,
            // A trim gives space back, which is then not reserved.
            trim: !self.reserve,
            ..LogSettings::default()
        }
    }
}

impl Pool {
    /// Opens the pool whose log is in `directory`, or makes one there. The homes of its members are where `homes` says. The
    /// caller holds the directories' locks.
    ///
    /// When this returns, every member's files are as they were after its last entry that the log has: all that was answered
    /// as durable, and perhaps more, in the order in which it was accepted.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] for anything of the log or the roster that is not as it was written or is missing. A member of which that
    /// is so is [quarantined](Self::quarantined) alone.
    pub fn open(directory: Arc<dyn Directory>, homes: Arc<dyn Homes>, settings: Settings) -> Result<Self> {
        let directory: Arc<dyn Directory> = Arc::new(VigilantDirectory::new(directory));
        Self::begin(directory, homes, settings)
    }

    /// Opens a pool with everything in one directory.
    pub fn open_together(directory: Arc<dyn Directory>, settings: Settings) -> Result<Self> {
        let directory: Arc<dyn Directory> = Arc::new(VigilantDirectory::new(directory));
        Self::begin(directory.clone(), Arc::new(Together(directory)), settings)
    }

    fn begin(directory: Arc<dyn Directory>, homes: Arc<dyn Homes>, settings: Settings) -> Result<Self> {
        settings.validate()?;
        let found = roster::read(directory.as_ref())?;
        // Else it would open as a new pool of no members, beside those that it had.
        if found.is_none() && directory.list()?.iter().any(|name| name.starts_with(DEVICES)) {
            return Err(Error::corrupt("it has homes of members, and there is no roster"));
        }
        let mut rebuilt = match &found {
            Some(roster) => Rebuilt::begin(roster, directory.as_ref(), homes.as_ref()),
            None => Rebuilt::default(),
        };
        let meter = Arc::new(Meter::default());
        let metered: Arc<dyn Directory> = Arc::new(MeteredDirectory::new(directory.clone(), meter.clone()));
        let (log, recovery) = Log::open(metered, settings.of_log(), &mut |position, payload| {
            rebuilt.take(position.lsn(), payload).map_err(Into::into)
        })
        .map_err(unwrap_replay)?;
        let is_new = found.is_none();
        let mut roster = match found {
            Some(roster) if roster.log == log.id() => roster,
            Some(roster) => {
                return Err(Error::corrupt(format!(
                    "its roster is that of pool {}, its log is {}",
                    roster.log,
                    log.id()
                )));
            }
            None if recovery.records > 0 => return Err(Error::corrupt("its log has entries, and there is no roster")),
            None => Roster { log: log.id(), next: 0, sequence: 0, leaving: Vec::new(), members: Vec::new() },
        };
        rebuilt.finish();
        if settings.reserve {
            reserve_log(&log, is_new)?;
        }
        // Whoever wrote it may have died before it was durable.
        match roster::write(directory.as_ref(), &mut roster) {
            // Its bytes are durable; what may not be is its name.
            Err(Error::Device(cause)) if cause.kind() == ErrorKind::Exhausted && !is_new => {
                tracing::warn!("the medium of the pool is full ({cause}); members can be served, and none taken in");
                directory.sync()?;
            }
            outcome => outcome?,
        }
        let core = Arc::new(Core {
            stream: log.assign(),
            process: Process::new(log.clone(), settings.waiting, settings.background),
            base: recovery.cut.next(),
            scrubber: Scrubber::new(&settings),
            log,
            settings,
            meter,
            appended: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            reading: RwLock::default(),
            keeper: OnceLock::new(),
        });
        let keeper = Arc::new(Keeper::new(core.clone()));
        let _ = core.keeper.set(Arc::downgrade(&keeper));
        let (ended, threads) = (Mutex::new(None), Mutex::default());
        let (roster, quarantined) = (Mutex::new(roster), Mutex::default());
        let pool = Self { core, keeper, directory, homes, roster, quarantined, threads, ended };
        pool.settle(rebuilt)?;
        Ok(pool)
    }

    /// Makes the members' homes durable as they were found, and lets everybody in.
    fn settle(&self, rebuilt: Rebuilt) -> Result<()> {
        self.settle_members(rebuilt)?;
        if !self.roster.lock().leaving.is_empty() {
            self.sweep()?;
        }
        if self.core.settings.background {
            let keeper = self.keeper.clone();
            self.threads.lock().push(spawn("pool-keeper", move || keeper.run())?);
            let (core, keeper) = (self.core.clone(), self.keeper.clone());
            self.threads.lock().push(spawn("pool-scrub", move || core.scrubber.run(&keeper))?);
            if self.core.process.has_thread() {
                let core = self.core.clone();
                self.threads.lock().push(spawn("pool-log", move || core.process.run())?);
            }
        }
        Ok(())
    }
}

/// A home that was made without its space being taken gets it now, if the medium has so much: a pool that is there opens in
/// any case, as it did before.
pub(super) fn reserve_home(member: &RebuiltMember) -> Result<()> {
    match member.home.reserve_all(&member.settings.quota) {
        Err(Error::Device(cause)) if cause.kind() == ErrorKind::Exhausted => {
            let (name, home) = (&member.name, member.settings.quota.home);
            tracing::warn!(
                "member `{name}` may have a home of {home}, and its medium has not so much left ({cause}): it may be refused before; give the medium more room, or the member a smaller home with `ishigaki log set`"
            );
            Ok(())
        }
        outcome => outcome,
    }
}

/// Takes the space of the whole log. A pool that is there opens in any case, as it did before; a new one needs it.
fn reserve_log(log: &Log, is_new: bool) -> Result<()> {
    match log.reserve() {
        Err(error) if error.kind() == ErrorKind::Exhausted && !is_new => {
            let bound = log.space().bound;
            tracing::warn!(
                "the log may take {bound}, and its medium has not so much left ({error}): commits may fail for want of space before; give the medium more room, or the log a smaller size"
            );
            Ok(())
        }
        Err(cause) if cause.kind() == ErrorKind::Exhausted => Err(Error::NoRoom { bound: log.space().bound, cause }),
        outcome => Ok(outcome?),
    }
}

/// An entry's own error, out of the log's.
fn unwrap_replay(error: ishigaki_wal::Error) -> Error {
    match error {
        ishigaki_wal::Error::Replay { lsn, cause } => match cause.downcast_ref::<Error>() {
            Some(error) => error.clone(),
            None => Error::corrupt(format!("record {lsn}: {cause}")),
        },
        error => error.into(),
    }
}
