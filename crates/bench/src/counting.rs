//! A directory that counts the writes of its devices on their way to another one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ishigaki_device::{Device, Directory, DirectoryLock, Promise, Result};

/// Writes and their bytes so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) writes: u64,
    pub(crate) bytes: u64,
}

impl Count {
    /// What came after `earlier`.
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self { writes: self.writes - earlier.writes, bytes: self.bytes - earlier.bytes }
    }
}

#[derive(Debug, Default)]
struct Counter {
    writes: AtomicU64,
    bytes: AtomicU64,
}

impl Counter {
    fn add(&self, bytes: &[u8]) {
        self.writes.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
    }
}

/// Counts what is written, each run of a batch for itself; what is written when a device is created is not among it.
#[derive(Debug)]
pub(crate) struct Counting {
    inner: Arc<dyn Directory>,
    counter: Arc<Counter>,
}

impl Counting {
    pub(crate) fn new(inner: Arc<dyn Directory>) -> Self {
        Self { inner, counter: Arc::default() }
    }

    pub(crate) fn count(&self) -> Count {
        Count { writes: self.counter.writes.load(Ordering::Relaxed), bytes: self.counter.bytes.load(Ordering::Relaxed) }
    }

    fn counted(&self, inner: Arc<dyn Device>) -> Arc<dyn Device> {
        Arc::new(CountingDevice { inner, counter: Arc::clone(&self.counter) })
    }
}

impl Directory for Counting {
    fn create(&self, name: &str, length: u64) -> Result<Arc<dyn Device>> {
        Ok(self.counted(self.inner.create(name, length)?))
    }

    fn open(&self, name: &str) -> Result<Arc<dyn Device>> {
        Ok(self.counted(self.inner.open(name)?))
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

#[derive(Debug)]
struct CountingDevice {
    inner: Arc<dyn Device>,
    counter: Arc<Counter>,
}

impl Device for CountingDevice {
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
        self.counter.add(bytes);
        self.inner.write_at(offset, bytes)
    }

    fn write_durable(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.counter.add(bytes);
        self.inner.write_durable(offset, bytes)
    }

    fn write_all_durable(&self, writes: &[(u64, &[u8])]) -> Result<()> {
        for (_, bytes) in writes {
            self.counter.add(bytes);
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use ishigaki_device::{AlignedBuffer, MemoryDirectory};

    #[test]
    fn every_write_counts_and_passes_on() {
        let directory = Counting::new(Arc::new(MemoryDirectory::new()));
        let device = directory.create("a", 16384).unwrap();
        let mut block = AlignedBuffer::zeroed(4096);
        block.fill(7);
        device.write_at(0, &block).unwrap();
        let before = directory.count();
        directory.open("a").unwrap().write_durable(4096, &block).unwrap();
        device.write_all_durable(&[(8192, &block), (12288, &block)]).unwrap();
        assert_eq!(directory.count(), Count { writes: 4, bytes: 16384 });
        assert_eq!(directory.count().since(before), Count { writes: 3, bytes: 12288 });
        let mut back = AlignedBuffer::zeroed(4096);
        device.read_at(12288, &mut back).unwrap();
        assert_eq!(*back, *block);
    }
}
