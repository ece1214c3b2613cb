//! The bound of a log's space: kept for ever, reached without a cliff, and told when nobody trims.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ishigaki_base::random::Seed;
use ishigaki_base::{ByteSize, ErrorKind, Lsn, StreamId};
use ishigaki_device::{Directory, MemoryDirectory, SimDirectory};
use ishigaki_wal::{CommitRule, Dependencies, Error, Group, Log, LogKind, Recovery, Settings, Start, inspect};

type Records = BTreeMap<u64, Vec<u8>>;

/// Two streams that share eight small segments.
fn narrow() -> Settings {
    Settings {
        streams: 2,
        relief: 0,
        segment: ByteSize::kib(16),
        space: ByteSize::kib(128),
        space_wait: Duration::ZERO,
        background: false,
        ..Settings::default()
    }
}

fn open(directory: &Arc<MemoryDirectory>, settings: Settings) -> (Arc<Log>, Recovery, Records) {
    let mut records = Records::new();
    let replay = &mut |position: ishigaki_base::Position, payload: &[u8]| {
        records.insert(position.lsn().0, payload.to_vec());
        Ok(())
    };
    let (log, recovery) = Log::open(directory.clone(), settings, replay).unwrap();
    (log, recovery, records)
}

/// Bytes of all segments and spares, as the directory has them.
fn bytes_of(directory: &MemoryDirectory) -> u64 {
    let names = directory.list().unwrap();
    let segments = names.iter().filter(|name| *name != "wal-control");
    // One that was renamed since the list was made is missing here; it makes the sum no larger.
    segments.filter_map(|name| directory.open(name).ok()).map(|device| device.len()).sum()
}

/// Appends until the log is full; gives what it then said.
fn fill(log: &Log) -> Error {
    let refusal = (0..10_000).find_map(|_| log.assign().append(&[7; 1000]).err());
    refusal.expect("ten megabytes do not fit")
}

#[test]
fn thousands_of_segments_pass_through_a_log_that_never_exceeds_its_bound() {
    for commit in [CommitRule::Watermark, CommitRule::Dependencies] {
        let directory = Arc::new(MemoryDirectory::new());
        let settings = Settings { commit, ..narrow() };
        let (mut log, ..) = open(&directory, settings.clone());
        let (mut expected, mut bytes) = (Records::new(), 0_u64);
        for turn in 0..40_000_u64 {
            let payload = vec![turn as u8; 100 + turn as usize * 7 % 1900];
            bytes += payload.len() as u64;
            let stream = log.stream(StreamId((turn % 2) as u16)).unwrap();
            let lsn = stream.append(&payload).unwrap();
            expected.insert(lsn.0, payload);
            if turn % 5 == 0 {
                stream.wait(lsn).unwrap();
            }
            if turn % 20 == 19 {
                let to = Start { lsn: Lsn(lsn.0 - 4), ..log.here() };
                log.trim(to).unwrap();
                expected = expected.split_off(&to.lsn.0);
                assert!(bytes_of(&directory) <= 128 << 10, "turn {turn}: {:?}", log.space());
                assert_eq!(log.space().used, ByteSize(bytes_of(&directory)));
            }
            if turn % 4000 == 3999 {
                log.close().unwrap();
                let (again, recovery, records) = open(&directory, settings.clone());
                assert_eq!((records, recovery.dropped), (expected.clone(), 0));
                log = again;
            }
        }
        assert!(bytes / (16 << 10) > 2000, "only {bytes} bytes went through");
    }
}

#[test]
fn a_full_log_says_what_to_do_before_there_is_an_lsn_and_goes_on_after_a_trim() {
    let directory = Arc::new(MemoryDirectory::new());
    let (log, ..) = open(&directory, narrow());
    let error = fill(&log);
    assert!(matches!(error, Error::Full { .. }) && error.kind() == ErrorKind::Exhausted, "{error:?}");
    assert!(error.to_string().contains("128.0 KiB") && error.to_string().contains("checkpoint"), "{error}");
    let space = log.space();
    assert_eq!((space.live, space.bound), (space.used, ByteSize::kib(128)));
    let drawn = log.last_drawn();
    log.trim(log.here()).unwrap();
    assert!(log.space().live.0 < space.live.0 / 2 && log.space().used == space.used, "{:?}", log.space());
    assert_eq!(log.assign().append(b"there is space again").unwrap(), drawn.next());
    log.close().unwrap();
    let (_, recovery, records) = open(&directory, narrow());
    assert_eq!(records.into_values().collect::<Vec<_>>(), [b"there is space again".to_vec()]);
    assert_eq!(recovery.start.lsn, drawn.next());
}

#[test]
fn an_append_at_the_bound_waits_for_a_trim() {
    let directory = Arc::new(MemoryDirectory::new());
    let settings = Settings { space_wait: Duration::from_mins(1), ..narrow() };
    let (log, ..) = open(&directory, settings);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..400 {
                log.assign().append(&[7; 1000]).unwrap();
            }
            done.store(true, Ordering::SeqCst);
        });
        let began = Instant::now();
        while !done.load(Ordering::SeqCst) {
            assert!(began.elapsed() < Duration::from_secs(30), "it hangs at {:?}", log.space());
            std::thread::sleep(Duration::from_millis(2));
            log.trim(log.here()).unwrap();
            assert!(log.space().used <= log.space().bound, "{:?}", log.space());
        }
    });
    assert_eq!(log.last_drawn(), Lsn(400));
}

#[test]
fn who_waits_for_space_keeps_nobody_else_waiting() {
    const PATIENCE: Duration = Duration::from_secs(8);
    let nothing = Dependencies::default();
    for kind in [LogKind::Parallel, LogKind::Serial] {
        let directory = Arc::new(MemoryDirectory::new());
        let (log, ..) = open(&directory, Settings { kind, space_wait: PATIENCE, ..narrow() });
        let stream = log.stream(StreamId(0)).unwrap();
        let is_refused = || matches!(stream.try_append_after(&nothing, &[7; 1000]), Err(Error::Full { .. }));
        // What was reserved and is not needed comes back when it is written, until there is nothing left.
        while !is_refused() {
            (0..1000).find(|_| is_refused()).expect("a megabyte does not fit");
            log.flush().unwrap();
        }
        let (drawn, began) = (log.last_drawn(), Instant::now());
        std::thread::scope(|scope| {
            let appending = scope.spawn(|| stream.append(&[8; 1000]).unwrap());
            let waiting = scope.spawn(|| stream.wait_for_room(&nothing, 1000).unwrap());
            std::thread::sleep(Duration::from_millis(50));
            assert!(is_refused() && log.last_drawn() == drawn && !appending.is_finished() && !waiting.is_finished());
            log.trim(log.here()).unwrap();
            assert_eq!(appending.join().unwrap(), drawn.next());
            waiting.join().unwrap();
        });
        assert!(began.elapsed() < PATIENCE / 2, "{kind}: {:?}", began.elapsed());
    }
}

#[test]
fn a_trim_makes_durable_what_it_frees() {
    let directory = Arc::new(MemoryDirectory::new());
    let (log, ..) = open(&directory, Settings { space: ByteSize::mib(1), ..narrow() });
    let stream = log.stream(StreamId(0)).unwrap();
    for _ in 0..60 {
        stream.append(&[7; 1000]).unwrap();
    }
    let (last, live) = (log.last_drawn(), log.space().live);
    log.trim(log.here()).unwrap();
    assert!(log.is_durable(last) && log.space().live < live);
}

#[test]
fn a_log_is_full_only_when_its_segments_are() {
    let directory = Arc::new(MemoryDirectory::new());
    let (log, ..) = open(&directory, narrow());
    // Each record reserves the most that it may cost, about twice what it does, and nobody asks for any to be written.
    fill(&log);
    let stored = log.last_drawn().0 * 1000;
    assert!(stored > 100_000, "only {stored} bytes fit into a log of 128 KiB");
}

#[test]
fn what_an_older_generation_dropped_stays_dropped_although_its_lsns_lie_beyond_the_start() {
    let directory = SimDirectory::with_seed(Seed(1));
    let group = Group { transactions: 2, ..Group::default() };
    let settings = Settings { commit: CommitRule::Watermark, group, space: ByteSize::mib(1), ..narrow() };
    let open = |directory: &SimDirectory| {
        let mut records = Vec::new();
        let replay = &mut |position: ishigaki_base::Position, payload: &[u8]| {
            records.push((position.lsn().0, payload.to_vec()));
            Ok(())
        };
        let (log, recovery) = Log::open(Arc::new(directory.clone()), settings.clone(), replay).unwrap();
        (log, recovery.dropped, records)
    };
    let (log, ..) = open(&directory);
    let [first, second] = [0, 1].map(|id| log.stream(StreamId(id)).unwrap());
    let kept = first.append(b"kept").unwrap();
    first.wait(kept).unwrap();
    second.append(b"lost").unwrap();
    for _ in 0..4 {
        first.append(b"dropped").unwrap();
        first.pace();
    }
    directory.power_cut_now();
    drop(log);
    let directory = directory.survivors(Seed(2));
    let (log, dropped, records) = open(&directory);
    assert_eq!((dropped, records), (4, vec![(1, b"kept".to_vec())]));
    // The LSNs of what was dropped are drawn again; the start lies among them.
    let stream = log.assign();
    for _ in 0..2 {
        stream.append(b"elsewhere").unwrap();
    }
    log.trim(log.here()).unwrap();
    let lsn = stream.append(b"needed").unwrap();
    log.close().unwrap();
    assert_eq!(lsn, Lsn(4), "between those of what was dropped");
    let (_, dropped, records) = open(&directory);
    assert_eq!((dropped, records), (0, vec![(4, b"needed".to_vec())]));
}

#[test]
fn closing_wakes_who_waits_at_the_bound() {
    let directory = Arc::new(MemoryDirectory::new());
    let (log, ..) = open(&directory, Settings { space_wait: Duration::from_hours(1), ..narrow() });
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| fill(&log));
        while log.space().used < log.space().bound {
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_millis(20));
        log.close().unwrap();
        assert!(matches!(waiting.join().unwrap(), Error::Closed));
    });
}

#[test]
fn sessions_are_slowed_more_the_less_space_is_left() {
    let directory = Arc::new(MemoryDirectory::new());
    let group = Group { transactions: 1, ..Group::default() };
    let settings = Settings { space: ByteSize::mib(4), space_wait: Duration::from_mins(1), group, ..narrow() };
    let (log, ..) = open(&directory, settings);
    let stream = log.assign();
    let time_to_fill = |sixteenths: u64| {
        let began = Instant::now();
        while log.space().live < ByteSize::kib(256 * sixteenths) {
            stream.append(&[7; 4000]).unwrap();
            stream.pace();
        }
        began.elapsed()
    };
    // Half of it is easy. The shortest of some times is not the machine's fault.
    let rounds: Vec<_> = (0..3)
        .map(|_| {
            let times = [8, 9, 10, 11].map(time_to_fill);
            log.trim(log.here()).unwrap();
            times
        })
        .collect();
    let shortest = |place: usize| rounds.iter().map(|times| times[place]).min().unwrap();
    assert!(shortest(0) < shortest(2) && shortest(1) < shortest(2) && shortest(2) < shortest(3), "{rounds:?}");
    assert!(shortest(3) > Duration::from_millis(100), "{rounds:?}");
}

#[test]
fn who_is_held_back_by_pace_goes_on_at_once_after_a_trim() {
    let directory = Arc::new(MemoryDirectory::new());
    let settings = Settings { space_wait: Duration::from_hours(1), ..narrow() };
    let (log, ..) = open(&directory, settings);
    let stream = log.stream(StreamId(0)).unwrap();
    // Six of eight segments: sessions stop, and yet an append that holds locks would find room.
    while log.space().live < ByteSize::kib(96) {
        stream.append(&[7; 1000]).unwrap();
    }
    std::thread::scope(|scope| {
        let other = log.stream(StreamId(1)).unwrap();
        let held = scope.spawn(move || other.pace());
        std::thread::sleep(Duration::from_millis(50));
        assert!(!held.is_finished(), "nobody goes on with so little left");
        log.stream(StreamId(1)).unwrap().append(b"somebody who holds locks").unwrap();
        log.trim(log.here()).unwrap();
        held.join().unwrap();
    });
}

#[test]
fn streams_that_are_not_written_any_more_are_freed() {
    let directory = Arc::new(MemoryDirectory::new());
    let (log, ..) = open(&directory, Settings { streams: 4, space: ByteSize::mib(1), ..narrow() });
    for id in 0..4 {
        let stream = log.stream(StreamId(id)).unwrap();
        for _ in 0..40 {
            stream.append(&[1; 1000]).unwrap();
        }
        log.flush().unwrap();
    }
    log.close().unwrap();
    let (log, ..) = open(&directory, Settings { space: ByteSize::mib(1), ..narrow() });
    log.trim(log.here()).unwrap();
    let left: Vec<_> = inspect(directory.as_ref()).unwrap().streams.iter().map(|stream| stream.stream.0).collect();
    assert_eq!(left, [0, 1]);
    log.close().unwrap();
    // And when they are written again, they begin anew.
    let (log, ..) = open(&directory, Settings { streams: 4, space: ByteSize::mib(1), ..narrow() });
    let lsn = log.stream(StreamId(3)).unwrap().append(b"again").unwrap();
    log.close().unwrap();
    let (_, _, records) = open(&directory, Settings { space: ByteSize::mib(1), ..narrow() });
    assert_eq!(records, Records::from([(lsn.0, b"again".to_vec())]));
}

#[test]
fn spares_of_another_length_or_beyond_the_bound_are_removed() {
    let directory = Arc::new(MemoryDirectory::new());
    let wide = Settings { space: ByteSize::mib(1), ..narrow() };
    let (log, ..) = open(&directory, wide.clone());
    while log.space().used < ByteSize::kib(512) {
        let stream = log.assign();
        let lsn = stream.append(&[1; 1000]).unwrap();
        stream.wait(lsn).unwrap();
    }
    log.trim(log.here()).unwrap();
    log.close().unwrap();
    assert!(bytes_of(&directory) >= 512 << 10);
    let (log, ..) = open(&directory, narrow());
    assert!(bytes_of(&directory) <= 128 << 10, "{:?}", log.space());
    assert_eq!(log.space().used, ByteSize(bytes_of(&directory)));
    log.close().unwrap();
    let (log, ..) = open(&directory, Settings { segment: ByteSize::kib(32), ..wide });
    assert_eq!(inspect(directory.as_ref()).unwrap().spares, 0);
    assert_eq!(log.space().used, ByteSize(bytes_of(&directory)));
}

#[test]
fn an_inspection_of_a_trimmed_log_tells_its_start() {
    let directory = Arc::new(MemoryDirectory::new());
    let (log, ..) = open(&directory, narrow());
    let stream = log.assign();
    for _ in 0..100 {
        let lsn = stream.append(&[1; 700]).unwrap();
        stream.wait(lsn).unwrap();
    }
    let to = Start { lsn: Lsn(90), ..log.here() };
    log.trim(to).unwrap();
    for open in [true, false] {
        let seen = inspect(directory.as_ref()).unwrap();
        assert!(seen.problem.is_none(), "{:?}", seen.problem);
        assert_eq!((seen.start, seen.records, seen.cut, seen.spares > 0), (to, 11, Lsn(100), true));
        if open {
            log.close().unwrap();
        }
    }
}

#[test]
fn what_the_log_has_not_reached_can_not_be_trimmed() {
    let directory = Arc::new(MemoryDirectory::new());
    let (log, ..) = open(&directory, narrow());
    log.assign().append(b"one").unwrap();
    let here = log.here();
    for beyond in [Start { lsn: here.lsn.next(), ..here }, Start { generation: here.generation.next(), lsn: Lsn(1) }] {
        assert_eq!(log.trim(beyond).unwrap_err().kind(), ErrorKind::Invalid);
    }
    log.trim(here).unwrap();
    log.trim(Start::default()).expect("a point before an earlier trim is no error");
    log.close().unwrap();
    assert!(matches!(log.trim(here), Err(Error::Closed)));
    let ahead = Start { generation: ishigaki_base::Generation(9), lsn: Lsn(1) };
    let refused = Log::open_from(directory, narrow(), ahead, &mut |_, _| Ok(())).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Corrupt);
}

#[test]
fn a_log_that_was_never_trimmed_misses_its_first_segment() {
    let directory = Arc::new(MemoryDirectory::new());
    let (log, ..) = open(&directory, narrow());
    while log.space().live < ByteSize::kib(96) {
        log.assign().append(&[7; 1000]).unwrap();
    }
    log.close().unwrap();
    directory.remove("wal-000-00000000").unwrap();
    let error = Log::open(directory, narrow(), &mut |_, _| Ok(())).unwrap_err();
    assert!(error.to_string().contains("segment 0 is missing"), "{error}");
}

#[test]
fn a_needed_segment_that_is_gone_is_missed_in_a_trimmed_log_too() {
    let directory = Arc::new(MemoryDirectory::new());
    let (log, ..) = open(&directory, narrow());
    let stream = log.assign();
    for _ in 0..60 {
        let lsn = stream.append(&[7; 1000]).unwrap();
        stream.wait(lsn).unwrap();
    }
    log.trim(Start { lsn: Lsn(20), ..log.here() }).unwrap();
    log.close().unwrap();
    let names = directory.list().unwrap();
    let first = names.iter().find(|name| name.starts_with("wal-000")).unwrap();
    assert_ne!(first, "wal-000-00000000");
    directory.remove(first).unwrap();
    let error = Log::open(directory, narrow(), &mut |_, _| Ok(())).unwrap_err();
    assert!(matches!(error, Error::Missing { .. }), "{error}");
}

/// Fills a log up to so many live bytes; says from where the last dozen records are, and what is in it.
fn filled(directory: &Arc<MemoryDirectory>, settings: Settings, live: ByteSize) -> (Start, Records) {
    let (log, ..) = open(directory, settings);
    let mut records = Records::new();
    while log.space().live < live {
        let payload = vec![records.len() as u8; 1000];
        records.insert(log.assign().append(&payload).unwrap().0, payload);
    }
    let from = Start { lsn: Lsn(log.here().lsn.0 - 12), ..log.here() };
    log.close().unwrap();
    (from, records)
}

/// Opens the log from that point, but keeps all of it if that can be.
fn open_keeping_all(directory: &Arc<MemoryDirectory>, settings: Settings, from: Start) -> (Arc<Log>, Records) {
    let mut records = Records::new();
    let all = Start { lsn: Lsn::FIRST, ..from };
    let replay = &mut |position: ishigaki_base::Position, payload: &[u8]| {
        records.insert(position.lsn().0, payload.to_vec());
        Ok(())
    };
    let (log, _) = Log::open_keeping(directory.clone(), settings, from, all, replay).unwrap();
    (log, records)
}

#[test]
fn a_log_keeps_more_than_is_asked_for_as_long_as_sessions_do_not_need_the_space() {
    let settings = Settings { space: ByteSize::kib(512), ..narrow() };
    let easy = open(&Arc::new(MemoryDirectory::new()), settings.clone()).0.space().easy;
    for (live, keeps) in [(easy.0 - (64 << 10), true), (easy.0 + (48 << 10), false)] {
        let directory = Arc::new(MemoryDirectory::new());
        let (from, expected) = filled(&directory, settings.clone(), ByteSize(live));
        let (log, found) = open_keeping_all(&directory, settings.clone(), from);
        assert_eq!(found, expected.clone().split_off(&from.lsn.0));
        let start = log.start();
        assert_eq!(start, if keeps { Start { lsn: Lsn::FIRST, ..from } } else { from }, "{live} bytes of {easy}");
        assert!(log.space().live <= easy, "{:?}", log.space());
        log.close().unwrap();
        // And from there it opens again.
        let mut again = Records::new();
        let replay = &mut |position: ishigaki_base::Position, payload: &[u8]| {
            again.insert(position.lsn().0, payload.to_vec());
            Ok(())
        };
        let _ = Log::open_from(directory, settings.clone(), start, replay).unwrap();
        assert_eq!(again, expected.clone().split_off(&start.lsn.0));
    }
}

#[test]
fn a_log_gives_up_what_it_keeps_if_it_can_not_open_without_that_space() {
    // One stream more than before needs one segment more than the medium has.
    let settings = Settings { space: ByteSize::kib(512), ..narrow() };
    let more = Settings { streams: 3, ..settings.clone() };
    let live = ByteSize::kib(160);
    let full = |room: u64| {
        let directory = Arc::new(MemoryDirectory::new());
        let (from, expected) = filled(&directory, settings.clone(), live);
        let used = directory.list().unwrap().iter().map(|name| directory.open(name).unwrap().len()).sum::<u64>();
        let capacity = Some(ByteSize(used + room));
        let narrow = ishigaki_device::MemorySettings { capacity, ..Default::default() };
        let copy = Arc::new(MemoryDirectory::with(narrow));
        for name in directory.list().unwrap() {
            let device = directory.open(&name).unwrap();
            let mut bytes = ishigaki_device::AlignedBuffer::zeroed(device.len() as usize);
            device.read_at(0, &mut bytes).unwrap();
            copy.create(&name, device.len()).unwrap().write_durable(0, &bytes).unwrap();
        }
        (copy, from, expected)
    };
    for (room, keeps) in [(64 << 10, true), (4096, false)] {
        let (directory, from, expected) = full(room);
        let (log, found) = open_keeping_all(&directory, more.clone(), from);
        assert_eq!(found, expected.clone().split_off(&from.lsn.0));
        assert_eq!(log.start() == from, !keeps, "{room} bytes of room: {:?}", log.start());
        log.stream(StreamId(2)).unwrap().append(b"in the new stream").unwrap();
        log.close().unwrap();
    }
}
