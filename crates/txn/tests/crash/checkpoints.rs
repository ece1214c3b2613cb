//! The same workload with checkpoints in it.
//!
//! Records before a checkpoint's start are not replayed, so what a checkpoint got wrong would be missing.

use std::collections::BTreeSet;

use super::*;

/// Turns from one checkpoint to the next.
const TURNS: usize = 110;

/// Survivors looked at for every cut.
const SEEDS: u64 = 6;

/// What came of the checkpoints of a run.
#[derive(Default)]
struct Made {
    current: u64,
    failed: u64,
    /// Whether the process dies with the first that fails.
    dies: bool,
}

/// Runs the workload with checkpoints; those that the medium fails do not stop it.
fn run(database: &Database, seed: Seed, model: &mut Model, made: &mut Made) -> Result<()> {
    workload::run_with(database, seed, model, |turn| {
        if turn % TURNS > 0 {
            return Ok(());
        }
        match database.checkpoint() {
            Ok(report) => {
                assert!(report.start.lsn <= report.end.next());
                made.current += 1;
            }
            Err(Error::Device(error)) if error.kind() != ErrorKind::Closed => {
                made.failed += 1;
                if made.dies {
                    return Err(Error::Device(error));
                }
            }
            Err(error) => return Err(error),
        }
        Ok(())
    })
}

fn run_into(fault: Option<Fault>, seed: Seed, way: Way) -> (SimDirectory, Model, Made, Result<()>) {
    let directory = fresh(seed, way);
    if let Some(fault) = fault {
        directory.inject(fault);
    }
    let (mut model, mut made) = (Model::new(way.commit), Made::default());
    let result = open(&directory, way).and_then(|database| run(&database, seed, &mut model, &mut made));
    (directory, model, made, result)
}

fn is_of_checkpoint(name: &str) -> bool {
    name.starts_with("checkpoint")
}

/// Cuts the power at every operation and shows `check` what survives.
fn cut_everywhere(name: &str, check: impl Fn(&SimDirectory, &Model, Seed, Way) + Sync) {
    every_way(name, |seed, way| {
        let (complete, _, made, result) = run_into(None, seed, way);
        result.unwrap();
        let operations = complete.operations();
        assert_eq!(made.current, 8);
        assert!(way.raw || complete.devices().iter().any(|(name, _)| is_of_checkpoint(name)));
        cut_each(operations, |operation| {
            let (directory, model, _, result) = run_into(Some(Fault::PowerCut { operation }), seed, way);
            assert_was_cut(&directory, &result, operation, way);
            for survivors in (0..SEEDS).map(|index| seed.derive(operation * SEEDS + index)) {
                check(&directory.survivors(survivors), &model, survivors, way);
            }
        });
    });
}

#[test]
fn with_checkpoints_a_power_cut_at_any_operation_leaves_every_transaction_whole() {
    cut_everywhere(
        "with_checkpoints_a_power_cut_at_any_operation_leaves_every_transaction_whole",
        |survivors, model, _, way| {
            let mut model = model.clone();
            let database = open(survivors, way).unwrap();
            model.check(&database);
            // What the crash left of checkpoints is gone, and the next one is made.
            let current = database.recovery().checkpoint.as_ref().map(|loaded| loaded.number);
            let left: Vec<_> =
                survivors.devices().into_iter().filter(|(name, _)| name.starts_with("checkpoint-")).collect();
            // But for the one before, which is kept.
            let of = |name: &str| name["checkpoint-".len()..][..8].parse::<u64>().unwrap();
            let others: BTreeSet<_> = left.iter().map(|(name, _)| of(name)).filter(|of| Some(*of) != current).collect();
            assert!(others.len() <= 1 && others.first().is_none_or(|of| Some(*of) < current), "{left:?}");
            let report = database.checkpoint().unwrap();
            drop(database);
            let database = open(survivors, way).unwrap();
            assert_eq!(database.recovery().checkpoint.as_ref().map(|loaded| loaded.number), Some(report.number));
            model.check(&database);
        },
    );
}

#[test]
fn with_checkpoints_cuts_during_recovery_lose_nothing() {
    cut_everywhere("with_checkpoints_cuts_during_recovery_lose_nothing", |survivors, model, seed, way| {
        let mut model = model.clone();
        let mut medium = survivors.clone();
        for attempt in 0..2 {
            let operation = seed.derive(attempt).0 % 24;
            medium.inject(Fault::PowerCut { operation });
            if let Ok(database) = open(&medium, way) {
                model.check(&database);
                let _ = workload::a_few_more(&database, seed.derive(attempt), &mut model);
                let _ = database.checkpoint();
            }
            medium = medium.survivors(seed.derive(10 + attempt));
        }
        let database = open(&medium, way).unwrap();
        model.check(&database);
        workload::a_few_more(&database, seed, &mut model).unwrap();
        drop(database);
        model.check(&open(&medium.survivors(seed.derive(20)), way).unwrap());
    });
}

#[test]
fn processes_that_die_beside_a_checkpoint_and_then_the_power_lose_nothing() {
    every_way("processes_that_die_beside_a_checkpoint_and_then_the_power_lose_nothing", |seed, way| {
        let mut failed = 0;
        for run_seed in (0..100).map(|index| seed.derive(index)) {
            let (complete, ..) = run_into(None, run_seed, way);
            let operation = run_seed.0 % complete.operations();
            let (directory, mut model, ..) = run_into(Some(Fault::PowerCut { operation }), run_seed, way);
            let mut medium = directory.survivors(run_seed);
            for death in 0..3 {
                let mut made = Made { dies: true, ..Made::default() };
                let database = open(&medium, way).unwrap();
                model.check(&database);
                let nth = medium.syncs() + run_seed.derive(death).0 % 60;
                medium.inject(Fault::SyncError { nth });
                let _ = run(&database, run_seed.derive(death), &mut model, &mut made);
                failed += made.failed;
                drop(database);
                medium = medium.process_crash();
            }
            let database = open(&medium, way).unwrap();
            model.check(&database);
            drop(database);
            for index in 0..4 {
                model.clone().check(&open(&medium.survivors(run_seed.derive(index)), way).unwrap());
            }
        }
        assert!(failed > 50, "{failed}");
    });
}

#[test]
fn what_a_killed_process_left_of_a_checkpoint_carries_what_the_next_one_commits_until_the_power_is_cut() {
    let name = "what_a_killed_process_left_of_a_checkpoint_carries_what_the_next_one_commits_until_the_power_is_cut";
    every_way(name, |seed, way| {
        let (complete, ..) = run_into(None, seed, way);
        cut_each(complete.operations() / 6, |operation| {
            let operation = operation * 6 + seed.0 % 6;
            let (directory, model, ..) = run_into(Some(Fault::PowerCut { operation }), seed, way);
            cut_under_the_next(&directory, &model, seed.derive(operation), way, 50, |database| {
                drop(database.checkpoint());
            });
        });
    });
}

/// Fails once; then everything acknowledged is there, for the next process and after a power cut.
fn fail_and_reopen(fault: Fault, seed: Seed, way: Way) -> Made {
    let (directory, model, made, result) = run_into(Some(fault), seed, way);
    if let Err(error) = &result {
        assert!(matches!(error, Error::Log(_) | Error::Device(_)), "{fault:?}: {error}");
    }
    for index in 0..3 {
        model.clone().check(&open(&directory.survivors(seed.derive(index)), way).unwrap());
    }
    let (directory, model, ..) = run_into(Some(fault), seed, way);
    let successor = directory.process_crash();
    let mut after_death = model;
    let database = open(&successor, way).unwrap();
    after_death.check(&database);
    workload::a_few_more(&database, seed.derive(1), &mut after_death).unwrap();
    drop(database);
    after_death.check(&open(&successor.survivors(seed), way).unwrap());
    made
}

#[test]
fn a_write_or_sync_that_fails_during_a_checkpoint_leaves_the_one_before() {
    every_way("a_write_or_sync_that_fails_during_a_checkpoint_leaves_the_one_before", |seed, way| {
        if way.raw {
            // There a failed sync is everybody's, and the log fails with it.
            return;
        }
        let (complete, ..) = run_into(None, seed, way);
        let writes = (0..complete.writes()).map(|nth| Fault::WriteError { nth });
        let syncs = (0..complete.syncs()).map(|nth| Fault::SyncError { nth });
        let mut failed = 0;
        for fault in writes.chain(syncs) {
            let made = fail_and_reopen(fault, seed, way);
            // The database went on. The next checkpoint was made, unless names may have been lost: then none is any more.
            match made.failed {
                0 => {}
                1 if made.current == 7 => {}
                _ => assert!(matches!(fault, Fault::SyncError { .. }), "{fault:?}: {}", made.current),
            }
            failed += made.failed;
        }
        // Each checkpoint writes and syncs several parts and a manifest, and syncs the directory twice.
        assert!(failed >= 8 * 6, "{failed}");
    });
}

#[test]
fn flipped_bits_of_a_checkpoint_are_refused_or_harmless() {
    every_way("flipped_bits_of_a_checkpoint_are_refused_or_harmless", |seed, way| {
        if way.raw {
            // What lies where on the one device can not be told from outside.
            return;
        }
        let (mut refused, mut repaired) = (0, 0);
        for run_seed in (0..300).map(|index| seed.derive(index)) {
            let directory = fresh(run_seed, way);
            let mut model = Model::new(way.commit);
            let database = open(&directory, way).unwrap();
            run(&database, run_seed, &mut model, &mut Made::default()).unwrap();
            database.close().unwrap();
            let damaged = directory.survivors(run_seed);
            flip_bits_of(&damaged, run_seed, is_of_checkpoint);
            match open(&damaged, way) {
                Ok(database) => {
                    assert!(model::read_all(&database) == model.all());
                    repaired += u32::from(database.recovery().repaired.is_some());
                }
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
                    refused += 1;
                }
            }
        }
        assert!(refused > 30 && repaired > 30, "{refused}, {repaired}");
    });
}

#[test]
fn a_damaged_checkpoint_is_replaced_by_the_one_before_and_the_log_since_then() {
    let way = WAYS[0];
    let (directory, mut model, ..) = run_into(None, Seed(7), way);
    let names: Vec<String> = directory.survivors(Seed(1)).devices().into_iter().map(|(name, _)| name).collect();
    for name in names.iter().filter(|name| *name == "checkpoint" || name.starts_with("checkpoint-00000008")) {
        for cut in [None, Some(3), Some(9), Some(20)] {
            let damaged = directory.survivors(Seed(1));
            ishigaki_device::Directory::remove(&damaged, name).unwrap();
            ishigaki_device::Directory::sync(&damaged).unwrap();
            if let Some(operation) = cut {
                damaged.inject(Fault::PowerCut { operation: damaged.operations() + operation });
                let _ = open(&damaged, way);
            }
            let damaged = damaged.survivors(Seed(2));
            let database = open(&damaged, way).unwrap();
            assert!(cut.is_some() || database.recovery().repaired.is_some(), "{name}");
            model.check(&database);
            database.close().unwrap();
            // From now on there is a whole one.
            let database = open(&damaged, way).unwrap();
            assert!(database.recovery().repaired.is_none(), "{name}");
            model.check(&database);
        }
    }
}

#[test]
fn a_checkpoint_without_one_of_its_parts_is_refused() {
    let way = WAYS[0];
    let (directory, ..) = run_into(None, Seed(7), way);
    let names: Vec<String> = directory.survivors(Seed(1)).devices().into_iter().map(|(name, _)| name).collect();
    // Older ones may have survived their removal.
    let current: Vec<_> =
        names.iter().filter(|name| *name == "checkpoint" || name.starts_with("checkpoint-00000008")).collect();
    assert!(current.len() > 3);
    for name in current {
        let damaged = directory.survivors(Seed(1));
        ishigaki_device::Directory::remove(&damaged, "checkpoint.previous").unwrap();
        ishigaki_device::Directory::remove(&damaged, name).unwrap();
        let error = open(&damaged, way).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{name}: {error}");
    }
}

#[test]
fn threads_that_commit_beside_a_checkpoint_and_lose_power_leave_whole_transactions() {
    every_way("threads_that_commit_beside_a_checkpoint_and_lose_power_leave_whole_transactions", |seed, way| {
        let mut checkpoints = 0;
        for run in (0..100).map(|run| seed.derive(run)) {
            threads_that_lose_power(10 + run.0 % 400, run, way, |database, done| {
                while !done.load(Ordering::Relaxed) && database.checkpoint().is_ok() {
                    checkpoints += 1;
                }
            });
        }
        assert!(checkpoints > 100, "{checkpoints}");
    });
}
