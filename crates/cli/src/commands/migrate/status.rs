//! `ishigaki migrate status`: how far a migration is, for people and for programs.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use clap::Args;
use ishigaki_migrate_service::Status;
use ishigaki_migrate_service::control::{Reply, Request, ask};
use ishigaki_migrate_service::status::Phase;

use super::{Which, another, refused};
use crate::commands::watching;
use crate::failure::{EXIT_CODES, Failure};
use crate::human::{Count, counted, duration, seconds, size};

const EXAMPLES: &str = "\
Examples:
  ishigaki migrate status --to /srv/home-data            once
  ishigaki migrate status --to /srv/home-data --watch    every second, until Ctrl-C
  ishigaki migrate status --to /srv/home-data --json     for programs; with --watch, an object on each line";

/// Ask a running service how far it is
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub(super) struct Arguments {
    #[command(flatten)]
    which: Which,

    /// Ask again and again, every second or so often
    #[arg(long, value_name = "S", num_args = 0..=1, default_missing_value = "1", value_parser = watching::parse_interval)]
    watch: Option<Duration>,

    /// Print one JSON object; sizes are bytes, times are seconds
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let to = arguments.which.destination()?;
    watching::each(arguments.watch, arguments.json, || {
        let status = look(&to)?;
        if arguments.json {
            serde_json::to_string(&status).map(|line| line + "\n").map_err(|error| Failure::invalid(error.to_string()))
        } else {
            Ok(text(&status))
        }
    })
}

fn look(to: &Path) -> Result<Status, Failure> {
    match ask(to, &Request::Status {}).map_err(refused)? {
        Reply::Status(status) => Ok(*status),
        _ => Err(another()),
    }
}

fn text(status: &Status) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = write_text(&mut text, status);
    text
}

fn write_text(text: &mut String, status: &Status) -> std::fmt::Result {
    for source in &status.sources {
        let into = if source.into.is_empty() { String::new() } else { format!(", into {}", source.into) };
        writeln!(text, "from         {}{into}", source.from)?;
    }
    writeln!(text, "to           {}", status.to)?;
    let mounted = if status.is_mounted { "" } else { ", which is NOT mounted: clients get nothing" };
    writeln!(text, "clients use  {}{mounted}", status.at)?;
    writeln!(text, "serving      for {}", seconds(status.uptime_seconds))?;
    writeln!(text, "crawler      {}", phase(status))?;
    writeln!(text, "directories  {} listed of {} that are known", Count(status.listed), Count(status.directories))?;
    writeln!(text, "files        {} here of {}", Count(status.whole), Count(status.files))?;
    writeln!(text, "bytes        {} here of {}", size(status.here), size(status.bytes))?;
    let left = status.seconds_left.map(|left| format!(", {} left", duration(Duration::from_secs(left))));
    writeln!(text, "rate         {} a second{}", size(status.rate), left.unwrap_or_default())?;
    let limit = status.bandwidth.map_or("no limit".to_owned(), |limit| format!("{} a second", size(limit)));
    writeln!(text, "limits       {limit}, {} at a time", counted(status.parallel as u64, "request"))?;
    let (passed, served) = (Count(status.opened_passed), Count(status.opened_served));
    writeln!(
        text,
        "opened       {passed} files that the kernel reads and writes itself, {served} that the service does"
    )?;
    if let Some(address) = &status.metrics {
        writeln!(text, "metrics      {address}")?;
    }
    if status.waiting > 0 {
        writeln!(text, "waiting      {} for a source that does not answer", counted(status.waiting, "call"))?;
    }
    for wait in &status.waits {
        writeln!(text, "  {} for {}", wait.path, seconds(wait.seconds))?;
    }
    if status.conflicts > 0 {
        let conflicts = counted(status.conflicts, "file");
        writeln!(text, "conflicts    {conflicts} changed at the source: `ishigaki migrate conflicts`")?;
    }
    if status.problems > 0 {
        writeln!(text, "problems     {}", counted(status.problems, "object"))?;
    }
    for problem in &status.first_problems {
        writeln!(text, "  {}: {}", problem.path, problem.message)?;
    }
    Ok(())
}

fn phase(status: &Status) -> String {
    let phase = match status.phase {
        Phase::Crawling => "copies",
        Phase::Paused => "rests: it was told to pause",
        Phase::Waiting => "waits, and goes on by itself",
        Phase::Done if status.problems == 0 => "has brought everything: `ishigaki migrate finish` ends the migration",
        Phase::Done => "has brought everything that can be brought",
        Phase::Finished => "is finished: nothing of the migration is left",
    };
    match &status.trouble {
        Some(trouble) => format!("{phase}: {trouble}"),
        None => phase.to_owned(),
    }
}
