//! Random logs, read in parallel and by the merge: both must find the same.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ishigaki_base::random::Seed;
use ishigaki_base::{ByteSize, ErrorKind, Generation, Position, crc32c};
use ishigaki_device::{AlignedBuffer, Fault, MAX_BLOCK_SIZE, SimDirectory};
use ishigaki_testkit::seeded_runs;
use parking_lot::Mutex;

use super::*;
use crate::format::{CONTROL, Kind};
use crate::recovery::{StreamReader, merge, open_readers};
use crate::{CommitRule, Dependencies, Error, Group, Log, Settings};

type Records = BTreeMap<Position, Vec<u8>>;

/// Notes what it takes, and whether that fits what it is told.
#[derive(Default)]
struct Notes {
    taken: Mutex<Records>,
    passed: Mutex<Lsn>,
    /// What was wrong. Of a log that is refused anyway, it may be.
    wrong: Mutex<Option<String>>,
}

impl Sink for Notes {
    fn take(
        &self,
        position: Position,
        payload: &[u8],
    ) -> std::result::Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let passed = *self.passed.lock();
        if position.lsn() < passed {
            *self.wrong.lock() = Some(format!("{position} comes after everything below {passed}"));
        }
        if self.taken.lock().insert(position, payload.to_vec()).is_some() {
            *self.wrong.lock() = Some(format!("{position} is given twice"));
        }
        Ok(())
    }

    fn passed(&self, below: Lsn) {
        let mut passed = self.passed.lock();
        *passed = below.max(*passed);
    }
}

/// What was found, or the kind of the first problem.
type Outcome = std::result::Result<Found, ErrorKind>;

fn control(directory: &dyn Directory) -> Result<Control> {
    crate::control::read(directory.open(CONTROL)?.as_ref())
}

fn in_order(directory: &dyn Directory, start: Start) -> Result<(Found, Records, String)> {
    let control = control(directory)?;
    let mut readers = open_readers(directory, &control, start)?;
    let mut records = Records::new();
    let merged = merge(&mut readers, &control, start, |position, kind, payload| {
        if kind == Kind::Payload {
            records.insert(position, payload.to_vec());
        }
        Ok(())
    })?;
    let bytes = readers.iter().map(StreamReader::bytes).sum();
    let tails = readers.into_iter().map(StreamReader::into_tail).collect::<Result<Vec<_>>>()?;
    let found = Found { next: merged.next, cut: merged.cut, records: merged.records, dropped: merged.dropped, bytes };
    Ok((found, records, format!("{tails:?}")))
}

fn side_by_side(directory: &dyn Directory, start: Start, threads: usize) -> Result<(Found, Records, String)> {
    let (notes, progress) = (Notes::default(), Progress::default());
    let (found, tails) = read(directory, &control(directory)?, start, threads, &notes, &progress)?;
    assert_eq!(progress.read(), progress.total(), "all was read");
    assert_eq!(*notes.passed.lock(), found.next, "in the end everything has been given");
    assert_eq!(*notes.wrong.lock(), None);
    Ok((found, notes.taken.into_inner(), format!("{tails:?}")))
}

fn compare(directory: &SimDirectory, random: &mut fastrand::Rng) -> Outcome {
    let threads = random.usize(1..=4);
    let start = any_start(directory, random);
    match (in_order(directory, start), side_by_side(directory, start, threads)) {
        (Ok((expected, records, ends)), Ok((found, taken, ended))) => {
            assert_eq!(found, expected, "{threads} threads from {start}");
            assert_eq!(ended, ends, "{threads} threads from {start}");
            let differs = records.iter().zip(&taken).find(|(record, taken)| record != taken);
            let differs = differs.map(|((expected, _), (found, _))| (expected, found));
            assert!(records == taken, "{threads} threads: {differs:?}");
            Ok(found)
        }
        (Err(expected), Err(found)) if found.kind() == expected.kind() => Err(found.kind()),
        (expected, found) => {
            let (expected, found) = (expected.map(|(found, ..)| found), found.map(|(found, ..)| found));
            panic!("{threads} threads from {start} find {found:?}, the merge {expected:?}");
        }
    }
}

/// From where a log may be needed: from where it was trimmed to, from the middle of it, or from anywhere.
fn any_start(directory: &dyn Directory, random: &mut fastrand::Rng) -> Start {
    let control = control(directory).unwrap();
    let from = match random.u8(0..4) {
        0 => {
            let mut all = Vec::new();
            let mut readers = open_readers(directory, &control, control.start).unwrap_or_default();
            // Whatever is there of a log that may be damaged.
            for reader in &mut readers {
                while let Ok(Some(record)) = reader.advance() {
                    let generation = reader.passages().last().unwrap().generation;
                    all.push(Start { generation, lsn: record.lsn });
                }
            }
            random.choice(&all).copied().unwrap_or_default()
        }
        1 => Start { generation: Generation(random.u64(..=control.generation.0)), lsn: Lsn(random.u64(1..200)) },
        _ => Start::default(),
    };
    from.max(control.start)
}

fn any_settings(random: &mut fastrand::Rng) -> Settings {
    let segment = ByteSize::kib(*random.choice(&[16, 16, 32, 256]).unwrap_or(&16));
    let bytes = ByteSize::kib(*random.choice(&[4, 8, 64]).unwrap_or(&4));
    Settings {
        streams: *random.choice(&[1, 1, 2, 3, 4, 9]).unwrap_or(&1),
        segment,
        group: Group { transactions: random.usize(1..8), bytes, time: Duration::from_millis(1) },
        commit: if random.bool() { CommitRule::Watermark } else { CommitRule::Dependencies },
        background: false,
        ..Settings::default()
    }
}

/// Appends with dependencies; waits, paces and trims now and then. Ends at the first error.
fn work(log: &Log, random: &mut fastrand::Rng) -> Result<()> {
    let (mut recent, turns) = (Vec::<Position>::new(), random.usize(..80));
    let (waits, trims, mut points) = (random.u8(1..20), random.bool(), Vec::new());
    for _ in 0..turns {
        let stream = log.assign();
        let length = match random.u8(0..20) {
            0 => random.usize(..40_000),
            1 => 0,
            _ => random.usize(..200),
        };
        let payload: Vec<u8> = (0..length).map(|_| random.u8(..)).collect();
        if random.u8(0..12) == 0 {
            drop(stream.draw(10)?);
        }
        let mut dependencies = Dependencies::default();
        recent.iter().rev().take(8).filter(|_| random.u8(0..3) == 0).for_each(|&position| dependencies.add(position));
        let receipt = stream.append_after(&dependencies, &payload)?;
        recent.push(receipt.position());
        points.push(log.here());
        match random.u8(0..20) {
            0..8 => stream.pace_after(&receipt),
            turn if turn < waits => stream.settle(&receipt)?,
            19 if trims => log.trim(*random.choice(&points).unwrap_or(&log.here()))?,
            _ => {}
        }
    }
    Ok(())
}

/// A log that has been opened several times, under changing settings, and ended in any way each time.
fn any_log(seed: Seed) -> (SimDirectory, fastrand::Rng) {
    let mut random = seed.generator();
    let mut directory = SimDirectory::with_seed(seed);
    for _ in 0..random.usize(1..6) {
        if random.bool() {
            directory.inject(Fault::PowerCut { operation: directory.operations() + random.u64(..80) });
        }
        let opened = Log::open(Arc::new(directory.clone()), any_settings(&mut random), &mut |_, _| Ok(()));
        if let Ok((log, _)) = opened {
            let _ = work(&log, &mut random);
            if random.u8(0..3) > 0 {
                directory.power_cut_now();
            }
        }
        directory = if random.bool() { directory.process_crash() } else { directory.survivors(Seed(random.u64(..))) };
    }
    (directory, random)
}

/// Whether the first segment of some stream was given free.
fn lacks_a_beginning(directory: &SimDirectory) -> bool {
    let streams = list_streams(directory, &control(directory).unwrap()).unwrap();
    streams.iter().any(|stream| stream.open(directory).first() > 0)
}

#[test]
fn every_log_is_recovered_in_parallel_as_the_merge_recovers_it() {
    let (mut kept, mut dropped, mut trimmed) = (0, 0, 0);
    seeded_runs("every_log_is_recovered_in_parallel_as_the_merge_recovers_it", 1000, |seed| {
        let (directory, mut random) = any_log(seed);
        if control(&directory).is_ok()
            && let Ok(found) = compare(&directory, &mut random)
        {
            kept += u64::from(found.records > 0);
            dropped += u64::from(found.dropped > 0);
            trimmed += u64::from(lacks_a_beginning(&directory));
        }
    });
    if ishigaki_testkit::chosen_seed().is_none() {
        assert!(kept > 400 && dropped > 50, "only {kept} logs have records, {dropped} lost some");
        assert!(trimmed > 50, "only {trimmed} logs begin in the middle of a stream");
    }
}

#[test]
fn a_damaged_log_is_refused_in_parallel_when_the_merge_refuses_it() {
    let mut refused = 0;
    seeded_runs("a_damaged_log_is_refused_in_parallel_when_the_merge_refuses_it", 1000, |seed| {
        let (directory, mut random) = any_log(seed);
        for _ in 0..random.usize(1..4) {
            damage(&directory, &mut random);
        }
        refused += u64::from(control(&directory).is_ok() && compare(&directory, &mut random).is_err());
    });
    if ishigaki_testkit::chosen_seed().is_none() {
        assert!(refused > 250, "only {refused} logs were refused");
    }
}

/// Flips a bit, loses a stretch or a segment, or forges a chunk's header.
fn damage(directory: &SimDirectory, random: &mut fastrand::Rng) {
    let devices = directory.devices();
    let Some((name, length)) = random.choice(&devices).cloned() else { return };
    let written = directory.written(&name).unwrap();
    let Some(&sector) = random.choice(&written) else { return };
    let device = directory.open(&name).unwrap();
    match random.u8(0..6) {
        0 | 1 => directory.flip_bit(&name, sector + random.u64(..512), random.u8(..8)).unwrap(),
        2 => {
            // All of a stream from there on is gone, as if it had never been written.
            let from = sector / MAX_BLOCK_SIZE as u64 * MAX_BLOCK_SIZE as u64;
            device.write_at(from, &AlignedBuffer::zeroed((length - from) as usize)).unwrap();
        }
        3 if name != CONTROL => directory.remove(&name).unwrap(),
        _ => {
            let mut bytes = AlignedBuffer::zeroed(length as usize);
            device.read_at(0, &mut bytes).unwrap();
            let headers: Vec<usize> =
                (0..bytes.len()).step_by(512).filter(|&at| bytes[at..].starts_with(b"ISGK")).collect();
            let Some(&at) = random.choice(&headers) else { return };
            forge(&mut bytes[at..at + 512], random);
            device.write_at(0, &bytes).unwrap();
        }
    }
}

/// Changes a number in a chunk's header, or the LSN of its first record, and makes the checksums fit.
fn forge(sector: &mut [u8], random: &mut fastrand::Rng) {
    let at = *random.choice(&[16, 24, 40, 64]).unwrap();
    let number = u64::from_le_bytes(sector[at..at + 8].try_into().unwrap());
    let number = match random.u8(0..6) {
        0 => u64::MAX - random.u64(..3),
        1 => random.u64(..100),
        _ => number.wrapping_add(random.u64(..5)).wrapping_sub(2),
    };
    sector[at..at + 8].copy_from_slice(&number.to_le_bytes());
    let length = u32::from_le_bytes(sector[48..52].try_into().unwrap()) as usize;
    if let Some(payload) = sector.get(64..64 + length) {
        let crc = crc32c(payload);
        sector[56..60].copy_from_slice(&crc.to_le_bytes());
    }
    let crc = crc32c(&sector[..60]);
    sector[60..64].copy_from_slice(&crc.to_le_bytes());
}

/// Fails at the record of that LSN, in one way or the other.
struct Failing(Lsn, bool);

impl Sink for Failing {
    fn take(&self, position: Position, _: &[u8]) -> std::result::Result<(), Box<dyn std::error::Error + Send + Sync>> {
        assert!(position.lsn() != self.0 || !self.1, "as the test wants it");
        if position.lsn() == self.0 { Err("it does not fit".into()) } else { Ok(()) }
    }
}

#[test]
fn a_sink_that_fails_ends_the_recovery_whatever_the_other_threads_do() {
    let directory = SimDirectory::with_seed(Seed(1));
    let settings = Settings { streams: 3, segment: ByteSize::kib(16), background: false, ..Settings::default() };
    let (log, _) = Log::open(Arc::new(directory.clone()), settings, &mut |_, _| Ok(())).unwrap();
    for _ in 0..300 {
        log.assign().append(&[1; 900]).unwrap();
    }
    log.close().unwrap();
    let control = control(&directory).unwrap();
    for (lsn, threads) in [1, 150, 300].into_iter().flat_map(|lsn| [(lsn, 1), (lsn, 2), (lsn, 5)]) {
        let read = |panics| {
            read(&directory, &control, Start::default(), threads, &Failing(Lsn(lsn), panics), &Progress::default())
        };
        assert!(matches!(read(false), Err(Error::Replay { lsn: at, .. }) if at == Lsn(lsn)));
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| read(true).map(drop)));
        assert!(caught.is_err(), "the panic goes its way");
    }
}
