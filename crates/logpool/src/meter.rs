//! What really goes to the log's medium: a directory that counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ishigaki_device::{Device, Directory, DirectoryLock, Promise, Result};

/// What was counted.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    /// Calls that write.
    pub(crate) writes: AtomicU64,
    /// Bytes, with padding.
    pub(crate) bytes: AtomicU64,
}

impl Meter {
    fn count(&self, bytes: usize) {
        self.writes.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

/// A directory whose devices count what is written to them; zeros of new ones do not count.
#[derive(Debug)]
pub(crate) struct MeteredDirectory {
    inner: Arc<dyn Directory>,
    meter: Arc<Meter>,
}

#[derive(Debug)]
struct MeteredDevice {
    inner: Arc<dyn Device>,
    meter: Arc<Meter>,
}

impl MeteredDirectory {
    pub(crate) fn new(inner: Arc<dyn Directory>, meter: Arc<Meter>) -> Self {
        Self { inner, meter }
    }

    fn metered(&self, inner: Arc<dyn Device>) -> Arc<dyn Device> {
        Arc::new(MeteredDevice { inner, meter: self.meter.clone() })
    }
}

impl Directory for MeteredDirectory {
    fn create(&self, name: &str, length: u64) -> Result<Arc<dyn Device>> {
        Ok(self.metered(self.inner.create(name, length)?))
    }

    fn reserve(&self, name: &str, length: u64) -> Result<Arc<dyn Device>> {
        Ok(self.metered(self.inner.reserve(name, length)?))
    }

    fn room(&self) -> Result<Option<u64>> {
        self.inner.room()
    }

    fn open(&self, name: &str) -> Result<Arc<dyn Device>> {
        Ok(self.metered(self.inner.open(name)?))
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

impl Device for MeteredDevice {
    fn promise(&self) -> Promise {
        self.inner.promise()
    }

    fn writes_through(&self) -> Option<bool> {
        self.inner.writes_through()
    }

    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.inner.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.meter.count(bytes.len());
        self.inner.write_at(offset, bytes)
    }

    fn write_durable(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.meter.count(bytes.len());
        self.inner.write_durable(offset, bytes)
    }

    fn write_all_durable(&self, writes: &[(u64, &[u8])]) -> Result<()> {
        self.meter.count(writes.iter().map(|(_, bytes)| bytes.len()).sum());
        self.inner.write_all_durable(writes)
    }

    fn sync(&self) -> Result<()> {
        self.inner.sync()
    }

    fn lock(&self) -> Result<DirectoryLock> {
        self.inner.lock()
    }

    fn trim(&self, offset: u64, length: u64) -> Result<()> {
        self.inner.trim(offset, length)
    }
}
