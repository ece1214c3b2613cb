//! Power cuts, process deaths, failures and rot on the simulated medium.
//!
//! A workload over several streams is run once to count its operations, then once for each of them with the power cut
//! there, in every way in which a log can be kept. What it must then show is known.

mod trial;

use ishigaki_base::random::Seed;
use ishigaki_base::{ByteSize, ErrorKind, StreamId};
use ishigaki_device::Fault;
use ishigaki_wal::{CommitRule, Error, Group, Log, LogKind, Result, Settings};

use trial::{Model, Trial, Way, checked_bytes, each_way, failures, flip_checked, flip_written};

/// Survivors looked at for every cut.
const SEEDS: u64 = 8;

/// Of so many cuts of a life one, where its recovery is then cut at every operation, and the next one as well.
const EVERY: u64 = 3;

const TRIAL: Trial = Trial { settings, work };

fn settings(Way { kind, commit, .. }: Way, _: Seed) -> Settings {
    let group = Group { transactions: 4, ..Group::default() };
    Settings {
        kind,
        commit,
        streams: streams(kind),
        segment: ByteSize::kib(16),
        group,
        background: false,
        ..Settings::default()
    }
}

fn streams(kind: LogKind) -> u16 {
    if kind == LogKind::Serial { 1 } else { 3 }
}

/// Appends on all streams, with and without dependencies, waits now and then. Ends at the first error.
fn work(log: &Log, model: &mut Model, seed: Seed, turns: usize, way: Way) -> Result<()> {
    let mut random = seed.generator();
    for _ in 0..turns {
        let stream = log.stream(StreamId(random.u16(0..streams(way.kind)))).expect("there is that stream");
        if random.u8(0..10) == 0 {
            drop(stream.draw(random.usize(..9000))?);
        }
        let receipt = model.append(&stream, &mut random, 8)?;
        let lsn = receipt.lsn();
        stream.pace();
        match random.u8(0..4) {
            0 => {
                stream.wait(lsn)?;
                model.acknowledge_up_to(lsn);
            }
            1 => {
                stream.settle(&receipt)?;
                model.acknowledge(lsn);
            }
            _ => {}
        }
        if way.commit == CommitRule::Watermark && log.is_durable(lsn) {
            model.acknowledge_up_to(lsn);
        } else if log.has_settled(&receipt) {
            model.acknowledge(lsn);
        }
    }
    Ok(())
}

#[test]
fn nothing_acknowledged_is_lost_and_nothing_dropped_returns_wherever_the_power_is_cut() {
    each_way("nothing_acknowledged_is_lost_and_nothing_dropped_returns_wherever_the_power_is_cut", 2, |seed, way| {
        let turns = 60;
        TRIAL.cut_at_each(TRIAL.complete(seed, turns, way).operations(), seed, turns, 6, SEEDS, way);
    });
}

#[test]
fn a_recovery_that_is_cut_twice_in_a_row_recovers_the_same() {
    each_way("a_recovery_that_is_cut_twice_in_a_row_recovers_the_same", 1, |seed, way| {
        // A recovery of one stream has fewer operations to be cut at.
        let turns = if way.kind == LogKind::Serial { 80 } else { 40 };
        let mut twice = 0;
        // Each run takes others of the life's operations, and all of the recoveries'.
        for operation in (seed.0 % EVERY..TRIAL.complete(seed, turns, way).operations()).step_by(EVERY as usize) {
            let (medium, model) = TRIAL.cut_at(operation, seed, turns, way);
            let first = medium.survivors(seed.derive(operation));
            TRIAL.cut_each_recovery(&first, &model, seed, way, &mut |second, model| {
                TRIAL.cut_each_recovery(second, model, seed.derive(1), way, &mut |third, model| {
                    TRIAL.live(third, &mut model.clone(), seed.derive(2), 3, way).unwrap();
                    twice += 1;
                });
            });
        }
        assert!(twice > 400, "{way:?}: only {twice} double cuts");
    });
}

#[test]
fn what_a_dead_process_wrote_and_the_next_one_showed_survives_a_power_cut() {
    each_way("what_a_dead_process_wrote_and_the_next_one_showed_survives_a_power_cut", 60, |seed, way| {
        let medium = way.medium.fresh(seed);
        let mut model = Model::default();
        let log = TRIAL.recover(&medium, &mut model, seed, way).unwrap();
        let fault = seed.generator().u64(..40);
        medium.inject(Fault::WriteError { nth: medium.writes() + fault });
        work(&log, &mut model, seed, 30, way).ok();
        let next = medium.process_crash();
        // What this recovery shows counts as acknowledged: somebody may have read it.
        drop(TRIAL.recover(&next, &mut model, seed, way).unwrap());
        for survivor in (0..SEEDS).map(|survivor| seed.derive(survivor)) {
            TRIAL.recover(&next.survivors(survivor), &mut model.clone(), survivor, way).unwrap();
        }
    });
}

#[test]
fn what_a_killed_process_left_carries_what_the_next_one_appends_until_the_power_is_cut() {
    each_way("what_a_killed_process_left_carries_what_the_next_one_appends_until_the_power_is_cut", 1, |seed, way| {
        let operations = seed.0 % EVERY..TRIAL.complete(seed, 60, way).operations();
        TRIAL.killed_and_cut(operations.step_by(EVERY as usize), seed, 60, way);
    });
}

#[test]
fn after_any_failed_write_or_sync_nothing_is_acknowledged_and_reopening_works() {
    each_way("after_any_failed_write_or_sync_nothing_is_acknowledged_and_reopening_works", 2, |seed, way| {
        let turns = 40;
        for fault in failures(&TRIAL.complete(seed, turns, way)) {
            let medium = way.medium.fresh(seed);
            medium.inject(fault);
            let mut model = Model::default();
            let Ok(log) = TRIAL.recover(&medium, &mut model, seed, way) else {
                TRIAL.recover(&medium, &mut model, seed, way).expect("what failed once is opened again");
                continue;
            };
            if let Err(error) = work(&log, &mut model, seed, turns, way) {
                assert_eq!(error.kind(), ErrorKind::Closed, "{fault:?}: {error}");
                for id in 0..streams(way.kind) {
                    let refused = log.stream(StreamId(id)).unwrap().append(b"later").unwrap_err();
                    assert!(matches!(refused, Error::Failed { .. }), "{fault:?}: {refused}");
                }
            }
            drop(log);
            let next = medium.process_crash();
            TRIAL.recover(&next, &mut model, seed, way).unwrap();
            for survivor in (0..SEEDS).map(|survivor| seed.derive(survivor)) {
                TRIAL.recover(&next.survivors(survivor), &mut model.clone(), survivor, way).unwrap();
            }
        }
    });
}

#[test]
fn a_flipped_bit_is_found_or_harmless_never_shown() {
    each_way("a_flipped_bit_is_found_or_harmless_never_shown", 1, |seed, way| {
        let turns = 40;
        let operations = TRIAL.complete(seed, turns, way).operations();
        for operation in [u64::MAX, operations / 2, operations - 3] {
            let medium = way.medium.fresh(seed);
            medium.inject(Fault::PowerCut { operation });
            let mut model = Model::default();
            TRIAL.live(&medium, &mut model, seed, turns, way).ok();
            for survivor in (0..4).map(|survivor| seed.derive(survivor)) {
                let at_rest = medium.survivors(survivor);
                let checked = checked_bytes(way.medium.directory(&at_rest).unwrap().as_ref());
                for round in 0..100 {
                    let rotten = at_rest.survivors(survivor);
                    let mut random = survivor.derive(round).generator();
                    let is_checked = round % 2 == 0;
                    let place = if is_checked {
                        flip_checked(way.medium.directory(&rotten).unwrap().as_ref(), &checked, &mut random)
                    } else {
                        flip_written(&rotten, &mut random)
                    };
                    match TRIAL.recover(&rotten, &mut model.clone(), survivor, way) {
                        Err(error) => assert!(matches!(error.kind(), ErrorKind::Corrupt), "{place}: {error}"),
                        // `recover` has seen that nothing acknowledged is missing or changed.
                        Ok(_) => assert!(!is_checked, "{place}: a flipped bit was overlooked"),
                    }
                }
            }
        }
    });
}
