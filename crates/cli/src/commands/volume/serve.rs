//! `ishigaki volume serve`: the service, until it is told to end.

use std::time::Duration;

use clap::Args;
use ishigaki_volume_service::{Serving, Status, Supervisor};
use serde_json::json;

use super::{Which, refused, status};
use crate::commands::ends::{Ends, say};
use crate::failure::{EXIT_CODES, Failure};
use crate::human::counted;

const EXAMPLES: &str = "\
Examples:
  ishigaki volume serve                                        as /etc/ishigaki/volumes.toml says
  ishigaki volume serve --config /srv/test/volumes.toml --json";

/// How often one looks whether all doors are open.
const LOOK: Duration = Duration::from_secs(1);

/// Serve a pool's volumes until it is ended
///
/// Virtual machines connect to the sockets, programs use the block devices. Ctrl-C or SIGTERM ends it: what was asked for is answered, everything is
/// durable. A virtual machine that is told to connect again (QEMU: `reconnect=1`) sees a restart, or a crash, as a delay: the next service does what it
/// had asked for. Block devices take root, and a file system on one gets errors when the service ends: unmount it before.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub(super) struct Arguments {
    #[command(flatten)]
    which: Which,

    /// Print one JSON object when it serves, as `status` does, and one at the end
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let config = arguments.which.config()?;
    let ends = Ends::new(1)?;
    let supervisor = Supervisor::of_environment().unwrap_or_else(|error| {
        tracing::warn!("systemd is told nothing: NOTIFY_SOCKET: {error}");
        None
    });
    let serving = Serving::start(&config).map_err(refused)?;
    let begun = serving.status();
    say(&if arguments.json { status::json(&begun)? } else { text(&begun) })?;
    if let Some(Err(error)) = supervisor.as_ref().map(Supervisor::ready) {
        tracing::warn!("systemd is not told that this process serves: NOTIFY_SOCKET: {error}");
    }
    while !ends.wait_for(LOOK) {
        serving.look();
    }
    serving.stop().map_err(refused)?;
    say(&if arguments.json { json!({ "ended": true }).to_string() } else { "Ended: everything is durable.".to_owned() })
}

fn text(status: &Status) -> String {
    let mut text = format!("Serving {} of {}.", counted(status.volumes.len() as u64, "volume"), status.map.display());
    for volume in &status.volumes {
        let door = volume.door.as_ref().map(|door| door.path.display().to_string());
        let told = volume.trouble.clone().or(door).unwrap_or_else(|| "no door".to_owned());
        text.extend(["\n  ", &volume.name, ": ", &told]);
    }
    for away in &status.away {
        text.extend(["\n  ", &away.name, ": can not be opened: ", &away.message]);
    }
    text + "\nCtrl-C ends it."
}
