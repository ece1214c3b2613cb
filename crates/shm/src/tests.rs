//! A hostile client, who has the region and writes there what he likes.

use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ishigaki_base::ByteSize;
use ishigaki_device::{AlignedBuffer, Directory, Error, MemoryDirectory, MemorySettings};
use ishigaki_testkit::seeded_runs;
use tempfile::TempDir;

use crate::client::{Link, hear};
use crate::layout::{Greeting, PAYLOAD, SLOTS, states};
use crate::message::{Operation, Request};
use crate::region::Region;
use crate::{Server, ServerSettings, ShmDirectory};

struct Stage {
    server: Server,
    path: PathBuf,
    _folder: TempDir,
}

fn serve(directory: Arc<dyn Directory>) -> Stage {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ring");
    let server = Server::new(UnixListener::bind(&path).unwrap(), directory, &ServerSettings::default()).unwrap();
    Stage { server, path, _folder: folder }
}

/// Memory that does not let anybody take it all.
fn memory() -> Arc<dyn Directory> {
    let settings = MemorySettings { capacity: Some(ByteSize::mib(4)), ..MemorySettings::default() };
    Arc::new(MemoryDirectory::with(settings))
}

/// Connects once whoever was in is finished with.
fn enter(path: &Path) -> ShmDirectory {
    let began = Instant::now();
    loop {
        match ShmDirectory::connect(path) {
            Ok(directory) => return directory,
            Err(Error::Locked { .. }) if began.elapsed() < Duration::from_secs(20) => std::thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    }
}

/// What a client is given.
struct Hostile {
    region: Region,
    bell: OwnedFd,
    _socket: UnixStream,
}

impl Hostile {
    fn connect(path: &Path) -> Self {
        let socket = UnixStream::connect(path).unwrap();
        let (greeting, descriptors) = hear(&socket).unwrap();
        assert_eq!(Greeting::decode(&greeting), Ok(Greeting::Welcome));
        let [region, bell] = <[OwnedFd; 2]>::try_from(descriptors).unwrap();
        Self { region: Region::adopt(region).unwrap(), bell, _socket: socket }
    }

    fn ring(&self) {
        rustix::io::write(&self.bell, &1_u64.to_ne_bytes()).unwrap();
    }
}

#[test]
fn requests_that_make_no_sense_are_refused_and_change_nothing() {
    let memory = memory();
    let stage = serve(memory.clone());
    let link = Link::connect(&stage.path).unwrap();
    let device = memory.create("log", 4096).unwrap();
    let ask = |request: &Request, carried: &[u8]| {
        let claim = link.claim("ring", request.operation).unwrap();
        claim.put(0, carried);
        claim.ask(request).map(|answer| answer.number)
    };
    let open = Request { length: 3, ..Request::new(Operation::Open) };
    let handle = u32::try_from(ask(&open, b"log").unwrap()).unwrap();
    let of = |operation, offset, length, number| Request { operation, handle, offset, length, number };
    let write_all = |table: &[u64]| {
        let mut bytes = vec![7; 512];
        bytes.extend(table.iter().flat_map(|number| number.to_le_bytes()));
        bytes
    };
    let (whole, short) = (write_all(&[0, 512]), write_all(&[0, 256]));
    for (request, carried, words) in [
        (Request { length: PAYLOAD + 1, ..of(Operation::Write, 0, 0, 0) }, &b""[..], "a slot carries"),
        (Request { handle: handle + 1, ..of(Operation::Write, 0, 512, 0) }, b"", "no device is open"),
        (of(Operation::Write, 4096, 512, 0), b"", "past the end"),
        (of(Operation::WriteDurable, u64::MAX - 511, 512, 0), b"", "past the end"),
        (of(Operation::Write, 1, 512, 0), b"", "block size"),
        (of(Operation::Read, 0, 100, 0), b"", "block size"),
        (of(Operation::Trim, 0, 0, u64::MAX), b"", "not a multiple"),
        (of(Operation::WriteAll, 0, whole.len(), 2), &whole, "runs of a write"),
        (of(Operation::WriteAll, 0, whole.len(), u64::MAX), &whole, "runs of a write"),
        (of(Operation::WriteAll, 0, whole.len(), 0), &whole, "runs of a write"),
        (of(Operation::WriteAll, 0, short.len(), 1), &short, "runs of a write"),
        (Request { length: 3, ..Request::new(Operation::Open) }, b"a/b", "ASCII letters"),
        (Request { length: 2, ..Request::new(Operation::Remove) }, b"..", "begin with a dot"),
        (Request { length: 257, ..Request::new(Operation::Remove) }, &[b'a'; 257], "longer than 100"),
        (Request { length: 2, ..Request::new(Operation::Remove) }, &[0xff, 0xff], "no text"),
        (Request { length: 3, ..Request::new(Operation::Rename) }, b"log", "two names"),
        (Request { length: 8, ..Request::new(Operation::Rename) }, b"log\na\nbb", "ASCII letters"),
        (Request { length: 3, number: 1 << 40, ..Request::new(Operation::Create) }, b"big", "no space left"),
    ] {
        let error = ask(&request, carried).unwrap_err().to_string();
        assert!(error.contains(words), "{request:?}: {error}");
    }
    assert_eq!(ask(&of(Operation::WriteAll, 0, whole.len(), 1), &whole).unwrap(), 0);
    let mut bytes = AlignedBuffer::zeroed(4096);
    device.read_at(0, &mut bytes).unwrap();
    assert_eq!((bytes[511], bytes[512], memory.list().unwrap()), (7, 0, vec!["log".to_owned()]));
}

#[test]
fn an_operation_that_there_is_not_is_answered() {
    let stage = serve(memory());
    let hostile = Hostile::connect(&stage.path);
    let mut request = Request::new(Operation::List).encode();
    for (at, value) in [(0, 0), (0, 14), (0, 255), (28, 1)] {
        request[at] = value;
        hostile.region.put_request(0, &request);
        hostile.region.state(0).store(states::ASKED, Ordering::SeqCst);
        hostile.region.posted().store(1, Ordering::SeqCst);
        hostile.ring();
        let began = Instant::now();
        while hostile.region.state(0).load(Ordering::SeqCst) != states::ANSWERED {
            assert!(began.elapsed() < Duration::from_secs(20), "no answer");
            std::thread::yield_now();
        }
        let answer = crate::message::Answer::decode(&hostile.region.answer(0)).unwrap();
        assert_eq!(answer.outcome, crate::message::Outcome::Invalid);
        request = Request::new(Operation::List).encode();
    }
}

#[test]
fn whatever_is_in_the_region_harms_nobody_who_comes_after() {
    seeded_runs("whatever_is_in_the_region_harms_nobody_who_comes_after", 8, |seed| {
        let memory = memory();
        let stage = serve(memory.clone());
        let hostile = Hostile::connect(&stage.path);
        let mut random = seed.generator();
        for _ in 0..3000 {
            let slot = random.usize(..SLOTS);
            let mut request: Vec<u8> = std::iter::repeat_with(|| random.u8(..)).take(32).collect();
            if random.u8(..8) > 0 {
                // Mostly what is nearly a request.
                let sane = Request {
                    operation: Operation::Open,
                    handle: random.u32(..4),
                    offset: random.u64(..10) * 512,
                    length: random.usize(..=PAYLOAD + 1),
                    number: random.u64(..1 << 20),
                };
                request = sane.encode().to_vec();
                request[0] = random.u8(..15);
                if random.bool() {
                    request[24..28].copy_from_slice(&random.u32(..4).to_le_bytes());
                }
            }
            hostile.region.put_request(slot, &request.try_into().unwrap());
            let carried = *random.choice([b"a\nb\nc", b"aaaaa", b"log\n\0", &[255; 5]].iter()).unwrap();
            hostile.region.copy_in(slot, random.usize(..PAYLOAD - 5) * random.usize(..2), carried);
            hostile.region.state(random.usize(..SLOTS)).store(random.u32(..6), Ordering::SeqCst);
            hostile.region.armed().store(random.u32(..3), Ordering::SeqCst);
            hostile.region.posted().fetch_or(random.u64(..), Ordering::SeqCst);
            hostile.region.put_answer(random.usize(..SLOTS), &[random.u8(..); 32]);
            if random.bool() {
                hostile.ring();
            }
        }
        drop(hostile);
        let directory = enter(&stage.path);
        for name in directory.list().unwrap() {
            directory.remove(&name).unwrap();
        }
        let device = directory.create("mine", 4096).unwrap();
        let mut bytes = AlignedBuffer::zeroed(512);
        bytes.fill(9);
        device.write_durable(0, &bytes).unwrap();
        bytes.fill(0);
        memory.open("mine").unwrap().read_at(0, &mut bytes).unwrap();
        assert!(bytes.iter().all(|&byte| byte == 9) && stage.server.is_alive());
    });
}

#[test]
fn the_region_can_not_be_made_shorter_by_who_has_it() {
    let stage = serve(memory());
    let hostile = Hostile::connect(&stage.path);
    rustix::fs::ftruncate(hostile.region.file(), 0).unwrap_err();
    rustix::fs::ftruncate(hostile.region.file(), 1 << 30).unwrap_err();
}
