//! Power cuts and failures of a log that is trimmed and whose segments are used again.
//!
//! The workload plays the engine above: now and then it has everything before some point elsewhere and trims the log. What
//! a log must then show is known: everything acknowledged from its start on, and nothing from before.

#[path = "space/bound.rs"]
mod bound;
mod trial;

use ishigaki_base::random::Seed;
use ishigaki_base::{ByteSize, ErrorKind, StreamId};
use ishigaki_device::{Fault, SimDirectory};
use ishigaki_wal::{Group, Inspection, Log, LogKind, Result, Settings, inspect};

use trial::{Model, Trial, Way, each_way, failures};

/// Survivors looked at for every cut.
const SEEDS: u64 = 3;

/// Of so many cuts of a life one, where its recovery is then cut at every operation.
const EVERY: u64 = 3;

const TRIAL: Trial = Trial { settings, work };

/// The number of streams differs from life to life: some are then not written any more, and yet must be freed.
fn settings(Way { kind, commit, .. }: Way, seed: Seed) -> Settings {
    let mut random = seed.generator();
    let group = Group { transactions: 4, ..Group::default() };
    Settings {
        kind,
        commit,
        streams: random.u16(1..=3),
        segment: ByteSize::kib(*random.choice(&[16, 16, 16, 20]).expect("there are some")),
        group,
        trim: random.bool(),
        background: false,
        ..Settings::default()
    }
}

/// Appends, waits and trims now and then. Ends at the first error.
fn work(log: &Log, model: &mut Model, seed: Seed, turns: usize, way: Way) -> Result<()> {
    let mut random = seed.generator();
    let streams = if way.kind == LogKind::Serial { 1 } else { settings(way, seed).streams };
    let mut points = vec![log.here()];
    for turn in 0..turns {
        let stream = log.stream(StreamId(random.u16(0..streams))).expect("it is one of them");
        let receipt = model.append(&stream, &mut random, 3)?;
        stream.pace();
        if random.u8(0..4) == 0 {
            stream.settle(&receipt)?;
            model.acknowledge(receipt.lsn());
        }
        points.push(log.here());
        if turn % 16 == 15 || random.u8(0..10) == 0 {
            let to = points[random.usize(points.len() / 2..points.len())];
            // An engine that made its checkpoint whole, and one that leaves that to the trim.
            let flushes = random.bool();
            if flushes {
                log.flush()?;
                model.acknowledge_up_to(log.last_drawn());
                model.elsewhere = model.elsewhere.max(to);
            }
            if !flushes || random.u8(0..4) != 0 {
                model.asked = model.asked.max(to);
                log.trim(to)?;
                (model.noted, model.elsewhere) = (model.noted.max(to), model.elsewhere.max(to));
            }
        }
    }
    Ok(())
}

fn look(medium: &SimDirectory, way: Way) -> Inspection {
    inspect(way.medium.directory(medium).unwrap().as_ref()).unwrap()
}

/// A life in which segments are freed, and how many operations it has when nothing goes wrong. Few lives have records so small that none is freed.
fn freeing(seed: Seed, turns: usize, way: Way) -> (Seed, u64) {
    let lives = (0..8).map(|life| if life == 0 { seed } else { seed.derive(life) });
    let mut found = lives.map(|life| (life, TRIAL.complete(life, turns, way)));
    let frees = |medium: &SimDirectory| {
        let report = look(medium, way);
        report.spares > 0 || report.streams.iter().any(|stream| stream.end_segment >= stream.segments as u64)
    };
    let (life, medium) = found.find(|(_, medium)| frees(medium)).expect("segments are freed in one of several lives");
    (life, medium.operations())
}

#[test]
fn a_trimmed_log_loses_nothing_behind_its_start_wherever_the_power_is_cut() {
    each_way("a_trimmed_log_loses_nothing_behind_its_start_wherever_the_power_is_cut", 1, |seed, way| {
        let turns = 80;
        let (seed, operations) = freeing(seed, turns, way);
        TRIAL.cut_at_each(operations, seed, turns, 20, SEEDS, way);
    });
}

#[test]
fn a_recovery_of_a_trimmed_log_may_itself_be_cut_anywhere() {
    each_way("a_recovery_of_a_trimmed_log_may_itself_be_cut_anywhere", 1, |seed, way| {
        let turns = 80;
        let (seed, operations) = freeing(seed, turns, way);
        let mut cuts = 0;
        for operation in (seed.0 % EVERY..operations).step_by(EVERY as usize) {
            let (medium, model) = TRIAL.cut_at(operation, seed, turns, way);
            let survivors = medium.survivors(seed.derive(operation));
            TRIAL.cut_each_recovery(&survivors, &model, seed.derive(1), way, &mut |survivors, model| {
                let mut model = model.clone();
                TRIAL.live(survivors, &mut model, seed.derive(2), 8, way).unwrap();
                TRIAL.recover(survivors, &mut model, seed.derive(3), way).unwrap();
                cuts += 1;
            });
        }
        assert!(cuts > 100, "{way:?}: only {cuts} cuts of recoveries");
    });
}

#[test]
fn what_a_killed_process_left_of_a_trim_carries_what_the_next_one_appends_until_the_power_is_cut() {
    let name = "what_a_killed_process_left_of_a_trim_carries_what_the_next_one_appends_until_the_power_is_cut";
    each_way(name, 1, |seed, way| {
        let (seed, operations) = freeing(seed, 80, way);
        TRIAL.killed_and_cut((seed.0 % EVERY..operations).step_by(EVERY as usize), seed, 80, way);
    });
}

#[test]
fn any_failed_write_or_sync_closes_a_trimmed_log_and_reopening_works() {
    each_way("any_failed_write_or_sync_closes_a_trimmed_log_and_reopening_works", 1, |seed, way| {
        let turns = 60;
        for fault in failures(&TRIAL.complete(seed, turns, way)) {
            let medium = way.medium.fresh(seed);
            medium.inject(fault);
            let mut model = Model::default();
            if let Ok(log) = TRIAL.recover(&medium, &mut model, seed, way)
                && let Err(error) = work(&log, &mut model, seed, turns, way)
            {
                assert_eq!(error.kind(), ErrorKind::Closed, "{fault:?}: {error}");
                assert!(log.trim(log.here()).is_err(), "{fault:?}: it is closed");
            }
            let next = medium.process_crash();
            // Another process works on, with names that a failed sync may have lost; then the power goes.
            TRIAL.live(&next, &mut model, seed.derive(1), 30, way).unwrap();
            for survivor in 0..SEEDS {
                let (survivors, mut model) = (next.survivors(seed.derive(survivor)), model.clone());
                let seen = look(&survivors, way);
                assert!(seen.problem.is_none(), "{fault:?}: {:?}", seen.problem);
                TRIAL.recover(&survivors, &mut model, seed.derive(survivor), way).unwrap();
            }
        }
    });
}

#[test]
fn a_trimmed_log_survives_many_lives_and_keeps_using_its_segments_again() {
    each_way("a_trimmed_log_survives_many_lives_and_keeps_using_its_segments_again", 4, |seed, way| {
        let mut random = seed.generator();
        let mut medium = way.medium.fresh(seed);
        let mut model = Model::default();
        for round in 0..60 {
            let fault = match random.u8(0..4) {
                0 => Some(Fault::PowerCut { operation: random.u64(..150) }),
                1 => Some(Fault::WriteError { nth: random.u64(..100) }),
                2 => Some(Fault::SyncError { nth: random.u64(..40) }),
                _ => None,
            };
            if let Some(fault) = fault {
                medium.inject(fault);
            }
            let ended = TRIAL.live(&medium, &mut model, seed.derive(round), random.usize(..60), way);
            assert!(ended.is_ok() || fault.is_some(), "{ended:?}");
            medium = if random.bool() { medium.process_crash() } else { medium.survivors(seed.derive(!round)) };
        }
        TRIAL.recover(&medium, &mut model, seed, way).unwrap();
        let directory = way.medium.directory(&medium).unwrap();
        let names = directory.list().unwrap();
        let bytes: u64 = names.iter().map(|name| directory.open(name).unwrap().len()).sum();
        assert!(bytes < 3 << 20, "{bytes} bytes are left of sixty lives");
    });
}
