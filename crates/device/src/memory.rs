//! Devices in memory: for tests that are about something else, and for databases that end with their process.
//!
//! Every write is "durable" at once, because nothing outlives the process anyway. Requests are checked as a direct device
//! checks them. What a power cut leaves is the business of [`crate::SimDirectory`].

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ishigaki_base::ByteSize;
use parking_lot::{Mutex, RwLock};

use crate::request::{Bounds, check_name, is_block_size, whole_blocks};
use crate::{Device, Directory, DirectoryLock, Error, Promise, Result, SECTOR};

/// How a [`MemoryDirectory`] behaves.
#[derive(Clone, Debug)]
pub struct MemorySettings {
    /// The block size of its devices, as a [`Promise`] allows it.
    pub block_size: usize,
    /// How much all devices together may hold; unlimited when `None`.
    pub capacity: Option<ByteSize>,
}

impl Default for MemorySettings {
    /// Blocks of 512 bytes, without limit.
    fn default() -> Self {
        Self { block_size: SECTOR, capacity: None }
    }
}

/// A directory of [`MemoryDevice`]s. Clones are handles to the same directory; the last one to go takes the bytes along.
///
/// ```
/// use ishigaki_device::{AlignedBuffer, Device, Directory, MemoryDirectory};
///
/// let directory = MemoryDirectory::new();
/// let device = directory.create("log", 4096)?;
/// let mut block = AlignedBuffer::zeroed(512);
/// block[0] = 7;
/// device.write_durable(1024, &block)?;
/// block[0] = 0;
/// directory.open("log")?.read_at(1024, &mut block)?;
/// assert_eq!(block[0], 7);
/// # Ok::<(), ishigaki_device::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct MemoryDirectory {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    settings: MemorySettings,
    devices: Mutex<BTreeMap<String, Arc<MemoryDevice>>>,
    /// Bytes of all living devices, named or not. Its own allocation, so that a device may outlive the directory.
    used: Arc<AtomicU64>,
    locked: AtomicBool,
}

impl MemoryDirectory {
    /// An empty directory with blocks of 512 bytes and no limit.
    pub fn new() -> Self {
        Self::with(MemorySettings::default())
    }

    /// An empty directory.
    ///
    /// # Panics
    ///
    /// If the block size is not one that a [`Promise`] may name.
    pub fn with(settings: MemorySettings) -> Self {
        assert!(is_block_size(settings.block_size), "{} is no block size", settings.block_size);
        Self {
            shared: Arc::new(Shared {
                settings,
                devices: Mutex::default(),
                used: Arc::default(),
                locked: AtomicBool::new(false),
            }),
        }
    }
}

impl Default for MemoryDirectory {
    fn default() -> Self {
        Self::new()
    }
}

impl Directory for MemoryDirectory {
    fn create(&self, name: &str, length: u64) -> Result<Arc<dyn Device>> {
        check_name(name)?;
        let block_size = self.shared.settings.block_size;
        let length = whole_blocks(name, length, block_size)?;
        let mut devices = self.shared.devices.lock();
        if devices.contains_key(name) {
            return Err(Error::AlreadyExists { name: name.to_owned() });
        }
        let no_space = || Error::NoSpace { name: name.to_owned(), needed: length };
        let limit = self.shared.settings.capacity.map_or(u64::MAX, |capacity| capacity.as_u64());
        self.shared
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                used.checked_add(length).filter(|&total| total <= limit)
            })
            .map_err(|_| no_space())?;
        // Made before the memory is asked for, so that its drop gives the space back should that fail.
        let mut device = MemoryDevice {
            name: name.to_owned(),
            block_size,
            length,
            bytes: RwLock::default(),
            used: Arc::clone(&self.shared.used),
        };
        let size = usize::try_from(length).map_err(|_| no_space())?;
        device.bytes.get_mut().try_reserve_exact(size).map_err(|_| no_space())?;
        device.bytes.get_mut().resize(size, 0);
        let device = Arc::new(device);
        devices.insert(name.to_owned(), Arc::clone(&device));
        Ok(device)
    }

    fn open(&self, name: &str) -> Result<Arc<dyn Device>> {
        check_name(name)?;
        match self.shared.devices.lock().get(name) {
            Some(device) => Ok(Arc::clone(device) as Arc<dyn Device>),
            None => Err(Error::NotFound { name: name.to_owned() }),
        }
    }

    fn list(&self) -> Result<Vec<String>> {
        Ok(self.shared.devices.lock().keys().cloned().collect())
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        check_name(from)?;
        check_name(to)?;
        let mut devices = self.shared.devices.lock();
        let device = devices.remove(from).ok_or_else(|| Error::NotFound { name: from.to_owned() })?;
        devices.insert(to.to_owned(), device);
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<()> {
        check_name(name)?;
        match self.shared.devices.lock().remove(name) {
            Some(_) => Ok(()),
            None => Err(Error::NotFound { name: name.to_owned() }),
        }
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn lock(&self) -> Result<DirectoryLock> {
        if self.shared.locked.swap(true, Ordering::Acquire) {
            return Err(Error::Locked {
                directory: "memory".to_owned(),
                holder: Some(format!("pid {}", std::process::id())),
            });
        }
        Ok(DirectoryLock::new(MemoryLock { shared: Arc::clone(&self.shared) }))
    }
}

/// Gives the directory free when it is dropped.
#[derive(Debug)]
struct MemoryLock {
    shared: Arc<Shared>,
}

impl Drop for MemoryLock {
    fn drop(&mut self) {
        self.shared.locked.store(false, Ordering::Release);
    }
}

/// A device in memory. Lives until its directory and the last user let go.
pub struct MemoryDevice {
    name: String,
    block_size: usize,
    length: u64,
    bytes: RwLock<Vec<u8>>,
    used: Arc<AtomicU64>,
}

impl MemoryDevice {
    fn bounds(&self) -> Bounds<'_> {
        Bounds { name: &self.name, block_size: self.block_size, length: self.length }
    }
}

impl Device for MemoryDevice {
    fn promise(&self) -> Promise {
        Promise { block_size: self.block_size, atomic_write: SECTOR, direct: true, trim: false }
    }

    fn len(&self) -> u64 {
        self.length
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.bounds().check_transfer(offset, buffer)?;
        let start = offset as usize;
        buffer.copy_from_slice(&self.bytes.read()[start..start + buffer.len()]);
        Ok(())
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.bounds().check_transfer(offset, bytes)?;
        let start = offset as usize;
        self.bytes.write()[start..start + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn write_all_durable(&self, writes: &[(u64, &[u8])]) -> Result<()> {
        self.bounds().check_transfers(writes)?;
        writes.iter().try_for_each(|(offset, bytes)| self.write_at(*offset, bytes))
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn trim(&self, offset: u64, length: u64) -> Result<()> {
        self.bounds().check_range(offset, length)
    }
}

impl Drop for MemoryDevice {
    fn drop(&mut self) {
        self.used.fetch_sub(self.length, Ordering::Relaxed);
    }
}

impl fmt::Debug for MemoryDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MemoryDevice({}, {})", self.name, ByteSize(self.length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AlignedBuffer;

    #[test]
    fn clones_are_the_same_directory() {
        let directory = MemoryDirectory::new();
        directory.create("a", 512).expect("created");
        assert_eq!(directory.clone().list().expect("listed"), ["a"]);
    }

    #[test]
    fn a_removed_device_lives_and_takes_space_until_its_user_lets_go() {
        let directory = MemoryDirectory::with(MemorySettings { capacity: Some(ByteSize(1024)), ..Default::default() });
        let device = directory.create("a", 1000).expect("fits when rounded up");
        directory.remove("a").expect("removed");
        device.write_at(512, &AlignedBuffer::zeroed(512)).expect("still there");
        assert!(matches!(directory.create("b", 1), Err(Error::NoSpace { needed: 512, .. })));
        drop(device);
        directory.create("b", 1).expect("the space is free");
    }

    #[test]
    fn more_memory_than_there_is_leaves_nothing_behind() {
        let directory = MemoryDirectory::new();
        assert!(matches!(directory.create("a", 1 << 62), Err(Error::NoSpace { .. })));
        assert_eq!(directory.shared.used.load(Ordering::Relaxed), 0);
        assert!(directory.list().expect("listed").is_empty());
    }
}
