//! `ishigaki log add`: one more member for a running service.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args;
use ishigaki_base::ByteSize;
use ishigaki_logpool::Profile;
use ishigaki_logpool_service::{MemberConfig, Owner, Place, Reply, Request, ask};

use super::{absolute, refused};
use crate::failure::{EXIT_CODES, Failure};

const EXAMPLES: &str = "\
Examples:
  ishigaki log add billing --profile mariadb --mount /srv/billing-log --owner mysql --data /srv/pool
  ishigaki log add scratch --profile generic --mount ./log --share 4MiB --home 64MiB --data /srv/pool
  ishigaki log add machine --profile mariadb --socket /srv/machine.socket --owner 105:106 --data /srv/pool
  ishigaki log add shop --profile generic --ring /srv/shop.ring --data /srv/pool";

/// Have a running service serve one more member, now and after every start
///
/// It is noted in `members.toml` in the data directory, where the next start finds it; a configuration is not changed.
/// A member that the pool has already, and that is served nowhere, is served again with its files.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub(crate) struct Arguments {
    /// Its name: up to 32 letters, digits, `_` and `-`
    #[arg(value_name = "NAME")]
    name: String,

    /// What its server is: postgresql, mariadb or generic
    #[arg(long, value_name = "PROFILE")]
    profile: Profile,

    /// The empty folder on which it is mounted, for a server of this host
    #[arg(long, value_name = "DIR", required_unless_present_any = ["socket", "ring"], conflicts_with_all = ["socket", "ring"])]
    mount: Option<PathBuf>,

    /// The socket on which a virtual machine mounts it, by virtio-fs
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,

    /// The socket on which a database of ours gets it, over shared memory: `ishigaki sql --log-at pool:PATH`
    #[arg(long, value_name = "PATH", conflicts_with = "socket")]
    ring: Option<PathBuf>,

    /// Whose its files are, by name or number, in a virtual machine by both numbers; by default of whoever runs the service
    #[arg(long, value_name = "USER[:GROUP]")]
    owner: Option<Owner>,

    /// What it may have in the log until that is home [default: 16MiB]
    #[arg(long, value_name = "SIZE")]
    share: Option<ByteSize>,

    /// What its files may take together [default: 1GiB]
    #[arg(long, value_name = "SIZE")]
    home: Option<ByteSize>,

    /// How many files and folders it may have [default: 1024]
    #[arg(long, value_name = "NUMBER")]
    files: Option<u32>,

    /// The data directory of the service
    #[arg(long, value_name = "DIR")]
    data: PathBuf,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Failure> {
    let Arguments { name, profile, mount, socket, ring, owner, share, home, files, data, json } = arguments;
    let place = match (mount, socket, ring) {
        (Some(folder), None, None) => Place::Mount(absolute(&folder)?),
        (None, Some(path), None) => Place::Socket(absolute(&path)?),
        (None, None, Some(path)) => Place::Ring(absolute(&path)?),
        _ => return Err(Failure::usage("one of --mount, --socket and --ring")),
    };
    let member = MemberConfig { name, profile, place, owner, share, home, files };
    let reply = ask(&data, &Request::Add(member)).map_err(|error| refused(&error, &data))?;
    let Reply::Added(added) = reply else {
        return Err(Failure::invalid("the service has answered another question"));
    };
    let text = if json {
        serde_json::to_string(&added).map_err(|error| Failure::invalid(error.to_string()))?
    } else {
        let (name, place, file) = (&added.name, &added.place, added.noted_in.display());
        format!("{name} ({}) is served at {place}, files of {}; noted in {file}.", added.profile, added.owner)
    };
    Ok(writeln!(io::stdout(), "{text}")?)
}
