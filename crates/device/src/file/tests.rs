//! What only files do. What every directory does is in `tests/behaviour.rs`.

use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use super::*;
use crate::SECTOR;

fn in_temporary(caching: Caching) -> (tempfile::TempDir, FileDirectory) {
    let place = tempfile::tempdir().expect("a place for temporary files");
    let directory = FileDirectory::open_cached(&place.path().join("a/b"), caching, Arc::new(Calls)).expect("opened");
    (place, directory)
}

fn hidden_files(directory: &FileDirectory) -> Vec<String> {
    directory.files().expect("listed").into_iter().filter(|name| name.starts_with('.')).collect()
}

/// Says that a test did not run. Past the test harness, which keeps to itself what passing tests print.
fn skipped(reason: &str) {
    let _ = writeln!(io::stderr(), "SKIPPED: {reason}");
}

#[test]
fn missing_directories_are_made_for_the_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let (_place, directory) = in_temporary(Caching::Avoided);
    let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o077;
    directory.create("d", 512).expect("created");
    assert_eq!(mode(directory.path()), 0);
    assert_eq!(mode(&directory.path().join("d")), 0);
    FileDirectory::open(directory.path()).expect("opened again").open("d").expect("there");
}

#[test]
fn a_path_that_is_a_file_is_no_directory() {
    let (_place, directory) = in_temporary(Caching::Avoided);
    directory.create("d", 512).expect("created");
    let error = FileDirectory::open(directory.path().join("d")).expect_err("a file");
    assert!(error.to_string().contains("a/b/d"), "{error}");
}

#[test]
fn a_created_file_has_all_its_space() {
    use std::os::unix::fs::MetadataExt;
    let (_place, directory) = in_temporary(Caching::Avoided);
    let device = directory.create("d", (3 << 20) + 1).expect("created");
    let status = fs::metadata(directory.path().join("d")).expect("there");
    assert_eq!(status.len(), device.len());
    assert!(status.len() > 3 << 20);
    assert!(status.blocks() * 512 >= status.len(), "{} blocks", status.blocks());
    assert!(hidden_files(&directory).is_empty());
}

#[test]
fn no_block_of_a_created_file_is_unwritten() {
    let (_place, directory) = in_temporary(Caching::Avoided);
    directory.create("d", 3 << 20).expect("created");
    match Command::new("filefrag").arg("-v").arg(directory.path().join("d")).output() {
        Ok(output) if output.status.success() => {
            let map = String::from_utf8_lossy(&output.stdout);
            assert!(map.contains("1 extent found") || map.contains("extents found"), "{map}");
            assert!(!map.contains("unwritten"), "{map}");
        }
        Ok(output) => skipped(&format!("no map of blocks: {}", String::from_utf8_lossy(&output.stderr).trim())),
        Err(error) => skipped(&format!("no map of blocks: filefrag: {error}")),
    }
}

#[test]
fn a_failed_creation_leaves_nothing() {
    let (_place, directory) = in_temporary(Caching::Avoided);
    let error = directory.create("d", 1 << 60).expect_err("there is no such medium");
    assert!(matches!(error, Error::NoSpace { .. }), "{error:?}");
    assert!(directory.files().expect("listed").is_empty());
}

#[test]
fn two_creations_at_once_make_one_device() {
    let (_place, directory) = in_temporary(Caching::Avoided);
    let twin = FileDirectory::open(directory.path()).expect("opened");
    let create = |directory: &FileDirectory| match directory.create("d", 1 << 20) {
        Ok(_) => 1,
        Err(Error::AlreadyExists { .. }) => 0,
        Err(error) => panic!("{error}"),
    };
    let made: u32 = std::thread::scope(|scope| {
        let threads: Vec<_> = [&directory, &twin, &directory, &twin].map(|one| scope.spawn(|| create(one))).into();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    });
    assert_eq!(made, 1);
    assert!(hidden_files(&directory).is_empty());
}

#[test]
fn locking_removes_what_an_unfinished_creation_left() {
    let (_place, directory) = in_temporary(Caching::Avoided);
    fs::write(directory.path().join(".d.1-0.tmp"), "half").expect("written");
    fs::write(directory.path().join(".profile"), "not ours").expect("written");
    let _lock = directory.lock().expect("locked");
    assert_eq!(hidden_files(&directory), [".profile"]);
    assert!(directory.list().expect("listed").is_empty(), "neither is it nor LOCK a device");
}

#[test]
fn the_second_user_is_told_who_holds_the_lock() {
    let (_place, directory) = in_temporary(Caching::Avoided);
    let lock = directory.lock().expect("locked");
    let other = FileDirectory::open(directory.path()).expect("opened");
    let error = other.lock().expect_err("held");
    assert!(error.to_string().contains(&format!("pid {}", std::process::id())), "{error}");
    drop(lock);
    other.lock().expect("free again");
}

#[test]
fn a_file_cut_short_is_refused() {
    let (_place, directory) = in_temporary(Caching::Avoided);
    let device = directory.create("d", 8192).expect("created");
    let file = fs::OpenOptions::new().write(true).open(directory.path().join("d")).expect("opened");
    file.set_len(4096).expect("cut");
    let error = device.read_at(4096, &mut AlignedBuffer::zeroed(4096)).expect_err("the end is gone");
    assert!(matches!(error, Error::Io { operation: "read", .. }), "{error:?}");
    file.set_len(1000).expect("cut");
    let error = directory.open("d").expect_err("no device has such a length");
    assert!(matches!(error, Error::Damaged { .. }) && error.is_damage(), "{error:?}");
}

#[test]
fn of_a_file_of_any_length_the_whole_blocks_are_there_to_be_read_alone() {
    let (_place, directory) = in_temporary(Caching::Avoided);
    let device = directory.create("d", 3 * 4096).expect("created");
    let mut block = AlignedBuffer::zeroed(4096);
    block.fill(7);
    device.write_durable(4096, &block).expect("written");
    let file = fs::OpenOptions::new().write(true).open(directory.path().join("d")).expect("opened");
    for (length, whole) in [(2 * 4096 + 100, 2 * 4096), (3 * 4096, 3 * 4096), (4096, 4096), (100, 0), (0, 0)] {
        file.set_len(length).expect("cut");
        let remains = directory.open_remains("d").expect("any length will do");
        assert_eq!(remains.len(), whole, "of {length}");
        if whole >= 2 * 4096 {
            let mut read = AlignedBuffer::zeroed(4096);
            remains.read_at(4096, &mut read).expect("it is there");
            assert_eq!(read[..], block[..], "of {length}");
            let error = remains.write_at(0, &block).expect_err("only to be read");
            assert!(matches!(error, Error::ReadOnly { .. }), "{error:?}");
        }
        assert!(!remains.promise().trim);
        assert_eq!(file.metadata().expect("there").len(), length);
        file.set_len(0).and_then(|()| file.set_len(3 * 4096)).expect("made longer");
        directory.open("d").expect("whole blocks").write_durable(4096, &block).expect("written");
    }
}

#[test]
fn a_trimmed_file_gives_its_space_back_and_takes_new_bytes() {
    use std::os::unix::fs::MetadataExt;
    let (_place, directory) = in_temporary(Caching::Avoided);
    let device = directory.create("d", 1 << 20).expect("created");
    if !device.promise().trim {
        skipped("the file system of the temporary directory punches no holes");
        return;
    }
    let blocks = || fs::metadata(directory.path().join("d")).expect("there").blocks();
    let before = blocks();
    device.trim(0, 1 << 19).expect("trimmed");
    assert!(blocks() <= before - (1 << 19) / 512, "{} of {before} blocks", blocks());
    assert_eq!(device.len(), 1 << 20);
    let mut block = AlignedBuffer::zeroed(4096);
    block.fill(7);
    device.write_durable(4096, &block).expect("written");
    block.fill(0);
    device.read_at(4096, &mut block).expect("read");
    assert!(block.iter().all(|byte| *byte == 7));
}

#[test]
fn without_direct_transfers_the_promise_says_so_and_all_else_holds() {
    let (_place, directory) = in_temporary(Caching::Used);
    let device = directory.create("d", 1024).expect("created");
    assert!(!device.promise().direct);
    assert_eq!(device.promise().block_size, SECTOR);
    let mut block = AlignedBuffer::zeroed(SECTOR);
    block.fill(7);
    device.write_durable(512, &block).expect("written");
    device.sync().expect("synced");
    block.fill(0);
    directory.open("d").expect("there").read_at(512, &mut block).expect("read");
    assert!(block.iter().all(|byte| *byte == 7));
    assert!(device.write_at(0, &block[1..]).is_err(), "a request is checked the same way");
}

#[test]
fn a_medium_without_direct_transfers_is_used_through_the_cache() {
    // No kernel reads or writes the files of this file system directly: nothing is on a medium there.
    let (file, caching) = access::open(
        rustix::fs::CWD,
        Path::new("/proc/self/comm"),
        OFlags::empty(),
        Access::ReadWrite,
        Caching::Avoided,
    )
    .expect("opened all the same");
    drop(file);
    assert_eq!(caching, Caching::Used);
}

/// A loop device over a file; detached when dropped.
struct Loop {
    path: String,
    _file: tempfile::NamedTempFile,
}

impl Loop {
    fn attach(sector: usize) -> std::result::Result<Self, String> {
        let file = tempfile::NamedTempFile::new().map_err(|error| error.to_string())?;
        file.as_file().set_len(1 << 20).map_err(|error| error.to_string())?;
        let output = Command::new("losetup")
            .args(["--find", "--show", "--sector-size", &sector.to_string()])
            .arg(file.path())
            .output()
            .map_err(|error| format!("losetup: {error}"))?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
        }
        Ok(Self { path: String::from_utf8_lossy(&output.stdout).trim().to_owned(), _file: file })
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.path]).status();
    }
}

#[test]
fn a_raw_block_device_works_like_a_file() {
    for sector in [512, 4096] {
        let raw = match Loop::attach(sector) {
            Ok(raw) => raw,
            Err(reason) => {
                skipped(&format!("no loop device with sectors of {sector} bytes: {reason}"));
                continue;
            }
        };
        let device = FileDevice::open_path(&raw.path).expect("opened");
        assert_eq!((device.len(), device.promise().block_size, device.promise().direct), (1 << 20, sector, true));
        assert!(matches!(FileDevice::open_path(&raw.path), Err(Error::Locked { .. })), "it has one user at a time");
        let end = device.len() - sector as u64;
        let mut block = AlignedBuffer::zeroed(sector);
        block.fill(7);
        device.write_durable(end, &block).expect("written");
        device.write_at(0, &block).expect("written");
        device.sync().expect("synced");
        device.trim(0, 8192).expect("trimmed");
        assert!(matches!(device.write_at(end + sector as u64, &block), Err(Error::Invalid { .. })));
        drop(device);
        block.fill(0);
        free_again(Path::new(&raw.path)).read_at(end, &mut block).expect("read");
        assert!(block.iter().all(|byte| *byte == 7));
    }
}

/// Opens what has just been let go of. A child that another test is starting may hold on to it for a moment.
fn free_again(path: &Path) -> FileDevice {
    let patience = Instant::now() + Duration::from_secs(10);
    loop {
        match FileDevice::open_path(path) {
            Err(Error::Locked { .. }) if Instant::now() < patience => std::thread::yield_now(),
            opened => return opened.expect("free again"),
        }
    }
}

#[test]
fn neither_a_terminal_nor_a_directory_is_a_device() {
    assert!(matches!(FileDevice::open_path("/dev/null"), Err(Error::Invalid { .. })));
    assert!(FileDevice::open_path("/").is_err());
    assert!(matches!(FileDevice::open_path("/no/such/thing"), Err(Error::NotFound { .. })));
}

#[test]
fn what_can_only_be_read_is_read_and_a_lock_for_readers_is_shared() {
    let (_place, directory) = in_temporary(Caching::Avoided);
    let place = directory.path().to_owned();
    drop(directory.create("d", 4096).expect("created"));
    drop(directory.lock().expect("locked"));
    let mount = |arguments: &[&str]| Command::new("mount").args(arguments).arg(&place).output().expect("it runs");
    let bound = mount(&["--bind", &place.display().to_string()]);
    if !bound.status.success() {
        return skipped(&format!("no mount of its own: {}", String::from_utf8_lossy(&bound.stderr).trim()));
    }
    let remounted = mount(&["-o", "remount,ro,bind"]).status.success();
    let seen = remounted.then(|| {
        let directory = FileDirectory::open(&place).expect("opened");
        let device = directory.open("d").expect("opened");
        let read = device.read_at(0, &mut AlignedBuffer::zeroed(4096));
        let written = device.write_durable(0, &AlignedBuffer::zeroed(4096));
        let readers = [directory.lock_to_read(), directory.lock_to_read()];
        (read, written, device.promise().trim, directory.lock().err(), directory.create("e", 4096).err(), readers)
    });
    // Lazily, since the locks are still held.
    assert!(Command::new("umount").arg("--lazy").arg(&place).status().expect("it runs").success());
    let (read, written, trims, locked, created, readers) = seen.expect("mounted again, to be read");
    assert!(read.is_ok() && !trims);
    for error in [written.err(), locked, created] {
        assert!(matches!(error, Some(Error::ReadOnly { .. })), "{error:?}");
    }
    assert!(readers.iter().all(|lock| matches!(lock, Ok(ReadLock::Shared(_)))), "{readers:?}");
    assert!(matches!(directory.lock(), Err(Error::Locked { .. })), "readers keep a writer out");
    assert!(matches!(directory.lock_to_read(), Err(Error::Locked { .. })));
    drop(readers);
    let writer = directory.lock_to_read().expect("free again");
    assert!(matches!(writer, ReadLock::Sole(_)));
}

#[test]
fn a_device_that_is_made_longer_keeps_its_bytes_and_has_its_space() {
    use std::os::unix::fs::MetadataExt;
    let (_place, directory) = in_temporary(Caching::Avoided);
    let device = directory.reserve("d", 8192).expect("created");
    let mut bytes = AlignedBuffer::zeroed(8192);
    bytes.fill(7);
    device.write_at(0, &bytes).expect("written");
    let longer = directory.grow("d", 1 << 20).expect("longer");
    assert_eq!((device.len(), longer.len()), (8192, 1 << 20));
    assert!(fs::metadata(directory.path().join("d")).expect("there").blocks() * 512 >= 1 << 20);
    let mut read = AlignedBuffer::zeroed(1 << 20);
    longer.read_at(0, &mut read).expect("read");
    assert!(read[..8192].iter().all(|&byte| byte == 7) && read[8192..].iter().all(|&byte| byte == 0));
    assert_eq!(directory.grow("d", 1 << 20).expect("as it is").len(), 1 << 20);
    assert!(matches!(directory.grow("d", 8192), Err(Error::Invalid { .. })), "shorter");
    assert!(matches!(directory.grow("none", 8192), Err(Error::NotFound { .. })));
    assert!(directory.grow("d", 1 << 60).is_err());
    assert_eq!(directory.open("d").expect("there").len(), 1 << 20, "as it was");
}
