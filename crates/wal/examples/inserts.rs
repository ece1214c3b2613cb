//! Inserts a second into one shared log: the serial log's consolidated ring, one stream of the parallel log (a group behind
//! a lock), and a bare buffer behind a lock that nobody ever writes anywhere.
//!
//! ```sh
//! cargo run --release -p ishigaki-wal --example inserts
//! ```
//!
//! The medium forgets what it is given, so that the buffers are compared and not devices; the two logs still shape, check and
//! hand over every chunk. Kinds alternate within a run; medians of nine.

use std::sync::{Arc, Barrier};
use std::time::Instant;

use ishigaki_base::ByteSize;
use ishigaki_device::{Device, Directory, DirectoryLock, MemoryDirectory, Promise};
use ishigaki_wal::{CommitRule, Group, Log, LogKind, Settings};
use parking_lot::Mutex;

/// Inserts of all threads together.
const INSERTS: usize = 200_000;
const RUNS: usize = 9;
/// Bytes of a bare buffer that is emptied by forgetting.
const BARE: usize = 256 << 10;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!(
        "{:>7} {:>6} {:>14} {:>14} {:>14}   million inserts/s",
        "threads", "bytes", "serial", "one stream", "bare"
    );
    for bytes in [120, 1000] {
        for threads in [1, 2, 4, 8] {
            let mut figures = [const { Vec::new() }; 3];
            for _ in 0..RUNS {
                figures[0].push(log(LogKind::Serial, threads, bytes)?);
                figures[1].push(log(LogKind::Parallel, threads, bytes)?);
                figures[2].push(bare(threads, bytes));
            }
            let [serial, stream, bare] = figures.map(|mut figures: Vec<f64>| {
                figures.sort_by(f64::total_cmp);
                figures[RUNS / 2] / 1e6
            });
            println!("{threads:>7} {bytes:>6} {serial:>14.2} {stream:>14.2} {bare:>14.2}");
        }
    }
    Ok(())
}

/// Runs `insert` in that many threads at once; inserts a second.
fn race(threads: usize, insert: impl Fn() + Sync) -> f64 {
    let barrier = Barrier::new(threads + 1);
    let each = INSERTS / threads;
    let mut began = None;
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                barrier.wait();
                (0..each).for_each(|_| insert());
            });
        }
        began = Some(Instant::now());
        barrier.wait();
    });
    (each * threads) as f64 / began.map_or(f64::NAN, |began| began.elapsed().as_secs_f64())
}

fn log(kind: LogKind, threads: usize, bytes: usize) -> ishigaki_wal::Result<f64> {
    let group = Group { transactions: usize::MAX, ..Group::default() };
    let (commit, segment) = (CommitRule::Watermark, ByteSize::mib(64));
    // Nothing trims this log, and its medium holds whatever it is given.
    let space = ByteSize::gib(64);
    let settings = Settings { kind, commit, streams: 1, segment, space, group, ..Settings::default() };
    let (log, _) = Log::open(Arc::new(Void::default()), settings, &mut |_, _| Ok(()))?;
    let payload = vec![7; bytes];
    let stream = log.assign();
    let rate = race(threads, || {
        stream.append(&payload).expect("memory does not fail");
        stream.pace();
    });
    log.close()?;
    assert_eq!(log.watermark().0 as usize, INSERTS / threads * threads);
    Ok(rate)
}

fn bare(threads: usize, bytes: usize) -> f64 {
    let buffer = Mutex::new((1_u64, Vec::with_capacity(BARE + bytes + 16)));
    let payload = vec![7; bytes];
    race(threads, || {
        let mut buffer = buffer.lock();
        let (next, content) = &mut *buffer;
        content.extend_from_slice(&next.to_le_bytes());
        content.extend_from_slice(&(payload.len() as u64).to_le_bytes());
        content.extend_from_slice(&payload);
        *next += 1;
        if content.len() >= BARE {
            content.clear();
        }
    })
}

/// A directory whose segments keep nothing; everything else is in memory.
#[derive(Debug, Default)]
struct Void(MemoryDirectory);

/// The device of a segment.
#[derive(Debug)]
struct Pit(Arc<dyn Device>, u64);

impl Directory for Void {
    fn create(&self, name: &str, length: u64) -> ishigaki_device::Result<Arc<dyn Device>> {
        if name.starts_with("wal-control") {
            return self.0.create(name, length);
        }
        Ok(Arc::new(Pit(self.0.create(name, 4096)?, length)))
    }

    fn open(&self, name: &str) -> ishigaki_device::Result<Arc<dyn Device>> {
        self.0.open(name)
    }

    fn list(&self) -> ishigaki_device::Result<Vec<String>> {
        self.0.list()
    }

    fn rename(&self, from: &str, to: &str) -> ishigaki_device::Result<()> {
        self.0.rename(from, to)
    }

    fn remove(&self, name: &str) -> ishigaki_device::Result<()> {
        self.0.remove(name)
    }

    fn sync(&self) -> ishigaki_device::Result<()> {
        self.0.sync()
    }

    fn lock(&self) -> ishigaki_device::Result<DirectoryLock> {
        self.0.lock()
    }
}

impl Device for Pit {
    fn promise(&self) -> Promise {
        self.0.promise()
    }

    fn len(&self) -> u64 {
        self.1
    }

    fn read_at(&self, _: u64, buffer: &mut [u8]) -> ishigaki_device::Result<()> {
        buffer.fill(0);
        Ok(())
    }

    fn write_at(&self, _: u64, _: &[u8]) -> ishigaki_device::Result<()> {
        Ok(())
    }

    fn sync(&self) -> ishigaki_device::Result<()> {
        Ok(())
    }

    fn trim(&self, _: u64, _: u64) -> ishigaki_device::Result<()> {
        Ok(())
    }
}
