//! A service from its beginning to its end.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use ishigaki_device::{Directory, DirectoryLock, FileDirectory};
use ishigaki_logpool::{Pool, Quota, Waiting};
use ishigaki_logpool_fs::{Access, Calendar, MountSettings, Place, Served, Service};
use parking_lot::Mutex;

use crate::control::{self, Added, Removed, Reply, Request};
use crate::door::Door;
use crate::mending::{QuarantinedStatus, ScrubStatus};
use crate::metrics::{self, http};
use crate::status::{LogStatus, MemberStatus, owner, problem};
use crate::{Config, Error, MemberConfig, Result, Status, added};

mod mending;

/// A pool that is served, with its control socket and, if asked for, its metrics.
///
/// *Threads*: everything takes `&self`. *Drop* does as [`stop`](Self::stop) does. *A crash* leaves folders that answer
/// `ENOTCONN` and sockets that nobody hears; the next start on the same directory puts all of them right.
#[derive(Debug)]
pub struct Serving {
    // In the order in which they go: nobody comes in any more, the folders end, the directory is free.
    doors: Vec<Door>,
    core: Arc<Core>,
    _lock: DirectoryLock,
}

/// What both doors and the owner use.
#[derive(Debug)]
struct Core {
    /// As it was given, made absolute.
    data: PathBuf,
    waiting: Waiting,
    metrics: Option<SocketAddr>,
    began: Instant,
    /// `None` once it has ended. Held while a member is added, from the mount until it is noted.
    service: Mutex<Option<Service>>,
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
        let directory = Arc::new(FileDirectory::open(&config.data)?);
        let lock = directory.lock()?;
        let data =
            std::path::absolute(&config.data).map_err(|cause| Error::File { path: config.data.clone(), cause })?;
        let members = together(&config.members, added::load(&data)?, &data)?;
        let served = members.iter().map(served).collect::<Result<Vec<_>>>()?;
        let scrapers = config.metrics.as_deref().map(bind).transpose()?;
        let settings = config.settings();
        let waiting = settings.waiting;
        let pool = Pool::open_together(directory, settings)?;
        for member in &members {
            // One that is quarantined or new has no limits yet that could be others.
            if let Ok(has) = pool.member(&member.name) {
                check_quota(member, has.quota())?;
            }
        }
        let core = Arc::new(Core {
            waiting,
            metrics: scrapers.as_ref().and_then(|listener| listener.local_addr().ok()),
            began: Instant::now(),
            service: Mutex::new(Some(Service::start(pool, &served)?)),
            data,
        });
        let asked = core.clone();
        let mut doors = vec![Door::open("pool-control", control::listen(&core.data)?, move |visitor: UnixStream| {
            control::serve(visitor, |request| asked.reply(request));
        })?];
        if let Some(listener) = scrapers {
            let asked = core.clone();
            doors.push(Door::open("pool-metrics", listener, move |visitor: TcpStream| {
                http::serve(visitor, || asked.metrics());
            })?);
        }
        Ok(Self { doors, core, _lock: lock })
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

    /// Ends every mount and socket, closes the pool, and lets go of the directory.
    ///
    /// # Errors
    ///
    /// When not all that was accepted could be made durable.
    pub fn stop(mut self) -> Result<()> {
        self.shut();
        let service = self.core.service.lock().take();
        service.map_or(Ok(()), |service| Ok(service.stop()?))
    }
}

impl Serving {
    /// Nobody comes in any more.
    fn shut(&mut self) {
        if !self.doors.is_empty() {
            self.doors.clear();
            // One that stays is in nobody's way.
            let _ = std::fs::remove_file(control::path(&self.core.data));
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.shut();
        // Visitors that are still in may hold the core.
        drop(self.core.service.lock().take());
    }
}

/// The configuration's members, and those that were added and that it does not have.
fn together(configured: &[MemberConfig], more: Vec<MemberConfig>, data: &Path) -> Result<Vec<MemberConfig>> {
    let mut members = configured.to_vec();
    for member in more {
        if configured.iter().any(|other| other.name == member.name) {
            let (name, file) = (&member.name, added::path(data));
            tracing::warn!(
                "member `{name}` is in the configuration and in {}; the configuration counts",
                file.display()
            );
        } else {
            members.push(member);
        }
    }
    let config = Config::new(data.to_owned(), members);
    config.check()?;
    Ok(config.members)
}

/// A member's limits are what it was taken in with.
fn check_quota(member: &MemberConfig, has: Quota) -> Result<()> {
    match member.differs_from(has) {
        None => Ok(()),
        Some(what) => Err(Error::Member(format!(
            "member `{}` was taken in with share {}, home {} and {} files, and `{what}` says otherwise; a member keeps its limits: say the same, or leave it out",
            member.name, has.share, has.home, has.files
        ))),
    }
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
        let service = service.as_ref().ok_or(Error::Ending)?;
        let log = LogStatus::of(&service.pool().statistics());
        let mut status = Status::put_together(self.data.clone(), self.began.elapsed(), self.waiting, log);
        status.metrics = self.metrics.map(|address| format!("http://{address}/metrics"));
        status.members = service.attached().iter().map(MemberStatus::of).collect();
        status.not_served = service.pool().members();
        let quarantined = service.pool().quarantined().into_iter();
        status.quarantined =
            quarantined.map(|(name, why)| QuarantinedStatus { name, problem: why.to_string() }).collect();
        status.scrub = ScrubStatus::of(&service.pool().scrub_statistics());
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
        let service = guard.as_mut().ok_or(Error::Ending)?;
        let before = added::load(&self.data)?;
        let mut members = before.clone();
        let is_new = !service.pool().members().contains(&member.name);
        let is_served = service.attached().iter().any(|attached| attached.member().name() == member.name);
        if !is_new && !is_served {
            // One that is quarantined is told so.
            check_quota(&member, service.pool().member(&member.name)?.quota())?;
        }
        service.add(&served)?;
        members.retain(|other| other.name != member.name);
        members.push(member.clone());
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
        let service = guard.as_ref().ok_or(Error::Ending)?;
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
                "member `{name}` is quarantined, and may have files, which would be gone; `ishigaki log repair {name}` may bring it back, and --force removes it"
            )));
        }
        let (files, home_bytes) = if is_quarantined {
            (0, 0)
        } else {
            let figures = service.pool().member(&name)?.statistics();
            (figures.files, figures.home)
        };
        let removed = Removed { name, files, home_bytes };
        if removed.files > 0 && !force {
            let Removed { name, files, .. } = &removed;
            return Err(Error::Member(format!(
                "member `{name}` has files ({files}), which would be gone; `ishigaki log rebuild` takes them out while no service runs, and --force removes them"
            )));
        }
        service.pool().remove(&removed.name)?;
        Ok(removed)
    }
}
