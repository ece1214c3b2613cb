//! What a log does while nothing goes wrong, and what it says when something does.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ishigaki_base::{ByteSize, ErrorKind, Lsn, Position, StreamId};
use ishigaki_device::{Directory, Fault, MemoryDirectory, MemorySettings, SimDirectory};
use ishigaki_wal::{CommitRule, Dependencies, Error, Group, Log, LogKind, Receipt, Recovery, Settings, inspect};

type Records = Vec<(u64, Vec<u8>)>;

/// Small, without threads of its own.
fn quiet() -> Settings {
    Settings {
        streams: 2,
        segment: ByteSize::kib(16),
        commit: CommitRule::Watermark,
        background: false,
        ..Settings::default()
    }
}

/// The same, as a serial log.
fn quiet_serial() -> Settings {
    Settings { kind: LogKind::Serial, ..quiet() }
}

/// Runs a test with each kind of log.
fn each_kind(test: impl Fn(fn() -> Settings)) {
    test(quiet);
    test(quiet_serial);
}

fn open(directory: &Arc<impl Directory + 'static>, settings: Settings) -> (Arc<Log>, Recovery, Records) {
    let mut records = Records::new();
    let (log, recovery) = Log::open(directory.clone(), settings, &mut |position, payload| {
        let lsn = position.lsn();
        records.push((lsn.0, payload.to_vec()));
        Ok(())
    })
    .unwrap();
    (log, recovery, records)
}

#[test]
fn what_was_waited_for_is_replayed_in_lsn_order() {
    each_kind(|quiet| {
        let directory = Arc::new(MemoryDirectory::new());
        let (log, recovery, records) = open(&directory, quiet());
        assert!(records.is_empty() && recovery.clean && recovery.cut == Lsn::ZERO);
        let mut expected = Records::new();
        for number in 0_u8..20 {
            let stream = log.assign();
            let lsn = stream.append(&[number; 10]).unwrap();
            stream.wait(lsn).unwrap();
            expected.push((lsn.0, vec![number; 10]));
        }
        log.close().unwrap();
        let (_, recovery, records) = open(&directory, quiet());
        assert_eq!(records, expected);
        assert_eq!((recovery.records, recovery.cut, recovery.dropped), (20, Lsn(20), 0));
    });
}

#[test]
fn a_lone_commit_is_one_device_write() {
    each_kind(|quiet| {
        let directory = Arc::new(SimDirectory::with_seed(ishigaki_base::random::Seed(1)));
        let (log, ..) = open(&directory, quiet());
        let stream = log.assign();
        for _ in 0..10 {
            let before = (directory.operations(), directory.writes());
            let lsn = stream.append(b"alone").unwrap();
            stream.wait(lsn).unwrap();
            assert_eq!((directory.operations() - before.0, directory.writes() - before.1), (1, 1));
        }
    });
}

#[test]
fn records_that_nobody_waits_for_share_one_write_when_the_group_is_full() {
    each_kind(|quiet| {
        let directory = Arc::new(SimDirectory::with_seed(ishigaki_base::random::Seed(1)));
        let (log, ..) = open(&directory, quiet());
        let stream = log.assign();
        let before = directory.writes();
        for _ in 0..48 {
            stream.append(b"a member of a group").unwrap();
            stream.pace();
        }
        assert_eq!(directory.writes() - before, 3, "48 records in groups of 16");
        assert_eq!(log.watermark(), Lsn(48));
    });
}

#[test]
fn a_record_can_be_written_long_before_it_may_be_acknowledged() {
    let directory = Arc::new(MemoryDirectory::new());
    let group = Group { transactions: 1, ..Group::default() };
    let (log, ..) = open(&directory, Settings { group, ..quiet() });
    let [first, second] = [0, 1].map(|id| log.stream(StreamId(id)).unwrap());
    let early = first.append_after(&Dependencies::default(), b"earlier, in a buffer").unwrap();
    let late = second.append_after(&Dependencies::default(), b"later, on the medium").unwrap();
    assert!(!log.has_written(late.position()));
    second.pace();
    assert!(log.has_written(late.position()) && !log.has_written(early.position()));
    assert!(!log.has_settled(&late) && !log.is_durable(late.lsn()));
    first.pace();
    assert!(log.has_written(early.position()) && log.has_settled(&late));
}

#[test]
fn a_silent_stream_does_not_hold_back_another_ones_acknowledgement() {
    let directory = Arc::new(MemoryDirectory::new());
    let (log, ..) = open(&directory, quiet());
    let [silent, waiting] = [0, 1].map(|id| log.stream(StreamId(id)).unwrap());
    silent.append(b"never waited for").unwrap();
    let lsn = waiting.append(b"waited for").unwrap();
    assert!(!log.is_durable(lsn));
    waiting.wait(lsn).unwrap();
    assert!(log.is_durable(lsn));
}

#[test]
fn a_record_that_nobody_waits_for_is_durable_after_a_while() {
    each_kind(|quiet| {
        let directory = Arc::new(MemoryDirectory::new());
        let group = Group { time: Duration::from_millis(1), ..Group::default() };
        let (log, ..) = open(&directory, Settings { background: true, group, ..quiet() });
        for pause in [0, 200] {
            std::thread::sleep(Duration::from_millis(pause)); // long enough for the log's thread to fall asleep
            let lsn = log.assign().append(b"forgotten").unwrap();
            let began = Instant::now();
            while !log.is_durable(lsn) {
                assert!(began.elapsed() < Duration::from_secs(10), "the group's time is not kept");
                std::thread::yield_now();
            }
        }
    });
}

#[test]
fn a_record_longer_than_a_segment_comes_back_whole() {
    each_kind(|quiet| {
        let directory = Arc::new(MemoryDirectory::new());
        let (log, ..) = open(&directory, quiet());
        let endless: Vec<u8> = (0..100_000_u32).map(|i| (i % 251) as u8).collect();
        let stream = log.assign();
        stream.append(b"before").unwrap();
        let lsn = stream.append(&endless).unwrap();
        stream.wait(lsn).unwrap();
        log.close().unwrap();
        let (_, _, records) = open(&directory, quiet());
        assert_eq!(records, [(1, b"before".to_vec()), (2, endless)]);
    });
}

#[test]
fn a_draw_that_is_dropped_leaves_no_gap() {
    each_kind(|quiet| {
        let directory = Arc::new(MemoryDirectory::new());
        let (log, ..) = open(&directory, quiet());
        let stream = log.assign();
        drop(stream.draw(100).unwrap());
        let draw = stream.draw(100).unwrap();
        assert_eq!(draw.lsn(), Lsn(2));
        let lsn = draw.record(b"used");
        stream.wait(lsn).unwrap();
        log.close().unwrap();
        let (_, recovery, records) = open(&directory, quiet());
        assert_eq!(records, [(2, b"used".to_vec())]);
        assert_eq!((recovery.cut, recovery.dropped), (Lsn(2), 0));
    });
}

#[test]
fn the_number_of_streams_may_change_between_openings() {
    each_kind(|quiet| {
        let directory = Arc::new(MemoryDirectory::new());
        let mut expected = Records::new();
        for streams in [1, 4, 2, 3] {
            let (log, _, records) = open(&directory, Settings { streams, ..quiet() });
            assert_eq!(records, expected);
            for _ in 0..5 {
                let stream = log.assign();
                let lsn = stream.append(&[streams as u8]).unwrap();
                stream.wait(lsn).unwrap();
                expected.push((lsn.0, vec![streams as u8]));
            }
        }
    });
}

#[test]
fn segments_and_chunks_may_change_between_openings() {
    each_kind(|quiet| {
        let directory = Arc::new(MemoryDirectory::new());
        let mut expected = Records::new();
        for (kib, group) in [(16, 4), (1024, 256), (32, 1024), (16, 8), (4096, 1024)] {
            let group = Group { bytes: ByteSize::kib(group), ..Group::default() };
            let (log, _, records) = open(&directory, Settings { segment: ByteSize::kib(kib), group, ..quiet() });
            assert_eq!(records, expected);
            for length in [10, 20_000] {
                let stream = log.assign();
                let lsn = stream.append(&vec![kib as u8; length]).unwrap();
                stream.wait(lsn).unwrap();
                expected.push((lsn.0, vec![kib as u8; length]));
            }
        }
    });
}

#[test]
fn many_threads_on_few_streams_lose_nothing() {
    each_kind(|quiet| {
        let directory = Arc::new(MemoryDirectory::new());
        let (log, ..) = open(&directory, Settings { background: true, ..quiet() });
        let appended: Vec<(u64, Vec<u8>)> = std::thread::scope(|scope| {
            let session = |number: u8| {
                let stream = log.assign();
                move || {
                    (0..200_u32)
                        .map(move |turn| {
                            let payload = vec![number; 1 + turn as usize % 700];
                            let lsn = stream.append(&payload).unwrap();
                            stream.pace();
                            if turn % 3 == 0 {
                                stream.wait(lsn).unwrap();
                            }
                            (lsn.0, payload)
                        })
                        .collect::<Vec<_>>()
                }
            };
            let threads: Vec<_> = (0..8).map(|number| scope.spawn(session(number))).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        log.close().unwrap();
        let (_, _, records) = open(&directory, quiet());
        let mut expected = appended;
        expected.sort();
        assert_eq!(records, expected);
    });
}

#[test]
fn a_closed_log_takes_nothing_more() {
    each_kind(|quiet| {
        let directory = Arc::new(MemoryDirectory::new());
        let (log, ..) = open(&directory, quiet());
        let stream = log.assign();
        log.close().unwrap();
        let error = stream.append(b"late").unwrap_err();
        assert!(matches!(error, Error::Closed), "{error}");
        assert_eq!(error.kind(), ErrorKind::Closed);
    });
}

#[test]
fn a_full_medium_is_an_error_before_there_is_an_lsn_and_what_went_before_stays() {
    each_kind(|quiet| {
        let directory = Arc::new(MemoryDirectory::with(MemorySettings {
            capacity: Some(ByteSize::kib(64)),
            ..MemorySettings::default()
        }));
        let (log, ..) = open(&directory, quiet());
        let stream = log.assign();
        let mut acknowledged = 0;
        let error = loop {
            match stream.append(&[1; 1000]) {
                Ok(lsn) => stream.wait(lsn).map(|()| acknowledged += 1).unwrap(),
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), ErrorKind::Exhausted, "{error}");
        assert!(acknowledged > 10 && log.last_drawn() == Lsn(acknowledged) && log.failure().is_none());
        log.close().unwrap();
        let (_, recovery, _) = open(&directory, quiet());
        assert_eq!(recovery.records, acknowledged);
    });
}

#[test]
fn after_a_failed_write_nothing_is_acknowledged_and_reopening_works() {
    each_kind(|quiet| {
        let directory = Arc::new(SimDirectory::with_seed(ishigaki_base::random::Seed(3)));
        let (log, ..) = open(&directory, quiet());
        let [first, second] = [log.assign(), log.assign()];
        let durable = first.append(b"durable").unwrap();
        first.wait(durable).unwrap();
        directory.inject(Fault::WriteError { nth: directory.writes() });
        let lost = first.append(b"lost").unwrap();
        let error = first.wait(lost).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Closed);
        assert!(error.to_string().contains("reopen"), "{error}");
        assert!(matches!(second.append(b"later"), Err(Error::Failed { .. })));
        assert!(matches!(first.wait(lost), Err(Error::Failed { .. })), "trying again does not help");
        assert!(first.wait(durable).is_ok(), "what was durable before stays acknowledged");
        drop((first, second, log));
        let (_, _, records) = open(&directory, quiet());
        assert_eq!(records[0], (1, b"durable".to_vec()));
    });
}

#[test]
fn an_inspection_tells_streams_generations_and_the_end() {
    let directory = Arc::new(MemoryDirectory::new());
    for _ in 0..2 {
        let (log, ..) = open(&directory, quiet());
        for _ in 0..4 {
            let stream = log.assign();
            let lsn = stream.append(b"seen").unwrap();
            stream.wait(lsn).unwrap();
        }
    }
    let seen = inspect(directory.as_ref()).unwrap();
    assert_eq!((seen.records, seen.cut, seen.clean), (8, Lsn(8), Some(Lsn(8))));
    assert!(seen.problem.is_none(), "{:?}", seen.problem);
    assert_eq!(seen.streams.len(), 2);
    let generations: Vec<_> =
        seen.streams[0].generations.iter().map(|g| (g.generation.0, g.base.0, g.records)).collect();
    assert_eq!(generations, [(1, 1, 2), (2, 5, 2)]);
    assert_eq!(seen.streams[0].end_offset, seen.streams[0].bytes);
}

#[test]
fn a_log_may_be_of_another_kind_at_each_opening() {
    let directory = Arc::new(MemoryDirectory::new());
    let mut expected = Records::new();
    let kinds = [LogKind::Parallel, LogKind::Serial, LogKind::EPOCH, LogKind::Serial, LogKind::Parallel];
    for (number, kind) in kinds.into_iter().enumerate() {
        for commit in [CommitRule::Watermark, CommitRule::Dependencies] {
            let (log, _, records) = open(&directory, Settings { kind, commit, ..quiet() });
            assert_eq!(records, expected);
            for _ in 0..3 {
                let stream = log.assign();
                let receipt = stream.append_after(&Dependencies::default(), &[number as u8]).unwrap();
                stream.settle(&receipt).unwrap();
                expected.push((receipt.lsn().0, vec![number as u8]));
            }
        }
    }
}

/// Every kind of log, with threads of its own and without.
fn kinds() -> impl Iterator<Item = Settings> {
    let kinds = [LogKind::Parallel, LogKind::Serial, LogKind::Epoch { time: Duration::from_millis(2) }];
    let rules = [CommitRule::Watermark, CommitRule::Dependencies];
    kinds.into_iter().flat_map(move |kind| {
        rules
            .into_iter()
            .flat_map(move |commit| [false, true].map(|background| Settings { kind, commit, background, ..quiet() }))
    })
}

/// What a thread comes to that must not wait for ever.
fn in_time<R: Send + 'static>(what: &str, body: impl FnOnce() -> R + Send + 'static) -> R {
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || tell.send(body()));
    told.recv_timeout(Duration::from_secs(20)).unwrap_or_else(|_| panic!("{what}: it waits for ever"))
}

fn on(lsn: Lsn, stream: u16) -> Dependencies {
    let mut dependencies = Dependencies::default();
    dependencies.add(Position::new(lsn, StreamId(stream)));
    dependencies
}

#[test]
fn waiting_for_an_lsn_that_was_not_drawn_waits_for_all_that_were() {
    for settings in kinds() {
        let (log, ..) = open(&Arc::new(MemoryDirectory::new()), settings.clone());
        for lsn in [Lsn(1), Lsn(100), Position::MAX_LSN, Lsn::MAX] {
            let stream = log.assign();
            in_time(&format!("{lsn}, {settings:?}"), move || stream.wait(lsn)).unwrap();
            let drawn = log.assign().append(b"drawn").unwrap();
            let stream = log.assign();
            in_time(&format!("{lsn}, {settings:?}"), move || stream.wait(lsn.max(Lsn(50)))).unwrap();
            assert!(log.is_durable(drawn), "{settings:?}");
        }
    }
}

#[test]
fn nothing_depends_on_a_record_that_is_not_there_nor_waits_for_it() {
    for settings in kinds() {
        let directory = Arc::new(MemoryDirectory::new());
        let (log, ..) = open(&directory, settings.clone());
        let old = log.assign().append(b"of an older generation").unwrap();
        log.close().unwrap();
        drop(log);
        let (log, ..) = open(&directory, settings.clone());
        let streams = if settings.kind == LogKind::Serial { 1 } else { settings.all_streams() };
        let stream = log.stream(StreamId(0)).unwrap();
        let there = stream.append_after(&on(old, streams + 3), b"there").unwrap();
        stream.append_after(there.dependencies(), b"there, too").unwrap();
        let drawn = log.last_drawn();
        let missing = [(drawn.next(), 0), (Position::MAX_LSN, 0), (drawn, streams), (there.lsn(), 255)];
        let between = (drawn, streams - 1);
        for (lsn, id) in missing.into_iter().chain((streams > 1).then_some(between)) {
            let what = format!("{lsn} of stream {id}, {settings:?}");
            let refused = in_time(&what, {
                let stream = stream.clone();
                move || stream.append_after(&on(lsn, id), b"too early")
            });
            assert!(matches!(refused, Err(Error::Invalid { .. })), "{what}: {refused:?}");
            let refused = in_time(&what, {
                let stream = stream.clone();
                move || stream.settle(&Receipt::of_reader(on(lsn, id)))
            });
            assert!(matches!(refused, Err(Error::Invalid { .. })), "{what}: {refused:?}");
            assert!(!log.has_settled(&Receipt::of_reader(on(lsn, id))), "{what}");
        }
        assert_eq!(log.last_drawn(), drawn, "{settings:?}: nothing was appended");
        stream.settle(&there).unwrap();
        log.close().unwrap();
        drop((log, stream));
        assert_eq!(open(&directory, settings).2.len(), 3);
    }
}

#[test]
fn a_record_may_depend_on_one_of_each_stream_of_the_largest_log() {
    let settings = Settings { streams: 255, relief: 0, commit: CommitRule::Dependencies, ..quiet() };
    let directory = Arc::new(MemoryDirectory::new());
    let (log, ..) = open(&directory, settings.clone());
    let mut all = Dependencies::default();
    for id in 1..255 {
        let receipt = log.stream(StreamId(id)).unwrap().append_after(&Dependencies::default(), b"one of each").unwrap();
        all.add(receipt.position());
    }
    let stream = log.stream(StreamId(0)).unwrap();
    // What the own stream holds needs a name when it waits for another stream itself.
    all.add(stream.append_after(&all, b"after all others").unwrap().position());
    let last = stream.append_after(&all, b"after all").unwrap();
    assert_eq!(last.dependencies().iter().count(), 255);
    stream.settle(&last).unwrap();
    drop((log, stream));
    let (_, recovery, records) = open(&directory, settings);
    assert_eq!((records.len(), recovery.dropped), (256, 0));
    assert_eq!(records[255].1, b"after all");
}
