//! `ishigaki volume agent`: in a guest, tells the host what it knows of its volume.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use ishigaki_volume_service::agent::{Error, Gathered, Message, Rate, Server, gather, send};
use serde_json::json;

use super::values;
use crate::commands::ends::{Ends, say};
use crate::commands::parse_seconds;
use crate::failure::{EXIT_CODES, Failure};
use crate::human::Count;

const EXAMPLES: &str = "\
Examples:
  ishigaki volume agent --to 192.0.2.1:9118 --volume orders --token-file /etc/ishigaki/token /var/lib/postgresql
  ishigaki volume agent … --postgresql /var/lib/postgresql/15/main    tables by their names, and committed transactions
  ishigaki volume agent … --mariadb /var/lib/mysql                    the same
  ishigaki volume agent … --work 'cat /run/shop/orders' /srv/shop      what a command counts
  ishigaki volume agent --to /dev/virtio-ports/ishigaki --volume orders /srv/shop    by a port of the machine, without network and token
  ishigaki volume agent … --once                                      tells once, and ends";

/// How soon it looks again at the earliest.
const LEAST: Duration = Duration::from_secs(1);

const POSTGRESQL: &str = "The data directory of PostgreSQL: its tables are told by name, and its transactions are the work. Asks it by `psql`, as the user of this process";

const MARIADB: &str =
    "The data directory of MariaDB: as with --postgresql. Asks it by `mariadb`, as the user of this process";

/// In a virtual machine: tell the host where files lie on the volume, and how much work is done
///
/// The host brings what is hot to flash by files then, and not by places on the disk; and for how much of its time it may, it decides by the work that is done. It is a hint:
/// nothing depends on it. Takes root, for the places of files. `ishigaki volume token NAME`, on the host, gives the token; a port of the machine needs none.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub(super) struct Arguments {
    /// Directories on the volume, all in one file system
    #[arg(value_name = "DIR", required_unless_present_any = ["postgresql", "mariadb"])]
    directories: Vec<PathBuf>,

    /// Where the host listens: `agents` in the configuration there, or the port of this machine that QEMU joins to the volume's NAME.agent
    #[arg(long, value_name = "HOST:PORT|PATH", value_parser = values::way_to_host)]
    to: String,

    /// The volume's name on the host
    #[arg(long, value_name = "NAME", value_parser = values::name)]
    volume: String,

    /// A file with the volume's token; a port of the machine needs none
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,

    #[arg(long, value_name = "DIR", help = POSTGRESQL)]
    postgresql: Option<PathBuf>,

    #[arg(long, value_name = "DIR", help = MARIADB, conflicts_with = "postgresql")]
    mariadb: Option<PathBuf>,

    /// A command that prints a counter of work, which only rises
    #[arg(long, value_name = "COMMAND", conflicts_with_all = ["postgresql", "mariadb"])]
    work: Option<String>,

    /// How often to look, in seconds
    #[arg(long, value_name = "S", default_value = "10", value_parser = parse_seconds)]
    every: Duration,

    /// Tell once, and end
    #[arg(long)]
    once: bool,

    /// Print one JSON object for each time
    #[arg(long)]
    json: bool,
}

impl Arguments {
    /// The database server that is asked, and where its data lie.
    fn server(&self) -> Option<(Server, &Path)> {
        let postgresql = self.postgresql.as_deref().map(|data| (Server::PostgreSql, data));
        postgresql.or_else(|| self.mariadb.as_deref().map(|data| (Server::MariaDb, data)))
    }
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let token = match &arguments.token_file {
        Some(file) => fs::read_to_string(file).map_err(|error| Failure::file(file.display(), &error))?,
        None if arguments.to.starts_with('/') => String::new(),
        None => return Err(Failure::usage("over the network a volume has a token: give its file by `--token-file`")),
    };
    let ends = Ends::new(1)?;
    let mut directories = arguments.directories.clone();
    let server = arguments.server();
    directories.splice(0..0, server.map(|(_, data)| data.to_owned()));
    let command = server.map(|(server, _)| server.work()).or(arguments.work.as_deref());
    let mut rate = command.map(Rate::new);
    let mut told = Gathered::default();
    loop {
        let names = server.map(|(server, data)| server.names(data)).unwrap_or_default();
        let outcome = tell(arguments, token.trim(), &directories, &names, rate.as_mut(), &mut told);
        match outcome {
            Ok(line) => say(&line)?,
            Err(error) if arguments.once => return Err(refused(error)),
            // The host, or the server, may be back at any moment.
            Err(error) => tracing::warn!("{error}; this is tried again"),
        }
        if arguments.once || ends.wait_for(arguments.every.max(LEAST)) {
            return Ok(());
        }
    }
}

fn refused(error: Error) -> Failure {
    Failure::of(error.kind(), error).without_hint()
}

/// Tells what has changed. What was told, for people.
fn tell(
    arguments: &Arguments,
    token: &str,
    directories: &[PathBuf],
    names: &BTreeMap<PathBuf, String>,
    rate: Option<&mut Rate>,
    told: &mut Gathered,
) -> Result<String, Error> {
    let gathered = gather(directories, names)?;
    if let Some(first) = directories.first() {
        gathered.check_volume(first, &arguments.volume)?;
    }
    let work = match rate {
        Some(rate) => rate.look().unwrap_or_else(|error| {
            tracing::warn!("{error}");
            None
        }),
        None => None,
    };
    let mut message = Message { volume: arguments.volume.clone(), token: token.to_owned(), files: None, work };
    let has_changed = gathered != *told;
    if has_changed {
        message = message.with_files(&gathered.files);
    }
    let has_layout = send(&arguments.to, &message)?;
    let files = gathered.files.len() as u64;
    let extents = gathered.files.iter().map(|file| file.extents.len() as u64).sum::<u64>();
    let left_out = gathered.left_out;
    // A host that was started anew is told all of it the next time.
    *told = if has_layout { gathered } else { Gathered::default() };
    if arguments.json {
        let line =
            json!({ "files": files, "extents": extents, "left_out": left_out, "changed": has_changed, "work": work });
        return Ok(line.to_string());
    }
    let layout = if has_changed { "told" } else { "as before" };
    let work = work.map(|work| format!(", {work:.1} done a second")).unwrap_or_default();
    Ok(format!("{} files in {} extents {layout}{work}", Count(files), Count(extents)))
}
