//! What every directory and its devices do alike, whatever they are made of: the same checks over all of them.

use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::Arc;

use ishigaki_base::ByteSize;
use ishigaki_base::random::Seed;
use ishigaki_device::{
    AlignedBuffer, Device, Directory, Error, FileDevice, FileDirectory, MAX_BLOCK_SIZE, MemoryDirectory,
    MemorySettings, RawDirectory, RingDirectory, SECTOR, SimDirectory, SimSettings,
};

/// Runs a check on an empty directory of every kind, and says on which one it failed.
fn on_every_directory(check: impl Fn(&dyn Directory)) {
    let place = tempfile::tempdir().expect("a place for temporary files");
    let files = FileDirectory::open(place.path().join("files")).expect("opened");
    let rings = rings(&place.path().join("rings"));
    let large_memory = MemorySettings { block_size: MAX_BLOCK_SIZE, ..MemorySettings::default() };
    let large_sim = SimSettings { block_size: MAX_BLOCK_SIZE, ..SimSettings::default() };
    let mut kinds: Vec<(&str, &dyn Directory)> = vec![("files", &files)];
    if let Some(rings) = &rings {
        kinds.push(("files by io_uring", rings));
    }
    let (large_memory, sim, large_sim) =
        (MemoryDirectory::with(large_memory), SimDirectory::with_seed(Seed(1)), SimDirectory::new(large_sim));
    let memory = MemoryDirectory::new();
    let raw = |device| RawDirectory::format(device).expect("formatted");
    files.create("raw", 4 << 20).expect("created");
    let raw_file = FileDevice::open_path(files.path().join("raw")).expect("opened");
    files.remove("raw").expect("removed");
    let raw_memory = raw(MemoryDirectory::new().create("raw", 4 << 20).expect("created"));
    let raw_large = raw(large_memory.create("raw", 4 << 20).expect("created"));
    large_memory.remove("raw").expect("removed");
    let raw_sim = raw(SimDirectory::with_seed(Seed(2)).medium(4 << 20).expect("made"));
    let raw_file = raw(Arc::new(raw_file));
    kinds.extend([
        ("regions in memory", &raw_memory as &dyn Directory),
        ("regions in memory with large blocks", &raw_large),
        ("regions of a simulated device", &raw_sim),
        ("regions of a file", &raw_file),
        ("memory", &memory),
        ("memory with large blocks", &large_memory),
        ("simulated", &sim),
        ("simulated with large blocks", &large_sim),
    ]);
    for (kind, directory) in kinds {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| check(directory))) {
            eprintln!("that was the directory of {kind}");
            resume_unwind(panic);
        }
    }
}

/// Says that a directory could not be had, past the test harness, which keeps to itself what passing tests print.
fn skipped(reason: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED: {reason}");
}

fn rings(path: &Path) -> Option<RingDirectory> {
    match RingDirectory::open(path) {
        Err(error @ Error::NoRing { .. }) => {
            skipped(&error.to_string());
            None
        }
        opened => Some(opened.expect("opened")),
    }
}

/// A device of 16 of its blocks.
fn blocks(directory: &dyn Directory, name: &str) -> (Arc<dyn Device>, usize) {
    let device = directory.create(name, 16 * MAX_BLOCK_SIZE as u64).expect("created");
    let block = device.promise().block_size;
    (device, block)
}

fn filled(byte: u8, length: usize) -> AlignedBuffer {
    let mut buffer = AlignedBuffer::zeroed(length);
    buffer.fill(byte);
    buffer
}

fn read(device: &dyn Device, offset: u64, length: usize) -> Vec<u8> {
    let mut buffer = filled(0xee, length);
    device.read_at(offset, &mut buffer).expect("read");
    buffer.to_vec()
}

fn is_invalid<T>(result: Result<T, Error>) -> bool {
    result.is_err_and(|error| matches!(error, Error::Invalid { .. }))
}

#[test]
fn a_promise_keeps_its_own_bounds() {
    on_every_directory(|directory| {
        let promise = directory.create("d", 1).expect("created").promise();
        assert!(promise.block_size.is_power_of_two());
        assert!((SECTOR..=MAX_BLOCK_SIZE).contains(&promise.block_size));
        assert!(promise.atomic_write >= SECTOR);
    });
}

#[test]
fn a_new_device_is_zero_and_of_whole_blocks() {
    on_every_directory(|directory| {
        let device = directory.create("d", 4097).expect("created");
        let block = device.promise().block_size as u64;
        assert_eq!(device.len(), 4097_u64.next_multiple_of(block));
        assert!(read(&*device, 0, device.len() as usize).iter().all(|byte| *byte == 0));
        assert!(directory.create("empty", 0).expect("created").is_empty());
        assert_eq!(directory.open("empty").expect("opened").len(), 0);
    });
}

#[test]
fn every_way_of_writing_is_read_back_in_its_place() {
    on_every_directory(|directory| {
        let (device, block) = blocks(directory, "d");
        let at = |index: u64| index * block as u64;
        device.write_at(at(1), &filled(1, 2 * block)).expect("written");
        device.write_durable(at(2), &filled(2, 2 * block)).expect("written");
        device.sync().expect("synced");
        for device in [device, directory.open("d").expect("opened")] {
            let bytes = read(&*device, 0, 5 * block);
            let firsts: Vec<u8> = bytes.chunks(block).map(|block| block[0]).collect();
            assert_eq!(firsts, [0, 1, 2, 2, 0]);
            assert!(bytes.chunks(block).all(|block| block.iter().all(|byte| *byte == block[0])));
        }
    });
}

#[test]
fn runs_written_together_are_read_back_in_their_places() {
    on_every_directory(|directory| {
        let (device, block) = blocks(directory, "d");
        let at = |index: u64| index * block as u64;
        device.write_all_durable(&[]).expect("nothing");
        let runs: Vec<AlignedBuffer> = (1..=9).map(|byte| filled(byte, block)).collect();
        // Backwards, with holes, and more than fit into one vectored write of neighbours.
        let writes: Vec<(u64, &[u8])> =
            [9, 8, 7, 0, 1, 2, 13, 5, 15].into_iter().map(at).zip(runs.iter().map(|run| &run[..])).collect();
        device.write_all_durable(&writes).expect("written");
        device.write_all_durable(&[(at(3), &runs[0]), (at(11), &[])]).expect("written");
        let firsts: Vec<u8> = read(&*device, 0, 16 * block).chunks(block).map(|block| block[0]).collect();
        assert_eq!(firsts, [4, 5, 6, 1, 0, 8, 0, 3, 2, 1, 0, 0, 0, 7, 0, 9]);
    });
}

#[test]
fn two_handles_see_each_others_writes_at_once() {
    on_every_directory(|directory| {
        let (one, block) = blocks(directory, "d");
        let two = directory.open("d").expect("opened");
        one.write_at(0, &filled(1, block)).expect("written");
        assert_eq!(read(&*two, 0, block)[0], 1);
    });
}

#[test]
fn misaligned_requests_are_refused_and_change_nothing() {
    on_every_directory(|directory| {
        let (device, block) = blocks(directory, "d");
        let memory = filled(1, 2 * block);
        let half = block / 2;
        for (offset, bytes) in [
            (half as u64, &memory[..block]),
            (0, &memory[..half]),
            (0, &memory[..block + half]),
            (0, &memory[half..half + block]),
        ] {
            assert!(is_invalid(device.write_at(offset, bytes)));
            assert!(is_invalid(device.write_durable(offset, bytes)));
        }
        let mut memory = memory;
        assert!(is_invalid(device.read_at(1, &mut memory[..block])));
        assert!(is_invalid(device.read_at(0, &mut memory[..block - 1])));
        assert!(is_invalid(device.read_at(0, &mut memory[8..block + 8])));
        assert!(is_invalid(device.trim(1, block as u64)));
        assert!(is_invalid(device.trim(0, block as u64 - 1)));
        let good = filled(1, block);
        assert!(is_invalid(device.write_all_durable(&[(0, &good), (half as u64, &good)])), "all or none");
        assert!(read(&*device, 0, 2 * block).iter().all(|byte| *byte == 0));
    });
}

#[test]
fn nothing_reaches_past_the_end() {
    on_every_directory(|directory| {
        let (device, block) = blocks(directory, "d");
        let end = device.len();
        let memory = filled(1, 2 * block);
        for offset in [end, end - block as u64, u64::MAX - block as u64 + 1] {
            assert!(is_invalid(device.write_at(offset, &memory)), "{offset}");
            assert!(is_invalid(device.write_durable(offset, &memory)), "{offset}");
            assert!(is_invalid(device.read_at(offset, &mut filled(0, 2 * block))), "{offset}");
            assert!(is_invalid(device.trim(offset, 2 * block as u64)), "{offset}");
        }
        device.write_at(end - block as u64, &memory[..block]).expect("the last block");
        device.write_at(end, &[]).expect("nothing, at the end");
        assert_eq!(device.len(), end);
    });
}

#[test]
fn a_trimmed_block_can_be_written_again_and_leaves_its_neighbours() {
    on_every_directory(|directory| {
        let (device, _) = blocks(directory, "d");
        let block = MAX_BLOCK_SIZE;
        device.write_at(0, &filled(1, 3 * block)).expect("written");
        device.trim(block as u64, block as u64).expect("trimmed");
        device.trim(0, 0).expect("nothing trimmed");
        device.write_at(block as u64, &filled(2, block)).expect("written");
        let firsts: Vec<u8> = read(&*device, 0, 3 * block).chunks(block).map(|block| block[0]).collect();
        assert_eq!(firsts, [1, 2, 1]);
        assert_eq!(device.len(), 16 * MAX_BLOCK_SIZE as u64);
    });
}

#[test]
fn zeros_are_read_where_they_were_asked_for_and_nowhere_else() {
    on_every_directory(|directory| {
        let (device, _) = blocks(directory, "d");
        let block = MAX_BLOCK_SIZE;
        device.write_at(0, &filled(1, 4 * block)).expect("written");
        device.zero(block as u64, 2 * block as u64).expect("zeros");
        device.zero(0, 0).expect("nothing");
        device.sync().expect("synced");
        let firsts: Vec<u8> = read(&*device, 0, 4 * block).chunks(block).map(|block| block[0]).collect();
        assert_eq!(firsts, [1, 0, 0, 1]);
        assert!(is_invalid(device.zero(1, block as u64)) && is_invalid(device.zero(device.len(), block as u64)));
    });
}

#[test]
fn a_name_is_taken_once() {
    on_every_directory(|directory| {
        let (device, block) = blocks(directory, "d");
        device.write_at(0, &filled(1, block)).expect("written");
        assert!(matches!(directory.create("d", 1), Err(Error::AlreadyExists { .. })));
        assert_eq!(read(&*directory.open("d").expect("there"), 0, block)[0], 1);
        assert_eq!(directory.list().expect("listed"), ["d"]);
    });
}

#[test]
fn a_missing_name_is_not_found() {
    on_every_directory(|directory| {
        let is_missing = |result: Result<(), Error>| matches!(result, Err(Error::NotFound { .. }));
        assert!(is_missing(directory.open("d").map(drop)));
        assert!(is_missing(directory.rename("d", "e")));
        assert!(is_missing(directory.remove("d")));
        assert!(directory.list().expect("listed").is_empty());
    });
}

#[test]
fn an_impossible_name_is_refused_everywhere() {
    on_every_directory(|directory| {
        blocks(directory, "good");
        for bad in ["", ".", "..", ".d", "a/b", "/d", "a b", "LOCK", "ö", "a\0", &"x".repeat(101)] {
            assert!(is_invalid(directory.create(bad, 1).map(drop)), "{bad:?}");
            assert!(is_invalid(directory.open(bad).map(drop)), "{bad:?}");
            assert!(is_invalid(directory.rename("good", bad)), "{bad:?}");
            assert!(is_invalid(directory.rename(bad, "good")), "{bad:?}");
            assert!(is_invalid(directory.remove(bad)), "{bad:?}");
        }
        directory.create(&"x".repeat(100), 1).expect("just short enough");
    });
}

#[test]
fn names_are_listed_in_order() {
    on_every_directory(|directory| {
        for name in ["c", "B", "a-1", "a.0", "a_2"] {
            directory.create(name, 1).expect("created");
        }
        assert_eq!(directory.list().expect("listed"), ["B", "a-1", "a.0", "a_2", "c"]);
    });
}

#[test]
fn a_rename_replaces_and_open_devices_live_on() {
    on_every_directory(|directory| {
        let (old, block) = blocks(directory, "current");
        let (new, _) = blocks(directory, "next");
        old.write_at(0, &filled(1, block)).expect("written");
        new.write_at(0, &filled(2, block)).expect("written");
        directory.rename("next", "current").expect("renamed");
        directory.sync().expect("synced");
        assert_eq!(directory.list().expect("listed"), ["current"]);
        assert_eq!(read(&*directory.open("current").expect("there"), 0, block)[0], 2);
        assert_eq!(read(&*old, 0, block)[0], 1);
        old.write_durable(0, &filled(3, block)).expect("nobody sees it, but it works");
        assert_eq!(read(&*new, 0, block)[0], 2);
        directory.rename("current", "current").expect("to itself");
        assert_eq!(directory.list().expect("listed"), ["current"]);
    });
}

#[test]
fn a_removed_device_lives_until_its_user_lets_go_and_its_name_is_free() {
    on_every_directory(|directory| {
        let (device, block) = blocks(directory, "d");
        directory.remove("d").expect("removed");
        directory.sync().expect("synced");
        device.write_durable(0, &filled(1, block)).expect("written");
        assert!(directory.list().expect("listed").is_empty());
        let again = directory.create("d", 1).expect("created");
        assert_eq!(read(&*again, 0, block)[0], 0);
        assert_eq!(read(&*device, 0, block)[0], 1);
    });
}

#[test]
fn the_lock_is_held_by_one_until_dropped() {
    on_every_directory(|directory| {
        let lock = directory.lock().expect("free");
        assert!(matches!(directory.lock(), Err(Error::Locked { holder: Some(_), .. })));
        blocks(directory, "d");
        assert_eq!(directory.list().expect("listed"), ["d"]);
        drop(lock);
        drop(directory.lock().expect("free again"));
    });
}

#[test]
fn threads_write_their_own_blocks_side_by_side() {
    on_every_directory(|directory| {
        let (device, block) = blocks(directory, "d");
        std::thread::scope(|scope| {
            for thread in 0..4_u8 {
                let device = &device;
                scope.spawn(move || {
                    for round in 0..8_u8 {
                        let offset = u64::from(thread) * block as u64;
                        let bytes = filled(thread * 16 + round, block);
                        if round % 2 == 0 {
                            device.write_durable(offset, &bytes).expect("written");
                        } else {
                            device.write_at(offset, &bytes).expect("written");
                            device.sync().expect("synced");
                        }
                    }
                });
            }
        });
        let firsts: Vec<u8> = read(&*device, 0, 4 * block).chunks(block).map(|block| block[0]).collect();
        assert_eq!(firsts, [7, 23, 39, 55]);
    });
}

#[test]
fn a_full_medium_says_so_and_keeps_what_it_has() {
    let capacity = Some(ByteSize::kib(8));
    // Beside the regions there is room for the two copies of their table.
    let small = MemoryDirectory::new().create("d", (512 << 10) + 64 * 1024).expect("created");
    let regions = RawDirectory::format(small).expect("formatted");
    regions.create("rest", 56 << 10).expect("fits");
    let kinds: [&dyn Directory; 3] = [
        &regions,
        &MemoryDirectory::with(MemorySettings { capacity, ..MemorySettings::default() }),
        &SimDirectory::new(SimSettings { capacity, ..SimSettings::default() }),
    ];
    for directory in kinds {
        directory.create("a", 6000).expect("fits");
        assert!(matches!(directory.create("b", 4000), Err(Error::NoSpace { needed: 4096, .. })));
        assert!(!directory.list().expect("listed").contains(&"b".to_owned()));
        let device = directory.open("a").expect("still there");
        device.write_durable(5632, &filled(1, SECTOR)).expect("its last block");
    }
}
