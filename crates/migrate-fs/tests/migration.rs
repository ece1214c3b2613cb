//! The engine behind a door: programs use the new server while its files come from the old one.

mod stage;

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::Arc;
use std::thread;

use ishigaki_migrate::destination::local::Local;
use ishigaki_migrate::engine::{Crawl, Engine, Origin, Settings};
use ishigaki_migrate::source::Cancel;
use ishigaki_migrate::source::path::PathSource;
use ishigaki_migrate_fs::{Door, Migration};
use rustix::fs::{
    CWD, FallocateFlags, RenameFlags, XattrFlags, fallocate, getxattr, getxattr_query, listxattr, renameat_with,
    setxattr,
};
use stage::{can_open, folders, until};

/// What Samba keeps of a file, and in its second byte of attributes, that the data is not here.
const DOSATTRIB: &str = "user.DOSATTRIB";
const OFFLINE: u8 = 0x10;

const CAPABILITY: &str = "security.capability";

/// `cap_net_raw+ep`, as the kernel keeps it: version 2 and effective, then what is permitted and inheritable.
const NET_RAW: [u8; 20] = [1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// A file's capabilities.
fn capability(path: &Path) -> Vec<u8> {
    let mut value = vec![0; 64];
    let length = getxattr(path, CAPABILITY, &mut value[..]).unwrap_or(0);
    value.truncate(length);
    value
}

/// A tree of an old server.
fn fill(old: &Path) {
    for directory in ["a", "a/b", "a/b/c", "empty"] {
        fs::create_dir(old.join(directory)).unwrap();
    }
    for number in 0..30 {
        let bytes: Vec<u8> = (0..number * 20_011_usize).map(|place| (place * 7 + number) as u8).collect();
        fs::write(old.join(format!("a/b/file-{number}")), bytes).unwrap();
    }
    fs::write(old.join("a/small"), b"small").unwrap();
    fs::hard_link(old.join("a/small"), old.join("a/b/c/linked")).unwrap();
    symlink("small", old.join("a/symlink")).unwrap();
    fs::set_permissions(old.join("a/small"), PermissionsExt::from_mode(0o640)).unwrap();
    std::os::unix::fs::chown(old.join("a/small"), Some(1234), Some(4321)).unwrap();
    setxattr(old.join("a/small"), "user.kept", b"value", XattrFlags::empty()).unwrap();
    for (name, mode) in [("a/capable", 0o755), ("a/set-id", 0o6755)] {
        fs::write(old.join(name), vec![7; 3_000_000]).unwrap();
        std::os::unix::fs::chown(old.join(name), Some(1234), Some(4321)).unwrap();
        fs::set_permissions(old.join(name), PermissionsExt::from_mode(mode)).unwrap();
    }
    setxattr(old.join("a/capable"), CAPABILITY, &NET_RAW, XattrFlags::empty()).unwrap();
    let sparse = File::create(old.join("sparse")).unwrap();
    sparse.set_len(64 << 20).unwrap();
    sparse.write_all_at(b"in the middle", 32 << 20).unwrap();
}

struct Migrating {
    door: Option<Door>,
    migration: Arc<Migration>,
    engine: Arc<Engine<Local>>,
    folder: std::path::PathBuf,
    old: std::path::PathBuf,
    new: std::path::PathBuf,
    place: tempfile::TempDir,
}

impl Migrating {
    fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        let [old, new, folder] = folders(place.path(), ["old", "new", "at"]);
        fill(&old);
        let source = Arc::new(PathSource::open(&old).unwrap());
        let origin = Origin { source, at: "".into() };
        let engine =
            Engine::open(Local::open(&new).unwrap(), vec![origin], Settings::default(), &Cancel::new()).unwrap();
        let migration = Arc::new(Migration::new(engine.clone()));
        let door = Some(Door::open(&new, &folder, migration.clone()).unwrap());
        Self { door, migration, engine, folder, old, new, place }
    }

    fn crawl(&self) {
        self.engine.crawl(&Crawl::default(), &Cancel::new()).unwrap();
    }

    /// Ends the migration, of which nothing is left then.
    fn finish(&self) {
        self.crawl();
        self.engine.finish().unwrap();
        self.migration.end();
        nothing_is_left(&self.new);
    }
}

fn nothing_is_left(below: &Path) {
    for entry in fs::read_dir(below).unwrap() {
        let path = entry.unwrap().path();
        let metadata = fs::symlink_metadata(&path).unwrap();
        if metadata.is_symlink() {
            continue;
        }
        let mut names = Vec::with_capacity(4096);
        listxattr(&path, rustix::buffer::spare_capacity(&mut names)).unwrap();
        assert!(!String::from_utf8_lossy(&names).contains("trusted"), "{}", path.display());
        if metadata.is_dir() {
            nothing_is_left(&path);
        }
    }
}

/// Everything of a tree that must arrive.
fn tree(root: &Path, below: &Path, into: &mut Vec<String>) {
    let mut names: Vec<_> = fs::read_dir(root.join(below)).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    for name in names {
        let path = below.join(name);
        let metadata = fs::symlink_metadata(root.join(&path)).unwrap();
        let content = if metadata.is_file() {
            let bytes = fs::read(root.join(&path)).unwrap();
            bytes
                .iter()
                .fold(bytes.len() as u64, |sum, &byte| sum.wrapping_mul(31).wrapping_add(byte.into()))
                .to_string()
        } else if metadata.is_symlink() {
            fs::read_link(root.join(&path)).unwrap().display().to_string()
        } else {
            String::new()
        };
        let owner = (metadata.uid(), metadata.gid(), metadata.mode());
        let times = (metadata.mtime(), metadata.mtime_nsec());
        let links = if metadata.is_dir() { 0 } else { metadata.nlink() };
        let may = if metadata.is_file() { capability(&root.join(&path)) } else { Vec::new() };
        into.push(format!("{} {owner:?} {links} {times:?} {content} {may:?}", path.display()));
        if metadata.is_dir() {
            tree(root, &path, into);
        }
    }
}

fn whole(root: &Path) -> Vec<String> {
    let mut all = Vec::new();
    tree(root, Path::new(""), &mut all);
    all
}

#[test]
fn programs_see_the_whole_tree_before_anything_was_crawled() {
    if !can_open("programs_see_the_whole_tree_before_anything_was_crawled") {
        return;
    }
    let stage = Migrating::new();
    let mut names: Vec<_> = fs::read_dir(&stage.folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["a", "empty", "sparse"]);
    assert_eq!(fs::metadata(stage.folder.join("sparse")).unwrap().len(), 64 << 20);
    assert_eq!(whole(&stage.folder), whole(&stage.old));
    assert!(stage.door.as_ref().unwrap().counts().served > 0);
    stage.finish();
    assert_eq!(whole(&stage.new), whole(&stage.old));
}

#[test]
fn capabilities_and_set_ids_stay_while_bytes_come_and_go_when_a_program_writes() {
    if !can_open("capabilities_and_set_ids_stay_while_bytes_come_and_go_when_a_program_writes") {
        return;
    }
    let stage = Migrating::new();
    let (capable, set_id) = (stage.folder.join("a/capable"), stage.folder.join("a/set-id"));
    assert_eq!(capability(&capable), NET_RAW);
    for path in [&capable, &set_id] {
        let mut byte = [0];
        File::open(path).unwrap().read_exact_at(&mut byte, 0).unwrap();
    }
    assert_eq!(capability(&capable), NET_RAW);
    assert_eq!(fs::metadata(&set_id).unwrap().mode() & 0o7777, 0o6755);
    // Its mode is a client's from now on, and the rest of its bytes still to come.
    fs::set_permissions(&capable, PermissionsExt::from_mode(0o750)).unwrap();
    stage.crawl();
    for root in [&stage.folder, &stage.new] {
        assert_eq!(capability(&root.join("a/capable")), NET_RAW, "{}", root.display());
        assert_eq!(fs::metadata(root.join("a/set-id")).unwrap().mode() & 0o7777, 0o6755);
    }
    OpenOptions::new().append(true).open(&capable).unwrap().write_all(b"more").unwrap();
    assert!(capability(&capable).is_empty() && capability(&stage.new.join("a/capable")).is_empty());
    stage.finish();
}

#[test]
fn names_that_are_still_to_be_listed_count_as_links() {
    if !can_open("names_that_are_still_to_be_listed_count_as_links") {
        return;
    }
    let stage = Migrating::new();
    for name in ["a/b/third", "empty/fourth"] {
        fs::hard_link(stage.old.join("a/small"), stage.old.join(name)).unwrap();
    }
    // One name is none of what is migrated.
    fs::hard_link(stage.old.join("a/b/file-5"), stage.place.path().join("outside")).unwrap();
    let links = |name: &str| fs::metadata(stage.folder.join(name)).unwrap().nlink();
    let shows = |name: &str, number: u64| until(|| links(name) == number);
    assert_eq!(links("a/small"), 4);
    shows("a/b/third", 4);
    assert_eq!(links("a/b/file-5"), 2);
    fs::remove_file(stage.folder.join("a/small")).unwrap();
    fs::hard_link(stage.folder.join("a/b/third"), stage.folder.join("fifth")).unwrap();
    fs::remove_file(stage.folder.join("a/b/third")).unwrap();
    shows("fifth", 3);
    stage.crawl();
    shows("a/b/file-5", 1);
    shows("empty/fourth", 3);
    // Its last name goes while a program has it open.
    let left = fs::File::open(stage.folder.join("a/b/file-5")).unwrap();
    fs::remove_file(stage.folder.join("a/b/file-5")).unwrap();
    until(|| left.metadata().unwrap().nlink() == 0);
    stage.finish();
    assert_eq!(left.metadata().unwrap().nlink(), 0);
    assert_eq!(links("fifth"), 3);
}

#[test]
fn samba_is_told_of_files_whose_data_is_not_here_and_nothing_of_that_is_stored() {
    if !can_open("samba_is_told_of_files_whose_data_is_not_here_and_nothing_of_that_is_stored") {
        return;
    }
    // Hidden, with a time when it was made.
    let hidden = [0, 0, 5, 0, 5, 0, 0, 0, 0x11, 0, 0, 0, 2, 0, 0, 0, 0xff, 0xee, 0xdd, 0xcc, 0xbb, 0xaa, 0xd9, 1];
    let stage = Migrating::new();
    let stored = stage.old.join("a/b/file-7");
    setxattr(&stored, DOSATTRIB, &hidden, XattrFlags::empty()).unwrap();
    let told = |root: &Path, name: &str| {
        let mut value = vec![0; 64];
        let length = getxattr(root.join(name), DOSATTRIB, &mut value[..]).ok()?;
        assert_eq!(getxattr_query(root.join(name), DOSATTRIB).unwrap(), length, "asked for its length");
        value.truncate(length);
        Some(value)
    };
    let mut marked = hidden;
    marked[13] |= OFFLINE;
    assert_eq!(told(&stage.folder, "a/b/file-7").as_deref(), Some(&marked[..]));
    assert_eq!(told(&stage.folder, "a/b/file-8").unwrap()[13], OFFLINE);
    assert_eq!(told(&stage.folder, "a/b"), None, "a directory");
    assert!(getxattr(stage.folder.join("a/b/file-8"), DOSATTRIB, &mut [0; 4][..]).is_err(), "there is no room for it");
    let mut names = Vec::with_capacity(4096);
    listxattr(stage.folder.join("a/b/file-8"), rustix::buffer::spare_capacity(&mut names)).unwrap();
    assert!(!String::from_utf8_lossy(&names).contains(DOSATTRIB), "what is not stored is not listed");
    assert_eq!(stage.engine.progress().copied, 0, "no data was pulled");

    // Samba writes what it has read, with a change.
    marked[12] = 0x22;
    setxattr(stage.folder.join("a/b/file-8"), DOSATTRIB, &marked, XattrFlags::empty()).unwrap();
    let mut changed = hidden;
    changed[12] = 0x22;
    assert_eq!(told(&stage.new, "a/b/file-8").as_deref(), Some(&changed[..]));
    assert_eq!(told(&stage.folder, "a/b/file-8").as_deref(), Some(&marked[..]));

    stage.crawl();
    for root in [&stage.folder, &stage.new] {
        assert_eq!(told(root, "a/b/file-7").as_deref(), Some(&hidden[..]));
        assert_eq!(told(root, "a/b/file-8").as_deref(), Some(&changed[..]));
        assert_eq!(told(root, "a/b/file-9"), None);
    }
    stage.finish();
}

#[test]
fn what_programs_change_meanwhile_is_there_at_the_end() {
    if !can_open("what_programs_change_meanwhile_is_there_at_the_end") {
        return;
    }
    let stage = Migrating::new();
    let crawler = {
        let engine = stage.engine.clone();
        thread::spawn(move || engine.crawl(&Crawl::default(), &Cancel::new()).unwrap())
    };
    // The same is done on the old server's own tree: it is what must come of it.
    let model = stage.place.path().join("model");
    let copied = std::process::Command::new("cp").arg("-a").args([&stage.old, &model]).status().unwrap();
    assert!(copied.success());
    for root in [&stage.folder, &model] {
        let path = |name: &str| root.join(name);
        let open = |name: &str| OpenOptions::new().read(true).write(true).open(path(name)).unwrap();
        fs::rename(path("a/b/file-20"), path("empty/moved")).unwrap();
        fs::rename(path("a/b/c"), path("empty/c")).unwrap();
        open("empty/moved").write_all_at(b"written", 100_000).unwrap();
        open("a/b/file-21").set_len(5_000).unwrap();
        open("a/b/file-22").set_len(10).unwrap();
        open("a/b/file-22").set_len(10_000).unwrap();
        fallocate(open("a/b/file-23"), FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 5_000, 100_000).unwrap();
        fallocate(open("a/b/file-24"), FallocateFlags::ZERO_RANGE, 5_000, 100_000).unwrap();
        fallocate(open("a/b/file-25"), FallocateFlags::empty(), 400_000, 300_000).unwrap();
        fs::remove_file(path("a/b/file-26")).unwrap();
        fs::write(path("a/b/file-27"), b"over").unwrap();
        fs::hard_link(path("a/b/file-28"), path("linked")).unwrap();
        fs::write(path("new"), b"new").unwrap();
        assert!(fs::remove_dir(path("a")).is_err());
        fs::set_permissions(path("a/b/file-29"), PermissionsExt::from_mode(0o600)).unwrap();
        OpenOptions::new().append(true).open(path("a/b/file-19")).unwrap().write_all(b"appended").unwrap();
        fs::copy(path("a/b/file-18"), path("copied")).unwrap();
    }
    crawler.join().unwrap();
    let bytes = |root: &Path| -> Vec<String> {
        whole(root)
            .into_iter()
            .map(|line| {
                // Times are those of this test's own changes.
                let words: Vec<_> = line.split(' ').collect();
                [&words[..5], &words[7..]].concat().join(" ")
            })
            .collect()
    };
    assert_eq!(bytes(&stage.folder), bytes(&model));
    stage.finish();
    assert_eq!(bytes(&stage.new), bytes(&model));
}

#[test]
fn a_service_that_is_replaced_goes_on_with_the_migration() {
    if !can_open("a_service_that_is_replaced_goes_on_with_the_migration") {
        return;
    }
    let mut stage = Migrating::new();
    let file = OpenOptions::new().read(true).write(true).open(stage.folder.join("a/b/file-29")).unwrap();
    file.write_all_at(b"before", 10).unwrap();
    let handed = stage.door.take().unwrap().hand_over().unwrap();
    let door = Door::go_on(&stage.new, &stage.folder, stage.migration.clone(), handed).unwrap();
    file.write_all_at(b"after", 300_000).unwrap();
    let mut bytes = vec![0; 29 * 20_011];
    file.read_exact_at(&mut bytes, 0).unwrap();
    let mut wanted = fs::read(stage.old.join("a/b/file-29")).unwrap();
    wanted[10..16].copy_from_slice(b"before");
    wanted[300_000..300_005].copy_from_slice(b"after");
    assert!(bytes == wanted);
    drop(file);
    stage.finish();
    // What has become normal is passed through, once all have closed it.
    until(|| {
        let _ = fs::read(stage.folder.join("a/b/file-29")).unwrap();
        door.counts().passed > 0
    });
}

/// The time of change that a program sees.
fn changed(path: &Path) -> (i64, i64) {
    let metadata = fs::metadata(path).unwrap();
    (metadata.ctime(), metadata.ctime_nsec())
}

/// Exchanges two names.
fn rename(one: &Path, other: &Path) {
    renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).unwrap();
}

#[test]
fn what_comes_is_no_change_after_another_service_took_over_nor_at_the_end() {
    if !can_open("what_comes_is_no_change_after_another_service_took_over_nor_at_the_end") {
        return;
    }
    let mut stage = Migrating::new();
    let all = ["a/b/file-29", "a/b/file-3", "a/b", ""].map(|path| stage.folder.join(path));
    let before = all.each_ref().map(|path| changed(path));
    assert!(fs::read(&all[0]).unwrap() == fs::read(stage.old.join("a/b/file-29")).unwrap());
    let handed = stage.door.take().unwrap().hand_over().unwrap();
    let door = Door::go_on(&stage.new, &stage.folder, stage.migration.clone(), handed).unwrap();
    for path in &all[..2] {
        let _ = fs::read(path).unwrap();
    }
    let later = || thread::sleep(std::time::Duration::from_millis(1100));
    later();
    assert_eq!(all.each_ref().map(|path| changed(path)), before, "bytes have come");
    stage.finish();
    later();
    assert_eq!(all.each_ref().map(|path| changed(path)), before, "the migration has ended");
    for path in &all {
        fs::set_permissions(path, PermissionsExt::from_mode(0o700)).unwrap();
    }
    let after = all.each_ref().map(|path| changed(path));
    assert!(before.iter().zip(&after).all(|(before, after)| after > before), "{after:?} after {before:?}");
    drop(door);
}

#[test]
fn what_comes_is_no_change_to_programs_that_read_it_and_what_programs_do_is() {
    if !can_open("what_comes_is_no_change_to_programs_that_read_it_and_what_programs_do_is") {
        return;
    }
    let migrating = Migrating::new();
    let (file, linked) = (migrating.folder.join("a/b/file-29"), migrating.folder.join("a/small"));
    let directory = migrating.folder.join("a/b");
    let all = [&file, &linked, &directory, &migrating.folder];
    let before = all.map(|path| changed(path));
    // Longer than the kernel believes what it was told.
    let later = || thread::sleep(std::time::Duration::from_millis(1100));
    let opened = File::open(&file).unwrap();
    assert!(fs::read(&file).unwrap() == fs::read(migrating.old.join("a/b/file-29")).unwrap());
    later();
    assert_eq!(all.map(|path| changed(path)), before, "bytes have come");
    migrating.crawl();
    later();
    assert_eq!(all.map(|path| changed(path)), before, "all has come, and is settled");
    let metadata = opened.metadata().unwrap();
    assert_eq!((metadata.ctime(), metadata.ctime_nsec()), before[0]);
    drop(opened);

    let mut last = before;
    let mut is_told = |what: &str, which: usize, act: &dyn Fn()| {
        act();
        let now = all.map(|path| changed(path));
        assert!(now[which] > last[which], "{what}: {now:?} after {last:?}");
        later();
        assert_eq!(all.map(|path| changed(path))[which], now[which], "{what}");
        last = now;
    };
    is_told("a mode", 0, &|| fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap());
    is_told("an attribute", 1, &|| setxattr(&linked, "user.new", b"value", XattrFlags::empty()).unwrap());
    is_told("bytes", 0, &|| OpenOptions::new().append(true).open(&file).unwrap().write_all(b"more").unwrap());
    is_told("a size", 1, &|| OpenOptions::new().write(true).open(&linked).unwrap().set_len(1).unwrap());
    is_told("a name", 2, &|| fs::write(directory.join("made"), b"made").unwrap());
    is_told("a name that goes", 2, &|| fs::remove_file(directory.join("made")).unwrap());
    is_told("a link", 0, &|| fs::hard_link(&file, migrating.folder.join("link")).unwrap());
    is_told("a link that goes", 0, &|| fs::remove_file(migrating.folder.join("link")).unwrap());
    is_told("a link that is replaced", 1, &|| {
        fs::write(migrating.folder.join("over"), b"over").unwrap();
        fs::rename(migrating.folder.join("over"), migrating.folder.join("a/b/c/linked")).unwrap();
    });
    is_told("an exchange", 0, &|| {
        rename(&file, &linked);
        rename(&file, &linked);
    });
    is_told("a move", 2, &|| {
        fs::rename(&directory, migrating.folder.join("moved")).unwrap();
        fs::rename(migrating.folder.join("moved"), &directory).unwrap();
    });
    let moved = directory.join("moved");
    is_told("a move", 0, &|| {
        fs::rename(&file, &moved).unwrap();
        fs::rename(&moved, &file).unwrap();
    });

    // One that is open for writing tells of each write, when it is whole as well.
    let writer = OpenOptions::new().append(true).open(&file).unwrap();
    for _ in 0..2 {
        is_told("bytes", 0, &|| (&writer).write_all(b"more").unwrap());
    }
    let stub = migrating.place.path().join("at/a/b/file-28");
    let made = migrating.folder.join("new");
    let new = File::create(&made).unwrap();
    for path in [&stub, &made] {
        let writer = OpenOptions::new().write(true).open(path).unwrap();
        let mut last = changed(path);
        for place in 0..2 {
            thread::sleep(std::time::Duration::from_millis(20));
            writer.write_all_at(b"more", place * 10).unwrap();
            later();
            let now = changed(path);
            assert!(now > last, "{}: {now:?} after {last:?}", path.display());
            last = now;
        }
    }
    drop(new);
    migrating.finish();
}
