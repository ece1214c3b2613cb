//! `ishigaki bench remote`: a storage node's disk beside our own.

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use ishigaki_base::ByteSize;
use ishigaki_bench::remote::{self, Settings};
use ishigaki_bench::replay;
use ishigaki_fabric::Fabric;
use ishigaki_remote::Mode;
use ishigaki_tpch::{Query, Recording, record};

use super::{Bar, EXAMPLES, Report, program};
use crate::commands::parse_seconds;
use crate::failure::Failure;

/// Reads from a storage node's disk, beside reads of the same file from our own, and what the network alone takes
///
/// The node is a process of its own on this host, for each way of I/O. Everything listed is swept; all sides of a case
/// alternate, in an order drawn anew for each round. Every read is checked for the bytes it should have brought.
///
/// With --replay the reads are those of a query of TPC-H: it is run over a node that notes what is read, and its reads are done
/// again from our own disk, from the node, and from there with the client's cache, in several sizes.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct RemoteArguments {
    /// A directory on the medium to measure; a fresh folder in it is used, and removed at the end. With --replay the directory
    /// of data that bench tpch --load has made
    #[arg(long, value_name = "DIR")]
    data: PathBuf,

    /// Do the page accesses of a query again, with and without the client's cache
    #[arg(long, conflicts_with_all = ["size", "connections", "io", "fabric", "file", "seconds"])]
    replay: bool,

    /// With --replay: the query whose page accesses are done again
    #[arg(long, value_name = "NUMBER", default_value = "3", requires = "replay")]
    query: String,

    /// With --replay: how often the query is run, one after the other
    #[arg(long, value_name = "NUMBER", default_value_t = 5, requires = "replay")]
    times: usize,

    /// With --replay: sizes of the cache, in percent of all different pages that are read
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "25,50,125", requires = "replay")]
    cache: Vec<u32>,

    /// Bytes of a read
    #[arg(long, value_name = "SIZES", value_delimiter = ',', default_value = "512B,4KiB,16KiB,64KiB,128KiB")]
    size: Vec<ByteSize>,

    /// Connections, each with a thread of the client
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_value = "1")]
    connections: Vec<usize>,

    /// Reads that each thread has in flight; 1,8,64 if it is not given, and with --replay 4
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',')]
    depth: Vec<usize>,

    /// How the node reads: dynamic, static, ring
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "dynamic,static,ring")]
    io: Vec<Mode>,

    /// What carries the bytes: tcp, or ofi:PROVIDER for those of libfabric that `ishigaki media probe --fabric` lists
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "tcp")]
    fabric: Vec<Fabric>,

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
    if arguments.replay {
        return run_replay(&arguments);
    }
    let RemoteArguments { data, size, connections, depth, io, fabric, file, seconds, rounds, report, .. } = arguments;
    let defaults = Settings::new(data, program()?, report.origin());
    let settings = Settings {
        sizes: size,
        connections,
        depths: if depth.is_empty() { defaults.depths.clone() } else { depth },
        modes: io,
        fabrics: fabric,
        file,
        duration: seconds,
        rounds,
        ..defaults
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

fn run_replay(arguments: &RemoteArguments) -> Result<(), Failure> {
    let queries = Query::list(std::slice::from_ref(&arguments.query))?;
    let [query] = queries[..] else { return Err(Failure::usage("--replay takes one query, as in --query 3")) };
    let recording = Recording { data: arguments.data.clone(), program: program()?, query, times: arguments.times };
    let mut bar = Bar::new();
    let recorded = record(&recording, &mut bar)?;
    let (mut lines, origin) = (Vec::new(), arguments.report.origin());
    let depths = if arguments.depth.is_empty() { &[4][..] } else { &arguments.depth[..] };
    for &readers in depths {
        let settings = replay::Settings {
            shares: arguments.cache.clone(),
            readers,
            rounds: arguments.rounds,
            ..recorded.replay(origin.clone())
        };
        lines.push(replay::run(&settings, &mut bar)?);
    }
    bar.0.finish_and_clear();
    if arguments.report.json {
        return arguments.report.show(&lines.concat());
    }
    let tables: Vec<String> = lines.iter().map(|lines| replay::table(lines)).collect();
    Ok(io::stdout().write_all(tables.join("\n").as_bytes())?)
}
