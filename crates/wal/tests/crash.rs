//! Power cuts, process deaths, failures and rot on the simulated medium.
//!
//! A workload over several streams is run once to count its operations, then once for each of them with the power cut
//! there. What a log must then show is known exactly: a prefix of what was appended, with everything acknowledged in it.

use std::collections::BTreeMap;
use std::sync::Arc;

use ishigaki_base::random::Seed;
use ishigaki_base::{ByteSize, ErrorKind, Lsn, StreamId};
use ishigaki_device::{Fault, SimDirectory};
use ishigaki_testkit::seeded_runs;
use ishigaki_wal::{Error, Group, Log, Result, Settings};

/// Survivors looked at for every cut.
const SEEDS: u64 = 20;

/// What was appended, and how much of it was acknowledged.
#[derive(Clone, Debug, Default)]
struct Model {
    appended: BTreeMap<u64, Vec<u8>>,
    acknowledged: u64,
}

impl Model {
    /// Checks what a recovered log shows and takes it for the truth from here on.
    fn check(&mut self, shown: &BTreeMap<u64, Vec<u8>>, cut: Lsn) {
        assert!(cut.0 >= self.acknowledged, "acknowledged up to {}, kept up to {cut}", self.acknowledged);
        self.appended.retain(|&lsn, _| lsn <= cut.0);
        assert!(*shown == self.appended, "recovery shows other records than were appended");
        self.acknowledged = cut.0;
    }
}

fn settings() -> Settings {
    let group = Group { transactions: 4, ..Group::default() };
    Settings { streams: 3, segment: ByteSize::kib(16), group, background: false }
}

/// Opens, checks against the model, and gives the log.
fn recover(directory: &SimDirectory, model: &mut Model) -> Result<Arc<Log>> {
    let mut shown = BTreeMap::new();
    let (log, recovery) = Log::open(Arc::new(directory.clone()), settings(), &mut |lsn, payload| {
        assert!(shown.insert(lsn.0, payload.to_vec()).is_none(), "a record is shown once");
        Ok(())
    })?;
    model.check(&shown, recovery.cut);
    Ok(log)
}

/// Appends on all streams, waits now and then. Ends at the first error.
fn work(log: &Log, model: &mut Model, seed: Seed, turns: usize) -> Result<()> {
    let mut random = seed.generator();
    for _ in 0..turns {
        let stream = log.stream(StreamId(random.u16(0..settings().streams))).expect("there are three streams");
        let length = if random.u8(0..8) == 0 { random.usize(..9000) } else { random.usize(..300) };
        let payload: Vec<u8> = (0..length).map(|_| random.u8(1..)).collect();
        if random.u8(0..10) == 0 {
            drop(stream.draw(length)?);
        }
        let lsn = stream.append(&payload)?;
        model.appended.insert(lsn.0, payload);
        stream.pace();
        if random.bool() {
            stream.wait(lsn)?;
            model.acknowledged = model.acknowledged.max(lsn.0);
        }
    }
    Ok(())
}

/// A life: opens, works, and dies by whatever the directory has in store.
fn live(directory: &SimDirectory, model: &mut Model, seed: Seed, turns: usize) -> Result<()> {
    let log = recover(directory, model)?;
    let result = work(&log, model, seed, turns);
    if result.is_ok() {
        log.close()?;
        model.acknowledged = log.last_drawn().0;
    }
    result
}

/// How many operations a life has when nothing goes wrong.
fn operations(seed: Seed, turns: usize) -> u64 {
    let directory = SimDirectory::with_seed(seed);
    live(&directory, &mut Model::default(), seed, turns).unwrap();
    directory.operations()
}

/// The medium and the model after the power was cut at that operation of a life.
fn cut_at(operation: u64, seed: Seed, turns: usize) -> (SimDirectory, Model) {
    let directory = SimDirectory::with_seed(seed);
    directory.inject(Fault::PowerCut { operation });
    let mut model = Model::default();
    assert!(live(&directory, &mut model, seed, turns).is_err(), "the cut at {operation} is noticed");
    (directory, model)
}

#[test]
fn nothing_acknowledged_is_lost_and_nothing_dropped_returns_wherever_the_power_is_cut() {
    seeded_runs("nothing_acknowledged_is_lost_and_nothing_dropped_returns_wherever_the_power_is_cut", 5, |seed| {
        let turns = 60;
        for operation in 0..operations(seed, turns) {
            let (directory, model) = cut_at(operation, seed, turns);
            for survivor in 0..SEEDS {
                let (mut model, survivors) = (model.clone(), directory.survivors(seed.derive(survivor)));
                live(&survivors, &mut model, seed.derive(!survivor), 6).unwrap();
                // A third life: what the second recovery dropped must not be there now.
                recover(&survivors, &mut model).unwrap();
            }
        }
    });
}

#[test]
fn a_recovery_that_is_cut_twice_in_a_row_recovers_the_same() {
    seeded_runs("a_recovery_that_is_cut_twice_in_a_row_recovers_the_same", 5, |seed| {
        let turns = 40;
        let mut twice = 0;
        for operation in 0..operations(seed, turns) {
            let (directory, model) = cut_at(operation, seed, turns);
            let first = directory.survivors(seed.derive(operation));
            cut_each_recovery(&first, &model, seed, &mut |second, model| {
                cut_each_recovery(second, model, seed.derive(1), &mut |third, model| {
                    live(third, &mut model.clone(), seed.derive(2), 3).unwrap();
                    twice += 1;
                });
            });
        }
        assert!(twice > 1000, "only {twice} double cuts");
    });
}

/// Cuts the recovery of this medium at each of its operations and hands on what survives.
fn cut_each_recovery(medium: &SimDirectory, model: &Model, seed: Seed, then: &mut dyn FnMut(&SimDirectory, &Model)) {
    for operation in 0.. {
        // Survivors of a medium that is at rest are a copy of it.
        let (copy, mut model) = (medium.survivors(seed), model.clone());
        copy.inject(Fault::PowerCut { operation });
        let opened = recover(&copy, &mut model);
        let uncut = opened.is_ok() && copy.operations() <= operation;
        copy.power_cut_now();
        drop(opened);
        if uncut {
            return;
        }
        then(&copy.survivors(seed.derive(operation)), &model);
    }
}

#[test]
fn what_a_dead_process_wrote_and_the_next_one_showed_survives_a_power_cut() {
    seeded_runs("what_a_dead_process_wrote_and_the_next_one_showed_survives_a_power_cut", 300, |seed| {
        let directory = SimDirectory::with_seed(seed);
        let mut model = Model::default();
        let log = recover(&directory, &mut model).unwrap();
        let fault = seed.generator().u64(..40);
        directory.inject(Fault::WriteError { nth: directory.writes() + fault });
        work(&log, &mut model, seed, 30).ok();
        let next = directory.process_crash();
        // What this recovery shows counts as acknowledged: somebody may have read it.
        drop(recover(&next, &mut model).unwrap());
        for survivor in 0..SEEDS {
            recover(&next.survivors(seed.derive(survivor)), &mut model.clone()).unwrap();
        }
    });
}

#[test]
fn after_any_failed_write_or_sync_nothing_is_acknowledged_and_reopening_works() {
    seeded_runs("after_any_failed_write_or_sync_nothing_is_acknowledged_and_reopening_works", 5, |seed| {
        let turns = 40;
        let count = SimDirectory::with_seed(seed);
        live(&count, &mut Model::default(), seed, turns).unwrap();
        let writes = (0..count.writes()).map(|nth| Fault::WriteError { nth });
        let syncs = (0..count.syncs()).map(|nth| Fault::SyncError { nth });
        for fault in writes.chain(syncs) {
            let directory = SimDirectory::with_seed(seed);
            directory.inject(fault);
            let mut model = Model::default();
            let Ok(log) = recover(&directory, &mut model) else {
                recover(&directory, &mut model).expect("what failed once is opened again");
                continue;
            };
            if let Err(error) = work(&log, &mut model, seed, turns) {
                assert_eq!(error.kind(), ErrorKind::Closed, "{fault:?}: {error}");
                for id in 0..settings().streams {
                    let refused = log.stream(StreamId(id)).unwrap().append(b"later").unwrap_err();
                    assert!(matches!(refused, Error::Failed { .. }), "{fault:?}: {refused}");
                }
            }
            drop(log);
            let next = directory.process_crash();
            recover(&next, &mut model).unwrap();
            for survivor in 0..SEEDS {
                recover(&next.survivors(seed.derive(survivor)), &mut model.clone()).unwrap();
            }
        }
    });
}

#[test]
fn a_flipped_bit_is_found_or_harmless_never_shown() {
    seeded_runs("a_flipped_bit_is_found_or_harmless_never_shown", 5, |seed| {
        let turns = 40;
        let mut found = 0;
        for operation in [u64::MAX, operations(seed, turns) / 2, operations(seed, turns) - 3] {
            let directory = SimDirectory::with_seed(seed);
            directory.inject(Fault::PowerCut { operation });
            let mut model = Model::default();
            live(&directory, &mut model, seed, turns).ok();
            for round in 0..400 {
                let rotten = directory.survivors(seed.derive(round % 4));
                let mut random = seed.derive(1000 + round).generator();
                let devices = rotten.devices();
                let (name, _) = &devices[random.usize(..devices.len())];
                let written = rotten.written(name).unwrap();
                if written.is_empty() {
                    continue;
                }
                let sector = written[random.usize(..written.len())];
                rotten.flip_bit(name, sector + random.u64(..512), random.u8(..8)).unwrap();
                match recover(&rotten, &mut model.clone()) {
                    Err(error) => {
                        assert!(matches!(error.kind(), ErrorKind::Corrupt), "{name}: {error}");
                        found += 1;
                    }
                    Ok(log) => drop(log), // `recover` has seen that nothing acknowledged is missing or changed
                }
            }
        }
        assert!(found > 300, "{found} flipped bits were found");
    });
}
