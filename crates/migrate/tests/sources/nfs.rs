//! NFS-Ganesha as a source.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use ishigaki_migrate::source::nfs::NfsSource;
use ishigaki_migrate::source::{Cancel, Entry, Error, ErrorKind, Location, Source};
use rustix::fs::{CWD, Mode};

use crate::ganesha::Ganesha;

fn at(path: impl AsRef<Path>) -> Location {
    Location { path: path.as_ref().to_owned(), handle: Box::default() }
}

fn listed(source: &dyn Source, directory: &Location) -> BTreeMap<OsString, Entry> {
    let mut entries = BTreeMap::new();
    let mut take = |page: Vec<Entry>| {
        for entry in page {
            assert!(entries.insert(entry.name.clone(), entry).is_none(), "a name is given once");
        }
        Ok(())
    };
    source.list(directory, &Cancel::new(), &mut take).expect("lists");
    entries
}

fn located(source: &dyn Source, path: &str) -> Location {
    let parent = Path::new(path).parent().expect("not the root");
    let name = Path::new(path).file_name().expect("not the root");
    Location { path: path.into(), handle: listed(source, &at(parent))[name].handle.clone() }
}

#[test]
fn every_kind_of_object_says_what_the_kernel_says_there() {
    let Some(server) = Ganesha::start() else { return };
    let path = |name: &str| server.tree.path().join(name);
    fs::write(path("file"), "text").expect("writes");
    fs::hard_link(path("file"), path("second")).expect("links");
    fs::set_permissions(path("file"), fs::Permissions::from_mode(0o6751)).expect("sets the mode");
    let time = SystemTime::UNIX_EPOCH + Duration::new(1_000_000_000, 123_456_789);
    File::open(path("file")).expect("opens").set_modified(time).expect("sets the time");
    std::os::unix::fs::chown(path("file"), Some(1234), Some(u32::MAX - 7)).expect("sets the owner");
    fs::create_dir(path("directory")).expect("makes");
    symlink("nowhere/at \u{e4}ll", path("link")).expect("links");
    let _socket = std::os::unix::net::UnixListener::bind(path("socket")).expect("binds");
    rustix::fs::mknodat(CWD, path("fifo"), rustix::fs::FileType::Fifo, Mode::RUSR, 0).expect("makes a pipe");
    let device = rustix::fs::makedev(300, 70_000);
    rustix::fs::mknodat(CWD, path("device"), rustix::fs::FileType::BlockDevice, Mode::RUSR, device)
        .expect("makes a device");
    for name in [&b"\xff\xfe"[..], b"new\nline", b" ", b"...", &[b'n'; 255]] {
        fs::write(server.tree.path().join(OsString::from_vec(name.to_vec())), name).expect("writes");
    }

    let source = server.source();
    let (root, of_root) = source.root(&Cancel::new()).expect("has a root");
    assert_eq!(of_root.id.1, fs::metadata(server.tree.path()).expect("has metadata").ino());
    let entries = listed(&source, &root);
    assert_eq!(entries.len(), 12);
    for (name, entry) in &entries {
        let told = entry.attributes.expect("has attributes");
        let real = fs::symlink_metadata(server.tree.path().join(name)).expect("has metadata");
        let numbers = (told.mode, told.owner.user, told.owner.group, u64::from(told.links), told.size, told.id.1);
        let real_numbers = (real.mode() & 0o7777, real.uid(), real.gid(), real.nlink(), real.size(), real.ino());
        assert_eq!(numbers, real_numbers, "{name:?}");
        let times = [told.modified, told.changed].map(|time| (time.seconds, i64::from(time.nanos)));
        assert_eq!(times, [(real.mtime(), real.mtime_nsec()), (real.ctime(), real.ctime_nsec())], "{name:?}");
        let location = Location { path: name.into(), handle: entry.handle.clone() };
        assert_eq!(source.attributes(&location, &Cancel::new()), Ok(told), "by handle: {name:?}");
        assert_eq!(source.attributes(&at(name), &Cancel::new()), Ok(told), "by path: {name:?}");
        assert_eq!(told.id.0, of_root.id.0);
    }
    let types: String = ["file", "directory", "link", "socket", "fifo", "device"]
        .map(|name| format!("{:?} ", entries[Path::new(name).as_os_str()].attributes.expect("told").file_type))
        .concat();
    assert_eq!(types, "Regular Directory Symlink Socket Fifo BlockDevice ");
    assert_eq!(entries[Path::new("device").as_os_str()].attributes.expect("told").device, (300, 70_000));
    let extras = |name: &str| source.extras(&at(name), &Cancel::new()).expect("reads");
    assert_eq!(extras("link").target, Some(PathBuf::from("nowhere/at \u{e4}ll")));
    assert_eq!(extras("file").target, None);
    assert_eq!(extras("directory").target, None);
}

#[test]
fn a_large_directory_streams_in_pages() {
    // In memory: a disk takes long to make so many files.
    let Some(server) = Ganesha::start_in(Path::new("/dev/shm")) else { return };
    let count = 100_000;

    let directory = File::open(server.tree.path()).expect("opens");
    for number in 0..count {
        rustix::fs::mknodat(&directory, number.to_string(), rustix::fs::FileType::RegularFile, Mode::RUSR, 0)
            .expect("makes");
    }
    let source = server.source();
    let mut pages = Vec::new();
    let mut names = std::collections::HashSet::new();
    let mut take = |page: Vec<Entry>| {
        pages.push(page.len());
        for entry in page {
            assert!(entry.attributes.is_some() && !entry.handle.is_empty());
            assert!(names.insert(entry.name), "a name is given once");
        }
        Ok(())
    };
    source.list(&at(""), &Cancel::new(), &mut take).expect("lists");
    assert!(names.len() == count && pages.len() > 10, "{pages:?}");
    let stop = Error::new(ErrorKind::Denied, "enough");
    let mut asked = 0;
    let ended = source.list(&at(""), &Cancel::new(), &mut |_| {
        asked += 1;
        Err(stop.clone())
    });
    assert_eq!((ended, asked), (Err(stop), 1));
}

fn pattern(seed: usize, size: usize) -> Vec<u8> {
    (0..size).map(|place| ((place * 31 + seed * 7) >> 3) as u8).collect()
}

#[test]
fn bytes_arrive_as_they_are() {
    let Some(server) = Ganesha::start() else { return };
    let large = pattern(1, 20_000_000);
    fs::write(server.tree.path().join("large"), &large).expect("writes");
    let sizes = [0, 1, 4095, 4096, 70_000, 3_000_000];
    for number in 0..300 {
        let path = server.tree.path().join(number.to_string());
        fs::write(path, pattern(number, sizes[number % sizes.len()])).expect("writes");
    }
    let source = server.source();
    let mut buffer = vec![0; 21_000_000];
    let cancel = Cancel::new();
    let file = located(&source, "large");
    for (offset, asked, read) in [
        (0, 21_000_000, 20_000_000),
        (19_999_999, 10, 1),
        (20_000_000, 10, 0),
        (1 << 40, 10, 0),
        (5, 0, 0),
        (5, 7, 7),
        (12_345, 5_000_000, 5_000_000),
    ] {
        assert_eq!(source.read(&file, offset, &mut buffer[..asked], &cancel), Ok(read));
        let from = (offset as usize).min(large.len());
        assert!(buffer[..read] == large[from..from + read]);
    }
    let entries = listed(&source, &at(""));
    let mut locations = Vec::new();
    for number in 0..300 {
        let path = PathBuf::from(number.to_string());
        let handle = if number % 3 == 0 { Box::default() } else { entries[path.as_os_str()].handle.clone() };
        locations.push(Location { path, handle });
    }
    locations.push(at("absent"));
    locations.push(at("large/below"));
    let mut buffers: Vec<Vec<u8>> = (0..300).map(|number| vec![9; sizes[number % sizes.len()] + number % 2]).collect();
    buffers.extend([vec![0; 10], vec![0; 10]]);
    let mut files: Vec<_> = locations.iter().zip(buffers.iter_mut().map(Vec::as_mut_slice)).collect();
    let results = source.read_files(&mut files, &cancel);
    for number in 0..300 {
        let size = sizes[number % sizes.len()];
        assert_eq!(results[number], Ok(size), "{number}");
        assert!(buffers[number][..size] == pattern(number, size));
    }
    for result in &results[300..] {
        assert_eq!(result.as_ref().expect_err("absent").kind, ErrorKind::Gone, "{result:?}");
    }
}

#[test]
fn a_handle_that_leads_nowhere_is_looked_up_by_its_path_once() {
    let Some(server) = Ganesha::start() else { return };
    let path = |name: &str| server.tree.path().join(name);
    fs::create_dir(path("directory")).expect("makes");
    for name in ["directory/gone", "directory/replaced"] {
        fs::write(path(name), "old").expect("writes");
    }
    let source = server.source();
    let directory = located(&source, "directory");
    let [gone, replaced] = ["directory/gone", "directory/replaced"].map(|name| located(&source, name));
    fs::remove_dir_all(path("directory")).expect("removes");
    fs::create_dir(path("directory")).expect("makes");
    fs::write(path("directory/replaced"), "new one").expect("writes");
    let cancel = Cancel::new();
    let mut buffer = [0; 10];
    assert_eq!(source.read(&gone, 0, &mut buffer, &cancel).expect_err("gone").kind, ErrorKind::Gone);
    assert_eq!(source.read(&replaced, 0, &mut buffer, &cancel), Ok(7));
    assert_eq!(&buffer[..7], b"new one");
    assert_eq!(listed(&source, &directory).len(), 1);
    let mut other = [0; 10];
    let results = source.read_files(&mut [(&replaced, &mut buffer[..]), (&gone, &mut other[..])], &cancel);
    assert_eq!(results[0], Ok(7));
    assert_eq!(results[1].as_ref().expect_err("gone").kind, ErrorKind::Gone);
    assert_eq!(source.attributes(&replaced, &cancel).expect("is there").size, 7);
    let error = source.list(&at("directory/replaced"), &cancel, &mut |_| Ok(())).expect_err("no directory");
    assert_eq!(error.kind, ErrorKind::Gone, "{error}");
}

#[test]
fn a_server_that_dies_and_comes_back_is_waited_for() {
    let Some(mut server) = Ganesha::start() else { return };
    let bytes = pattern(3, 8 << 20);
    fs::write(server.tree.path().join("file"), &bytes).expect("writes");
    let source = server.source();
    let file = located(&source, "file");
    let read = || {
        let mut buffer = vec![0; bytes.len()];
        assert_eq!(source.read(&file, 0, &mut buffer, &Cancel::new()), Ok(bytes.len()));
        assert!(buffer == bytes);
    };
    read();
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..4).map(|_| scope.spawn(|| (0..30).for_each(|_| read()))).collect();
        for _ in 0..2 {
            std::thread::sleep(Duration::from_millis(30));
            server.order("kill");
            std::thread::sleep(Duration::from_millis(100));
            server.order("start");
        }
        for reader in readers {
            reader.join().expect("reads on");
        }
    });
}

type Ask = fn(&NfsSource, &Location, &Cancel) -> Result<(), Error>;

#[test]
fn a_call_that_waits_ends_when_it_is_cancelled() {
    let Some(mut server) = Ganesha::start() else { return };
    fs::write(server.tree.path().join("file"), "text").expect("writes");
    let source = server.source();
    let file = located(&source, "file");
    server.order("stop");
    let asks: [Ask; 4] = [
        |source, file, cancel| source.attributes(file, cancel).map(drop),
        |source, file, cancel| source.read(file, 0, &mut [0; 10], cancel).map(drop),
        |source, file, cancel| source.read_files(&mut [(file, &mut [0; 10][..])], cancel).remove(0).map(drop),
        |source, _, cancel| source.list(&at(""), cancel, &mut |_| Ok(())),
    ];
    for ask in asks {
        let cancel = Cancel::new();
        let (source, file, other) = (&source, &file, cancel.clone());
        std::thread::scope(|scope| {
            let asking = scope.spawn(move || {
                let outcome = ask(source, file, &other);
                (outcome, Instant::now())
            });
            std::thread::sleep(Duration::from_millis(60));
            let told = Instant::now();
            cancel.cancel();
            let (outcome, ended) = asking.join().expect("ends");
            assert_eq!(outcome.expect_err("cancelled").kind, ErrorKind::Cancelled);
            // 100 ms are promised; the machine may be busy with other tests.
            assert!(ended - told < Duration::from_secs(1), "{:?}", ended - told);
        });
    }
    server.order("continue");
    assert_eq!(source.attributes(&file, &Cancel::new()).expect("is there").size, 4);
}

#[test]
fn what_can_not_be_mounted_is_told() {
    let Some(server) = Ganesha::start() else { return };
    fs::create_dir_all(server.tree.path().join("deep/below")).expect("makes");
    fs::write(server.tree.path().join("deep/below/file"), "text").expect("writes");
    fs::write(server.tree.path().join("deep/closed"), "text").expect("writes");
    fs::set_permissions(server.tree.path().join("deep/closed"), fs::Permissions::from_mode(0o600)).expect("sets");
    let below = server.source_of("/deep/below");
    assert_eq!(listed(&below, &at("")).into_keys().collect::<Vec<_>>(), ["file"]);
    let open = |rest: &str| NfsSource::open(&server.address(rest).parse().expect("an address"), &Cancel::new());
    for rest in ["/deep/absent", "/deep/below/file"] {
        let error = open(rest).err().expect("there is none");
        assert_eq!(error.kind, ErrorKind::Invalid, "{error}");
    }
    // It does not tell what is not there from what is not for this host.
    assert_eq!(open("x").err().expect("there is none").kind, ErrorKind::Denied);
    let user = server.source_of("/deep?uid=1234&gid=1234");
    let error = user.read(&at("closed"), 0, &mut [0; 10], &Cancel::new()).expect_err("may not");
    assert_eq!(error.kind, ErrorKind::Denied, "{error}");
    assert_eq!(user.read(&at("below/file"), 0, &mut [0; 10], &Cancel::new()), Ok(4));
    let given =
        server.address("?mountport=20048&connections=1").replacen(server.tree.path().to_str().expect("text"), "", 1);
    let given = given.replacen('?', &format!(":2049{}?", server.tree.path().display()), 1);
    let source = NfsSource::open(&given.parse().expect("an address"), &Cancel::new()).expect("opens");
    assert_eq!(source.name(), given.split('?').next().expect("a name"));
    let absent = "nfs://127.0.0.1:1/export?mountport=1&timeout=1".parse().expect("an address");
    assert_eq!(NfsSource::open(&absent, &Cancel::new()).err().expect("no server").kind, ErrorKind::Unavailable);
}
