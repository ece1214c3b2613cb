//! A slow device that does not answer for a while, at its opening or later: what waits for it, and what must not.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use ishigaki_device::{AlignedBuffer, Device, Directory, DirectoryLock, MemoryDirectory, Promise, Result};
use ishigaki_tier::{Error, Mode, Pool, Settings, Volume};

const MIB: u64 = 1 << 20;

/// How long is waited for something that must not come, and at most for something that must.
const WHILE: Duration = Duration::from_millis(300);
const PATIENCE: Duration = Duration::from_mins(1);

/// Whether what waits here may go on, and whether something has waited.
#[derive(Debug, Default)]
struct Gate {
    is_shut: Mutex<bool>,
    changed: Condvar,
    has_waited: AtomicBool,
}

impl Gate {
    fn shut(&self, is_shut: bool) {
        *self.is_shut.lock().expect("locks") = is_shut;
        self.changed.notify_all();
    }

    fn pass(&self) {
        let mut is_shut = self.is_shut.lock().expect("locks");
        while *is_shut {
            self.has_waited.store(true, Ordering::SeqCst);
            is_shut = self.changed.wait(is_shut).expect("locks");
        }
    }

    /// Until a write waits.
    fn wait_for_one(&self) {
        while !self.has_waited.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// A directory in which the writes of the device `hangs` wait at a gate, and the openings of `hangs` and `too` at another one.
#[derive(Debug)]
struct Gated {
    directory: MemoryDirectory,
    gate: Arc<Gate>,
    opens: Arc<Gate>,
}

impl Gated {
    fn new(directory: MemoryDirectory, gate: Arc<Gate>, opens: Arc<Gate>) -> Self {
        Self { directory, gate, opens }
    }

    fn device(&self, name: &str, device: Arc<dyn Device>) -> Arc<dyn Device> {
        if name == "hangs" { Arc::new(GatedDevice(device, self.gate.clone())) } else { device }
    }
}

impl Directory for Gated {
    fn create(&self, name: &str, length: u64) -> Result<Arc<dyn Device>> {
        self.directory.create(name, length).map(|device| self.device(name, device))
    }

    fn open(&self, name: &str) -> Result<Arc<dyn Device>> {
        if ["hangs", "too"].contains(&name) {
            self.opens.pass();
        }
        self.directory.open(name).map(|device| self.device(name, device))
    }

    fn list(&self) -> Result<Vec<String>> {
        self.directory.list()
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.directory.rename(from, to)
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.directory.remove(name)
    }

    fn sync(&self) -> Result<()> {
        self.directory.sync()
    }

    fn lock(&self) -> Result<DirectoryLock> {
        self.directory.lock()
    }
}

#[derive(Debug)]
struct GatedDevice(Arc<dyn Device>, Arc<Gate>);

impl Device for GatedDevice {
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
        self.1.pass();
        self.0.write_at(offset, bytes)
    }

    fn sync(&self) -> Result<()> {
        self.1.pass();
        self.0.sync()
    }

    fn trim(&self, offset: u64, length: u64) -> Result<()> {
        self.0.trim(offset, length)
    }
}

fn pool(slots: u64) -> (Pool, MemoryDirectory, Arc<Gate>) {
    let (map, bytes, gate) = (MemoryDirectory::new(), MemoryDirectory::new(), Arc::new(Gate::default()));
    let fast = map.create("fast", (slots + 1) * MIB).expect("makes");
    let slow = Gated::new(bytes.clone(), gate.clone(), Arc::default());
    let pool = Pool::open(Arc::new(map), fast, Arc::new(slow), None, &Settings::default()).expect("opens");
    (pool, bytes, gate)
}

fn block(value: u8) -> AlignedBuffer {
    let mut block = AlignedBuffer::zeroed(4096);
    block.fill(value);
    block
}

#[test]
fn what_another_thread_brings_home_is_waited_for_and_what_was_written_meanwhile_comes_too() {
    let (pool, bytes, gate) = pool(8);
    let volume = pool.create("hangs", 8 * MIB, Mode::WriteBack).expect("makes");
    volume.write_at(0, &block(1)).expect("writes");
    gate.shut(true);
    let other = volume.clone();
    let leaving = thread::spawn(move || other.demote(&[0]));
    gate.wait_for_one();
    // Its chunk is on its way already.
    volume.write_at(8192, &block(2)).expect("writes");
    let (told, done) = channel();
    let cleaned = thread::spawn(move || {
        let outcome = pool.clean();
        told.send(()).expect("is heard");
        outcome
    });
    assert!(done.recv_timeout(WHILE).is_err(), "it says that all is home");
    gate.shut(false);
    done.recv_timeout(PATIENCE).expect("it ends");
    cleaned.join().expect("ends").expect("all is home");
    leaving.join().expect("ends").expect("leaves");
    let slow = bytes.open("hangs").expect("opens");
    for (at, value) in [(0, 1), (8192, 2)] {
        let mut there = AlignedBuffer::zeroed(4096);
        slow.read_at(at, &mut there).expect("reads");
        assert_eq!(there[..], block(value)[..], "at {at}");
    }
}

#[test]
fn requests_of_another_volume_go_on_while_a_slow_device_does_not_answer() {
    let (pool, _, gate) = pool(16);
    let hangs = pool.create("hangs", 64 * MIB, Mode::WriteBack).expect("makes");
    let goes = pool.create("goes", 64 * MIB, Mode::WriteBack).expect("makes");
    gate.shut(true);
    // All of the fast device is to go home to where no write is answered.
    (0..15).for_each(|chunk| hangs.write_at(chunk * MIB, &block(1)).expect("writes"));
    let (told, done) = channel();
    for thread in 0..4 {
        let (goes, told) = (goes.clone(), told.clone());
        thread::spawn(move || {
            for chunk in (thread * 16..thread * 16 + 16).chain(thread * 16..thread * 16 + 16) {
                goes.write_at(chunk * MIB, &block(chunk as u8)).expect("writes");
                let mut there = AlignedBuffer::zeroed(4096);
                goes.read_at(chunk * MIB, &mut there).expect("reads");
                assert_eq!(there[..], block(chunk as u8)[..]);
            }
            goes.sync().expect("syncs");
            told.send(()).expect("is heard");
        });
    }
    let ended = (0..4).filter(|_| done.recv_timeout(Duration::from_secs(10)).is_ok()).count();
    gate.shut(false);
    assert_eq!(ended, 4, "threads that went on");
    pool.clean().expect("all is home");
}

#[test]
fn discards_of_another_volume_go_on_while_a_slow_device_does_not_answer() {
    let (pool, _, gate) = pool(16);
    let hangs = pool.create("hangs", 64 * MIB, Mode::WriteBack).expect("makes");
    let goes = pool.create("goes", 64 * MIB, Mode::WriteBack).expect("makes");
    gate.shut(true);
    // What goes home together is of both.
    for chunk in 0..7 {
        hangs.write_at(chunk * MIB, &block(1)).expect("writes");
        goes.write_at(chunk * MIB, &block(2)).expect("writes");
    }
    let (told, done) = channel();
    let (works, waits) = (goes.clone(), gate.clone());
    let work = thread::spawn(move || {
        // The thread that keeps slots free is asked for some, until it brings some of `hangs` home.
        let mut chunks = 7;
        while !waits.has_waited.load(Ordering::SeqCst) && chunks < 40 {
            works.write_at(chunks * MIB, &block(2)).expect("writes");
            chunks += 1;
        }
        for chunk in 0..chunks {
            works.zero(chunk * MIB, MIB).expect("discards");
            works.write_at(chunk * MIB + 4096, &block(3)).expect("writes");
        }
        works.sync().expect("syncs");
        told.send(()).expect("is heard");
    });
    let ended = done.recv_timeout(Duration::from_secs(10)).is_ok();
    gate.shut(false);
    work.join().expect("ends");
    assert!(ended, "it waits for another volume's device");
    pool.clean().expect("all is home");
    assert_eq!([first(&goes), first(&hangs)], [0, 1]);
}

/// A pool of these volumes, each with a first block of its own number, which was closed; and how it is opened.
struct Closed {
    map: MemoryDirectory,
    bytes: MemoryDirectory,
    opens: Arc<Gate>,
}

impl Closed {
    fn of(names: &[&str]) -> Self {
        let closed = Self { map: MemoryDirectory::new(), bytes: MemoryDirectory::new(), opens: Arc::default() };
        closed.map.create("fast", 9 * MIB).expect("makes");
        let pool = closed.open().expect("opens");
        for (name, value) in names.iter().zip(1..) {
            let volume = pool.create(name, 8 * MIB, Mode::WriteBack).expect("makes");
            volume.write_at(0, &block(value)).and_then(|()| volume.sync()).expect("is written");
        }
        closed
    }

    fn open(&self) -> ishigaki_tier::Result<Pool> {
        let slow = Gated::new(self.bytes.clone(), Arc::default(), self.opens.clone());
        let fast = self.map.open("fast").expect("opens");
        Pool::open(Arc::new(self.map.clone()), fast, Arc::new(slow), None, &Settings::default())
    }

    /// In another thread, so that a test does not wait for ever.
    fn open_in_time(self: &Arc<Self>) -> Pool {
        let (told, opened) = channel();
        let closed = self.clone();
        thread::spawn(move || told.send(closed.open()));
        let opened = opened.recv_timeout(Duration::from_secs(30));
        opened.expect("it waits for a device that does not answer").expect("opens")
    }
}

fn first(volume: &Volume) -> u8 {
    let mut there = AlignedBuffer::zeroed(4096);
    volume.read_at(0, &mut there).expect("reads");
    there[0]
}

#[test]
fn a_pool_is_opened_without_devices_that_do_not_answer_and_has_them_once_they_do() {
    let closed = Arc::new(Closed::of(&["hangs", "too", "well"]));
    closed.opens.shut(true);
    let began = Instant::now();
    let pool = closed.open_in_time();
    assert!(began.elapsed() < Duration::from_secs(10), "they are waited for together: {:?}", began.elapsed());
    assert_eq!(first(&pool.volume("well").expect("is there")), 3);
    let away = pool.away();
    assert_eq!(away.iter().map(|away| away.name.as_str()).collect::<Vec<_>>(), ["hangs", "too"]);
    assert!(away.iter().all(|away| matches!(away.cause, Error::Silent { .. }) && away.dirty == 4096), "{away:?}");
    // It was waited for once.
    let began = Instant::now();
    assert!(pool.look_for_away().is_empty());
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    let refusals = [
        pool.pin("hangs", true),
        pool.detach("hangs"),
        pool.resize("hangs", 16 * MIB).map(drop),
        pool.attach("hangs", Mode::WriteBack).map(drop),
        pool.create("hangs", 8 * MIB, Mode::WriteBack).map(drop),
        pool.remove("hangs"),
    ];
    for refused in refusals {
        let error = refused.expect_err("it is away");
        assert!(matches!(&error, Error::Away { volume, .. } if volume == "hangs"), "{error}");
        assert!(error.to_string().contains("has not answered for"), "{error}");
    }
    // One that is no volume yet.
    closed.bytes.create("new", 8 * MIB).expect("makes");
    pool.attach("new", Mode::WriteBack).expect("attaches");
    closed.opens.shut(false);
    let (mut found, until) = (Vec::new(), Instant::now() + PATIENCE);
    while found.len() < 2 && Instant::now() < until {
        found.extend(pool.look_for_away());
    }
    found.sort_unstable();
    assert_eq!(found, ["hangs", "too"]);
    assert_eq!(["hangs", "too"].map(|name| first(&pool.volume(name).expect("is there"))), [1, 2]);
    assert!(pool.away().is_empty());
}

#[test]
fn a_pool_ends_while_a_device_does_not_answer_and_an_image_that_does_not_is_refused() {
    let closed = Arc::new(Closed::of(&["hangs", "well"]));
    closed.opens.shut(true);
    let pool = closed.open_in_time();
    closed.bytes.create("too", 8 * MIB).expect("makes");
    let (told, ended) = channel();
    thread::spawn(move || {
        let refused = pool.attach("too", Mode::WriteBack).expect_err("it does not answer");
        drop(pool);
        told.send(refused)
    });
    let refused = ended.recv_timeout(Duration::from_secs(30)).expect("it ends");
    assert!(matches!(refused, Error::Silent { .. }), "{refused}");
    // The call that was under way harms nothing when it returns.
    let pool = closed.open_in_time();
    closed.opens.shut(false);
    let until = Instant::now() + PATIENCE;
    while pool.look_for_away().is_empty() && Instant::now() < until {}
    assert_eq!(first(&pool.volume("hangs").expect("is there")), 1);
}
