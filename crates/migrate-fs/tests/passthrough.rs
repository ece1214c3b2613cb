//! Files of which nothing is missing are read and written by the kernel itself.

mod stage;

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use ishigaki_migrate_fs::AllHere;
use stage::{Disk, Stage, Stubs, can_open, until};

/// Whether this kernel can.
fn passes(stage: &Stage, test: &str) -> bool {
    fs::write(stage.folder.join("probe"), b"probe").unwrap();
    let passes = stage.door().counts().passed > 0;
    if !passes {
        use std::io::Write;
        let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: the kernel passes no files through");
    }
    passes
}

#[test]
fn the_door_sees_no_read_or_write_of_a_normal_file() {
    const TEST: &str = "the_door_sees_no_read_or_write_of_a_normal_file";
    if !can_open(TEST) {
        return;
    }
    let stubs = Arc::new(Stubs::default());
    stubs.normal.store(true, Ordering::Release);
    let stage = Stage::with(stubs.clone());
    if !passes(&stage, TEST) {
        return;
    }
    let path = stage.folder.join("file");
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
    for round in 0..100 {
        file.write_all_at(b"bytes", round * 5).unwrap();
    }
    assert_eq!(fs::read(&path).unwrap().len(), 500);
    let counts = stage.door().counts();
    assert_eq!((counts.passed, counts.served), (3, 0));
    assert_eq!((stubs.reads.load(Ordering::Relaxed), stubs.changes.load(Ordering::Relaxed)), (0, 0));
}

#[test]
fn what_is_known_to_be_here_is_not_asked_for_again() {
    if !can_open("what_is_known_to_be_here_is_not_asked_for_again") {
        return;
    }
    let stubs = Arc::new(Stubs::default());
    let stage = Stage::with(stubs.clone());
    let folder = stage.folder.join("directory");
    fs::create_dir(stage.destination.join("directory")).unwrap();
    for number in 0..100 {
        fs::write(stage.destination.join(format!("directory/{number}")), b"bytes").unwrap();
    }
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 100);
    // A file of which something may be missing is asked for with each read, and one of which nothing is, once.
    let (listings, before) = (stubs.listings.load(Ordering::Relaxed), stubs.questions.load(Ordering::Relaxed));
    let read = |number: u32| assert_eq!(fs::read(folder.join(number.to_string())).unwrap(), b"bytes");
    (0..100).for_each(read);
    let stubbed = stubs.questions.load(Ordering::Relaxed) - before;
    assert!(stubbed >= 200, "{stubbed}");
    assert!(stubs.listings.load(Ordering::Relaxed) <= listings + 1);
    stubs.normal.store(true, Ordering::Release);
    (0..100).for_each(read);
    let before = stubs.questions.load(Ordering::Relaxed);
    for _ in 0..3 {
        (0..100).for_each(read);
    }
    assert_eq!(stubs.questions.load(Ordering::Relaxed), before);
}

#[test]
fn a_stub_that_becomes_normal_is_served_until_it_was_closed_and_passed_through_then() {
    const TEST: &str = "a_stub_that_becomes_normal_is_served_until_it_was_closed_and_passed_through_then";
    if !can_open(TEST) {
        return;
    }
    let stubs = Arc::new(Stubs::default());
    let stage = Stage::with(stubs.clone());
    let path = stage.folder.join("file");
    // What programs make is passed through at once, so the old server's way in is the destination.
    fs::write(stage.destination.join("file"), vec![7; 8192]).unwrap();
    let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    // A mapping makes the kernel keep pages: then it passes nothing through.
    map_and_write(&file, 0);
    stubs.normal.store(true, Ordering::Release);
    let other = File::open(&path).unwrap();
    let mut bytes = [0; 2];
    other.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(bytes, [9, 7], "what was written to the mapping is seen by another one who opens it");
    assert_eq!(stage.door().counts().passed, 0);
    drop((file, other));
    // Closing is told to the door a little later.
    until(|| {
        let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        map_and_write(&file, 4096);
        stage.door().counts().passed > 0
    });
    let bytes = fs::read(stage.destination.join("file")).unwrap();
    assert_eq!((bytes[0], bytes[1], bytes[4096]), (9, 7, 9));
}

#[test]
fn a_write_to_a_mapping_shows_in_the_time_of_the_last_change_at_once() {
    const TEST: &str = "a_write_to_a_mapping_shows_in_the_time_of_the_last_change_at_once";
    if !can_open(TEST) {
        return;
    }
    let stage = Stage::new();
    let path = stage.folder.join("file");
    fs::write(&path, vec![7; 8192]).unwrap();
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    File::options().write(true).open(&path).unwrap().set_modified(long_ago).unwrap();
    // The kernel is told the time, and believes it.
    assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), long_ago);
    let script = "import mmap,os,sys
path = sys.argv[1]
seen = lambda: os.stat(path).st_mtime_ns
file = os.open(path, os.O_RDWR)
mapped = mmap.mmap(file, 8192)
before = seen()
mapped[0] = 9
after = seen()
mapped.close()
os.close(file)
print(before // 10**9, after > before, after == seen())";
    let seen = Command::new("python3").args(["-c", script]).arg(&path).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&seen.stdout), "1000000000 True True\n", "{seen:?}");
    let own = fs::metadata(stage.destination.join("file")).unwrap().modified().unwrap();
    assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), own);
}

#[test]
fn a_file_that_is_removed_after_it_was_read_gives_its_space_back() {
    const TEST: &str = "a_file_that_is_removed_after_it_was_read_gives_its_space_back";
    if !can_open(TEST) {
        return;
    }
    let Some(disk) = Disk::new(TEST, Command::new("mkfs.ext4").args(["-q", "-F"])) else { return };
    let stage = Stage::within(tempfile::tempdir_in(&disk.folder).unwrap(), Arc::new(AllHere));
    let free = || rustix::fs::statvfs(&disk.folder).unwrap().f_bfree;
    let before = free();
    for (name, other) in [("removed", None), ("replaced", Some("other"))] {
        let path = stage.folder.join(name);
        fs::write(&path, vec![7; 20 << 20]).unwrap();
        File::open(&path).unwrap().sync_all().unwrap();
        assert!(before - free() >= 5_000);
        assert_eq!(fs::read(&path).unwrap().len(), 20 << 20);
        match other {
            None => fs::remove_file(&path).unwrap(),
            Some(other) => {
                fs::write(stage.folder.join(other), b"").unwrap();
                fs::rename(stage.folder.join(other), &path).unwrap();
            }
        }
        // Closing and forgetting are told to the door a little later.
        until(|| before - free().min(before) < 1_000);
    }
    // A directory, too, is not held any longer than it is there.
    let inodes = || rustix::fs::statvfs(&disk.folder).unwrap().f_ffree;
    fs::create_dir(stage.folder.join("directory")).unwrap();
    fs::write(stage.folder.join("directory/file"), b"").unwrap();
    let with = inodes();
    fs::remove_dir_all(stage.folder.join("directory")).unwrap();
    until(|| inodes() == with + 2);
}

/// Writes one byte to a shared mapping, by another process: mappings take unsafe code here.
fn map_and_write(file: &File, offset: u64) {
    use std::os::fd::AsRawFd;
    let script =
        format!("import mmap,os\nf={}\nm=mmap.mmap(f,8192)\nm[{offset}]=9\nm.flush()\nm.close()\n", file.as_raw_fd());
    rustix::io::fcntl_setfd(file, rustix::io::FdFlags::empty()).unwrap();
    let done = Command::new("python3").arg("-c").arg(script).status().unwrap();
    assert!(done.success());
}
