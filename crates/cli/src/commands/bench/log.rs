//! `ishigaki bench wal` and `bench long`: workloads on the log alone.

use std::time::Duration;

use clap::Args;
use ishigaki_base::ByteSize;
use ishigaki_bench::long::Side;
use ishigaki_bench::wal::{Variant, Workload};
use ishigaki_bench::{Line, Target, long, wal};
use ishigaki_remote::Anywhere;
use ishigaki_wal::{CommitRule, LogKind};

use super::{Bar, EXAMPLES, Report};
use crate::commands::parse_seconds;
use crate::failure::Failure;

/// The log by itself under the workloads of its paper, every kind of log beside the others
///
/// Everything listed is swept, in one run, in an order drawn anew for each round; after each run the bare device writes as
/// many bytes at a time with as many threads. A run counts only if the log, opened again, gives back what it acknowledged.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct WalArguments {
    /// What a transaction does: u1 updates one page, u10 ten, tpcc takes an order in one of 8 warehouses (tpcc:N for N)
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "u1")]
    workload: Vec<Workload>,

    /// Kinds of log: parallel, serial, epoch
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "parallel,serial")]
    log: Vec<LogKind>,

    /// What a commit waits for: watermark, dependencies
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "watermark,dependencies")]
    commit: Vec<CommitRule>,

    /// Threads; each has a stream of its own where the log has several
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_value = "1,2,4")]
    workers: Vec<usize>,

    /// Transactions in a buffer that make it write
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_value = "16")]
    group: Vec<usize>,

    /// Transactions that a worker may have outstanding; four groups if it is not given
    #[arg(long, value_name = "NUMBER")]
    outstanding: Option<usize>,

    #[command(flatten)]
    measured: Measured,
}

/// The log written at full speed for a long time, with and without trimming what is free again
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct LongArguments {
    /// Bytes of a write
    #[arg(long, value_name = "SIZES", value_delimiter = ',', default_value = "8KiB,128KiB")]
    write: Vec<ByteSize>,

    /// Threads, each with a stream of its own
    #[arg(long, value_name = "NUMBER", default_value_t = 4)]
    workers: usize,

    /// There is a figure for each of these
    #[arg(long, value_name = "S", default_value = "1", value_parser = parse_seconds)]
    interval: Duration,

    /// Bytes after which the log's space is freed, as by a checkpoint
    #[arg(long, value_name = "SIZE", default_value = "256MiB")]
    free_after: ByteSize,

    #[command(flatten)]
    measured: Measured,
}

/// What the workloads on the log alone have in common.
#[derive(Debug, Args)]
struct Measured {
    /// Media to measure: a directory, ring:DIR, raw:PATH, node://HOST:PORT/DIR, mem, ssd, hdd, nvm:500ns
    #[arg(long, value_name = "PLACES", value_delimiter = ',', required = true)]
    device: Vec<Anywhere>,

    /// Measured time of each run
    #[arg(long, value_name = "S", default_value = "2", value_parser = parse_seconds)]
    seconds: Duration,

    /// Rounds of each case
    #[arg(long, value_name = "NUMBER", default_value_t = 5)]
    rounds: usize,

    /// Bytes of each segment of the log
    #[arg(long, value_name = "SIZE", default_value = "16MiB")]
    segment: ByteSize,

    #[command(flatten)]
    report: Report,
}

impl Measured {
    fn log(&self) -> ishigaki_wal::Settings {
        ishigaki_wal::Settings { segment: self.segment, ..ishigaki_wal::Settings::default() }
    }

    /// Measures each medium after the other.
    fn each(
        &self,
        workload: &str,
        mut measure: impl FnMut(Target, &mut Bar) -> ishigaki_bench::Result<Vec<Line>>,
    ) -> Result<(), Failure> {
        self.report.measure_each(&self.device, |place, bar| measure(Target::open(place, workload)?, bar))
    }
}

pub(super) fn run_wal(arguments: &WalArguments) -> Result<(), Failure> {
    let WalArguments { workload, log, commit, workers, group, outstanding, measured } = arguments;
    measured.each("wal", |target, bar| {
        let settings = wal::Settings {
            workloads: workload.clone(),
            variants: Variant::product(log, commit),
            workers: workers.clone(),
            groups: group.clone(),
            outstanding: *outstanding,
            duration: measured.seconds,
            rounds: measured.rounds,
            log: measured.log(),
            ..wal::Settings::new(target, measured.report.origin())
        };
        wal::run(&settings, bar)
    })
}

pub(super) fn run_long(arguments: &LongArguments) -> Result<(), Failure> {
    let LongArguments { write, workers, interval, free_after, measured } = arguments;
    measured.each("long", |target, bar| {
        let settings = long::Settings {
            writes: write.clone(),
            workers: *workers,
            duration: measured.seconds,
            interval: *interval,
            free_after: *free_after,
            ..long::Settings::new(Side::both(&measured.log()), target, measured.report.origin())
        };
        long::run(&settings, &long::free_up_to_now, bar)
    })
}
