//! `ishigaki volume`: volumes over a fast and a slow device, for virtual machines and programs. The service itself is `ishigaki-volume-service`; what it
//! does is asked by its control socket, and done here where none runs.
//!
//! [`agent`] runs in a guest, [`pool`] makes a pool, [`serve`] is the service, [`asked`] what volumes come and go by, [`status`] what there is, [`values`] what arguments may be.

mod agent;
mod asked;
mod pool;
mod serve;
mod status;
mod values;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use ishigaki_volume_service::{Config, Error, Reply, Request, ask};

use crate::failure::Failure;

const EXAMPLES: &str = "\
Examples:
  ishigaki volume pool create --fast-size 100GiB         a pool as /etc/ishigaki/volumes.toml says
  ishigaki volume serve                                  serves its volumes until it is ended
  ishigaki volume create orders --size 200GiB            a volume, and the socket for its virtual machine
  ishigaki volume status --watch                         how much of what is read comes from flash
  ishigaki volume detach orders                          its file is a plain image of a disk again

A configuration:
  map = \"/var/lib/ishigaki/volumes\"    # a directory for what lies where, and for the control socket
  fast = \"/dev/nvme0n1p4\"              # a raw device, or a file
  slow = \"/srv/disk/volumes\"           # the directory in which the volumes lie, each as a file of its name

  # All that follows may be left out.
  sockets = \"/run/ishigaki/volumes\"    # NAME.sock for each virtual machine
  blocks = \"/run/ishigaki/blocks\"      # a link NAME to each block device
  door = \"socket\"                      # how volumes are used that are not named below: socket, block or none
  chunk = \"1MiB\"                       # in which the fast device is given out; fixed when the pool is made
  eviction = \"s3-fifo\"                 # or lru
  bypass = \"4MiB\"                      # streams that are longer go past it; 0 for never
  endurance = \"500GiB\"                 # bytes a day that are written to the fast device for reading; no limit if it is left out
  threads = 16                         # that work on the requests of a virtual machine
  queues = 16                          # of its device at most: QEMU has as many as the machine has processors
  prefetch = \"adaptive\"               # hot chunks come before they are asked for; or none, or a share of the time: \"0.4\"
  unit = 2                             # chunks that come together
  window = 10                          # seconds, of which prefetch takes its share
  agents = \"192.0.2.1:9118\"            # where agents in virtual machines tell what they know
  metrics = \"127.0.0.1:9117\"           # for Prometheus

  [[volume]]
  name = \"scratch\"
  door = \"block\"                       # a block device of this host
  weight = 2.0                         # its uses count twice when chunks are brought
  floor = \"1GiB\"                       # of the fast device, for which it comes first
  cap = \"10GiB\"                        # that are brought for it at most";

/// Where a configuration is if it is not given.
const USUAL: &str = "/etc/ishigaki/volumes.toml";

/// Keep volumes of virtual machines on disk, and what is hot of them on flash
///
/// A volume is a disk for a virtual machine (vhost-user-blk), or a block device of this host. All of it lies on the slow device; what is used
/// lies on the fast one as well, or instead, in chunks. What a flush was answered for survives a crash of everything.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    #[command(subcommand)]
    Pool(pool::Command),
    Serve(serve::Arguments),
    Status(status::Arguments),
    Create(asked::Create),
    Attach(asked::Attach),
    Resize(asked::Resize),
    Detach(asked::Detach),
    Remove(asked::Remove),
    Flush(asked::Flush),
    Pin(asked::Pin),
    Unpin(asked::Unpin),
    Token(asked::Token),
    Agent(agent::Arguments),
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Failure> {
    match arguments.command {
        Command::Pool(command) => pool::run(command),
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Status(arguments) => status::run(&arguments),
        Command::Create(arguments) => asked::create(&arguments),
        Command::Attach(arguments) => asked::attach(&arguments),
        Command::Resize(arguments) => asked::resize(&arguments),
        Command::Detach(arguments) => asked::detach(&arguments),
        Command::Remove(arguments) => asked::remove(&arguments),
        Command::Flush(arguments) => asked::flush(&arguments),
        Command::Pin(arguments) => asked::pin(&arguments),
        Command::Unpin(arguments) => asked::unpin(&arguments),
        Command::Token(arguments) => asked::token(&arguments),
        Command::Agent(arguments) => agent::run(&arguments),
    }
}

/// Which of the host's pools is meant.
#[derive(Debug, Args)]
struct Which {
    /// The configuration of the pool
    #[arg(long, value_name = "FILE", default_value = USUAL)]
    config: PathBuf,
}

impl Which {
    fn config(&self) -> Result<Config, Failure> {
        Config::read(&self.config).map_err(refused)
    }

    fn ask(&self, request: &Request) -> Result<Reply, Failure> {
        ask(&self.config()?, request).map_err(refused)
    }
}

/// Of the service; its messages say what helps.
fn refused(error: Error) -> Failure {
    Failure::of(error.kind(), error).without_hint()
}

fn another() -> Failure {
    Failure::invalid("the service has answered another question")
}
