//! A directory that looks on: each operation passes a hook, which may hold it back or fail it.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use ishigaki_device::{
    Device, Directory, DirectoryLock, Error as DeviceError, MemoryDirectory, Promise, Result as DeviceResult,
};

/// What happens before an operation: its kind and the device's name.
pub(crate) type Hook = Arc<dyn Fn(&str, &str) -> DeviceResult<()> + Send + Sync>;

/// Another directory, seen through a block size of one's own and with something done before each operation.
#[derive(Clone)]
pub(crate) struct Watched {
    inner: Arc<dyn Directory>,
    block_size: usize,
    hook: Hook,
    pub(crate) handles: Arc<Handles>,
}

/// Devices in use, and the most there were at a time.
#[derive(Debug, Default)]
pub(crate) struct Handles {
    now: AtomicUsize,
    pub(crate) most: AtomicUsize,
}

pub(crate) struct WatchedDevice {
    inner: Arc<dyn Device>,
    name: String,
    of: Watched,
}

impl Watched {
    pub(crate) fn with_blocks(inner: Arc<dyn Directory>, block_size: usize) -> Self {
        Self { inner, block_size, hook: Arc::new(|_, _| Ok(())), handles: Arc::default() }
    }

    pub(crate) fn with_hook(hook: impl Fn(&str, &str) -> DeviceResult<()> + Send + Sync + 'static) -> Self {
        Self { hook: Arc::new(hook), ..Self::with_blocks(Arc::new(MemoryDirectory::new()), 512) }
    }

    /// Does something before each such operation on a device whose name begins so.
    pub(crate) fn before(
        operation: &'static str,
        prefix: &'static str,
        act: impl Fn() + Send + Sync + 'static,
    ) -> Self {
        Self::with_hook(move |seen, name| {
            if seen == operation && name.starts_with(prefix) {
                act();
            }
            Ok(())
        })
    }

    pub(crate) fn watch(&self, name: &str, inner: Arc<dyn Device>) -> Arc<dyn Device> {
        let now = self.handles.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.handles.most.fetch_max(now, Ordering::SeqCst);
        Arc::new(WatchedDevice { inner, name: name.to_owned(), of: self.clone() })
    }
}

impl fmt::Debug for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl fmt::Debug for WatchedDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl Drop for WatchedDevice {
    fn drop(&mut self) {
        self.of.handles.now.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Directory for Watched {
    fn create(&self, name: &str, length: u64) -> DeviceResult<Arc<dyn Device>> {
        (self.hook)("create", name)?;
        Ok(self.watch(name, self.inner.create(name, length)?))
    }
    fn open(&self, name: &str) -> DeviceResult<Arc<dyn Device>> {
        (self.hook)("open", name)?;
        Ok(self.watch(name, self.inner.open(name)?))
    }
    fn list(&self) -> DeviceResult<Vec<String>> {
        self.inner.list()
    }
    fn rename(&self, from: &str, to: &str) -> DeviceResult<()> {
        self.inner.rename(from, to)
    }
    fn remove(&self, name: &str) -> DeviceResult<()> {
        self.inner.remove(name)
    }
    fn sync(&self) -> DeviceResult<()> {
        self.inner.sync()
    }
    fn lock(&self) -> DeviceResult<DirectoryLock> {
        self.inner.lock()
    }
}

impl Device for WatchedDevice {
    fn promise(&self) -> Promise {
        Promise { block_size: self.of.block_size, ..self.inner.promise() }
    }
    fn len(&self) -> u64 {
        self.inner.len()
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> DeviceResult<()> {
        let block = self.of.block_size;
        assert!(offset.is_multiple_of(block as u64) && buffer.len().is_multiple_of(block), "a read of whole blocks");
        self.inner.read_at(offset, buffer)
    }
    fn write_at(&self, offset: u64, bytes: &[u8]) -> DeviceResult<()> {
        (self.of.hook)("write", &self.name)?;
        self.inner.write_at(offset, bytes)
    }
    fn write_durable(&self, offset: u64, bytes: &[u8]) -> DeviceResult<()> {
        let block = self.of.block_size;
        assert!(offset.is_multiple_of(block as u64) && bytes.len().is_multiple_of(block), "a write of whole blocks");
        (self.of.hook)("write", &self.name)?;
        self.inner.write_durable(offset, bytes)
    }
    fn write_all_durable(&self, writes: &[(u64, &[u8])]) -> DeviceResult<()> {
        (self.of.hook)("write", &self.name)?;
        self.inner.write_all_durable(writes)
    }
    fn sync(&self) -> DeviceResult<()> {
        self.inner.sync()
    }
    fn trim(&self, offset: u64, length: u64) -> DeviceResult<()> {
        self.inner.trim(offset, length)
    }
}

/// Holds back whoever comes to it, once it is shut.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    shut: Mutex<bool>,
    waiting: AtomicUsize,
    opened: Condvar,
}

impl Gate {
    pub(crate) fn shut(&self) {
        *self.shut.lock().unwrap() = true;
    }
    pub(crate) fn open(&self) {
        *self.shut.lock().unwrap() = false;
        self.opened.notify_all();
    }
    pub(crate) fn pass(&self) {
        let mut shut = self.shut.lock().unwrap();
        while *shut {
            self.waiting.store(1, Ordering::SeqCst);
            shut = self.opened.wait(shut).unwrap();
        }
    }
    pub(crate) fn wait_for_somebody(&self) {
        while self.waiting.load(Ordering::SeqCst) == 0 {
            thread::yield_now();
        }
    }
}

pub(crate) fn failed(name: &str) -> DeviceError {
    DeviceError::Io { name: name.to_owned(), operation: "write", source: std::io::Error::other("by intent") }
}
