//! What the tests of behaviour stand on: homes of their own, and a directory that stands still when told to.

#![allow(dead_code, reason = "each test uses its part")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ishigaki_base::ByteSize;
use ishigaki_device::{Device, Directory, DirectoryLock, Error, MemoryDirectory, Promise, Result};
use ishigaki_logpool::{Homes, Profile, Quota, Settings};
use parking_lot::{Condvar, Mutex};

/// A home for each member.
#[derive(Debug)]
pub(crate) struct Apart(pub(crate) BTreeMap<String, Arc<dyn Directory>>);

impl Apart {
    pub(crate) fn of(homes: Vec<(&str, Arc<dyn Directory>)>) -> Arc<Self> {
        Arc::new(Self(homes.into_iter().map(|(name, home)| (name.to_owned(), home)).collect()))
    }
}

impl Homes for Apart {
    fn directory(&self, member: &str) -> Result<Arc<dyn Directory>> {
        self.0.get(member).cloned().ok_or_else(|| Error::NotFound { name: member.to_owned() })
    }
}

pub(crate) fn memory() -> Arc<dyn Directory> {
    Arc::new(MemoryDirectory::new())
}

/// A pool with a small log.
pub(crate) fn small(background: bool) -> Settings {
    Settings {
        log: ByteSize::mib(2),
        segment: ByteSize::kib(64),
        region: ByteSize::kib(256),
        cache: ByteSize::kib(64),
        background,
        ..Settings::default()
    }
}

pub(crate) fn quota() -> Quota {
    Quota { share: ByteSize::kib(128), home: ByteSize::mib(1), files: 8 }
}

pub(crate) fn member(profile: Profile) -> ishigaki_logpool::MemberSettings {
    ishigaki_logpool::MemberSettings { profile, quota: quota() }
}

/// A directory whose devices neither read nor write while it is shut, and take their time before they do.
#[derive(Clone, Debug)]
pub(crate) struct Gate {
    inner: Arc<dyn Directory>,
    time: Duration,
    /// Only who reads has to pass.
    for_reads: bool,
    shut: Arc<(Mutex<bool>, Condvar)>,
}

#[derive(Debug)]
struct GatedDevice {
    inner: Arc<dyn Device>,
    gate: Gate,
}

impl Gate {
    pub(crate) fn new(inner: Arc<dyn Directory>) -> Self {
        Self { inner, time: Duration::ZERO, for_reads: false, shut: Arc::default() }
    }

    pub(crate) fn slow(inner: Arc<dyn Directory>, time: Duration) -> Self {
        Self { time, ..Self::new(inner) }
    }

    pub(crate) fn slow_reads(inner: Arc<dyn Directory>, time: Duration) -> Self {
        Self { time, ..Self::for_reads(inner) }
    }

    pub(crate) fn for_reads(inner: Arc<dyn Directory>) -> Self {
        Self { for_reads: true, ..Self::new(inner) }
    }

    pub(crate) fn shut(&self, shut: bool) {
        *self.shut.0.lock() = shut;
        self.shut.1.notify_all();
    }

    fn pass(&self, reads: bool) {
        if self.for_reads && !reads {
            return;
        }
        if !self.time.is_zero() {
            std::thread::sleep(self.time);
        }
        let mut shut = self.shut.0.lock();
        while *shut {
            self.shut.1.wait(&mut shut);
        }
    }

    fn gated(&self, inner: Arc<dyn Device>) -> Arc<dyn Device> {
        Arc::new(GatedDevice { inner, gate: self.clone() })
    }
}

impl Directory for Gate {
    fn create(&self, name: &str, length: u64) -> Result<Arc<dyn Device>> {
        self.pass(false);
        Ok(self.gated(self.inner.create(name, length)?))
    }

    fn open(&self, name: &str) -> Result<Arc<dyn Device>> {
        Ok(self.gated(self.inner.open(name)?))
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
        self.pass(false);
        self.inner.sync()
    }

    fn lock(&self) -> Result<DirectoryLock> {
        self.inner.lock()
    }
}

impl Device for GatedDevice {
    fn promise(&self) -> Promise {
        self.inner.promise()
    }

    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.gate.pass(true);
        self.inner.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.gate.pass(false);
        self.inner.write_at(offset, bytes)
    }

    fn sync(&self) -> Result<()> {
        self.gate.pass(false);
        self.inner.sync()
    }

    fn trim(&self, offset: u64, length: u64) -> Result<()> {
        self.inner.trim(offset, length)
    }
}
