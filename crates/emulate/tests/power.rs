//! An ext4 on an emulated disk whose power is cut: what was synced is there, and what was not can be gone.

mod stage;

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use ishigaki_base::ByteSize;
use ishigaki_device::{DriveSettings, HddSettings, Medium, SECTOR};
use ishigaki_emulate::EmulatedDisk;
use ishigaki_testkit::seeded;
use rustix::fs::OFlags;
use stage::{Stage, can_emulate, filled, open, run, swift};

/// Power cuts of one disk.
const CUTS: u8 = 6;

/// Bytes of a file that is written and not synced.
const UNSYNCED: usize = 256 << 10;

#[test]
fn ext4_has_every_synced_byte_after_power_cuts_and_loses_what_was_not() {
    const NAME: &str = "ext4_has_every_synced_byte_after_power_cuts_and_loses_what_was_not";
    if !can_emulate(NAME, &["/usr/sbin/mkfs.ext4", "/usr/sbin/fsck.ext4"]) {
        return;
    }
    seeded(NAME, |seed| {
        let mut stage = Stage::new(swift(ByteSize::mib(256)));
        stage.make_ext4();
        stage.mount();
        let mut lost = 0;
        for round in 1..=CUTS {
            let synced = stage.root().join(format!("synced-{round}"));
            let file = open(&synced, OFlags::empty());
            file.write_all_at(&vec![round; 100_000 * usize::from(round)], 0).unwrap();
            file.sync_all().unwrap();
            fs::File::open(stage.root()).unwrap().sync_all().unwrap();
            // Its blocks are there, with what the last round has left: what is written over them is data and nothing else.
            let unsynced = open(&stage.root().join("unsynced"), OFlags::DIRECT);
            if round == 1 {
                unsynced.write_all_at(&filled(UNSYNCED, 0), 0).unwrap();
            }
            unsynced.sync_all().unwrap();
            let mut before = filled(UNSYNCED, 0);
            unsynced.read_exact_at(&mut before, 0).unwrap();
            unsynced.write_all_at(&filled(UNSYNCED, round), 0).unwrap();
            drop((file, unsynced));

            stage.power_cycle(seed.derive(round.into()));
            stage.mount();
            for told in 1..=round {
                let bytes = fs::read(stage.root().join(format!("synced-{told}"))).unwrap();
                assert!(
                    bytes == vec![told; 100_000 * usize::from(told)],
                    "round {round}: synced-{told} is not as synced"
                );
            }
            let after = fs::read(stage.root().join("unsynced")).unwrap();
            assert_eq!(after.len(), UNSYNCED);
            for (now, old) in after.chunks(SECTOR).zip(before.chunks(SECTOR)) {
                let is_new = now.iter().all(|byte| *byte == round);
                assert!(is_new || now == old, "a sector is old or new");
                lost += u32::from(!is_new);
            }
        }
        assert!(lost > 0, "nothing that was not synced was lost, in {CUTS} cuts");
        stage.unmount();
        run("fsck.ext4", &["-f", "-n", stage.disk.device().to_str().unwrap()]);
    });
}

#[test]
fn a_file_system_gets_errors_from_a_disk_without_power_and_finds_what_was_synced_when_it_is_back() {
    const NAME: &str = "a_file_system_gets_errors_from_a_disk_without_power_and_finds_what_was_synced_when_it_is_back";
    if !can_emulate(NAME, &["/usr/sbin/mkfs.ext4"]) {
        return;
    }
    let mut stage = Stage::new(swift(ByteSize::mib(64)));
    stage.make_ext4();
    stage.mount();
    assert!(stage.disk.is_in_use());
    let file = open(&stage.root().join("file"), OFlags::empty());
    file.write_all_at(b"told", 0).unwrap();
    file.sync_all().unwrap();
    stage.disk.drive().cut_power(ishigaki_base::random::Seed(1));
    file.write_all_at(b"lost", 0).unwrap();
    assert!(file.sync_all().is_err());
    drop(file);
    stage.unmount();
    assert!(!stage.disk.is_in_use());
    stage.disk.drive().restore_power();
    stage.mount();
    assert_eq!(fs::read(stage.root().join("file")).unwrap(), b"told");
}

#[test]
fn a_disk_is_pulled_out_at_once_while_a_flush_of_seconds_is_under_way() {
    const NAME: &str = "a_disk_is_pulled_out_at_once_while_a_flush_of_seconds_is_under_way";
    if !can_emulate(NAME, &[]) {
        return;
    }
    // Each place takes half a turn of a fifth of a second, about.
    let medium = Medium::Hdd(HddSettings { rpm: 300, ..HddSettings::default() });
    let folder = tempfile::tempdir().unwrap();
    let disk = EmulatedDisk::new(DriveSettings::new(medium, ByteSize::gib(2)), folder.path()).unwrap();
    let file = open(disk.device(), OFlags::DIRECT);
    for place in 0..100 {
        file.write_all_at(&filled(4096, 1), place << 24).unwrap();
    }
    let flushes = disk.drive().counts().flushes;
    thread::scope(|scope| {
        let flush = scope.spawn(|| file.sync_all());
        while disk.drive().counts().flushes == flushes {
            thread::yield_now();
        }
        let begin = Instant::now();
        drop(disk);
        assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
        assert!(flush.join().unwrap().is_err());
    });
}

#[test]
fn a_file_system_on_a_disk_that_is_pulled_out_gets_errors_and_can_be_unmounted() {
    const NAME: &str = "a_file_system_on_a_disk_that_is_pulled_out_gets_errors_and_can_be_unmounted";
    if !can_emulate(NAME, &["/usr/sbin/mkfs.ext4"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (at, root) = (folder.path().join("disk"), folder.path().join("root"));
    fs::create_dir(&at).unwrap();
    fs::create_dir(&root).unwrap();
    let disk = EmulatedDisk::new(swift(ByteSize::mib(64)), &at).unwrap();
    run("mkfs.ext4", &["-q", "-F", disk.device().to_str().unwrap()]);
    run("mount", &[disk.device().to_str().unwrap(), root.to_str().unwrap()]);
    let file = open(&root.join("file"), OFlags::empty());
    file.write_all_at(b"told", 0).unwrap();
    file.sync_all().unwrap();
    let name = disk.device().file_name().unwrap().to_owned();
    drop(disk);
    file.write_all_at(b"lost", 0).unwrap();
    assert!(file.sync_all().is_err());
    drop(file);
    run("umount", &[root.to_str().unwrap()]);
    assert!(!Path::new("/sys/block").join(name).join("loop").exists(), "its last user has taken it along");
}
