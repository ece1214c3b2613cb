//! What the budget counts, against what the process takes: each shape of data in a process of its own.
#![cfg(target_os = "linux")]

use std::process::Command;

use ishigaki_base::ByteSize;
use ishigaki_txn::{Database, ProtocolKind, Session, Settings, TableId};

/// Which shape a child process measures.
const SHAPE: &str = "ISHIGAKI_MEMORY_SHAPE";

/// Rows of a transaction, at most.
const BATCH: u64 = 500;

/// Bytes of a transaction's values, at most, or one row.
const BATCH_BYTES: u64 = 4 << 20;

/// Bytes of a page of memory on the machines that run this.
const PAGE: u64 = 4096;

/// How far what is counted may be from what the process takes.
const TOLERANCE: f64 = 0.15;

/// Keys and values of one kind.
struct Shape {
    name: &'static str,
    rows: u64,
    key: fn(u64) -> Vec<u8>,
    /// Bytes of a value.
    value: fn(u64) -> usize,
    /// What happens once all rows are there.
    then: fn(&Database, &Session, TableId, &Shape),
}

fn number(n: u64) -> Vec<u8> {
    n.to_be_bytes().to_vec()
}

/// In no order.
fn scattered(n: u64) -> Vec<u8> {
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes().to_vec()
}

/// 40 bytes, of which the last eight differ: as in a secondary index.
fn long(n: u64) -> Vec<u8> {
    [[7; 32].as_slice(), &scattered(n)].concat()
}

/// 150 bytes that differ from the first one on.
fn text(n: u64) -> Vec<u8> {
    scattered(n).repeat(20)[..150].to_vec()
}

fn nothing(database: &Database, _: &Session, _: TableId, _: &Shape) {
    report(database);
}

/// Leaves every fourth row and fills up again with others.
fn replace(database: &Database, session: &Session, table: TableId, shape: &Shape) {
    for batch in (0..shape.rows).step_by(BATCH as usize) {
        let gone = (batch..batch + BATCH).filter(|n| n % 4 != 0);
        session.run(|txn| gone.clone().try_for_each(|n| txn.delete(table, &(shape.key)(n)).map(drop))).unwrap();
    }
    for batch in (0..shape.rows / 2).step_by(BATCH as usize) {
        let new = shape.rows + batch..shape.rows + batch + BATCH;
        session.run(|txn| new.clone().try_for_each(|n| txn.put(table, &(shape.key)(n), &[5; 300]))).unwrap();
    }
    report(database);
}

/// Writes every row once more while a snapshot needs what was there.
fn overwrite_under_a_snapshot(database: &Database, session: &Session, table: TableId, shape: &Shape) {
    let snapshot = session.snapshot().unwrap();
    for batch in (0..shape.rows).step_by(BATCH as usize) {
        let again = batch..batch + BATCH;
        let write = |n| value_of(n, shape);
        session.run(|txn| again.clone().try_for_each(|n| txn.put(table, &(shape.key)(n), &write(n)))).unwrap();
    }
    report(database);
    drop(snapshot);
}

/// Writes every row once more in one transaction, which goes on.
fn overwrite_at_once(database: &Database, session: &Session, table: TableId, shape: &Shape) {
    let mut txn = session.begin().unwrap();
    (0..shape.rows).for_each(|n| txn.put(table, &(shape.key)(n), &value_of(n, shape)).unwrap());
    report(database);
}

fn value_of(n: u64, shape: &Shape) -> Vec<u8> {
    vec![n as u8; (shape.value)(n)]
}

const SHAPES: &[Shape] = &[
    Shape { name: "small values in order", rows: 800_000, key: number, value: |_| 16, then: nothing },
    Shape { name: "small values, scattered keys", rows: 800_000, key: scattered, value: |_| 16, then: nothing },
    Shape { name: "values of 100 bytes", rows: 500_000, key: number, value: |_| 100, then: nothing },
    Shape { name: "values of 700 bytes", rows: 100_000, key: scattered, value: |_| 700, then: nothing },
    Shape {
        name: "values of all lengths up to 1000",
        rows: 300_000,
        key: scattered,
        value: |n| (n * 7 % 1000) as usize,
        then: nothing,
    },
    Shape { name: "values of 1100 bytes", rows: 60_000, key: number, value: |_| 1100, then: nothing },
    Shape { name: "values of 5000 bytes", rows: 20_000, key: number, value: |_| 5000, then: nothing },
    Shape { name: "values of 200 KiB", rows: 500, key: number, value: |_| 200 << 10, then: nothing },
    Shape { name: "long keys", rows: 500_000, key: long, value: |_| 16, then: nothing },
    Shape { name: "text as keys, no value", rows: 300_000, key: text, value: |_| 0, then: nothing },
    Shape { name: "values replaced by longer ones", rows: 300_000, key: scattered, value: |_| 100, then: replace },
    Shape { name: "old versions", rows: 200_000, key: number, value: |_| 100, then: overwrite_under_a_snapshot },
    Shape {
        name: "old versions of long values",
        rows: 30_000,
        key: number,
        value: |_| 2000,
        then: overwrite_under_a_snapshot,
    },
    Shape { name: "one large transaction", rows: 300_000, key: number, value: |_| 50, then: overwrite_at_once },
    Shape {
        name: "one large transaction of long keys",
        rows: 200_000,
        key: text,
        value: |_| 20,
        then: overwrite_at_once,
    },
];

/// Bytes of the process that are resident.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = statm.split_whitespace().nth(1).unwrap().parse().unwrap();
    pages * PAGE
}

/// Says what is counted and what is resident.
fn report(database: &Database) {
    let memory = database.memory();
    let counted = memory.used.0 + memory.spare.0 + memory.old.0;
    println!("counted {counted} resident {}", resident());
}

fn fill(session: &Session, table: TableId, shape: &Shape) {
    let rows_of_batch = (BATCH_BYTES / ((shape.value)(0) as u64 + 1)).clamp(1, BATCH);
    for batch in (0..shape.rows).step_by(rows_of_batch as usize) {
        let rows = batch..(batch + rows_of_batch).min(shape.rows);
        let fill = |n| value_of(n, shape);
        session.run(|txn| rows.clone().try_for_each(|n| txn.put(table, &(shape.key)(n), &fill(n)))).unwrap();
    }
}

/// The child: a first report is of the empty database, the last one counts.
#[test]
#[ignore = "a part of another test"]
fn measure_one_shape() {
    let Ok(wanted) = std::env::var(SHAPE) else { return };
    let (protocol, name) = wanted.split_once(':').unwrap();
    let shape = SHAPES.iter().find(|shape| shape.name == name).unwrap();
    let protocol = if protocol == "tictoc" { ProtocolKind::TicToc } else { ProtocolKind::Locking };
    let directory = tempfile::tempdir().unwrap();
    let log = ishigaki_wal::Settings { streams: 1, ..Default::default() };
    let mut settings = Settings { log, protocol, memory: ByteSize::gib(2), ..Settings::default() };
    settings.checkpoint.automatic = false;
    let database = Database::open(directory.path(), settings).unwrap();
    let session = database.session();
    // What every database takes, whatever is in it: buffers of the log, and of this thread.
    let warm = session.run(|txn| txn.create_table("warm")).unwrap();
    for _ in 0..200 {
        session.run(|txn| (0..100).try_for_each(|n| txn.put(warm, &number(n), &[1; 900]))).unwrap();
    }
    let table = session.run(|txn| txn.create_table("table")).unwrap();
    report(&database);
    fill(&session, table, shape);
    (shape.then)(&database, &session, table, shape);
}

#[test]
fn what_is_counted_is_what_the_process_takes() {
    let only = std::env::var("ISHIGAKI_ONLY").ok();
    let mut wrong = Vec::new();
    let is_wanted = |shape: &&Shape| only.as_ref().is_none_or(|only| shape.name.contains(only.as_str()));
    for shape in SHAPES.iter().filter(is_wanted) {
        for protocol in ["locking", "tictoc"] {
            let child = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "measure_one_shape", "--ignored", "--nocapture"])
                .env(SHAPE, format!("{protocol}:{}", shape.name))
                .output()
                .unwrap();
            let output = String::from_utf8_lossy(&child.stdout);
            let reports: Vec<[f64; 2]> = output
                .lines()
                .filter_map(|line| {
                    let words: Vec<_> = line.split_whitespace().collect();
                    let at = words.iter().position(|word| *word == "counted")?;
                    Some([words.get(at + 1)?.parse().ok()?, words.get(at + 3)?.parse().ok()?])
                })
                .collect();
            assert!(child.status.success() && reports.len() >= 2, "{output}{}", String::from_utf8_lossy(&child.stderr));
            let grown = |at: usize| (reports[reports.len() - 1][at] - reports[0][at]) / f64::from(1 << 20);
            let (counted, resident) = (grown(0), grown(1));
            let share = counted / resident;
            println!("{share:.3} {protocol:8} {}: {counted:.1} MiB counted, {resident:.1} MiB resident", shape.name);
            if (share - 1.0).abs() > TOLERANCE {
                wrong.push(format!("{protocol} {}: {share:.3}", shape.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
