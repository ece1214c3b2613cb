//! Power cuts, process deaths and failures on the simulated medium, at every write and every sync: in logging, going home,
//! reclaiming and rebuilding.

mod trial;

use ishigaki_base::ErrorKind;
use ishigaki_base::random::Seed;
use ishigaki_device::{Fault, SimDirectory};
use ishigaki_logpool::{Durability, Result, inspect};
use ishigaki_testkit::seeded_runs;

use trial::life::{check_offline, failures, live, models, open};
use trial::model::{Files, Model};
use trial::work::work;

/// Survivors looked at for every cut.
const SEEDS: u64 = 3;

const TURNS: usize = 90;

/// Lives that are looked at together.
const LIVES: u64 = 16;

/// A life in which nothing went wrong: how many operations, writes and syncs it has.
fn complete(seed: Seed, turns: usize) -> SimDirectory {
    let medium = SimDirectory::with_seed(seed);
    live(&medium, &mut models(), seed, turns).unwrap();
    medium
}

fn cut_at(operation: u64, seed: Seed, turns: usize) -> (SimDirectory, Vec<Model>) {
    let (medium, mut models) = (SimDirectory::with_seed(seed), models());
    medium.inject(Fault::PowerCut { operation });
    assert!(live(&medium, &mut models, seed, turns).is_err(), "the cut at {operation} is noticed");
    (medium, models)
}

#[test]
fn what_is_cut_here_has_packed_entries_in_its_log_and_plain_ones() {
    seeded_runs("what_is_cut_here_has_packed_entries_in_its_log_and_plain_ones", 1, |seed| {
        let (mut cuts, mut with_both) = (0_u64, 0);
        // One life may have few of them; many lives have not.
        for life in 0..LIVES {
            let seed = seed.derive(life);
            let operations = complete(seed, TURNS).operations();
            for operation in (operations / 4..operations).step_by(12) {
                let survivors = cut_at(operation, seed, TURNS).0.survivors(seed);
                let mut kinds = [false; 2];
                inspect(&survivors, &mut |entry| {
                    kinds[usize::from(entry.packed)] |= entry.kind == "data";
                    true
                })
                .unwrap();
                cuts += 1;
                with_both += u64::from(kinds == [true; 2]);
            }
        }
        assert!(cuts > LIVES && with_both * 4 > cuts, "{with_both} of {cuts}");
    });
}

#[test]
fn every_acknowledged_byte_is_there_in_order_wherever_the_power_is_cut() {
    seeded_runs("every_acknowledged_byte_is_there_in_order_wherever_the_power_is_cut", 2, |seed| {
        for operation in 0..complete(seed, TURNS).operations() {
            let (medium, models) = cut_at(operation, seed, TURNS);
            for survivor in 0..SEEDS {
                let (mut models, survivors) = (models.clone(), medium.survivors(seed.derive(survivor)));
                if survivor == 0 {
                    check_offline(&survivors, &models);
                }
                live(&survivors, &mut models, seed.derive(!survivor), 8).unwrap();
                if survivor == 1 {
                    check_offline(&survivors, &models);
                }
                open(&survivors, &mut models).unwrap();
            }
        }
    });
}

#[test]
fn a_rebuild_that_is_cut_anywhere_rebuilds_the_same() {
    seeded_runs("a_rebuild_that_is_cut_anywhere_rebuilds_the_same", 2, |seed| {
        let operations = complete(seed, TURNS).operations();
        for operation in (0..operations).step_by(7) {
            let (medium, models) = cut_at(operation, seed, TURNS);
            let medium = medium.survivors(seed);
            for again in 0.. {
                let (copy, mut models) = (medium.survivors(seed), models.clone());
                copy.inject(Fault::PowerCut { operation: again });
                let opened = open(&copy, &mut models);
                let uncut = opened.is_ok() && copy.operations() <= again;
                copy.power_cut_now();
                drop(opened);
                if uncut {
                    break;
                }
                open(&copy.survivors(seed.derive(again)), &mut models).unwrap();
            }
        }
    });
}

#[test]
fn what_a_dead_process_wrote_and_the_next_one_showed_survives_a_power_cut() {
    seeded_runs("what_a_dead_process_wrote_and_the_next_one_showed_survives_a_power_cut", 4, |seed| {
        for operation in (0..complete(seed, TURNS).operations()).step_by(3) {
            // The process dies at some operation of its own; the machine does not.
            let (medium, mut models) = (SimDirectory::with_seed(seed), models());
            let pool = open(&medium, &mut models).unwrap();
            let mut random = seed.generator();
            while medium.operations() < operation {
                work(&pool, &mut models, &mut random, 1).unwrap();
            }
            let medium = medium.process_crash();
            drop(pool);
            let reopened = open(&medium, &mut models).unwrap();
            // All that it has shown is durable, although nobody has asked for that.
            models.iter_mut().for_each(Model::synced);
            medium.power_cut_now();
            drop(reopened);
            open(&medium.survivors(seed), &mut models).unwrap();
        }
    });
}

#[test]
fn after_any_failed_write_or_sync_nothing_is_acknowledged_and_opening_again_works() {
    seeded_runs("after_any_failed_write_or_sync_nothing_is_acknowledged_and_opening_again_works", 2, |seed| {
        for fault in failures(&complete(seed, TURNS)) {
            let (medium, mut models) = (SimDirectory::with_seed(seed), models());
            medium.inject(fault);
            let lived = live(&medium, &mut models, seed, TURNS);
            // What fails while space is given free, or a home, is told to whoever asks next.
            if let Err(error) = &lived {
                assert_ne!(error.kind(), ErrorKind::Corrupt, "{fault:?}: {error}");
            }
            for survivor in 0..2 {
                let survivors = medium.survivors(seed.derive(survivor));
                open(&survivors, &mut models.clone()).unwrap_or_else(|error| panic!("{fault:?}: {error}"));
            }
        }
    });
}

#[test]
fn what_a_failed_write_left_and_the_next_process_showed_survives_a_power_cut() {
    seeded_runs("what_a_failed_write_left_and_the_next_process_showed_survives_a_power_cut", 2, |seed| {
        let faults: Vec<_> = failures(&complete(seed, TURNS)).collect();
        for (fault, life) in faults.iter().flat_map(|fault| [(*fault, 0), (*fault, 1)]) {
            let (medium, mut models) = (SimDirectory::with_seed(seed), models());
            medium.inject(fault);
            let _ = live(&medium, &mut models, seed, TURNS);
            // Some of what failed may be seen, as long as the machine stays on.
            let medium = medium.process_crash();
            let outcome = match life {
                0 => open(&medium, &mut models).map(drop),
                _ => live(&medium, &mut models, seed.derive(life), 12),
            };
            outcome.unwrap_or_else(|error| panic!("{fault:?}: {error}"));
            models.iter_mut().for_each(Model::synced);
            medium.power_cut_now();
            for survivor in 0..2 {
                let survivors = medium.survivors(seed.derive(survivor));
                open(&survivors, &mut models.clone()).unwrap_or_else(|error| panic!("{fault:?}: {error}"));
            }
        }
    });
}

#[test]
fn what_a_killed_process_left_carries_what_the_next_one_builds_until_the_power_is_cut() {
    seeded_runs("what_a_killed_process_left_carries_what_the_next_one_builds_until_the_power_is_cut", 2, |seed| {
        for operation in (seed.0 % 2..complete(seed, TURNS).operations()).step_by(2) {
            let (medium, models) = cut_at(operation, seed, TURNS);
            for seed in (0..SEEDS).map(|index| seed.derive(operation).derive(index)) {
                // The power is on again before anything was lost: as if it had never been off.
                let (next, mut models) = (medium.process_crash(), models.clone());
                next.inject(Fault::PowerCut { operation: seed.0 % 60 });
                let _ = live(&next, &mut models, seed, 20);
                let survivors = next.survivors(seed);
                check_offline(&survivors, &models);
                open(&survivors, &mut models).unwrap();
            }
        }
    });
}

/// A file at home, then changes that nobody has asked to be durable, of several extents and of an area, then a round.
fn changes_and_a_round(medium: &SimDirectory, models: &mut [Model]) -> Result<()> {
    let pool = open(medium, models)?;
    let (member, model) = (pool.member("a")?, &mut models[0]);
    let file = member.create("ib_logfile0")?;
    let mut files = Files::from([("ib_logfile0".to_owned(), Some(Vec::new()))]);
    model.accept(files.clone());
    let mut write = |model: &mut Model, at: usize, bytes: &[u8]| {
        let content = files.get_mut("ib_logfile0").and_then(Option::as_mut).expect("it is there");
        content.resize(content.len().max(at + bytes.len()), 0);
        content[at..at + bytes.len()].copy_from_slice(bytes);
        model.accept(files.clone());
        file.write(at as u64, bytes, Durability::Later)
    };
    for at in (0..98_304).step_by(8192) {
        write(model, at, &[1; 8192])?;
    }
    member.sync()?;
    model.synced();
    pool.bring_home()?;
    for (turn, at) in [20_000, 70_000, 20_300, 90_000, 4096, 4608, 5120, 12_288].into_iter().enumerate() {
        write(model, at, &[turn as u8 + 2; 500])?;
    }
    pool.bring_home()?;
    Ok(())
}

#[test]
fn a_round_that_is_cut_leaves_only_what_was_durable_before_it() {
    seeded_runs("a_round_that_is_cut_leaves_only_what_was_durable_before_it", 4, |seed| {
        let medium = SimDirectory::with_seed(seed);
        changes_and_a_round(&medium, &mut models()).unwrap();
        for operation in 0..medium.operations() {
            let (medium, mut models) = (SimDirectory::with_seed(seed), models());
            medium.inject(Fault::PowerCut { operation });
            let _ = changes_and_a_round(&medium, &mut models);
            for survivor in 0..8 {
                let survivors = medium.survivors(seed.derive(survivor));
                check_offline(&survivors, &models);
                open(&survivors, &mut models.clone()).unwrap();
            }
        }
    });
}

/// A file at home, then cut off at a block's end, so that no block is changed, then a round.
fn a_truncation_and_a_round(medium: &SimDirectory, models: &mut [Model]) -> Result<()> {
    let pool = open(medium, models)?;
    let (member, model) = (pool.member("b")?, &mut models[1]);
    let file = member.create("log")?;
    model.accept(Files::from([("log".to_owned(), Some(Vec::new()))]));
    for length in [8192, 16_384, 24_576] {
        model.accept(Files::from([("log".to_owned(), Some(vec![1; length]))]));
        file.write(length as u64 - 8192, &[1; 8192], Durability::Later)?;
    }
    member.sync()?;
    model.synced();
    pool.bring_home()?;
    model.accept(Files::from([("log".to_owned(), Some(vec![1; 8192]))]));
    file.truncate(8192, Durability::Later)?;
    pool.bring_home()
}

#[test]
fn an_extent_that_a_cut_round_made_zero_behind_the_end_is_not_taken_for_damaged() {
    seeded_runs("an_extent_that_a_cut_round_made_zero_behind_the_end_is_not_taken_for_damaged", 4, |seed| {
        let medium = SimDirectory::with_seed(seed);
        a_truncation_and_a_round(&medium, &mut models()).unwrap();
        for operation in 0..medium.operations() {
            let (medium, mut models) = (SimDirectory::with_seed(seed), models());
            medium.inject(Fault::PowerCut { operation });
            let _ = a_truncation_and_a_round(&medium, &mut models);
            check_offline(&medium.survivors(seed), &models);
        }
    });
}

#[test]
fn what_a_failed_round_left_is_durable_before_anything_is_built_on_it() {
    seeded_runs("what_a_failed_round_left_is_durable_before_anything_is_built_on_it", 8, |seed| {
        let whole = SimDirectory::with_seed(seed);
        changes_and_a_round(&whole, &mut models()).unwrap();
        for (fault, gives_free) in failures(&whole).flat_map(|fault| [(fault, false), (fault, true)]) {
            let (medium, mut models) = (SimDirectory::with_seed(seed), models());
            medium.inject(fault);
            let _ = changes_and_a_round(&medium, &mut models);
            let medium = medium.process_crash();
            let pool = open(&medium, &mut models).unwrap();
            if gives_free {
                pool.bring_home().unwrap();
            }
            models.iter_mut().for_each(Model::synced);
            medium.power_cut_now();
            drop(pool);
            for survivor in 0..4 {
                let survivors = medium.survivors(seed.derive(survivor));
                open(&survivors, &mut models.clone()).unwrap_or_else(|error| panic!("{fault:?}: {error}"));
            }
        }
    });
}
