//! `ishigaki cluster`: the scheduler of queries over many storage nodes, until somebody ends it.

use std::net::ToSocketAddrs;

use clap::Args;
use ishigaki_cluster::Scheduler;
use serde_json::json;

use super::ends::{Ends, say};
use crate::failure::Failure;

const EXAMPLES: &str = "\
Examples:
  ishigaki cluster                                                          for this host alone, at 127.0.0.1:50050
  ishigaki cluster --listen 10.0.0.1:50050 --trust-network                  for all who reach this address
  ishigaki node --data /srv/pages --executor --scheduler 10.0.0.1:50050     a storage node that joins it
  ishigaki sql --cluster 10.0.0.1:50050                                     queries that it runs";

/// Schedule queries over many storage nodes
///
/// Nodes join it by `ishigaki node --executor`, and `ishigaki sql --cluster` sends it queries. It keeps nothing: nodes join
/// again when it was started again. Ctrl-C or SIGTERM ends it.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Where to listen; port 0 takes one that is free
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:50050")]
    listen: String,

    /// Listen at an address that others reach, too. Nothing is encrypted, and whoever reaches it can run anything there
    #[arg(long)]
    trust_network: bool,

    /// Take a node for lost that has said nothing for so many seconds, and have others do its work. Each one that is there
    /// speaks every second
    #[arg(
        long,
        value_name = "S",
        default_value_t = Scheduler::SILENCE,
        value_parser = clap::value_parser!(u16).range(i64::from(Scheduler::LEAST_SILENCE)..)
    )]
    node_timeout: u16,

    /// Print one JSON object when it serves, and nothing else on stdout
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let ends = Ends::new(1)?;
    allowed(&arguments.listen, arguments.trust_network)?;
    let scheduler = Scheduler::start(&arguments.listen, arguments.node_timeout).map_err(failed)?;
    let address = scheduler.address();
    say(&if arguments.json {
        json!({ "cluster": address.to_string(), "port": address.port(), "pid": std::process::id() }).to_string()
    } else {
        format!("Scheduling at {address}, for nodes that join it and clients with --cluster; Ctrl-C ends it.")
    })?;
    ends.wait();
    Ok(())
}

pub(super) fn failed(error: ishigaki_cluster::Error) -> Failure {
    Failure::of(error.kind(), error).without_hint()
}

/// Refuses an address that others reach, unless that is said to be wanted.
pub(super) fn allowed(address: &str, trusted: bool) -> Result<(), Failure> {
    let mut meant = address.to_socket_addrs().map_err(|error| Failure::usage(format!("{address}: {error}")))?;
    if trusted || meant.all(|address| address.ip().is_loopback()) {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "{address}: a scheduler and its executors know no authentication; listen at an address of this host alone, or say \
         --trust-network if whoever reaches it may run anything there"
    )))
}
