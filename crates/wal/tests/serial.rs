//! The serial log under threads: its buffer is small, so that everybody meets, waits for space and goes around the ring.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ishigaki_base::random::Seed;
use ishigaki_base::{ByteSize, ErrorKind};
use ishigaki_device::{Fault, MemoryDirectory, SimDirectory};
use ishigaki_testkit::seeded_runs;
use ishigaki_wal::{CommitRule, Group, Log, LogKind, Settings};

const THREADS: u64 = 4;

fn settings(background: bool) -> Settings {
    let group = Group { bytes: ByteSize::kib(8), ..Group::default() };
    let (kind, commit) = (LogKind::Serial, CommitRule::Watermark);
    Settings { kind, commit, streams: 1, segment: ByteSize::kib(32), group, background, ..Settings::default() }
}

/// Mostly short, at times longer than the buffer; tells its thread and turn.
fn payload(random: &mut fastrand::Rng, thread: u64, turn: u64) -> Vec<u8> {
    let length = match random.u8(..100) {
        0 => random.usize(..100_000),
        1..5 => random.usize(..9000),
        _ => random.usize(..200),
    };
    let mut bytes = [thread.to_le_bytes(), turn.to_le_bytes()].concat();
    bytes.extend((0..length).map(|at| (at as u64 ^ thread ^ turn) as u8));
    bytes
}

/// One session's life: what it appended, with LSNs.
fn session(log: &Log, seed: Seed, thread: u64, turns: u64) -> Vec<(u64, Vec<u8>)> {
    let (mut random, stream) = (seed.derive(thread).generator(), log.assign());
    let mut appended = Vec::new();
    for turn in 0..turns {
        let payload = payload(&mut random, thread, turn);
        let lsn = match random.u8(..8) {
            0 => stream.draw(payload.len() + random.usize(..500)).unwrap().record(&payload),
            1 => {
                drop(stream.draw(payload.len()).unwrap());
                stream.append(&payload).unwrap()
            }
            _ => stream.append(&payload).unwrap(),
        };
        stream.pace();
        if random.u8(..4) == 0 {
            stream.wait(lsn).unwrap();
            assert!(log.is_durable(lsn));
        }
        appended.push((lsn.0, payload));
    }
    appended
}

fn all_records_come_out(seed: Seed, background: bool, turns: u64) {
    let directory = Arc::new(MemoryDirectory::new());
    let (log, _) = Log::open(directory.clone(), settings(background), &mut |_, _| Ok(())).unwrap();
    let mut appended: Vec<_> = std::thread::scope(|scope| {
        let log = &log;
        let threads: Vec<_> =
            (0..THREADS).map(|thread| scope.spawn(move || session(log, seed, thread, turns))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    log.close().unwrap();
    appended.sort();
    let mut replayed = Vec::new();
    let (_, recovery) = Log::open(directory, settings(false), &mut |position, payload| {
        replayed.push((position.lsn().0, payload.to_vec()));
        Ok(())
    })
    .unwrap();
    assert_eq!(recovery.cut, log.last_drawn());
    assert!(replayed == appended, "every record comes out once, whole and in LSN order");
}

#[test]
fn all_records_come_out_once_whole_and_in_order() {
    seeded_runs("all_records_come_out_once_whole_and_in_order", 4, |seed| all_records_come_out(seed, true, 400));
}

#[test]
fn threads_do_without_the_commit_thread_too() {
    seeded_runs("threads_do_without_the_commit_thread_too", 4, |seed| all_records_come_out(seed, false, 400));
}

/// Each piece of a record waits for space that others want, too.
#[test]
fn records_longer_than_the_buffer_find_their_way_through_it() {
    let directory = Arc::new(MemoryDirectory::new());
    let settings = Settings { segment: ByteSize::mib(1), ..settings(true) };
    let settings = Settings { group: Group { bytes: ByteSize::kib(4), ..Group::default() }, ..settings };
    let (log, _) = Log::open(directory.clone(), settings.clone(), &mut |_, _| Ok(())).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..THREADS as u8 {
            let stream = log.assign();
            scope.spawn(move || {
                for _ in 0..20 {
                    stream.append(&vec![thread; 3 << 20]).unwrap();
                }
            });
        }
    });
    log.close().unwrap();
    let mut count = 0;
    Log::open(directory, settings, &mut |_, payload| {
        count += 1;
        assert!(payload.len() == 3 << 20 && payload.iter().all(|&byte| byte == payload[0]));
        Ok(())
    })
    .unwrap();
    assert_eq!(count, 20 * THREADS);
}

#[test]
fn after_a_failed_write_every_waiting_thread_is_told_and_nothing_later_is_acknowledged() {
    seeded_runs("after_a_failed_write_every_waiting_thread_is_told_and_nothing_later_is_acknowledged", 20, |seed| {
        let directory = SimDirectory::with_seed(seed);
        let (log, _) = Log::open(Arc::new(directory.clone()), settings(true), &mut |_, _| Ok(())).unwrap();
        directory.inject(Fault::WriteError { nth: directory.writes() + seed.generator().u64(..60) });
        let acknowledged = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (log, acknowledged, mut random) = (&log, &acknowledged, seed.derive(thread).generator());
                scope.spawn(move || {
                    let stream = log.assign();
                    for turn in 0.. {
                        let acknowledge = stream.append(&payload(&mut random, thread, turn)).and_then(|lsn| {
                            stream.wait(lsn)?;
                            Ok(lsn)
                        });
                        match acknowledge {
                            Ok(lsn) => acknowledged.fetch_max(lsn.0, Ordering::SeqCst),
                            Err(error) => return assert_eq!(error.kind(), ErrorKind::Closed, "{error}"),
                        };
                    }
                });
            }
        });
        drop(log);
        let survivors = directory.process_crash().survivors(seed.derive(100));
        let (_, recovery) = Log::open(Arc::new(survivors), settings(false), &mut |_, _| Ok(())).unwrap();
        assert!(recovery.cut.0 >= acknowledged.load(Ordering::SeqCst), "what was acknowledged is there");
    });
}
