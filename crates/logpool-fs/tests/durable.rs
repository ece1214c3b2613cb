//! What a program was told is durable is there when the power is cut right after.

mod stage;

use std::fs::File;
use std::io::IoSlice;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use ishigaki_base::random::Seed;
use ishigaki_device::{AlignedBuffer, SimDirectory};
use rustix::fs::{FallocateFlags, OFlags};
use rustix::io::ReadWriteFlags;

use stage::{Stage, after_a_power_cut, can_mount};

const BLOCK: usize = 4096;

/// Two blocks of sevens, whatever the file wants in memory.
fn blocks() -> AlignedBuffer {
    let mut buffer = AlignedBuffer::zeroed(2 * BLOCK);
    buffer.fill(7);
    buffer
}

/// What is in the log after a file was opened with these flags, something done to it, and the power cut.
fn left(flags: OFlags, act: impl FnOnce(&Stage, &File)) -> Vec<(String, Vec<u8>)> {
    let medium = SimDirectory::with_seed(Seed(7));
    let stage = Stage::new(Arc::new(medium.clone()));
    let file = stage.open("log", flags);
    act(&stage, &file);
    drop(file);
    after_a_power_cut(&medium, stage)
}

fn written() -> Vec<(String, Vec<u8>)> {
    vec![("log".to_owned(), vec![7; 2 * BLOCK])]
}

#[test]
fn a_write_to_a_file_opened_for_that_is_durable_when_it_is_answered() {
    if !can_mount("a_write_to_a_file_opened_for_that_is_durable_when_it_is_answered") {
        return;
    }
    for flags in [OFlags::DSYNC, OFlags::SYNC, OFlags::DSYNC | OFlags::DIRECT, OFlags::SYNC | OFlags::DIRECT] {
        let shown = left(flags, |_, file| file.write_all_at(&blocks(), 0).unwrap());
        assert_eq!(shown, written(), "{flags:?}");
        let shown = left(flags, |_, file| {
            let (buffer, at) = (blocks(), 0);
            let halves = [IoSlice::new(&buffer[..BLOCK]), IoSlice::new(&buffer[BLOCK..])];
            assert_eq!(rustix::io::pwritev(file, &halves, at).unwrap(), 2 * BLOCK);
        });
        assert_eq!(shown, written(), "{flags:?}, in two pieces");
    }
}

#[test]
fn a_single_write_can_ask_to_be_durable() {
    if !can_mount("a_single_write_can_ask_to_be_durable") {
        return;
    }
    for flags in [ReadWriteFlags::DSYNC, ReadWriteFlags::SYNC] {
        let shown = left(OFlags::empty(), |_, file| {
            let buffer = blocks();
            let written = rustix::io::pwritev2(file, &[IoSlice::new(&buffer)], 0, flags).unwrap();
            assert_eq!(written, 2 * BLOCK);
        });
        assert_eq!(shown, written(), "{flags:?}");
    }
}

#[test]
fn a_sync_of_a_file_or_a_folder_makes_all_before_it_durable() {
    type Sync = (&'static str, fn(&Stage, &File));

    if !can_mount("a_sync_of_a_file_or_a_folder_makes_all_before_it_durable") {
        return;
    }
    let syncs: [Sync; 4] = [
        ("fdatasync", |_, file| file.sync_data().unwrap()),
        ("fsync", |_, file| file.sync_all().unwrap()),
        ("fsync of the folder", |stage, _| File::open(stage.root()).unwrap().sync_all().unwrap()),
        ("fsync by another who has it open", |stage, _| stage.open("log", OFlags::empty()).sync_all().unwrap()),
    ];
    for (what, sync) in syncs {
        for flags in [OFlags::empty(), OFlags::DIRECT] {
            let shown = left(flags, |stage, file| {
                file.write_all_at(&blocks(), 0).unwrap();
                sync(stage, file);
            });
            assert_eq!(shown, written(), "{what}, {flags:?}");
        }
    }
}

#[test]
fn without_a_sync_nothing_is_written_for_anybody() {
    if !can_mount("without_a_sync_nothing_is_written_for_anybody") {
        return;
    }
    // If this were not so, the others would show nothing.
    assert_eq!(left(OFlags::empty(), |_, file| file.write_all_at(&blocks(), 0).unwrap()), []);
}

#[test]
fn an_allocation_and_an_end_are_durable_if_the_file_was_opened_for_that() {
    if !can_mount("an_allocation_and_an_end_are_durable_if_the_file_was_opened_for_that") {
        return;
    }
    let shown = left(OFlags::DSYNC, |_, file| {
        rustix::fs::fallocate(file, FallocateFlags::empty(), 0, 8192).unwrap();
    });
    assert_eq!(shown, [("log".to_owned(), vec![0; 8192])]);
    let shown = left(OFlags::DSYNC, |_, file| file.set_len(5000).unwrap());
    assert_eq!(shown, [("log".to_owned(), vec![0; 5000])]);
}

#[test]
fn a_name_that_replaces_another_is_the_old_or_the_new_file_and_durable_with_the_folder() {
    if !can_mount("a_name_that_replaces_another_is_the_old_or_the_new_file_and_durable_with_the_folder") {
        return;
    }
    for links in [false, true] {
        let shown = left(OFlags::empty(), |stage, file| {
            file.write_all_at(&blocks(), 0).unwrap();
            if links {
                std::fs::hard_link(stage.path("log"), stage.path("log.1")).unwrap();
                std::fs::remove_file(stage.path("log")).unwrap();
            } else {
                stage.open("log.1", OFlags::DSYNC).write_all_at(b"old", 0).unwrap();
                std::fs::rename(stage.path("log"), stage.path("log.1")).unwrap();
            }
            File::open(stage.root()).unwrap().sync_all().unwrap();
        });
        assert_eq!(shown, [("log.1".to_owned(), vec![7; 2 * BLOCK])], "links: {links}");
    }
}
