//! `ishigaki log`: a look at a write-ahead log, without changing it.

mod report;

use std::io::{self, Write};
use std::path::PathBuf;

use clap::{Args, Subcommand};
use ishigaki_device::FileDirectory;

use crate::failure::{EXIT_CODES, Failure};

const EXAMPLES: &str = "\
Examples:
  ishigaki log inspect ./ishigaki-data           streams, generations, LSN ranges, where the log stops and why
  ishigaki log inspect --json ./ishigaki-data    the same for programs";

/// Look at a write-ahead log
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show what a log holds and where it stops, and why
    ///
    /// Nothing is changed, and the database may be in use meanwhile. A log that recovery would refuse is shown as far as
    /// it can be read, and the exit code is 4.
    #[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
    Inspect {
        /// The directory of a database
        #[arg(value_name = "DIR")]
        directory: PathBuf,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let Command::Inspect { directory, json } = &arguments.command;
    if !directory.is_dir() {
        return Err(Failure::invalid(format!("{}: there is no such directory", directory.display())));
    }
    let files = FileDirectory::open(directory).map_err(|error| Failure::of(error.kind(), error))?;
    let inspection = ishigaki_wal::inspect(&files).map_err(|error| match error {
        ishigaki_wal::Error::Device(cause) if matches!(*cause, ishigaki_device::Error::NotFound { .. }) => {
            Failure::invalid(format!("{}: there is no log in this directory", directory.display()))
        }
        other => Failure::of(other.kind(), other).without_hint(),
    })?;
    let text = if *json { report::json(&inspection) } else { report::text(&inspection) };
    io::stdout().write_all(text.as_bytes())?;
    match inspection.problem {
        // The hint would be to look at the log.
        Some(problem) => Err(Failure::of(problem.kind(), problem).without_hint()),
        None => Ok(()),
    }
}
