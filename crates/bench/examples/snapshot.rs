//! A full scan on a snapshot beside a writer at full speed: is it right, and what does it cost the writer?
//!
//! `cargo run --release --example snapshot -p ishigaki-bench -- [ROWS [BYTES [SECONDS [locking|tictoc [DEVICE]]]]]`
//!
//! Loads rows (10 million of 100 bytes by default), lets one writer change random rows alone for a while, four in a
//! transaction and two by the same amount up and down, so that the sum of all never changes; then the same beside one scan
//! after another on snapshots. Says whether every scan had the right sum and number of rows, what the writer did in a second
//! alone and beside the scans, how often it gave way, and the most that old versions took.

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
            time: Duration::from_secs(text(2, "10").parse()?),
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
        let (alone, beside, scans, peak) = measured?;
        println!("writer alone      {alone:>12.0} transactions/s");
        println!("writer beside     {beside:>12.0} transactions/s ({:.1} %)", 100.0 * beside / alone);
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
            Ok(_) => tally.commits.fetch_add(1, Ordering::Relaxed),
            Err(Error::Conflict { .. }) => tally.conflicts.fetch_add(1, Ordering::Relaxed),
            Err(other) => return Err(other.into()),
        };
    }
    Ok(())
}

/// The writer's rate alone and beside scans, what the scans did, and the most that old versions took.
fn measure(
    database: &Database,
    table: TableId,
    arguments: &Arguments,
    tally: &Tally,
) -> Result<(f64, f64, Scans, u64)> {
    let session = database.session();
    let commits = || tally.commits.load(Ordering::Relaxed);
    let rate = |before: u64, begun: Instant| (commits() - before) as f64 / begun.elapsed().as_secs_f64();

    // Warm up, then alone.
    std::thread::sleep(arguments.time / 4);
    let (before, begun) = (commits(), Instant::now());
    std::thread::sleep(arguments.time);
    let alone = rate(before, begun);

    let (mut scans, mut peak) = (Scans::default(), 0);
    let (before, begun) = (commits(), Instant::now());
    while begun.elapsed() < arguments.time || scans.count == 0 {
        let at = Instant::now();
        match look(&session.snapshot()?, database, table, &mut peak) {
            Ok(seen) => scans.wrong += u64::from(seen != (arguments.rows, arguments.rows.wrapping_mul(EACH))),
            Err(Error::SnapshotTooOld { .. }) => scans.given_up += 1,
            Err(other) => return Err(other.into()),
        }
        scans.count += 1;
        scans.slowest = scans.slowest.max(at.elapsed());
    }
    Ok((alone, rate(before, begun), scans, peak))
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
