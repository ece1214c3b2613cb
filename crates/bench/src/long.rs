//! `long`: the log written at full speed for a long time, and how its bandwidth goes (P1.13).
//!
//! Flash slows down when it must move what nobody needs any more; a log that trims what is free again should not let it
//! come to that (P-WAL section 5.5). Each worker appends records that fill one write of a given size and waits for each.
//! After every so many bytes the caller's [`Free`] makes the log's space up to now free; whether the log then trims that
//! space on the medium is the side's own setting, and both sides run in one call, one after the other for each size.
//!
//! A side counts only if the log, opened again, holds every worker's last acknowledged record, and of all records that it
//! holds the bytes, without a gap.

mod check;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ishigaki_base::ByteSize;
use ishigaki_base::random::Seed;
use ishigaki_device::Directory;
use ishigaki_wal::{self as wal, Dependencies, Log, Stream};
use parking_lot::Mutex;

use crate::counting::Counting;
use crate::{Case, Error, Line, Metric, Origin, Progress, Result, Target};

/// The workload's name in figures and errors.
const NAME: &str = "long";

/// What of a write is left to the headers of chunk and record.
const HEADERS: usize = 128;

/// Makes everything that was appended to the log so far free, as a checkpoint would. Called by one worker at a time, while
/// the others append.
pub type Free<'a> = dyn Fn(&Log, &Side) -> wal::Result<()> + Sync + 'a;

/// Frees everything up to now.
pub fn free_up_to_now(log: &Log, _: &Side) -> wal::Result<()> {
    log.trim(log.here())
}

/// Frees nothing, for as long as the log's space lasts.
pub fn keep_everything(_: &Log, _: &Side) -> wal::Result<()> {
    Ok(())
}

/// One side of the comparison.
#[derive(Clone, Debug)]
pub struct Side {
    /// Whether space that is free again is trimmed on the medium; what figures call the side.
    pub trim: bool,
    /// The log's settings, which do so; the number of streams is that of the workers.
    pub log: wal::Settings,
}

impl Side {
    /// Both: without trimming on the medium, and with it.
    pub fn both(log: &wal::Settings) -> Vec<Self> {
        [false, true].map(|trim| Self { trim, log: wal::Settings { trim, ..log.clone() } }).to_vec()
    }
}

/// What is written, and how long.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The sides, each measured with each size.
    pub sides: Vec<Side>,
    /// Bytes of a write, at least 1 KiB. Default 8 KiB and 128 KiB, as in the paper.
    pub writes: Vec<ByteSize>,
    /// Threads, each with a stream of its own. Default 4.
    pub workers: usize,
    /// How long each side is written with each size. Default 60 s.
    pub duration: Duration,
    /// There is a figure for each of these. Default 1 s.
    pub interval: Duration,
    /// Bytes over all workers after which space is freed; well below the log's space. Default 128 MiB.
    pub free_after: ByteSize,
    /// What is written to.
    pub target: Target,
    /// Where the figures come from; its seed draws the bytes.
    pub origin: Origin,
}

impl Settings {
    /// The defaults, for a medium.
    pub fn new(sides: Vec<Side>, target: Target, origin: Origin) -> Self {
        Self {
            sides,
            writes: vec![ByteSize::kib(8), ByteSize::kib(128)],
            workers: 4,
            duration: Duration::from_mins(1),
            interval: Duration::from_secs(1),
            free_after: ByteSize::mib(128),
            target,
            origin,
        }
    }

    fn validate(&self) -> Result<()> {
        let invalid = |setting, reason: &str| Err(Error::invalid(setting, reason));
        if self.sides.is_empty() {
            return invalid("trim", "give at least one side");
        }
        if self.writes.is_empty() || self.writes.iter().any(|size| !(1 << 10..=1 << 20).contains(&size.0)) {
            return invalid("write", "give one or more sizes from 1 KiB to 1 MiB, such as 8KiB");
        }
        if !(1..=256).contains(&self.workers) {
            return invalid("workers", "give 1 to 256");
        }
        if self.interval.is_zero() || self.duration < self.interval {
            return invalid("seconds", "the time holds at least one interval, and that is not zero");
        }
        if self.free_after.0 == 0 {
            return invalid("free-after", "give a number of bytes, such as 1GiB");
        }
        self.target.check_empty()
    }
}

/// Measures and checks. For each size and side there is a line of bandwidths whose runs are the intervals in their order,
/// and the ratio of the last quarter of them to the first.
pub fn run(settings: &Settings, free: &Free<'_>, progress: &mut dyn Progress) -> Result<Vec<Line>> {
    settings.validate()?;
    let (mut done, of) = (0, (settings.writes.len() * settings.sides.len()) as u64);
    let mut lines = Vec::new();
    for &size in &settings.writes {
        for side in &settings.sides {
            let trimmed = if side.trim { "trimmed" } else { "not trimmed" };
            progress.step(&format!("writes of {size}, {trimmed}"), done, of);
            lines.extend(figures(settings, size, side, measure(settings, size, side, free)?));
            done += 1;
        }
    }
    progress.step("done", done, of);
    Ok(lines)
}

fn figures(settings: &Settings, bytes: ByteSize, side: &Side, bandwidths: Vec<f64>) -> [Line; 2] {
    let case = |of: Option<&str>| {
        let mut case = Case::from_iter([
            ("write".to_owned(), bytes.0.into()),
            ("trim".to_owned(), side.trim.into()),
            ("workers".to_owned(), settings.workers.into()),
            ("interval".to_owned(), settings.interval.as_secs_f64().into()),
            ("device".to_owned(), settings.target.name().into()),
        ]);
        case.extend(of.map(|of| ("of".to_owned(), of.into())));
        case
    };
    let line = |of, metric, runs| Line::new(NAME, case(of), metric, runs, &settings.origin);
    let quarter = bandwidths.len().div_ceil(4);
    let middle = |part: &[f64]| line(None, Metric::Bandwidth, part.to_vec()).median;
    let (first, last) = (middle(&bandwidths[..quarter]), middle(&bandwidths[bandwidths.len() - quarter..]));
    // Nothing at all written in the first quarter: then there is nothing to compare with.
    let ratio = if first > 0.0 { last / first } else { 0.0 };
    [
        line(None, Metric::Bandwidth, bandwidths),
        line(Some("bandwidth, last to first quarter"), Metric::Ratio, vec![ratio]),
    ]
}

/// One side with one size, in a fresh log: the bandwidth of each interval.
fn measure(settings: &Settings, bytes: ByteSize, side: &Side, free: &Free<'_>) -> Result<Vec<f64>> {
    let counting = Arc::new(Counting::new(settings.target.directory().clone()));
    let directory: Arc<dyn Directory> = counting.clone();
    let log_settings = wal::Settings { streams: settings.workers as u16, relief: 0, ..side.log.clone() };
    let (log, _) = Log::open(directory.clone(), log_settings.clone(), &mut |_, _| Ok(()))?;

    let over = AtomicBool::new(false);
    let free = Freeing::new(free, side, &log, settings.free_after);
    let payload = bytes.0 as usize - HEADERS;
    let (bandwidths, acknowledged) = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..settings.workers as u32)
            .map(|number| {
                let (stream, seed) = (log.assign(), settings.origin.seed);
                let (over, free) = (&over, &free);
                scope.spawn(move || {
                    let result = write(&stream, &mut Record::new(seed, number, payload), over, free);
                    // The others and the clock need not go on where one has failed.
                    over.fetch_or(result.is_err(), Ordering::Relaxed);
                    result
                })
            })
            .collect();
        let bandwidths = watch(settings, &counting, &over);
        over.store(true, Ordering::Relaxed);
        let acknowledged: wal::Result<Vec<u64>> =
            threads.into_iter().map(|thread| thread.join().expect("a worker returns its errors")).collect();
        (bandwidths, acknowledged)
    });
    let mut acknowledged = acknowledged?;
    // All others may have been freed. One of each worker is left.
    for (number, acknowledged) in (0..).zip(&mut acknowledged) {
        append(&log.assign(), &mut Record::new(settings.origin.seed, number, payload), *acknowledged)?;
        *acknowledged += 1;
    }
    log.close()?;
    drop(log);
    check::check(directory, log_settings, settings, payload, &acknowledged)?;
    settings.target.clear()?;
    Ok(bandwidths)
}

/// The bandwidth of each interval, until the time or the writing is over.
fn watch(settings: &Settings, counting: &Counting, over: &AtomicBool) -> Vec<f64> {
    let begun = Instant::now();
    let (mut then, mut before) = (begun, counting.count());
    let mut bandwidths = Vec::new();
    let intervals = (settings.duration.as_secs_f64() / settings.interval.as_secs_f64()) as u32;
    for interval in 1..=intervals {
        let next = begun + settings.interval * interval;
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
        if over.load(Ordering::Relaxed) {
            break;
        }
        let (now, count) = (Instant::now(), counting.count());
        bandwidths.push(count.since(before).bytes as f64 / (now - then).as_secs_f64());
        (then, before) = (now, count);
    }
    bandwidths
}

/// Appends and waits, record by record. Gives how many were acknowledged.
fn write(stream: &Stream, record: &mut Record, over: &AtomicBool, free: &Freeing<'_>) -> wal::Result<u64> {
    let mut acknowledged = 0;
    while !over.load(Ordering::Relaxed) {
        append(stream, record, acknowledged)?;
        acknowledged += 1;
        free.written(record.bytes.len() + HEADERS)?;
    }
    Ok(acknowledged)
}

/// Appends the record of that number and waits until it is acknowledged.
fn append(stream: &Stream, record: &mut Record, number: u64) -> wal::Result<()> {
    let receipt = stream.append_after(&Dependencies::default(), record.numbered(number))?;
    stream.pace_after(&receipt);
    stream.settle(&receipt)
}

/// Frees space when enough was written.
struct Freeing<'a> {
    free: &'a Free<'a>,
    side: &'a Side,
    log: &'a Log,
    after: u64,
    written: AtomicU64,
    /// How much had been written when space was last freed.
    turn: Mutex<u64>,
}

impl<'a> Freeing<'a> {
    fn new(free: &'a Free<'a>, side: &'a Side, log: &'a Log, after: ByteSize) -> Self {
        Self { free, side, log, after: after.0, written: AtomicU64::new(0), turn: Mutex::new(0) }
    }

    fn written(&self, bytes: usize) -> wal::Result<()> {
        let written = self.written.fetch_add(bytes as u64, Ordering::Relaxed) + bytes as u64;
        let Some(mut turn) = self.turn.try_lock().filter(|turn| written >= **turn + self.after) else { return Ok(()) };
        *turn = written;
        (self.free)(self.log, self.side)
    }
}

/// The records of one worker: its number, the record's, and drawn bytes.
#[derive(Debug)]
struct Record {
    bytes: Vec<u8>,
}

impl Record {
    fn new(seed: Seed, worker: u32, length: usize) -> Self {
        let mut bytes = vec![0; length];
        seed.derive(u64::from(worker)).generator().fill(&mut bytes);
        bytes[..4].copy_from_slice(&worker.to_le_bytes());
        Self { bytes }
    }

    /// The one of that number, counted from 0.
    fn numbered(&mut self, number: u64) -> &[u8] {
        self.bytes[4..12].copy_from_slice(&number.to_le_bytes());
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ishigaki_device::MemoryDirectory;

    #[test]
    fn a_write_has_the_bytes_that_were_asked_for() {
        for size in [ByteSize::kib(8), ByteSize::kib(128)] {
            let counting = Arc::new(Counting::new(Arc::new(MemoryDirectory::new())));
            let settings = wal::Settings { segment: ByteSize::mib(1), ..wal::Settings::default() };
            let (log, _) = Log::open(counting.clone(), settings, &mut |_, _| Ok(())).unwrap();
            let (stream, mut record) = (log.assign(), Record::new(Seed(1), 0, size.0 as usize - HEADERS));
            let before = counting.count();
            for number in 0..20 {
                append(&stream, &mut record, number).unwrap();
            }
            let count = counting.count().since(before);
            assert_eq!((count.writes, count.bytes), (20, 20 * size.0));
        }
    }

    #[test]
    fn a_log_is_written_for_longer_than_it_is_large() {
        let (size, space) = (ByteSize::kib(8), ByteSize::mib(2));
        for side in Side::both(&wal::Settings {
            streams: 1,
            segment: ByteSize::kib(64),
            space,
            space_wait: Duration::from_secs(1),
            ..wal::Settings::default()
        }) {
            let (log, _) = Log::open(Arc::new(MemoryDirectory::new()), side.log.clone(), &mut |_, _| Ok(())).unwrap();
            let free = Freeing::new(&free_up_to_now, &side, &log, ByteSize::kib(256));
            let (stream, mut record) = (log.assign(), Record::new(Seed(1), 0, size.0 as usize - HEADERS));
            for number in 0..3 * space.0 / size.0 {
                append(&stream, &mut record, number).unwrap();
                free.written(size.0 as usize).unwrap();
            }
        }
    }
}
