//! Power cuts, damage and failures, on the simulated medium.
//!
//! A workload of several sessions on several streams is run once to count its operations on the medium, then once for each
//! of them with the power cut there, each time with several seeds for what survives. What a database must then show is known
//! exactly: of the committed transactions some, each whole, with everything acknowledged and everything that they read among
//! them; under the watermark's way those up to some LSN.

#[path = "crash/checkpoints.rs"]
mod checkpoints;
#[path = "crash/model.rs"]
mod model;
#[path = "crash/workload.rs"]
mod workload;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ishigaki_base::random::Seed;
use ishigaki_base::{ByteSize, ErrorKind};
use ishigaki_device::{Directory, Fault, RawDirectory, SimDirectory};
use ishigaki_testkit::{chosen_seed, seeded};
use ishigaki_txn::{CheckpointSettings, Database, Error, ProtocolKind, Release, Result, Settings};
use ishigaki_wal::{CommitRule, LogKind};

use model::Model;

/// Survivors looked at for every cut.
const SEEDS: u64 = 10;

/// How a database is kept.
#[derive(Clone, Copy, Debug)]
struct Way {
    release: Release,
    protocol: ProtocolKind,
    kind: LogKind,
    commit: CommitRule,
    /// On one raw device instead of in files.
    raw: bool,
}

/// Every way that is cut. The protocol knows neither the kind of log nor the medium: each of them is crossed with the other
/// protocol once, at the same time.
const WAYS: [Way; 8] = [
    Way { kind: LogKind::Parallel, commit: CommitRule::Watermark, ..USUAL },
    USUAL,
    Way { kind: LogKind::Serial, ..USUAL },
    Way { raw: true, ..USUAL },
    Way { protocol: ProtocolKind::TicToc, commit: CommitRule::Watermark, ..USUAL },
    Way { protocol: ProtocolKind::TicToc, ..USUAL },
    Way { protocol: ProtocolKind::TicToc, release: Release::Normal, ..USUAL },
    Way { protocol: ProtocolKind::TicToc, kind: LogKind::Serial, raw: true, ..USUAL },
];

const USUAL: Way = Way {
    release: Release::Early,
    protocol: ProtocolKind::Locking,
    kind: LogKind::Parallel,
    commit: CommitRule::Dependencies,
    raw: false,
};

/// Runs a test in every way.
fn every_way(name: &str, test: impl Fn(Seed, Way)) {
    seeded(name, |seed| {
        for way in WAYS {
            test(seed, way);
        }
    });
}

fn settings(way: Way) -> Settings {
    let group = ishigaki_wal::Group { transactions: 4, ..Default::default() };
    let log = ishigaki_wal::Settings {
        kind: way.kind,
        streams: 2,
        segment: ByteSize::kib(16),
        group,
        commit: way.commit,
        background: false,
        ..Default::default()
    };
    // Only on demand, into several small files.
    let checkpoint = CheckpointSettings { automatic: false, part: ByteSize::kib(4), ..Default::default() };
    Settings {
        log,
        checkpoint,
        protocol: way.protocol,
        release: way.release,
        lock_wait: Duration::ZERO,
        ..Settings::default()
    }
}

/// A medium on which nothing has happened yet.
fn fresh(seed: Seed, way: Way) -> SimDirectory {
    let directory = SimDirectory::with_seed(seed);
    if !way.raw {
        return directory;
    }
    drop(RawDirectory::format(directory.medium(8 << 20).unwrap()).unwrap());
    directory.survivors(seed)
}

/// The directory that a database is opened in.
fn place(directory: &SimDirectory, way: Way) -> Result<Arc<dyn Directory>> {
    if way.raw {
        return Ok(Arc::new(RawDirectory::open(directory.medium(0)?)?));
    }
    Ok(Arc::new(directory.clone()))
}

fn open(directory: &SimDirectory, way: Way) -> Result<Database> {
    Database::open_in(place(directory, way)?, settings(way))
}

/// A database of that seed, run until the fault stops it; what it promised before.
fn run_into(fault: Option<Fault>, seed: Seed, way: Way) -> (SimDirectory, Model, Result<()>) {
    let directory = fresh(seed, way);
    if let Some(fault) = fault {
        directory.inject(fault);
    }
    let mut model = Model::new(way.commit);
    let result = open(&directory, way).and_then(|database| workload::run(&database, seed, &mut model));
    (directory, model, result)
}

/// Cuts the power at every operation of the workload and shows `check` what survives.
fn cut_everywhere(name: &str, check: impl Fn(&SimDirectory, &Model, Seed, Way) + Sync) {
    every_way(name, |seed, way| {
        let (complete, model, result) = run_into(None, seed, way);
        result.unwrap();
        let operations = complete.operations();
        let commits = model.commits();
        assert!(operations > 40 && commits > 40, "the workload has only {operations} operations and {commits} commits");
        cut_each(operations, |operation| {
            let (directory, model, result) = run_into(Some(Fault::PowerCut { operation }), seed, way);
            assert_was_cut(&directory, &result, operation, way);
            for survivors in (0..SEEDS).map(|index| seed.derive(operation * SEEDS + index)) {
                check(&directory.survivors(survivors), &model, survivors, way);
            }
        });
    });
}

/// Under locking a run does exactly what the first one of its seed did. Under TicToc the timestamp of a new record is behind
/// those of the record's earlier lives, and when a record can be taken up again depends on other threads, too: so a run may
/// meet other conflicts, and come to its end a little earlier than the first one.
fn assert_was_cut(directory: &SimDirectory, result: &Result<()>, operation: u64, way: Way) {
    let was_cut = result.is_err() || !directory.power_is_on();
    let (done, spare) = (directory.operations(), operation / 10);
    let has_ended = way.protocol == ProtocolKind::TicToc && (operation - spare..=operation).contains(&done);
    assert!(was_cut || has_ended, "operation {operation} was not cut, {done} were done in {way:?}");
}

/// Calls `cut` for each of so many operations, in two threads.
fn cut_each(operations: u64, cut: impl Fn(u64) + Sync) {
    std::thread::scope(|scope| {
        for half in 0..2 {
            let cut = &cut;
            scope.spawn(move || (half..operations).step_by(2).for_each(cut));
        }
    });
}

#[test]
fn after_a_power_cut_at_any_operation_every_transaction_is_there_whole_or_not_at_all() {
    let name = "after_a_power_cut_at_any_operation_every_transaction_is_there_whole_or_not_at_all";
    cut_everywhere(name, |survivors, model, _, way| {
        model.clone().check(&open(survivors, way).unwrap());
    });
}

#[test]
fn nothing_dropped_returns_after_cuts_during_recovery_and_further_commits() {
    let name = "nothing_dropped_returns_after_cuts_during_recovery_and_further_commits";
    cut_everywhere(name, |survivors, model, seed, way| {
        let mut model = model.clone();
        // The power goes off twice during recovery, or shortly after it.
        let mut medium = survivors.clone();
        for attempt in 0..2 {
            let operation = seed.derive(attempt).0 % 12;
            medium.inject(Fault::PowerCut { operation });
            if let Ok(database) = open(&medium, way) {
                model.check(&database);
                let _ = workload::a_few_more(&database, seed.derive(attempt), &mut model);
            }
            medium = medium.survivors(seed.derive(10 + attempt));
        }
        // Then one recovery goes through, and one more after further commits.
        let database = open(&medium, way).unwrap();
        model.check(&database);
        workload::a_few_more(&database, seed, &mut model).unwrap();
        drop(database);
        let database = open(&medium.survivors(seed.derive(20)), way).unwrap();
        model.check(&database);
    });
}

#[test]
fn a_process_that_dies_leaves_whole_transactions_too() {
    every_way("a_process_that_dies_leaves_whole_transactions_too", |seed, way| {
        for run in (0..200).map(|run| seed.derive(run)) {
            let (complete, _, _) = run_into(None, run, way);
            let operation = run.0 % complete.operations();
            let (directory, mut model, _) = run_into(Some(Fault::PowerCut { operation }), run, way);
            let mut medium = directory.survivors(run);
            for death in 0..3 {
                let database = open(&medium, way).unwrap();
                model.check(&database);
                workload::run(&database, run.derive(death), &mut model).unwrap();
                medium = medium.process_crash();
            }
        }
    });
}

/// The next process finds what a killed one has left, goes on, does something more, and loses power at one of its first operations.
fn cut_under_the_next(
    killed: &SimDirectory,
    model: &Model,
    seed: Seed,
    way: Way,
    operations: u64,
    then: impl Fn(&Database),
) {
    for seed in (0..2).map(|index| seed.derive(index)) {
        // The power is on again before anything was lost: as if it had never been off.
        let (next, mut model) = (killed.process_crash(), model.clone());
        next.inject(Fault::PowerCut { operation: seed.0 % operations });
        if let Ok(database) = open(&next, way) {
            model.check(&database);
            let _ = workload::a_few_more(&database, seed, &mut model);
            then(&database);
        }
        model.check(&open(&next.survivors(seed), way).unwrap());
    }
}

#[test]
fn what_a_killed_process_left_carries_what_the_next_one_commits_until_the_power_is_cut() {
    every_way("what_a_killed_process_left_carries_what_the_next_one_commits_until_the_power_is_cut", |seed, way| {
        let (complete, ..) = run_into(None, seed, way);
        cut_each(complete.operations() / 4, |operation| {
            let operation = operation * 4 + seed.0 % 4;
            let (directory, model, _) = run_into(Some(Fault::PowerCut { operation }), seed, way);
            cut_under_the_next(&directory, &model, seed.derive(operation), way, 30, |_| {});
        });
    });
}

#[test]
fn threads_that_lose_power_leave_whole_transactions() {
    every_way("threads_that_lose_power_leave_whole_transactions", |seed, way| {
        for run in (0..100).map(|run| seed.derive(run)) {
            threads_that_lose_power(10 + run.0 % 150, run, way, |_, _| ());
        }
    });
}

/// Two threads commit, and a third does something else until they are done, while the power goes at that operation. Checks
/// what survives.
fn threads_that_lose_power(operation: u64, seed: Seed, way: Way, beside: impl FnOnce(&Database, &AtomicBool) + Send) {
    let directory = fresh(seed, way);
    directory.inject(Fault::PowerCut { operation });
    let log = ishigaki_wal::Settings { background: true, ..settings(way).log };
    let opened = place(&directory, way).and_then(|place| Database::open_in(place, Settings { log, ..settings(way) }));
    let Ok(database) = opened else { return };
    let done = AtomicBool::new(false);
    let mut model = std::thread::scope(|scope| {
        let (database, done) = (&database, &done);
        let work = |thread| {
            scope.spawn(move || {
                let mut model = Model::new(way.commit);
                let _ = workload::run(database, seed.derive(thread), &mut model);
                model
            })
        };
        let threads: Vec<_> = (0..2).map(work).collect();
        scope.spawn(move || beside(database, done));
        let mut model = Model::new(way.commit);
        for thread in threads {
            model.merge(thread.join().unwrap());
        }
        done.store(true, Ordering::Relaxed);
        model
    });
    for survivors in (0..5).map(|index| seed.derive(100 + index)) {
        model.clone().check(&open(&directory.survivors(survivors), way).unwrap());
    }
    model.check(&open(&directory.survivors(seed), way).unwrap());
}

#[test]
fn flipped_bits_of_a_closed_database_are_noticed() {
    every_way("flipped_bits_of_a_closed_database_are_noticed", |seed, way| {
        for run in (0..400).map(|run| seed.derive(run)) {
            let directory = fresh(run, way);
            let mut model = Model::new(way.commit);
            let database = open(&directory, way).unwrap();
            workload::run(&database, run, &mut model).unwrap();
            database.close().unwrap();
            let end = model.all();
            let damaged = directory.survivors(run);
            flip_bits(&damaged, run);
            match open(&damaged, way) {
                // The bit may lie where nothing is stored.
                Ok(database) => assert!(model::read_all(&database) == end, "a flipped bit went unnoticed"),
                Err(error) => assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}"),
            }
        }
    });
}

#[test]
fn flipped_bits_after_a_power_cut_never_become_data() {
    every_way("flipped_bits_after_a_power_cut_never_become_data", |seed, way| {
        for run in (0..400).map(|run| seed.derive(run)) {
            let (complete, _, _) = run_into(None, run, way);
            let operation = run.0 % complete.operations();
            let (directory, model, _) = run_into(Some(Fault::PowerCut { operation }), run, way);
            let damaged = directory.survivors(run);
            flip_bits(&damaged, run);
            match open(&damaged, way) {
                // A damaged last chunk can not be told from a torn one; but what is shown must be a state that was.
                Ok(database) => drop(model.check_state(&database)),
                Err(error) => assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}"),
            }
        }
    });
}

/// Flips one to three bits in what was ever written.
fn flip_bits(directory: &SimDirectory, seed: Seed) {
    flip_bits_of(directory, seed, |_| true);
}

/// Flips one to three bits in what was ever written to devices of some names.
fn flip_bits_of(directory: &SimDirectory, seed: Seed, which: impl Fn(&str) -> bool) {
    let mut random = seed.derive(99).generator();
    let mut devices = directory.devices();
    devices.retain(|(name, _)| which(name));
    for _ in 0..random.usize(1..4) {
        let Some((name, _)) = random.choice(&devices) else { return };
        let written = directory.written(name).unwrap();
        if let Some(sector) = random.choice(&written) {
            directory.flip_bit(name, sector + random.u64(..512), random.u8(..8)).unwrap();
        }
    }
}

/// Runs into the fault; then nothing may be acknowledged any more, and opening again finds what was.
fn fail_and_reopen(fault: Fault, seed: Seed, way: Way) {
    let directory = fresh(seed, way);
    directory.inject(fault);
    let mut model = Model::new(way.commit);
    let Ok(database) = open(&directory, way) else {
        model.check(&open(&directory.process_crash(), way).unwrap());
        return;
    };
    let result = workload::run(&database, seed, &mut model).and_then(|()| database.log().flush());
    if let Err(error) = result {
        assert!(error.to_string().contains("reopen"), "{fault:?}: {error}");
        assert_eq!(error.kind(), ErrorKind::Closed);
        for _ in 0..3 {
            let refused = workload::a_few_more(&database, seed, &mut model).unwrap_err();
            assert!(matches!(refused, Error::Log(ishigaki_wal::Error::Failed { .. })), "{fault:?}: {refused}");
        }
        assert!(database.clone().close().is_err(), "a failed log is not closed cleanly");
    }
    drop(database);
    let mut after_death = model.clone();
    let successor = directory.process_crash();
    let reopened = open(&successor, way).unwrap();
    after_death.check(&reopened);
    workload::a_few_more(&reopened, seed, &mut after_death).unwrap();
    drop(reopened);
    after_death.check(&open(&successor.survivors(seed), way).unwrap());
}

#[test]
fn after_a_failed_sync_nothing_is_acknowledged_until_the_database_is_opened_again() {
    every_way("after_a_failed_sync_nothing_is_acknowledged_until_the_database_is_opened_again", |seed, way| {
        let (complete, ..) = run_into(None, seed, way);
        assert!(complete.syncs() > 0);
        for nth in 0..complete.syncs() {
            fail_and_reopen(Fault::SyncError { nth }, seed, way);
        }
    });
}

#[test]
fn after_a_failed_write_nothing_is_acknowledged_until_the_database_is_opened_again() {
    every_way("after_a_failed_write_nothing_is_acknowledged_until_the_database_is_opened_again", |seed, way| {
        let (complete, ..) = run_into(None, seed, way);
        assert!(complete.writes() > 20);
        for nth in 0..complete.writes() {
            fail_and_reopen(Fault::WriteError { nth }, seed, way);
        }
    });
}

#[test]
fn the_same_seed_does_the_same() {
    let seed = chosen_seed().unwrap_or(Seed(1));
    for way in WAYS {
        for seed in (0..10).map(|run| seed.derive(run)) {
            let runs: Vec<_> = (0..2).map(|_| run_into(None, seed, way)).collect();
            assert_eq!(runs[0].0.operations(), runs[1].0.operations());
            assert_eq!(runs[0].1.all(), runs[1].1.all());
        }
    }
}
