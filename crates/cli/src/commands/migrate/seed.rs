//! `ishigaki migrate seed`: copies ahead, while clients still use the old server.

use std::io::{self, Write};
use std::time::Instant;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use ishigaki_base::ErrorKind;
use ishigaki_migrate::engine::Progress;
use ishigaki_migrate_service::config::{self, Config};
use ishigaki_migrate_service::{Error, NotCopied, Seeding};
use serde_json::json;

use super::refused;
use super::serve::tell;
use super::sides::Sides;
use crate::commands::ends::Ends;
use crate::failure::{EXIT_CODES, Failure};
use crate::human::{Count, counted, size};

const EXAMPLES: &str = "\
Examples:
  ishigaki migrate seed --from nfs://old/home --to /srv/home-data                       the first time: everything
  ishigaki migrate seed --from nfs://old/home --to /srv/home-data --bandwidth 50MiB     again: what has changed since
  ishigaki migrate seed --config /etc/ishigaki/migrate.toml --json
  ishigaki migrate serve --from nfs://old/home --to /srv/home-data --at /srv/home       from here on clients use /srv/home";

/// Copy ahead, while clients still use the old server
///
/// May be run as often as one likes, and ended or killed at any time: the next one takes what has changed since, and so does `serve`, which shows
/// nothing that the old server does not have any more. The destination belongs to the seed: what else is put into it is removed. Takes root.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
#[command(mut_arg("to", |to| to.help("Without a configuration: the destination, an empty directory, or one that was copied to ahead")))]
pub(super) struct Arguments {
    #[command(flatten)]
    sides: Sides,

    /// Bytes that are copied a second [default: no limit, or the configuration's]
    #[arg(long, value_name = "SIZE")]
    bandwidth: Option<String>,

    /// Requests under way at a time, 1 to 256 [default: 8, or the configuration's]
    #[arg(long, value_name = "N")]
    parallel: Option<i64>,

    /// Print one JSON object for each object that was not copied, and one at the end
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let config = config(arguments)?;
    let ends = Ends::new(1)?;
    let (check, opened) = ends.cancelling(|cancel| Seeding::check(&config, cancel), || ()).map_err(refused)?;
    tell(&check, false, arguments.json)?;
    if !check.is_fit() {
        return Err(Failure::of(ErrorKind::Invalid, "nothing can be copied ahead: see above"));
    }
    let seeding = ends.cancelling(|cancel| Seeding::begin(&config, opened, cancel), || ()).map_err(refused)?;
    let outcome = copy(&seeding, &ends);
    let (now, left) = (seeding.progress(), seeding.not_copied());
    let is_ended_early = outcome.is_err();
    say(&now, &left, is_ended_early, arguments.json)?;
    outcome.map_err(|error| match error {
        Error::Cancelled => Failure::of(ErrorKind::Cancelled, "interrupted; the same command goes on").without_hint(),
        error => refused(error),
    })?;
    let refused = left.iter().filter(|object| !object.changed).count() as u64;
    if refused > 0 {
        let objects = counted(refused, "object");
        return Err(Failure::invalid(format!(
            "{objects} could not be copied: see above; the same command tries again"
        )));
    }
    Ok(())
}

/// Copies, and shows how far it is.
fn copy(seeding: &Seeding, ends: &Ends) -> Result<(), Error> {
    let bar = ProgressBar::new(0);
    let template = "{wide_bar} {msg}";
    bar.set_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()));
    let began = Instant::now();
    let outcome = ends.cancelling(
        |cancel| seeding.run(cancel),
        || {
            let now = seeding.progress();
            bar.set_length(now.bytes.max(1));
            bar.set_position(now.here.min(now.bytes));
            bar.set_message(line(&now, began.elapsed().as_secs_f64()));
        },
    );
    bar.finish_and_clear();
    outcome
}

fn line(now: &Progress, seconds: f64) -> String {
    if now.listed < now.directories && now.copied == 0 {
        return format!(
            "lists {}/{} directories, {} files",
            Count(now.listed),
            Count(now.directories),
            Count(now.files)
        );
    }
    let mut words = vec![
        format!("{}/{} files", Count(now.whole), Count(now.files)),
        format!("{}/{}", size(now.here), size(now.bytes)),
        format!("{}/s", size((now.copied as f64 / seconds.max(0.1)) as u64)),
    ];
    if now.waiting > 0 {
        words.push("waits for the source".to_owned());
    }
    if now.problems > 0 {
        words.push(format!("{} problems", Count(now.problems)));
    }
    words.join(", ")
}

/// Prints what was not copied, and the counts.
fn say(now: &Progress, left: &[NotCopied], is_ended_early: bool, json: bool) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let changed = left.iter().filter(|object| object.changed).count() as u64;
    let refused = left.len() as u64 - changed;
    if json {
        for NotCopied { path, message, changed } in left {
            writeln!(out, "{}", json!({ "path": path, "message": message, "changed": changed }))?;
        }
        let counts = json!({
            "ended_early": is_ended_early, "directories": now.directories, "files": now.files, "whole": now.whole,
            "bytes": now.bytes, "here": now.here, "copied": now.copied, "changed": changed, "problems": refused,
        });
        return writeln!(out, "{counts}");
    }
    for object in left {
        writeln!(out, "{}: {}", object.path, object.message)?;
    }
    if is_ended_early {
        let (whole, files) = (Count(now.whole), counted(now.files, "file"));
        return writeln!(out, "{whole} of {files} that are known are here; {} were copied.", size(now.copied));
    }
    write!(out, "{} of {} are here", Count(now.whole), counted(now.files, "file"))?;
    write!(out, ", {} of {}; {} were copied.", size(now.here), size(now.bytes), size(now.copied))?;
    if changed > 0 {
        write!(out, " {} changed meanwhile.", counted(changed, "object"))?;
    }
    writeln!(out)
}

fn config(arguments: &Arguments) -> Result<Config, Failure> {
    let mut config = arguments.sides.config()?;
    if let Some(text) = &arguments.bandwidth {
        config.bandwidth = Some(config::bandwidth(text).map_err(refused)?);
    }
    if let Some(number) = arguments.parallel {
        config.parallel = config::parallel(number).map_err(refused)?;
    }
    Ok(config)
}
