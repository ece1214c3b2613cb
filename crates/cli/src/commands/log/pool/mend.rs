//! `ishigaki log repair`, `quarantine`, `remount` and `scrub`: what a running service does for one member, the others going on.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use ishigaki_base::{ByteSize, ErrorKind};
use ishigaki_logpool_service::{Changed, Reply, Request, ScrubRate, Verified, ask};

use super::refused;
use crate::failure::{EXIT_CODES, Failure};
use crate::human::counted;

const REPAIR: &str = "\
Examples:
  ishigaki log repair orders --data /srv/pool        after its disk was mended, or a file of its home was put back";

/// Have a running service mend what can be mended of a member, and serve it again if it is not served
///
/// A quarantined member, or one whose home has failed, is opened again from its home and the log, and served where it was. Copies that are gone or damaged are written anew, all of its home is compared with its checksums, and damaged blocks are made anew where
/// memory or the log has them. The exit code is 4 where something stays damaged. The other members are served meanwhile.
#[derive(Debug, Args)]
#[command(after_help = REPAIR, after_long_help = format!("{REPAIR}\n\n{EXIT_CODES}"))]
pub(crate) struct Repair {
    #[command(flatten)]
    of: OfMember,
}

const QUARANTINE: &str = "\
Examples:
  ishigaki log quarantine orders --data /srv/pool    its server was ended before";

/// Have a running service take a member out of service, the others going on
///
/// Its mount, socket or ring ends, so end its server first. Everything that it was told is durable is kept, and `log remount`,
/// `log repair` or the next start of the service, a takeover as well, serves it again. `log rebuild` writes its files out meanwhile.
#[derive(Debug, Args)]
#[command(after_help = QUARANTINE, after_long_help = format!("{QUARANTINE}\n\n{EXIT_CODES}"))]
pub(crate) struct Quarantine {
    #[command(flatten)]
    of: OfMember,
}

const REMOUNT: &str = "\
Examples:
  ishigaki log remount orders --data /srv/pool       then start its server";

/// Have a running service open a member again, and serve it where it was served
///
/// For one that was quarantined, whose home has failed, or whose folder was unmounted by other hands. One that is in order is
/// refused, since its server would be cut off. Start its server afterwards.
#[derive(Debug, Args)]
#[command(after_help = REMOUNT, after_long_help = format!("{REMOUNT}\n\n{EXIT_CODES}"))]
pub(crate) struct Remount {
    #[command(flatten)]
    of: OfMember,
}

/// A member of a running service.
#[derive(Debug, Args)]
struct OfMember {
    /// Its name
    #[arg(value_name = "NAME")]
    name: String,

    /// The data directory of the service
    #[arg(long, value_name = "DIR")]
    data: PathBuf,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

const SCRUB: &str = "\
Examples:
  ishigaki log scrub --rate 16MiB --data /srv/pool   while the disks have nothing else to do
  ishigaki log scrub --rate off --data /srv/pool";

/// Set how fast a running service compares homes with their checksums
///
/// It does so all the time, at 1 MiB a second or what the configuration says as `scrub`, with six hours between passes. What is set
/// lasts until the service ends. `log verify` has everything compared at once, and `log status` shows how far it has come.
#[derive(Debug, Args)]
#[command(after_help = SCRUB, after_long_help = format!("{SCRUB}\n\n{EXIT_CODES}"))]
pub(crate) struct Scrub {
    /// Bytes of homes that are compared each second, all members together; `off` stands still
    #[arg(long, value_name = "SIZE|off", value_parser = rate)]
    rate: ScrubRate,

    /// The data directory of the service
    #[arg(long, value_name = "DIR")]
    data: PathBuf,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

fn rate(text: &str) -> Result<ScrubRate, String> {
    if text == "off" {
        return Ok(ScrubRate { rate_bytes: 0 });
    }
    let ByteSize(rate_bytes) = text.parse().map_err(|_| "no size, as in 4MiB, and not `off`".to_owned())?;
    Ok(ScrubRate { rate_bytes })
}

pub(crate) fn repair(arguments: Repair) -> Result<(), Failure> {
    let OfMember { name, data, json } = arguments.of;
    match answered(&data, &Request::Repair { name })? {
        Reply::Verified(found) => verified(&found, json),
        _ => Err(another()),
    }
}

pub(crate) fn quarantine(arguments: Quarantine) -> Result<(), Failure> {
    let OfMember { name, data, json } = arguments.of;
    match answered(&data, &Request::Quarantine { name })? {
        Reply::Changed(changed) => tell(&changed, json),
        _ => Err(another()),
    }
}

pub(crate) fn remount(arguments: Remount) -> Result<(), Failure> {
    let OfMember { name, data, json } = arguments.of;
    match answered(&data, &Request::Remount { name })? {
        Reply::Changed(changed) => tell(&changed, json),
        _ => Err(another()),
    }
}

pub(crate) fn scrub(arguments: &Scrub) -> Result<(), Failure> {
    match answered(&arguments.data, &Request::Scrub(arguments.rate))? {
        Reply::Scrubs(rate) => print(serde_json::to_string(&rate), arguments.json, || match rate.rate() {
            ByteSize(0) => "Homes are compared when they are read, and not beside that.".to_owned(),
            rate => format!("Homes are compared at {} a second.", rate.display().iec()),
        }),
        _ => Err(another()),
    }
}

/// Says what a service has found. What can not be served is damage.
pub(super) fn verified(found: &Verified, json: bool) -> Result<(), Failure> {
    print(serde_json::to_string(found), json, || {
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
    Err(Failure::of(ErrorKind::Corrupt, format!("not all can be served: {problems}")).without_hint())
}

fn tell(changed: &Changed, json: bool) -> Result<(), Failure> {
    print(serde_json::to_string(changed), json, || match &changed.place {
        Some(place) => format!("{} is served again at {place}.", changed.name),
        None => format!(
            "{} is taken out of service; `ishigaki log remount {}` brings it back, and so does the next start.",
            changed.name, changed.name
        ),
    })
}

/// Prints an object as it was made of a reply, or the text of it.
pub(super) fn print(
    object: serde_json::Result<String>,
    json: bool,
    text: impl FnOnce() -> String,
) -> Result<(), Failure> {
    let text = if json { object.map_err(|error| Failure::invalid(error.to_string()))? } else { text() };
    Ok(writeln!(io::stdout(), "{text}")?)
}

fn answered(data: &Path, request: &Request) -> Result<Reply, Failure> {
    ask(data, request).map_err(|error| refused(&error, data))
}

pub(super) fn another() -> Failure {
    Failure::invalid("the service has answered another question")
}
