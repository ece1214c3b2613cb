//! `ishigaki bench tpcc` and `bench ycsb`: transactions on the engine.

use std::num::NonZero;
use std::time::Duration;

use clap::Args;
use ishigaki_base::ByteSize;
use ishigaki_bench::oltp::{Choices, Engine, Sweep};
use ishigaki_bench::tpcc::{Mix, Scale};
use ishigaki_bench::ycsb::Workload;
use ishigaki_bench::{Line, Medium, tpcc, ycsb};
use ishigaki_txn::{ProtocolKind, Release};
use ishigaki_wal::{CommitRule, LogKind};

use super::{Bar, EXAMPLES, Report};
use crate::commands::parse_seconds;
use crate::failure::Failure;

/// TPC-C: all five transactions or fewer, then the specification's consistency conditions
///
/// Nobody types or thinks, so these are no tpmC. Everything listed is swept, in one run, in an order drawn anew for each
/// round, each time on a freshly filled database. A run counts only if all conditions hold in the database opened again, and
/// everything that was acknowledged is there.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct TpccArguments {
    /// Transactions: full, new-order, new-order-no-insert, new-order-payment
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "full")]
    mix: Vec<Mix>,

    /// Warehouses; each worker has one of them as its home
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_value = "1")]
    warehouses: Vec<u16>,

    /// So many times fewer items, customers and orders than the specification says, for a look at how it works
    #[arg(long, value_name = "NUMBER", default_value = "1")]
    scale: NonZero<u32>,

    #[command(flatten)]
    swept: Swept,
}

/// YCSB: reads and updates of skewed keys, ten in a transaction, then a check of every record
///
/// Everything listed is swept, in one run, in an order drawn anew for each round, each time on a freshly filled table. Keys
/// are drawn by Zipf's distribution and not scrambled: the most used lie beside each other.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct YcsbArguments {
    /// Operations: a (half reads, half updates), b (95 % reads), c (reads), f (half reads, half read and write back),
    /// reads:N (N % reads, else updates)
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "a")]
    workload: Vec<Workload>,

    /// Skews of Zipf's distribution, from 0 to 0.99
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_value = "0")]
    skew: Vec<f64>,

    /// Records of the table
    #[arg(long, value_name = "NUMBER", default_value_t = 1_000_000)]
    records: u64,

    /// Bytes of a record
    #[arg(long, value_name = "SIZE", default_value = "100B")]
    payload: ByteSize,

    /// Operations of a transaction
    #[arg(long, value_name = "NUMBER", default_value_t = 10)]
    operations: usize,

    /// Tell the engine all keys of a transaction before the first one is used, so that it looks them up side by side
    #[arg(long)]
    prefetch: bool,

    #[command(flatten)]
    swept: Swept,
}

/// Engines, workers and times.
#[derive(Debug, Args)]
struct Swept {
    /// Media to measure: none (everything but the medium), a directory, ring:DIR, raw:PATH, mem, ssd, hdd, nvm:500ns
    #[arg(long, value_name = "PLACES", value_delimiter = ',', default_value = "none")]
    device: Vec<Medium>,

    /// Threads, each with a session and a stream of the log of its own
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_value = "1")]
    workers: Vec<usize>,

    /// How transactions are kept apart: locking, tictoc
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "tictoc")]
    protocol: Vec<ProtocolKind>,

    /// When locks are let go of: early (before the transaction is durable), normal
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "early")]
    release: Vec<Release>,

    /// Kinds of log: parallel, serial, epoch
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "parallel")]
    log: Vec<LogKind>,

    /// What a commit waits for: watermark, dependencies
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "dependencies")]
    commit: Vec<CommitRule>,

    /// Transactions in a buffer that make it write
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_value = "16")]
    group: Vec<usize>,

    /// Transactions that a worker may have outstanding, 1 to wait for each; four groups if it is not given
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',')]
    outstanding: Vec<usize>,

    /// Measured time of each run
    #[arg(long, value_name = "S", default_value = "10", value_parser = parse_seconds)]
    seconds: Duration,

    /// Rounds of each case
    #[arg(long, value_name = "NUMBER", default_value_t = 3)]
    rounds: usize,

    /// Bytes of each segment of the log
    #[arg(long, value_name = "SIZE", default_value = "16MiB")]
    segment: ByteSize,

    #[command(flatten)]
    report: Report,
}

impl Swept {
    /// The engines that are compared.
    fn engines(&self) -> Vec<Engine> {
        let roomy = Engine::roomy();
        let log = ishigaki_wal::Settings { segment: self.segment, ..roomy.log.clone() };
        let choices = Choices {
            protocols: self.protocol.clone(),
            releases: self.release.clone(),
            logs: self.log.clone(),
            commits: self.commit.clone(),
            groups: self.group.clone(),
        };
        choices.engines(&ishigaki_txn::Settings { log, ..roomy })
    }

    /// Measures each medium after the other.
    fn each(
        &self,
        workload: &str,
        mut measure: impl FnMut(Sweep, &mut Bar) -> ishigaki_bench::Result<Vec<Line>>,
    ) -> Result<(), Failure> {
        let origin = self.report.origin();
        self.report.measure_each(&self.device, |medium, bar| {
            let sweep = Sweep {
                engines: self.engines(),
                workers: self.workers.clone(),
                outstanding: self.outstanding.clone(),
                duration: self.seconds,
                rounds: self.rounds,
                ..Sweep::new(medium.open(workload)?, origin.clone())
            };
            measure(sweep, bar)
        })
    }
}

pub(super) fn run_tpcc(arguments: &TpccArguments) -> Result<(), Failure> {
    let TpccArguments { mix, warehouses, scale, swept } = arguments;
    swept.each("tpcc", |sweep, bar| {
        let scale = Scale::divided(*scale);
        let settings = tpcc::Settings { mixes: mix.clone(), warehouses: warehouses.clone(), scale, sweep };
        tpcc::run(&settings, bar)
    })
}

pub(super) fn run_ycsb(arguments: &YcsbArguments) -> Result<(), Failure> {
    let YcsbArguments { workload, skew, records, payload, operations, prefetch, swept } = arguments;
    swept.each("ycsb", |sweep, bar| {
        let settings = ycsb::Settings {
            workloads: workload.clone(),
            skews: skew.clone(),
            records: *records,
            payload: *payload,
            operations: *operations,
            prefetch: *prefetch,
            sweep,
        };
        ycsb::run(&settings, bar)
    })
}
