//! A process that is killed in the middle of what it does: an operation of a device does not return, and nothing that comes after it happens.

use std::sync::Arc;

use ishigaki_device::{Device, Directory, DirectoryLock, Error, Promise, Result, SimDirectory};
use ishigaki_tier::Memory;
use parking_lot::Mutex;

/// How many operations a process does yet. At its death it leaves its memory as it is then, whatever it still does on the way out.
#[derive(Clone, Debug)]
pub(crate) struct Life {
    left: Arc<Mutex<u64>>,
    does_last: bool,
    memory: Memory,
    remains: Arc<Mutex<Option<Memory>>>,
}

impl Life {
    /// That of a process with this memory, which ends with so many operations; the last one is done or not.
    pub(crate) fn of(memory: &Memory, operations: u64, does_last: bool) -> Self {
        let left = Arc::new(Mutex::new(operations + 1));
        Self { left, does_last, memory: memory.clone(), remains: Arc::default() }
    }

    pub(crate) fn endless(memory: &Memory) -> Self {
        Self::of(memory, u64::MAX / 2, false)
    }

    pub(crate) fn is_over(&self) -> bool {
        *self.left.lock() == 0
    }

    /// Ends it now, if it has not ended. The memory for the next process.
    pub(crate) fn end(&self) -> Memory {
        *self.left.lock() = 0;
        self.remains.lock().get_or_insert_with(|| self.memory.copy()).clone()
    }

    fn act<T>(&self, name: &str, operation: impl FnOnce() -> Result<T>) -> Result<T> {
        let left = *self.left.lock();
        if left > 1 {
            *self.left.lock() = left - 1;
            return operation();
        }
        if left == 1 {
            if self.does_last {
                let _ = operation();
            }
            self.end();
        }
        Err(Error::PowerCut { name: name.to_owned() })
    }
}

#[derive(Debug)]
pub(crate) struct MortalDirectory {
    directory: SimDirectory,
    life: Life,
}

impl MortalDirectory {
    pub(crate) fn new(directory: SimDirectory, life: Life) -> Self {
        Self { directory, life }
    }

    fn device(&self, name: &str, device: Arc<dyn Device>) -> Arc<dyn Device> {
        Arc::new(MortalDevice { device, name: name.to_owned(), life: self.life.clone() })
    }
}

impl Directory for MortalDirectory {
    fn create(&self, name: &str, length: u64) -> Result<Arc<dyn Device>> {
        self.life.act(name, || self.directory.create(name, length)).map(|device| self.device(name, device))
    }

    fn grow(&self, name: &str, length: u64) -> Result<Arc<dyn Device>> {
        self.life.act(name, || self.directory.grow(name, length)).map(|device| self.device(name, device))
    }

    fn open(&self, name: &str) -> Result<Arc<dyn Device>> {
        self.directory.open(name).map(|device| self.device(name, device))
    }

    fn list(&self) -> Result<Vec<String>> {
        self.directory.list()
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.life.act(from, || self.directory.rename(from, to))
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.life.act(name, || self.directory.remove(name))
    }

    fn sync(&self) -> Result<()> {
        self.life.act("names", || self.directory.sync())
    }

    fn lock(&self) -> Result<DirectoryLock> {
        self.directory.lock()
    }
}

#[derive(Debug)]
struct MortalDevice {
    device: Arc<dyn Device>,
    name: String,
    life: Life,
}

impl MortalDevice {
    fn act(&self, operation: impl FnOnce() -> Result<()>) -> Result<()> {
        self.life.act(&self.name, operation)
    }
}

impl Device for MortalDevice {
    fn promise(&self) -> Promise {
        self.device.promise()
    }

    fn len(&self) -> u64 {
        self.device.len()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.device.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.act(|| self.device.write_at(offset, bytes))
    }

    fn write_durable(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.act(|| self.device.write_durable(offset, bytes))
    }

    fn write_all_durable(&self, writes: &[(u64, &[u8])]) -> Result<()> {
        self.act(|| self.device.write_all_durable(writes))
    }

    fn sync(&self) -> Result<()> {
        self.act(|| self.device.sync())
    }

    fn trim(&self, offset: u64, length: u64) -> Result<()> {
        self.act(|| self.device.trim(offset, length))
    }

    fn zero(&self, offset: u64, length: u64) -> Result<()> {
        self.act(|| self.device.zero(offset, length))
    }
}
