//! Samba as a source.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use ishigaki_migrate::source::smb::{Address, Credentials, SmbSource};
use ishigaki_migrate::source::{Cancel, Entry, Error, ErrorKind, FileType, Location, Source};
use rustix::fs::{Mode, XattrFlags};

use crate::samba::Samba;

fn at(path: impl AsRef<Path>) -> Location {
    Location { path: path.as_ref().to_owned(), handle: Box::default() }
}

fn listed(source: &dyn Source, directory: &str) -> BTreeMap<OsString, Entry> {
    let mut entries = BTreeMap::new();
    let mut take = |page: Vec<Entry>| {
        for entry in page {
            assert!(entries.insert(entry.name.clone(), entry).is_none(), "a name is given once");
        }
        Ok(())
    };
    source.list(&at(directory), &Cancel::new(), &mut take).expect("lists");
    entries
}

fn pattern(seed: usize, size: usize) -> Vec<u8> {
    (0..size).map(|place| ((place * 31 + seed * 7) >> 3) as u8).collect()
}

fn xattr(path: &Path, name: &str) -> Vec<u8> {
    let mut buffer = vec![0; 65536];
    let size = rustix::fs::getxattr(path, name, &mut buffer[..]).expect("it has one");
    buffer[..size].to_vec()
}

/// The values of extras by their names.
fn marks(source: &SmbSource, path: &str) -> BTreeMap<OsString, Vec<u8>> {
    source.extras(&at(path), &Cancel::new()).expect("reads").attributes.into_iter().collect()
}

#[test]
fn every_object_says_what_the_kernel_says_there() {
    let Some(server) = Samba::start() else { return };
    let path = |name: &str| server.tree.path().join(name);
    fs::write(path("file"), "text").expect("writes");
    fs::hard_link(path("file"), path("second")).expect("links");
    let time = SystemTime::UNIX_EPOCH + Duration::new(1_000_000_000, 123_456_700);
    File::open(path("file")).expect("opens").set_modified(time).expect("sets the time");
    fs::create_dir(path("directory")).expect("makes");
    fs::write(path("directory/inside"), "in").expect("writes");
    fs::write(path("read-only"), "r").expect("writes");
    server.client("smbclient", &[&server.share("share"), "-c", "setmode read-only +r; setmode second +h"]);
    for name in ["\u{e4}\u{1f600}", "Case", "case", "CASE", &"\u{e4}".repeat(120), &"n".repeat(255), "a b~'#&%"] {
        fs::write(path(name), name).expect("writes");
    }

    let source = server.source();
    let (root, of_root) = source.root(&Cancel::new()).expect("has a root");
    assert_eq!((of_root.file_type, of_root.mode), (FileType::Directory, 0o700));
    assert_eq!(root.path, PathBuf::new());
    let entries = listed(&source, "");
    assert_eq!(entries.len(), 11, "{entries:?}");
    for (name, entry) in &entries {
        let told = entry.attributes.expect("has attributes");
        let real = fs::metadata(path(name.to_str().expect("text"))).expect("has metadata");
        assert_eq!(told.file_type == FileType::Directory, real.is_dir(), "{name:?}");
        let times = (told.modified.seconds, i64::from(told.modified.nanos));
        assert_eq!(times, (real.mtime(), real.mtime_nsec() / 100 * 100), "{name:?}");
        assert!(told.created.is_some());
        let asked = source.attributes(&at(name), &Cancel::new()).expect("is there");
        assert_eq!((asked.stamp(), asked.mode, asked.created), (told.stamp(), told.mode, told.created), "{name:?}");
        // Reading moves times of access, of which Samba makes the time of making where it has stored none.
        if real.is_file() {
            assert_eq!((told.size, u64::from(told.links)), (real.size(), real.nlink()), "{name:?}");
            let mut buffer = [0; 300];
            let size = source.read(&at(name), 0, &mut buffer, &Cancel::new()).expect("reads");
            assert!(fs::read(path(name.to_str().expect("text"))).expect("reads") == buffer[..size], "{name:?}");
        }
    }
    let told = |name: &str| entries[Path::new(name).as_os_str()].attributes.expect("told");
    assert_eq!(told("file").modified.nanos, 123_456_700);
    assert_eq!(told("file").id, told("second").id, "two names of one file");
    assert_ne!(told("file").id, told("case").id);
    assert_eq!((told("read-only").mode, told("case").mode), (0o400, 0o600));
    assert_eq!(listed(&source, "directory").into_keys().collect::<Vec<_>>(), ["inside"]);
    // What Samba has stored at the source is what a Samba finds at the destination.
    assert_eq!(marks(&source, "second")[Path::new("user.DOSATTRIB").as_os_str()][12], 2, "hidden");
    for name in ["second", "read-only"] {
        let mine = &marks(&source, name)[Path::new("user.DOSATTRIB").as_os_str()];
        assert_eq!(mine, &xattr(&path(name), "user.DOSATTRIB"), "{name}");
    }
}

#[test]
fn a_name_that_windows_can_not_have_is_read_by_the_name_that_the_server_gives_it() {
    let Some(server) = Samba::start() else { return };
    for name in [&b"a:b"[..], b"end.", b"que?ry", b"back\\slash"] {
        fs::write(server.tree.path().join(OsString::from_vec(name.to_vec())), name).expect("writes");
    }
    let source = server.source();
    let entries = listed(&source, "");
    assert_eq!(entries.len(), 4, "{entries:?}");
    let mut read: Vec<Vec<u8>> = Vec::new();
    for name in entries.keys() {
        let mut buffer = [0; 20];
        let size = source.read(&at(name), 0, &mut buffer, &Cancel::new()).expect("reads");
        read.push(buffer[..size].to_vec());
    }
    read.sort();
    assert_eq!(read, [&b"a:b"[..], b"back\\slash", b"end.", b"que?ry"]);
    // A colon would name a stream of the file before it.
    for (name, kind) in [("a:b", ErrorKind::Invalid), ("back\\slash", ErrorKind::Invalid), ("absent", ErrorKind::Gone)]
    {
        assert_eq!(source.attributes(&at(name), &Cancel::new()).expect_err("none").kind, kind, "{name}");
    }
}

/// Connections to a server that is a round trip away.
fn distant(server: SocketAddr, round_trip: Duration) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("listens");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let Ok(server) = TcpStream::connect(server) else { continue };
            let clones = [&client, &server].map(|stream| stream.try_clone().expect("clones"));
            let [back, forth] = clones;
            for (from, to) in [(client, forth), (server, back)] {
                to.set_nodelay(true).expect("sets");
                delay(from, to, round_trip / 2);
            }
        }
    });
    address
}

/// Brings bytes from one stream to the other, each so much later.
fn delay(mut from: TcpStream, mut to: TcpStream, time: Duration) {
    let (sender, receiver) = mpsc::channel::<(Instant, Vec<u8>)>();
    thread::spawn(move || {
        let mut bytes = vec![0; 64 << 10];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            if sender.send((Instant::now() + time, bytes[..count].to_vec())).is_err() {
                return;
            }
        }
    });
    thread::spawn(move || {
        for (when, bytes) in receiver {
            thread::sleep(when.saturating_duration_since(Instant::now()));
            if to.write_all(&bytes).is_err() {
                return;
            }
        }
    });
}

#[test]
fn lists_and_targets_of_many_objects_come_together_as_they_come_one_by_one() {
    let Some(server) = Samba::start() else { return };
    for number in 0..200 {
        fs::write(server.tree.path().join(format!("file-{number}")), "text").expect("writes");
    }
    fs::create_dir(server.tree.path().join("directory")).expect("makes");
    let names =
        (0..200).map(|number| format!("file-{number}")).chain(["directory", "absent", "a:b"].map(str::to_owned));
    let locations: Vec<_> = names.map(at).collect();
    let objects: Vec<_> = locations.iter().map(|location| (location, FileType::Regular)).collect();
    let near = server.source();
    let address = server.address("share").parse::<Address>().expect("an address");
    let found = (address.host.as_str(), address.port).to_socket_addrs().expect("an address").next();
    let round_trip = Duration::from_millis(50);
    let far = distant(found.expect("one"), round_trip);
    let address = format!("smb://{far}/share").parse().expect("an address");
    let source = SmbSource::open(&address, &Samba::credentials("root"), &Cancel::new()).expect("opens");
    let began = Instant::now();
    let told = source.extras_of(&objects, &Cancel::new());
    let took = began.elapsed();
    assert!(took < round_trip * 60, "{took:?}: 203 objects, one after the other, would take {:?}", round_trip * 203);
    assert_eq!(told.len(), objects.len());
    for ((location, _), told) in objects.iter().zip(told) {
        match (near.extras(location, &Cancel::new()), told) {
            (Ok(alone), Ok(told)) => assert_eq!(alone, told, "{location:?}"),
            (Err(alone), Err(told)) => assert_eq!(alone.kind, told.kind, "{location:?}"),
            other => panic!("{location:?}: {other:?}"),
        }
    }
}

#[test]
fn a_large_directory_streams_in_pages() {
    let Some(server) = Samba::start() else { return };
    let count = 1000;
    let make = |name: &str, count: usize| {
        fs::create_dir(server.tree.path().join(name)).expect("makes");
        let directory = File::open(server.tree.path().join(name)).expect("opens");
        for number in 0..count {
            let name = format!("{number:0100}");
            rustix::fs::mknodat(&directory, name, rustix::fs::FileType::RegularFile, Mode::RUSR, 0).expect("makes");
        }
    };
    make("some", count);
    make("many", 5 * count);
    assert_eq!(listed(&server.source(), "some").len(), count);
    let source = server.source_of("share?links=no");
    let mut pages = Vec::new();
    source
        .list(&at("many"), &Cancel::new(), &mut |page| {
            pages.push(page.len());
            Ok(())
        })
        .expect("lists");
    assert!(pages.iter().sum::<usize>() == 5 * count && pages.len() > 1, "{pages:?}");
    let stop = Error::new(ErrorKind::Denied, "enough");
    let mut asked = 0;
    let ended = source.list(&at("many"), &Cancel::new(), &mut |_| {
        asked += 1;
        Err(stop.clone())
    });
    assert_eq!((ended, asked), (Err(stop), 1));
    let error = source.list(&at("some/absent"), &Cancel::new(), &mut |_| Ok(())).expect_err("none");
    assert_eq!(error.kind, ErrorKind::Gone, "{error}");
}

/// Reads a file of 20 MB in pieces, and 301 files at a time.
fn bytes_arrive(server: &Samba, source: &SmbSource) {
    let large = pattern(1, 20_000_000);
    fs::write(server.tree.path().join("large"), &large).expect("writes");
    let sizes = [0, 1, 4095, 4096, 70_000, 3_000_000];
    for number in 0..300 {
        let path = server.tree.path().join(number.to_string());
        fs::write(path, pattern(number, sizes[number % sizes.len()])).expect("writes");
    }
    let mut buffer = vec![0; 21_000_000];
    let cancel = Cancel::new();
    let file = at("large");
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
    let mut locations: Vec<_> = (0..300).map(|number| at(number.to_string())).collect();
    locations.push(at("absent"));
    locations.push(at("large/below"));
    let mut buffers = vec![vec![0xee; 3_000_000]; locations.len()];
    let mut asked: Vec<_> = locations.iter().zip(buffers.iter_mut().map(Vec::as_mut_slice)).collect();
    // Some fit into one request, some just so, and some do not.
    for (number, (_, buffer)) in asked.iter_mut().enumerate() {
        let size = if number % 2 == 0 { buffer.len() } else { sizes[number % sizes.len()] };
        *buffer = &mut std::mem::take(buffer)[..size];
    }
    let results = source.read_files_told(&mut asked, &cancel);
    for (number, result) in results.into_iter().enumerate().take(300) {
        let expected = pattern(number, sizes[number % sizes.len()]);
        let (size, told) = result.expect("reads");
        assert!(buffers[number][..size] == expected, "{number}: {size}");
        assert!(told.is_none_or(|told| told.size == size as u64 && told.links == 1), "{number}");
    }
    let (size, told) = source.read_told(&file, 0, &mut buffer, &cancel).expect("reads");
    assert_eq!((size as u64, told), (large.len() as u64, Some(source.attributes(&file, &cancel).expect("told"))));
    for absent in [at("absent"), at("large/below"), at("")] {
        assert_eq!(source.read(&absent, 0, &mut buffer, &cancel).expect_err("none").kind, ErrorKind::Gone);
    }
}

#[test]
fn bytes_arrive_as_they_are() {
    let Some(server) = Samba::start() else { return };
    bytes_arrive(&server, &server.source());
}

/// What Windows had before SMB 3.1.1.
const OLDER: &str =
    "server smb3 signing algorithms = hmac-sha256, aes-128-cmac\nserver smb3 encryption algorithms = aes-128-ccm";

#[test]
fn every_dialect_is_spoken_signed_and_encrypted() {
    for (dialect, encrypts) in [("SMB2_10", false), ("SMB3_00", true), ("SMB3_02", true), ("SMB3_11", true)] {
        for more in [OLDER, ""] {
            let settings = format!("server max protocol = {dialect}\nserver signing = mandatory\n{more}");
            let Some(server) = Samba::start_with(&settings) else { return };
            fs::write(server.tree.path().join("file"), pattern(5, 3_000_000)).expect("writes");
            let read = |source: SmbSource| {
                let mut buffer = vec![0; 3_000_000];
                assert_eq!(source.read(&at("file"), 0, &mut buffer, &Cancel::new()), Ok(buffer.len()), "{settings}");
                assert!(buffer == pattern(5, 3_000_000), "{settings}");
            };
            read(server.source());
            let open = |rest: &str| {
                let address = server.address(rest).parse().expect("an address");
                SmbSource::open(&address, &Samba::credentials("root"), &Cancel::new())
            };
            for rest in ["sealed", "share?encrypt=yes"] {
                match open(rest) {
                    Ok(source) => read(source),
                    Err(error) => assert!(!encrypts && error.kind != ErrorKind::Unavailable, "{settings}: {error}"),
                }
            }
        }
    }
    let Some(server) = Samba::start_with("server smb3 encryption algorithms = aes-256-gcm") else { return };
    bytes_arrive(&server, &server.source_of("sealed"));
}

#[test]
fn a_server_that_dies_and_comes_back_is_waited_for() {
    let Some(mut server) = Samba::start() else { return };
    let bytes = pattern(3, 8 << 20);
    fs::write(server.tree.path().join("file"), &bytes).expect("writes");
    for number in 0..200 {
        fs::write(server.tree.path().join(number.to_string()), "x").expect("writes");
    }
    let source = server.source();
    let read = || {
        let mut buffer = vec![0; bytes.len()];
        assert_eq!(source.read(&at("file"), 0, &mut buffer, &Cancel::new()), Ok(bytes.len()));
        assert!(buffer == bytes);
        assert_eq!(listed(&source, "").len(), 201);
    };
    read();
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..4).map(|_| scope.spawn(|| (0..20).for_each(|_| read()))).collect();
        for _ in 0..2 {
            std::thread::sleep(Duration::from_millis(50));
            server.order("kill");
            std::thread::sleep(Duration::from_millis(100));
            server.order("start");
        }
        for reader in readers {
            reader.join().expect("reads on");
        }
    });
}

type Ask = fn(&SmbSource, &Location, &Cancel) -> Result<(), Error>;

#[test]
fn a_call_that_waits_ends_when_it_is_cancelled() {
    let Some(mut server) = Samba::start() else { return };
    fs::write(server.tree.path().join("file"), "text").expect("writes");
    let source = server.source();
    server.order("stop");
    let asks: [Ask; 4] = [
        |source, file, cancel| source.attributes(file, cancel).map(drop),
        |source, file, cancel| source.read(file, 0, &mut [0; 10], cancel).map(drop),
        |source, file, cancel| source.read_files(&mut [(file, &mut [0; 10][..])], cancel).remove(0).map(drop),
        |source, _, cancel| source.list(&at(""), cancel, &mut |_| Ok(())),
    ];
    for ask in asks {
        let cancel = Cancel::new();
        let (source, other) = (&source, cancel.clone());
        std::thread::scope(|scope| {
            let asking = scope.spawn(move || {
                let outcome = ask(source, &at("file"), &other);
                (outcome, Instant::now())
            });
            std::thread::sleep(Duration::from_millis(60));
            let told = Instant::now();
            cancel.cancel();
            let (outcome, ended) = asking.join().expect("ends");
            assert_eq!(outcome.expect_err("cancelled").kind, ErrorKind::Cancelled);
            // 100 ms are promised; the machine may be busy with other tests.
            assert!(ended - told < Duration::from_secs(2), "{:?}", ended - told);
        });
    }
    server.order("continue");
    assert_eq!(source.attributes(&at("file"), &Cancel::new()).expect("is there").size, 4);
}

#[test]
fn what_can_not_be_opened_is_told() {
    let Some(server) = Samba::start() else { return };
    fs::create_dir_all(server.tree.path().join("deep/below")).expect("makes");
    fs::write(server.tree.path().join("deep/below/file"), "text").expect("writes");
    fs::write(server.tree.path().join("deep/closed"), "text").expect("writes");
    fs::set_permissions(server.tree.path().join("deep/closed"), fs::Permissions::from_mode(0o600)).expect("sets");
    assert_eq!(listed(&server.source_of("share/deep/below"), "").into_keys().collect::<Vec<_>>(), ["file"]);
    let open = |rest: &str, credentials: &Credentials| {
        SmbSource::open(&server.address(rest).parse().expect("an address"), credentials, &Cancel::new())
    };
    let refused = |rest: &str, credentials: &Credentials| open(rest, credentials).err().expect("it is refused");
    let root = Samba::credentials("root");
    for rest in ["absent", "share/absent", "share/deep/below/file", "share/deep/below/file/x"] {
        let error = refused(rest, &root);
        assert_eq!(error.kind, ErrorKind::Invalid, "{error}");
    }
    let wrong = Credentials { password: "wrong".into(), ..root.clone() };
    let unknown = Credentials { user: "absent".into(), ..root };
    for credentials in [wrong, unknown] {
        let error = refused("share", &credentials);
        assert!(error.kind == ErrorKind::Invalid && error.message.contains("password"), "{error}");
    }
    assert_eq!(refused("share", &Credentials::guest()).kind, ErrorKind::Denied);
    assert_eq!(refused("sealed", &Credentials::guest()).kind, ErrorKind::Denied);
    assert_eq!(refused("open?encrypt=yes", &Credentials::guest()).kind, ErrorKind::Invalid);
    for source in [open("open/deep", &Credentials::guest()), open("share/deep", &Samba::credentials("nobody"))] {
        let source = source.expect("opens");
        let mut buffer = [0; 10];
        assert_eq!(source.read(&at("below/file"), 0, &mut buffer, &Cancel::new()), Ok(4));
        let error = source.read(&at("closed"), 0, &mut buffer, &Cancel::new()).expect_err("may not");
        assert_eq!(error.kind, ErrorKind::Denied, "{error}");
        assert_eq!(listed(&source, "").len(), 2);
    }
    let absent = "smb://127.0.0.1:1/share?timeout=1".parse().expect("an address");
    let error = SmbSource::open(&absent, &Credentials::guest(), &Cancel::new()).err().expect("no server");
    assert_eq!(error.kind, ErrorKind::Unavailable, "{error}");
}

#[test]
fn a_guest_is_not_taken_for_an_account() {
    let Some(server) = Samba::start_with("map to guest = Bad User") else { return };
    let address = server.address("open").parse().expect("an address");
    let unknown = Credentials { user: "absent".into(), ..Samba::credentials("root") };
    let error = SmbSource::open(&address, &unknown, &Cancel::new()).err().expect("refused");
    assert!(error.kind == ErrorKind::Invalid && error.message.contains("guest"), "{error}");
}

#[test]
fn access_lists_and_attributes_are_the_same_in_samba_at_the_destination() {
    let Some(server) = Samba::start() else { return };
    fs::create_dir_all(server.tree.path().join("directory/inner")).expect("makes");
    for name in ["file", "directory/file", "directory/inner/file"] {
        fs::write(server.tree.path().join(name), name).expect("writes");
    }
    let set = |name: &str, words: &[&str]| {
        server.client("smbcacls", &[&[&*server.share("share"), name], words].concat());
    };
    set("file", &["--add", "ACL:S-1-5-21-1-2-3-1001:ALLOWED/0x0/READ"]);
    set("file", &["--add", "ACL:S-1-5-7:DENIED/0x0/W"]);
    set("directory", &["-I", "copy"]);
    set("directory", &["--add", "ACL:S-1-5-21-1-2-3-1002:ALLOWED/OI|CI/CHANGE"]);
    set("directory/inner", &["--chown", "S-1-5-32-544"]);
    server.client(
        "smbclient",
        &[&server.share("share"), "-c", "setmode file +hs; setmode directory +h; setmode directory/file -a"],
    );
    let names = ["directory", "directory/inner", "directory/inner/file", "directory/file", "file"];
    let source = server.source();
    for name in names {
        let (from, to) = (server.tree.path().join(name), server.copy.path().join(name));
        if from.is_dir() { fs::create_dir(&to) } else { fs::copy(&from, &to).map(drop) }.expect("copies");
    }
    for name in names {
        let marks = marks(&source, name);
        assert_eq!(marks.len(), 2, "{marks:?}");
        for (key, value) in marks {
            rustix::fs::setxattr(server.copy.path().join(name), key, &value, XattrFlags::empty()).expect("sets");
        }
    }
    let mut seen = Vec::new();
    for name in names {
        let ask = |share: &str| server.client("smbcacls", &[&server.share(share), name, "--numeric"]);
        let (there, here) = (ask("share"), ask("copy"));
        assert_eq!(there, here, "{name}");
        seen.push(here);
        let about = |share: &str| {
            let said = server.client("smbclient", &[&server.share(share), "-c", &format!("allinfo {name}")]);
            let of_source = |line: &&str| line.starts_with("create_time") || line.starts_with("attributes");
            said.lines().filter(of_source).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(about("share"), about("copy"), "{name}");
        assert_eq!(about("copy").len(), 2);
    }
    assert!(seen[4].contains("S-1-5-21-1-2-3-1001") && seen[4].contains("S-1-5-7:1/"), "{}", seen[4]);
    assert!(seen[0].contains("S-1-5-21-1-2-3-1002") && seen[1].contains("OWNER:S-1-5-32-544"), "{seen:?}");
}
