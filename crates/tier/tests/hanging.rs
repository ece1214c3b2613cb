//! A slow device that does not answer for a while: what waits for it, and what must not.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use ishigaki_device::{AlignedBuffer, Device, Directory, DirectoryLock, MemoryDirectory, Promise, Result};
use ishigaki_tier::{Mode, Pool, Settings};

const MIB: u64 = 1 << 20;

/// How long is waited for something that must not come, and at most for something that must.
const WHILE: Duration = Duration::from_millis(300);
const PATIENCE: Duration = Duration::from_mins(1);

/// Whether the device `hangs` answers writes, and whether one waits for it.
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

#[derive(Debug)]
struct Gated(MemoryDirectory, Arc<Gate>);

impl Gated {
    fn device(&self, name: &str, device: Arc<dyn Device>) -> Arc<dyn Device> {
        if name == "hangs" { Arc::new(GatedDevice(device, self.1.clone())) } else { device }
    }
}

impl Directory for Gated {
    fn create(&self, name: &str, length: u64) -> Result<Arc<dyn Device>> {
        self.0.create(name, length).map(|device| self.device(name, device))
    }

    fn open(&self, name: &str) -> Result<Arc<dyn Device>> {
        self.0.open(name).map(|device| self.device(name, device))
    }

    fn list(&self) -> Result<Vec<String>> {
        self.0.list()
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.0.rename(from, to)
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.0.remove(name)
    }

    fn sync(&self) -> Result<()> {
        self.0.sync()
    }

    fn lock(&self) -> Result<DirectoryLock> {
        self.0.lock()
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
    let slow = Gated(bytes.clone(), gate.clone());
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
