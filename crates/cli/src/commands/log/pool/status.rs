//! `ishigaki log status`: what a running service does, for people and for programs.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use ishigaki_logpool_service::{LogStatus, MemberStatus, Place, Reply, Request, ScrubStatus, Spread, Status, ask};

use super::refused;
use crate::commands::watching;
use crate::failure::{EXIT_CODES, Failure};
use crate::human::{Count, counted, seconds, size};

const EXAMPLES: &str = "\
Examples:
  ishigaki log status --data /srv/pool              once
  ishigaki log status --data /srv/pool --watch      every second, with rates, until Ctrl-C
  ishigaki log status --data /srv/pool --json       for programs; with --watch, an object on each line";

/// Ask a running service what it does, member by member
///
/// Counters begin when the service starts.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub(crate) struct Arguments {
    /// The data directory of the service
    #[arg(long, value_name = "DIR")]
    data: PathBuf,

    /// Ask again and again, every second or so often
    #[arg(long, value_name = "S", num_args = 0..=1, default_missing_value = "1", value_parser = watching::parse_interval)]
    watch: Option<Duration>,

    /// Print one JSON object; sizes are bytes, times are seconds
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut before: Option<Status> = None;
    watching::each(arguments.watch, arguments.json, || {
        let status = look(arguments)?;
        let text = if arguments.json {
            serde_json::to_string(&status).map_err(|error| Failure::invalid(error.to_string()))? + "\n"
        } else {
            text(&status, before.as_ref())
        };
        before = Some(status);
        Ok(text)
    })
}

fn look(arguments: &Arguments) -> Result<Status, Failure> {
    match ask(&arguments.data, &Request::Status {}).map_err(|error| refused(&error, &arguments.data))? {
        Reply::Status(status) => Ok(*status),
        _ => Err(Failure::invalid("the service has answered another question")),
    }
}

fn text(status: &Status, before: Option<&Status>) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = write_text(&mut text, status, before);
    text
}

fn write_text(text: &mut String, status: &Status, before: Option<&Status>) -> std::fmt::Result {
    // Another process has begun to count from nothing.
    let before = before.filter(|before| before.pid == status.pid && before.uptime_seconds < status.uptime_seconds);
    let since = before.map(|before| status.uptime_seconds - before.uptime_seconds);
    writeln!(text, "service     of {}, pid {}", status.data.display(), status.pid)?;
    writeln!(text, "serving     for {}, waiting {}", seconds(status.uptime_seconds), status.waiting)?;
    if let Some(address) = &status.metrics {
        writeln!(text, "metrics     {address}")?;
    }
    log_text(text, &status.log)?;
    scrub_text(text, &status.scrub)?;
    for member in &status.quarantined {
        writeln!(text, "quarantined {}", member.problem)?;
    }
    for name in &status.not_served {
        writeln!(text, "not served  {name}")?;
    }
    for member in &status.members {
        let commits_before = before
            .and_then(|before| before.members.iter().find(|other| other.name == member.name))
            .map(|other| other.commits);
        let rate =
            commits_before.zip(since).map(|(commits, time)| member.commits.saturating_sub(commits) as f64 / time);
        member_text(text, member, rate)?;
    }
    Ok(())
}

fn log_text(text: &mut String, log: &LogStatus) -> std::fmt::Result {
    writeln!(
        text,
        "log         {} needed of {}; {} to the medium in {}",
        size(log.live_bytes),
        size(log.bound_bytes),
        size(log.medium_bytes),
        counted(log.medium_writes, "write")
    )?;
    writeln!(
        text,
        "writes      {} for {}, {}",
        Count(log.writes),
        counted(log.requests, "request"),
        times(&log.write_seconds)
    )?;
    let Spread { mean, p50, p99, max, .. } = log.batch;
    writeln!(text, "batches     {mean:.2} requests a write; half up to {p50}, p99 {p99}, max {max}")?;
    if log.delayed > 0 {
        writeln!(text, "delayed     {}, {} together", counted(log.delayed, "write"), seconds(log.delay_seconds))?;
    }
    Ok(())
}

fn scrub_text(text: &mut String, scrub: &ScrubStatus) -> std::fmt::Result {
    let rate =
        if scrub.rate_bytes == 0 { "stands still".to_owned() } else { format!("{} a second", size(scrub.rate_bytes)) };
    write!(text, "scrub       {rate}; {} compared", size(scrub.bytes))?;
    if let Some(ended) = scrub.ended_seconds_ago {
        let blocks = counted(scrub.last_damaged_blocks, "damaged block");
        write!(text, "; last pass {} ago, {}, {blocks}", seconds(ended), size(scrub.last_bytes))?;
    }
    if scrub.damaged_blocks > 0 {
        write!(text, "; {} found damaged, {} made anew", Count(scrub.damaged_blocks), Count(scrub.repaired_blocks))?;
    }
    writeln!(text)
}

fn member_text(text: &mut String, member: &MemberStatus, rate: Option<f64>) -> std::fmt::Result {
    writeln!(text)?;
    let guest = if matches!(member.place, Place::Ring(_)) { "database" } else { "virtual machine" };
    let guest = match member.connected {
        Some(true) => format!(", a {guest} is connected"),
        Some(false) => format!(", no {guest} is connected"),
        None => String::new(),
    };
    writeln!(text, "{} ({}) at {}, files of {}{guest}", member.name, member.profile, member.place, member.owner)?;
    if let Some(problem) = &member.problem {
        writeln!(text, "  problem   {problem}")?;
    }
    for warning in &member.warnings {
        writeln!(text, "  warning   {warning}")?;
    }
    for file in &member.damaged {
        let more = if file.blocks == 1 { String::new() } else { format!(" and {} blocks more", file.blocks - 1) };
        writeln!(
            text,
            "  damaged   {} at {}{more}: refused until written as a whole; the log does not have it any more",
            file.path, file.first
        )?;
    }
    let rate = rate.map(|rate| format!(", {rate:.0} a second")).unwrap_or_default();
    writeln!(text, "  commits   {}{rate}, {}", Count(member.commits), times(&member.commit_seconds))?;
    writeln!(text, "  saved     {} of them needed no sync of their own", Count(member.syncs_saved))?;
    writeln!(
        text,
        "  entries   {}: {} written, {} logged{}",
        Count(member.entries),
        size(member.written_bytes),
        size(member.logged_bytes),
        ratio(member.logged_bytes, member.written_bytes)
    )?;
    if member.area_bytes > 0 || member.restated_bytes > 0 {
        let (areas, restated) = (size(member.area_bytes), size(member.restated_bytes));
        writeln!(text, "  besides   {areas} to checkpoint areas, {restated} said again")?;
    }
    writeln!(
        text,
        "  not home  {}: {} logged, {} in memory, of {} each",
        counted_entries(member.entries_not_home),
        size(member.bytes_not_home),
        size(member.memory_not_home_bytes),
        size(member.quota.share_bytes)
    )?;
    writeln!(
        text,
        "  home      {} of {}, {} of {} files",
        size(member.home_bytes),
        size(member.quota.home_bytes),
        Count(member.files),
        Count(member.quota.files)
    )
}

fn counted_entries(entries: u64) -> String {
    if entries == 1 { "1 entry".to_owned() } else { format!("{} entries", Count(entries)) }
}

fn ratio(logged: u64, written: u64) -> String {
    if logged == 0 || written == 0 {
        return String::new();
    }
    format!(", 1/{:.1}", written as f64 / logged as f64)
}

fn times(spread: &Spread) -> String {
    format!("p50 {}, p99 {}, max {}", seconds(spread.p50), seconds(spread.p99), seconds(spread.max))
}
