//! What reaches the drive of what programs ask of the block device, and how disks come and go.

mod stage;

use std::fs;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ishigaki_base::ByteSize;
use ishigaki_base::random::Seed;
use ishigaki_device::DriveSettings;
use ishigaki_emulate::{BlockDevice, EmulatedDisk, Error, cut_power, restore_power};
use rustix::fs::OFlags;
use stage::{Stage, can_emulate, filled, run, swift};

const SIZE: ByteSize = ByteSize::mib(64);

#[test]
fn a_direct_write_is_one_write_of_the_drive_and_a_sync_one_flush() {
    if !can_emulate("a_direct_write_is_one_write_of_the_drive_and_a_sync_one_flush", &[]) {
        return;
    }
    let stage = Stage::new(swift(SIZE));
    let device = stage.device(OFlags::DIRECT);
    let counts = || stage.disk.drive().counts();
    for (number, size) in [512, 4096, 65536, 1 << 18].into_iter().enumerate() {
        let (before, offset) = (counts(), (number as u64) << 21);
        device.write_all_at(&filled(size, 7), offset).unwrap();
        let written = counts();
        assert_eq!((written.writes, written.bytes_written), (before.writes + 1, before.bytes_written + size as u64));
        assert_eq!(written.flushes, before.flushes, "nobody asked for one");
        device.sync_data().unwrap();
        assert_eq!(counts().flushes, before.flushes + 1);
        let mut buffer = filled(size, 0);
        device.read_exact_at(&mut buffer, offset).unwrap();
        let read = counts();
        assert_eq!((read.reads, read.bytes_read), (before.reads + 1, before.bytes_read + size as u64));
        assert!(buffer.iter().all(|byte| *byte == 7));
    }
}

#[test]
fn a_write_to_a_device_that_was_opened_for_it_is_flushed_before_it_is_answered() {
    if !can_emulate("a_write_to_a_device_that_was_opened_for_it_is_flushed_before_it_is_answered", &[]) {
        return;
    }
    let mut is_lost_without = false;
    for seed in 0..8 {
        let stage = Stage::new(swift(SIZE));
        stage.device(OFlags::DIRECT | OFlags::DSYNC).write_all_at(&filled(8192, 1), 0).unwrap();
        stage.device(OFlags::DIRECT).write_all_at(&filled(8192, 1), 8192).unwrap();
        stage.disk.drive().cut_power(Seed(seed));
        let refused = stage.device(OFlags::DIRECT).read_exact_at(&mut filled(512, 0), 0);
        assert_eq!(refused.unwrap_err().raw_os_error(), Some(rustix::io::Errno::IO.raw_os_error()));
        stage.disk.drive().restore_power();
        let mut buffer = filled(16384, 0);
        stage.device(OFlags::DIRECT).read_exact_at(&mut buffer, 0).unwrap();
        assert!(buffer[..8192].iter().all(|byte| *byte == 1));
        is_lost_without |= buffer[8192..].contains(&0);
    }
    assert!(is_lost_without);
}

#[test]
fn trimmed_places_read_as_zeros_and_take_no_memory() {
    if !can_emulate("trimmed_places_read_as_zeros_and_take_no_memory", &["/usr/sbin/blkdiscard"]) {
        return;
    }
    let stage = Stage::new(DriveSettings { unflushed: ByteSize(0), ..swift(SIZE) });
    let device = stage.device(OFlags::DIRECT);
    device.write_all_at(&filled(1 << 20, 9), 1 << 20).unwrap();
    assert_eq!(stage.disk.drive().memory(), ByteSize::mib(1));
    stage::run("blkdiscard", &["-o", "1048576", "-l", "1048576", stage.disk.device().to_str().unwrap()]);
    assert_eq!(stage.disk.drive().memory(), ByteSize(0));
    let mut buffer = filled(1 << 20, 1);
    device.read_exact_at(&mut buffer, 1 << 20).unwrap();
    assert!(buffer.iter().all(|byte| *byte == 0));
}

#[test]
fn the_power_is_switched_and_the_status_read_by_files() {
    if !can_emulate("the_power_is_switched_and_the_status_read_by_files", &[]) {
        return;
    }
    let stage = Stage::new(swift(SIZE));
    let power = || fs::read_to_string(stage.at().join("power")).unwrap();
    stage.device(OFlags::DIRECT).write_all_at(&filled(512, 1), 0).unwrap();
    cut_power(&stage.at(), Seed(7)).unwrap();
    assert_eq!(power(), "off\n");
    fs::write(stage.at().join("power"), "on\n").unwrap();
    assert_eq!(power(), "on\n");
    fs::write(stage.at().join("power"), "cut 3").unwrap();
    restore_power(&stage.at()).unwrap();
    assert!(fs::write(stage.at().join("power"), "away").is_err());
    let status = fs::read_to_string(stage.at().join("status")).unwrap();
    assert!(status.contains("writes 1\n") && status.contains("power_cuts 2\n"), "{status}");
    let mut names: Vec<_> = fs::read_dir(stage.at()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["disk", "power", "status"]);
    assert_eq!(fs::metadata(stage.at().join("disk")).unwrap().len(), SIZE.as_u64());
    let elsewhere = tempfile::tempdir().unwrap();
    assert!(matches!(cut_power(elsewhere.path(), Seed(1)), Err(Error::NotThere { .. })));
}

#[test]
fn a_dropped_disk_leaves_neither_a_mount_nor_a_block_device() {
    if !can_emulate("a_dropped_disk_leaves_neither_a_mount_nor_a_block_device", &[]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let disk = EmulatedDisk::new(swift(SIZE), folder.path()).unwrap();
    assert!(disk.is_alive() && !disk.is_in_use());
    let again = EmulatedDisk::new(swift(SIZE), folder.path()).unwrap_err();
    assert!(again.to_string().contains("serves it already"), "{again}");
    drop(disk);
    assert!(fs::read_dir(folder.path()).unwrap().next().is_none());
    assert!(!is_attached(folder.path()));
}

#[test]
fn a_block_device_that_is_somebody_elses_by_now_is_let_alone() {
    const NAME: &str = "a_block_device_that_is_somebody_elses_by_now_is_let_alone";
    if !can_emulate(NAME, &["/usr/sbin/losetup"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (at, theirs) = (folder.path().join("disk"), folder.path().join("theirs"));
    fs::create_dir(&at).unwrap();
    fs::write(&theirs, vec![0; 1 << 20]).unwrap();
    let losetup = |arguments: &[&Path]| Command::new("losetup").args(arguments).status().unwrap().success();
    // Others may be given the device that has become free; then there is a next one.
    let taken_over = (0..10).any(|_| {
        let disk = EmulatedDisk::new(swift(SIZE), &at).unwrap();
        let device = disk.device().to_owned();
        assert!(losetup(&["-d".as_ref(), &device]));
        let is_theirs = losetup(&[&device, &theirs]);
        if is_theirs {
            assert!(!disk.is_alive() && !disk.is_in_use());
        }
        drop(disk);
        let backing = Path::new("/sys/block").join(device.file_name().unwrap()).join("loop/backing_file");
        if is_theirs {
            assert_eq!(Path::new(fs::read_to_string(backing).unwrap().trim_end()), theirs);
            assert!(losetup(&["-d".as_ref(), &device]));
        }
        is_theirs
    });
    assert!(taken_over);
}

#[test]
fn more_memory_than_the_host_has_is_refused_with_both_figures() {
    if !can_emulate("more_memory_than_the_host_has_is_refused_with_both_figures", &[]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let refused = EmulatedDisk::new(swift(ByteSize::tb(900)), folder.path());
    assert!(matches!(refused, Err(Error::Memory { .. })), "{refused:?}");
    let sparse = DriveSettings { memory: ByteSize::mib(1), ..swift(ByteSize::tb(1)) };
    let disk = EmulatedDisk::new(sparse, folder.path()).unwrap();
    assert_eq!(fs::metadata(folder.path().join("disk")).unwrap().len(), ByteSize::tb(1).as_u64());
    drop(disk);
}

/// Whether a block device has the disk of that folder.
fn is_attached(at: &Path) -> bool {
    loop_device(at).is_some()
}

/// What the kernel tells of the block device of a folder's disk.
fn loop_device(at: &Path) -> Option<PathBuf> {
    let mut devices = fs::read_dir("/sys/block").unwrap().flatten().map(|device| device.path());
    let is_of = |device: &PathBuf| {
        let backing = fs::read_to_string(device.join("loop/backing_file")).unwrap_or_default();
        backing.trim_end() == at.join("disk").to_str().unwrap()
    };
    devices.find(is_of)
}

/// What the process is told, by a variable of its environment: where to emulate.
const TASK: &str = "ISHIGAKI_TEST_DISK";

/// Leaves a disk on that folder whose process was killed.
fn leave_a_dead_disk(folder: &Path) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "emulates_until_it_is_killed", "--ignored", "--nocapture"])
        .env(TASK, folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let began = Instant::now();
    while !is_attached(folder) {
        assert!(began.elapsed() < Duration::from_mins(1), "it does not emulate");
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(is_attached(folder) && fs::read_dir(folder).is_err(), "a dead disk is left");
}

#[test]
fn the_next_disk_on_a_folder_clears_what_a_killed_process_has_left() {
    if !can_emulate("the_next_disk_on_a_folder_clears_what_a_killed_process_has_left", &[]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    leave_a_dead_disk(folder.path());
    let disk = EmulatedDisk::new(swift(SIZE), folder.path()).unwrap();
    assert!(fs::read(folder.path().join("power")).is_ok());
    drop(disk);
    assert!(!is_attached(folder.path()));
}

#[test]
fn what_a_killed_process_has_left_is_taken_away_and_nothing_else() {
    if !can_emulate("what_a_killed_process_has_left_is_taken_away_and_nothing_else", &[]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    assert!(!BlockDevice::take_away_dead(folder.path()).unwrap(), "there is nothing");
    leave_a_dead_disk(folder.path());
    let device = loop_device(folder.path()).unwrap();
    assert!(BlockDevice::take_away_dead(folder.path()).unwrap());
    assert!(!device.join("loop/backing_file").exists(), "it is free for others");
    assert!(!is_attached(folder.path()) && fs::read_dir(folder.path()).unwrap().next().is_none());
    let disk = EmulatedDisk::new(swift(SIZE), folder.path()).unwrap();
    assert!(!BlockDevice::take_away_dead(folder.path()).unwrap(), "a process answers for it");
    assert!(disk.is_alive());
}

#[test]
fn what_a_killed_process_has_left_is_found_though_another_program_has_unmounted_its_folder() {
    if !can_emulate("what_a_killed_process_has_left_is_found_though_another_program_has_unmounted_its_folder", &[]) {
        return;
    }
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let unmount = |folder: &Path| run("umount", &["-l", folder.to_str().unwrap()]);
    let is_held = |device: &Path| device.join("loop/backing_file").exists();
    // The folder of a disk that lives is unmounted, too: it goes on.
    let lives = EmulatedDisk::new(swift(SIZE), other.path()).unwrap();
    let of_other = loop_device(other.path()).unwrap();
    unmount(other.path());
    assert!(!BlockDevice::take_away_dead(other.path()).unwrap(), "a process answers for it");
    assert!(is_held(&of_other) && lives.is_alive());

    leave_a_dead_disk(folder.path());
    let device = loop_device(folder.path()).unwrap();
    unmount(folder.path());
    assert!(is_held(&device) && !is_attached(folder.path()), "its path is told no more");
    assert!(BlockDevice::take_away_dead(folder.path()).unwrap());
    assert!(!is_held(&device), "it is free for others");

    leave_a_dead_disk(folder.path());
    let device = loop_device(folder.path()).unwrap();
    unmount(folder.path());
    let disk = EmulatedDisk::new(swift(SIZE), folder.path()).unwrap();
    assert!(!is_held(&device) || disk.device().ends_with(device.file_name().unwrap()));
    assert!(is_held(&of_other), "and nothing else");
    drop((disk, lives));
    assert!(!is_held(&of_other));
}

#[test]
#[ignore = "the process that another test starts and kills"]
fn emulates_until_it_is_killed() {
    let Some(at) = std::env::var_os(TASK).map(PathBuf::from) else { return };
    let _disk = EmulatedDisk::new(swift(SIZE), &at).unwrap();
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}
