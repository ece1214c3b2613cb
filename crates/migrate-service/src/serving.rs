//! The service: sources, engine, door and crawler of one migration, until it is told to end.
//!
//! ```text
//!   clients ──▶ Door ──▶ Migration ──▶ Engine ◀── crawler thread     Crawling: paused, throttled, tried again
//!   control socket ──▶ visitors ──▶ Core ─────────────┘ ◀── keeper thread      settles while no crawler does, measures the rate
//! ```
//!
//! What the service itself keeps is in the migration's hidden directory: the control socket, and `sources`, which says from where the migration was
//! begun, so that a later start with other sources is refused.
//!
//! Parts: `crawling` runs the crawler, `core` answers questions, `begun` remembers the sources, `opening` begins, `folder` keeps
//! programs from the bare folder, `handing` leaves everything to the next process, `rate` measures.

pub(crate) mod begun;
mod core;
mod crawling;
mod folder;
mod handing;
pub(crate) mod opening;
mod rate;

use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};

use ishigaki_migrate::destination::local::Local;
use ishigaki_migrate::engine::Engine;
use ishigaki_migrate::source::Cancel;
use ishigaki_migrate_fs::{Door, Migration};
use parking_lot::{Mutex, RwLock};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use self::core::Core;
use self::crawling::Crawling;
use self::opening::{Opening, lock};
use self::rate::Rate;
use crate::check::Opened;
use crate::config::Minute;
use crate::control::{self, Keep};
use crate::status::{Conflict, Status};
use crate::takeover::{self, Inheritance, Own};
use crate::{Config, Error, Result};

/// What tells the time of the day.
pub type Clock = Arc<dyn Fn() -> Minute + Send + Sync>;

/// A migration that is served. Takes root.
///
/// *Threads*: any number may ask. *Drop* ends it as [`stop`](Self::stop) does: the folder is unmounted, and the next [`start`](Self::start) goes on
/// with the migration. *A crash* loses nothing that a client was told to be durable; the folder answers `ENOTCONN` until the next start.
pub struct Serving {
    core: Arc<Core>,
    threads: Vec<JoinHandle<()>>,
    /// Clients are answered, or were.
    is_open: bool,
}

impl Serving {
    /// Begins a migration, or goes on with one: when this returns, clients may use the folder. A source that begins must answer, within the time that its
    /// address says. One with which the migration goes on may be away: what is here is served, and the rest waits for it.
    ///
    /// # Errors
    ///
    /// [`Error::Setting`], [`Error::InUse`], [`Error::OtherSources`], and those of sources, engine and door.
    pub fn start(config: &Config, cancel: &Cancel) -> Result<Self> {
        Self::start_with(config, Opened::default(), cancel)
    }

    /// The same, with the sources that a [check](crate::check::Check::open) has opened.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub fn start_with(config: &Config, opened: Opened, cancel: &Cancel) -> Result<Self> {
        Self::start_by(config, opened, cancel, Arc::new(Minute::now))
    }

    /// The same, with the crawler's hours by a clock of the caller's.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub fn start_by(config: &Config, opened: Opened, cancel: &Cancel, clock: Clock) -> Result<Self> {
        config.validate()?;
        let lock = lock(config)?;
        let engine = Opening::of(config, opened, cancel)?.engine(config, cancel)?;
        let listener = control::listen(&config.to)?;
        let own = Own { lock, listener };
        let open = |migration: Arc<Migration>| {
            let bare = folder::before(&config.at);
            let door = Door::open(&config.to, &config.at, migration)?;
            if let Some(bare) = bare {
                folder::close(&bare, &config.at);
            }
            if config.set_ids_and_devices {
                door.allow_set_ids_and_devices()?;
            }
            Ok(door)
        };
        Self::serve(config, Crawling::new(config.crawl(), config.paused), clock, engine, own, open).inspect_err(|_| {
            // One that stays is taken away by the next start.
            let _ = control::remove(&config.to);
        })
    }

    /// Goes on with the folder of the service that runs on the destination, which ends: clients wait for a moment, and get no error. What a person has told
    /// its crawler, to pause, how fast to copy, what to take first, goes along. Starts as usual if none runs, or if it dies meanwhile.
    ///
    /// # Errors
    ///
    /// [`Error::HandOver`] where that service does not hand over, [`Error::Setting`] where it has another folder; those of [`start`](Self::start). That
    /// service goes on then.
    pub fn take_over(config: &Config, cancel: &Cancel) -> Result<Self> {
        Self::try_take_over(config, cancel)?.map_or_else(|| Self::start(config, cancel), Ok)
    }

    /// The same, and `None` where none runs, or it has died meanwhile.
    ///
    /// # Errors
    ///
    /// As [`take_over`](Self::take_over).
    pub fn try_take_over(config: &Config, cancel: &Cancel) -> Result<Option<Self>> {
        config.validate()?;
        // New sources are waited for before clients have to wait.
        let opening = Opening::of(config, Opened::default(), cancel)?;
        let (heading, inheritance, predecessor) = match takeover::take(config) {
            Err(error @ (Error::NotServed(_) | Error::NoMigration(_) | Error::HandOver { is_torn: true, .. })) => {
                // A service that lives has the lock, whatever it has said.
                return match lock(config) {
                    Ok(_) => Ok(None),
                    Err(Error::InUse(_)) => Err(error),
                    Err(other) => Err(other),
                };
            }
            taken => taken?,
        };
        let mut crawl = config.crawl();
        (crawl.bandwidth, crawl.threads) = heading.throttle.unwrap_or((crawl.bandwidth, crawl.threads));
        let crawling = Crawling::new(crawl, heading.paused.unwrap_or(config.paused));
        let engine = opening.engine(config, cancel)?;
        let Inheritance { own, handed } = inheritance;
        let go_on = |migration: Arc<Migration>| {
            let door = Door::go_on(&config.to, &config.at, migration, handed)?;
            // From here on clients are answered, and nothing may fail.
            if config.set_ids_and_devices
                && let Err(error) = door.allow_set_ids_and_devices()
            {
                tracing::warn!(%error, "set-user-ID programs and devices do not work before the next start");
            }
            Ok(door)
        };
        let serving = Self::serve(config, crawling, Arc::new(Minute::now), engine, own, go_on)?;
        for path in &heading.first {
            if let Err(error) = serving.core.put_path_first(path) {
                tracing::warn!(path, %error, "it does not come first any more");
            }
        }
        if let Err(error) = predecessor.release() {
            // This process serves, and the other one does not.
            tracing::warn!(%error, "the service before this one has died");
        }
        Ok(Some(serving))
    }

    /// Begins with everything that may fail; last of all clients are answered.
    fn serve(
        config: &Config,
        crawling: Crawling,
        clock: Clock,
        engine: Arc<Engine<Local>>,
        own: Own,
        open: impl FnOnce(Arc<Migration>) -> Result<Door>,
    ) -> Result<Self> {
        raise_limit();
        begun::store(config)?;
        let scrapers = config.metrics.as_deref().map(bind).transpose()?;
        let migration = Arc::new(Migration::new(engine.clone()));
        let core = Arc::new(Core {
            clock,
            metrics: scrapers.as_ref().and_then(|listener| listener.local_addr().ok()),
            scrapers: Mutex::new(None),
            config: config.clone(),
            engine: RwLock::new(engine),
            migration: Mutex::new(migration.clone()),
            door: Mutex::new(None),
            crawling,
            rate: Mutex::new(Rate::default()),
            settling: Mutex::new(()),
            began: std::time::Instant::now(),
            cancel: Cancel::new(),
            told_first: Mutex::new(Vec::new()),
            own,
            rests: AtomicBool::new(true),
            is_replaced: AtomicBool::new(false),
        });
        core.put_first();
        core.look_at_clock();
        let mut serving = Self { core, threads: Vec::new(), is_open: false };
        if let Some(listener) = scrapers {
            serving.core.let_scrapers_in(listener)?;
        }
        serving.spawn("migrate-crawler", |core| {
            core.crawling.run(|| core.engine(), |names| core.have_appeared(names));
        })?;
        serving.spawn("migrate-keeper", |core| core.keep())?;
        serving.spawn("migrate-control", |core| {
            let reply = |request, stream: &UnixStream| core.answer(request, stream);
            control::admit(&core.own.listener, &core.cancel, &core.rests, &reply);
        })?;
        *serving.core.door.lock() = Some(open(migration)?);
        serving.is_open = true;
        serving.core.crawling.release(false);
        serving.core.rests.store(false, Ordering::SeqCst);
        Ok(serving)
    }

    fn spawn(&mut self, name: &str, work: impl FnOnce(&Arc<Core>) + Send + 'static) -> Result<()> {
        let core = self.core.clone();
        let thread = Builder::new().name(name.to_owned()).spawn(move || work(&core)).map_err(Error::Thread)?;
        self.threads.push(thread);
        Ok(())
    }

    /// How far it is.
    pub fn status(&self) -> Status {
        self.core.status()
    }

    /// Stops the crawler; returns when it has stopped.
    pub fn pause(&self) {
        self.core.crawling.pause();
    }

    /// Goes on with the crawler, and tries again what it could not copy.
    pub fn resume(&self) {
        self.core.resume();
    }

    /// Has the crawler copy so fast from now on: bytes a second, 0 for no limit; requests at a time. What is not given stays.
    ///
    /// # Errors
    ///
    /// [`Error::Setting`] for a number of requests that can not be.
    pub fn throttle(&self, bandwidth: Option<u64>, parallel: Option<usize>) -> Result<()> {
        self.core.throttle(bandwidth, parallel)
    }

    /// Has the crawler take what is below a path before everything else.
    ///
    /// # Errors
    ///
    /// [`Error::Setting`] for what is no path below the destination.
    pub fn first(&self, path: &str) -> Result<()> {
        self.core.first(path)
    }

    /// Where Prometheus finds figures.
    pub fn metrics(&self) -> Option<SocketAddr> {
        self.core.metrics
    }

    /// The files that have changed at the source, where they are now.
    ///
    /// # Errors
    ///
    /// Of the engine.
    pub fn conflicts(&self) -> Result<Vec<Conflict>> {
        self.core.conflicts()
    }

    /// Decides on one of them.
    ///
    /// # Errors
    ///
    /// [`Error::NoConflict`] if that is none, [`Error::Moved`] if it was moved; those of the engine.
    pub fn resolve(&self, path: &str, keep: Keep) -> Result<()> {
        self.core.resolve(path, keep)
    }

    /// Ends the migration when nothing is missing: removes every trace of it. The folder goes on to serve the destination until the service ends, but
    /// the control socket is gone.
    ///
    /// # Errors
    ///
    /// [`Error::AtWork`] with what is missing; those of the engine.
    pub fn finish(&self) -> Result<()> {
        self.core.finish()
    }

    /// Whether the migration is finished.
    pub fn is_finished(&self) -> bool {
        self.core.crawling.is_finished()
    }

    /// Whether another process has taken over. This one has nothing left to do but [`stop`](Self::stop), which unmounts nothing then.
    pub fn is_replaced(&self) -> bool {
        self.core.is_replaced.load(Ordering::SeqCst)
    }

    /// Whether the folder answers. A person may have unmounted it.
    pub fn is_alive(&self) -> bool {
        self.core.is_mounted()
    }

    /// Ends the service: the folder is unmounted, and everything that is here is durable.
    ///
    /// # Errors
    ///
    /// Of the destination. Nothing is lost then but the account of what was copied last.
    pub fn stop(mut self) -> Result<()> {
        self.shut()
    }

    fn shut(&mut self) -> Result<()> {
        self.core.cancel.cancel();
        // It has the core.
        drop(self.core.scrapers.lock().take());
        self.core.crawling.end();
        for thread in self.threads.drain(..) {
            // A thread that has panicked has said so.
            let _ = thread.join();
        }
        // Unmounts.
        drop(self.core.door.lock().take());
        if self.is_finished() && !self.is_replaced() {
            folder::open(&self.core.config.at);
        }
        if !self.is_open || self.is_finished() || self.is_replaced() {
            return Ok(());
        }
        let removed = control::remove(&self.core.config.to);
        self.core.engine().settle()?;
        removed.map_err(|cause| Error::Destination { path: self.core.config.to.clone(), cause })
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        if !self.threads.is_empty()
            && let Err(error) = self.shut()
        {
            tracing::warn!(%error, "the service of a migration did not end well");
        }
    }
}

fn bind(address: &str) -> Result<TcpListener> {
    TcpListener::bind(address).map_err(|cause| Error::Metrics { address: address.to_owned(), cause })
}

/// Files that are whole keep a descriptor open until they are settled, and many clients have many files open.
pub(crate) fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }) {
        tracing::warn!(%error, "the limit of open files could not be raised");
    }
}
