//! Closing while others are at it, and threads in each other's way.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self};
use std::thread;
use std::time::Duration;

use ishigaki_base::random::Seed;
use ishigaki_base::{ByteSize, StreamId};
use ishigaki_device::{Fault, MemoryDirectory, MemorySettings, SimDirectory};
use ishigaki_testkit::seeded_runs;
use ishigaki_wal::{Error, Group, Log, Result, Settings};

use super::trial::Medium;
use super::watched::*;
use super::workbench::*;

/// How long something that must not happen is given to happen.
const A_WHILE: Duration = Duration::from_millis(150);

/// Sends when `work` is done.
fn told<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> mpsc::Receiver<T> {
    let (done, told) = mpsc::channel();
    thread::spawn(move || done.send(work()));
    told
}

#[test]
fn a_closed_log_is_not_still_making_a_segment() {
    let gate = Arc::new(Gate::default());
    let at = gate.clone();
    let directory = Arc::new(Watched::before("create", "wal-000", move || at.pass()));
    let (log, ..) = open(directory, quiet(2)).unwrap();
    gate.shut();
    let stream = log.stream(StreamId(0)).unwrap();
    let appended = told(move || stream.append(&vec![1; 50_000]).map(|_| ()));
    gate.wait_for_somebody();
    let closed = told(move || log.close());
    let early = closed.recv_timeout(A_WHILE).is_ok();
    gate.open();
    assert!(!early, "it said that it is closed; whoever opens it now finds a segment appearing under his hands");
    closed.recv_timeout(PATIENCE).expect("it closes").unwrap();
    assert!(matches!(appended.recv_timeout(PATIENCE).expect("it gives up"), Err(Error::Closed)));
}

/// A log of two streams whose first one fails while the second one's write is on its way.
fn half_failed() -> (Arc<Log>, Arc<Gate>, mpsc::Receiver<Result<()>>) {
    let (gate, broken) = (Arc::new(Gate::default()), Arc::new(AtomicBool::new(false)));
    let (at, fails) = (gate.clone(), broken.clone());
    let directory = Arc::new(Watched::with_hook(move |operation, name| {
        if operation == "write" && name.starts_with("wal-001") {
            at.pass();
        }
        let fails = operation == "write" && name.starts_with("wal-000") && fails.load(Ordering::SeqCst);
        if fails { Err(failed(name)) } else { Ok(()) }
    }));
    let (log, ..) = open(directory, quiet(2)).unwrap();
    gate.shut();
    broken.store(true, Ordering::SeqCst);
    let [first, second] = [0, 1].map(|id| log.stream(StreamId(id)).unwrap());
    let slow = told(move || {
        let lsn = second.append(b"slow")?;
        second.wait(lsn)
    });
    gate.wait_for_somebody();
    let lsn = first.append(b"broken").unwrap();
    first.wait(lsn).unwrap_err();
    (log, gate, slow)
}

#[test]
fn a_failed_log_is_gone_only_when_nobody_writes_any_more() {
    let (log, gate, slow) = half_failed();
    let gone = told(move || drop(log));
    let early = gone.recv_timeout(A_WHILE).is_ok();
    gate.open();
    assert!(!early, "whoever recovers the log now may have an acknowledged chunk overwritten by this late write");
    gone.recv_timeout(PATIENCE).expect("it goes");
    slow.recv_timeout(PATIENCE).expect("it ends").unwrap_err();
}

#[test]
fn closing_a_failed_log_waits_until_nobody_writes_any_more() {
    let (log, gate, slow) = half_failed();
    let closed = told(move || log.close());
    let early = closed.recv_timeout(A_WHILE).is_ok();
    gate.open();
    assert!(!early, "it came back with a write of its own still on its way");
    closed.recv_timeout(PATIENCE).expect("it comes back").unwrap_err();
    slow.recv_timeout(PATIENCE).expect("it ends").unwrap_err();
}

#[test]
fn a_second_close_does_not_come_back_before_the_first_one() {
    let gate = Arc::new(Gate::default());
    let at = gate.clone();
    let directory = Arc::new(Watched::before("write", "wal-000", move || at.pass()));
    let (log, ..) = open(directory, quiet(1)).unwrap();
    log.assign().append(b"not durable yet").unwrap();
    gate.shut();
    let first = told({
        let log = log.clone();
        move || log.close()
    });
    gate.wait_for_somebody();
    let second = told(move || log.close());
    let early = second.recv_timeout(A_WHILE).is_ok();
    gate.open();
    assert!(!early, "it said that all is well while nothing was durable");
    for close in [first, second] {
        close.recv_timeout(PATIENCE).expect("it closes").unwrap();
    }
}

#[test]
fn a_log_that_has_failed_is_not_closed_as_if_nothing_had_happened() {
    let directory = SimDirectory::with_seed(Seed(1));
    let (log, ..) = open(Arc::new(directory.clone()), quiet(1)).unwrap();
    commit(&log.assign(), b"durable");
    directory.inject(Fault::SyncError { nth: directory.syncs() });
    log.assign().append(&vec![1; 50_000]).unwrap_err();
    assert!(log.failure().is_some());
    let writes = directory.writes();
    assert!(matches!(log.close(), Err(Error::Failed { .. })), "it failed and says that it closed well");
    assert_eq!(directory.writes(), writes, "a log that has failed writes nothing more");
}

/// What one session did: LSN, payload, acknowledged.
type Deeds = Vec<(u64, Vec<u8>, bool)>;

fn session(log: &Log, number: u8, seed: Seed) -> Deeds {
    let mut random = seed.derive(u64::from(number)).generator();
    let mut deeds = Deeds::new();
    for turn in 0..400_u32 {
        let stream = log.assign();
        let payload = [&[number][..], &turn.to_le_bytes(), &vec![number; random.usize(..600)]].concat();
        if random.u8(0..20) == 0 {
            drop(stream.draw(random.usize(..9000)));
        }
        let Ok(lsn) = stream.append(&payload) else {
            if log.failure().is_none() && random.u8(0..4) != 0 {
                continue; // the medium is full, or it is closed: try for a while
            }
            break;
        };
        let waited = match random.u8(0..4) {
            0 => stream.wait(lsn).is_ok(),
            1 => log.flush().is_ok(),
            2 => {
                stream.pace();
                false
            }
            _ => false,
        };
        assert!(!waited || log.is_durable(lsn));
        deeds.push((lsn.0, payload, waited));
        if number == 0 && turn == 300 {
            let _ = log.close();
        }
    }
    deeds
}

#[test]
fn threads_that_append_wait_and_close_at_once_neither_hang_nor_lose_anything() {
    seeded_runs("threads_that_append_wait_and_close_at_once_neither_hang_nor_lose_anything", 40, |seed| {
        watchdog(move || {
            let mut random = seed.generator();
            let capacity = random.bool().then(|| ByteSize::kib(random.u64(200..1500)));
            let block_size = if random.bool() { 512 } else { 4096 };
            let directory = Arc::new(MemoryDirectory::with(MemorySettings { capacity, block_size }));
            let time = Duration::from_micros(random.u64(1..2000));
            let settings = any_settings(&mut random);
            let group = Group { time, ..settings.group };
            let settings = Settings { background: random.u8(0..4) != 0, group, ..settings };
            let Ok((log, ..)) = open(directory.clone(), settings.clone()) else { return };
            let deeds: Vec<Deeds> = thread::scope(|scope| {
                let log = &log;
                let threads: Vec<_> = (0..6).map(|number| scope.spawn(move || session(log, number, seed))).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            log.close().unwrap();
            let last = log.last_drawn();
            drop(log);
            let (_, recovery, records) = open(directory, settings).unwrap();
            let expected: Records = deeds.into_iter().flatten().map(|(lsn, payload, _)| (lsn, payload)).collect();
            assert_eq!((recovery.cut, recovery.dropped, recovery.clean), (last, 0, true));
            assert!(records == expected, "other records than were appended");
        });
    });
}

#[test]
fn threads_whose_power_is_cut_lose_nothing_that_was_acknowledged() {
    seeded_runs("threads_whose_power_is_cut_lose_nothing_that_was_acknowledged", 60, |seed| {
        watchdog(move || {
            let mut random = seed.generator();
            let medium = *random.choice(&Medium::ALL).unwrap();
            let directory = medium.fresh(seed);
            let settings = Settings { background: random.bool(), ..any_settings(&mut random) };
            let open = |directory: &SimDirectory| open(medium.directory(directory)?, settings.clone());
            let (log, ..) = open(&directory).unwrap();
            let after = random.u64(..300);
            directory.inject(if random.bool() {
                Fault::PowerCut { operation: directory.operations() + after }
            } else {
                Fault::WriteError { nth: directory.writes() + after }
            });
            let deeds: Vec<Deeds> = thread::scope(|scope| {
                let log = &log;
                let threads: Vec<_> = (0..4).map(|number| scope.spawn(move || session(log, number, seed))).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            drop(log);
            let deeds: Vec<_> = deeds.into_iter().flatten().collect();
            for survivor in 0..4 {
                let (_, recovery, records) = open(&directory.survivors(seed.derive(survivor))).unwrap();
                for (lsn, payload, acknowledged) in &deeds {
                    assert!(!acknowledged || *lsn <= recovery.cut.0, "{lsn} was acknowledged");
                    assert_eq!(records.get(lsn), (*lsn <= recovery.cut.0).then_some(payload));
                }
            }
        });
    });
}
