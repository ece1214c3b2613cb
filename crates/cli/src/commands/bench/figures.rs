//! `ishigaki bench figures`: the experiments of a paper as a whole.

use std::io::{self, Write};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};
use ishigaki_base::ByteSize;
use ishigaki_bench::figures::p5b::Part;
use ishigaki_bench::figures::{self, Paper, p1, p2, p4, p4_tpcc, p5a, p5b};
use ishigaki_bench::long::{Side, free_up_to_now};
use ishigaki_bench::migration::tree::Shape;
use ishigaki_bench::oltp::Engine;
use ishigaki_bench::one_log::{Data, Disk, Host};
use ishigaki_bench::{Line, Target};
use ishigaki_remote::Anywhere;
use ishigaki_servers::Kind;
use ishigaki_tpch::{Experiments, Scale};

use super::{Bar, EXAMPLES, Report, program, stop_on_signals};
use crate::commands::parse_seconds;
use crate::failure::Failure;

/// All experiments of a paper: JSON lines, plots, and a page that lays our figures beside the paper's
///
/// A page that is there already keeps what was written by hand between its marks.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct FiguresArguments {
    #[command(subcommand)]
    paper: Papers,
}

#[derive(Debug, Subcommand)]
enum Papers {
    P1(P1Arguments),
    P2(P2Arguments),
    P3(P3Arguments),
    P4(P4Arguments),
    P4Tpcc(P4TpccArguments),
    P5a(P5aArguments),
    P5b(P5bArguments),
}

/// P-WAL (Kamiya, Kawashima, Hoshino, Tatebe 2017): the log by itself, on every medium given
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
struct P1Arguments {
    /// Media to measure: a directory, ring:DIR, raw:PATH, node://HOST:PORT/DIR, mem, ssd, hdd, nvm:500ns
    #[arg(long, value_name = "PLACES", value_delimiter = ',', default_value = "ssd", conflicts_with = "from")]
    device: Vec<Anywhere>,

    /// Time of long writing for each side and size; 0 leaves it out
    #[arg(long, value_name = "S", value_parser = parse_seconds, conflicts_with = "from")]
    long: Option<Duration>,

    #[command(flatten)]
    drawn: Drawn,
}

/// TicToc with P-WAL (Nakamura, Kawashima, Tatebe): lock release and groups under TPC-C's New-Order
///
/// At full size, filling and checking ten warehouses takes longer than measuring them. Each needs some 200 MB of memory, and a
/// modelled medium keeps its log in memory as well.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
struct P2Arguments {
    /// Latencies of the log; the one in the middle is measured with the other mixes too
    #[arg(
        long,
        value_name = "PLACES",
        value_delimiter = ',',
        default_value = "nvm:500ns,nvm:5us,nvm:50us",
        conflicts_with = "from"
    )]
    device: Vec<Anywhere>,

    /// Warehouses; so many as are in the middle are measured with the other mixes too
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', conflicts_with = "from")]
    warehouses: Option<Vec<u16>>,

    #[command(flatten)]
    drawn: Drawn,
}

/// Queries over disaggregated storage (Kato 2022): reads from a storage node, a query's reads again, queries by placement
///
/// The node is a process of its own on this host. At full size 1.5 GB of space are needed for data, one size of pages after the
/// other, and a good quarter of an hour.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
struct P3Arguments {
    /// A directory on the medium to measure; fresh folders in it are used, and removed at the end
    #[arg(long, value_name = "DIR", default_value = ".", conflicts_with = "from")]
    data: PathBuf,

    /// The scale of TPC-H's data; 1 is about a gigabyte of text
    #[arg(long, value_name = "NUMBER", conflicts_with = "from")]
    scale: Option<f64>,

    /// Bytes of a read
    #[arg(long, value_name = "SIZES", value_delimiter = ',', conflicts_with = "from")]
    size: Option<Vec<ByteSize>>,

    /// Connections, each with a thread of the client
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', conflicts_with = "from")]
    connections: Option<Vec<usize>>,

    /// Reads that each connection has in flight
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', conflicts_with = "from")]
    depth: Option<Vec<usize>>,

    /// Sizes of pages, from 4KiB to 1MiB; the replay has the largest
    #[arg(long, value_name = "SIZES", value_delimiter = ',', conflicts_with = "from")]
    page_size: Option<Vec<ByteSize>>,

    /// How often the query of the replay is run
    #[arg(long, value_name = "NUMBER", conflicts_with = "from")]
    times: Option<usize>,

    #[command(flatten)]
    drawn: Drawn,
}

/// One log for many database servers (Saito, Yamada): Debian's servers, each with a log of its own, or all with one
///
/// Servers, service and emulated disks are processes of their own and gone at the end, also after Ctrl-C. Takes root, and some 2 GB
/// of memory; a hard disk and one kind of server take about a quarter of an hour.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
struct P4Arguments {
    #[command(flatten)]
    compared: Compared,

    /// How many of them insert beside each other [default: 1,2,3,4 on hdd, else 1,2,4,8]
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', conflicts_with = "from")]
    servers: Option<Vec<usize>>,

    /// Transactions of each server in each load [default: 100 on hdd, else 1000]
    #[arg(long, value_name = "NUMBER", conflicts_with = "from")]
    transactions: Option<usize>,

    /// Integers of a transaction; the most servers have all of these, fewer have the first [default: 2,12,20,50]
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', conflicts_with = "from")]
    integers: Option<Vec<usize>>,

    #[command(flatten)]
    drawn: Drawn,
}

/// One log for many database servers: TPC-C through SQL, and a server that reads TPC-H's tables beside others that write
///
/// Takes root, and some 2 GB of memory; a hard disk and one kind of server take about ten minutes.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
struct P4TpccArguments {
    #[command(flatten)]
    compared: Compared,

    /// How many of them do TPC-C beside each other [default: 1,4]
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', conflicts_with = "from")]
    servers: Option<Vec<usize>>,

    /// Clients of each server [default: 4]
    #[arg(long, value_name = "NUMBER", conflicts_with = "from")]
    clients: Option<usize>,

    /// Warehouses of each server [default: 4]
    #[arg(long, value_name = "NUMBER", conflicts_with = "from")]
    warehouses: Option<NonZero<u16>>,

    /// So many times fewer items and customers than the specification has [default: 30]
    #[arg(long, value_name = "NUMBER", conflicts_with = "from")]
    scale: Option<NonZero<u32>>,

    /// Where the data of servers that do TPC-C are: in memory, or on the disk beside the logs
    #[arg(long, value_name = "PLACE", conflicts_with = "from")]
    data: Option<Data>,

    /// Servers that write beside the one that reads; 0 leaves readers out [default: 3]
    #[arg(long, value_name = "NUMBER", conflicts_with = "from")]
    writers: Option<usize>,

    #[command(flatten)]
    drawn: Drawn,
}

/// A file server that is replaced (paper 5, chapter 2): what clients wait for and get done, and until all is here, beside rivals
///
/// The old server is Debian's NFS-Ganesha and smbd in a network namespace of this host. Takes root, nfs-ganesha-vfs, rpcbind, samba and rsync; rclone is a
/// rival where it is installed. At full size two gigabytes of disk and some forty minutes.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
struct P5aArguments {
    /// Only these trees: small, office, media
    #[arg(long, value_name = "TREES", value_delimiter = ',', conflicts_with = "from")]
    only: Option<Vec<Shape>>,

    /// How many times fewer files than the paper's data sets the trees have [default: 50]
    #[arg(long, value_name = "NUMBER", conflicts_with = "from")]
    fewer: Option<NonZero<u32>>,

    /// How many times smaller than there a file is [default: 20]
    #[arg(long, value_name = "NUMBER", conflicts_with = "from")]
    smaller: Option<NonZero<u32>>,

    /// A directory for trees, destinations and mounts; what is made there is gone at the end
    #[arg(long, value_name = "DIR", default_value = "/tmp", conflicts_with = "from")]
    scratch: PathBuf,

    #[command(flatten)]
    drawn: Drawn,
}

/// Volumes over a fast and a slow device (paper 5, chapter 3): what database servers get done by what is prefetched
///
/// The devices are modelled, in memory; the servers are of Debian's package postgresql-15. Takes root, FUSE, loop devices, a control group for memory, 12 GB of memory, and
/// some four hours.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
struct P5bArguments {
    /// Only these: none, rival, demand, plain, fixed, adaptive, units
    #[arg(long, value_name = "PARTS", value_delimiter = ',', conflicts_with = "from")]
    only: Option<Vec<Part>>,

    /// Sizes of the fast device, in fifteenths of the data [default: 1,2]
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', conflicts_with = "from")]
    fifteenths: Option<Vec<u32>>,

    /// A directory for mounts, through which the servers' user may pass
    #[arg(long, value_name = "DIR", default_value = "/tmp", conflicts_with = "from")]
    scratch: PathBuf,

    #[command(flatten)]
    drawn: Drawn,
}

/// Servers with logs of their own, and with one.
#[derive(Debug, Args)]
struct Compared {
    /// Where logs are: hdd, ssd or nvm:5us, emulated; or a directory of a real disk
    #[arg(long, value_name = "DISKS", value_delimiter = ',', default_value = "hdd", conflicts_with = "from")]
    device: Vec<Disk>,

    /// Which servers: mariadb, postgresql
    #[arg(long, value_name = "KINDS", value_delimiter = ',', default_value = "mariadb", conflicts_with = "from")]
    server: Vec<Kind>,

    /// What is compared: separate, sleep, poll, delay, poll+delay, auto [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', conflicts_with = "from")]
    sides: Option<Vec<String>>,

    /// A directory for mounts, through which the servers' users may pass
    #[arg(long, value_name = "DIR", default_value = "/tmp", conflicts_with = "from")]
    scratch: PathBuf,
}

/// What figures of every paper have in common.
#[derive(Debug, Args)]
struct Drawn {
    /// Where the figures go; made if it is not there
    #[arg(long, value_name = "DIR", default_value = "figures")]
    out: PathBuf,

    /// Only show that everything works, in a few seconds for each medium
    #[arg(long)]
    smoke: bool,

    /// Measured time of each run
    #[arg(long, value_name = "S", value_parser = parse_seconds)]
    seconds: Option<Duration>,

    /// Runs of each case
    #[arg(long, value_name = "NUMBER")]
    rounds: Option<usize>,

    /// Threads and workers
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',')]
    workers: Option<Vec<usize>>,

    /// Draw the lines of these files again instead of measuring
    #[arg(long, value_name = "FILE", conflicts_with_all = ["smoke", "seconds", "rounds", "workers"])]
    from: Vec<PathBuf>,

    #[command(flatten)]
    report: Report,
}

impl Drawn {
    /// Draws what is measured, or was.
    fn draw(&self, paper: Paper, measure: impl FnOnce() -> Result<Vec<Line>, Failure>) -> Result<(), Failure> {
        let lines = if self.from.is_empty() {
            measure()?
        } else {
            let read: Result<Vec<_>, _> = self.from.iter().map(|path| figures::read(path)).collect();
            read?.into_iter().flatten().collect()
        };
        let files = figures::write(&self.out, paper, &lines)?;
        if self.report.json {
            return self.report.show(&lines);
        }
        let mut out = io::stdout().lock();
        for file in files {
            writeln!(out, "{}", file.display())?;
        }
        Ok(())
    }
}

pub(super) fn run(arguments: &FiguresArguments) -> Result<(), Failure> {
    match &arguments.paper {
        Papers::P1(arguments) => arguments.drawn.draw(Paper::P1, || measure_p1(arguments)),
        Papers::P2(arguments) => arguments.drawn.draw(Paper::P2, || measure_p2(arguments)),
        Papers::P3(arguments) => arguments.drawn.draw(Paper::P3, || measure_p3(arguments)),
        Papers::P4(arguments) => arguments.drawn.draw(Paper::P4, || measure_p4(arguments)),
        Papers::P4Tpcc(arguments) => arguments.drawn.draw(Paper::P4Tpcc, || measure_p4_tpcc(arguments)),
        Papers::P5a(arguments) => arguments.drawn.draw(Paper::P5a, || measure_p5a(arguments)),
        Papers::P5b(arguments) => arguments.drawn.draw(Paper::P5b, || measure_p5b(arguments)),
    }
}

fn measure_p1(P1Arguments { device, long, drawn }: &P1Arguments) -> Result<Vec<Line>, Failure> {
    let mut scale = if drawn.smoke { p1::Scale::smoke() } else { p1::Scale::standard() };
    scale.duration = drawn.seconds.unwrap_or(scale.duration);
    scale.rounds = drawn.rounds.unwrap_or(scale.rounds);
    scale.long = long.unwrap_or(scale.long);
    if let Some(workers) = &drawn.workers {
        scale.writers = workers.iter().copied().max().unwrap_or(1);
        (scale.workers, scale.threads) = (workers.clone(), workers.clone());
    }
    let log = ishigaki_wal::Settings::default();
    let sides = Side::both(&log);
    let settings = p1::Settings { scale, targets: targets(device)?, log, sides, origin: drawn.report.origin() };
    let mut bar = Bar::new();
    let lines = p1::run(&settings, &free_up_to_now, &mut bar);
    bar.0.finish_and_clear();
    Ok(lines?)
}

fn measure_p2(P2Arguments { device, warehouses, drawn }: &P2Arguments) -> Result<Vec<Line>, Failure> {
    let mut scale = if drawn.smoke { p2::Scale::smoke() } else { p2::Scale::standard() };
    scale.duration = drawn.seconds.unwrap_or(scale.duration);
    scale.rounds = drawn.rounds.unwrap_or(scale.rounds);
    scale.workers = drawn.workers.clone().unwrap_or(scale.workers);
    scale.warehouses = warehouses.clone().unwrap_or(scale.warehouses);
    let settings =
        p2::Settings { scale, targets: targets(device)?, engine: Engine::roomy(), origin: drawn.report.origin() };
    let mut bar = Bar::new();
    let lines = p2::run(&settings, &mut bar);
    bar.0.finish_and_clear();
    Ok(lines?)
}

fn measure_p3(arguments: &P3Arguments) -> Result<Vec<Line>, Failure> {
    let P3Arguments { data, drawn, .. } = arguments;
    if drawn.workers.is_some() {
        return Err(Failure::usage("paper 3 has connections and reads in flight; give --connections and --depth"));
    }
    let mut scale = if drawn.smoke { Scale::smoke() } else { Scale::standard() };
    scale.duration = drawn.seconds.unwrap_or(scale.duration);
    scale.rounds = drawn.rounds.unwrap_or(scale.rounds);
    scale.data = arguments.scale.unwrap_or(scale.data);
    scale.times = arguments.times.unwrap_or(scale.times);
    scale.sizes = arguments.size.clone().unwrap_or(scale.sizes);
    scale.connections = arguments.connections.clone().unwrap_or(scale.connections);
    scale.depths = arguments.depth.clone().unwrap_or(scale.depths);
    scale.pages = arguments.page_size.clone().unwrap_or(scale.pages);
    let experiments = Experiments { scale, data: data.clone(), program: program()?, origin: drawn.report.origin() };
    let mut bar = Bar::new();
    let mut skipped = Vec::new();
    let lines = experiments.run(&mut bar, &mut |reason| skipped.push(reason));
    bar.0.finish_and_clear();
    for reason in skipped {
        writeln!(io::stderr(), "SKIPPED: queries over a link: {reason}")?;
    }
    Ok(lines?)
}

fn measure_p4(arguments: &P4Arguments) -> Result<Vec<Line>, Failure> {
    let P4Arguments { compared: Compared { device, server, sides, scratch }, drawn, .. } = arguments;
    if drawn.workers.is_some() || drawn.seconds.is_some() {
        return Err(Failure::usage("paper 4 has servers and transactions; give --servers and --transactions"));
    }
    let mut scale = if drawn.smoke { p4::Scale::smoke() } else { p4::Scale::standard() };
    scale.rounds = drawn.rounds.unwrap_or(scale.rounds);
    scale.servers = arguments.servers.clone().or(scale.servers);
    scale.transactions = arguments.transactions.or(scale.transactions);
    scale.integers = arguments.integers.clone().unwrap_or(scale.integers);
    scale.sides = sides.clone().or(scale.sides);
    let settings = p4::Settings { scale, disks: device.clone(), kinds: server.clone(), host: host(scratch, drawn)? };
    let mut bar = Bar::new();
    let lines = p4::run(&settings, &mut bar);
    bar.0.finish_and_clear();
    Ok(lines?)
}

fn measure_p4_tpcc(arguments: &P4TpccArguments) -> Result<Vec<Line>, Failure> {
    let P4TpccArguments { compared: Compared { device, server, sides, scratch }, drawn, .. } = arguments;
    if drawn.workers.is_some() {
        return Err(Failure::usage("servers have clients; give --clients"));
    }
    let mut scale = if drawn.smoke { p4_tpcc::Scale::smoke() } else { p4_tpcc::Scale::standard() };
    scale.duration = drawn.seconds.unwrap_or(scale.duration);
    scale.rounds = drawn.rounds.unwrap_or(scale.rounds);
    scale.servers = arguments.servers.clone().unwrap_or(scale.servers);
    scale.clients = arguments.clients.unwrap_or(scale.clients);
    scale.warehouses = arguments.warehouses.unwrap_or(scale.warehouses);
    scale.divided = arguments.scale.unwrap_or(scale.divided);
    scale.data = arguments.data.unwrap_or(scale.data);
    scale.writers = arguments.writers.unwrap_or(scale.writers);
    scale.sides = sides.clone().or(scale.sides);
    let settings =
        p4_tpcc::Settings { scale, disks: device.clone(), kinds: server.clone(), host: host(scratch, drawn)? };
    let mut bar = Bar::new();
    let lines = p4_tpcc::run(&settings, &mut bar);
    bar.0.finish_and_clear();
    Ok(lines?)
}

fn measure_p5a(arguments: &P5aArguments) -> Result<Vec<Line>, Failure> {
    let P5aArguments { only, fewer, smaller, scratch, drawn } = arguments;
    if drawn.workers.is_some() || drawn.seconds.is_some() {
        return Err(Failure::usage("paper 5 has trees; give --only, --fewer and --smaller"));
    }
    let mut scale = if drawn.smoke { p5a::Scale::smoke() } else { p5a::Scale::standard() };
    scale.rounds = drawn.rounds.unwrap_or(scale.rounds);
    scale.trees = only.clone().unwrap_or(scale.trees);
    scale.shrink.files = fewer.map_or(scale.shrink.files, |fewer| f64::from(fewer.get()));
    scale.shrink.bytes = smaller.map_or(scale.shrink.bytes, |smaller| f64::from(smaller.get()));
    // Nothing of it may stay behind.
    let stop = stop_on_signals()?;
    let settings = p5a::Settings { scale, scratch: scratch.clone(), origin: drawn.report.origin(), stop };
    let mut bar = Bar::new();
    let lines = p5a::run(&settings, &mut bar);
    bar.0.finish_and_clear();
    Ok(lines?)
}

fn measure_p5b(arguments: &P5bArguments) -> Result<Vec<Line>, Failure> {
    let P5bArguments { only, fifteenths, scratch, drawn } = arguments;
    if drawn.workers.as_ref().is_some_and(|workers| workers.len() != 1) {
        return Err(Failure::usage("the volumes' servers have one number of workers, such as --workers 8"));
    }
    let mut scale = if drawn.smoke { p5b::Scale::smoke() } else { p5b::Scale::standard() };
    scale.rounds = drawn.rounds.unwrap_or(scale.rounds);
    scale.parts = only.clone().unwrap_or(scale.parts);
    scale.fifteenths = fifteenths.clone().unwrap_or(scale.fifteenths);
    scale.size.workers =
        drawn.workers.as_ref().and_then(|workers| workers.first().copied()).unwrap_or(scale.size.workers);
    // What is measured of a run: ten phases, so many times.
    let phases = scale.size.sets as u32 * 10;
    scale.size.phase = drawn.seconds.map_or(scale.size.phase, |seconds| seconds / phases);
    // Nothing of it may stay behind.
    let stop = stop_on_signals()?;
    let settings = p5b::Settings { scale, scratch: scratch.clone(), origin: drawn.report.origin(), stop };
    let mut bar = Bar::new();
    let lines = p5b::run(&settings, &mut bar);
    bar.0.finish_and_clear();
    Ok(lines?)
}

fn host(scratch: &Path, drawn: &Drawn) -> Result<Host, Failure> {
    // Nothing of it may stay behind.
    let stop = stop_on_signals()?;
    Ok(Host { program: program()?, scratch: scratch.to_owned(), origin: drawn.report.origin(), stop })
}

fn targets(places: &[Anywhere]) -> ishigaki_bench::Result<Vec<Target>> {
    places.iter().map(|place| Target::open(place, "figures")).collect()
}
