//! `ishigaki log add`: one more member for a running service.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args;
use ishigaki_base::ByteSize;
use ishigaki_logpool::Profile;
use ishigaki_logpool_service::{MemberConfig, Owner, Reply, Request, ask};

use super::{absolute, refused};
use crate::failure::{EXIT_CODES, Failure};

const EXAMPLES: &str = "\
Examples:
  ishigaki log add billing --profile mariadb --mount /srv/billing-log --owner mysql --data /srv/pool
  ishigaki log add scratch --profile generic --mount ./log --share 4MiB --home 64MiB --data /srv/pool";

/// Have a running service serve one more member, now and after every start
///
/// It is noted in `members.toml` in the data directory, where the next start finds it; a configuration is not changed.
/// A member that the pool has already, and that is mounted nowhere, is served again with its files.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub(crate) struct Arguments {
    /// Its name: up to 32 letters, digits, `_` and `-`
    #[arg(value_name = "NAME")]
    name: String,

    /// What its server is: postgresql, mariadb or generic
    #[arg(long, value_name = "PROFILE")]
    profile: Profile,

    /// The empty folder on which it is mounted
    #[arg(long, value_name = "DIR")]
    mount: PathBuf,

    /// Whose its files are, by name or number; by default of whoever runs the service
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
    let Arguments { name, profile, mount, owner, share, home, files, data, json } = arguments;
    let member = MemberConfig { name, profile, mount: absolute(&mount)?, owner, share, home, files };
    let reply = ask(&data, &Request::Add(member)).map_err(|error| refused(&error, &data))?;
    let Reply::Added(added) = reply else {
        return Err(Failure::invalid("the service has answered another question"));
    };
    let text = if json {
        serde_json::to_string(&added).map_err(|error| Failure::invalid(error.to_string()))?
    } else {
        let (name, folder, file) = (&added.name, added.mount.display(), added.noted_in.display());
        format!("{name} ({}) is served at {folder}, files of {}; noted in {file}.", added.profile, added.owner)
    };
    Ok(writeln!(io::stdout(), "{text}")?)
}
