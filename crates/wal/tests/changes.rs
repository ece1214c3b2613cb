//! The ordered change stream, of a log at rest and of one in use.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ishigaki_base::random::Seed;
use ishigaki_base::{ByteSize, Lsn, Position, StreamId};
use ishigaki_device::{Directory, Fault, MemoryDirectory, SimDirectory};
use ishigaki_testkit::seeded_runs;
use ishigaki_wal::{Changes, CommitRule, Error, Log, Settings, Start};

fn settings(streams: u16) -> Settings {
    Settings { streams, segment: ByteSize::kib(16), background: false, ..Settings::default() }
}

fn open(directory: &Arc<impl Directory + 'static>, streams: u16) -> Arc<Log> {
    Log::open(directory.clone(), settings(streams), &mut |_, _| Ok(())).unwrap().0
}

fn all(directory: &dyn Directory, from: Lsn) -> Vec<(Position, Vec<u8>)> {
    Changes::of(directory, from).unwrap().map(Result::unwrap).collect()
}

#[test]
fn changes_come_in_lsn_order_from_the_lsn_that_was_asked_for() {
    let directory = Arc::new(MemoryDirectory::new());
    let mut expected = Vec::new();
    for streams in [3, 2] {
        let log = open(&directory, streams);
        for number in 0..20_u8 {
            let stream = log.assign();
            drop(stream.draw(10).unwrap());
            let lsn = stream.append(&vec![number; usize::from(number) * 500]).unwrap();
            expected.push((Position::new(lsn, stream.id()), vec![number; usize::from(number) * 500]));
        }
    }
    assert_eq!(all(directory.as_ref(), Lsn::ZERO), expected);
    for first in [0, 1, 19, 20, 39] {
        assert_eq!(all(directory.as_ref(), expected[first].0.lsn()), expected[first..]);
    }
    assert!(all(directory.as_ref(), expected[39].0.lsn().next()).is_empty());
}

#[test]
fn changes_of_a_log_in_use_end_where_something_is_not_durable() {
    let directory = Arc::new(MemoryDirectory::new());
    let log = open(&directory, 2);
    let [slow, fast] = [0, 1].map(|id| log.stream(StreamId(id)).unwrap());
    let first = fast.append(b"first").unwrap();
    fast.wait(first).unwrap();
    let undurable = slow.append(b"undurable").unwrap();
    // Durable by itself, and yet nobody may see it before the one above.
    let receipt = fast.append_after(&ishigaki_wal::Dependencies::default(), b"ahead").unwrap();
    fast.settle(&receipt).unwrap();
    let seen = |from| log.changes(from).unwrap().map(|change| change.unwrap().0.lsn()).collect::<Vec<_>>();
    assert_eq!(seen(Lsn::FIRST), [first]);
    slow.wait(undurable).unwrap();
    assert_eq!(seen(first.next()), [undurable, receipt.lsn()]);
    assert!(seen(receipt.lsn().next()).is_empty());
}

#[test]
fn who_follows_a_log_in_use_sees_every_record_once_and_in_order() {
    let directory = Arc::new(MemoryDirectory::new());
    let (log, _) =
        Log::open(directory.clone(), Settings { background: true, ..settings(3) }, &mut |_, _| Ok(())).unwrap();
    let over = AtomicBool::new(false);
    let mut seen = Vec::new();
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..3_u8)
            .map(|number| {
                let stream = log.assign();
                scope.spawn(move || {
                    for turn in 0..300_usize {
                        let lsn = stream.append(&vec![number + 1; 1 + turn * 7 % 900]).unwrap();
                        if turn % 3 == 0 {
                            stream.wait(lsn).unwrap();
                        }
                    }
                })
            })
            .collect();
        let (log, over, seen) = (&log, &over, &mut seen);
        let follower = scope.spawn(move || {
            let mut next = Lsn::FIRST;
            loop {
                let last_look = over.load(Ordering::SeqCst);
                for change in log.changes(next).unwrap() {
                    let lsn = change.unwrap().0.lsn();
                    assert_eq!(lsn, next);
                    next = lsn.next();
                    seen.push(lsn);
                }
                if last_look {
                    return;
                }
            }
        });
        for writer in writers {
            writer.join().unwrap();
        }
        log.flush().unwrap();
        over.store(true, Ordering::SeqCst);
        follower.join().unwrap();
    });
    assert_eq!(seen.len(), 900);
}

#[test]
fn what_a_recovery_has_dropped_is_no_change() {
    let directory = Arc::new(SimDirectory::with_seed(Seed(1)));
    let settings = Settings { commit: CommitRule::Watermark, ..settings(2) };
    let (log, _) = Log::open(directory.clone(), settings, &mut |_, _| Ok(())).unwrap();
    let [lost, kept] = [0, 1].map(|id| log.stream(StreamId(id)).unwrap());
    let first = kept.append(b"first").unwrap();
    kept.wait(first).unwrap();
    lost.append(b"lost").unwrap();
    let behind = kept.append(b"behind the gap").unwrap();
    // Stream 1 is written by this, stream 0 is not.
    directory.inject(Fault::PowerCut { operation: directory.operations() + 1 });
    assert!(kept.wait(behind).is_err() || !log.is_durable(behind));
    drop(log);
    let mut losses = 0;
    for seed in (0..20).map(Seed) {
        let survivors = Arc::new(directory.survivors(seed));
        let before = all(survivors.as_ref(), Lsn::FIRST);
        losses += u32::from(before.len() == 1);
        let log = open(&survivors, 2);
        log.assign().append(b"later").unwrap();
        log.flush().unwrap();
        let after: Vec<_> = log.changes(Lsn::FIRST).unwrap().map(Result::unwrap).collect();
        assert_eq!((&after[..before.len()], after.len()), (&before[..], before.len() + 1));
        assert_eq!(after[before.len()].1, b"later");
    }
    assert!(losses > 0, "the record before the gap was never lost");
}

#[test]
fn changes_of_a_damaged_log_end_with_an_error() {
    let directory = SimDirectory::with_seed(Seed(1));
    let log = open(&Arc::new(directory.clone()), 1);
    for _ in 0..3 {
        let stream = log.assign();
        let lsn = stream.append(&[1; 600]).unwrap();
        stream.wait(lsn).unwrap();
    }
    log.close().unwrap();
    directory.flip_bit("wal-000-00000000", 100 + 1024 * 2, 0).unwrap();
    let mut changes = Changes::of(&directory, Lsn::FIRST).unwrap();
    assert!(changes.next().unwrap().is_ok() && changes.next().unwrap().is_ok());
    assert!(matches!(changes.next(), Some(Err(Error::Corrupt { .. }))));
    assert!(changes.next().is_none());
}

#[test]
fn changes_begin_where_the_log_was_trimmed_to() {
    let directory = Arc::new(MemoryDirectory::new());
    let log = open(&directory, 2);
    let append = |number: u8| log.assign().append(&vec![number; 3000]).unwrap();
    let lsns: Vec<_> = (0..30).map(append).collect();
    log.flush().unwrap();
    log.trim(Start { lsn: lsns[20], ..log.here() }).unwrap();
    let seen: Vec<_> = log.changes(lsns[20]).unwrap().map(|change| change.unwrap().0.lsn()).collect();
    assert_eq!(seen, lsns[20..]);
    let refused = log.changes(lsns[19]).unwrap_err();
    assert!(matches!(refused, Error::Trimmed { asked, first } if (asked, first) == (lsns[19], lsns[20])), "{refused}");
    log.close().unwrap();
    assert!(matches!(Changes::of(directory.as_ref(), Lsn::ZERO), Err(Error::Trimmed { .. })));
    assert_eq!(all(directory.as_ref(), lsns[25]).len(), 5);
}

#[test]
fn who_reads_a_log_that_is_trimmed_meanwhile_misses_nothing_unnoticed() {
    let mut trimmed = 0;
    seeded_runs("who_reads_a_log_that_is_trimmed_meanwhile_misses_nothing_unnoticed", 200, |seed| {
        let mut random = seed.generator();
        let directory = Arc::new(SimDirectory::with_seed(seed));
        let log = open(&directory, random.u16(1..4));
        let mut points = Vec::new();
        let mut work = |random: &mut fastrand::Rng| {
            for _ in 0..random.usize(1..30) {
                log.assign().append(&vec![7; random.usize(..6000)]).unwrap();
                points.push(log.here());
            }
            log.flush().unwrap();
            if random.bool() {
                log.trim(points[random.usize(points.len() / 2..points.len())]).unwrap();
            }
        };
        work(&mut random);
        let mut next = log.here().lsn;
        for _ in 0..random.usize(1..6) {
            work(&mut random);
            let up_to = log.watermark();
            let changes = match log.changes(next) {
                Ok(changes) => changes,
                Err(Error::Trimmed { asked, first }) => {
                    assert!(asked == next && next < first);
                    next = first;
                    continue;
                }
                Err(error) => panic!("{error}"),
            };
            // Nothing has been read so far.
            if random.bool() {
                work(&mut random);
            }
            let mut end = Ok(());
            for change in changes {
                match change {
                    Ok((position, _)) => {
                        assert_eq!(position.lsn(), next);
                        next = next.next();
                    }
                    Err(Error::Trimmed { asked, first }) => {
                        trimmed += 1;
                        assert!(asked == next && next < first);
                        next = first;
                        end = Err(());
                    }
                    Err(error) => panic!("{error}"),
                }
                if random.u8(..8) == 0 {
                    work(&mut random);
                }
            }
            assert!(end.is_err() || next == up_to.next(), "it ends before {next}, and not at {up_to}");
        }
    });
    if ishigaki_testkit::chosen_seed().is_none() {
        assert!(trimmed > 20, "only {trimmed} readers were overtaken");
    }
}

#[test]
fn a_segment_that_is_blanked_under_its_reader_is_not_taken_for_the_end() {
    let directory = Arc::new(MemoryDirectory::new());
    let settings = Settings { segment: ByteSize::mib(4), ..settings(1) };
    let (log, _) = Log::open(directory, settings, &mut |_, _| Ok(())).unwrap();
    let append = || {
        for _ in 0..30 {
            log.assign().append(&vec![1; 100_000]).unwrap();
        }
        log.flush().unwrap();
    };
    append();
    let mut changes = log.changes(Lsn::FIRST).unwrap();
    assert!(changes.next().unwrap().is_ok());
    append();
    log.trim(log.here()).unwrap();
    let refused = changes.last().unwrap().unwrap_err();
    assert!(matches!(refused, Error::Trimmed { first, .. } if first == log.here().lsn), "{refused}");
}
