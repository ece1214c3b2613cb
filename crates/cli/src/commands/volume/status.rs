//! `ishigaki volume status`: what a pool and its volumes do, for people and for programs.

use std::fmt::Write as _;
use std::time::Duration;

use clap::Args;
use ishigaki_base::ErrorKind;
use ishigaki_volume_service::{Reply, Request, Status, VolumeStatus, ask};

use super::{Which, another, refused};
use crate::commands::watching;
use crate::failure::{EXIT_CODES, Failure};
use crate::human::{Count, seconds, size};

const EXAMPLES: &str = "\
Examples:
  ishigaki volume status            once
  ishigaki volume status --watch    every second, until Ctrl-C
  ishigaki volume status --json     for programs; with --watch, an object on each line";

/// Files that are shown of a volume.
const FILES: usize = 5;

/// Show what lies where, and how much of what is read comes from the fast device
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
    let config = arguments.which.config()?;
    let mut before: Option<Status> = None;
    watching::each(arguments.watch, arguments.json, || {
        let status = match ask(&config, &Request::Status {}) {
            Ok(Reply::Status(status)) => status,
            Ok(_) => return Err(another()),
            // A service that is started again answers in a moment.
            Err(error) if arguments.watch.is_some() && error.kind() == ErrorKind::Unavailable => {
                return Ok(if arguments.json { String::new() } else { format!("{error}\n") });
            }
            Err(error) => return Err(refused(error)),
        };
        let shown = if arguments.json { json(&status)? + "\n" } else { text(&status, before.as_ref()) };
        before = Some(*status);
        Ok(shown)
    })
}

pub(super) fn json(status: &Status) -> Result<String, Failure> {
    serde_json::to_string(status).map_err(|error| Failure::invalid(error.to_string()))
}

fn text(status: &Status, before: Option<&Status>) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = write_text(&mut text, status, before);
    text
}

fn write_text(text: &mut String, status: &Status, before: Option<&Status>) -> std::fmt::Result {
    writeln!(text, "map      {}", status.map.display())?;
    let (used, slots) = (Count(status.used_slots), Count(status.slots));
    writeln!(text, "fast     {}: {used} of {slots} chunks of {} used", status.fast.display(), size(status.chunk))?;
    writeln!(text, "         {}, {} of it nowhere else", size(status.fast_bytes), size(status.dirty_bytes))?;
    let rest = if status.is_worn { "; nothing comes to it until that is within its endurance" } else { "" };
    writeln!(text, "         {} written to it since the start{rest}", size(status.written_bytes))?;
    writeln!(text, "slow     {}", status.slow)?;
    if status.is_served {
        writeln!(text, "served   for {}", seconds(status.uptime_seconds))?;
    } else {
        writeln!(text, "served   no: `ishigaki volume serve` serves it")?;
    }
    let prefetch = &status.prefetch;
    if status.is_served {
        let [most, used] = [prefetch.share, prefetch.used].map(|share| share * 100.0);
        let [brought, wanted] = [prefetch.brought_bytes, prefetch.wanted_bytes].map(size);
        writeln!(text, "prefetch {used:.0} % of the time, {most:.0} % at most; {brought} brought, {wanted} wanted")?;
    }
    if let Some(memory) = &status.memory {
        writeln!(text, "memory   {}", memory.display())?;
    }
    if let Some(address) = &status.agents {
        writeln!(text, "agents   {address}")?;
    }
    if let Some(address) = &status.metrics {
        writeln!(text, "metrics  {address}")?;
    }
    if !status.volumes.is_empty() {
        writeln!(
            text,
            "\n{:<20} {:>12} {:>12} {:>12}  {:>5}  {:>5}  door",
            "volume", "size", "on fast", "dirty", "hits", "now"
        )?;
    }
    for volume in &status.volumes {
        let earlier = before.and_then(|before| before.volumes.iter().find(|other| other.name == volume.name));
        let door = match &volume.door {
            Some(door) => {
                let device = door.device.as_ref().map(|device| format!(" ({})", device.display()));
                let used = if door.in_use { ", in use" } else { "" };
                format!("{}{}{used}", door.path.display(), device.unwrap_or_default())
            }
            None => "none".to_owned(),
        };
        let door = if volume.pinned { format!("{door}, pinned") } else { door };
        let [all, fast, dirty] = [volume.size, volume.fast_bytes, volume.dirty_bytes].map(size);
        let (since_start, of_late) = (percent(volume.hit_ratio()), percent(of_late(volume, earlier)));
        writeln!(text, "{:<20} {all:>12} {fast:>12} {dirty:>12}  {since_start:>5}  {of_late:>5}  {door}", volume.name)?;
        if let Some(trouble) = &volume.trouble {
            writeln!(text, "  {trouble}")?;
        }
        for file in volume.files.iter().take(FILES) {
            let share = percent((file.bytes > 0).then(|| file.fast_bytes as f64 / file.bytes as f64));
            writeln!(text, "  {:<40} {:>12}  {share} on fast", file.name, size(file.bytes))?;
        }
    }
    for away in &status.away {
        let dirty = if away.dirty_bytes > 0 {
            format!(" ({} on the fast device alone)", size(away.dirty_bytes))
        } else {
            String::new()
        };
        writeln!(text, "{:<20} can not be opened: {}{dirty}", away.name, away.message)?;
    }
    Ok(())
}

/// The hit ratio since the status before.
fn of_late(volume: &VolumeStatus, earlier: Option<&VolumeStatus>) -> Option<f64> {
    let earlier = earlier?;
    let hits = volume.hit_bytes.checked_sub(earlier.hit_bytes)?;
    let misses = volume.miss_bytes.checked_sub(earlier.miss_bytes)?;
    (hits + misses > 0).then(|| hits as f64 / (hits + misses) as f64)
}

fn percent(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{:.0} %", ratio * 100.0))
}
