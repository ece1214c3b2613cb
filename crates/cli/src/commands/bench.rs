//! `ishigaki bench`: runs a workload and shows its figures, as a table for people or one JSON object a line.

mod figures;
mod log;
mod oltp;
mod remote;
mod tpch;

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use ishigaki_base::ByteSize;
use ishigaki_base::random::Seed;
use ishigaki_bench::{Line, Origin, Progress, bank, checkpoint, commit, table};

use super::ends::Ends;
use super::log_arguments::LogArguments;
use super::parse_seconds;
use crate::failure::Failure;

const EXAMPLES: &str = "\
Examples:
  ishigaki bench commit --data /srv/bench                            how long a commit takes, beside the bare device
  ishigaki bench commit --data /srv/bench --sessions 1,4,16 --json   the same as JSON lines
  ishigaki bench checkpoint --data /srv/bench                        commits while a checkpoint is made, and without
  ishigaki bench bank --data /srv/bank --seconds 30                  transfers under contention, then an audit
  ishigaki bench bank --data /srv/bank --check                       the audit alone, for instance after a crash
  ishigaki bench wal --device /srv/bench --workers 1,2,4 --json      kinds of log and rules of commit, U-1
  ishigaki bench wal --device ssd,nvm:500ns --log parallel,serial,epoch --workload u1,u10,tpcc
  ishigaki bench long --device /srv/bench --seconds 60               long writing, with trim and without
  ishigaki bench tpcc --device none,nvm:500ns --warehouses 1,4 --workers 1,2    all five transactions of TPC-C, checked
  ishigaki bench tpcc --scale 100 --seconds 1 --rounds 1             the same, small: a look at how it works
  ishigaki bench ycsb --workload a,b,c --skew 0,0.9,0.99 --json      skewed reads and updates, ten in a transaction
  ishigaki bench remote --data /srv/bench --size 4KiB,64KiB --depth 1,64    a storage node's disk beside our own
  ishigaki bench remote --data /srv/tpch --replay               the reads of query 3 again, with and without a cache
  ishigaki bench tpch --data /srv/tpch --load --scale 1                          data for TPC-H, in page files
  ishigaki bench tpch --data /srv/tpch --query 1,3,6,15 --json                   its queries, each answer checked
  ishigaki bench tpch --data /srv/tpch --query 6 --placement local,fetch,push,auto   the same beside a storage node
  ishigaki bench tpch --data /srv/tpch --query 1,6,15 --placement fetch,push,auto --link 1Gbit,none --busy idle,spinning   a host of its own
  ishigaki bench figures p1 --device ssd --out figures               all experiments of the paper, drawn
  ishigaki bench figures p2 --out figures                            the same for TicToc with P-WAL on TPC-C
  ishigaki bench figures p3 --data /srv/bench --out figures          the same for queries over storage nodes
  ishigaki bench figures p4 --device hdd,ssd --server mariadb,postgresql --out figures    one log for many servers
  ishigaki bench figures p4-tpcc --server postgresql --out figures   the same under TPC-C through SQL, and beside a reader";

/// Measure: workloads that check their own results before they print a number
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Commit(CommitArguments),
    Checkpoint(CheckpointArguments),
    Bank(BankArguments),
    Wal(log::WalArguments),
    Long(log::LongArguments),
    Tpcc(oltp::TpccArguments),
    Ycsb(oltp::YcsbArguments),
    Remote(remote::RemoteArguments),
    Tpch(tpch::TpchArguments),
    Figures(figures::FiguresArguments),
}

/// How long a small transaction takes until it is durable, beside what the bare device takes for the same bytes
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
struct CommitArguments {
    /// A directory on the medium to measure; a fresh folder in it is used, and removed at the end
    #[arg(long, value_name = "DIR")]
    data: PathBuf,

    /// How many sessions commit beside each other; each count is measured on its own
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_value = "1,4,16")]
    sessions: Vec<usize>,

    /// Measured time of each round of each side
    #[arg(long, value_name = "S", default_value = "2", value_parser = parse_seconds)]
    seconds: Duration,

    /// Rounds of each side
    #[arg(long, value_name = "NUMBER", default_value_t = 5)]
    rounds: usize,

    /// The value that a transaction puts
    #[arg(long, value_name = "SIZE", default_value = "100B")]
    value: ByteSize,

    #[command(flatten)]
    both: Both,
}

/// What a checkpoint that is being made costs the transactions beside it
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
struct CheckpointArguments {
    /// A directory on the medium to measure; a fresh folder in it is used, and removed at the end
    #[arg(long, value_name = "DIR")]
    data: PathBuf,

    /// How many sessions commit beside each other; each count is measured on its own
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_value = "1,4")]
    sessions: Vec<usize>,

    /// Measured time of each round of each side
    #[arg(long, value_name = "S", default_value = "2", value_parser = parse_seconds)]
    seconds: Duration,

    /// Rounds of each side
    #[arg(long, value_name = "NUMBER", default_value_t = 5)]
    rounds: usize,

    /// Bytes of all values, which a checkpoint writes down
    #[arg(long, value_name = "SIZE", default_value = "256MiB")]
    filled: ByteSize,

    /// A value; each transaction puts a new one
    #[arg(long, value_name = "SIZE", default_value = "100B")]
    value: ByteSize,

    #[command(flatten)]
    both: Both,
}

/// Transfers between few accounts by many sessions, then an audit of the books
///
/// The bank in the directory stays, and the next run continues it: stop or kill one at any moment, check, run again.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
struct BankArguments {
    /// The directory of the bank's database; made if it is not there
    #[arg(long, value_name = "DIR")]
    data: PathBuf,

    /// How many sessions transfer beside each other
    #[arg(long, value_name = "NUMBER", default_value_t = 4)]
    sessions: u32,

    /// Accounts of a new bank; fewer make more conflicts
    #[arg(long, value_name = "NUMBER", default_value_t = 16)]
    accounts: u32,

    /// How long to transfer; Ctrl-C ends it earlier
    #[arg(long, value_name = "S", default_value = "10", value_parser = parse_seconds)]
    seconds: Duration,

    /// Audit the books and transfer nothing
    #[arg(long, conflicts_with_all = ["acknowledge", "json"])]
    check: bool,

    /// Print `ack SESSION SEQUENCE` for every transfer that is durable, for a witness of crashes
    #[arg(long)]
    acknowledge: bool,

    #[command(flatten)]
    both: Both,
}

/// What the workloads on a database's directory take.
#[derive(Debug, Args)]
struct Both {
    #[command(flatten)]
    log: LogArguments,

    #[command(flatten)]
    report: Report,
}

/// What every workload takes: where its figures come from and how they are shown.
#[derive(Debug, Args)]
struct Report {
    /// The seed of everything random, as in 7 or 0x2a; drawn if it is not given
    #[arg(long, value_name = "NUMBER")]
    seed: Option<Seed>,

    /// Print figures as JSON, one object a line, and nothing else on stdout
    #[arg(long)]
    json: bool,
}

impl Report {
    /// Where figures come from; a seed is drawn if none is given.
    fn origin(&self) -> Origin {
        Origin::here(env!("ISHIGAKI_COMMIT"), self.seed.unwrap_or_else(Seed::from_entropy))
    }

    fn show(&self, lines: &[Line]) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        if self.json {
            lines.iter().try_for_each(|line| writeln!(out, "{}", line.json()))?;
        } else {
            out.write_all(table(lines).as_bytes())?;
        }
        Ok(())
    }

    /// Measures, and shows the figures.
    fn measure(&self, measure: impl FnOnce(&mut Bar) -> ishigaki_bench::Result<Vec<Line>>) -> Result<(), Failure> {
        let mut bar = Bar::new();
        let outcome = measure(&mut bar);
        bar.0.finish_and_clear();
        self.show(&outcome?)
    }

    /// Measures on each medium after the other and shows the figures of all.
    fn measure_each<M>(
        &self,
        media: &[M],
        mut measure: impl FnMut(&M, &mut Bar) -> ishigaki_bench::Result<Vec<Line>>,
    ) -> Result<(), Failure> {
        let mut bar = Bar::new();
        let mut lines = Vec::new();
        for medium in media {
            lines.extend(measure(medium, &mut bar)?);
        }
        bar.0.finish_and_clear();
        self.show(&lines)
    }
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Failure> {
    match arguments.command {
        Command::Commit(arguments) => run_commit(arguments),
        Command::Checkpoint(arguments) => run_checkpoint(arguments),
        Command::Bank(arguments) => run_bank(arguments),
        Command::Wal(arguments) => log::run_wal(&arguments),
        Command::Long(arguments) => log::run_long(&arguments),
        Command::Tpcc(arguments) => oltp::run_tpcc(&arguments),
        Command::Ycsb(arguments) => oltp::run_ycsb(&arguments),
        Command::Remote(arguments) => remote::run(arguments),
        Command::Tpch(arguments) => tpch::run(&arguments),
        Command::Figures(arguments) => figures::run(&arguments),
    }
}

fn run_commit(arguments: CommitArguments) -> Result<(), Failure> {
    let CommitArguments { data, sessions, seconds: duration, rounds, value, both } = arguments;
    let Both { log, report } = both;
    let log = log.settings()?;
    let settings =
        commit::Settings { sessions, duration, rounds, value, log, ..commit::Settings::new(data, report.origin()) };
    report.measure(|bar| commit::run(&settings, bar))
}

fn run_checkpoint(arguments: CheckpointArguments) -> Result<(), Failure> {
    let CheckpointArguments { data, sessions, seconds: duration, rounds, filled, value, both } = arguments;
    let Both { log, report } = both;
    let log = log.settings()?;
    let defaults = checkpoint::Settings::new(data, report.origin());
    let settings = checkpoint::Settings { sessions, duration, rounds, filled, value, log, ..defaults };
    report.measure(|bar| checkpoint::run(&settings, bar))
}

fn run_bank(arguments: BankArguments) -> Result<(), Failure> {
    let BankArguments { data, sessions, accounts, seconds, check, acknowledge, both } = arguments;
    let (origin, log) = (both.report.origin(), both.log.settings()?);
    let duration = Some(seconds);
    let settings = bank::Settings { sessions, accounts, duration, log, ..bank::Settings::new(data, origin) };
    if check {
        writeln!(io::stdout(), "{}", bank::check(&settings)?)?;
        return Ok(());
    }
    let stop = stop_on_signals()?;
    let tell = |session, sequence| {
        // One write call for one line, so that a kill can not tear it.
        io::stdout().write_all(bank::acknowledgement(session, sequence).as_bytes())
    };
    let tell: Option<&bank::Acknowledge<'_>> = if acknowledge { Some(&tell) } else { None };
    let (books, lines) = bank::run(&settings, stop, tell)?;
    both.report.show(&lines)?;
    if !both.report.json {
        writeln!(io::stdout(), "{books}")?;
    }
    Ok(())
}

/// This program, for the processes that it starts of itself.
fn program() -> Result<PathBuf, Failure> {
    std::env::current_exe().map_err(|error| Failure::invalid(format!("where this program is can not be told: {error}")))
}

/// A flag that Ctrl-C or SIGTERM sets from now on, instead of ending the process; the next one ends it at once.
fn stop_on_signals() -> Result<&'static AtomicBool, Failure> {
    static STOP: AtomicBool = AtomicBool::new(false);
    let ends = Ends::new(1)?;
    // Waits beside the workload and ends with the process.
    std::thread::spawn(move || {
        ends.wait();
        STOP.store(true, Ordering::Release);
    });
    Ok(&STOP)
}

/// The progress of a workload, on stderr; invisible when that is no terminal.
struct Bar(ProgressBar);

impl Bar {
    fn new() -> Self {
        let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} {msg}")
            .unwrap_or_else(|_| ProgressStyle::default_bar());
        Self(ProgressBar::no_length().with_style(style))
    }
}

impl Progress for Bar {
    fn step(&mut self, now: &str, done: u64, of: u64) {
        self.0.set_length(of);
        self.0.set_position(done);
        self.0.set_message(now.to_owned());
    }
}

impl From<ishigaki_bench::Error> for Failure {
    fn from(error: ishigaki_bench::Error) -> Self {
        match error {
            // Settings of workloads are arguments of the command.
            ishigaki_bench::Error::Invalid { .. } => Self::usage(error.to_string()),
            error => Self::of(error.kind(), error),
        }
    }
}
