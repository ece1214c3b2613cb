//! `ishigaki volume pool`: what volumes are made in.

use std::io::{self, Write};

use clap::{Args, Subcommand};
use ishigaki_base::ByteSize;
use ishigaki_volume_service::make;

use super::{Which, refused, status, values};
use crate::failure::{EXIT_CODES, Failure};
use crate::human::{counted, size};

/// Make a pool, and ask how it is
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub(super) enum Command {
    Create(Create),
    Status(status::Arguments),
}

const EXAMPLES: &str = "\
Examples:
  ishigaki volume pool create                                      over a raw device that the configuration names
  ishigaki volume pool create --fast-size 100GiB                   over a file, which is made
  ishigaki volume pool create --config /srv/test/volumes.toml --fast-size 1GiB";

/// Make a pool as a configuration says: its map, and its fast device if that is a file
///
/// What is on a raw fast device is lost. The directory of the slow one may have files in it: `ishigaki volume attach` makes volumes of images that lie there.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub(super) struct Create {
    #[command(flatten)]
    which: Which,

    /// Make the file of the fast device, all its space reserved
    #[arg(long, value_name = "SIZE", value_parser = values::size)]
    fast_size: Option<ByteSize>,

    /// Print one JSON object, as `status` does
    #[arg(long)]
    json: bool,
}

pub(super) fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Create(arguments) => create(&arguments),
        Command::Status(arguments) => status::run(&arguments),
    }
}

fn create(arguments: &Create) -> Result<(), Failure> {
    let config = arguments.which.config()?;
    let chunk = config.settings.chunk;
    if let Some(few) = arguments.fast_size.filter(|size| size.0 < 2 * chunk.0) {
        let reason =
            format!("--fast-size {few}: the fast device takes two chunks of {chunk} at least, and is of use with many");
        return Err(Failure::usage(reason));
    }
    let status = make(&config, arguments.fast_size).map_err(refused)?;
    if arguments.json {
        return Ok(writeln!(io::stdout(), "{}", status::json(&status)?)?);
    }
    let room = counted(status.slots, "chunk");
    writeln!(
        io::stdout(),
        "The pool is made: {} has room for {room} of {}.",
        status.fast.display(),
        size(status.chunk)
    )?;
    Ok(writeln!(io::stdout(), "Serve it by `ishigaki volume serve`, make volumes by `ishigaki volume create`.")?)
}
