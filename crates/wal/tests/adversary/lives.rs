//! Lives under changing settings, and names that were lost.

use std::sync::Arc;

use ishigaki_base::random::Seed;
use ishigaki_base::{ByteSize, StreamId};
use ishigaki_device::{Fault, MemoryDirectory, SimDirectory};
use ishigaki_testkit::seeded_runs;
use ishigaki_wal::{CommitRule, Log, Result, Settings, Sink, Start, inspect};

use super::trial::{Medium, Model, Shown};
use super::watched::*;
use super::workbench::*;

fn work(log: &Log, streams: u16, model: &mut Model, random: &mut fastrand::Rng) -> Result<()> {
    for _ in 0..random.usize(..50) {
        let stream = log.stream(StreamId(random.u16(0..streams))).expect("it is one of them");
        let length = if random.u8(0..10) == 0 { random.usize(..20_000) } else { random.usize(..400) };
        // Zeros now and then: a chunk with blank sectors is the hardest to judge.
        let blank = random.u8(0..4) == 0;
        let payload: Vec<u8> = (0..length).map(|_| if blank { 0 } else { random.u8(..) }).collect();
        if random.u8(0..12) == 0 {
            let room = if random.u8(0..4) == 0 { 60_000 } else { length };
            drop(stream.draw(room)?);
        }
        let lsn = model.append_bytes(&stream, random, payload)?.lsn();
        if random.bool() {
            stream.pace();
        }
        if random.u8(0..3) == 0 {
            stream.wait(lsn)?;
            model.acknowledge_up_to(lsn);
        }
    }
    Ok(())
}

/// One life of a log: opened with any settings on a medium of any block size, worked on, ended in any way. Gives what the
/// next life finds. `rule` is that of the last generation that was written.
fn life(
    directory: &SimDirectory,
    medium: Medium,
    model: &mut Model,
    rule: &mut CommitRule,
    random: &mut fastrand::Rng,
) -> SimDirectory {
    let commit = if random.bool() { CommitRule::Watermark } else { CommitRule::Dependencies };
    let settings = Settings { commit, ..any_settings(random) };
    let block_size = if random.bool() { 512 } else { 4096 };
    let planned = random.u8(0..5);
    match planned {
        0 => directory.inject(Fault::PowerCut { operation: directory.operations() + random.u64(..60) }),
        1 => directory.inject(Fault::WriteError { nth: directory.writes() + random.u64(..40) }),
        _ => {}
    }
    let shown = Shown::default();
    let opened = medium.directory(directory).map_err(Into::into).and_then(|inner| {
        let watched = Arc::new(Watched::with_blocks(inner, block_size));
        Log::open(watched, settings.clone(), &mut |position, payload| shown.take(position, payload))
    });
    let log = match opened {
        Ok((log, recovery)) => {
            model.check(&shown, &recovery, Start::default(), *rule);
            *rule = commit;
            Some(log)
        }
        Err(error) => {
            assert!(planned < 2, "{error}, with {settings:?}, blocks of {block_size}");
            None
        }
    };
    let worked = log.as_ref().is_some_and(|log| work(log, settings.streams, model, random).is_ok());
    assert!(worked || planned < 2, "nothing went wrong and yet it failed");
    if !directory.power_is_on() || planned == 2 {
        directory.power_cut_now();
        drop(log);
        return directory.survivors(Seed(random.u64(..)));
    }
    if planned == 3 {
        let next = directory.process_crash();
        drop(log);
        return next;
    }
    if let Some(log) = log
        && log.close().is_ok()
    {
        model.acknowledge_up_to(log.last_drawn());
    }
    if random.bool() { directory.process_crash() } else { directory.survivors(Seed(random.u64(..))) }
}

#[test]
fn a_log_survives_many_lives_under_changing_settings() {
    seeded_runs("a_log_survives_many_lives_under_changing_settings", 12, |seed| {
        for medium in Medium::ALL {
            let mut random = seed.generator();
            let mut directory = medium.fresh(seed);
            let (mut model, mut rule) = (Model::default(), CommitRule::Watermark);
            for _ in 0..40 {
                directory = life(&directory, medium, &mut model, &mut rule, &mut random);
            }
            let seen = inspect(medium.directory(&directory).unwrap().as_ref()).unwrap();
            assert!(seen.problem.is_none(), "{medium:?}: {:?}", seen.problem);
        }
    });
}

#[test]
fn blank_segments_that_became_too_small_do_not_end_the_stream() {
    let directory = Arc::new(MemoryDirectory::new());
    let (log, ..) = open(directory.clone(), quiet(1)).unwrap();
    // Room for a long record is made and not used.
    drop(log.assign().draw(60_000).unwrap());
    commit(&log.assign(), b"small");
    log.close().unwrap();
    let large = Settings { segment: ByteSize::mib(1), ..quiet(1) };
    let (log, ..) = open(directory.clone(), large.clone()).unwrap();
    commit(&log.assign(), b"large");
    log.close().unwrap();
    drop(log);
    let (_, _, records) = open(directory, large).expect("a healthy log is opened");
    assert_eq!(records.into_values().collect::<Vec<_>>(), [b"small".to_vec(), b"large".to_vec()]);
}

#[test]
fn the_number_and_length_of_blocks_may_change_between_openings() {
    let directory = Arc::new(MemoryDirectory::new());
    let mut expected = Vec::new();
    for block_size in [512, 4096, 512, 512, 4096, 4096, 2048, 1024] {
        let watched = Arc::new(Watched::with_blocks(directory.clone(), block_size));
        let (log, _, records) = open(watched, quiet(2)).unwrap();
        assert_eq!(records.into_values().collect::<Vec<_>>(), expected);
        for length in [3, 5000, 1, 600] {
            let payload = vec![block_size as u8 | 1; length];
            commit(&log.assign(), &payload);
            expected.push(payload);
        }
    }
}

#[test]
fn nothing_is_acknowledged_in_a_segment_whose_name_a_failed_sync_has_lost() {
    names_are_lost(Medium::Ring, |nth| Fault::SyncError { nth }, SimDirectory::syncs);
}

#[test]
fn nothing_is_acknowledged_in_a_region_whose_name_a_failed_write_has_lost() {
    names_are_lost(Medium::Raw, |nth| Fault::WriteError { nth }, SimDirectory::writes);
}

/// Fails at each of many moments; then goes on, as another process, and loses power.
fn names_are_lost(medium: Medium, fault: fn(u64) -> Fault, count: fn(&SimDirectory) -> u64) {
    let open = |directory: &SimDirectory| open(medium.directory(directory)?, quiet(1));
    for nth in 0.. {
        let directory = medium.fresh(Seed(nth));
        directory.inject(fault(nth));
        let first = open(&directory);
        let mut acknowledged = 0;
        if let Ok((log, ..)) = first {
            let stream = log.assign();
            while acknowledged < 40 && stream.append(&[7; 900]).and_then(|lsn| stream.wait(lsn)).is_ok() {
                acknowledged += 1;
            }
        }
        if count(&directory) <= nth {
            assert!(nth > 3, "only {nth} have failed");
            break;
        }
        // Whoever comes next sees the name and can not know that it may vanish.
        let (log, recovery, _) = open(&directory).unwrap();
        // What was being written when it failed may be there.
        let unsure = u64::from(medium == Medium::Raw);
        assert!((acknowledged..=acknowledged + unsure).contains(&recovery.records));
        acknowledged = recovery.records;
        for _ in 0..40 {
            commit(&log.assign(), &[8; 900]);
            acknowledged += 1;
        }
        directory.power_cut_now();
        drop(log);
        for survivor in 0..20 {
            let shown = open(&directory.survivors(Seed(survivor))).map(|(_, recovery, _)| recovery.records);
            assert_eq!(shown.ok(), Some(acknowledged), "{:?}, survivor {survivor}", fault(nth));
        }
    }
}

#[test]
fn blanking_that_failed_is_done_again_although_it_looks_done() {
    seeded_runs("blanking_that_failed_is_done_again_although_it_looks_done", 40, |seed| {
        for (medium, nth) in Medium::ALL.into_iter().flat_map(|medium| (0..6).map(move |nth| (medium, nth))) {
            let open = |directory: &SimDirectory| open(medium.directory(directory)?, quiet(1));
            let directory = medium.fresh(seed);
            let (log, ..) = open(&directory).unwrap();
            let stream = log.assign();
            let acknowledged = commit(&stream, b"acknowledged");
            directory.inject(Fault::WriteError { nth: directory.writes() });
            let torn = stream.append(&[7; 1400]).unwrap();
            stream.wait(torn).unwrap_err();
            // The next recovery fails at one of its writes, and what it reached is seen but in flight.
            let second = directory.process_crash();
            second.inject(Fault::WriteError { nth });
            drop(open(&second));
            let third = second.process_crash();
            let (log, ..) = open(&third).unwrap();
            let acknowledged = commit(&log.assign(), b"in place of the torn chunk's first sector").max(acknowledged);
            for survivor in 0..4 {
                let (_, recovery, _) = open(&third.survivors(seed.derive(survivor))).unwrap();
                assert!(recovery.cut >= acknowledged);
            }
        }
    });
}
