//! `ishigaki log repair`, `quarantine`, `remount` and `scrub`: what a running service does for one member, the others going on.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args;
use ishigaki_base::{ByteSize, ErrorKind};
use ishigaki_logpool_service::{Changed, Reply, Request, ScrubRate, Verified, ask};
use serde::Serialize;

use super::refused;
use crate::failure::Failure;
use crate::human::counted;

/// A member of a running service.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The member
    #[arg(value_name = "NAME")]
    name: String,

    /// The data directory of the service
    #[arg(long, value_name = "DIR")]
    data: PathBuf,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// How fast homes are compared.
#[derive(Debug, Args)]
pub(crate) struct ScrubArguments {
    /// Bytes of homes that are compared with their checksums each second, all members together; `off` stands still
    #[arg(long, value_name = "SIZE|off")]
    rate: String,

    /// The data directory of the service
    #[arg(long, value_name = "DIR")]
    data: PathBuf,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn repair(arguments: Arguments) -> Result<(), Failure> {
    let Arguments { name, data, json } = arguments;
    match ask(&data, &Request::Repair { name }).map_err(|error| refused(&error, &data))? {
        Reply::Verified(found) => verified(&found, json),
        _ => Err(another()),
    }
}

pub(crate) fn quarantine(arguments: Arguments) -> Result<(), Failure> {
    let Arguments { name, data, json } = arguments;
    match ask(&data, &Request::Quarantine { name }).map_err(|error| refused(&error, &data))? {
        Reply::Changed(changed) => changed_text(&changed, json),
        _ => Err(another()),
    }
}

pub(crate) fn remount(arguments: Arguments) -> Result<(), Failure> {
    let Arguments { name, data, json } = arguments;
    match ask(&data, &Request::Remount { name }).map_err(|error| refused(&error, &data))? {
        Reply::Changed(changed) => changed_text(&changed, json),
        _ => Err(another()),
    }
}

pub(crate) fn scrub(arguments: &ScrubArguments) -> Result<(), Failure> {
    let ScrubArguments { rate, data, json } = arguments;
    let bytes = if rate == "off" {
        ByteSize(0)
    } else {
        rate.parse().map_err(|_| Failure::usage(format!("`{rate}` is no size, as in 4MiB, and not `off`")))?
    };
    let rate = ScrubRate { rate_bytes: bytes.0 };
    match ask(data, &Request::Scrub(rate)).map_err(|error| refused(&error, data))? {
        Reply::Scrubs(rate) => print(&rate, *json, || match rate.rate() {
            ByteSize(0) => "Homes are compared when they are read, and not beside that.".to_owned(),
            rate => format!("Homes are compared at {} a second.", rate.display().iec()),
        }),
        _ => Err(another()),
    }
}

/// Says what a service has found. What can not be served is damage.
pub(crate) fn verified(found: &Verified, json: bool) -> Result<(), Failure> {
    print(found, json, || {
        let mut text = String::new();
        let whose = found.name.as_deref().unwrap_or("all members");
        // Writing to a string does not fail.
        let _ = writeln!(text, "homes       {} checked, of {whose}", ByteSize(found.bytes).display().iec());
        if found.damaged_blocks > 0 {
            let blocks = counted(found.damaged_blocks, "block");
            let _ = writeln!(text, "damaged     {blocks} of 4 KiB, {} made anew", found.repaired_blocks);
        }
        if found.problems.is_empty() {
            let _ = writeln!(text, "problems    none");
        }
        for problem in &found.problems {
            let _ = writeln!(text, "problem     {problem}");
        }
        text.trim_end().to_owned()
    })?;
    if found.problems.is_empty() {
        return Ok(());
    }
    let problems = counted(found.problems.len() as u64, "problem");
    Err(Failure::of(ErrorKind::Corrupt, format!("not all can be served: {problems}")))
}

fn changed_text(changed: &Changed, json: bool) -> Result<(), Failure> {
    print(changed, json, || match &changed.place {
        Some(place) => format!("{} is served again at {place}.", changed.name),
        None => format!(
            "{} is taken out of service; `ishigaki log remount {}` brings it back, and so does the next start.",
            changed.name, changed.name
        ),
    })
}

fn print(reply: &impl Serialize, json: bool, text: impl FnOnce() -> String) -> Result<(), Failure> {
    let text =
        if json { serde_json::to_string(reply).map_err(|error| Failure::invalid(error.to_string()))? } else { text() };
    Ok(writeln!(io::stdout(), "{text}")?)
}

fn another() -> Failure {
    Failure::invalid("the service has answered another question")
}
