//! Clients that mean harm: none gets at what is outside of the folder, nor makes a node fail others.
//!
//! They speak the fabric's protocol well and send it what they like; the bytes of requests are those of
//! `docs/format/remote.md`.

#[allow(dead_code, reason = "shared by several tests")]
mod kit;

use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use ishigaki_device::{
    AlignedBuffer, Device, Directory, DirectoryLock, Error, FileDirectory, MemoryDirectory, Promise,
};
use ishigaki_fabric::{
    Answer, Call, Caller, Endpoint, Event, Fabric, Outgoing, RegionKey, Security, Settings, Wait, connect,
};
use ishigaki_remote::{Export, Mode, NodeSettings};
use ishigaki_testkit::seeded;

use kit::{MODES, Place, full, node, read, settings};

/// The first byte of an answer that is a failure.
const FAILED: u8 = 255;

fn endpoint(place: &Place) -> Arc<dyn Endpoint> {
    connect(&place.node.address().to_string(), &Settings::default(), &Security::Open).expect("connected")
}

fn caller(place: &Place) -> Arc<Caller> {
    Caller::new(endpoint(place), Duration::from_secs(10))
}

/// The answer to a message, as bytes.
fn ask(caller: &Arc<Caller>, message: &[u8]) -> Result<Vec<u8>, ishigaki_fabric::Error> {
    match caller.call(&Call::message(message))? {
        Answer::Message(message) => Ok(message.to_vec()),
        Answer::Written(length) => panic!("{length} bytes that nobody wanted"),
    }
}

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u16).to_le_bytes(), text.as_bytes()].concat()
}

fn open(directory: &str, name: &str) -> Vec<u8> {
    [&[2][..], &text(directory), &text(name)].concat()
}

fn read_request(handle: u32, offset: u64, length: u32, key: RegionKey, at: u64) -> Vec<u8> {
    [&[4][..], &handle.to_le_bytes(), &offset.to_le_bytes(), &length.to_le_bytes(), &key.0, &at.to_le_bytes()].concat()
}

/// Opens the file `pages` and returns its handle.
fn handle(caller: &Arc<Caller>) -> u32 {
    let answer = ask(caller, &open("", "pages")).expect("answered");
    assert_eq!(answer[0], 2);
    u32::from_le_bytes(answer[1..5].try_into().expect("a handle"))
}

/// Others are served as before.
fn serves(place: &Place) {
    let device = place.client().directory("").open("pages").expect("opened");
    assert_eq!(read(device.as_ref(), 0, 4096)[..], [7; 4096]);
}

fn with_pages(mode: Mode) -> Place {
    let place = Place::new(mode);
    let device = place.client().directory("").create("pages", 65536).expect("created");
    device.write_durable(0, &full(65536, 7)).expect("written");
    place
}

#[test]
fn no_name_leads_out_of_the_folder() {
    for mode in MODES {
        let place = with_pages(mode);
        let outside = tempfile::tempdir().expect("a folder");
        FileDirectory::open(outside.path()).and_then(|directory| directory.create("secret", 4096)).expect("created");
        let secret = outside.path().join("secret").display().to_string();
        let outside_path = outside.path().display().to_string();
        symlink(&secret, place.path().join("link")).expect("linked");
        symlink(outside.path(), place.path().join("way")).expect("linked");
        std::fs::create_dir(place.path().join("folder")).expect("made");
        let ways = [
            ("", "folder"),
            ("way", "secret"),
            ("folder/../way", "secret"),
            ("..", "secret"),
            ("", "../secret"),
            ("", &secret),
            (&outside_path, "secret"),
            ("folder/..", "pages"),
            ("", "."),
            ("", ""),
            ("", "LOCK"),
            ("\0", "secret"),
            ("way", "more"),
            ("", "link"),
            ("", "way"),
        ];
        // Opens, creates, removes.
        for kind in [2, 11, 14] {
            for (directory, name) in ways {
                let mut message = open(directory, name);
                message[0] = kind;
                if kind == 11 {
                    message.extend_from_slice(&4096_u64.to_le_bytes());
                }
                let answer = ask(&caller(&place), &message).expect("answered");
                // A link may be removed as long as it is the link.
                let is_link = kind == 14 && directory.is_empty() && matches!(name, "link" | "way");
                assert!(answer[0] == FAILED || is_link, "{mode}: {kind} {directory:?} {name:?}");
            }
        }
        assert!(outside.path().join("secret").exists());
        assert_eq!(std::fs::read_dir(outside.path()).expect("a folder").count(), 1);
        serves(&place);
    }
}

#[test]
fn requests_that_make_no_sense_get_their_reason_and_no_bytes() {
    for mode in MODES {
        let place = with_pages(mode);
        let caller = caller(&place);
        let region = caller.endpoint().register(AlignedBuffer::zeroed(4096)).expect("registered");
        let handle = handle(&caller);
        let requests = [
            read_request(handle + 1, 0, 4096, region.key(), 0),
            read_request(handle, 1, 4096, region.key(), 0),
            read_request(handle, 65536, 4096, region.key(), 0),
            read_request(handle, u64::MAX - 4095, 4096, region.key(), 0),
            read_request(handle, 0, u32::MAX, region.key(), 0),
            read_request(handle, 0, (1 << 20) + 512, region.key(), 0),
            read_request(handle, 0, 100, region.key(), 0),
            [&[5][..], &u32::MAX.to_le_bytes(), &region.key().0, &[0; 8]].concat(),
            // A write from a slot that is too short, and from one that there is not.
            [&[7][..], &handle.to_le_bytes(), &[0; 8], &(1_u32 << 20).to_le_bytes(), &[0, 0, 0]].concat(),
            [&[7][..], &handle.to_le_bytes(), &[0; 8], &4096_u32.to_le_bytes(), &[99, 0, 0]].concat(),
            // A lock that nobody has, a watch that there is not.
            [&[19][..], &handle.to_le_bytes(), &77_u64.to_le_bytes()].concat(),
            [&[20][..], &77_u64.to_le_bytes()].concat(),
            // More zeros than any medium has.
            [&[11][..], &text(""), &text("huge"), &u64::MAX.to_le_bytes()].concat(),
        ];
        for request in requests {
            let answer = ask(&caller, &request).expect("the connection is good");
            assert_eq!(answer[0], FAILED, "{mode}: {request:?}");
        }
        assert!(region.memory().expect("it is there").iter().all(|&byte| byte == 0));
        serves(&place);
    }
}

#[test]
fn messages_that_are_none_end_their_connection_alone() {
    for mode in MODES {
        let place = with_pages(mode);
        seeded("messages_that_are_none_end_their_connection_alone", |seed| {
            for run in 0..30 {
                let mut random = seed.derive(run).generator();
                let message: Vec<u8> = match run {
                    0 => vec![],
                    1 => vec![0],
                    2 => vec![99],
                    3 => open("", &"x".repeat(101)),
                    4 => open(&"d/".repeat(520), "x"),
                    5 => [&open("", "pages")[..], &[0]].concat(),
                    _ => (0..random.usize(1..100)).map(|_| random.u8(..)).collect(),
                };
                let caller = Caller::new(endpoint(&place), Duration::from_secs(5));
                let outcome = caller.call(&Call::message(&message));
                assert!(run > 5 || outcome.is_err(), "{mode}: {message:?}");
            }
        });
        serves(&place);
    }
}

#[test]
fn bytes_go_nowhere_without_the_right_key() {
    for mode in MODES {
        let place = with_pages(mode);
        let (one, other) = (caller(&place), caller(&place));
        let staging = ask(&one, &[6]).expect("answered");
        let key = RegionKey(staging[3..19].try_into().expect("a key"));
        // Another connection knows the key, and may not use it.
        let bytes = [9; 4096];
        let target = ishigaki_fabric::Target { key, offset: 0 };
        let call = Call { before: Some((target, &bytes)), ..Call::message(&[1]) };
        assert!(other.call(&call).is_err(), "cut off");
        let handle = handle(&one);
        let write = [&[7][..], &handle.to_le_bytes(), &[0; 8], &4096_u32.to_le_bytes(), &[0, 0, 1]].concat();
        assert_eq!(ask(&one, &write).expect("answered"), [0]);
        let device = place.client().directory("").open("pages").expect("opened");
        assert_eq!(read(device.as_ref(), 0, 4096)[..], [0; 4096], "the slot was empty");
        // Bytes beyond a slot.
        let call =
            Call { before: Some((ishigaki_fabric::Target { key, offset: 128 << 10 }, &bytes)), ..Call::message(&[1]) };
        assert!(one.call(&call).is_err(), "cut off");
    }
}

/// Memory whose writes wait until they are let go on.
#[derive(Debug)]
struct Gate {
    memory: MemoryDirectory,
    waiting: Arc<Barrier>,
}

#[derive(Debug)]
struct GatedDevice {
    memory: Arc<dyn Device>,
    waiting: Arc<Barrier>,
}

impl Device for GatedDevice {
    fn promise(&self) -> Promise {
        self.memory.promise()
    }

    fn len(&self) -> u64 {
        self.memory.len()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
        self.memory.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        // Once to say that it is here, once to be let go on.
        self.waiting.wait();
        self.waiting.wait();
        self.memory.write_at(offset, bytes)
    }

    fn sync(&self) -> Result<(), Error> {
        self.memory.sync()
    }

    fn trim(&self, offset: u64, length: u64) -> Result<(), Error> {
        self.memory.trim(offset, length)
    }
}

impl Directory for Gate {
    fn create(&self, name: &str, length: u64) -> Result<Arc<dyn Device>, Error> {
        self.memory.create(name, length)
    }

    fn open(&self, name: &str) -> Result<Arc<dyn Device>, Error> {
        Ok(Arc::new(GatedDevice { memory: self.memory.open(name)?, waiting: Arc::clone(&self.waiting) }))
    }

    fn list(&self) -> Result<Vec<String>, Error> {
        self.memory.list()
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), Error> {
        self.memory.rename(from, to)
    }

    fn remove(&self, name: &str) -> Result<(), Error> {
        self.memory.remove(name)
    }

    fn sync(&self) -> Result<(), Error> {
        self.memory.sync()
    }

    fn lock(&self) -> Result<DirectoryLock, Error> {
        self.memory.lock()
    }
}

#[test]
fn bytes_that_are_being_written_can_not_be_changed_any_more() {
    for mode in MODES {
        let waiting = Arc::new(Barrier::new(2));
        let gate = Arc::new(Gate { memory: MemoryDirectory::new(), waiting: Arc::clone(&waiting) });
        let pages = gate.create("pages", 65536).expect("created");
        let node = node(&Export::Directory(gate.clone()), settings(mode));
        let place = Place { fabric: Fabric::Tcp, folder: tempfile::tempdir().expect("a folder"), node };
        let caller = caller(&place);
        let handle = handle(&caller);
        let staging = ask(&caller, &[6]).expect("answered");
        let target = ishigaki_fabric::Target { key: RegionKey(staging[3..19].try_into().expect("a key")), offset: 0 };
        let write = [&[7][..], &handle.to_le_bytes(), &[0; 8], &4096_u32.to_le_bytes(), &[0, 0, 0]].concat();
        let pending = caller.submit(&[Call { before: Some((target, &[1; 4096])), ..Call::message(&write) }]);
        waiting.wait();
        // The node is at it; now the same slot once more.
        let other = Outgoing::Write { id: 9, target, bytes: &[2; 4096], completes: None };
        caller.endpoint().send(&[other]).expect("sent");
        assert!(caller.call(&Call::message(&[1])).is_err(), "{mode}: cut off");
        waiting.wait();
        drop((pending, place));
        assert_eq!(read(pages.as_ref(), 0, 4096)[..], [1; 4096], "{mode}");
    }
}

#[test]
fn a_client_that_does_not_read_is_given_up_and_the_others_are_served() {
    for mode in MODES {
        let folder = tempfile::tempdir().expect("a folder");
        let fabric = Settings { stall: Duration::from_millis(300), ..Settings::default() };
        let settings = NodeSettings { fabric, ..settings(mode) };
        let node = node(&Export::Folder(folder.path().to_owned()), settings);
        let place = Place { fabric: Fabric::Tcp, folder, node };
        let device = place.client().directory("").create("pages", 1 << 20).expect("created");
        device.write_durable(0, &full(1 << 20, 7)).expect("written");
        drop(device);
        let (stalled, caller) = (endpoint(&place), caller(&place));
        drop(caller);
        stalled.send(&[Outgoing::Request { id: 0, bytes: &open("", "pages") }]).expect("sent");
        let mut events = Vec::new();
        stalled.receive(&mut events, Wait::Until(Instant::now() + Duration::from_secs(5))).expect("received");
        let Some(Event::Reply { bytes, .. }) = events.pop() else { panic!("a reply") };
        let handle = u32::from_le_bytes(bytes[1..5].try_into().expect("a handle"));
        let region = stalled.register(AlignedBuffer::zeroed(1 << 20)).expect("registered");
        let request = read_request(handle, 0, 1 << 20, region.key(), 0);
        let batch: Vec<_> = (1..100).map(|id| Outgoing::Request { id, bytes: &request }).collect();
        stalled.send(&batch).expect("sent");
        let deadline = Instant::now() + Duration::from_secs(10);
        serves(&place);
        while place.node.status().connections > 0 {
            assert!(Instant::now() < deadline, "{mode}: it is still there");
            std::thread::sleep(Duration::from_millis(10));
        }
        serves(&place);
    }
}

#[test]
fn connections_that_come_and_go_leave_nothing_behind() {
    for mode in MODES {
        let place = with_pages(mode);
        let descriptors = || std::fs::read_dir("/proc/self/fd").expect("a folder").count();
        let before = descriptors();
        for turn in 0..700 {
            match turn % 3 {
                0 => drop(TcpStream::connect(place.node.address()).expect("connected")),
                1 => drop(endpoint(&place)),
                _ => {
                    // Goes in the middle of a read.
                    let caller = caller(&place);
                    let handle = handle(&caller);
                    let region = caller.endpoint().register(AlignedBuffer::zeroed(4096)).expect("registered");
                    let request = read_request(handle, 0, 4096, region.key(), 0);
                    drop(caller.submit(&[Call::message(&request)]));
                }
            }
        }
        let deadline = Instant::now() + Duration::from_secs(10);
        while place.node.status().connections > 0 || descriptors() > before + 5 {
            assert!(Instant::now() < deadline, "{mode}: {} of {before} descriptors", descriptors());
            std::thread::sleep(Duration::from_millis(10));
        }
        serves(&place);
    }
}

#[test]
fn there_are_no_more_connections_than_may_be() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = NodeSettings { connections: 3, ..settings(Mode::Ring) };
    let node = node(&Export::Folder(folder.path().to_owned()), settings);
    let place = Place { fabric: Fabric::Tcp, folder, node };
    let _kept: Vec<_> = (0..3).map(|_| place.client()).collect();
    let outcome = connect(&place.node.address().to_string(), &Settings::default(), &Security::Open);
    let error = outcome.expect_err("there is no room").to_string();
    assert!(error.contains("as many connections as it takes"), "{error}");
}
