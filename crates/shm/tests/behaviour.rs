//! A directory used over a ring, by threads and by who comes after them.

use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ishigaki_base::ErrorKind;
use ishigaki_base::random::Seed;
use ishigaki_device::{
    AlignedBuffer, Device, Directory, DirectoryLock, Error, Fault, MemoryDirectory, Promise, Result, SimDirectory,
};
use ishigaki_shm::{PAYLOAD, SLOTS, Server, ServerSettings, ShmDirectory};
use parking_lot::{Condvar, Mutex};
use tempfile::TempDir;

struct Stage {
    path: PathBuf,
    _folder: TempDir,
}

fn stage() -> Stage {
    let folder = tempfile::tempdir().unwrap();
    Stage { path: folder.path().join("ring"), _folder: folder }
}

fn serve(path: &Path, directory: Arc<dyn Directory>) -> Server {
    let _ = std::fs::remove_file(path);
    Server::new(UnixListener::bind(path).unwrap(), directory, &ServerSettings::default()).unwrap()
}

fn filled(length: usize, byte: u8) -> AlignedBuffer {
    let mut bytes = AlignedBuffer::zeroed(length);
    bytes.fill(byte);
    bytes
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::yield_now();
    }
}

#[test]
fn everything_that_a_directory_can_do_is_done_at_the_other_side() {
    let (stage, memory) = (stage(), MemoryDirectory::new());
    let _server = serve(&stage.path, Arc::new(memory.clone()));
    let directory = ShmDirectory::connect(&stage.path).unwrap();
    let device = directory.create("one", (3 * PAYLOAD) as u64).unwrap();
    let twin = memory.open("one").unwrap();
    assert_eq!((device.len(), device.promise(), device.writes_through()), (twin.len(), twin.promise(), None));

    // Longer than a slot, in every way.
    device.write_at(512, &filled(2 * PAYLOAD, 1)).unwrap();
    device.write_durable(0, &filled(512, 2)).unwrap();
    device.write_durable(PAYLOAD as u64, &filled(PAYLOAD + 512, 3)).unwrap();
    let (short, long) = (filled(1024, 4), filled(PAYLOAD, 5));
    device.write_all_durable(&[(0, &short[..512]), (4096, &short)]).unwrap();
    device.write_all_durable(&[(2 * PAYLOAD as u64, &long), (1024, &short[..512])]).unwrap();
    device.sync().unwrap();
    let (mut here, mut there) = (AlignedBuffer::zeroed(3 * PAYLOAD), AlignedBuffer::zeroed(3 * PAYLOAD));
    device.read_at(0, &mut here).unwrap();
    twin.read_at(0, &mut there).unwrap();
    assert!(here[..] == there[..]);
    let at = |place: usize| here[place];
    assert_eq!([at(0), at(512), at(1024), at(4096), at(8192), at(PAYLOAD), at(2 * PAYLOAD)], [4, 1, 4, 4, 1, 3, 5]);
    device.trim(0, 512).unwrap();

    directory.create("two", 512).unwrap();
    directory.rename("two", "three").unwrap();
    directory.sync().unwrap();
    assert_eq!(memory.list().unwrap(), ["one", "three"]);
    directory.remove("three").unwrap();
    assert_eq!(directory.list().unwrap(), ["one"]);
    assert!(matches!(directory.open("three"), Err(Error::NotFound { name }) if name == "three"));
    assert!(matches!(directory.create("one", 1), Err(Error::AlreadyExists { .. })));
    assert!(matches!(device.write_at(512, &filled(512, 0)[..100]), Err(Error::Invalid { .. })));
    assert!(matches!(directory.open("../x"), Err(Error::Invalid { .. })));
}

#[test]
fn more_names_than_a_slot_carries_are_all_listed() {
    let (stage, memory) = (stage(), MemoryDirectory::new());
    let names: Vec<String> = (0..PAYLOAD / 100 + 50).map(|number| format!("{number:0>100}")).collect();
    for name in &names {
        memory.create(name, 512).unwrap();
    }
    let _server = serve(&stage.path, Arc::new(memory));
    assert_eq!(ShmDirectory::connect(&stage.path).unwrap().list().unwrap(), names);
}

#[test]
fn more_threads_than_slots_each_get_their_own_answers() {
    let stage = stage();
    let _server = serve(&stage.path, Arc::new(MemoryDirectory::new()));
    let directory = ShmDirectory::connect(&stage.path).unwrap();
    std::thread::scope(|scope| {
        for number in 0..2 * SLOTS as u8 {
            let directory = directory.clone();
            scope.spawn(move || {
                let device = directory.create(&format!("of-{number}"), 64 << 10).unwrap();
                for round in 0..50_u8 {
                    let (offset, byte) = (u64::from(round) * 512, number.wrapping_add(round));
                    device.write_durable(offset, &filled(512, byte)).unwrap();
                    let mut bytes = AlignedBuffer::zeroed(512);
                    device.read_at(offset, &mut bytes).unwrap();
                    assert!(bytes.iter().all(|&found| found == byte));
                }
            });
        }
    });
    assert_eq!(directory.list().unwrap().len(), 2 * SLOTS);
}

#[test]
fn one_client_is_in_at_a_time_and_the_next_one_is_told_who() {
    let (stage, memory) = (stage(), MemoryDirectory::new());
    let server = serve(&stage.path, Arc::new(memory.clone()));
    assert!(!server.is_connected());
    let first = ShmDirectory::connect(&stage.path).unwrap();
    assert!(server.is_connected() && memory.lock().is_err());
    let error = ShmDirectory::connect(&stage.path).unwrap_err();
    assert!(matches!(&error, Error::Locked { .. }), "{error}");
    assert!(error.to_string().contains(&format!("pid {}", std::process::id())), "{error}");
    let lock = first.lock().unwrap();
    assert!(matches!(first.lock(), Err(Error::Locked { .. })));
    drop(lock);
    drop(first.lock().unwrap());

    // A device keeps its client in.
    let device = first.create("log", 512).unwrap();
    drop(first);
    assert!(ShmDirectory::connect(&stage.path).is_err());
    drop(device);
    wait_until("the first one has gone", || !server.is_connected());
    assert_eq!(ShmDirectory::connect(&stage.path).unwrap().list().unwrap(), ["log"]);

    let elsewhere = memory.lock();
    wait_until("so has the second", || !server.is_connected());
    drop(elsewhere);
    let held = memory.lock().unwrap();
    assert!(matches!(ShmDirectory::connect(&stage.path), Err(Error::Locked { .. })));
    drop(held);
    ShmDirectory::connect(&stage.path).unwrap();
}

#[test]
fn errors_keep_their_kind_and_their_words() {
    let (stage, sim) = (stage(), SimDirectory::with_seed(Seed(1)));
    let _server = serve(&stage.path, Arc::new(sim.clone()));
    let directory = ShmDirectory::connect(&stage.path).unwrap();
    let device = directory.create("log", 4096).unwrap();
    sim.inject(Fault::SyncError { nth: sim.syncs() });
    let error = device.sync().unwrap_err();
    assert!(matches!(&error, Error::Io { name, operation: "sync", .. } if name == "log"), "{error}");
    sim.power_cut_now();
    let error = device.write_at(0, &filled(512, 1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
}

#[test]
fn who_is_waiting_when_the_server_goes_is_told_and_nobody_waits_again() {
    let (stage, shut) = (stage(), Shut::default());
    let server = serve(&stage.path, Arc::new(shut.clone()));
    let directory = ShmDirectory::connect(&stage.path).unwrap();
    let device = directory.create("log", 4096).unwrap();
    shut.close(true);
    std::thread::scope(|scope| {
        // More than there are workers, so that some wait for one of these.
        let waiting: Vec<_> = (0..SLOTS + 4).map(|_| scope.spawn(|| device.sync())).collect();
        wait_until("all workers are busy", || shut.inside() >= ServerSettings::default().threads);
        let ends = scope.spawn(|| drop(server));
        // Those whose requests nobody has in hand are told at once; the workers end with what they have.
        wait_until("the server is gone for its client", || directory.list().is_err());
        shut.close(false);
        ends.join().unwrap();
        let outcomes: Vec<_> = waiting.into_iter().map(|thread| thread.join().unwrap()).collect();
        let told = outcomes.iter().filter_map(|outcome| outcome.as_ref().err());
        assert!(told.clone().count() >= SLOTS && outcomes.len() == SLOTS + 4);
        for error in told {
            assert!(error.to_string().contains("is not served any more"), "{error}");
            assert_eq!(error.kind(), ErrorKind::Unavailable);
        }
    });
    assert!(device.write_at(0, &filled(512, 1)).unwrap_err().to_string().contains("is not served any more"));
    let error = ShmDirectory::connect(&stage.path).unwrap_err();
    assert!(error.to_string().contains("nobody serves there"), "{error}");
}

#[test]
fn the_next_client_finds_nothing_of_the_one_before_under_way() {
    let (stage, shut) = (stage(), Shut::default());
    let server = serve(&stage.path, Arc::new(shut.clone()));
    let directory = ShmDirectory::connect(&stage.path).unwrap();
    let device = directory.create("log", 4096).unwrap();
    shut.close(true);
    let first = std::thread::spawn(move || device.sync());
    wait_until("a sync is under way", || shut.inside() == 1);
    // It dies: nothing is left of its connection, and its sync is still under way.
    drop(directory);
    let link = std::fs::read_dir("/proc/self/fd").unwrap().count();
    assert!(link > 0 && server.is_connected());
    let is_in = Arc::new(AtomicBool::new(false));
    let second = {
        let (path, is_in, shut) = (stage.path.clone(), is_in.clone(), shut.clone());
        std::thread::spawn(move || {
            let began = Instant::now();
            while ShmDirectory::connect(&path).is_err() {
                assert!(began.elapsed() < Duration::from_secs(20), "never let in");
            }
            is_in.store(true, Ordering::SeqCst);
            assert_eq!(shut.inside(), 0);
        })
    };
    std::thread::sleep(Duration::from_millis(50));
    assert!(!is_in.load(Ordering::SeqCst));
    shut.close(false);
    first.join().unwrap().unwrap();
    second.join().unwrap();
}

#[test]
fn what_listens_there_and_is_no_ring_is_refused() {
    let stage = stage();
    assert!(ShmDirectory::connect(&stage.path).unwrap_err().to_string().contains("start the service"));
    let listener = UnixListener::bind(&stage.path).unwrap();
    let strangers = std::thread::spawn(move || {
        for says in [&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], b""] {
            let (mut visitor, _) = listener.accept().unwrap();
            std::io::Write::write_all(&mut visitor, says).unwrap();
        }
    });
    let error = ShmDirectory::connect(&stage.path).unwrap_err();
    assert!(error.to_string().contains("serves no ring"), "{error}");
    let error = ShmDirectory::connect(&stage.path).unwrap_err();
    assert!(error.to_string().contains("has hung up"), "{error}");
    strangers.join().unwrap();
}

/// A directory whose syncs of devices do not return while it is shut.
#[derive(Clone, Debug, Default)]
struct Shut {
    inner: MemoryDirectory,
    door: Arc<(Mutex<bool>, Condvar)>,
    inside: Arc<AtomicUsize>,
}

impl Shut {
    fn close(&self, shut: bool) {
        *self.door.0.lock() = shut;
        self.door.1.notify_all();
    }

    fn inside(&self) -> usize {
        self.inside.load(Ordering::SeqCst)
    }
}

#[derive(Debug)]
struct ShutDevice(Arc<dyn Device>, Shut);

impl Directory for Shut {
    fn create(&self, name: &str, length: u64) -> Result<Arc<dyn Device>> {
        Ok(Arc::new(ShutDevice(self.inner.create(name, length)?, self.clone())))
    }

    fn open(&self, name: &str) -> Result<Arc<dyn Device>> {
        self.inner.open(name)
    }

    fn list(&self) -> Result<Vec<String>> {
        self.inner.list()
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.inner.rename(from, to)
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.inner.remove(name)
    }

    fn sync(&self) -> Result<()> {
        self.inner.sync()
    }

    fn lock(&self) -> Result<DirectoryLock> {
        self.inner.lock()
    }
}

impl Device for ShutDevice {
    fn promise(&self) -> Promise {
        self.0.promise()
    }

    fn len(&self) -> u64 {
        self.0.len()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.0.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.0.write_at(offset, bytes)
    }

    fn sync(&self) -> Result<()> {
        let (shut, changed) = &*self.1.door;
        self.1.inside.fetch_add(1, Ordering::SeqCst);
        let mut guard = shut.lock();
        while *guard {
            changed.wait(&mut guard);
        }
        drop(guard);
        self.1.inside.fetch_sub(1, Ordering::SeqCst);
        self.0.sync()
    }

    fn trim(&self, offset: u64, length: u64) -> Result<()> {
        self.0.trim(offset, length)
    }
}
