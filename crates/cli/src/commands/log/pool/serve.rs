//! `ishigaki log serve`: a pool with a folder for each of its members, until somebody ends it.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use ishigaki_base::ByteSize;
use ishigaki_logpool::Waiting;
use ishigaki_logpool_service::{Config, Kept, MemberConfig, Place, Serving, Status, Supervisor};
use serde_json::{Value, json};

use super::refused;
use crate::commands::ends::{Ends, say};
use crate::commands::successor::Successor;
use crate::failure::{EXIT_CODES, Failure};
use crate::human;

const EXAMPLES: &str = "\
Examples:
  ishigaki log serve --config /etc/ishigaki/pool.toml
  ishigaki log serve --data /srv/pool --member orders:postgresql:/srv/orders-log:postgres \\
                                      --member billing:mariadb:/srv/billing-log:mysql
  ishigaki log serve --data /srv/pool                     whom `log add` has taken in before
  ishigaki log serve --config pool.toml --metrics 9117    with http://127.0.0.1:9117/metrics
  ishigaki log serve --config pool.toml --takeover        in place of the one that runs, under working servers

A configuration:
  data = \"/srv/pool\"                # relative paths begin where this file is
  log = \"1GiB\"
  waiting = \"auto\"                  # or sleep, poll, delay:50us, poll+delay:50us
  metrics = \"127.0.0.1:9117\"
  scrub = \"1MiB\"                   # of homes compared with their checksums each second; \"0B\": none

  [[member]]
  name = \"orders\"
  profile = \"postgresql\"            # or mariadb, generic
  mount = \"/srv/orders-log\"         # an empty folder; for a virtual machine: socket = \"/srv/orders.socket\";
                                    # for a database of ours: ring = \"/srv/orders.ring\"
  owner = \"postgres\"                # a name or number, and perhaps a group: \"postgres:dba\"
  share = \"16MiB\"                   # of the log, until it is home
  home = \"1GiB\"                     # for all its files";

/// How often one looks whether all is well.
const LOOK: Duration = Duration::from_secs(1);

const REPLACED: &str = "Ended: another process serves now.";

const KEPT: &str = "Ended: the service manager keeps the folders for the next start.";

/// Serve one log to many database servers, each with a folder for its own
///
/// Every member has a folder, and its server has its log there; or a socket, by which a virtual machine has the folder; or a ring in shared memory, for a database of ours.
/// Ctrl-C or SIGTERM unmounts all and ends; a second one ends at once, and loses nothing either. Members that `log add` has taken in are served as well.
/// With `--takeover` it goes on with the folders of the service that runs there, which ends: their servers wait for a moment, and get no error.
/// SIGHUP has a service start its own program again in that way, which may be a newer one by then.
/// SIGUSR1 ends it for a restart by systemd, which keeps the folders for the next process: their servers wait for that one.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub(crate) struct Arguments {
    /// What to serve, in TOML
    #[arg(long, value_name = "FILE", conflicts_with_all = ["data", "member", "log", "waiting"])]
    config: Option<PathBuf>,

    /// Without a configuration: the data directory, for log, homes and the control socket
    #[arg(long, value_name = "DIR", required_unless_present = "config")]
    data: Option<PathBuf>,

    /// A member, and where it is served; once for each
    #[arg(long, value_name = "NAME:PROFILE:FOLDER[:USER[:GROUP]]")]
    member: Vec<MemberConfig>,

    /// The most that the log may take [default: 1GiB]
    #[arg(long, value_name = "SIZE")]
    log: Option<ByteSize>,

    /// How requests are waited for: auto, sleep, poll, delay:TIME or poll+delay:TIME [default: auto]
    #[arg(long, value_name = "WAY")]
    waiting: Option<Waiting>,

    /// Take the place of the service that runs on the data directory, under its working servers; start as usual if none does
    #[arg(long)]
    takeover: bool,

    /// Give numbers to Prometheus here; of a port alone, to this host alone
    #[arg(long, value_name = "[HOST:]PORT")]
    metrics: Option<String>,

    /// Print one JSON object when it serves and one when it has ended, and nothing else on stdout
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Failure> {
    let (json, takes_over) = (arguments.json, arguments.takeover);
    let config = config(arguments)?;
    // Before anybody can know of the service, so that no signal finds it unprepared.
    let ends = Ends::with_restart(1)?;
    let wrong = |error| refused(&error, &config.data);
    let unclear = |what: &str, error: io::Error| tracing::warn!("nothing of systemd is used: {what}: {error}");
    let supervisor = Supervisor::of_environment().unwrap_or_else(|error| {
        unclear("NOTIFY_SOCKET", error);
        None
    });
    let kept = Kept::of_environment().unwrap_or_else(|error| {
        unclear("LISTEN_FDS", error);
        Kept::default()
    });
    let taken = if takes_over { Serving::try_take_over(&config).map_err(wrong)? } else { None };
    let serving = match taken {
        Some(serving) => {
            Serving::decline(kept, supervisor.as_ref());
            serving
        }
        None => Serving::start_again(&config, kept, supervisor.as_ref()).map_err(wrong)?,
    };
    let status = serving.status().map_err(wrong)?;
    let said = say(&if json { begun_json(&status).to_string() } else { begun_text(&status) });
    if !takes_over {
        said?;
    }
    // From here on servers depend on this process: it ends when it is told to, or can serve nothing.
    let mut told = BTreeSet::new();
    if let Some(Err(error)) = supervisor.as_ref().map(Supervisor::ready) {
        tracing::warn!("systemd is not told that this process serves: NOTIFY_SOCKET: {error}");
    }
    let mut successor = Successor::default();
    let mut warned = BTreeSet::new();
    while !serving.is_replaced() && !ends.wait_for(LOOK) {
        if let Some(failure) = serving.failure() {
            return Err(wrong(failure));
        }
        successor.look(&ends, None);
        for (member, problem) in serving.problems() {
            if told.insert(member.clone()) {
                tracing::error!("member `{member}` gets errors: {problem}");
            }
        }
        let warnings = serving.warnings();
        warned.retain(|member| warnings.iter().any(|(other, _)| other == member));
        for (member, warning) in warnings {
            if warned.insert(member.clone()) {
                tracing::warn!("member `{member}`: {warning}");
            }
        }
    }
    if serving.is_replaced() {
        serving.stop().map_err(wrong)?;
        return say(&if json { json!({ "ended": true, "replaced": true }).to_string() } else { REPLACED.to_owned() });
    }
    if ends.is_to_keep() {
        if let Some(supervisor) = &supervisor {
            serving.keep(supervisor).map_err(wrong)?;
            return say(&if json { json!({ "ended": true, "kept": true }).to_string() } else { KEPT.to_owned() });
        }
        tracing::warn!("SIGUSR1: there is no service manager that could keep the folders, and they are unmounted");
    }
    let status = serving.status().map_err(wrong)?;
    serving.stop().map_err(wrong)?;
    say(&if json { ended_json(&status).to_string() } else { ended_text(&status) })
}

fn config(arguments: Arguments) -> Result<Config, Failure> {
    let Arguments { config, data, member, log, waiting, metrics, .. } = arguments;
    let mut config = if let Some(path) = config {
        let text = fs::read_to_string(&path).map_err(|error| Failure::file(path.display(), &error))?;
        Config::parse(&text, &path).map_err(|error| Failure::of(error.kind(), error).without_hint())?
    } else {
        let data = data.ok_or_else(|| Failure::usage("where is the data?"))?;
        let mut config = Config::new(data, member);
        (config.log, config.waiting) = (log, waiting);
        config
    };
    // A port alone is this host's.
    let host = |address: String| {
        if address.bytes().all(|byte| byte.is_ascii_digit()) { format!("127.0.0.1:{address}") } else { address }
    };
    config.metrics = metrics.or(config.metrics).map(host);
    Ok(config)
}

fn begun_text(status: &Status) -> String {
    let width = status.members.iter().map(|member| member.name.len()).max().unwrap_or_default();
    let mut lines = Vec::new();
    for member in &status.members {
        let (name, profile, place) = (&member.name, &member.profile, &member.place);
        lines.push(format!("{name:<width$}  {profile:<10}  at {place}, files of {}", member.owner));
    }
    for member in &status.quarantined {
        lines.push(format!("{:<width$}  is not served: {}", member.name, member.problem));
    }
    for name in &status.not_served {
        lines.push(format!("{name:<width$}  is in the pool, and served nowhere; `ishigaki log add` serves it, `ishigaki log remove` removes it"));
    }
    lines.push(format!("Serving {}; Ctrl-C ends it.", status.data.display()));
    lines.extend(status.metrics.iter().map(|address| format!("Metrics at {address}.")));
    lines.join("\n")
}

fn begun_json(status: &Status) -> Value {
    let members: Vec<_> = status
        .members
        .iter()
        .map(|member| {
            let place = match &member.place {
                Place::Mount(_) => "mount",
                Place::Socket(_) => "socket",
                Place::Ring(_) => "ring",
            };
            json!({
                "name": member.name,
                "profile": member.profile,
                place: member.place.path().display().to_string(),
                "owner": member.owner.to_string(),
            })
        })
        .collect();
    json!({
        "data": status.data.display().to_string(),
        "pid": status.pid,
        "waiting": status.waiting,
        "metrics": status.metrics,
        "members": members,
        "not_served": status.not_served,
        "quarantined": status.quarantined,
    })
}

/// Sums over all members.
fn sums(status: &Status) -> (u64, u64, u64) {
    let members = status.members.iter();
    members.fold((0, 0, 0), |(commits, written, logged), member| {
        (commits + member.commits, written + member.written_bytes, logged + member.logged_bytes)
    })
}

fn ended_text(status: &Status) -> String {
    let (commits, written, logged) = sums(status);
    format!(
        "Ended after {}: {} in {}, {} written, {} logged.",
        human::duration(Duration::from_secs_f64(status.uptime_seconds)),
        human::counted(commits, "commit"),
        human::counted(status.log.writes, "write"),
        ByteSize(written),
        ByteSize(logged),
    )
}

fn ended_json(status: &Status) -> Value {
    let (commits, written, logged) = sums(status);
    json!({
        "ended": true,
        "seconds": status.uptime_seconds,
        "commits": commits,
        "writes": status.log.writes,
        "written_bytes": written,
        "logged_bytes": logged,
    })
}
