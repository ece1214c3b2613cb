//! The engine on real file systems: a directory as the source, tmpfs or a temporary directory and ext4 as destinations.
//!
//! Needs root, for extended attributes below `trusted.` and a loop device.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ishigaki_base::random::Seed;
use ishigaki_migrate::destination::Destination;
use ishigaki_migrate::destination::local::Local;
use ishigaki_migrate::engine::{Crawl, Engine, Error, Origin, Settings};
use ishigaki_migrate::source::Cancel;
use ishigaki_migrate::source::path::PathSource;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// A file system in a file, mounted by a loop device.
struct Mounted {
    _folder: tempfile::TempDir,
    at: PathBuf,
}

fn run(command: &mut Command) -> Result<(), String> {
    let done = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if done.status.success() { Ok(()) } else { Err(format!("{command:?}: {}", String::from_utf8_lossy(&done.stderr))) }
}

impl Mounted {
    /// Made by that command, with so many MiB.
    fn new(make: &[&str], size: u64) -> Result<Self, String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let (image, at) = (folder.path().join("image"), folder.path().join("mounted"));
        let file = fs::File::create(&image).map_err(|error| error.to_string())?;
        file.set_len(size << 20).map_err(|error| error.to_string())?;
        fs::create_dir(&at).map_err(|error| error.to_string())?;
        run(Command::new(make[0]).args(&make[1..]).arg(&image))?;
        run(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&at))?;
        Ok(Self { _folder: folder, at })
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if let Err(error) = run(Command::new("umount").arg(&self.at)) {
            eprintln!("{error}");
        }
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Odd things of all kinds.
fn fill(source: &Path) {
    fs::create_dir_all(source.join("a/b/c")).unwrap();
    fs::write(source.join("empty"), "").unwrap();
    fs::write(source.join("a/small"), "a few bytes").unwrap();
    fs::write(source.join("a/b/large"), (0..3_000_001u32).map(|at| (at / 7) as u8 | 1).collect::<Vec<_>>()).unwrap();
    let sparse = fs::File::create(source.join("a/sparse")).unwrap();
    sparse.write_all_at(b"data", 40 << 20).unwrap();
    sparse.set_len((100 << 20) + 5).unwrap();
    fs::hard_link(source.join("a/small"), source.join("a/b/c/linked")).unwrap();
    fs::hard_link(source.join("a/small"), source.join("linked, too")).unwrap();
    symlink("../nowhere", source.join("a/b/symbolic")).unwrap();
    run(Command::new("mkfifo").arg(source.join("a/pipe"))).unwrap();
    fs::write(source.join(OsString::from(std::ffi::OsStr::from_bytes(b"not \xff utf-8"))), "x").unwrap();
    fs::write(source.join("n".repeat(255)), "long name").unwrap();
    fs::set_permissions(source.join("a/small"), fs::Permissions::from_mode(0o4751)).unwrap();
    fs::set_permissions(source.join("a/b"), fs::Permissions::from_mode(0o2770)).unwrap();
    std::os::unix::fs::chown(source.join("a/b/large"), Some(1234), Some(4321)).unwrap();
    std::os::unix::fs::lchown(source.join("a/b/symbolic"), Some(99), Some(98)).unwrap();
    let path = source.join("a/b/large");
    rustix::fs::setxattr(&path, "user.note", &[7; 300], rustix::fs::XattrFlags::empty()).unwrap();
    // Deeper than a path may be long: made step by step.
    let mut deep = Local::open(source).unwrap();
    for _ in 0..25 {
        let name = OsString::from("d".repeat(200));
        let root = deep.root();
        deep.make(&root, &name, ishigaki_migrate::destination::Make::Directory).unwrap();
        let next = deep.lookup(&root, &name).unwrap().unwrap();
        deep = Local::open(&PathBuf::from(format!(
            "/proc/self/fd/{}",
            std::os::fd::AsRawFd::as_raw_fd(&std::os::fd::AsFd::as_fd(&next))
        )))
        .unwrap();
    }
    let root = deep.root();
    let file = deep.make(&root, "deepest".as_ref(), ishigaki_migrate::destination::Make::File).unwrap();
    deep.write_at(&file, 0, b"down here").unwrap();
    for (path, seconds) in [("a/b/c", 1_000_000_000), ("a/b", 1_100_000_000), ("a", 1_200_000_000), ("a/small", -5)] {
        let time = rustix::fs::Timespec { tv_sec: seconds, tv_nsec: 123_456_789 };
        let times = rustix::fs::Timestamps { last_access: time, last_modification: time };
        rustix::fs::utimensat(rustix::fs::CWD, source.join(path), &times, rustix::fs::AtFlags::empty()).unwrap();
    }
}

/// What programs that know nothing of the engine see; paths as long as the system takes them.
fn see(root: &Path) -> BTreeMap<PathBuf, String> {
    let mut seen = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    let mut numbers: BTreeMap<u64, Vec<PathBuf>> = BTreeMap::new();
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for entry in entries {
            let path = entry.unwrap().path();
            let Ok(status) = fs::symlink_metadata(&path) else { continue };
            let short = path.strip_prefix(root).unwrap().to_owned();
            if short == Path::new("lost+found") {
                continue;
            }
            let content = if status.is_file() {
                let bytes = fs::read(&path).unwrap();
                numbers.entry(status.ino()).or_default().push(short.clone());
                format!("{:08x} {}", ishigaki_base::crc32c(&bytes), status.blocks() < bytes.len() as u64 / 1024)
            } else if status.is_symlink() {
                fs::read_link(&path).unwrap().display().to_string()
            } else {
                String::new()
            };
            if status.is_dir() {
                folders.push(path.clone());
            }
            let mut list = vec![0; 4096];
            let length = if status.is_symlink() { 0 } else { rustix::fs::listxattr(&path, &mut list[..]).unwrap() };
            let size = if status.is_dir() { 0 } else { status.len() };
            let (mode, user, group) = (status.mode(), status.uid(), status.gid());
            let time = (status.mtime(), status.mtime_nsec());
            let attributes = String::from_utf8_lossy(&list[..length]).into_owned();
            seen.insert(short, format!("{mode:o} {user} {group} {size} {time:?} {content} {attributes}"));
        }
    }
    for mut names in numbers.into_values() {
        names.sort();
        seen.insert(PathBuf::from("/").join(&names[0]), format!("{names:?}"));
    }
    seen
}

fn migrates_whole(at: &Path) {
    let source = tempfile::tempdir().unwrap();
    fill(source.path());
    let before = see(source.path());
    let origin = Origin { source: Arc::new(PathSource::open(source.path()).unwrap()), at: PathBuf::new() };
    let destination = Local::open(at).unwrap();
    let settings = Settings::default();
    destination.check(&settings.attribute).unwrap();
    let cancel = Cancel::new();
    let engine = Engine::open(destination, vec![origin.clone()], settings.clone(), &cancel).unwrap();

    // A client reads a little of a file, and writes a little; then the process ends.
    let root = engine.destination().root();
    engine.look_into(&root, &cancel).unwrap();
    let folder = engine.destination().lookup(&root, "a".as_ref()).unwrap().unwrap();
    engine.look_into(&folder, &cancel).unwrap();
    let sparse = engine.destination().lookup(&folder, "sparse".as_ref()).unwrap().unwrap();
    let stub = engine.file(&sparse).unwrap().expect("a stub");
    stub.read_needed((40 << 20)..(40 << 20) + 4, &cancel).unwrap();
    let mut bytes = [0; 4];
    engine.destination().read_at(&sparse, 40 << 20, &mut bytes).unwrap();
    assert_eq!(&bytes, b"data");
    let time = fs::metadata(source.path().join("a/sparse")).unwrap().mtime();
    assert_eq!(stub.status().unwrap().modified.seconds, time, "a copy does not show in its times");
    drop((stub, engine));

    let engine = Engine::open(Local::open(at).unwrap(), vec![origin], settings, &cancel).unwrap();
    assert!(matches!(engine.finish(), Err(ishigaki_migrate::engine::Error::Unfinished(_))));
    engine.crawl(&Crawl::default(), &cancel).unwrap();
    assert_eq!(engine.problems(), []);
    engine.finish().unwrap();
    drop(engine);
    let after = see(at);
    for (path, before) in &before {
        assert_eq!(after.get(path), Some(before), "{}", path.display());
    }
    assert_eq!(after.len(), before.len());
    let trace = Command::new("getfattr").args(["-R", "-d", "-m", "-"]).arg(at).output();
    if let Ok(trace) = trace {
        assert!(!String::from_utf8_lossy(&trace.stdout).contains("ishigaki"));
    }
}

#[test]
fn a_directory_arrives_whole_in_a_temporary_directory() {
    if !is_root() {
        println!("SKIPPED: needs root");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    migrates_whole(folder.path());
}

#[test]
fn a_directory_arrives_whole_in_ext4() {
    match Mounted::new(&["mkfs.ext4", "-q"], 256) {
        Ok(mounted) => migrates_whole(&mounted.at),
        Err(why) => println!("SKIPPED: {why}"),
    }
}

/// Clients make files larger that are not here; then the process ends, and another one brings the rest.
fn grows(at: &Path) {
    let source = tempfile::tempdir().unwrap();
    let lengths = [3, 900, 3000, 15_234, 40_000_u64];
    let bytes = |length: u64| (0..length).map(|at| (at / 100 % 251) as u8 + 1).collect::<Vec<_>>();
    let file = |how: &str, length: u64| format!("{how}-{length}");
    for length in lengths {
        for how in ["sized", "written"] {
            fs::write(source.path().join(file(how, length)), bytes(length)).unwrap();
        }
    }
    let origin = Origin { source: Arc::new(PathSource::open(source.path()).unwrap()), at: PathBuf::new() };
    let cancel = Cancel::new();
    let destination = Local::open(at).unwrap();
    destination.check(&Settings::default().attribute).unwrap();
    let engine = Engine::open(destination, vec![origin.clone()], Settings::default(), &cancel).unwrap();
    let root = engine.destination().root();
    engine.look_into(&root, &cancel).unwrap();
    for length in lengths {
        let find = |how: &str| engine.destination().lookup(&root, file(how, length).as_ref()).unwrap().unwrap();
        engine.file(&find("sized")).unwrap().expect("a stub").truncate(length + 5000, &cancel).unwrap();
        let written = find("written");
        let stub = engine.file(&written).unwrap().expect("a stub");
        let changing = stub.before_write(length + 7000..length + 7001, &cancel).unwrap();
        engine.destination().write_at(&written, length + 7000, b"Q").unwrap();
        changing.wrote(length + 7000..length + 7001);
    }
    drop(engine);
    let engine = Engine::open(Local::open(at).unwrap(), vec![origin], Settings::default(), &cancel).unwrap();
    engine.crawl(&Crawl::default(), &cancel).unwrap();
    engine.finish().unwrap();
    for length in lengths {
        let mut want = bytes(length);
        want.resize(length as usize + 5000, 0);
        assert!(fs::read(at.join(file("sized", length))).unwrap() == want, "sized, {length}");
        want.resize(length as usize + 7000, 0);
        want.push(b'Q');
        assert!(fs::read(at.join(file("written", length))).unwrap() == want, "written, {length}");
    }
}

#[test]
fn a_file_that_becomes_larger_keeps_its_last_block_in_btrfs_xfs_and_ext4() {
    for (make, size) in [(&["mkfs.btrfs", "-q"][..], 128), (&["mkfs.xfs", "-q"], 320), (&["mkfs.ext4", "-q"], 64)] {
        match Mounted::new(make, size) {
            Ok(mounted) => grows(&mounted.at),
            Err(why) => println!("SKIPPED: {why}"),
        }
    }
}

/// Blocks are reserved and not written, as a power cut leaves them, and a program has read them.
fn reserved(at: &Path) {
    let source = tempfile::tempdir().unwrap();
    let bytes: Vec<u8> = (0..5_000_000_u32).map(|at| (at / 100 % 251) as u8 + 1).collect();
    fs::write(source.path().join("file"), &bytes).unwrap();
    let origin = Origin { source: Arc::new(PathSource::open(source.path()).unwrap()), at: PathBuf::new() };
    let cancel = Cancel::new();
    let open = || Engine::open(Local::open(at).unwrap(), vec![origin.clone()], Settings::default(), &cancel).unwrap();
    let engine = open();
    engine.look_into(&engine.destination().root(), &cancel).unwrap();
    let find = |engine: &Engine<Local>| {
        let root = engine.destination().root();
        engine.destination().lookup(&root, "file".as_ref()).unwrap().unwrap()
    };
    engine.file(&find(&engine)).unwrap().expect("a stub").read_needed(0..1, &cancel).unwrap();
    drop(engine);
    let file = fs::OpenOptions::new().write(true).open(at.join("file")).unwrap();
    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::KEEP_SIZE, 2 << 20, 2 << 20).unwrap();
    drop(file);
    assert!(fs::read(at.join("file")).unwrap() != bytes, "not all of it is here");
    let engine = open();
    engine.file(&find(&engine)).unwrap().expect("a stub").read_needed(0..u64::MAX, &cancel).unwrap();
    let first = fs::read(at.join("file")).unwrap();
    let other = first.iter().zip(&bytes).position(|(seen, byte)| seen != byte);
    assert_eq!((first.len(), other), (bytes.len(), None));
}

#[test]
fn blocks_that_were_reserved_and_read_are_missing_in_ext4_xfs_and_btrfs() {
    for (make, size) in [(&["mkfs.ext4", "-q"][..], 64), (&["mkfs.xfs", "-q"], 320), (&["mkfs.btrfs", "-q"], 128)] {
        match Mounted::new(make, size) {
            Ok(mounted) => reserved(&mounted.at),
            Err(why) => println!("SKIPPED: {why}"),
        }
    }
}

/// The crawler finds no room; a client removes files, another process goes on.
fn was_full(at: &Path, files: u64, length: usize) {
    let source = tempfile::tempdir().unwrap();
    let bytes = |number: u64| {
        let mut random = Seed(number).generator();
        (0..length).map(|_| random.u8(1..)).collect::<Vec<_>>()
    };
    let name = |number: u64| format!("file-{number}");
    for number in 0..files {
        fs::write(source.path().join(name(number)), bytes(number)).unwrap();
    }
    let origin = Origin { source: Arc::new(PathSource::open(source.path()).unwrap()), at: PathBuf::new() };
    let cancel = Cancel::new();
    let open = || Engine::open(Local::open(at).unwrap(), vec![origin.clone()], Settings::default(), &cancel).unwrap();
    let engine = open();
    let mut removed = 0;
    while let Err(error) = engine.crawl(&Crawl::default(), &cancel) {
        assert!(matches!(&error, Error::Destination { .. }), "{error}");
        // What is tried again and again where nothing fits, and what is looked at anew.
        let _ = open().crawl(&Crawl::default(), &cancel);
        fs::remove_file(at.join(name(removed))).unwrap();
        removed += 1;
    }
    assert!(removed > 0, "there was room for all");
    engine.look_again();
    engine.crawl(&Crawl::default(), &cancel).unwrap();
    engine.finish().unwrap();
    for number in removed..files {
        assert!(fs::read(at.join(name(number))).unwrap() == bytes(number), "{number}");
    }
}

#[test]
fn a_destination_that_was_full_holds_what_the_source_has() {
    let ext4 = &["mkfs.ext4", "-q", "-b", "4096", "-m", "0"][..];
    for (make, size, files) in [(ext4, 20, 12), (&["mkfs.btrfs", "-q"], 128, 80), (&["mkfs.xfs", "-q"], 320, 170)] {
        match Mounted::new(make, size) {
            Ok(mounted) => was_full(&mounted.at, files, 2_000_000),
            Err(why) => println!("SKIPPED: {why}"),
        }
    }
}

#[test]
fn a_directory_whose_disk_comes_later_is_found_without_a_restart() {
    let place = tempfile::tempdir().unwrap();
    let [old, aside, new] = ["old", "aside", "new"].map(|name| place.path().join(name));
    fs::create_dir_all(old.join("letters")).unwrap();
    fs::write(old.join("letters/first"), "Dear reader").unwrap();
    fs::create_dir(&new).unwrap();
    let open = || -> Arc<Engine<Local>> {
        let origin = Origin { source: Arc::new(PathSource::open(&old).unwrap()), at: PathBuf::new() };
        Engine::open(Local::open(&new).unwrap(), vec![origin], Settings::default(), &Cancel::new()).unwrap()
    };
    drop(open());
    // As a mount point without its disk.
    fs::rename(&old, &aside).unwrap();
    fs::create_dir(&old).unwrap();
    let engine = open();
    std::thread::scope(|scope| {
        let crawler = scope.spawn(|| engine.crawl(&Crawl::default(), &Cancel::new()));
        while engine.absences().is_empty() && !crawler.is_finished() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        fs::remove_dir(&old).unwrap();
        fs::rename(&aside, &old).unwrap();
        crawler.join().unwrap().unwrap();
    });
    engine.finish().unwrap();
    assert_eq!(fs::read(new.join("letters/first")).unwrap(), b"Dear reader");
}

#[test]
fn a_file_that_became_something_else_is_in_conflict() {
    let [old, new] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    for name in ["link", "folder", "pipe"] {
        fs::write(old.path().join(name), "as it was").unwrap();
    }
    let origin = Origin { source: Arc::new(PathSource::open(old.path()).unwrap()), at: PathBuf::new() };
    let (cancel, destination) = (Cancel::new(), Local::open(new.path()).unwrap());
    let engine = Engine::open(destination, vec![origin], Settings::default(), &cancel).unwrap();
    let destination = Local::open(new.path()).unwrap();
    engine.look_into(&destination.root(), &cancel).unwrap();
    for name in ["link", "folder", "pipe"] {
        fs::remove_file(old.path().join(name)).unwrap();
    }
    symlink("elsewhere", old.path().join("link")).unwrap();
    fs::create_dir(old.path().join("folder")).unwrap();
    run(Command::new("mkfifo").arg(old.path().join("pipe"))).unwrap();
    for name in ["link", "folder", "pipe"] {
        let held = destination.lookup(&destination.root(), name.as_ref()).unwrap().unwrap();
        let read = engine.file(&held).unwrap().expect("a stub").read_needed(0..9, &cancel);
        assert!(matches!(read, Err(Error::Conflict(_))), "{name}: {read:?}");
    }
    assert_eq!(engine.problems().iter().filter(|problem| problem.conflict).count(), 3);
}

#[test]
fn what_both_file_systems_bring_along_is_one_directory() {
    let [old, new, also] = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let lost = |root: &Path| root.join("lost+found");
    for root in [&old, &new, &also] {
        fs::create_dir(lost(root.path())).unwrap();
    }
    fs::write(lost(old.path()).join("#12"), "found").unwrap();
    fs::set_permissions(lost(old.path()), fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(lost(also.path()).join("#34"), "found here").unwrap();
    for (to, problems) in [(new.path(), 0), (also.path(), 1)] {
        for _ in 0..2 {
            let origin = Origin { source: Arc::new(PathSource::open(old.path()).unwrap()), at: PathBuf::new() };
            let engine =
                Engine::open(Local::open(to).unwrap(), vec![origin], Settings::default(), &Cancel::new()).unwrap();
            engine.crawl(&Crawl::default(), &Cancel::new()).unwrap();
            assert_eq!(engine.problems().len(), problems, "{:?}", engine.problems());
        }
    }
    assert_eq!(fs::read(lost(new.path()).join("#12")).unwrap(), b"found");
    assert_eq!(fs::metadata(lost(new.path())).unwrap().mode() & 0o777, 0o700);
    assert_eq!(fs::read(lost(also.path()).join("#34")).unwrap(), b"found here");
}

/// Made in many directories, for [`files_that_come_faster_than_they_are_made_durable_do_not_take_all_descriptors`].
const FILES: usize = 24_000;

#[test]
#[ignore = "takes minutes"]
fn files_that_come_faster_than_they_are_made_durable_do_not_take_all_descriptors() {
    if !is_root() {
        return eprintln!("SKIPPED: it takes root");
    }
    // As the service does.
    let limit = getrlimit(Resource::Nofile).maximum;
    if limit.is_some_and(|limit| limit < 16_384) {
        return eprintln!("SKIPPED: a process may have {limit:?} files open");
    }
    setrlimit(Resource::Nofile, Rlimit { current: limit, maximum: limit }).expect("raises the limit");
    let folder = tempfile::tempdir().unwrap();
    let [source, to] = ["source", "to"].map(|name| folder.path().join(name));
    fs::create_dir(&to).unwrap();
    for number in 0..FILES {
        if number % 1_000 == 0 {
            fs::create_dir_all(source.join((number / 1_000).to_string())).unwrap();
        }
        fs::write(source.join(format!("{}/{number}", number / 1_000)), b"small").unwrap();
    }
    let origin = Origin { source: Arc::new(PathSource::open(&source).unwrap()), at: PathBuf::new() };
    let engine =
        Engine::open(Local::open(&to).unwrap(), vec![origin], Settings::default(), &Cancel::new()).expect("begins");
    let over = AtomicBool::new(false);
    let most = std::thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let mut most = 0;
            while !over.load(Ordering::Relaxed) {
                most = most.max(fs::read_dir("/proc/self/fd").map_or(0, Iterator::count));
            }
            most
        });
        let crawled = engine.crawl(&Crawl::default(), &Cancel::new());
        over.store(true, Ordering::Relaxed);
        let most = watch.join().unwrap();
        crawled.expect("copies");
        most
    });
    assert_eq!(engine.progress().whole, FILES as u64);
    assert!(most < 13_000, "{most} descriptors were open");
    engine.finish().expect("ends");
}
