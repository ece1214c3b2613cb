//! What only regions of one device do. What every directory does is in `tests/behaviour.rs`, crashes in `tests/raw.rs`.

use ishigaki_base::ByteSize;
use ishigaki_base::random::Seed;

use super::table::{COPY, DATA, TAIL, checksum};
use super::*;
use crate::{
    AlignedBuffer, Fault, FileDevice, FileDirectory, MAX_BLOCK_SIZE, MemoryDirectory, Promise, SECTOR, SimDirectory,
};

/// A simulated device of 1 MiB, blank.
fn sim() -> (SimDirectory, Arc<dyn Device>) {
    let directory = SimDirectory::with_seed(Seed(1));
    let device = directory.medium(1 << 20).expect("made");
    (directory, device)
}

fn filled(byte: u8, length: usize) -> AlignedBuffer {
    let mut buffer = AlignedBuffer::zeroed(length);
    buffer.fill(byte);
    buffer
}

fn first_byte(device: &dyn Device, offset: u64) -> u8 {
    let mut sector = AlignedBuffer::zeroed(SECTOR);
    device.read_at(offset, &mut sector).expect("read");
    sector[0]
}

fn is_invalid<T>(result: Result<T>, words: &str) -> bool {
    result.is_err_and(|error| matches!(error, Error::Invalid { .. }) && error.to_string().contains(words))
}

#[test]
fn a_device_that_holds_anything_is_formatted_only_when_told_so() {
    for place in [0, 1024, DATA - 512, (1 << 20) - 512] {
        let (_sim, device) = sim();
        device.write_at(place, &filled(1, SECTOR)).expect("written");
        assert!(is_invalid(RawDirectory::format(Arc::clone(&device)), "not blank"), "{place}");
        assert_eq!(first_byte(&*device, place), 1);
        RawDirectory::format_anyway(Arc::clone(&device)).expect("told so").create("a", 512).expect("created");
        assert!(is_invalid(RawDirectory::format(device), "not blank"), "it holds a directory now");
    }
}

#[test]
fn a_device_that_is_too_small_or_was_never_formatted_is_refused() {
    let (sim, device) = sim();
    assert!(is_invalid(RawDirectory::open(device), "format it first"));
    let small = sim.create("small", DATA + TAIL - 512).expect("created");
    assert!(is_invalid(RawDirectory::format(small), "too few"));
}

#[test]
fn something_else_is_no_directory() {
    let (_sim, device) = sim();
    device.write_at(0, &filled(1, SECTOR)).expect("written");
    let error = RawDirectory::open(device).expect_err("no table");
    assert!(matches!(error, Error::Damaged { .. }), "{error}");
}

#[test]
fn either_copy_of_the_table_may_rot_after_a_sync() {
    for copy in 0..2 {
        let (sim, device) = sim();
        let directory = RawDirectory::format(Arc::clone(&device)).expect("formatted");
        for name in ["a", "b"] {
            directory.create(name, 512).expect("created");
            directory.sync().expect("synced");
        }
        drop(directory);
        sim.flip_bit(SimDirectory::MEDIUM, copy * COPY + 130, 3).expect("flipped");
        let directory = RawDirectory::open(Arc::clone(&device)).expect("the other copy is whole");
        assert_eq!(directory.list().expect("listed"), ["a", "b"]);
        directory.sync().expect("synced");
        drop(directory);
        sim.flip_bit(SimDirectory::MEDIUM, (1 - copy) * COPY + 130, 3).expect("flipped");
        let directory = RawDirectory::open(device).expect("the sync has mended the first");
        assert_eq!(directory.list().expect("listed"), ["a", "b"]);
    }
}

#[test]
fn two_rotten_copies_are_damage() {
    let (sim, device) = sim();
    RawDirectory::format(Arc::clone(&device)).expect("formatted");
    for copy in 0..2 {
        sim.flip_bit(SimDirectory::MEDIUM, copy * COPY + 9, 3).expect("flipped");
    }
    assert!(matches!(RawDirectory::open(device), Err(Error::Damaged { .. })));
}

/// Three names that are durable, and a fourth that pushes "e" into the second sector of the table at the next sync.
fn growing() -> (SimDirectory, RawDirectory) {
    let (sim, device) = sim();
    let directory = RawDirectory::format(device).expect("formatted");
    for name in ["b", "d", "e"] {
        directory.create(name, 512).expect("created");
    }
    directory.sync().expect("synced");
    directory.create("c", 512).expect("created");
    (sim, directory)
}

#[test]
fn a_table_that_a_power_cut_tore_never_becomes_whole_later() {
    let (sim, directory) = growing();
    sim.inject(Fault::PowerCut { operation: sim.operations() });
    directory.sync().expect_err("the power is off");
    let opened = |sim: &SimDirectory| RawDirectory::open(sim.medium(0).expect("there")).expect("a copy is whole");
    let mut torn = 0;
    for survivors in (0..100).map(|seed| sim.survivors(Seed(seed))) {
        let device = survivors.medium(0).expect("there");
        let mut copies = filled(0, DATA as usize);
        device.read_at(0, &mut copies).expect("read");
        // The new header without the second sector: the other half is written now.
        if copies[24] != 4 || Table::decode(&copies[..COPY as usize]) != table::Read::Broken {
            continue;
        }
        torn += 1;
        for operation in 0..4 {
            let again = survivors.process_crash();
            let directory = opened(&again);
            directory.create("a", 0).expect("created");
            again.inject(Fault::PowerCut { operation });
            directory.sync().expect_err("the power is off");
            for seed in 0..20 {
                let left = opened(&again.survivors(Seed(seed))).list().expect("listed");
                assert!(left == ["b", "d", "e"] || left == ["a", "b", "d", "e"], "{left:?}");
            }
        }
        break;
    }
    assert!(torn > 0, "no survivor had what this is about");
}

#[test]
fn a_table_that_a_killed_process_was_writing_is_durable_before_the_other_copy_is_written() {
    let opened = |sim: &SimDirectory| RawDirectory::open(sim.medium(0).expect("there")).expect("a copy is whole");
    for (killed_at, cut_at) in (0..2).flat_map(|killed_at| (0..4).map(move |cut_at| (killed_at, cut_at))) {
        let (sim, directory) = growing();
        sim.inject(Fault::PowerCut { operation: sim.operations() + killed_at });
        directory.sync().expect_err("the process is dead");
        // The power is on again before anything was lost: as if it had never been off.
        let next = sim.process_crash();
        let directory = opened(&next);
        // A creation would sync the whole device.
        directory.rename("b", "a").expect("renamed");
        next.inject(Fault::PowerCut { operation: next.operations() + cut_at });
        let synced = directory.sync();
        for seed in 0..200 {
            let left = opened(&next.survivors(Seed(seed))).list().expect("listed");
            let is_old = left == ["b", "d", "e"] || left == ["b", "c", "d", "e"];
            assert!(left == ["a", "c", "d", "e"] || (is_old && synced.is_err()), "{left:?}");
        }
    }
}

#[test]
fn a_table_of_a_newer_program_is_refused() {
    let (_, device) = sim();
    RawDirectory::format(Arc::clone(&device)).expect("formatted");
    let mut copy = AlignedBuffer::zeroed(SECTOR);
    device.read_at(0, &mut copy).expect("read");
    copy[4] = 2;
    let checksum = checksum(&copy, &[]);
    copy[124..128].copy_from_slice(&checksum.to_le_bytes());
    device.write_at(0, &copy).expect("written");
    assert!(is_invalid(RawDirectory::open(device), "newer program"));
}

#[test]
fn a_version_that_rotted_is_no_newer_programs() {
    let (sim, device) = sim();
    RawDirectory::format(Arc::clone(&device)).expect("formatted");
    sim.flip_bit(SimDirectory::MEDIUM, 4, 1).expect("flipped");
    RawDirectory::open(device).expect("the other copy is whole");
}

#[test]
fn a_device_that_has_shrunk_is_damage() {
    let directory = MemoryDirectory::new();
    let (large, small) = (directory.create("large", 2 << 20), directory.create("small", 1 << 20));
    let (large, small) = (large.expect("created"), small.expect("created"));
    RawDirectory::format(Arc::clone(&large)).expect("formatted");
    let mut table = filled(0, DATA as usize);
    large.read_at(0, &mut table).expect("read");
    small.write_at(0, &table).expect("written");
    let error = RawDirectory::open(small).expect_err("too short");
    assert!(matches!(error, Error::Damaged { .. }) && error.to_string().contains("2097152"), "{error}");
}

#[test]
fn regions_that_overlap_are_damage() {
    let (_sim, device) = sim();
    let medium = Medium::new(Arc::clone(&device)).expect("taken");
    let entry = |name: &str, start, length| Entry { name: name.to_owned(), start, length };
    let mut copies = Copies::format(&medium).expect("formatted");
    for entries in [
        vec![entry("a", DATA, 5000), entry("b", DATA + 4096, 512)],
        vec![entry("a", 0, 512)],
        vec![entry("a", (1 << 20) - 4096, 8192)],
    ] {
        copies.write(&medium, &Table { entries }).expect("written");
        assert!(matches!(RawDirectory::open(Arc::clone(&device)), Err(Error::Damaged { .. })));
    }
    copies.write(&medium, &Table { entries: vec![entry("a", (1 << 20) - 4096, 4000 / 512 * 512)] }).expect("written");
    RawDirectory::open(device).expect("it just fits");
}

#[test]
fn a_table_after_which_none_can_come_is_read_and_not_changed() {
    let (_sim, device) = sim();
    let directory = RawDirectory::format(Arc::clone(&device)).expect("formatted");
    directory.create("a", 512).expect("created");
    let table = directory.shared.names.lock().table();
    drop(directory);
    let mut copy = AlignedBuffer::zeroed(table.size().next_multiple_of(SECTOR));
    table.encode(u64::MAX, 1 << 20, &mut copy);
    device.write_at(0, &copy).expect("written");
    let directory = RawDirectory::open(device).expect("opened");
    assert_eq!(directory.list().expect("listed"), ["a"]);
    assert!(is_invalid(directory.sync(), "nothing can follow"));
}

#[test]
fn a_region_is_zero_although_its_space_was_used_before() {
    let (_sim, device) = sim();
    let directory = RawDirectory::format(device).expect("formatted");
    let rest = (1 << 20) - DATA;
    let old = directory.create("old", rest).expect("all there is");
    old.write_durable(rest - 512, &filled(7, SECTOR)).expect("written");
    directory.sync().expect("synced");
    directory.remove("old").expect("removed");
    assert!(matches!(directory.create("new", 512), Err(Error::NoSpace { .. })), "the removal may yet be undone");
    directory.sync().expect("synced");
    assert!(matches!(directory.create("new", 512), Err(Error::NoSpace { .. })), "somebody uses it still");
    assert_eq!(first_byte(&*old, rest - 512), 7, "and sees what was there");
    drop(old);
    let new = directory.create("new", rest).expect("there is space now");
    assert_eq!(first_byte(&*new, rest - 512), 0);
}

#[test]
fn a_replaced_region_gives_its_space_back_too() {
    let (_sim, device) = sim();
    let directory = RawDirectory::format(device).expect("formatted");
    let half = ((1 << 20) - DATA) / 2;
    for _ in 0..5 {
        drop(directory.create("current", half).expect("there is space"));
        directory.create("next", half).expect("there is space");
        directory.sync().expect("synced");
        directory.rename("next", "current").expect("renamed");
        directory.sync().expect("synced");
        directory.remove("current").expect("removed");
        directory.sync().expect("synced");
    }
}

#[test]
fn a_failed_creation_takes_no_space() {
    let (sim, device) = sim();
    let directory = RawDirectory::format(device).expect("formatted");
    let rest = (1 << 20) - DATA;
    sim.inject(Fault::WriteError { nth: sim.writes() });
    assert!(matches!(directory.create("a", rest), Err(Error::Io { .. })));
    assert!(directory.list().expect("listed").is_empty());
    directory.create("a", rest).expect("a plain write that fails is nobody else's failure");
}

#[test]
fn only_what_is_removed_durably_is_trimmed() {
    let (sim, device) = sim();
    let directory = RawDirectory::format(Arc::clone(&device)).expect("formatted");
    let kept = directory.create("kept", 8192).expect("created");
    kept.write_durable(0, &filled(7, 8192)).expect("written");
    directory.sync().expect("synced");
    directory.remove("kept").expect("removed");
    let before = sim.operations();
    drop((kept, directory));
    assert_eq!(sim.operations(), before, "letting go is no removal");
    let directory = RawDirectory::open(device).expect("opened");
    assert_eq!(first_byte(&*directory.open("kept").expect("the removal was not synced"), 4096), 7);
    directory.remove("kept").expect("removed");
    directory.sync().expect("synced");
    assert_eq!(sim.operations(), before + 4, "the copy that was read, two copies of the table and a trim");
}

#[test]
fn a_sync_that_fails_is_everybodys_failure() {
    let (sim, device) = sim();
    let directory = RawDirectory::format(device).expect("formatted");
    let (one, two) = (directory.create("1", 512).expect("created"), directory.create("2", 512).expect("created"));
    one.write_at(0, &filled(1, SECTOR)).expect("written");
    sim.inject(Fault::SyncError { nth: sim.syncs() });
    assert!(matches!(two.sync(), Err(Error::Io { .. })));
    let error = one.sync().expect_err("what it wrote is lost");
    assert!(error.to_string().contains("open the device anew"), "{error}");
    assert!(one.write_durable(0, &filled(1, SECTOR)).is_err());
    assert!(one.write_all_durable(&[(0, &filled(1, SECTOR))]).is_err());
    assert!(directory.sync().is_err());
    assert_eq!(first_byte(&*one, 0), 1, "reads go on");
}

#[test]
fn the_table_takes_so_many_names_and_no_more() {
    let (_sim, device) = sim();
    let directory = RawDirectory::format(Arc::clone(&device)).expect("formatted");
    for index in 0..MOST {
        directory.create(&format!("name-{index}"), 0).expect("created");
    }
    assert!(matches!(directory.create("one-more", 0), Err(Error::NoSpace { .. })));
    directory.rename("name-0", "renamed").expect("renamed");
    directory.sync().expect("synced");
    drop(directory);
    assert_eq!(RawDirectory::open(device).expect("opened").list().expect("listed").len(), 2047);
}

#[test]
fn an_atomic_write_is_promised_as_far_as_the_region_is_aligned() {
    let (_sim, device) = sim();
    let device: Arc<dyn Device> = Arc::new(Whole(device));
    let directory = RawDirectory::format(device).expect("formatted");
    directory.create("small", 512).expect("created");
    let region = directory.create("aligned", 512).expect("created");
    assert_eq!(region.promise().atomic_write, 65536, "a region begins where the device writes whole");
    let medium = &directory.shared.medium;
    let elsewhere = Arc::new(Region::at(medium, &directory.shared.space, DATA + 8192, 512).expect("free"));
    assert_eq!(RawDevice::new("d", elsewhere).promise().atomic_write, 8192);
}

/// A device that writes 64 KiB whole.
#[derive(Debug)]
struct Whole(Arc<dyn Device>);

impl Device for Whole {
    fn promise(&self) -> Promise {
        Promise { atomic_write: 65536, ..self.0.promise() }
    }

    fn len(&self) -> u64 {
        self.0.len()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.0.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.0.write_at(offset, bytes)
    }

    fn sync(&self) -> Result<()> {
        self.0.sync()
    }

    fn trim(&self, offset: u64, length: u64) -> Result<()> {
        self.0.trim(offset, length)
    }
}

#[test]
fn a_region_of_smaller_blocks_than_the_devices_is_refused() {
    let (_sim, small) = sim();
    let directory = RawDirectory::format(Arc::clone(&small)).expect("formatted");
    directory.create("a", 512).expect("created");
    directory.sync().expect("synced");
    let mut bytes = filled(0, 1 << 20);
    small.read_at(0, &mut bytes).expect("read");
    let settings = crate::MemorySettings { block_size: MAX_BLOCK_SIZE, ..Default::default() };
    let large = MemoryDirectory::with(settings).create("d", 1 << 20).expect("created");
    large.write_at(0, &bytes).expect("written");
    let directory = RawDirectory::open(large).expect("opened");
    let error = directory.open("a").expect_err("its length is not one of this medium's");
    assert!(matches!(&error, Error::Damaged { reason, .. } if reason.contains("smaller blocks")), "{error:?}");
}

#[test]
fn a_file_has_one_directory_at_a_time() {
    let place = tempfile::tempdir().expect("a place for temporary files");
    let files = FileDirectory::open(place.path()).expect("opened");
    let file = files.create("disk", ByteSize::mib(1).as_u64()).expect("created");
    let directory = RawDirectory::format(file).expect("formatted");
    let device = directory.create("a", 512).expect("created");
    let again = || RawDirectory::open(Arc::new(FileDevice::open_path(place.path().join("disk")).expect("opened")));
    drop(directory);
    assert!(matches!(again(), Err(Error::Locked { .. })), "one of its devices lives");
    drop(device);
    again().expect("free again");
}
