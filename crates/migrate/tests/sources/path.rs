//! A directory of this host as a source.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use ishigaki_migrate::source::path::PathSource;
use ishigaki_migrate::source::{Attributes, Cancel, Entry, Error, ErrorKind, FileType, Location, Source};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, XattrFlags};
use tempfile::TempDir;

fn at(path: impl AsRef<Path>) -> Location {
    Location { path: path.as_ref().to_owned(), handle: Box::default() }
}

fn opened() -> (TempDir, PathSource) {
    let directory = tempfile::tempdir().expect("a directory");
    let source = PathSource::open(directory.path()).expect("opens");
    (directory, source)
}

fn listed(source: &dyn Source, path: &str) -> BTreeMap<OsString, Entry> {
    let mut entries = BTreeMap::new();
    let mut take = |page: Vec<Entry>| {
        for entry in page {
            assert!(entries.insert(entry.name.clone(), entry).is_none(), "a name is given once");
        }
        Ok(())
    };
    source.list(&at(path), &Cancel::new(), &mut take).expect("lists");
    entries
}

fn attributes(source: &dyn Source, path: impl AsRef<Path>) -> Attributes {
    source.attributes(&at(path), &Cancel::new()).expect("has attributes")
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn names_are_bytes() {
    let (directory, source) = opened();
    let odd = [b"\xff\xfe".to_vec(), b"new\nline".to_vec(), b" ".to_vec(), b"...".to_vec(), vec![b'n'; 255]];
    for name in &odd {
        fs::write(directory.path().join(OsString::from_vec(name.clone())), name).expect("writes");
    }
    let entries = listed(&source, "");
    assert_eq!(entries.len(), odd.len());
    for name in odd {
        let path = OsString::from_vec(name.clone());
        assert_eq!(entries[&path].attributes.expect("has attributes"), attributes(&source, &path));
        let mut buffer = [0; 300];
        assert_eq!(source.read(&at(&path), 0, &mut buffer, &Cancel::new()), Ok(name.len()));
        assert_eq!(buffer[..name.len()], name);
    }
}

#[test]
fn every_kind_of_object_says_what_the_kernel_says() {
    let (directory, source) = opened();
    let path = |name: &str| directory.path().join(name);
    fs::write(path("file"), "text").expect("writes");
    fs::hard_link(path("file"), path("second")).expect("links");
    fs::set_permissions(path("file"), fs::Permissions::from_mode(0o6751)).expect("sets the mode");
    let time = SystemTime::UNIX_EPOCH + Duration::new(1_000_000_000, 123_456_789);
    File::open(path("file")).expect("opens").set_modified(time).expect("sets the time");
    fs::create_dir(path("directory")).expect("makes");
    symlink("nowhere/at all", path("link")).expect("links");
    let _socket = std::os::unix::net::UnixListener::bind(path("socket")).expect("binds");
    rustix::fs::mknodat(CWD, path("fifo"), rustix::fs::FileType::Fifo, Mode::RUSR, 0).expect("makes a pipe");
    if is_root() {
        let device = rustix::fs::makedev(300, 70_000);
        let made = rustix::fs::mknodat(CWD, path("device"), rustix::fs::FileType::CharacterDevice, Mode::RUSR, device);
        made.expect("makes a device");
        assert_eq!(attributes(&source, "device").device, (300, 70_000));
    }
    let entries = listed(&source, "");
    assert_eq!(entries.len(), if is_root() { 7 } else { 6 });
    for (name, entry) in entries {
        let told = entry.attributes.expect("has attributes");
        let real = fs::symlink_metadata(directory.path().join(&name)).expect("has metadata");
        let kind = match real.file_type() {
            kind if kind.is_file() => FileType::Regular,
            kind if kind.is_dir() => FileType::Directory,
            kind if kind.is_symlink() => FileType::Symlink,
            kind if kind.is_fifo() => FileType::Fifo,
            kind if kind.is_socket() => FileType::Socket,
            _ => FileType::CharDevice,
        };
        assert_eq!(told.file_type, kind, "{name:?}");
        let numbers = (told.mode, told.owner.user, told.owner.group, u64::from(told.links), told.size);
        assert_eq!(numbers, (real.mode() & 0o7777, real.uid(), real.gid(), real.nlink(), real.size()), "{name:?}");
        assert_eq!(told.id, (real.dev(), real.ino()), "{name:?}");
        let times = [told.accessed, told.modified, told.changed].map(|time| (time.seconds, i64::from(time.nanos)));
        let real_times =
            [(real.atime(), real.atime_nsec()), (real.mtime(), real.mtime_nsec()), (real.ctime(), real.ctime_nsec())];
        assert_eq!(times, real_times, "{name:?}");
    }
    let target = source.extras(&at("link"), &Cancel::new()).expect("reads").target;
    assert_eq!(target, Some(PathBuf::from("nowhere/at all")));
    assert_eq!(attributes(&source, "file").id, attributes(&source, "second").id);
}

/// Makes directories one in another, and a file in the last one; paths are too long for one call.
fn deep(root: &Path, depth: usize) -> PathBuf {
    let mut inner: OwnedFd = File::open(root).expect("opens").into();
    let name = "d".repeat(100);
    for _ in 0..depth {
        rustix::fs::mkdirat(&inner, &name, Mode::RWXU).expect("makes");
        inner = rustix::fs::openat(&inner, &name, OFlags::DIRECTORY, Mode::empty()).expect("opens");
    }
    let file = rustix::fs::openat(&inner, "file", OFlags::CREATE | OFlags::WRONLY, Mode::RUSR).expect("makes");
    File::from(file).write_all_at(b"deep", 0).expect("writes");
    vec![name; depth].join("/").into()
}

#[test]
fn objects_are_reached_below_the_longest_path_of_the_kernel() {
    let (directory, source) = opened();
    let path = deep(directory.path(), 120);
    assert!(path.as_os_str().len() > 12_000);
    assert_eq!(attributes(&source, &path).file_type, FileType::Directory);
    let entries = listed(&source, path.to_str().expect("text"));
    assert_eq!(entries.keys().collect::<Vec<_>>(), ["file"]);
    let mut buffer = [0; 10];
    assert_eq!(source.read(&at(path.join("file")), 1, &mut buffer, &Cancel::new()), Ok(3));
    assert_eq!(&buffer[..3], b"eep");
    assert_eq!(source.extras(&at(path.join("file")), &Cancel::new()).expect("reads").target, None);
}

#[test]
fn a_symbolic_link_in_the_way_leads_nowhere() {
    let (directory, source) = opened();
    let outside = tempfile::tempdir().expect("a directory");
    fs::write(outside.path().join("secret"), "secret").expect("writes");
    fs::create_dir(directory.path().join("inside")).expect("makes");
    fs::write(directory.path().join("inside/secret"), "own").expect("writes");
    symlink(outside.path(), directory.path().join("link")).expect("links");
    symlink("inside", directory.path().join("near")).expect("links");
    symlink(outside.path().join("secret"), directory.path().join("file")).expect("links");
    let mut buffer = [0; 10];
    for path in ["link/secret", "near/secret", "file"] {
        let error = source.read(&at(path), 0, &mut buffer, &Cancel::new()).expect_err(path);
        assert_eq!(error.kind, ErrorKind::Gone, "{error}");
    }
    for path in ["link", "near"] {
        let error = source.list(&at(path), &Cancel::new(), &mut |_| Ok(())).expect_err(path);
        assert_eq!(error.kind, ErrorKind::Gone, "{error}");
    }
    for path in ["../secret", "inside/../../etc", "/etc/passwd"] {
        assert_eq!(source.attributes(&at(path), &Cancel::new()).expect_err(path).kind, ErrorKind::Invalid);
    }
    assert_eq!(source.read(&at("inside/secret"), 0, &mut buffer, &Cancel::new()), Ok(3));
}

#[test]
fn what_is_another_object_by_now_is_gone() {
    let (directory, source) = opened();
    fs::create_dir(directory.path().join("directory")).expect("makes");
    fs::write(directory.path().join("file"), "").expect("writes");
    rustix::fs::mknodat(CWD, directory.path().join("fifo"), rustix::fs::FileType::Fifo, Mode::RWXU, 0).expect("makes");
    let mut buffer = [0; 10];
    for path in ["absent", "directory", "fifo", "file/below"] {
        let error = source.read(&at(path), 0, &mut buffer, &Cancel::new()).expect_err(path);
        assert_eq!(error.kind, ErrorKind::Gone, "{error}");
    }
    for path in ["absent", "file", "fifo"] {
        let error = source.list(&at(path), &Cancel::new(), &mut |_| Ok(())).expect_err(path);
        assert_eq!(error.kind, ErrorKind::Gone, "{error}");
    }
    assert_eq!(PathSource::open(&directory.path().join("file")).err().expect("refused").kind, ErrorKind::Invalid);
    assert_eq!(PathSource::open(&directory.path().join("absent")).err().expect("refused").kind, ErrorKind::Invalid);
}

#[test]
fn holes_are_told_where_they_are() {
    let (directory, source) = opened();
    let file = File::create(directory.path().join("file")).expect("makes");
    file.set_len(64 << 20).expect("grows");
    file.write_all_at(&[1; 4096], 16 << 20).expect("writes");
    let next = |offset| source.next_data(&at("file"), offset, &Cancel::new()).expect("seeks");
    let data = next(0).expect("there is data");
    if data.start == 0 {
        println!("SKIPPED: the file system of {} knows no holes", directory.path().display());
        return;
    }
    assert!(data.start <= 16 << 20 && data.end >= (16 << 20) + 4096 && data.end < 32 << 20, "{data:?}");
    assert_eq!(next(data.end), None);
    assert_eq!(next((16 << 20) + 10).expect("there is data").start, (16 << 20) + 10);
    assert_eq!(next(1 << 40), None);
    let mut buffer = vec![7; 100];
    assert_eq!(source.read(&at("file"), (64 << 20) - 10, &mut buffer, &Cancel::new()), Ok(10));
    assert_eq!(buffer[..10], [0; 10]);
}

/// The access list of a file as the kernel stores it: the owner's, a user's, the group's, the mask's and the others' entry.
fn access_list() -> Vec<u8> {
    let entries: [(u16, u16, u32); 5] =
        [(1, 6, u32::MAX), (2, 4, 1234), (4, 4, u32::MAX), (16, 4, u32::MAX), (32, 0, u32::MAX)];
    let mut bytes = 2_u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(permissions.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}

#[test]
fn extended_attributes_and_access_lists_are_told_as_they_are() {
    let (directory, source) = opened();
    let path = |name: &str| directory.path().join(name);
    fs::write(path("file"), "").expect("writes");
    fs::create_dir(path("directory")).expect("makes");
    symlink("file", path("link")).expect("links");
    let large = vec![3; 3000];
    let list = access_list();
    let mut set = vec![
        ("file", "user.small", &b"\0\xff"[..]),
        ("file", "user.empty", b""),
        ("file", "user.large", &large),
        ("file", "system.posix_acl_access", &list),
        ("directory", "system.posix_acl_default", &list),
        ("directory", "user.directory", b"d"),
    ];
    if is_root() {
        set.push(("link", "trusted.link", b"of the link, not of its target"));
    }
    for (object, name, value) in &set {
        let made = rustix::fs::lsetxattr(path(object), *name, value, XattrFlags::empty());
        if made == Err(rustix::io::Errno::OPNOTSUPP) {
            println!("SKIPPED: the file system of {} takes no {name}", directory.path().display());
            return;
        }
        made.unwrap_or_else(|errno| panic!("{object} takes {name}: {errno}"));
    }
    for object in ["file", "directory", "link"] {
        let mut told = source.extras(&at(object), &Cancel::new()).expect("reads").attributes;
        told.retain(|(name, _)| name != "security.selinux");
        told.sort();
        let mut expected: Vec<_> = set
            .iter()
            .filter(|(of, ..)| *of == object)
            .map(|(_, name, value)| (OsString::from(name), value.to_vec()))
            .collect();
        expected.sort();
        assert_eq!(told, expected, "{object}");
    }
}

fn accessed(path: &Path) -> (i64, i64) {
    let metadata = fs::symlink_metadata(path).expect("has metadata");
    (metadata.atime(), metadata.atime_nsec())
}

#[test]
fn access_times_stay_as_they_are() {
    let (directory, source) = opened();
    let inner = directory.path().join("directory");
    fs::create_dir(&inner).expect("makes");
    let file = inner.join("file");
    fs::write(&file, "text").expect("writes");
    // Long before the last change, so that the next access moves it wherever access times are kept at all.
    let old = rustix::fs::Timestamps {
        last_access: rustix::fs::Timespec { tv_sec: 1_000_000, tv_nsec: 7 },
        last_modification: rustix::fs::Timespec { tv_sec: 2_000_000, tv_nsec: 0 },
    };
    for path in [&file, &inner] {
        rustix::fs::utimensat(CWD, path, &old, AtFlags::SYMLINK_NOFOLLOW).expect("sets the times");
    }
    let mut buffer = [0; 10];
    assert_eq!(source.read(&at("directory/file"), 0, &mut buffer, &Cancel::new()), Ok(4));
    assert_eq!(listed(&source, "directory").len(), 1);
    source.extras(&at("directory/file"), &Cancel::new()).expect("reads");
    source.next_data(&at("directory/file"), 0, &Cancel::new()).expect("seeks");
    assert!(source.kept_access_times());
    assert_eq!(accessed(&file), (1_000_000, 7));
    assert_eq!(accessed(&inner), (1_000_000, 7));
    // The test can fail: another reader moves them, unless the file system keeps none.
    fs::read(&file).expect("reads");
    if accessed(&file) == (1_000_000, 7) {
        println!("SKIPPED: the file system of {} keeps no access times", directory.path().display());
    }
}

#[test]
fn a_large_directory_comes_in_pages() {
    let (directory, source) = opened();
    for number in 0..2500 {
        fs::write(directory.path().join(number.to_string()), "").expect("writes");
    }
    let mut pages = Vec::new();
    let mut take = |page: Vec<Entry>| {
        pages.push(page.len());
        Ok(())
    };
    source.list(&at(""), &Cancel::new(), &mut take).expect("lists");
    assert_eq!(pages.iter().sum::<usize>(), 2500);
    assert!(pages.len() > 1);
    let stop = Error::new(ErrorKind::Denied, "enough");
    let ended = source.list(&at(""), &Cancel::new(), &mut |_| Err(stop.clone()));
    assert_eq!(ended, Err(stop));
    let cancel = Cancel::new();
    cancel.cancel();
    assert_eq!(source.list(&at(""), &cancel, &mut |_| Ok(())).expect_err("cancelled").kind, ErrorKind::Cancelled);
}

#[test]
fn a_file_system_below_has_another_number() {
    if !Path::new("/proc/sys").is_dir() {
        println!("SKIPPED: /proc is not mounted");
        return;
    }
    let source = PathSource::open(Path::new("/")).expect("opens");
    let (root, below) = (attributes(&source, ""), attributes(&source, "proc/sys"));
    assert_ne!(root.id.0, below.id.0);
    assert_eq!(below.id.0, fs::metadata("/proc/sys").expect("has metadata").dev());
    let name = listed(&source, "proc")[OsStr::new("sys")].attributes.expect("has attributes");
    assert_eq!(name.id, below.id);
}

#[test]
fn a_read_ends_where_the_file_ends_whatever_is_asked() {
    let (directory, source) = opened();
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|number| (number >> 3) as u8).collect();
    let path = directory.path().join("file");
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).expect("makes");
    fs::write(&path, &bytes).expect("writes");
    let mut buffer = vec![0; 4_000_000];
    for (offset, asked, read) in
        [(0, 4_000_000, 3_000_000), (2_999_999, 10, 1), (3_000_000, 10, 0), (1 << 40, 10, 0), (5, 0, 0), (5, 7, 7)]
    {
        assert_eq!(source.read(&at("file"), offset, &mut buffer[..asked], &Cancel::new()), Ok(read));
        let from = (offset as usize).min(bytes.len());
        assert!(buffer[..read] == bytes[from..from + read]);
    }
    let told = source.read_told(&at("file"), 0, &mut buffer, &Cancel::new()).expect("reads");
    assert_eq!(told, (3_000_000, Some(attributes(&source, "file"))));
    let (location, mut small) = (at("file"), [0; 16]);
    let absent = at("absent");
    let mut second = [0; 4];
    let results = source.read_files(&mut [(&location, &mut small[..]), (&absent, &mut second[..])], &Cancel::new());
    assert_eq!(results[0], Ok(16));
    assert_eq!(results[1].as_ref().expect_err("absent").kind, ErrorKind::Gone);
}
