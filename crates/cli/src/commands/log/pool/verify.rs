//! `ishigaki log verify`: whether a pool is what was written.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use indicatif::ProgressBar;
use ishigaki_base::{ByteSize, ErrorKind};
use ishigaki_logpool::{Verification, verify};
use ishigaki_logpool_service::{Error as ServiceError, Reply, Request, ask};
use serde_json::json;

use super::{Offline, failed, mend, refused};
use crate::failure::{EXIT_CODES, Failure};
use crate::human::counted;

const EXAMPLES: &str = "\
Examples:
  ishigaki log verify --data /srv/pool           exit code 0 if it is sound, 4 if it is damaged
  ishigaki log verify --data /srv/pool --json    the same for programs
  ishigaki log verify orders --data /srv/pool    the home of one member of a running service";

/// How often one sees that it goes on.
const TICK: Duration = Duration::from_millis(100);

/// Read all of a pool and check all of its checksums: the log's, the homes', the checkpoint files'
///
/// Members are looked at one by one, so that the damage of one does not hide another's. Without a service nothing is changed.
/// A service that runs compares the homes itself, and makes damaged blocks anew where memory or the log has them; its log was
/// checked when it started. `log status` waits meanwhile, for one home at a time.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub(crate) struct Arguments {
    /// Of a running service, this member alone
    #[arg(value_name = "NAME")]
    name: Option<String>,

    /// The data directory of the pool
    #[arg(long, value_name = "DIR")]
    data: PathBuf,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(Arguments { name, data, json }: &Arguments) -> Result<(), Failure> {
    match ask(data, &Request::Verify { name: name.clone() }) {
        Ok(Reply::Verified(found)) => return mend::verified(&found, *json),
        Ok(_) => return Err(mend::another()),
        Err(ServiceError::NotServed { .. }) if name.is_none() => {}
        Err(error) => return Err(refused(&error, data)),
    }
    let pool = Offline::open(data)?;
    let spinner = ProgressBar::new_spinner();
    spinner.set_message("all checksums are read");
    spinner.enable_steady_tick(TICK);
    let outcome = verify(pool.directory.as_ref(), &pool.homes);
    spinner.finish_and_clear();
    let found = outcome.map_err(|error| failed(&error))?;
    let text = if *json { object(&found) } else { text(&found) };
    io::stdout().write_all(text.as_bytes())?;
    if found.is_sound() {
        return Ok(());
    }
    let problems = counted(found.problems.len() as u64, "problem");
    Err(Failure::of(ErrorKind::Corrupt, format!("{}: the pool is damaged: {problems}", data.display()))
        .with_hint("members without one can still be rebuilt: `ishigaki log rebuild`"))
}

fn text(found: &Verification) -> String {
    let mut text = String::new();
    let members = if found.members.is_empty() { "none".to_owned() } else { found.members.join(", ") };
    // Writing to a string does not fail.
    let _ = writeln!(text, "members     {members}");
    let _ = writeln!(text, "log         {} up to LSN {}", counted(found.log.records, "record"), found.log.cut);
    let _ = writeln!(text, "homes       {} checked", ByteSize(found.home_bytes).display().iec());
    if found.is_sound() {
        let _ = writeln!(text, "problems    none");
    }
    for problem in &found.problems {
        let _ = writeln!(text, "problem     {problem}");
    }
    text
}

fn object(found: &Verification) -> String {
    let object = json!({
        "sound": found.is_sound(),
        "members": found.members,
        "records": found.log.records,
        "cut": found.log.cut.0,
        "home_bytes": found.home_bytes,
        "problems": found.problems,
    });
    format!("{object}\n")
}
