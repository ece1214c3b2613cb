//! A service from its beginning to its end.

use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Instant, SystemTime};

use ishigaki_base::ErrorKind;
use ishigaki_device::{Directory, DirectoryLock, FileDirectory};
use ishigaki_logpool::Pool;
use ishigaki_logpool_fs::{Access, Attached, Calendar, Inheritance, MountSettings, Place, Served, Service};
use parking_lot::Mutex;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::control::{self, Added, Removed, Reply, Request};
use crate::mending::{QuarantinedStatus, ScrubStatus};
use crate::metrics;
use crate::progress::{Progress, Voice};
use crate::status::{LogStatus, MemberStatus, owner, problem};
use crate::{Config, Error, MemberConfig, Result, Status, added, config, restart, takeover, warning};
use ishigaki_service::door::Door;
use untouched::Untouched;

mod handing;
mod keeping;
mod limits;
mod mending;
mod untouched;

pub use limits::LimitsSet;

/// A pool that is served, with its control socket and, if asked for, its metrics.
///
/// *Threads*: everything takes `&self`. *Drop* does as [`stop`](Self::stop) does. *A crash* leaves folders that answer
/// `ENOTCONN` and sockets that nobody hears; the next start on the same directory puts all of them right.
///
/// Another process that [takes over](Self::take_over) has this one end without unmounting, and so does a service manager that is to
/// [keep](Self::keep) the mounts for its next process.
#[derive(Debug)]
pub struct Serving {
    // No client comes in any more before the folders end.
    control: Option<Door>,
    /// Whether it is found.
    is_published: bool,
    core: Arc<Core>,
}

/// What both doors and the owner use.
#[derive(Debug)]
struct Core {
    /// As it was given, made absolute.
    data: PathBuf,
    config: Config,
    metrics: Option<SocketAddr>,
    began: Instant,
    /// Held while it serves.
    lock: Mutex<Option<DirectoryLock>>,
    /// Where Prometheus comes in.
    scrapers: Mutex<Option<Door>>,
    /// `None` once it has ended. Held while a member is added, from the mount until it is noted.
    service: Mutex<Option<Service>>,
    /// Another process serves what this one has served.
    is_replaced: AtomicBool,
    /// Why nothing is served, after a hand-over that has failed: what can be done, and the words.
    failure: Mutex<Option<(ErrorKind, String)>>,
}

impl Serving {
    /// Takes the directory, rebuilds every member, and serves those of the configuration and those that were added to an
    /// earlier service. One that is in both is served as the configuration says.
    ///
    /// # Errors
    ///
    /// Of any of it; nothing is served then.
    pub fn start(config: &Config) -> Result<Self> {
        config.check()?;
        Self::begin(config, Inheritance::default(), None, None)
    }

    /// Takes the place of the service that serves the directory, under its working servers: these wait for as long as it takes to
    /// open the pool, and notice nothing else. The other one ends. Starts as [`start`](Self::start) does where none serves.
    ///
    /// # Errors
    ///
    /// Of any of it; the other one goes on serving then.
    pub fn take_over(config: &Config) -> Result<Self> {
        Self::try_take_over(config)?.map_or_else(|| Self::start(config), Ok)
    }

    /// The same, and `None` where none serves the directory.
    ///
    /// # Errors
    ///
    /// Of any of it; the other one goes on serving then.
    pub fn try_take_over(config: &Config) -> Result<Option<Self>> {
        config.check()?;
        let (inheritance, predecessor) = match takeover::take(&config.data) {
            Ok(taken) => taken,
            Err(Error::NotServed { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let progress = Progress::default();
        let voice = predecessor.inform(&progress).map_err(Error::Thread)?.map(|voice| (progress, voice));
        let serving = Self::begin(config, inheritance, None, voice)?;
        if let Err(error) = predecessor.release() {
            tracing::warn!(%error, "the service before this one has died");
        }
        Ok(Some(serving))
    }

    /// Begins with mounts that were handed over, and with the ticket that they hold with, if there is one. A voice is raised until the
    /// pool is open. A failure leaves nothing of a new pool.
    fn begin(
        config: &Config,
        inheritance: Inheritance,
        ticket: Option<&str>,
        voice: Option<(Progress, Voice)>,
    ) -> Result<Self> {
        let untouched = Untouched::of(&config.data);
        Self::begin_in(config, inheritance, ticket, voice).inspect_err(|_| {
            if let Some(untouched) = untouched {
                untouched.take_back();
            }
        })
    }

    fn begin_in(
        config: &Config,
        inheritance: Inheritance,
        ticket: Option<&str>,
        voice: Option<(Progress, Voice)>,
    ) -> Result<Self> {
        open_more_files();
        let directory = FileDirectory::open(&config.data)?;
        let lock = directory.lock()?;
        let data =
            std::path::absolute(&config.data).map_err(|cause| Error::File { path: config.data.clone(), cause })?;
        let scrapers = config.metrics.as_deref().map(bind).transpose()?;
        let listener = control::prepare(&data)?;
        let core = Arc::new(Core {
            metrics: scrapers.as_ref().and_then(|listener| listener.local_addr().ok()),
            began: Instant::now(),
            lock: Mutex::new(Some(lock)),
            scrapers: Mutex::new(None),
            service: Mutex::new(None),
            is_replaced: AtomicBool::new(false),
            failure: Mutex::new(None),
            data,
            config: config.clone(),
        });
        let asked = core.clone();
        let control = Door::open("pool-control", listener, move |visitor: UnixStream| {
            control::serve(visitor, |request, stream| match request {
                Request::HandOver {} => asked.hand_over(stream),
                request => Some(asked.reply(request)),
            });
        })
        .map_err(Error::Thread)?;
        let mut serving = Self { control: Some(control), is_published: false, core };
        if let Some(listener) = scrapers {
            serving.core.let_scrapers_in(listener)?;
        }
        // Last of all: a mount that was taken over is answered for then, and can not be given back.
        *serving.core.service.lock() = Some(open(config, &serving.core.data, directory, inheritance, ticket, voice)?);
        control::publish(&serving.core.data)?;
        serving.is_published = true;
        Ok(serving)
    }

    /// Whether another process serves now what this one has served. It may end.
    pub fn is_replaced(&self) -> bool {
        self.core.is_replaced.load(Ordering::SeqCst)
    }

    /// Why nothing is served any more, although no other process serves: a hand-over has failed, and this process could not
    /// go on. It is to end.
    pub fn failure(&self) -> Option<Error> {
        self.core.failure()
    }

    /// Where Prometheus finds the numbers.
    pub fn metrics(&self) -> Option<SocketAddr> {
        self.core.metrics
    }

    /// What it does.
    pub fn status(&self) -> Result<Status> {
        self.core.status()
    }

    /// Why servers get errors: each concerned member, and why. None while a member is being added.
    pub fn problems(&self) -> Vec<(String, String)> {
        let Some(service) = self.core.service.try_lock() else { return Vec::new() };
        let attached = service.as_ref().map(Service::attached).unwrap_or_default();
        attached.iter().filter_map(|attached| Some((attached.member().name().to_owned(), problem(attached)?))).collect()
    }

    /// Which limits members are near to: each concerned member, and what helps. None while a member is being added.
    pub fn warnings(&self) -> Vec<(String, String)> {
        let Some(service) = self.core.service.try_lock() else { return Vec::new() };
        let attached = service.as_ref().map(Service::attached).unwrap_or_default();
        let near = |attached: &Attached| {
            let member = attached.member();
            let figures = member.statistics();
            let near = warning::near(member.name(), figures.home, figures.files, figures.quota);
            near.into_iter().map(|sentence| (member.name().to_owned(), sentence)).collect::<Vec<_>>()
        };
        attached.iter().flat_map(near).collect()
    }

    /// Ends every mount and socket, closes the pool, and lets go of the directory.
    ///
    /// # Errors
    ///
    /// When not all that was accepted could be made durable.
    pub fn stop(mut self) -> Result<()> {
        self.shut();
        let service = self.core.service.lock().take();
        let outcome = service.map_or(Ok(()), |service| Ok(service.stop()?));
        drop(self.core.lock.lock().take());
        outcome
    }
}

impl Serving {
    /// Nobody comes in any more.
    fn shut(&mut self) {
        drop(self.core.scrapers.lock().take());
        if let Some(control) = self.control.take() {
            drop(control);
            // One that stays does no harm; that of another process is not ours.
            if self.is_published && !self.is_replaced() {
                let _ = std::fs::remove_file(control::path(&self.core.data));
            }
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.shut();
        // Visitors that are still in may hold the core.
        drop(self.core.service.lock().take());
        drop(self.core.lock.lock().take());
    }
}

/// Lets this process have as many files open as it may: a home is some hundred of them.
fn open_more_files() {
    let limit = getrlimit(Resource::Nofile);
    let wanted = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if let Err(error) = setrlimit(Resource::Nofile, wanted) {
        tracing::debug!(%error, "the number of open files stays limited");
    }
}

/// Opens the pool of a directory, whose lock the caller holds, and serves those of the configuration and those that were added.
fn open(
    config: &Config,
    data: &Path,
    directory: FileDirectory,
    inheritance: Inheritance,
    ticket: Option<&str>,
    voice: Option<(Progress, Voice)>,
) -> Result<Service> {
    added::settle(data)?;
    let added = added::load(data)?;
    for name in added.iter().map(|member| &member.name) {
        if config.members.iter().any(|other| other.name == *name) {
            let file = added::path(data);
            tracing::warn!(
                "member `{name}` is in the configuration and in {}; the configuration counts",
                file.display()
            );
        }
    }
    let members = together(&config.members, &added);
    Config::new(data.to_owned(), members.clone()).check()?;
    let served = members.iter().map(served).collect::<Result<Vec<_>>>()?;
    let directory: Arc<dyn Directory> = match &voice {
        Some((progress, _)) => progress.over(directory),
        None => Arc::new(directory),
    };
    let pool = Pool::open_together(directory, config.settings())?;
    // From here on the pool is at work by itself.
    drop(voice);
    for member in &members {
        // One that is new or quarantined has no limits that could differ.
        if let Ok(has) = pool.member(&member.name)
            && let Some(says) = limits::differs(member, has.quota())
        {
            tracing::warn!("{says}");
        }
    }
    Service::go_on(pool, &served, inheritance, || {
        restart::take_ticket(data, ticket).map_err(|cause| Error::File { path: data.to_owned(), cause })
    })
}

/// The configuration's members, and those that were added and that it does not have.
fn together(configured: &[MemberConfig], more: &[MemberConfig]) -> Vec<MemberConfig> {
    let is_configured = |member: &&MemberConfig| configured.iter().any(|other| other.name == member.name);
    configured.iter().chain(more.iter().filter(|member| !is_configured(member))).cloned().collect()
}

fn bind(address: &str) -> Result<TcpListener> {
    TcpListener::bind(address).map_err(|cause| Error::Metrics { address: address.to_owned(), cause })
}

/// A member as mounts, sockets and rings want it.
fn served(member: &MemberConfig) -> Result<Served> {
    let access = match (&member.owner, &member.place) {
        (None, _) => Access::own(),
        (Some(owner), Place::Mount(_) | Place::Ring(_)) => owner.access(&member.name)?,
        (Some(owner), Place::Socket(_)) => owner.access_in_machine(&member.name)?,
    };
    let path = member.place.path();
    let path = std::path::absolute(path).map_err(|cause| Error::File { path: path.to_owned(), cause })?;
    Ok(Served {
        name: member.name.clone(),
        member: member.settings(),
        place: member.place.at(path),
        mount: MountSettings { access, threads: MountSettings::THREADS, calendar: Calendar::new(SystemTime::now) },
    })
}

impl Core {
    fn reply(&self, request: Request) -> Reply {
        Reply::of(match request {
            Request::Status {} => self.status().map(|status| Reply::Status(Box::new(status))),
            Request::Add(member) => self.add(member).map(Reply::Added),
            Request::Set(limits) => self.set(&limits).map(Reply::Set),
            Request::HandOver {} => Err(self.ended()),
            Request::Remove { name, force } => self.remove(name, force).map(Reply::Removed),
            Request::Verify { name } => self.verify(name.as_deref()).map(Reply::Verified),
            Request::Repair { name } => self.repair(name).map(Reply::Verified),
            Request::Quarantine { name } => self.quarantine(name).map(Reply::Changed),
            Request::Remount { name } => self.remount(name).map(Reply::Changed),
            Request::Rebuild { name, to } => self.rebuild(name, to).map(Reply::Rebuilt),
            Request::Scrub(rate) => self.set_scrub_rate(rate).map(Reply::Scrubs),
        })
    }

    fn status(&self) -> Result<Status> {
        let service = self.service.lock();
        let service = service.as_ref().ok_or_else(|| self.ended())?;
        let log = LogStatus::of(&service.pool().statistics());
        let waiting = self.config.settings().waiting;
        let mut status = Status::put_together(self.data.clone(), self.began.elapsed(), waiting, log);
        status.metrics = self.metrics.map(|address| format!("http://{address}/metrics"));
        status.members = service.attached().iter().map(MemberStatus::of).collect();
        status.scrub = ScrubStatus::of(&service.pool().scrub_statistics());
        let quarantined = service.pool().quarantined().into_iter();
        status.quarantined =
            quarantined.map(|(name, why)| QuarantinedStatus { name, problem: why.to_string() }).collect();
        status.not_served = service.pool().members();
        status.not_served.retain(|name| {
            let is_quarantined = status.quarantined.iter().any(|member| member.name == *name);
            !is_quarantined && status.members.iter().all(|member| member.name != *name)
        });
        Ok(status)
    }

    fn metrics(&self) -> String {
        let service = self.service.lock();
        service.as_ref().map_or_else(String::new, |service| {
            metrics::text(self.began.elapsed().as_secs_f64(), service.pool(), service.attached())
        })
    }

    /// Serves one more member, and notes it for the next start. Answered when both are done; otherwise it is as before.
    fn add(&self, member: MemberConfig) -> Result<Added> {
        if !member.place.path().is_absolute() {
            let path = member.place.path().display();
            return Err(Error::Member(format!("`{path}` is no absolute path; the service has a place of its own")));
        }
        let served = served(&member)?;
        let mut guard = self.service.lock();
        let service = guard.as_mut().ok_or_else(|| self.ended())?;
        let before = added::load(&self.data)?;
        let mut members = before.clone();
        let is_new = !service.pool().members().contains(&member.name);
        let is_served = service.attached().iter().any(|attached| attached.member().name() == member.name);
        if !is_new && !is_served {
            limits::check(&member, service.pool().member(&member.name)?.quota())?;
        }
        members.retain(|other| other.name != member.name);
        members.push(member.clone());
        if !is_served && let Some(reason) = config::inside(&together(&self.config.members, &members)) {
            return Err(Error::Member(reason));
        }
        service.add(&served)?;
        if let Err(error) = added::store(&self.data, &members) {
            service.detach(&member.name);
            if is_new && let Err(stays) = service.pool().remove(&member.name) {
                tracing::warn!("member `{}` is in the pool, and served nowhere: {stays}", member.name);
            }
            // It may have been noted, and only not durably.
            if let Err(stays) = added::store(&self.data, &before) {
                tracing::warn!("member `{}` may be served at the next start: {stays}", member.name);
            }
            return Err(error);
        }
        Ok(Added {
            owner: owner(&served.place, served.mount.access),
            noted_in: added::path(&self.data),
            profile: member.profile.to_string(),
            name: member.name,
            place: served.place,
        })
    }

    /// Removes a member that is served nowhere, with its files if that is said. Its part of the log is of no use any more.
    fn remove(&self, name: String, force: bool) -> Result<Removed> {
        let guard = self.service.lock();
        let service = guard.as_ref().ok_or_else(|| self.ended())?;
        if let Some(attached) = service.attached().iter().find(|attached| attached.member().name() == name) {
            let (place, file) = (attached.place(), added::path(&self.data));
            return Err(Error::Member(format!(
                "member `{name}` is served at {place}; end its server and the service, take it out of the configuration or of {}, and start the service again before it is removed",
                file.display()
            )));
        }
        let is_quarantined = service.pool().quarantined().iter().any(|(member, _)| *member == name);
        if is_quarantined && !force {
            return Err(Error::Member(format!(
                "member `{name}` is quarantined, and may have files, which would be gone; `ishigaki log repair {name}` may bring it back, `ishigaki log rebuild` may take them out, and --force removes them"
            )));
        }
        let removed = if is_quarantined {
            Removed { name, files: None, home_bytes: None }
        } else {
            let figures = service.pool().member(&name)?.statistics();
            Removed { name, files: Some(figures.files), home_bytes: Some(figures.home) }
        };
        if let Some(files) = removed.files.filter(|&files| files > 0 && !force) {
            let name = &removed.name;
            return Err(Error::Member(format!(
                "member `{name}` has files ({files}), which would be gone; `ishigaki log rebuild` takes them out while no service runs or the member is quarantined, and --force removes them"
            )));
        }
        service.pool().remove(&removed.name)?;
        if is_quarantined {
            // Else the next start would take it in as a new one.
            let mut members = added::load(&self.data)?;
            let before = members.len();
            members.retain(|member| member.name != removed.name);
            if members.len() < before {
                added::store(&self.data, &members)?;
            }
        }
        Ok(removed)
    }
}
