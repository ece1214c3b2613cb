//! `ishigaki log`: a look at a write-ahead log, without changing it; and one log for many database servers.

mod changes;
mod pool;
mod report;

use std::io::{self, Write};

use clap::{Args, Subcommand};
use ishigaki_remote::Anywhere;

use super::database::there;
use crate::failure::{EXIT_CODES, Failure};

const EXAMPLES: &str = "\
Examples:
  ishigaki log inspect ./ishigaki-data           streams, generations, LSN ranges, where the log stops and why
  ishigaki log inspect --json ./ishigaki-data    the same for programs
  ishigaki log changes --from 1000 DIR           what was committed since LSN 1000, transaction by transaction
  ishigaki log serve --config pool.toml          one log for many database servers, each with a folder
  ishigaki log status --data /srv/pool           what that does, member by member";

/// Look at a write-ahead log, or serve one to many database servers
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
    /// it can be read, and the exit code is 4. Of a pool's log, every entry is shown as well.
    #[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
    Inspect {
        /// The database or pool: a directory, raw:DEVICE, node://HOST:PORT/DIR or another place
        #[arg(value_name = "PLACE")]
        place: Anywhere,
        /// Of a pool, show the entries of this member alone
        #[arg(long, value_name = "NAME")]
        member: Option<String>,
        /// Print one JSON object, and of a pool one more for each entry, each on a line
        #[arg(long)]
        json: bool,
    },
    /// Show what committed transactions changed, in the order of the log
    ///
    /// What recovery would give is shown, transaction by transaction in LSN order; what lies before the last checkpoint is
    /// not in the log any more. Keys and values are shown in hexadecimal. Nothing is changed. The database is best not in
    /// use meanwhile: then what is shown ends somewhere, or the log looks damaged there.
    #[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
    Changes {
        /// The database: a directory, raw:DEVICE, node://HOST:PORT/DIR or another place
        #[arg(value_name = "PLACE")]
        place: Anywhere,
        /// Begin with this LSN instead of with the first there is
        #[arg(long, value_name = "LSN")]
        from: Option<u64>,
        /// Print one JSON object for each transaction
        #[arg(long)]
        json: bool,
    },
    Serve(pool::serve::Arguments),
    Status(pool::status::Arguments),
    Add(pool::add::Arguments),
    Set(pool::set::Arguments),
    Remove(pool::remove::Arguments),
    Rebuild(pool::rebuild::Arguments),
    Verify(pool::verify::Arguments),
    Repair(pool::mend::Repair),
    Quarantine(pool::mend::Quarantine),
    Remount(pool::mend::Remount),
    Scrub(pool::mend::Scrub),
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Failure> {
    match arguments.command {
        Command::Inspect { place, member, json } => inspect(&place, member.as_deref(), json),
        Command::Changes { place, from, json } => {
            let (directory, name) = there(&place)?;
            changes::run(directory.as_ref(), &name, from, json)
        }
        Command::Serve(arguments) => pool::serve::run(arguments),
        Command::Status(arguments) => pool::status::run(&arguments),
        Command::Add(arguments) => pool::add::run(arguments),
        Command::Set(arguments) => pool::set::run(arguments),
        Command::Remove(arguments) => pool::remove::run(arguments),
        Command::Rebuild(arguments) => pool::rebuild::run(&arguments),
        Command::Verify(arguments) => pool::verify::run(&arguments),
        Command::Repair(arguments) => pool::mend::repair(arguments),
        Command::Quarantine(arguments) => pool::mend::quarantine(arguments),
        Command::Remount(arguments) => pool::mend::remount(arguments),
        Command::Scrub(arguments) => pool::mend::scrub(&arguments),
    }
}

/// Who is, for somebody who has asked for another one.
fn known(members: &[String]) -> String {
    if members.is_empty() { "it has none".to_owned() } else { format!("there are {}", members.join(", ")) }
}

fn inspect(place: &Anywhere, member: Option<&str>, json: bool) -> Result<(), Failure> {
    let (directory, name) = there(place)?;
    let is_pool = ishigaki_logpool::is_pool(directory.as_ref()).map_err(|error| pool::failed(&error))?;
    if member.is_some() && !is_pool {
        return Err(Failure::invalid(format!("{name}: this is no pool; only a pool has members")));
    }
    if let Some(member) = member {
        let members = ishigaki_logpool::members(directory.as_ref()).map_err(|error| pool::failed(&error))?;
        if members.iter().all(|known| known != member) {
            return Err(Failure::invalid(format!(
                "{name}: member `{member}` is not in this pool; {}",
                known(&members)
            )));
        }
    }
    let inspection = ishigaki_wal::inspect(directory.as_ref()).map_err(|error| failure(&name, error))?;
    let text = if json { report::json(&inspection) } else { report::text(&inspection) };
    io::stdout().write_all(text.as_bytes())?;
    let entries = if is_pool { pool::entries::run(directory.as_ref(), member, json) } else { Ok(()) };
    match inspection.problem {
        // The hint would be to look at the log.
        Some(problem) => Err(Failure::of(problem.kind(), problem).without_hint()),
        None => entries,
    }
}

fn failure(place: &str, error: ishigaki_wal::Error) -> Failure {
    match error {
        ishigaki_wal::Error::Device(cause) if matches!(*cause, ishigaki_device::Error::NotFound { .. }) => {
            Failure::invalid(format!("{place}: there is no log in this directory"))
        }
        other => Failure::of(other.kind(), other).without_hint(),
    }
}
