//! The two sides of a migration, for the commands that need no folder between them.

use std::path::PathBuf;

use clap::Args;
use ishigaki_migrate_service::Config;
use ishigaki_migrate_service::config::IdMap;

use super::{absolute, give_credentials, place, refused};
use crate::failure::Failure;

/// Source and destination: those of a configuration, or one of each.
#[derive(Debug, Args)]
pub(super) struct Sides {
    /// The configuration of the migration
    #[arg(long, value_name = "FILE", conflicts_with_all = ["from", "credentials", "to", "ids"])]
    config: Option<PathBuf>,

    /// Without a configuration: the source, as `serve` takes it
    #[arg(long, value_name = "PLACE", required_unless_present = "config")]
    from: Option<String>,

    /// Of a source by SMB: a file with lines `username=`, `password=` and perhaps `domain=`, which its owner alone may read [default: as a guest]
    #[arg(long, value_name = "FILE")]
    credentials: Option<PathBuf>,

    /// Without a configuration: the destination
    #[arg(long, value_name = "DIR", required_unless_present = "config")]
    to: Option<PathBuf>,

    /// Without a configuration: the map of owners
    #[arg(long, value_name = "FILE")]
    ids: Option<PathBuf>,
}

impl Sides {
    /// The configuration that was given, or one of the two sides alone.
    pub(super) fn config(&self) -> Result<Config, Failure> {
        let Self { config, from, credentials, to, ids } = self;
        if let Some(path) = config {
            return Config::read(path).map_err(refused);
        }
        let (Some(from), Some(to)) = (from, to) else { return Err(Failure::usage("which source and destination?")) };
        let mut config = Config::to_compare(&place(from)?, absolute(to)?).map_err(refused)?;
        give_credentials(&mut config, credentials.as_deref())?;
        if let Some(path) = ids {
            config.ids = IdMap::read(path).map_err(refused)?;
        }
        Ok(config)
    }
}
