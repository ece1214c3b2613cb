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
//! Parts: `crawling` runs the crawler, `core` answers questions, `begun` remembers the sources, `rate` measures.

pub(crate) mod begun;
mod core;
mod crawling;
mod rate;

use std::fs::File;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

use ishigaki_migrate::destination::local::Local;
use ishigaki_migrate::engine::{Engine, Origin};
use ishigaki_migrate::source::Cancel;
use ishigaki_migrate_fs::{Door, Migration};
use ishigaki_service::door::Door as Scrapers;
use ishigaki_service::http;
use parking_lot::Mutex;
use rustix::fs::FlockOperation;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use self::core::Core;
use self::crawling::Crawling;
use self::rate::Rate;
use crate::config::Minute;
use crate::control::{self, Keep};
use crate::status::{Problem, Status};
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
}

impl Serving {
    /// Begins a migration, or goes on with one: when this returns, clients may use the folder. A source that begins must answer, within the time that its
    /// address says. One with which the migration goes on may be away: what is here is served, and the rest waits for it.
    ///
    /// # Errors
    ///
    /// [`Error::Setting`], [`Error::InUse`], [`Error::OtherSources`], and those of sources, engine and door.
    pub fn start(config: &Config, cancel: &Cancel) -> Result<Self> {
        Self::start_by(config, cancel, Arc::new(Minute::now))
    }

    /// The same, with the crawler's hours by a clock of the caller's.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub fn start_by(config: &Config, cancel: &Cancel, clock: Clock) -> Result<Self> {
        config.validate()?;
        let scrapers = config.metrics.as_deref().map(bind).transpose()?;
        let failed = |cause: std::io::Error| Error::Destination { path: config.to.clone(), cause };
        let lock = File::open(&config.to).map_err(failed)?;
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(Error::InUse(config.to.clone())),
            locked => locked.map_err(|errno| failed(errno.into()))?,
        }
        begun::check(config)?;
        raise_limit();
        let settings = config.settings();
        let destination = Local::open(&config.to).map_err(failed)?;
        destination.check(&settings.attribute).map_err(failed)?;
        let begun = Engine::begun(&destination)?;
        let mut origins = Vec::new();
        for (number, source) in config.sources.iter().enumerate() {
            let from = if number < begun { source.from.deferred() } else { source.from.open(cancel)? };
            origins.push(Origin { source: from, at: source.into.clone() });
        }
        let engine = Engine::open(destination, origins, settings, cancel)?;
        begun::store(config)?;
        let migration = Arc::new(Migration::new(engine.clone()));
        let door = Door::open(&config.to, &config.at, migration.clone())?;
        if config.set_ids_and_devices {
            door.allow_set_ids_and_devices()?;
        }
        let listener = control::listen(&config.to)?;
        let core = Arc::new(Core {
            clock,
            metrics: scrapers.as_ref().and_then(|listener| listener.local_addr().ok()),
            scrapers: Mutex::new(None),
            config: config.clone(),
            engine,
            migration,
            door: Mutex::new(Some(door)),
            crawling: Crawling::new(config.crawl(), config.paused),
            rate: Mutex::new(Rate::default()),
            settling: Mutex::new(()),
            began: std::time::Instant::now(),
            cancel: Cancel::new(),
            _lock: lock,
        });
        for path in &config.first {
            core.engine.first(path);
        }
        core.look_at_clock();
        let mut serving = Self { core, threads: Vec::new() };
        if let Some(listener) = scrapers {
            let asked = serving.core.clone();
            let figures = move |visitor| http::serve(visitor, || asked.metrics());
            let scrapers = Scrapers::open("migrate-metrics", listener, figures).map_err(Error::Thread)?;
            *serving.core.scrapers.lock() = Some(scrapers);
        }
        serving.spawn("migrate-crawler", |core| core.crawling.run(&core.engine))?;
        serving.spawn("migrate-keeper", Core::keep)?;
        serving.spawn("migrate-control", move |core| {
            control::admit(&listener, &core.cancel, &|request| core.answer(request));
        })?;
        Ok(serving)
    }

    fn spawn(&mut self, name: &str, work: impl FnOnce(&Core) + Send + 'static) -> Result<()> {
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

    /// The files that have changed at the source.
    pub fn conflicts(&self) -> Vec<Problem> {
        self.core.conflicts()
    }

    /// Decides on one of them.
    ///
    /// # Errors
    ///
    /// [`Error::NoConflict`] if that is none; those of the engine.
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

    /// Whether the folder answers. A person may have unmounted it.
    pub fn is_alive(&self) -> bool {
        self.core.door.lock().as_ref().is_some_and(Door::is_alive)
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
        if self.is_finished() {
            return Ok(());
        }
        let removed = control::remove(&self.core.config.to);
        self.core.engine.settle()?;
        removed.map_err(|cause| Error::Destination { path: self.core.config.to.clone(), cause })
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        if self.core.door.lock().is_some()
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
fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }) {
        tracing::warn!(%error, "the limit of open files could not be raised");
    }
}
