//! Copies ahead while clients still use the old server, so that less is missing when the migration begins.
//!
//! It takes a destination as [`Serving`](crate::Serving) does, with the same sources, and mounts nothing. What it brings it brings with a record of what the
//! source said of it; [the engine](ishigaki_migrate::engine::Settings::ahead) believes that only where the source still says the same.

use std::fs::File;
use std::sync::Arc;

use ishigaki_migrate::destination::local::Local;
use ishigaki_migrate::engine::{self, Engine};
use ishigaki_migrate::source::Cancel;
use serde::{Deserialize, Serialize};

use crate::check::{Check, Opened};
use crate::serving::opening::{Opening, lock};
use crate::serving::{begun, raise_limit};
use crate::shown::shown;
use crate::{Config, Error, Result};

/// A destination that is filled ahead. Takes root.
///
/// *Threads*: any number may ask. *Drop*, also in a crash, leaves what has come: the next one, or the migration, goes on from there.
pub struct Seeding {
    engine: Arc<Engine<Local>>,
    config: Config,
    _lock: File,
}

/// An object that was not copied, or not all of it. The next seed tries again, and so does the migration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotCopied {
    /// Below the destination, written as [`Problem::path`](crate::status::Problem::path).
    pub path: String,
    /// Why.
    pub message: String,
    /// It changed at the source while it was copied, or went away.
    pub changed: bool,
}

impl Seeding {
    /// What would go wrong, and the sources that were opened for it. Changes nothing.
    ///
    /// # Errors
    ///
    /// [`Error::Setting`], [`Error::InUse`], [`Error::Cancelled`].
    pub fn check(config: &Config, cancel: &Cancel) -> Result<(Check, Opened)> {
        // A destination that is not there is a finding of the check.
        if let Err(error @ Error::InUse(_)) = lock(config) {
            return Err(error);
        }
        Check::ahead(config, cancel)
    }

    /// Begins with the sources that the check has opened. Nothing is copied yet.
    ///
    /// # Errors
    ///
    /// [`Error::Setting`], [`Error::InUse`], [`Error::OtherSources`]; those of sources and engine, which refuses a destination whose migration has begun.
    pub fn begin(config: &Config, opened: Opened, cancel: &Cancel) -> Result<Self> {
        config.validate_sides()?;
        let lock = lock(config)?;
        // Files that are whole keep a descriptor open until they are settled.
        raise_limit();
        let engine = Opening::of(config, opened, cancel)?.engine_ahead(config, cancel)?;
        begun::store(config)?;
        Ok(Self { engine, config: config.clone(), _lock: lock })
    }

    /// Copies what is not here, or has changed at the source since it was copied; removes what is not at the source any more.
    ///
    /// # Errors
    ///
    /// [`Error::Cancelled`]; those of the engine. What has come stays.
    pub fn run(&self, cancel: &Cancel) -> Result<()> {
        self.engine.crawl(&self.config.crawl(), cancel).map_err(|error| match error {
            engine::Error::Cancelled => Error::Cancelled,
            other => other.into(),
        })
    }

    /// How far it is.
    pub fn progress(&self) -> engine::Progress {
        self.engine.progress()
    }

    /// What was not copied, and why.
    pub fn not_copied(&self) -> Vec<NotCopied> {
        let into = |source: u32| self.config.sources.get(source as usize).map(|source| source.into.clone());
        let all = self.engine.problems_by_source().into_iter();
        all.map(|(source, problem)| NotCopied {
            path: shown(&into(source).unwrap_or_default().join(&problem.path)),
            message: problem.message,
            changed: problem.conflict,
        })
        .collect()
    }
}
