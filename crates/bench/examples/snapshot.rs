//! A full scan on a snapshot beside a writer at full speed: is it right, and what does it cost the writer?
//!
//! `cargo run --release --example snapshot -p ishigaki-bench -- [ROWS [BYTES [SECONDS [locking|tictoc [DEVICE]]]]]`
//!
//! Loads rows (10 million of 100 bytes by default), lets one writer change random rows alone for a while, four in a
//! transaction and two by the same amount up and down, so that the sum of all never changes; then the same beside one scan
//! after another on snapshots. Says whether every scan had the right sum and number of rows, what the writer did in a second
//! alone and beside the scans, how often it gave way, and the most that old versions took. Between the two it runs beside
//! a thread that only counts and beside one that only reads memory: what they cost the writer, the machine does, not the
//! engine.

use std::fmt;
use std::ops::{Bound, ControlFlow};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ishigaki_base::ByteSize;
use ishigaki_base::random::Seed;
use ishigaki_bench::Medium;
use ishigaki_txn::{CheckpointSettings, Database, Error, ProtocolKind, Session, Settings, Snapshot, TableId};

type Result<T, E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;

/// What every row holds in the beginning.
const EACH: u64 = 1000;

/// Rows of a transaction that loads.
const AT_ONCE: u64 = 1000;

struct Arguments {
    rows: u64,
    bytes: usize,
    time: Duration,
    protocol: ProtocolKind,
    medium: Medium,
}

impl Arguments {
    fn parse() -> Result<Self> {
        let given: Vec<String> = std::env::args().skip(1).collect();
        let text = |at: usize, default: &'static str| given.get(at).map_or(default, String::as_str);
        Ok(Self {
            rows: text(0, "10000000").parse()?,
            bytes: text(1, "100").parse::<usize>()?.max(size_of::<u64>()),
            time: Duration::from_secs(text(2, "5").parse()?),
            protocol: text(3, "tictoc").parse()?,
            medium: text(4, "none").parse()?,
        })
    }
}

/// What the writer has done.
#[derive(Default)]
struct Tally {
    commits: AtomicU64,
    conflicts: AtomicU64,
    /// Nanoseconds that the writer's thread was at work.
    work: AtomicU64,
}

impl Tally {
    /// By the writer itself, which looks at its clock now and then.
    fn note_commit(&self) {
        if !self.commits.fetch_add(1, Ordering::Relaxed).is_multiple_of(256) {
            return;
        }
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        self.work.store(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64, Ordering::Relaxed);
    }
}

/// What the scans have done.
#[derive(Default)]
struct Scans {
    count: u64,
    wrong: u64,
    given_up: u64,
    slowest: Duration,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse()?;
    let settings = Settings {
        memory: ByteSize::gib(64),
        protocol: arguments.protocol,
        // The log is not what is measured: it only has to be out of the way.
        log: ishigaki_wal::Settings { space: ByteSize::gib(64), ..Default::default() },
        checkpoint: CheckpointSettings { automatic: false, ..Default::default() },
        ..Settings::default()
    };
    let target = arguments.medium.open("snapshot")?;
    let database = Database::open_in(target.directory().clone(), settings)?;
    let table = load(&database.session(), &arguments)?;
    println!(
        "{} rows of {} bytes under {}, device {}",
        arguments.rows,
        arguments.bytes,
        arguments.protocol,
        target.name()
    );

    let (tally, done) = (Tally::default(), AtomicBool::new(false));
    let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    std::thread::scope(|scope| {
        let session = database.session();
        let (arguments, tally, done) = (&arguments, &tally, &done);
        let writer = scope.spawn(move || write(&session, table, arguments, tally, done));
        let measured = measure(&database, table, arguments, tally);
        done.store(true, Ordering::Relaxed);
        writer.join().map_err(|_| "the writer panicked")??;
        let Measured { paces, scans, peak } = measured?;
        let alone = paces.first().map_or(1.0, |(_, pace)| pace.rate);
        for (beside, Pace { rate, work }) in paces {
            println!("writer {beside:<16} {rate:>7.0} transactions/s, {:5.1} %, {work:.2?} each", 100.0 * rate / alone);
        }
        println!("scans             {:>12}, the slowest in {:.2?}", scans.count, scans.slowest);
        println!("wrong sums        {:>12}", scans.wrong);
        println!("scans given up    {:>12}", scans.given_up);
        println!("writer conflicts  {:>12}", read(&tally.conflicts));
        println!(
            "old versions      {:>12} at most, {} at the end",
            ByteSize::b(peak).to_string(),
            database.memory().old
        );
        if scans.wrong > 0 { Err("a scan did not show one moment".into()) } else { Ok(()) }
    })
}

fn load(session: &Session, arguments: &Arguments) -> Result<TableId> {
    let table = session.run(|txn| txn.create_table("rows"))?;
    let value = filled(EACH, arguments.bytes);
    for first in (0..arguments.rows).step_by(AT_ONCE as usize) {
        let rows = first..arguments.rows.min(first + AT_ONCE);
        session.run(|txn| rows.clone().try_for_each(|row| txn.put(table, &row.to_be_bytes(), &value)))?;
    }
    Ok(table)
}

fn filled(number: u64, bytes: usize) -> Vec<u8> {
    let mut value = vec![b'.'; bytes];
    value[..size_of::<u64>()].copy_from_slice(&number.to_le_bytes());
    value
}

fn number(value: &[u8]) -> u64 {
    value.first_chunk().map_or(0, |number| u64::from_le_bytes(*number))
}

/// Moves ones between random rows until it is enough.
fn write(session: &Session, table: TableId, arguments: &Arguments, tally: &Tally, done: &AtomicBool) -> Result<()> {
    let mut random = Seed(1).generator();
    while !done.load(Ordering::Relaxed) {
        let rows: [u64; 4] = std::array::from_fn(|_| random.u64(..arguments.rows));
        let mut txn = session.begin()?;
        let moved = rows.iter().enumerate().try_for_each(|(at, row)| {
            let key = row.to_be_bytes();
            let old = txn.get_with(table, &key, number)?.unwrap_or_default();
            let new = if at % 2 == 0 { old.wrapping_add(1) } else { old.wrapping_sub(1) };
            txn.put(table, &key, &filled(new, arguments.bytes))
        });
        match moved.and_then(|()| txn.commit()) {
            Ok(_) => tally.note_commit(),
            Err(Error::Conflict { .. }) => {
                tally.conflicts.fetch_add(1, Ordering::Relaxed);
            }
            Err(other) => return Err(other.into()),
        }
    }
    Ok(())
}

/// What runs beside the writer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Beside {
    Nothing,
    /// A thread that only counts: it takes a core from the log's threads, and nothing else from anybody.
    Counting,
    /// A thread that reads plain memory, as much as the rows take, from one end to the other: it also takes its share of the
    /// caches and of the way to memory.
    Memory,
    /// One scan after another.
    Scans,
}

impl fmt::Display for Beside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Nothing => "alone",
            Self::Counting => "beside a counter",
            Self::Memory => "beside a reader",
            Self::Scans => "beside scans",
        })
    }
}

/// The writer's rate and what its thread worked for one transaction.
struct Pace {
    rate: f64,
    work: Duration,
}

/// The writer beside each of them, what the scans did, and the most that old versions took.
struct Measured {
    paces: Vec<(Beside, Pace)>,
    scans: Scans,
    peak: u64,
}

fn measure(database: &Database, table: TableId, arguments: &Arguments, tally: &Tally) -> Result<Measured> {
    let session = database.session();
    let memory = vec![1_u64; arguments.rows as usize * arguments.bytes / size_of::<u64>()];
    let (mut scans, mut peak, mut paces) = (Scans::default(), 0, Vec::new());
    // Warm up.
    std::thread::sleep(arguments.time / 4);
    for beside in [Beside::Nothing, Beside::Counting, Beside::Memory, Beside::Scans] {
        let seen = || (tally.commits.load(Ordering::Relaxed), tally.work.load(Ordering::Relaxed));
        let (before, begun) = (seen(), Instant::now());
        let mut sum = 0_u64;
        while begun.elapsed() < arguments.time || beside == Beside::Scans && scans.count == 0 {
            match beside {
                Beside::Nothing => std::thread::sleep(arguments.time / 20),
                Beside::Counting => sum = (0..1_u64 << 20).fold(sum, |sum, number| std::hint::black_box(sum + number)),
                Beside::Memory => {
                    sum = std::hint::black_box(&memory).iter().fold(sum, |sum, number| sum.wrapping_add(*number));
                }
                Beside::Scans => scan(&session, database, table, arguments, &mut scans, &mut peak)?,
            }
        }
        std::hint::black_box(sum);
        let ((commits, work), took) = (seen(), begun.elapsed());
        let done = commits - before.0;
        let work = Duration::from_nanos((work - before.1) / done.max(1));
        paces.push((beside, Pace { rate: done as f64 / took.as_secs_f64(), work }));
    }
    Ok(Measured { paces, scans, peak })
}

fn scan(
    session: &Session,
    database: &Database,
    table: TableId,
    arguments: &Arguments,
    scans: &mut Scans,
    peak: &mut u64,
) -> Result<()> {
    let at = Instant::now();
    match look(&session.snapshot()?, database, table, peak) {
        Ok(seen) => scans.wrong += u64::from(seen != (arguments.rows, arguments.rows.wrapping_mul(EACH))),
        Err(Error::SnapshotTooOld { .. }) => scans.given_up += 1,
        Err(other) => return Err(other.into()),
    }
    scans.count += 1;
    scans.slowest = scans.slowest.max(at.elapsed());
    Ok(())
}

/// How many rows a snapshot shows, and their sum.
fn look(snapshot: &Snapshot, database: &Database, table: TableId, peak: &mut u64) -> Result<(u64, u64), Error> {
    let (mut rows, mut sum) = (0_u64, 0_u64);
    snapshot.scan(table, (Bound::Unbounded, Bound::Unbounded), |_, value| {
        rows += 1;
        sum = sum.wrapping_add(number(value));
        if rows.is_multiple_of(10_000) {
            *peak = database.memory().old.0.max(*peak);
        }
        ControlFlow::Continue(())
    })?;
    *peak = database.memory().old.0.max(*peak);
    Ok((rows, sum))
}
