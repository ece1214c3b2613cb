//! `ishigaki log remove`: one member less for a running service.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args;
use ishigaki_logpool_service::{Reply, Request, ask};

use super::refused;
use crate::failure::{EXIT_CODES, Failure};
use crate::human::counted;

const EXAMPLES: &str = "\
Examples:
  ishigaki log remove scratch --data /srv/pool
  ishigaki log remove billing --force --data /srv/pool    with its files";

/// Have a running service remove a member that is served nowhere
///
/// Its name, its share of the log and its files are free then. A member that has files, or is quarantined, is removed with
/// `--force` alone; `log rebuild` takes them out before, while no service runs or the member is quarantined.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub(crate) struct Arguments {
    /// Its name
    #[arg(value_name = "NAME")]
    name: String,

    /// Remove its files as well, for good
    #[arg(long)]
    force: bool,

    /// The data directory of the service
    #[arg(long, value_name = "DIR")]
    data: PathBuf,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Failure> {
    let Arguments { name, force, data, json } = arguments;
    let reply = ask(&data, &Request::Remove { name, force }).map_err(|error| refused(&error, &data))?;
    let Reply::Removed(removed) = reply else {
        return Err(Failure::invalid("the service has answered another question"));
    };
    let text = if json {
        serde_json::to_string(&removed).map_err(|error| Failure::invalid(error.to_string()))?
    } else {
        match removed.files {
            Some(files) => format!("{} is removed; it had {}.", removed.name, counted(files, "file")),
            None => format!("{} is removed, with all that it had; it was quarantined.", removed.name),
        }
    };
    Ok(writeln!(io::stdout(), "{text}")?)
}
