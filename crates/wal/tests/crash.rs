//! Power cuts, process deaths, failures and rot on the simulated medium.
//!
//! A workload over several streams is run once to count its operations, then once for each of them with the power cut
//! there. What a log must then show is known: everything acknowledged, nothing but what was appended, and of what a
//! record depends on, all; under the watermark's rule a prefix. It is opened one record after the other or in parallel.

use std::collections::{BTreeMap, BTreeSet};
use std::error;
use std::sync::{Arc, Mutex};

use ishigaki_base::random::Seed;
use ishigaki_base::{ByteSize, ErrorKind, Lsn, Position, StreamId};
use ishigaki_device::{Fault, SimDirectory};
use ishigaki_testkit::seeded_runs;
use ishigaki_wal::{CommitRule, Dependencies, Error, Group, Log, LogKind, Progress, Result, Settings, Sink, Start};

/// Survivors looked at for every cut.
const SEEDS: u64 = 20;

/// Every kind and rule is cut.
const WAYS: [(LogKind, CommitRule); 5] = [
    (LogKind::Parallel, CommitRule::Watermark),
    (LogKind::Parallel, CommitRule::Dependencies),
    (LogKind::EPOCH, CommitRule::Dependencies),
    (LogKind::Serial, CommitRule::Watermark),
    (LogKind::Serial, CommitRule::Dependencies),
];

/// What was appended, and what of it was acknowledged.
#[derive(Clone, Debug, Default)]
struct Model {
    appended: BTreeMap<u64, Entry>,
    acknowledged: BTreeSet<u64>,
}

#[derive(Clone, Debug, PartialEq)]
struct Entry {
    payload: Vec<u8>,
    position: Position,
    /// The LSNs that it depends on.
    reads: Vec<u64>,
}

impl Model {
    /// Everything up to that LSN is durable.
    fn acknowledge_up_to(&mut self, lsn: Lsn) {
        self.acknowledged.extend(self.appended.range(..=lsn.0).map(|(&lsn, _)| lsn));
    }

    /// Checks what a recovered log shows and takes it for the truth from here on.
    fn check(&mut self, shown: &BTreeMap<u64, (Position, Vec<u8>)>, cut: Lsn, rule: CommitRule) {
        for lsn in &self.acknowledged {
            assert!(shown.contains_key(lsn), "record {lsn} was acknowledged and is not there");
        }
        if rule == CommitRule::Watermark {
            assert_eq!(shown.len(), self.appended.range(..=cut.0).count(), "there is a gap below {cut}");
        }
        for (lsn, (position, payload)) in shown {
            let entry = self.appended.get(lsn).unwrap_or_else(|| panic!("record {lsn} was never appended"));
            assert!((entry.position, &entry.payload) == (*position, payload), "record {lsn} is another one");
            for read in &entry.reads {
                assert!(shown.contains_key(read), "record {lsn} is there, but not {read}, which it depends on");
            }
        }
        self.appended.retain(|lsn, _| shown.contains_key(lsn));
        self.acknowledge_up_to(Lsn::MAX);
    }
}

fn settings((kind, commit): Way) -> Settings {
    let group = Group { transactions: 4, ..Group::default() };
    let streams = if kind == LogKind::Serial { 1 } else { 3 };
    Settings { kind, commit, streams, segment: ByteSize::kib(16), group, background: false, ..Settings::default() }
}

type Way = (LogKind, CommitRule);

/// What a recovery has shown.
#[derive(Default)]
struct Shown(Mutex<BTreeMap<u64, (Position, Vec<u8>)>>);

impl Sink for Shown {
    fn take(&self, position: Position, payload: &[u8]) -> std::result::Result<(), Box<dyn error::Error + Send + Sync>> {
        let before = self.0.lock().unwrap().insert(position.lsn().0, (position, payload.to_vec()));
        assert!(before.is_none(), "a record is shown once");
        Ok(())
    }
}

/// Opens one by one or in parallel, checks against the model, and gives the log.
fn recover(directory: &SimDirectory, model: &mut Model, way: Way) -> Result<Arc<Log>> {
    let shown = Shown::default();
    // As good as random, and the same when a seed is replayed.
    let threads = [0, 1, 0, 1, 0, 1, 3][(model.appended.len() + model.acknowledged.len()) % 7];
    let (directory, settings) = (Arc::new(directory.clone()), settings(way));
    let (log, recovery) = if threads == 0 {
        Log::open(directory, settings, &mut |position, payload| shown.take(position, payload))?
    } else {
        let settings = Settings { recovery_threads: threads, ..settings };
        Log::recover(directory, settings, Start::default(), &shown, &Progress::default())?
    };
    model.check(&shown.0.into_inner().unwrap(), recovery.cut, way.1);
    Ok(log)
}

/// Appends on all streams, with and without dependencies, waits now and then. Ends at the first error.
fn work(log: &Log, model: &mut Model, seed: Seed, turns: usize, way: Way) -> Result<()> {
    let mut random = seed.generator();
    for _ in 0..turns {
        let stream = log.stream(StreamId(random.u16(0..settings(way).streams))).expect("there is that stream");
        let length = if random.u8(0..8) == 0 { random.usize(..9000) } else { random.usize(..300) };
        let payload: Vec<u8> = (0..length).map(|_| random.u8(1..)).collect();
        if random.u8(0..10) == 0 {
            drop(stream.draw(length)?);
        }
        let mut dependencies = Dependencies::default();
        let mut reads = Vec::new();
        for entry in model.appended.values().rev().take(6).filter(|_| random.u8(0..4) == 0) {
            dependencies.add(entry.position);
            reads.push(entry.position.lsn().0);
        }
        let receipt = stream.append_after(&dependencies, &payload)?;
        let lsn = receipt.lsn();
        model.appended.insert(lsn.0, Entry { payload, position: receipt.position(), reads });
        stream.pace();
        match random.u8(0..4) {
            0 => {
                stream.wait(lsn)?;
                model.acknowledge_up_to(lsn);
            }
            1 => {
                stream.settle(&receipt)?;
                model.acknowledged.insert(lsn.0);
            }
            _ => {}
        }
        if way.1 == CommitRule::Watermark && log.is_durable(lsn) {
            model.acknowledge_up_to(lsn);
        } else if log.has_settled(&receipt) {
            model.acknowledged.insert(lsn.0);
        }
    }
    Ok(())
}

/// Runs a test for every way, with that many seeds.
fn each_way(name: &str, runs: u64, test: impl Fn(Seed, Way)) {
    seeded_runs(name, runs, |seed| WAYS.iter().for_each(|&way| test(seed, way)));
}

/// A life: opens, works, and dies by whatever the directory has in store.
fn live(directory: &SimDirectory, model: &mut Model, seed: Seed, turns: usize, way: Way) -> Result<()> {
    let log = recover(directory, model, way)?;
    let result = work(&log, model, seed, turns, way);
    if result.is_ok() {
        log.close()?;
        model.acknowledge_up_to(log.last_drawn());
    }
    result
}

/// How many operations a life has when nothing goes wrong.
fn operations(seed: Seed, turns: usize, way: Way) -> u64 {
    let directory = SimDirectory::with_seed(seed);
    live(&directory, &mut Model::default(), seed, turns, way).unwrap();
    directory.operations()
}

/// The medium and the model after the power was cut at that operation of a life.
fn cut_at(operation: u64, seed: Seed, turns: usize, way: Way) -> (SimDirectory, Model) {
    let directory = SimDirectory::with_seed(seed);
    directory.inject(Fault::PowerCut { operation });
    let mut model = Model::default();
    assert!(live(&directory, &mut model, seed, turns, way).is_err(), "the cut at {operation} is noticed");
    (directory, model)
}

#[test]
fn nothing_acknowledged_is_lost_and_nothing_dropped_returns_wherever_the_power_is_cut() {
    each_way("nothing_acknowledged_is_lost_and_nothing_dropped_returns_wherever_the_power_is_cut", 5, |seed, way| {
        let turns = 60;
        for operation in 0..operations(seed, turns, way) {
            let (directory, model) = cut_at(operation, seed, turns, way);
            for survivor in 0..SEEDS {
                let (mut model, survivors) = (model.clone(), directory.survivors(seed.derive(survivor)));
                live(&survivors, &mut model, seed.derive(!survivor), 6, way).unwrap();
                // A third life: what the second recovery dropped must not be there now.
                recover(&survivors, &mut model, way).unwrap();
            }
        }
    });
}

#[test]
fn a_recovery_that_is_cut_twice_in_a_row_recovers_the_same() {
    each_way("a_recovery_that_is_cut_twice_in_a_row_recovers_the_same", 5, |seed, way| {
        // A recovery of one stream has fewer operations to be cut at.
        let turns = if way.0 == LogKind::Serial { 80 } else { 40 };
        let mut twice = 0;
        for operation in 0..operations(seed, turns, way) {
            let (directory, model) = cut_at(operation, seed, turns, way);
            let first = directory.survivors(seed.derive(operation));
            cut_each_recovery(&first, &model, seed, way, &mut |second, model| {
                cut_each_recovery(second, model, seed.derive(1), way, &mut |third, model| {
                    live(third, &mut model.clone(), seed.derive(2), 3, way).unwrap();
                    twice += 1;
                });
            });
        }
        assert!(twice > 1000, "only {twice} double cuts");
    });
}

/// Cuts the recovery of this medium at each of its operations and hands on what survives.
fn cut_each_recovery(
    medium: &SimDirectory,
    model: &Model,
    seed: Seed,
    way: Way,
    then: &mut dyn FnMut(&SimDirectory, &Model),
) {
    for operation in 0.. {
        // Survivors of a medium that is at rest are a copy of it.
        let (copy, mut model) = (medium.survivors(seed), model.clone());
        copy.inject(Fault::PowerCut { operation });
        let opened = recover(&copy, &mut model, way);
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
    each_way("what_a_dead_process_wrote_and_the_next_one_showed_survives_a_power_cut", 300, |seed, way| {
        let directory = SimDirectory::with_seed(seed);
        let mut model = Model::default();
        let log = recover(&directory, &mut model, way).unwrap();
        let fault = seed.generator().u64(..40);
        directory.inject(Fault::WriteError { nth: directory.writes() + fault });
        work(&log, &mut model, seed, 30, way).ok();
        let next = directory.process_crash();
        // What this recovery shows counts as acknowledged: somebody may have read it.
        drop(recover(&next, &mut model, way).unwrap());
        for survivor in 0..SEEDS {
            recover(&next.survivors(seed.derive(survivor)), &mut model.clone(), way).unwrap();
        }
    });
}

#[test]
fn after_any_failed_write_or_sync_nothing_is_acknowledged_and_reopening_works() {
    each_way("after_any_failed_write_or_sync_nothing_is_acknowledged_and_reopening_works", 5, |seed, way| {
        let turns = 40;
        let count = SimDirectory::with_seed(seed);
        live(&count, &mut Model::default(), seed, turns, way).unwrap();
        let writes = (0..count.writes()).map(|nth| Fault::WriteError { nth });
        let syncs = (0..count.syncs()).map(|nth| Fault::SyncError { nth });
        for fault in writes.chain(syncs) {
            let directory = SimDirectory::with_seed(seed);
            directory.inject(fault);
            let mut model = Model::default();
            let Ok(log) = recover(&directory, &mut model, way) else {
                recover(&directory, &mut model, way).expect("what failed once is opened again");
                continue;
            };
            if let Err(error) = work(&log, &mut model, seed, turns, way) {
                assert_eq!(error.kind(), ErrorKind::Closed, "{fault:?}: {error}");
                for id in 0..settings(way).streams {
                    let refused = log.stream(StreamId(id)).unwrap().append(b"later").unwrap_err();
                    assert!(matches!(refused, Error::Failed { .. }), "{fault:?}: {refused}");
                }
            }
            drop(log);
            let next = directory.process_crash();
            recover(&next, &mut model, way).unwrap();
            for survivor in 0..SEEDS {
                recover(&next.survivors(seed.derive(survivor)), &mut model.clone(), way).unwrap();
            }
        }
    });
}

#[test]
fn a_flipped_bit_is_found_or_harmless_never_shown() {
    each_way("a_flipped_bit_is_found_or_harmless_never_shown", 5, |seed, way| {
        let turns = 40;
        let mut found = 0;
        for operation in [u64::MAX, operations(seed, turns, way) / 2, operations(seed, turns, way) - 3] {
            let directory = SimDirectory::with_seed(seed);
            directory.inject(Fault::PowerCut { operation });
            let mut model = Model::default();
            live(&directory, &mut model, seed, turns, way).ok();
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
                match recover(&rotten, &mut model.clone(), way) {
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
