//! `ishigaki migrate`: replacing a file server. The service itself is `ishigaki-migrate-service`; a running one is asked by its control socket.
//!
//! [`seed`] copies ahead, [`serve`] is the service, [`status`] how far it is, [`asked`] what else it can be told, [`verify`] the comparison of both sides.

mod asked;
mod seed;
mod serve;
mod sides;
mod status;
mod verify;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use ishigaki_migrate_service::control::{self, Reply, Request};
use ishigaki_migrate_service::{Config, Error};

use crate::failure::Failure;

const EXAMPLES: &str = "\
Examples:
  ishigaki migrate seed --from nfs://old/home --to /srv/home-data                    copies ahead, if you like
  ishigaki migrate serve --from nfs://old/home --to /srv/home-data --at /srv/home    clients use /srv/home from here on
  ishigaki migrate status --to /srv/home-data --watch                                how far it is
  ishigaki migrate verify --from nfs://old/home --to /srv/home-data                  whether everything has arrived
  ishigaki migrate finish --to /srv/home-data                                        nothing of the migration is left";

/// Replace a file server: the new one serves at once, and the files follow
///
/// Clients see every file from the first second on. Its bytes come when a client asks for them, or when the crawler gets to them.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Seed(seed::Arguments),
    Serve(Box<serve::Arguments>),
    Status(status::Arguments),
    Pause(asked::Pause),
    Resume(asked::Resume),
    Throttle(asked::Throttle),
    First(asked::First),
    Conflicts(asked::Conflicts),
    Resolve(asked::Resolve),
    Verify(verify::Arguments),
    Finish(asked::Finish),
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Failure> {
    match arguments.command {
        Command::Seed(arguments) => seed::run(&arguments),
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Status(arguments) => status::run(&arguments),
        Command::Pause(arguments) => asked::pause(&arguments),
        Command::Resume(arguments) => asked::resume(&arguments),
        Command::Throttle(arguments) => asked::throttle(&arguments),
        Command::First(arguments) => asked::first(arguments),
        Command::Conflicts(arguments) => asked::conflicts(&arguments),
        Command::Resolve(arguments) => asked::resolve(arguments),
        Command::Verify(arguments) => verify::run(&arguments),
        Command::Finish(arguments) => asked::finish(&arguments),
    }
}

/// Which of the host's migrations is meant.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct Which {
    /// The destination of the migration
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,

    /// The configuration that it is served with
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl Which {
    /// Its destination.
    fn destination(&self) -> Result<PathBuf, Failure> {
        match (&self.to, &self.config) {
            (Some(to), _) => absolute(to),
            (None, Some(config)) => Ok(Config::read(config).map_err(refused)?.to),
            (None, None) => Err(Failure::usage("which migration?")),
        }
    }

    /// Asks its service.
    fn ask(&self, request: &Request) -> Result<Reply, Failure> {
        control::ask(&self.destination()?, request).map_err(refused)
    }
}

/// Of the service; its messages say what helps.
fn refused(error: Error) -> Failure {
    Failure::of(error.kind(), error).without_hint()
}

fn another() -> Failure {
    Failure::invalid("the service has answered another question")
}

/// Has the one source of a configuration that was given by arguments ask with that account.
fn give_credentials(config: &mut Config, file: Option<&Path>) -> Result<(), Failure> {
    let Some(file) = file else { return Ok(()) };
    for source in &mut config.sources {
        source.from = source.from.clone().with_credentials(absolute(file)?).map_err(refused)?;
    }
    Ok(())
}

/// A source as it was given: a directory of this host may be given from here on.
fn place(from: &str) -> Result<String, Failure> {
    if from.contains("://") {
        return Ok(from.to_owned());
    }
    let path = absolute(Path::new(from))?;
    path.into_os_string()
        .into_string()
        .map_err(|path| Failure::usage(format!("{}: give it in a configuration", path.display())))
}

fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    std::path::absolute(path).map_err(|error| Failure::file(path.display(), &error))
}
