//! What a running migration can be told: pause, resume, throttle, conflicts and their end, finish.

use std::io::{self, Write};

use clap::{ArgGroup, Args, ValueEnum};
use ishigaki_base::ByteSize;
use ishigaki_migrate_service::control::{Keep, Reply, Request};
use serde_json::json;

use super::{Which, another, refused};
use crate::failure::{EXIT_CODES, Failure};
use crate::human::counted;

const PAUSE_EXAMPLES: &str = "\
Examples:
  ishigaki migrate pause --to /srv/home-data
  ishigaki migrate pause --config /etc/ishigaki/migrate.toml";

/// Stop the crawler, within a file if need be
///
/// Returns when it has stopped. What clients ask for comes from the source all the same.
#[derive(Debug, Args)]
#[command(after_help = PAUSE_EXAMPLES, after_long_help = format!("{PAUSE_EXAMPLES}\n\n{EXIT_CODES}"))]
pub(super) struct Pause {
    #[command(flatten)]
    which: Which,
}

pub(super) fn pause(Pause { which }: &Pause) -> Result<(), Failure> {
    done(which, &Request::Pause {}, "The crawler rests; `ishigaki migrate resume` has it go on.")
}

const RESUME_EXAMPLES: &str = "\
Examples:
  ishigaki migrate resume --to /srv/home-data";

/// Have the crawler go on, and try again what it could not copy
#[derive(Debug, Args)]
#[command(after_help = RESUME_EXAMPLES, after_long_help = format!("{RESUME_EXAMPLES}\n\n{EXIT_CODES}"))]
pub(super) struct Resume {
    #[command(flatten)]
    which: Which,
}

pub(super) fn resume(Resume { which }: &Resume) -> Result<(), Failure> {
    done(which, &Request::Resume {}, "The crawler goes on.")
}

const THROTTLE_EXAMPLES: &str = "\
Examples:
  ishigaki migrate throttle --bandwidth 20MiB --to /srv/home-data
  ishigaki migrate throttle --bandwidth none --parallel 16 --to /srv/home-data";

/// Change how fast the crawler copies, until the service ends
///
/// Clients' own requests are not throttled. What is not given stays; a configuration is not changed.
#[derive(Debug, Args)]
#[command(after_help = THROTTLE_EXAMPLES, after_long_help = format!("{THROTTLE_EXAMPLES}\n\n{EXIT_CODES}"))]
#[command(group = ArgGroup::new("how").args(["bandwidth", "parallel"]).required(true).multiple(true))]
pub(super) struct Throttle {
    /// Bytes a second, or `none` for no limit
    #[arg(long, value_name = "SIZE", value_parser = bandwidth)]
    bandwidth: Option<u64>,

    /// Requests under way at a time, 1 to 256
    #[arg(long, value_name = "N")]
    parallel: Option<usize>,

    #[command(flatten)]
    which: Which,
}

/// Bytes a second; 0 for no limit, as the service has it.
fn bandwidth(text: &str) -> Result<u64, String> {
    if text == "none" {
        return Ok(0);
    }
    match text.parse::<ByteSize>() {
        Ok(ByteSize(bytes)) if bytes > 0 => Ok(bytes),
        _ => Err(
            "write the bytes of a second as 50MiB, or `none` for no limit; `ishigaki migrate pause` stops the crawler"
                .to_owned(),
        ),
    }
}

pub(super) fn throttle(Throttle { bandwidth, parallel, which }: &Throttle) -> Result<(), Failure> {
    let request = Request::Throttle { bandwidth: *bandwidth, parallel: *parallel };
    done(which, &request, "It counts from now on, until the service ends.")
}

const FIRST_EXAMPLES: &str = "\
Examples:
  ishigaki migrate first home/mail --to /srv/home-data";

/// Have the crawler take what is below a path before everything else, until the service ends
#[derive(Debug, Args)]
#[command(after_help = FIRST_EXAMPLES, after_long_help = format!("{FIRST_EXAMPLES}\n\n{EXIT_CODES}"))]
pub(super) struct First {
    /// Below the destination, as it was when the migration began
    #[arg(value_name = "PATH")]
    path: String,

    #[command(flatten)]
    which: Which,
}

pub(super) fn first(First { path, which }: First) -> Result<(), Failure> {
    done(&which, &Request::First { path }, "The crawler takes it first.")
}

const CONFLICTS_EXAMPLES: &str = "\
Examples:
  ishigaki migrate conflicts --to /srv/home-data           files that have changed or gone at the source meanwhile
  ishigaki migrate conflicts --to /srv/home-data --json    the same for programs";

/// List the files that have changed at the source since they were listed, or were removed there, and are not yet here
///
/// Each is told where it is now in the folder, and with its path at the source if a client has moved it. Versions are never mixed: such a file waits until `ishigaki migrate resolve` says which one stays.
#[derive(Debug, Args)]
#[command(after_help = CONFLICTS_EXAMPLES, after_long_help = format!("{CONFLICTS_EXAMPLES}\n\n{EXIT_CODES}"))]
pub(super) struct Conflicts {
    #[command(flatten)]
    which: Which,

    /// Print a JSON object for each, on a line
    #[arg(long)]
    json: bool,
}

pub(super) fn conflicts(Conflicts { which, json }: &Conflicts) -> Result<(), Failure> {
    let Reply::Conflicts(conflicts) = which.ask(&Request::Conflicts {})? else { return Err(another()) };
    let mut out = io::stdout().lock();
    for conflict in &conflicts {
        if *json {
            let (path, at_source) = (&conflict.path, &conflict.at_source);
            writeln!(out, "{}", json!({ "path": path, "at_source": at_source, "message": conflict.message }))?;
        } else if let Some(at_source) = &conflict.at_source {
            writeln!(out, "{} (at the source {at_source}): {}", conflict.path, conflict.message)?;
        } else {
            writeln!(out, "{}: {}", conflict.path, conflict.message)?;
        }
    }
    if !json {
        writeln!(out, "{}.", counted(conflicts.len() as u64, "conflict"))?;
    }
    Ok(())
}

/// Which version stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Version {
    /// What is here, with zeros for what was not copied
    Here,
    /// The source's, as it is now; what clients have changed here is lost
    Source,
}

const RESOLVE_EXAMPLES: &str = "\
Examples:
  ishigaki migrate resolve docs/plan.odt --keep source --to /srv/home-data
  ishigaki migrate resolve docs/plan.odt --keep here --to /srv/home-data";

/// Decide which version of a file in conflict stays
#[derive(Debug, Args)]
#[command(after_help = RESOLVE_EXAMPLES, after_long_help = format!("{RESOLVE_EXAMPLES}\n\n{EXIT_CODES}"))]
pub(super) struct Resolve {
    /// Where the file is now, as `ishigaki migrate conflicts` writes it first
    #[arg(value_name = "PATH")]
    path: String,

    /// The version
    #[arg(long, value_name = "WHICH")]
    keep: Version,

    #[command(flatten)]
    which: Which,
}

pub(super) fn resolve(Resolve { path, keep, which }: Resolve) -> Result<(), Failure> {
    let (keep, said) = match keep {
        Version::Here => (Keep::Here, "What is here stays."),
        Version::Source => (Keep::Source, "The source's version is taken."),
    };
    done(&which, &Request::Resolve { path, keep }, said)
}

const FINISH_EXAMPLES: &str = "\
Examples:
  ishigaki migrate finish --to /srv/home-data";

/// End the migration when nothing is missing: removes every trace of it from the destination
///
/// Refused while a file is not yet whole here, or a conflict is not decided. The service goes on to serve the folder until it is
/// ended; from then on clients use the destination itself.
#[derive(Debug, Args)]
#[command(after_help = FINISH_EXAMPLES, after_long_help = format!("{FINISH_EXAMPLES}\n\n{EXIT_CODES}"))]
pub(super) struct Finish {
    #[command(flatten)]
    which: Which,
}

pub(super) fn finish(Finish { which }: &Finish) -> Result<(), Failure> {
    let to = which.destination()?;
    match ishigaki_migrate_service::control::ask(&to, &Request::Finish {}).map_err(refused)? {
        Reply::Done {} => {
            let said = "is a plain directory: nothing of the migration is left. The service serves its folder until it is ended.";
            Ok(writeln!(io::stdout(), "{} {said}", to.display())?)
        }
        _ => Err(another()),
    }
}

/// Tells the service, and says what that has done.
fn done(which: &Which, request: &Request, said: &str) -> Result<(), Failure> {
    match which.ask(request)? {
        Reply::Done {} => Ok(writeln!(io::stdout(), "{said}")?),
        _ => Err(another()),
    }
}
