//! One module for each command; each turns its arguments into settings of a crate below, calls it, and shows what comes
//! back. `ends` is for those that serve until somebody ends them.

mod backup;
mod bench;
#[cfg(feature = "cluster")]
mod cluster;
mod completions;
mod database;
mod ends;
#[cfg(feature = "cluster")]
mod executor;
mod log;
mod log_arguments;
mod media;
mod migrate;
mod node;
mod progress;
mod salvage;
mod sql;
mod successor;
mod verify;
mod volume;
mod watching;

pub(crate) use backup::text as backup_text;

use std::time::Duration;

use clap::Subcommand;

use crate::failure::Failure;

/// What the binary can do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Sql(sql::Arguments),
    Verify(verify::Arguments),
    Salvage(salvage::Arguments),
    Backup(backup::Arguments),
    Log(Box<log::Arguments>),
    Migrate(migrate::Arguments),
    Volume(volume::Arguments),
    Bench(bench::Arguments),
    Media(media::Arguments),
    Node(Box<node::Arguments>),
    #[cfg(feature = "cluster")]
    Cluster(cluster::Arguments),
    Completions(completions::Arguments),
}

impl Command {
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self {
            Self::Sql(arguments) => sql::run(&arguments),
            Self::Verify(arguments) => verify::run(&arguments),
            Self::Salvage(arguments) => salvage::run(&arguments),
            Self::Backup(arguments) => backup::run(&arguments),
            Self::Log(arguments) => log::run(*arguments),
            Self::Migrate(arguments) => migrate::run(arguments),
            Self::Volume(arguments) => volume::run(arguments),
            Self::Bench(arguments) => bench::run(arguments),
            Self::Media(arguments) => media::run(arguments),
            Self::Node(arguments) => node::run(*arguments),
            #[cfg(feature = "cluster")]
            Self::Cluster(arguments) => cluster::run(&arguments),
            Self::Completions(arguments) => completions::run(&arguments),
        }
    }
}

/// Seconds as an argument, fractions allowed.
fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| format!("`{text}` is no number of seconds, as in 2 or 0.5"))?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}
