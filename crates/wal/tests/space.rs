//! Power cuts and failures of a log that is trimmed and whose segments are used again.
//!
//! The model plays the engine above: now and then it has everything before some point elsewhere and trims the log. What a
//! log must then show is known: everything acknowledged from its start on, and nothing from before; the start is the
//! latest that was noted, or one that was about to be.

#[path = "space/bound.rs"]
mod bound;

use std::collections::{BTreeMap, BTreeSet};
use std::error;
use std::sync::{Arc, Mutex};

use ishigaki_base::random::Seed;
use ishigaki_base::{ByteSize, ErrorKind, Lsn, Position, StreamId};
use ishigaki_device::{Fault, SimDirectory};
use ishigaki_testkit::seeded_runs;
use ishigaki_wal::{
    CommitRule, Dependencies, Group, Log, LogKind, Progress, Recovery, Result, Settings, Sink, Start, inspect,
};

/// Survivors looked at for every cut.
const SEEDS: u64 = 8;

#[derive(Clone, Debug, Default)]
struct Model {
    appended: BTreeMap<u64, Entry>,
    acknowledged: BTreeSet<u64>,
    /// The log needs no more than what lies from here on, and has said so.
    noted: Start,
    /// It may have come to say so.
    asked: Start,
    /// What lies before here is elsewhere, durably.
    elsewhere: Start,
}

#[derive(Clone, Debug, PartialEq)]
struct Entry {
    payload: Vec<u8>,
    position: Position,
    /// The LSNs that it depends on.
    reads: Vec<u64>,
}

impl Model {
    fn acknowledge_up_to(&mut self, lsn: Lsn) {
        self.acknowledged.extend(self.appended.range(..=lsn.0).map(|(&lsn, _)| lsn));
    }

    /// What lies before the start is gone.
    fn forget_before(&mut self, start: Start) {
        self.appended = self.appended.split_off(&start.lsn.0);
        self.acknowledged = self.acknowledged.split_off(&start.lsn.0);
    }

    /// Checks what a recovered log shows and takes it for the truth from here on.
    fn check(
        &mut self,
        shown: &BTreeMap<u64, (Position, Vec<u8>)>,
        recovery: &Recovery,
        from: Start,
        rule: CommitRule,
    ) {
        let (start, cut) = (recovery.start, recovery.cut);
        assert!(start >= self.noted.max(from) && start <= self.asked.max(from), "it starts at {start}: {self:?}");
        self.forget_before(start);
        for lsn in &self.acknowledged {
            assert!(shown.contains_key(lsn), "record {lsn} was acknowledged and is not there, from {start} on");
        }
        if rule == CommitRule::Watermark {
            assert_eq!(shown.len(), self.appended.range(..=cut.0).count(), "there is a gap below {cut}");
        }
        for (lsn, (position, payload)) in shown {
            let entry = self.appended.get(lsn).unwrap_or_else(|| panic!("record {lsn} is not known from {start} on"));
            assert!((entry.position, &entry.payload) == (*position, payload), "record {lsn} is another one");
            for read in entry.reads.iter().filter(|&&read| read >= start.lsn.0) {
                assert!(shown.contains_key(read), "record {lsn} is there, but not {read}, which it depends on");
            }
        }
        self.appended.retain(|lsn, _| shown.contains_key(lsn));
        self.acknowledge_up_to(Lsn::MAX);
        (self.noted, self.asked) = (start, start);
    }
}

type Way = (LogKind, CommitRule);

const WAYS: [Way; 3] = [
    (LogKind::Parallel, CommitRule::Watermark),
    (LogKind::Parallel, CommitRule::Dependencies),
    (LogKind::EPOCH, CommitRule::Dependencies),
];

/// The number of streams differs from life to life: some are then not written any more, and yet must be freed.
fn settings((kind, commit): Way, seed: Seed) -> Settings {
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
fn recover(directory: &SimDirectory, model: &mut Model, seed: Seed, way: Way) -> Result<Arc<Log>> {
    let shown = Shown::default();
    let mut random = seed.generator();
    let from = if random.bool() { model.elsewhere } else { Start::default() };
    let threads = random.choice([0, 0, 0, 1, 1, 3]).expect("there are some");
    let (medium, settings) = (Arc::new(directory.clone()), settings(way, seed));
    let opened = if threads == 0 {
        Log::open_from(medium, settings, from, &mut |position, payload| shown.take(position, payload))
    } else {
        let settings = Settings { recovery_threads: threads, ..settings };
        Log::recover(medium, settings, from, &shown, &Progress::default())
    };
    if opened.is_err() && directory.power_is_on() {
        return opened.map(|(log, _)| log);
    }
    // A cut behind the new generation leaves what was shown for the next one to find.
    let (log, recovery) = opened?;
    model.check(&shown.0.into_inner().unwrap(), &recovery, from, way.1);
    Ok(log)
}

/// Appends, waits and trims now and then. Ends at the first error.
fn work(log: &Log, model: &mut Model, seed: Seed, turns: usize, way: Way) -> Result<()> {
    let mut random = seed.generator();
    let streams = settings(way, seed).streams;
    let mut points = vec![log.here()];
    for turn in 0..turns {
        let stream = log.stream(StreamId(random.u16(0..streams))).expect("it is one of them");
        let length = if random.u8(0..3) == 0 { random.usize(..9000) } else { random.usize(..300) };
        let payload: Vec<u8> = (0..length).map(|_| random.u8(1..)).collect();
        let (mut dependencies, mut reads) = (Dependencies::default(), Vec::new());
        for entry in model.appended.values().rev().take(6).filter(|_| random.u8(0..4) == 0) {
            dependencies.add(entry.position);
            reads.push(entry.position.lsn().0);
        }
        let receipt = stream.append_after(&dependencies, &payload)?;
        model.appended.insert(receipt.lsn().0, Entry { payload, position: receipt.position(), reads });
        stream.pace();
        if random.u8(0..4) == 0 {
            stream.settle(&receipt)?;
            model.acknowledged.insert(receipt.lsn().0);
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

/// A life: opens, works, and dies by whatever the directory has in store.
fn live(directory: &SimDirectory, model: &mut Model, seed: Seed, turns: usize, way: Way) -> Result<()> {
    let log = recover(directory, model, seed, way)?;
    let result = work(&log, model, seed, turns, way);
    if result.is_ok() {
        log.close()?;
        model.acknowledge_up_to(log.last_drawn());
    }
    result
}

/// How many operations a life has when nothing goes wrong; segments are freed in it.
fn operations(seed: Seed, turns: usize, way: Way) -> u64 {
    let directory = SimDirectory::with_seed(seed);
    live(&directory, &mut Model::default(), seed, turns, way).unwrap();
    let operations = directory.operations();
    let report = inspect(&directory).unwrap();
    assert!(
        report.spares > 0 || report.streams.iter().any(|stream| stream.end_segment >= stream.segments as u64),
        "{report:?}"
    );
    operations
}

fn cut_at(operation: u64, seed: Seed, turns: usize, way: Way) -> (SimDirectory, Model) {
    let directory = SimDirectory::with_seed(seed);
    directory.inject(Fault::PowerCut { operation });
    let mut model = Model::default();
    assert!(live(&directory, &mut model, seed, turns, way).is_err(), "the cut at {operation} is noticed");
    (directory, model)
}

fn each_way(name: &str, runs: u64, test: impl Fn(Seed, Way)) {
    seeded_runs(name, runs, |seed| WAYS.iter().for_each(|&way| test(seed, way)));
}

#[test]
fn a_trimmed_log_loses_nothing_behind_its_start_wherever_the_power_is_cut() {
    each_way("a_trimmed_log_loses_nothing_behind_its_start_wherever_the_power_is_cut", 3, |seed, way| {
        let turns = 80;
        for operation in 0..operations(seed, turns, way) {
            let (directory, model) = cut_at(operation, seed, turns, way);
            for survivor in 0..SEEDS {
                let (mut model, survivors) = (model.clone(), directory.survivors(seed.derive(survivor)));
                live(&survivors, &mut model, seed.derive(!survivor), 20, way).unwrap();
                recover(&survivors, &mut model, seed.derive(survivor), way).unwrap();
            }
        }
    });
}

#[test]
fn a_recovery_of_a_trimmed_log_may_itself_be_cut_anywhere() {
    each_way("a_recovery_of_a_trimmed_log_may_itself_be_cut_anywhere", 2, |seed, way| {
        let turns = 80;
        let mut cuts = 0;
        for operation in 0..operations(seed, turns, way) {
            let (directory, model) = cut_at(operation, seed, turns, way);
            let medium = directory.survivors(seed.derive(operation));
            for second in 0.. {
                // Survivors of a medium that is at rest are a copy of it.
                let (copy, mut model) = (medium.survivors(seed), model.clone());
                copy.inject(Fault::PowerCut { operation: second });
                // Whether it notes its start is not known when it is cut.
                model.asked = model.asked.max(model.elsewhere);
                let opened = recover(&copy, &mut model.clone(), seed.derive(1), way);
                let uncut = opened.is_ok() && copy.operations() <= second;
                copy.power_cut_now();
                drop(opened);
                if uncut {
                    break;
                }
                let survivors = copy.survivors(seed.derive(second));
                live(&survivors, &mut model, seed.derive(2), 8, way).unwrap();
                recover(&survivors, &mut model, seed.derive(3), way).unwrap();
                cuts += 1;
            }
        }
        assert!(cuts > 300, "only {cuts} cuts of recoveries");
    });
}

#[test]
fn any_failed_write_or_sync_closes_a_trimmed_log_and_reopening_works() {
    each_way("any_failed_write_or_sync_closes_a_trimmed_log_and_reopening_works", 3, |seed, way| {
        let turns = 60;
        let count = SimDirectory::with_seed(seed);
        live(&count, &mut Model::default(), seed, turns, way).unwrap();
        let writes = (0..count.writes()).map(|nth| Fault::WriteError { nth });
        let syncs = (0..count.syncs()).map(|nth| Fault::SyncError { nth });
        for fault in writes.chain(syncs) {
            let directory = SimDirectory::with_seed(seed);
            directory.inject(fault);
            let mut model = Model::default();
            if let Ok(log) = recover(&directory, &mut model, seed, way)
                && let Err(error) = work(&log, &mut model, seed, turns, way)
            {
                assert_eq!(error.kind(), ErrorKind::Closed, "{fault:?}: {error}");
                assert!(log.trim(log.here()).is_err(), "{fault:?}: it is closed");
            }
            let next = directory.process_crash();
            // Another process works on, with names that a failed sync may have lost; then the power goes.
            live(&next, &mut model, seed.derive(1), 30, way).unwrap();
            for survivor in 0..SEEDS {
                let (survivors, mut model) = (next.survivors(seed.derive(survivor)), model.clone());
                let seen = inspect(&survivors).unwrap();
                assert!(seen.problem.is_none(), "{fault:?}: {:?}", seen.problem);
                recover(&survivors, &mut model, seed.derive(survivor), way).unwrap();
            }
        }
    });
}

#[test]
fn a_trimmed_log_survives_many_lives_and_keeps_using_its_segments_again() {
    each_way("a_trimmed_log_survives_many_lives_and_keeps_using_its_segments_again", 4, |seed, way| {
        let mut random = seed.generator();
        let mut directory = SimDirectory::with_seed(seed);
        let mut model = Model::default();
        for round in 0..60 {
            let fault = match random.u8(0..4) {
                0 => Some(Fault::PowerCut { operation: random.u64(..150) }),
                1 => Some(Fault::WriteError { nth: random.u64(..100) }),
                2 => Some(Fault::SyncError { nth: random.u64(..40) }),
                _ => None,
            };
            if let Some(fault) = fault {
                directory.inject(fault);
            }
            let before = model.clone();
            let ended = live(&directory, &mut model, seed.derive(round), random.usize(..60), way);
            assert!(ended.is_ok() || fault.is_some(), "{ended:?}");
            // An opening that failed may have noted what it was asked to start from.
            model.asked = model.asked.max(before.elsewhere);
            directory =
                if random.bool() { directory.process_crash() } else { directory.survivors(seed.derive(!round)) };
        }
        recover(&directory, &mut model, seed, way).unwrap();
        let bytes: u64 = directory.devices().iter().map(|(_, length)| length).sum();
        assert!(bytes < 3 << 20, "{bytes} bytes are left of sixty lives");
    });
}
