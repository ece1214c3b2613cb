//! A process that dies after some operations: from then on nothing that it asks for happens, while the medium lives on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ishigaki_device::{Device, Directory, DirectoryLock, Error, Promise, Result};

/// How many operations are left in a life.
#[derive(Clone, Debug)]
struct Life(Arc<AtomicU64>);

impl Life {
    fn spend(&self) -> Result<()> {
        let left = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        left.map(drop).map_err(|_| Error::PowerCut { name: "a dead process".to_owned() })
    }

    fn of(&self, device: Result<Arc<dyn Device>>) -> Result<Arc<dyn Device>> {
        device.map(|inner| Arc::new(MortalDevice { inner, life: self.clone() }) as Arc<dyn Device>)
    }
}

/// A directory as a process sees it that dies after so many operations; reads do not count.
#[derive(Debug)]
pub(crate) struct Mortal {
    inner: Arc<dyn Directory>,
    life: Life,
}

impl Mortal {
    pub(crate) fn new(inner: Arc<dyn Directory>, operations: u64) -> Self {
        Self { inner, life: Life(Arc::new(AtomicU64::new(operations))) }
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.life.0.load(Ordering::Relaxed) == 0
    }
}

impl Directory for Mortal {
    fn create(&self, name: &str, length: u64) -> Result<Arc<dyn Device>> {
        self.life.spend()?;
        self.life.of(self.inner.create(name, length))
    }

    fn open(&self, name: &str) -> Result<Arc<dyn Device>> {
        self.life.of(self.inner.open(name))
    }

    fn list(&self) -> Result<Vec<String>> {
        self.inner.list()
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.life.spend()?;
        self.inner.rename(from, to)
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.life.spend()?;
        self.inner.remove(name)
    }

    fn sync(&self) -> Result<()> {
        self.life.spend()?;
        self.inner.sync()
    }

    fn lock(&self) -> Result<DirectoryLock> {
        self.inner.lock()
    }
}

#[derive(Debug)]
struct MortalDevice {
    inner: Arc<dyn Device>,
    life: Life,
}

impl Device for MortalDevice {
    fn promise(&self) -> Promise {
        self.inner.promise()
    }

    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.inner.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.life.spend()?;
        self.inner.write_at(offset, bytes)
    }

    fn sync(&self) -> Result<()> {
        self.life.spend()?;
        self.inner.sync()
    }

    fn trim(&self, offset: u64, length: u64) -> Result<()> {
        self.life.spend()?;
        self.inner.trim(offset, length)
    }
}
