//! Opens sources and engine.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ishigaki_migrate::destination::local::Local;
use ishigaki_migrate::engine::{Engine, Origin, Settings, TICK};
use ishigaki_migrate::source::Cancel;
use rustix::fs::FlockOperation;
use rustix::io::Errno;

use super::begun;
use crate::check::Opened;
use crate::config::SourceConfig;
use crate::{Config, Error, Result};

/// How long a service that has ended, or died, may seem to have the destination's lock: the kernel closes what it had one by one, and a program that
/// it was starting just then has a copy of everything until it begins.
const ENDING: Duration = Duration::from_secs(2);
/// How often that is looked at.
const LOOK: Duration = Duration::from_millis(5);

/// Sources that are open, of a migration that is not yet.
pub(crate) struct Opening {
    origins: Vec<Origin>,
}

impl Opening {
    /// Opens the sources that begin, which must answer; those with which the migration goes on may be away. Changes nothing, so another process may
    /// still serve the destination.
    pub(crate) fn of(config: &Config, mut opened: Opened, cancel: &Cancel) -> Result<Self> {
        begun::check(config)?;
        let begun = Engine::begun(&destination(config)?)?;
        let mut open = |(number, source): (usize, &SourceConfig)| -> Result<Origin> {
            let from = match opened.take(number) {
                Some(from) => from,
                None if number < begun => source.from.deferred(),
                None => source.from.open(cancel)?,
            };
            Ok(Origin { source: from, at: source.into.clone() })
        };
        let origins = config.sources.iter().enumerate().map(&mut open).collect::<Result<_>>()?;
        Ok(Self { origins })
    }

    /// Opens the migration that the destination holds, or begins one. The caller has the destination's lock, and no other engine is at work.
    pub(crate) fn engine(self, config: &Config, cancel: &Cancel) -> Result<Arc<Engine<Local>>> {
        Ok(Engine::open(destination(config)?, self.origins, config.settings(), cancel)?)
    }

    /// The same, to copy ahead of the migration.
    pub(crate) fn engine_ahead(self, config: &Config, cancel: &Cancel) -> Result<Arc<Engine<Local>>> {
        let settings = Settings { ahead: Some(TICK), ..config.settings() };
        Ok(Engine::open(destination(config)?, self.origins, settings, cancel)?)
    }
}

fn failed(config: &Config) -> impl Fn(io::Error) -> Error {
    let path = config.to.clone();
    move |cause| Error::Destination { path: path.clone(), cause }
}

/// Opens the destination, and tries it unless it holds a migration: that one has proved it, and must go on where no room is left to try anything.
fn destination(config: &Config) -> Result<Local> {
    let destination = Local::open(&config.to).map_err(failed(config))?;
    if Engine::begun(&destination)? == 0 {
        destination.check(&config.settings().attribute).map_err(failed(config))?;
    }
    Ok(destination)
}

/// Takes the destination's lock. A service that lives keeps it, and that is known a moment later.
pub(crate) fn lock(config: &Config) -> Result<File> {
    let lock = File::open(&config.to).map_err(failed(config))?;
    let began = Instant::now();
    loop {
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) if began.elapsed() < ENDING => std::thread::sleep(LOOK),
            Err(Errno::WOULDBLOCK) => return Err(Error::InUse(config.to.clone())),
            Err(errno) => return Err(failed(config)(errno.into())),
            Ok(()) => return Ok(lock),
        }
    }
}
