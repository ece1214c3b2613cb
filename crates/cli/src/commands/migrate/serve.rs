//! `ishigaki migrate serve`: the new server, until it is told to end.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use ishigaki_base::ErrorKind;
use ishigaki_migrate::source::Cancel;
use ishigaki_migrate_service::check::{Check, Opened, Severity};
use ishigaki_migrate_service::config::{self, Config, IdMap};
use ishigaki_migrate_service::status::Phase;
use ishigaki_migrate_service::{Serving, Status, Supervisor};
use serde_json::{Value, json};

use super::{absolute, give_credentials, place, refused};
use crate::commands::ends::{Ends, say};
use crate::commands::successor::Successor;
use crate::failure::{EXIT_CODES, Failure};
use crate::human::{Count, duration, seconds, size};

const EXAMPLES: &str = "\
Examples:
  ishigaki migrate serve --from nfs://old/home --to /srv/home-data --at /srv/home --dry-run    what would go wrong
  ishigaki migrate serve --from nfs://old/home --to /srv/home-data --at /srv/home
  ishigaki migrate serve --from /mnt/old --to /srv/home-data --at /srv/home --bandwidth 50MiB
  ishigaki migrate serve --config /etc/ishigaki/migrate.toml
  ishigaki migrate serve --config /etc/ishigaki/migrate.toml --takeover    in place of the one that runs, under working clients

A configuration:
  to = \"/srv/home-data\"             # the destination: an empty directory on ext4, xfs or btrfs
  at = \"/srv/home\"                  # the folder that clients use
  give_up = \"10m\"                   # clients get an error when a source has not answered for so long; without it, they wait
  ids = \"ids.map\"                   # owners with other numbers
  depth = \"breadth-first\"           # or depth-first
  passes = \"metadata-first\"         # or bulk
  bandwidth = \"50MiB\"               # that the crawler copies a second; without it, as fast as it can
  parallel = 8                      # requests of the crawler under way at a time

  [[source]]
  from = \"nfs://old/home\"           # or the path of a directory that is mounted here
  into = \"home\"                     # below the destination; without it, the destination itself";

/// How often one looks whether all is well.
const LOOK: Duration = Duration::from_secs(1);

const REPLACED: &str = "Ended: another process serves now.";

/// Serve the new server's files at once, and bring them from the old one
///
/// Clients use the folder given by `--at` from here on, and nothing else. The same command goes on after it was ended, or killed. Ctrl-C or
/// SIGTERM ends it: the folder is unmounted. When `status` says that everything is here, `ishigaki migrate finish` ends the migration. Takes root.
/// With `--takeover` it goes on with the folder of the service that runs there, which ends: clients wait for a moment, and get no error. SIGHUP has a
/// service start its own program again in that way, which may be a newer one by then, and reads the configuration anew.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
#[expect(clippy::struct_excessive_bools, reason = "switches of a command line, which occur together")]
pub(super) struct Arguments {
    /// What to migrate, in TOML
    #[arg(long, value_name = "FILE", conflicts_with_all = ["from", "credentials", "to", "at", "give_up", "ids", "depth", "passes", "bandwidth", "parallel"])]
    config: Option<PathBuf>,

    /// Without a configuration: the old server, `nfs://HOST/EXPORT`, `smb://HOST/SHARE`, or a directory that is mounted here
    #[arg(long, value_name = "PLACE", required_unless_present = "config")]
    from: Option<String>,

    /// Of a source by SMB: a file with lines `username=`, `password=` and perhaps `domain=`, which its owner alone may read [default: as a guest]
    #[arg(long, value_name = "FILE")]
    credentials: Option<PathBuf>,

    /// The destination, an empty directory, or one that the migration has begun to fill
    #[arg(long, value_name = "DIR", required_unless_present = "config")]
    to: Option<PathBuf>,

    /// The folder that clients use
    #[arg(long, value_name = "DIR", required_unless_present = "config")]
    at: Option<PathBuf>,

    /// Give clients an error when the source has not answered for so long: 30s, 10m, 2h [default: they wait]
    #[arg(long, value_name = "TIME")]
    give_up: Option<String>,

    /// A file with lines such as `uid 1000 5000`: owners with other numbers
    #[arg(long, value_name = "FILE")]
    ids: Option<PathBuf>,

    /// The order in which directories are listed: breadth-first or depth-first [default: breadth-first]
    #[arg(long, value_name = "ORDER")]
    depth: Option<String>,

    /// All names before all bytes, or a directory's files as soon as it is listed: metadata-first or bulk [default: metadata-first]
    #[arg(long, value_name = "WAY")]
    passes: Option<String>,

    /// Bytes that the crawler copies a second [default: no limit]
    #[arg(long, value_name = "SIZE")]
    bandwidth: Option<String>,

    /// Requests of the crawler under way at a time, 1 to 256 [default: 8]
    #[arg(long, value_name = "N")]
    parallel: Option<i64>,

    /// Begin with a crawler that rests until `ishigaki migrate resume`
    #[arg(long)]
    paused: bool,

    /// Give figures to Prometheus here; of a port alone, to this host alone
    #[arg(long, value_name = "[HOST:]PORT")]
    metrics: Option<String>,

    /// Take the place of the service that runs on the destination, under working clients; start as usual if none does
    #[arg(long, conflicts_with = "dry_run")]
    takeover: bool,

    /// Look at everything that would go wrong later, say so, and change nothing
    #[arg(long)]
    dry_run: bool,

    /// Print one JSON object when it serves, one when the migration is finished and one at the end; of a dry run, one for each finding
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let json = arguments.json;
    let config = config(arguments)?;
    // Before any client can know of the folder, so that no signal finds it unprepared.
    let ends = Ends::with_restart(1)?;
    let supervisor = Supervisor::of_environment().unwrap_or_else(|error| {
        tracing::warn!("systemd is told nothing: NOTIFY_SOCKET: {error}");
        None
    });
    let take_over = |cancel: &Cancel| Serving::try_take_over(&config, cancel);
    let taken = if arguments.takeover { ends.cancelling(take_over, || ()).map_err(refused)? } else { None };
    let is_taken = taken.is_some();
    let started = match taken {
        Some(serving) => Some(serving),
        None => start(&config, &ends, arguments.dry_run, json)?,
    };
    let Some(serving) = started else { return Ok(()) };
    let status = serving.status();
    let said = say(&if json { begun_json(&status).to_string() } else { begun_text(&status) });
    // Clients depend on this process already where another one has ended for it, and perhaps that one's reader, too.
    if !is_taken {
        said?;
    }
    if let Some(Err(error)) = supervisor.as_ref().map(Supervisor::ready) {
        tracing::warn!("systemd is not told that this process serves: NOTIFY_SOCKET: {error}");
    }
    let outcome = watch(&serving, &ends, supervisor.as_ref(), json);
    let (status, is_replaced) = (serving.status(), serving.is_replaced());
    // Whatever has ended it, the folder is unmounted and what is here made durable, unless another process serves now.
    serving.stop().map_err(refused)?;
    outcome?;
    if is_replaced {
        return say(&if json { json!({ "ended": true, "replaced": true }).to_string() } else { REPLACED.to_owned() });
    }
    say(&if json { ended_json(&status).to_string() } else { ended_text(&status) })
}

/// Checks, and starts; `None` where nothing more than a check was asked for.
fn start(config: &Config, ends: &Ends, dry_run: bool, json: bool) -> Result<Option<Serving>, Failure> {
    let look = |cancel: &Cancel| {
        if dry_run {
            Check::run(config, cancel).map(|check| (check, Opened::default()))
        } else {
            Check::open(config, cancel)
        }
    };
    let (check, opened) = ends.cancelling(look, || ()).map_err(refused)?;
    tell(&check, dry_run, json)?;
    if !check.is_fit() {
        return Err(Failure::of(ErrorKind::Invalid, "the migration can not begin, or would not end: see above"));
    }
    if dry_run {
        return Ok(None);
    }
    let start = |cancel: &Cancel| Serving::start_with(config, opened, cancel);
    ends.cancelling(start, || ()).map(Some).map_err(refused)
}

/// Shows how far it is, and tells what a person should know, until the end.
fn watch(serving: &Serving, ends: &Ends, supervisor: Option<&Supervisor>, json: bool) -> Result<(), Failure> {
    let bar = ProgressBar::new(0);
    let template = "{wide_bar} {msg}";
    bar.set_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()));
    let (mut told, mut is_finished) = (BTreeSet::new(), false);
    let mut trouble: Option<String> = None;
    let mut successor = Successor::default();
    while !serving.is_replaced() && !ends.wait_for(LOOK) {
        successor.look(ends, supervisor);
        let status = serving.status();
        if !status.is_mounted {
            bar.finish_and_clear();
            let reason = "was unmounted while it was served";
            return Err(Failure::of(ErrorKind::Unavailable, format!("{} {reason}", status.at))
                .with_hint("the same command serves it again, and goes on with the migration"));
        }
        bar.set_length(status.bytes.max(1));
        bar.set_position(if status.phase == Phase::Finished { status.bytes.max(1) } else { status.here });
        bar.set_message(line(&status));
        bar.suspend(|| {
            // The engine itself tells once that a source is away, and once that it is back.
            if status.away.is_empty() && status.trouble != trouble {
                if let Some(trouble) = &status.trouble {
                    tracing::warn!("the crawler waits, and tries again: {trouble}");
                } else {
                    tracing::warn!("the crawler goes on");
                }
                trouble.clone_from(&status.trouble);
            }
            for problem in &status.first_problems {
                if told.insert((problem.path.clone(), problem.message.clone())) {
                    tracing::warn!("{}: {}", problem.path, problem.message);
                }
            }
            if status.phase == Phase::Finished && !is_finished {
                is_finished = true;
                let text = "Finished: nothing of the migration is left. This serves the folder until it is ended.";
                return say(&if json { json!({ "finished": true }).to_string() } else { text.to_owned() });
            }
            Ok(())
        })?;
    }
    bar.finish_and_clear();
    Ok(())
}

/// Files, bytes, rate, time left, waiting clients.
fn line(status: &Status) -> String {
    let mut words = vec![
        format!("{}/{} files", Count(status.whole), Count(status.files)),
        format!("{}/{}", size(status.here), size(status.bytes)),
        format!("{}/s", size(status.rate)),
    ];
    words.extend(status.seconds_left.map(|left| format!("{} left", duration(Duration::from_secs(left)))));
    if status.waiting > 0 {
        words.push(format!("{} waiting", Count(status.waiting)));
    }
    if status.problems > 0 {
        words.push(format!("{} problems", Count(status.problems)));
    }
    words.join(", ")
}

fn config(arguments: &Arguments) -> Result<Config, Failure> {
    let paused = arguments.paused;
    let mut config = match &arguments.config {
        Some(path) => Config::read(path).map_err(refused)?,
        None => of_arguments(arguments)?,
    };
    config.paused |= paused;
    if let Some(text) = &arguments.metrics {
        config.metrics = Some(config::metrics(text).map_err(refused)?);
    }
    Ok(config)
}

fn of_arguments(arguments: &Arguments) -> Result<Config, Failure> {
    let (Some(from), Some(to), Some(at)) = (&arguments.from, &arguments.to, &arguments.at) else {
        return Err(Failure::usage("what is to be migrated?"));
    };
    let mut config = Config::new(&place(from)?, absolute(to)?, absolute(at)?).map_err(refused)?;
    give_credentials(&mut config, arguments.credentials.as_deref())?;
    if let Some(text) = &arguments.give_up {
        config.give_up = Some(config::duration("give_up", text).map_err(refused)?);
    }
    if let Some(path) = &arguments.ids {
        config.ids = IdMap::read(path).map_err(refused)?;
    }
    if let Some(text) = &arguments.depth {
        config.depth = config::depth(text).map_err(refused)?;
    }
    if let Some(text) = &arguments.passes {
        config.passes = config::passes(text).map_err(refused)?;
    }
    if let Some(text) = &arguments.bandwidth {
        config.bandwidth = Some(config::bandwidth(text).map_err(refused)?);
    }
    if let Some(number) = arguments.parallel {
        config.parallel = config::parallel(number).map_err(refused)?;
    }
    config.validate().map_err(refused)?;
    Ok(config)
}

/// What was found: of a dry run that is what was asked for, else it is by the way.
pub(super) fn tell(check: &Check, dry_run: bool, json: bool) -> Result<(), Failure> {
    let mut text = String::new();
    for finding in &check.findings {
        if json && dry_run {
            let line = serde_json::to_string(finding).map_err(|error| Failure::invalid(error.to_string()))?;
            text += &(line + "\n");
            continue;
        }
        let severity = match finding.severity {
            Severity::Problem => "problem",
            Severity::Warning => "warning",
            Severity::Note => "note",
        };
        let remedy = if finding.remedy.is_empty() { String::new() } else { format!("; {}", finding.remedy) };
        // Writing to a string does not fail.
        let _ = writeln!(text, "{severity:<8} {}: {}{remedy}", finding.about, finding.message);
    }
    if dry_run {
        if !json && check.is_fit() {
            text += "Nothing stands in the way.\n";
        }
        return Ok(io::stdout().write_all(text.as_bytes())?);
    }
    // Where stderr is closed there is nothing to be told to.
    let _ = io::stderr().write_all(text.as_bytes());
    Ok(())
}

fn begun_text(status: &Status) -> String {
    let sources = status.sources.iter().map(|source| match source.into.as_str() {
        "" => format!("{} is migrated into {}.", source.from, status.to),
        into => format!("{} is migrated into {}/{into}.", source.from, status.to),
    });
    let mut lines: Vec<String> = sources.collect();
    lines.push(format!("Clients use {} from here on; Ctrl-C ends it.", status.at));
    lines.join("\n")
}

fn begun_json(status: &Status) -> Value {
    let sources = status.sources.iter().map(|source| json!({ "from": source.from, "into": source.into }));
    json!({
        "sources": sources.collect::<Vec<_>>(),
        "to": status.to,
        "at": status.at,
        "pid": std::process::id(),
    })
}

fn ended_text(status: &Status) -> String {
    let time = seconds(status.uptime_seconds);
    if status.phase == Phase::Finished {
        return format!("Ended after {time}: the migration is finished, and clients use {}.", status.to);
    }
    format!(
        "Ended after {time}: {} of {} files are here, {} of {} that are known; the same command goes on.",
        Count(status.whole),
        Count(status.files),
        size(status.here),
        size(status.bytes),
    )
}

fn ended_json(status: &Status) -> Value {
    json!({
        "ended": true,
        "finished": status.phase == Phase::Finished,
        "seconds": status.uptime_seconds,
        "files": status.files,
        "whole": status.whole,
        "bytes": status.bytes,
        "here": status.here,
        "copied": status.copied,
    })
}
