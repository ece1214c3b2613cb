//! `ishigaki bench remote`: a storage node's disk beside our own.

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use ishigaki_base::ByteSize;
use ishigaki_bench::remote::{self, Settings};
use ishigaki_remote::Mode;

use super::{Bar, EXAMPLES, Report};
use crate::commands::parse_seconds;
use crate::failure::Failure;

/// Reads from a storage node's disk, beside reads of the same file from our own, and what the network alone takes
///
/// The node is a process of its own on this host, for each way of I/O. Everything listed is swept; all sides of a case
/// alternate, in an order drawn anew for each round. Every read is checked for the bytes it should have brought.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct RemoteArguments {
    /// A directory on the medium to measure; a fresh folder in it is used, and removed at the end
    #[arg(long, value_name = "DIR")]
    data: PathBuf,

    /// Bytes of a read
    #[arg(long, value_name = "SIZES", value_delimiter = ',', default_value = "512B,4KiB,16KiB,64KiB,128KiB")]
    size: Vec<ByteSize>,

    /// Connections, each with a thread of the client
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_value = "1")]
    connections: Vec<usize>,

    /// Reads that each thread has in flight
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_value = "1,8,64")]
    depth: Vec<usize>,

    /// How the node reads: dynamic, static, ring
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "dynamic,static,ring")]
    io: Vec<Mode>,

    /// Bytes of the file that is read
    #[arg(long, value_name = "SIZE", default_value = "256MiB")]
    file: ByteSize,

    /// Measured time of each side in each round
    #[arg(long, value_name = "S", default_value = "1", value_parser = parse_seconds)]
    seconds: Duration,

    /// Rounds of each case
    #[arg(long, value_name = "NUMBER", default_value_t = 5)]
    rounds: usize,

    #[command(flatten)]
    report: Report,
}

pub(super) fn run(arguments: RemoteArguments) -> Result<(), Failure> {
    let RemoteArguments { data, size, connections, depth, io, file, seconds, rounds, report } = arguments;
    let program = std::env::current_exe()
        .map_err(|error| Failure::invalid(format!("where this program is can not be told: {error}")))?;
    let settings = Settings {
        sizes: size,
        connections,
        depths: depth,
        modes: io,
        file,
        duration: seconds,
        rounds,
        ..Settings::new(data, program, report.origin())
    };
    let mut bar = Bar::new();
    let outcome = remote::run(&settings, &mut bar);
    bar.0.finish_and_clear();
    let lines = outcome?;
    if report.json {
        return report.show(&lines);
    }
    Ok(io::stdout().write_all(remote::table(&lines).as_bytes())?)
}
