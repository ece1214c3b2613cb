//! One test for each sentence of the module comment.

use std::collections::BTreeSet;

use super::*;
use crate::AlignedBuffer;

/// Enough seeds that an outcome of one chance in eight is practically sure to be among them.
const SEEDS: u64 = 400;

/// A synced device "d" of 8 sectors, the directory synced too.
fn one_device(settings: SimSettings) -> (SimDirectory, Arc<dyn Device>) {
    let directory = SimDirectory::new(settings);
    let device = directory.create("d", 8 * SECTOR as u64).expect("created");
    directory.sync().expect("synced");
    (directory, device)
}

/// `count` sectors of that byte.
fn filled(byte: u8, count: usize) -> AlignedBuffer {
    let mut buffer = AlignedBuffer::zeroed(count * SECTOR);
    buffer.fill(byte);
    buffer
}

fn at(sector: u64) -> u64 {
    sector * SECTOR as u64
}

fn write(device: &Arc<dyn Device>, sector: u64, byte: u8) {
    device.write_at(at(sector), &filled(byte, 1)).expect("written");
}

/// The byte that fills each of the first sectors.
fn bytes(device: &dyn Device, count: usize) -> Vec<u8> {
    let mut buffer = AlignedBuffer::zeroed(count * SECTOR);
    device.read_at(0, &mut buffer).expect("read");
    let sectors = buffer.as_chunks::<SECTOR>().0.iter();
    sectors
        .map(|sector| {
            assert!(sector.iter().all(|byte| *byte == sector[0]), "a sector is never torn");
            sector[0]
        })
        .collect()
}

/// Everything that the first sectors of "d" may hold after a power cut.
fn outcomes(directory: &SimDirectory, count: usize) -> BTreeSet<Vec<u8>> {
    let survivor = |seed| directory.survivors(Seed(seed)).open("d").expect("its name is durable");
    (0..SEEDS).map(|seed| bytes(&*survivor(seed), count)).collect()
}

/// Every set of names that may be left after a power cut.
fn names_left(directory: &SimDirectory) -> BTreeSet<Vec<String>> {
    (0..SEEDS).map(|seed| directory.survivors(Seed(seed)).list().expect("listed")).collect()
}

fn is_power_cut<T>(result: Result<T>) -> bool {
    result.is_err_and(|error| matches!(error, Error::PowerCut { .. }))
}

fn is_io_error<T>(result: Result<T>) -> bool {
    result.is_err_and(|error| matches!(error, Error::Io { .. }))
}

#[test]
fn the_same_seed_and_calls_give_the_same_survivors() {
    let run = || {
        let faults = vec![Fault::WriteError { nth: 2 }];
        let (directory, device) = one_device(SimSettings { seed: Seed(5), faults, ..SimSettings::default() });
        write(&device, 0, 1);
        write(&device, 1, 2);
        assert!(is_io_error(device.write_at(0, &filled(3, 8))));
        device.trim(at(4), at(4)).expect("trimmed");
        let mut left = AlignedBuffer::zeroed(8 * SECTOR);
        directory.survivors(Seed(9)).open("d").expect("there").read_at(0, &mut left).expect("read");
        left.to_vec()
    };
    assert_eq!(run(), run());
}

#[test]
fn survivors_of_different_seeds_differ() {
    let (directory, device) = one_device(SimSettings::default());
    device.write_at(0, &filled(1, 8)).expect("written");
    assert!(outcomes(&directory, 8).len() > 100);
}

#[test]
fn a_torn_write_leaves_every_combination_of_its_sectors() {
    let (directory, device) = one_device(SimSettings::default());
    device.write_at(0, &filled(1, 3)).expect("written");
    let all = (0..8_u8).map(|set| (0..3).map(|sector| set >> sector & 1).collect()).collect();
    assert_eq!(outcomes(&directory, 3), all);
}

#[test]
fn a_sector_in_flight_survives_as_any_of_its_versions() {
    let (directory, device) = one_device(SimSettings::default());
    for version in 1..4 {
        write(&device, 0, version);
    }
    assert_eq!(bytes(&*device, 1), [3], "reads see the newest");
    assert_eq!(outcomes(&directory, 1), (0..4).map(|version| vec![version]).collect());
}

#[test]
fn a_synced_write_always_survives() {
    let (directory, device) = one_device(SimSettings::default());
    write(&device, 0, 1);
    write(&device, 0, 2);
    device.sync().expect("synced");
    write(&device, 1, 3);
    assert_eq!(outcomes(&directory, 2), BTreeSet::from([vec![2, 0], vec![2, 3]]));
}

#[test]
fn a_durable_write_makes_only_itself_durable() {
    let (directory, device) = one_device(SimSettings::default());
    write(&device, 0, 1);
    write(&device, 1, 1);
    device.write_durable(0, &filled(2, 1)).expect("written");
    assert_eq!(outcomes(&directory, 2), BTreeSet::from([vec![2, 0], vec![2, 1]]));
}

#[test]
fn of_runs_written_together_a_later_one_may_survive_without_an_earlier_one() {
    let (directory, device) = one_device(SimSettings::default());
    directory.inject(Fault::PowerCut { operation: directory.operations() });
    let (one, two) = (filled(1, 1), filled(1, 2));
    assert!(is_power_cut(device.write_all_durable(&[(at(0), &one), (at(1), &two)])));
    let all = (0..8_u8).map(|set| (0..3).map(|sector| set >> sector & 1).collect()).collect();
    assert_eq!(outcomes(&directory, 3), all);
}

#[test]
fn of_runs_written_one_after_the_other_no_later_one_survives_without_an_earlier_one() {
    let (directory, device) = one_device(SimSettings { runs_at_once: false, ..SimSettings::default() });
    directory.inject(Fault::PowerCut { operation: directory.operations() + 1 });
    let (one, two, three) = (filled(1, 1), filled(1, 1), filled(1, 1));
    assert!(is_power_cut(device.write_all_durable(&[(at(0), &one), (at(1), &two), (at(2), &three)])));
    assert_eq!(outcomes(&directory, 3), BTreeSet::from([vec![1, 0, 0], vec![1, 1, 0]]));
}

#[test]
fn runs_written_together_are_durable_when_it_returns_and_nothing_else_is() {
    let (directory, device) = one_device(SimSettings::default());
    write(&device, 0, 1);
    write(&device, 1, 1);
    let before = (directory.operations(), directory.writes());
    device.write_all_durable(&[(at(3), &filled(2, 1)), (at(1), &filled(3, 1))]).expect("written");
    assert_eq!((directory.operations(), directory.writes()), (before.0 + 1, before.1 + 1));
    assert_eq!(outcomes(&directory, 4), BTreeSet::from([vec![0, 3, 0, 2], vec![1, 3, 0, 2]]));
}

#[test]
fn of_runs_that_overlap_any_may_be_the_last() {
    let left = |seed| {
        let (_directory, device) = one_device(SimSettings { seed: Seed(seed), ..SimSettings::default() });
        device.write_all_durable(&[(0, &filled(1, 1)), (0, &filled(2, 1))]).expect("written");
        bytes(&*device, 1)[0]
    };
    assert_eq!((0..SEEDS).map(left).collect::<BTreeSet<u8>>(), BTreeSet::from([1, 2]));
}

#[test]
fn runs_that_fail_together_have_reached_any_subset_of_all_their_sectors() {
    let seen: BTreeSet<Vec<u8>> = (0..SEEDS)
        .map(|seed| {
            let faults = vec![Fault::WriteError { nth: 0 }];
            let (_directory, device) = one_device(SimSettings { seed: Seed(seed), faults, ..SimSettings::default() });
            assert!(is_io_error(device.write_all_durable(&[(0, &filled(1, 1)), (at(1), &filled(1, 1))])));
            bytes(&*device, 2)
        })
        .collect();
    assert_eq!(seen, BTreeSet::from([vec![0, 0], vec![0, 1], vec![1, 0], vec![1, 1]]));
}

#[test]
fn one_device_is_not_synced_by_another() {
    let (directory, device) = one_device(SimSettings::default());
    let other = directory.create("e", 512).expect("created");
    write(&device, 0, 1);
    other.sync().expect("synced");
    directory.sync().expect("synced");
    assert_eq!(outcomes(&directory, 1).len(), 2);
}

#[test]
fn what_a_failed_sync_lost_is_not_made_durable_by_a_later_one() {
    let (directory, device) = one_device(SimSettings::default());
    write(&device, 0, 1);
    write(&device, 1, 1);
    directory.inject(Fault::SyncError { nth: directory.syncs() });
    assert!(is_io_error(device.sync()));
    device.sync().expect("the later sync says that all is well");
    assert_eq!(bytes(&*device, 2), [1, 1], "reads still see it");
    assert_eq!(outcomes(&directory, 2).len(), 4, "and yet each sector may be gone");
}

#[test]
fn what_a_failed_sync_lost_is_durable_once_it_is_written_and_synced_again() {
    let (directory, device) = one_device(SimSettings::default());
    write(&device, 0, 1);
    write(&device, 1, 1);
    directory.inject(Fault::SyncError { nth: directory.syncs() });
    assert!(is_io_error(device.sync()));
    write(&device, 0, 2);
    device.sync().expect("synced");
    assert_eq!(outcomes(&directory, 2), BTreeSet::from([vec![2, 0], vec![2, 1]]));
}

#[test]
fn a_failed_write_has_reached_any_subset_of_its_sectors() {
    let seen: BTreeSet<Vec<u8>> = (0..SEEDS)
        .map(|seed| {
            let faults = vec![Fault::WriteError { nth: 0 }];
            let (directory, device) = one_device(SimSettings { seed: Seed(seed), faults, ..SimSettings::default() });
            assert!(is_io_error(device.write_durable(0, &filled(1, 2))));
            let seen = bytes(&*device, 2);
            device.sync().expect("the next one works");
            assert_eq!(outcomes(&directory, 2), BTreeSet::from([seen.clone()]), "what was reached was in flight");
            seen
        })
        .collect();
    assert_eq!(seen, BTreeSet::from([vec![0, 0], vec![0, 1], vec![1, 0], vec![1, 1]]));
}

#[test]
fn a_read_can_fail_once() {
    let (directory, device) = one_device(SimSettings::default());
    directory.inject(Fault::ReadError { nth: 1 });
    assert_eq!(bytes(&*device, 1), [0]);
    assert!(is_io_error(device.read_at(0, &mut AlignedBuffer::zeroed(SECTOR))));
    assert_eq!(bytes(&*device, 1), [0]);
    assert_eq!(directory.reads(), 3);
}

#[test]
fn the_power_goes_off_at_the_chosen_operation_and_stays_off() {
    let workload = |directory: &SimDirectory| -> Result<()> {
        let device = directory.create("a", 1024)?;
        device.write_at(0, &filled(1, 1))?;
        device.write_durable(512, &filled(1, 1))?;
        device.sync()?;
        device.trim(0, 512)?;
        directory.rename("a", "b")?;
        directory.remove("b")?;
        directory.sync()
    };
    let whole = SimDirectory::with_seed(Seed(0));
    workload(&whole).expect("without a fault");
    assert_eq!((whole.operations(), whole.writes(), whole.syncs(), whole.reads()), (8, 2, 2, 0));
    for operation in 0..8 {
        let directory = SimDirectory::with_seed(Seed(0));
        let device = directory.create("other", 512).expect("created");
        directory.inject(Fault::PowerCut { operation: operation + 1 });
        assert!(is_power_cut(workload(&directory)), "{operation}");
        assert_eq!(directory.operations(), operation + 2, "the last one is that at which it was cut");
        assert!(!directory.power_is_on());
        assert!(is_power_cut(device.read_at(0, &mut AlignedBuffer::zeroed(SECTOR))));
        assert!(is_power_cut(device.sync()));
        assert!(is_power_cut(directory.open("other")));
        assert!(is_power_cut(directory.list()));
        assert!(is_power_cut(directory.lock()));
    }
}

#[test]
fn the_operation_at_which_the_power_is_cut_happens_in_part() {
    let cut = |operate: &dyn Fn(&Arc<dyn Device>) -> Result<()>| {
        let (directory, device) = one_device(SimSettings::default());
        write(&device, 2, 1);
        directory.inject(Fault::PowerCut { operation: directory.operations() });
        assert!(is_power_cut(operate(&device)));
        outcomes(&directory, 3).len()
    };
    assert_eq!(cut(&|device| device.write_at(0, &filled(2, 2))), 8);
    assert_eq!(cut(&|device| device.write_durable(0, &filled(2, 2))), 8);
    assert_eq!(cut(&|device| device.sync()), 2);
}

#[test]
fn an_unsynced_creation_may_be_lost_and_a_synced_one_not() {
    let (directory, _) = one_device(SimSettings::default());
    directory.create("e", 1).expect("created").write_durable(0, &filled(1, 1)).expect("written");
    let with = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(names_left(&directory), BTreeSet::from([with(&["d"]), with(&["d", "e"])]));
    for seed in 0..SEEDS {
        let survivors = directory.survivors(Seed(seed));
        if let Ok(device) = survivors.open("e") {
            assert_eq!(device.len(), 512, "its length is as durable as its bytes");
            assert_eq!(bytes(&*device, 1), [1]);
        }
    }
}

#[test]
fn an_unsynced_rename_leaves_the_old_names_or_the_new_ones() {
    let (directory, device) = one_device(SimSettings::default());
    device.write_durable(0, &filled(1, 1)).expect("written");
    let next = directory.create("next", 512).expect("created");
    next.write_durable(0, &filled(2, 1)).expect("written");
    directory.sync().expect("synced");
    directory.rename("next", "d").expect("renamed");
    assert_eq!(directory.list().expect("listed"), ["d"]);
    let mut seen = BTreeSet::new();
    for seed in 0..SEEDS {
        let survivors = directory.survivors(Seed(seed));
        seen.insert((bytes(&*survivors.open("d").expect("never gone"), 1)[0], survivors.list().expect("listed").len()));
    }
    assert_eq!(seen, BTreeSet::from([(1, 2), (2, 1)]));
}

#[test]
fn unsynced_changes_of_names_survive_in_any_combination() {
    let directory = SimDirectory::with_seed(Seed(0));
    for name in ["a", "b", "c"] {
        directory.create(name, 512).expect("created");
    }
    directory.sync().expect("synced");
    directory.remove("a").expect("removed");
    directory.remove("b").expect("removed");
    directory.rename("c", "x").expect("renamed");
    assert_eq!(names_left(&directory).len(), 8);
}

#[test]
fn a_removed_or_replaced_device_that_comes_back_has_its_bytes() {
    for replace in [false, true] {
        let (directory, device) = one_device(SimSettings::default());
        device.write_durable(0, &filled(1, 1)).expect("written");
        drop(device);
        if replace {
            directory.create("e", 512).expect("created");
            directory.rename("e", "d").expect("renamed");
        } else {
            directory.remove("d").expect("removed");
        }
        let is_back = |seed| match directory.survivors(Seed(seed)).open("d") {
            Ok(device) if device.len() == at(8) => {
                assert_eq!(bytes(&*device, 1), [1]);
                true
            }
            _ => false,
        };
        let back = (0..SEEDS).filter(|seed| is_back(*seed)).count() as u64;
        assert!(0 < back && back < SEEDS, "{back}");
    }
}

#[test]
fn a_rename_can_survive_the_one_before_it() {
    let (directory, _) = one_device(SimSettings::default());
    directory.rename("d", "e").expect("renamed");
    directory.rename("e", "f").expect("renamed");
    let left = names_left(&directory).into_iter().flatten().collect::<Vec<_>>();
    assert_eq!(left, ["d", "e", "f"], "one name at a time, whatever was lost");
}

#[test]
fn names_that_a_failed_directory_sync_lost_are_not_made_durable_by_a_later_one() {
    let (directory, _) = one_device(SimSettings::default());
    directory.create("lost", 512).expect("created");
    directory.inject(Fault::SyncError { nth: directory.syncs() });
    assert!(is_io_error(directory.sync()));
    directory.create("kept", 512).expect("created");
    directory.sync().expect("the later sync says that all is well");
    assert_eq!(directory.list().expect("listed"), ["d", "kept", "lost"]);
    let left = names_left(&directory);
    assert_eq!(left.len(), 2);
    assert!(left.iter().all(|names| names.contains(&"kept".to_owned())));
}

#[test]
fn a_durable_rename_outlives_the_lost_name_before_it() {
    let (directory, _) = one_device(SimSettings::default());
    directory.create("lost", 512).expect("created");
    directory.inject(Fault::SyncError { nth: directory.syncs() });
    assert!(is_io_error(directory.sync()));
    directory.rename("lost", "kept").expect("renamed");
    directory.sync().expect("synced");
    let kept = ["d", "kept"].map(str::to_owned).to_vec();
    assert_eq!(names_left(&directory), BTreeSet::from([kept]));
}

#[test]
fn the_medium_runs_full_and_a_durable_removal_frees_it() {
    let capacity = Some(ByteSize(10 * SECTOR as u64));
    let (directory, device) = one_device(SimSettings { capacity, ..SimSettings::default() });
    let before = directory.operations();
    assert!(matches!(directory.create("e", 2000), Err(Error::NoSpace { needed: 2048, .. })));
    assert_eq!(directory.operations(), before, "what was refused is no operation");
    directory.remove("d").expect("removed");
    assert!(directory.create("e", 2000).is_err(), "the removal may yet be undone");
    directory.sync().expect("synced");
    assert!(directory.create("e", 2000).is_err(), "somebody uses it still");
    write(&device, 0, 1);
    drop(device);
    directory.create("e", 2000).expect("there is space now");
}

#[test]
fn trimmed_sectors_read_as_anything_and_may_come_back() {
    let mut after_sync = BTreeSet::new();
    for seed in 0..SEEDS {
        let (directory, device) = one_device(SimSettings { seed: Seed(seed), ..SimSettings::default() });
        device.write_durable(0, &filled(1, 1)).expect("written");
        device.trim(0, 512).expect("trimmed");
        device.sync().expect("synced");
        let mut sector = AlignedBuffer::zeroed(SECTOR);
        device.read_at(0, &mut sector).expect("read");
        after_sync.insert(sector.iter().all(|byte| *byte == sector[0]).then_some(sector[0]));
        device.write_durable(0, &filled(2, 1)).expect("written");
        assert_eq!(outcomes_of_one(&directory), [2], "until it is written again");
    }
    assert_eq!(after_sync, BTreeSet::from([None, Some(0), Some(1)]), "garbage, zeros, as before");
}

fn outcomes_of_one(directory: &SimDirectory) -> Vec<u8> {
    bytes(&*directory.survivors(Seed(0)).open("d").expect("there"), 1)
}

#[test]
fn a_flipped_bit_stays_until_its_sector_is_written() {
    let (directory, device) = one_device(SimSettings::default());
    write(&device, 1, 0b1000);
    directory.flip_bit("d", at(1) + 7, 3).expect("flipped");
    let mut sector = AlignedBuffer::zeroed(SECTOR);
    device.read_at(at(1), &mut sector).expect("read");
    assert_eq!((sector[6], sector[7], sector[8]), (8, 0, 8));
    directory.power_cut_now();
    for seed in 0..20 {
        let device = directory.survivors(Seed(seed)).open("d").expect("there");
        device.read_at(at(1), &mut sector).expect("read");
        assert_eq!(sector[6] ^ sector[7], 8, "whichever version survived");
    }
    assert_eq!(directory.written("d").expect("there"), [at(1)]);
    assert_eq!(directory.devices(), [("d".to_owned(), at(8))]);
    assert!(directory.flip_bit("d", at(8), 0).is_err());
    assert!(directory.flip_bit("d", 0, 8).is_err());
    assert!(directory.flip_bit("x", 0, 0).is_err());

    let repaired = directory.survivors(Seed(0));
    let device = repaired.open("d").expect("there");
    write(&device, 1, 9);
    assert_eq!(bytes(&*device, 2), [0, 9]);
}

#[test]
fn a_process_crash_loses_nothing_but_the_locks() {
    let (directory, device) = one_device(SimSettings::default());
    let _held = directory.lock().expect("locked");
    assert!(matches!(directory.lock(), Err(Error::Locked { .. })));
    write(&device, 0, 1);
    directory.create("e", 512).expect("created");
    let next = directory.process_crash();
    assert!(is_power_cut(device.sync()), "the old process is dead");
    let _held_again = next.lock().expect("nobody holds it");
    assert_eq!(next.list().expect("listed"), ["d", "e"]);
    let device = next.open("d").expect("there");
    assert_eq!(bytes(&*device, 1), [1]);
    assert_eq!(next.process_crash().list().expect("listed"), ["d", "e"]);
    assert_eq!(outcomes(&next, 1).len(), 2, "it is in flight still");
    assert_eq!(names_left(&next).len(), 2);
}

#[test]
fn a_lock_ends_with_its_guard() {
    let directory = SimDirectory::with_seed(Seed(0));
    drop(directory.lock().expect("locked"));
    let _held = directory.lock().expect("locked again");
}

#[test]
fn survivors_have_no_faults_and_hold_nothing_in_flight() {
    let (directory, device) = one_device(SimSettings::default());
    device.write_at(0, &filled(1, 8)).expect("written");
    directory.inject(Fault::PowerCut { operation: directory.operations() });
    assert!(is_power_cut(device.sync()));
    let survivors = directory.survivors(Seed(3));
    assert_eq!(survivors.operations(), 0);
    let left = bytes(&*survivors.open("d").expect("there"), 8);
    assert_eq!(outcomes(&survivors, 8), BTreeSet::from([left]));
}

#[test]
fn large_blocks_tear_by_sectors_and_refuse_smaller_requests() {
    let directory = SimDirectory::new(SimSettings { block_size: 4096, ..SimSettings::default() });
    let device = directory.create("d", 1).expect("created");
    directory.sync().expect("synced");
    assert_eq!(device.len(), 4096);
    assert!(matches!(device.write_at(0, &filled(1, 1)), Err(Error::Invalid { .. })));
    device.write_at(0, &filled(1, 8)).expect("written");
    assert!(outcomes(&directory, 8).len() > 100);
}
