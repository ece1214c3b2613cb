//! A pool: the one log, its members, and how it opens, grows and closes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::thread::JoinHandle;

use ishigaki_base::{ByteSize, LogId, Lsn};
use ishigaki_device::Directory;
use ishigaki_wal::{Log, Stream};
use parking_lot::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::areas::Areas;
use crate::format::{Roster, RosterMember};
use crate::home::{EXTENT, Home};
use crate::keeper::Keeper;
use crate::member::{Resident, State};
use crate::meter::Meter;
use crate::process::Process;
use crate::recovery::Homes;
use crate::scrub::Scrubber;
use crate::{
    Error, LogStatistics, Member, MemberId, MemberSettings, Result, ScrubStatistics, Scrubbed, Settings, paths,
};

mod limits;
mod opening;
mod quarantine;
pub(crate) mod roster;

/// Regions of a home that is as large as it was made for.
const REGIONS: u64 = 256;

/// One log for many database servers.
///
/// *Threads*: everything takes `&self` and may be called from any number of threads. *Drop* closes the pool as
/// [`close`](Self::close) does. *A crash* at any moment loses nothing that was answered as durable; the next
/// [`open`](Self::open) rebuilds every member's files before it returns. *The first failed write or sync of the log* closes
/// the pool for all members and for good; one of a member's home closes that member.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::sync::Arc;
/// use ishigaki_device::MemoryDirectory;
/// use ishigaki_logpool::{Durability, MemberSettings, Pool, Settings};
///
/// let directory = Arc::new(MemoryDirectory::new());
/// let pool = Pool::open_together(directory.clone(), Settings::default())?;
/// let member = pool.add("accounts", MemberSettings::default())?;
/// let file = member.create("000000010000000000000001")?;
/// file.write(0, b"begin", Durability::Later)?;
/// file.write(5, b" and commit", Durability::Now)?;
/// pool.close()?;
///
/// let pool = Pool::open_together(directory, Settings::default())?;
/// let file = pool.member("accounts")?.open("000000010000000000000001")?;
/// let mut bytes = [0; 16];
/// assert_eq!(file.read(0, &mut bytes)?, 16);
/// assert_eq!(&bytes, b"begin and commit");
/// # Ok(())
/// # }
/// ```
pub struct Pool {
    core: Arc<Core>,
    keeper: Arc<Keeper>,
    directory: Arc<dyn Directory>,
    homes: Arc<dyn Homes>,
    roster: Mutex<Roster>,
    /// Members that are not served, and why.
    quarantined: Mutex<BTreeMap<String, Error>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// How closing went, once it is over.
    ended: Mutex<Option<Result<()>>>,
}

/// What the pool and its members share.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) log: Arc<Log>,
    pub(crate) stream: Stream,
    pub(crate) process: Process,
    pub(crate) settings: Settings,
    /// The first LSN of this opening.
    pub(crate) base: Lsn,
    pub(crate) meter: Arc<Meter>,
    pub(crate) scrubber: Scrubber,
    /// Bytes of entries appended since space was looked at.
    appended: AtomicU64,
    closed: AtomicBool,
    /// Shared by those that read the log from its beginning: nothing of it is given free meanwhile.
    reading: RwLock<()>,
    keeper: OnceLock<Weak<Keeper>>,
}

impl Core {
    /// Has the log stay as long as it is, for one that reads it from its beginning, until what is returned is dropped. A member
    /// whose writes fill the log meanwhile waits.
    pub(crate) fn hold_log(&self) -> RwLockReadGuard<'_, ()> {
        self.reading.read()
    }

    /// Waits for those that [read the log](Self::hold_log), and lets no other begin until what is returned is dropped.
    pub(crate) fn shorten_log(&self) -> RwLockWriteGuard<'_, ()> {
        self.reading.write()
    }

    /// Fails once the pool was closed or its log has failed.
    pub(crate) fn check(&self) -> Result<()> {
        if let Some(failure) = self.log.failure() {
            return Err(failure.into());
        }
        if self.closed.load(Ordering::SeqCst) { Err(Error::Closed) } else { Ok(()) }
    }

    pub(crate) fn log_id(&self) -> LogId {
        self.log.id()
    }

    /// Entries of so many bytes were appended: now and then somebody must look at the space. No lock is held.
    pub(crate) fn appended(&self, bytes: u64) {
        let often = (self.settings.segment.0 / 8).min(256 << 10);
        let before = self.appended.fetch_add(bytes, Ordering::Relaxed);
        if (before + bytes) / often > before / often
            && let Some(keeper) = self.keeper()
        {
            keeper.nudge();
        }
    }

    /// Who sees to the space, as long as the pool is open.
    pub(crate) fn keeper(&self) -> Option<Arc<Keeper>> {
        self.keeper.get().and_then(Weak::upgrade)
    }
}

impl Pool {
    /// Takes in another member: its home is made, its files are none.
    ///
    /// # Errors
    ///
    /// [`Error::Exists`] for a name that is in use, [`Error::Invalid`] for one that can not be, or when the shares of all
    /// members together were more than a quarter of the log. A full medium leaves the pool as it was.
    pub fn add(&self, name: &str, settings: MemberSettings) -> Result<Member> {
        paths::check_member(name)?;
        settings.quota.validate()?;
        let mut roster = self.roster.lock();
        self.core.check()?;
        if roster.members.iter().any(|member| member.name == name) {
            return Err(Error::Exists { name: name.to_owned() });
        }
        self.check_shares(&roster, name, settings.quota)?;
        let id = MemberId(roster.next);
        let next = roster.next.checked_add(1).ok_or_else(|| Error::invalid("there have been 65535 members"))?;
        // What a crash leaves of it before it is a member is removed by the next opening.
        let mut changed = roster.clone();
        changed.leaving.retain(|other| other != name);
        changed.leaving.push(name.to_owned());
        roster::write(self.directory.as_ref(), &mut changed)?;
        *roster = changed.clone();
        let (home, areas) = self.make_home(name, id, &settings)?;
        changed.next = next;
        changed.leaving.retain(|other| other != name);
        changed.members.push(RosterMember { id, name: name.to_owned(), settings: settings.clone() });
        roster::write(self.directory.as_ref(), &mut changed)?;
        *roster = changed;
        let resident = Resident::new(self.core.clone(), id, name, settings, home, areas, State::default());
        Ok(Member::new(self.move_in(resident)?))
    }

    fn make_home(&self, name: &str, id: MemberId, settings: &MemberSettings) -> Result<(Home, Areas)> {
        let directory = self.homes.directory(name)?;
        let log = self.core.log_id();
        let region = region_of(&self.core.settings, settings.quota.home);
        let made = Home::create(directory.clone(), name, log, id, region, &settings.quota).and_then(|home| {
            let areas = Areas::create(directory.as_ref(), name, log, id, &settings.profile)?;
            if self.core.settings.reserve {
                home.reserve_all(&settings.quota)?;
            }
            directory.sync()?;
            Ok((home, areas))
        });
        made.map_err(|error| {
            // The next opening removes what can not be removed now.
            if let Err(stays) = Home::clear(directory.as_ref(), name, log) {
                tracing::warn!(%stays, member = name, "what was made of its home is still there");
            }
            limits::no_room(name, error)
        })
    }

    /// A member takes part from now on.
    fn move_in(&self, resident: Resident) -> Result<Arc<Resident>> {
        let resident = Arc::new(resident);
        if self.core.settings.background {
            let body = resident.clone();
            self.threads.lock().push(spawn(&format!("home-{}", resident.name()), move || body.follow())?);
        }
        self.keeper.move_in(resident.clone());
        Ok(resident)
    }

    /// Removes a member with all of its files, also one that is quarantined. Its handles are of no use from then on. A crash
    /// leaves it a member, whole, or the next opening removes what is left of it.
    pub fn remove(&self, name: &str) -> Result<()> {
        let mut roster = self.roster.lock();
        self.core.check()?;
        if roster.members.iter().all(|member| member.name != name) {
            return Err(Error::NotFound { name: name.to_owned() });
        }
        let mut changed = roster.clone();
        changed.members.retain(|member| member.name != name);
        changed.leaving.push(name.to_owned());
        roster::write(self.directory.as_ref(), &mut changed)?;
        *roster = changed;
        if let Ok(resident) = self.keeper.resident(name) {
            self.keeper.move_out(name);
            resident.leave();
        }
        self.quarantined.lock().remove(name);
        drop(roster);
        self.sweep()
    }

    /// A member.
    pub fn member(&self, name: &str) -> Result<Member> {
        self.core.check()?;
        match self.quarantined.lock().get(name) {
            Some(error) => Err(error.clone()),
            None => self.keeper.resident(name).map(Member::new),
        }
    }

    /// The names of all members, sorted, those included that are quarantined.
    pub fn members(&self) -> Vec<String> {
        let names: BTreeSet<String> = self.roster.lock().members.iter().map(|member| member.name.clone()).collect();
        names.into_iter().collect()
    }

    /// What the log has done and what it takes.
    pub fn statistics(&self) -> LogStatistics {
        LogStatistics::of(&self.core)
    }

    /// Brings all members home and gives log space free, now. Returns the first failure; the others are brought home all the
    /// same.
    pub fn bring_home(&self) -> Result<()> {
        self.core.check()?;
        let open = self.keeper.residents().into_iter().filter(|resident| !self.is_quarantined(resident.name()));
        let outcomes: Vec<_> = open.map(|resident| resident.go_home()).collect();
        self.keeper.trim()?;
        outcomes.into_iter().collect()
    }

    fn is_quarantined(&self, name: &str) -> bool {
        self.quarantined.lock().contains_key(name)
    }

    /// Compares the home of a member, or of all, with its checksums, now and at once. What does not fit is made anew where the
    /// log has it, and is refused else.
    pub fn scrub(&self, member: Option<&str>) -> Result<Scrubbed> {
        self.core.check()?;
        let residents = if let Some(name) = member {
            vec![self.keeper.resident(name)?]
        } else {
            let all = self.keeper.residents().into_iter();
            all.filter(|resident| !self.is_quarantined(resident.name())).collect()
        };
        let mut found = Scrubbed::default();
        for resident in residents {
            found.add(self.core.scrubber.look(&resident, false)?);
        }
        Ok(found)
    }

    /// Has the scrubber compare so many bytes of homes each second from now on; with zero it stands still.
    pub fn set_scrub_rate(&self, rate: ByteSize) {
        self.core.scrubber.set_rate(rate);
    }

    /// What the scrubber has done.
    pub fn scrub_statistics(&self) -> ScrubStatistics {
        self.core.scrubber.statistics()
    }

    /// Says a member's changes again at the end of the log, and gives the space before free, now: as is done by itself with
    /// a member whose home does not keep up.
    pub fn carry_on(&self, name: &str) -> Result<()> {
        self.core.check()?;
        self.keeper.resident(name)?.restate()?;
        self.keeper.trim()
    }

    /// Takes no more requests, makes everything durable, checkpoint areas as well, and ends. What is not home stays in the log.
    pub fn close(&self) -> Result<()> {
        let mut ended = self.ended.lock();
        ended.get_or_insert_with(|| self.end()).clone()
    }

    fn end(&self) -> Result<()> {
        self.core.closed.store(true, Ordering::SeqCst);
        self.keeper.stop();
        self.core.scrubber.stop();
        self.keeper.residents().iter().for_each(|resident| resident.stop());
        self.core.process.stop();
        // First of all the log: a home may take its time, or stand still.
        let closed = self.core.log.close();
        for thread in std::mem::take(&mut *self.threads.lock()) {
            if thread.join().is_err() {
                tracing::error!("a thread of the pool panicked");
            }
        }
        closed?;
        let outcomes: Vec<_> = self.keeper.residents().iter().map(|resident| resident.close_areas()).collect();
        outcomes.into_iter().collect()
    }
}

/// Bytes of a region of a home that may be so large: as it is set, but not more than [`REGIONS`] of them, each of which is a
/// file that is open.
fn region_of(settings: &Settings, home: ByteSize) -> u64 {
    let wanted = settings.region.0.max(home.0 / REGIONS).next_multiple_of(EXTENT);
    wanted.min(home.0.next_multiple_of(EXTENT)).min(ByteSize::gib(4).0)
}

/// Starts a thread of the pool.
fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(body).map_err(|source| {
        ishigaki_device::Error::Io { name: "pool".to_owned(), operation: "start of a thread", source }.into()
    })
}

impl Drop for Pool {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            tracing::warn!(%error, "the pool could not be closed cleanly");
        }
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("members", &self.members()).finish_non_exhaustive()
    }
}
