//! What servers do to their log files, through the kernel.

mod stage;

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;

use ishigaki_device::AlignedBuffer;
use rustix::fs::{CWD, FallocateFlags, FlockOperation, OFlags, RenameFlags};
use rustix::io::Errno;

use stage::{Stage, can_mount};

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn errno(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap()
}

#[test]
fn files_are_made_written_read_renamed_and_removed() {
    if !can_mount("files_are_made_written_read_renamed_and_removed") {
        return;
    }
    let mut stage = Stage::in_memory();
    fs::write(stage.path("one"), b"first").unwrap();
    fs::create_dir(stage.path("archive_status")).unwrap();
    fs::write(stage.path("archive_status/one.done"), b"").unwrap();
    fs::rename(stage.path("one"), stage.path("two")).unwrap();
    fs::rename(stage.path("archive_status"), stage.path("status")).unwrap();
    assert_eq!(names(stage.root()), ["status", "two"]);
    assert_eq!(names(&stage.path("status")), ["one.done"]);
    assert_eq!(fs::read(stage.path("two")).unwrap(), b"first");
    // An append begins where the file ends.
    let mut file = fs::OpenOptions::new().append(true).open(stage.path("two")).unwrap();
    file.write_all(b" and more").unwrap();
    drop(file);
    let number = fs::metadata(stage.path("two")).unwrap().ino();
    stage.mount_again();
    assert_eq!(fs::read(stage.path("two")).unwrap(), b"first and more");
    assert_eq!(fs::metadata(stage.path("two")).unwrap().ino(), number);
    assert_eq!(errno(&fs::remove_dir(stage.path("status")).unwrap_err()), Errno::NOTEMPTY);
    fs::remove_file(stage.path("status/one.done")).unwrap();
    fs::remove_dir(stage.path("status")).unwrap();
    fs::remove_file(stage.path("two")).unwrap();
    assert_eq!(names(stage.root()), [""; 0]);
    assert_eq!(fs::read(stage.path("two")).unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn a_removed_file_lives_for_who_has_it_open() {
    if !can_mount("a_removed_file_lives_for_who_has_it_open") {
        return;
    }
    let stage = Stage::in_memory();
    let file = stage.open("log", OFlags::empty());
    file.write_all_at(b"still here", 0).unwrap();
    fs::remove_file(stage.path("log")).unwrap();
    stage.open("log", OFlags::empty()).write_all_at(b"another", 0).unwrap();
    let mut bytes = [0; 10];
    file.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!((&bytes, file.metadata().unwrap().nlink()), (b"still here", 0));
    drop(file);
    assert_eq!(fs::read(stage.path("log")).unwrap(), b"another");
}

#[test]
fn bytes_come_back_as_they_were_written_with_direct_io_and_without() {
    if !can_mount("bytes_come_back_as_they_were_written_with_direct_io_and_without") {
        return;
    }
    let stage = Stage::in_memory();
    for (flags, length) in [(OFlags::empty(), 300_000), (OFlags::DIRECT, 1 << 20), (OFlags::DIRECT, 3 << 20)] {
        let mut written = AlignedBuffer::zeroed(length);
        written.iter_mut().enumerate().for_each(|(at, byte)| *byte = (at * 31 / 7) as u8);
        let file = stage.open("log", flags);
        file.write_all_at(&written, 4096).unwrap();
        let mut read = AlignedBuffer::zeroed(length);
        file.read_exact_at(&mut read, 4096).unwrap();
        assert!(read[..] == written[..], "{length} bytes, {flags:?}");
        assert_eq!(file.metadata().unwrap().len(), 4096 + length as u64);
        fs::remove_file(stage.path("log")).unwrap();
    }
}

#[test]
fn a_file_ends_where_it_is_told_to_and_grows_by_zeros() {
    if !can_mount("a_file_ends_where_it_is_told_to_and_grows_by_zeros") {
        return;
    }
    let stage = Stage::in_memory();
    let mut file = stage.open("log", OFlags::empty());
    file.write_all(&[1; 10_000]).unwrap();
    file.set_len(5000).unwrap();
    file.set_len(6000).unwrap();
    assert_eq!(file.seek(SeekFrom::End(0)).unwrap(), 6000);
    file.seek(SeekFrom::Start(4990)).unwrap();
    let mut rest = Vec::new();
    file.read_to_end(&mut rest).unwrap();
    assert_eq!(rest, [vec![1; 10], vec![0; 1000]].concat());
    assert_eq!(rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(100)).unwrap(), 100);
    assert_eq!(rustix::fs::seek(&file, rustix::fs::SeekFrom::Hole(100)).unwrap(), 6000);
    assert_eq!(rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(6000)).unwrap_err(), Errno::NXIO);
    drop(file);
    drop(File::options().write(true).truncate(true).open(stage.path("log")).unwrap());
    assert_eq!(fs::metadata(stage.path("log")).unwrap().len(), 0);
}

#[test]
fn space_is_allocated_and_taken_back_without_touching_other_bytes() {
    if !can_mount("space_is_allocated_and_taken_back_without_touching_other_bytes") {
        return;
    }
    let stage = Stage::in_memory();
    let file = stage.open("log", OFlags::empty());
    file.write_all_at(&[1; 10_000], 0).unwrap();
    rustix::fs::fallocate(&file, FallocateFlags::empty(), 2000, 3000).unwrap();
    assert_eq!(fs::read(stage.path("log")).unwrap(), [1; 10_000]);
    rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, 20_000).unwrap();
    let mut expected = [vec![1; 10_000], vec![0; 10_000]].concat();
    assert_eq!(fs::read(stage.path("log")).unwrap(), expected);
    rustix::fs::fallocate(&file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 1000, 5000).unwrap();
    expected[1000..6000].fill(0);
    rustix::fs::fallocate(&file, FallocateFlags::ZERO_RANGE, 9000, 15_000).unwrap();
    expected[9000..].fill(0);
    expected.resize(24_000, 0);
    assert_eq!(fs::read(stage.path("log")).unwrap(), expected);
    let behind = rustix::fs::fallocate(&file, FallocateFlags::KEEP_SIZE, 24_000, 4096);
    assert_eq!(behind, Err(Errno::OPNOTSUPP));
}

#[test]
fn locks_keep_others_out() {
    if !can_mount("locks_keep_others_out") {
        return;
    }
    let stage = Stage::in_memory();
    let (one, other) = (stage.open("log", OFlags::empty()), stage.open("log", OFlags::empty()));
    rustix::fs::flock(&one, FlockOperation::NonBlockingLockExclusive).unwrap();
    assert_eq!(rustix::fs::flock(&other, FlockOperation::NonBlockingLockExclusive), Err(Errno::WOULDBLOCK));
    drop(one);
    rustix::fs::flock(&other, FlockOperation::NonBlockingLockExclusive).unwrap();
    // A process' own locks do not keep itself out: another one is asked.
    rustix::fs::fcntl_lock(&other, FlockOperation::NonBlockingLockExclusive).unwrap();
    let script = "import fcntl,sys; fcntl.lockf(open(sys.argv[1],'r+b'), fcntl.LOCK_EX|fcntl.LOCK_NB)";
    let python =
        |script: &str| std::process::Command::new("python3").args(["-c", script]).arg(stage.path("log")).output();
    if !python("import fcntl").is_ok_and(|output| output.status.success()) {
        let _ = writeln!(std::io::stderr(), "SKIPPED: locks_keep_others_out, of processes: no python3 that runs");
        return;
    }
    assert!(!python(script).unwrap().status.success());
    rustix::fs::fcntl_lock(&other, FlockOperation::NonBlockingUnlock).unwrap();
    assert!(python(script).unwrap().status.success());
}

#[test]
#[allow(unsafe_code, reason = "a mapping, of which nobody reads a byte")]
fn a_shared_mapping_is_refused() {
    use rustix::mm::{MapFlags, ProtFlags, mmap};

    if !can_mount("a_shared_mapping_is_refused") {
        return;
    }
    let stage = Stage::in_memory();
    let file = stage.open("log", OFlags::empty());
    file.set_len(8192).unwrap();
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    let map = |flags| {
        // SAFETY: the kernel chooses the place, so nothing that is in use is mapped over.
        unsafe { mmap(std::ptr::null_mut(), 8192, protection, flags, &file, 0) }.map(|_| ())
    };
    assert_eq!(map(MapFlags::SHARED), Err(Errno::NODEV));
    assert_eq!(map(MapFlags::SHARED_VALIDATE | MapFlags::SYNC), Err(Errno::OPNOTSUPP));
}

#[test]
fn a_second_name_serves_until_the_first_is_gone() {
    if !can_mount("a_second_name_serves_until_the_first_is_gone") {
        return;
    }
    let mut stage = Stage::in_memory();
    let (old, new) = (stage.path("xlogtemp.1"), stage.path("000000010000000000000001"));
    fs::write(&old, b"segment").unwrap();
    fs::hard_link(&old, &new).unwrap();
    assert_eq!(fs::hard_link(&old, &new).unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!((fs::read(&old).unwrap(), fs::read(&new).unwrap()), (b"segment".to_vec(), b"segment".to_vec()));
    assert_eq!((fs::metadata(&old).unwrap().nlink(), names(stage.root()).len()), (2, 2));
    assert_eq!(fs::metadata(&old).unwrap().ino(), fs::metadata(&new).unwrap().ino());
    fs::remove_file(&old).unwrap();
    assert_eq!(
        (names(stage.root()), fs::metadata(&new).unwrap().nlink()),
        (vec!["000000010000000000000001".to_owned()], 1)
    );
    // The other way round.
    fs::hard_link(&new, &old).unwrap();
    fs::remove_file(&old).unwrap();
    assert_eq!(fs::read(&new).unwrap(), b"segment");
    // And what nobody does: both names are there, and the mount ends.
    fs::hard_link(&new, &old).unwrap();
    assert_eq!(fs::rename(&new, stage.path("other")).unwrap_err().kind(), ErrorKind::ResourceBusy);
    stage.mount_again();
    assert_eq!(names(stage.root()), ["xlogtemp.1"]);
    assert_eq!(fs::read(&old).unwrap(), b"segment");
}

#[test]
fn a_rename_replaces_only_what_it_may() {
    if !can_mount("a_rename_replaces_only_what_it_may") {
        return;
    }
    let stage = Stage::in_memory();
    fs::write(stage.path("one"), b"1").unwrap();
    fs::write(stage.path("two"), b"2").unwrap();
    let rename = |flags| rustix::fs::renameat_with(CWD, stage.path("one"), CWD, stage.path("two"), flags);
    assert_eq!(rename(RenameFlags::NOREPLACE), Err(Errno::EXIST));
    assert_eq!(rename(RenameFlags::EXCHANGE), Err(Errno::INVAL));
    rename(RenameFlags::empty()).unwrap();
    assert_eq!((names(stage.root()), fs::read(stage.path("two")).unwrap()), (vec!["two".to_owned()], b"1".to_vec()));
}

#[test]
fn files_are_the_owners_alone() {
    if !can_mount("files_are_the_owners_alone") {
        return;
    }
    let stage = Stage::in_memory();
    fs::write(stage.path("log"), b"1").unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode(&stage.path("log")), mode(stage.root())), (0o600, 0o700));
    let set = |mode| fs::set_permissions(stage.path("log"), fs::Permissions::from_mode(mode));
    set(0o600).unwrap();
    assert_eq!(errno(&set(0o644).unwrap_err()), Errno::PERM);
    assert_eq!(errno(&std::os::unix::fs::chown(stage.path("log"), Some(12_345), None).unwrap_err()), Errno::PERM);
    assert_eq!(errno(&std::os::unix::fs::symlink("log", stage.path("link")).unwrap_err()), Errno::PERM);
}

#[test]
fn a_member_over_its_quota_gets_enospc_and_goes_on() {
    if !can_mount("a_member_over_its_quota_gets_enospc_and_goes_on") {
        return;
    }
    let stage = Stage::in_memory();
    let file = stage.open("log", OFlags::empty());
    let error = rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, 5 << 20).unwrap_err();
    assert_eq!(error, Errno::NOSPC);
    let space = rustix::fs::statvfs(stage.root()).unwrap();
    assert_eq!((space.f_blocks * space.f_frsize, space.f_files), (4 << 20, 32));
    file.write_all_at(b"and on", 0).unwrap();
    file.sync_all().unwrap();
}

#[test]
fn after_a_failure_of_the_log_everything_is_an_error() {
    if !can_mount("after_a_failure_of_the_log_everything_is_an_error") {
        return;
    }
    let stage = Stage::in_memory();
    let file = stage.open("log", OFlags::DSYNC);
    file.write_all_at(b"1", 0).unwrap();
    stage.pool.close().unwrap();
    assert_eq!(errno(&file.write_all_at(b"2", 0).unwrap_err()), Errno::IO);
    assert_eq!(errno(&file.sync_all().unwrap_err()), Errno::IO);
}

#[test]
fn a_folder_with_something_in_it_is_not_mounted_on() {
    if !can_mount("a_folder_with_something_in_it_is_not_mounted_on") {
        return;
    }
    let mut stage = Stage::in_memory();
    stage.unmount();
    fs::write(stage.path("something"), b"").unwrap();
    let error = ishigaki_logpool_fs::Mount::new(stage.member(), stage.root(), &stage::mount_settings()).unwrap_err();
    assert!(error.to_string().contains("not empty"), "{error}");
}

#[test]
fn many_names_are_listed_once_each_while_some_are_removed() {
    if !can_mount("many_names_are_listed_once_each_while_some_are_removed") {
        return;
    }
    let stage = Stage::in_memory();
    for number in 0..30 {
        fs::write(stage.path(&format!("{number:0>100}")), b"").unwrap();
    }
    // What is listed is what was there at the opening.
    let mut seen = 0;
    for entry in fs::read_dir(stage.root()).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
        seen += 1;
    }
    assert_eq!((seen, names(stage.root()).len()), (30, 0));
}
