//! Devices with the timing of a medium that is not there: NVM, SSD, HDD.
//!
//! A [`ModelledDirectory`] hands every request on to a directory that keeps the bytes (memory, as a rule) and then makes
//! its caller wait for as long as the medium would have taken. What is durable, and what fails, is the business of the
//! directory below; only time is added. All devices of one directory are one piece of hardware: they share the channels
//! of one SSD, or the one head of a disk.
//!
//! A request reads the time when it arrives, asks the model for its completion (under a lock, because it changes for how
//! long the channels or the head are busy), has the directory below do the work, and waits for what is left. So the time
//! of the work below is part of the modelled time, not added to it, as long as it is shorter.
//!
//! Parts: [`settings`] are the figures of a medium, [`pace`] is how time passes, [`hardware`] is what all requests share, [`ssd`]
//! and [`hdd`] compute completions. Names and creations take no time, a directory's sync takes that of a device. [`drive`] is a
//! medium that is one drive, for those who know no directories: its bytes, and what a power cut takes from them.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::{Device, Directory, DirectoryLock, MemoryDirectory, Promise, Result};
use hardware::{Hardware, Kind, Request};

mod drive;
mod hardware;
mod hdd;
mod pace;
mod settings;
mod ssd;

pub use drive::{Drive, DriveCounts, DriveSettings};
pub use pace::{Pace, Turns, VirtualClock};
pub use settings::{HddSettings, Medium, NvmSettings, SsdSettings};

/// The distance between the beginnings of devices is a multiple of this many bytes.
const SPACING: u64 = 1 << 20;

/// Devices of another directory, as slow as a medium. Clones are handles to the same medium.
///
/// ```
/// use std::time::Duration;
/// use ishigaki_device::{AlignedBuffer, Device, Directory, Medium, ModelledDirectory, NvmSettings, Pace, VirtualClock};
///
/// let clock = VirtualClock::new();
/// let nvm = Medium::Nvm(NvmSettings::of(Duration::from_micros(5)));
/// let directory = ModelledDirectory::in_memory(nvm, Pace::Virtual(clock.clone()));
/// let device = directory.create("log", 4096)?;
/// device.write_durable(0, &AlignedBuffer::zeroed(512))?;
/// assert_eq!(clock.elapsed(), Duration::from_micros(5));
/// # Ok::<(), ishigaki_device::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ModelledDirectory {
    bytes: Arc<dyn Directory>,
    hardware: Arc<Hardware>,
    places: Arc<Mutex<Places>>,
}

/// Where the devices lie on the medium, in the order in which they were first seen.
#[derive(Debug, Default)]
struct Places {
    by_name: HashMap<String, u64>,
    next: u64,
}

impl ModelledDirectory {
    /// The devices of `bytes`, with the timing of `medium`. Those that are there already lie in the order in which they
    /// are opened.
    pub fn new(bytes: Arc<dyn Directory>, medium: Medium, pace: Pace) -> Self {
        Self { bytes, hardware: Arc::new(Hardware::new(medium, pace)), places: Arc::default() }
    }

    /// An empty directory in memory with the timing of `medium`.
    pub fn in_memory(medium: Medium, pace: Pace) -> Self {
        Self::new(Arc::new(MemoryDirectory::new()), medium, pace)
    }

    /// The medium and its figures.
    pub fn medium(&self) -> &Medium {
        self.hardware.medium()
    }

    fn modelled(&self, name: &str, bytes: Arc<dyn Device>) -> Arc<dyn Device> {
        let place = self.place(name, bytes.len());
        Arc::new(ModelledDevice { bytes, place, hardware: Arc::clone(&self.hardware) })
    }

    /// Where the device of that name lies. A disk that is full begins again at its first track.
    fn place(&self, name: &str, length: u64) -> u64 {
        let mut places = self.places.lock();
        if let Some(place) = places.by_name.get(name) {
            return *place;
        }
        let capacity = match self.medium() {
            Medium::Hdd(settings) => settings.capacity.as_u64(),
            Medium::Nvm(_) | Medium::Ssd(_) => u64::MAX,
        };
        let fits = places.next.checked_add(length).is_some_and(|end| end <= capacity);
        let place = if fits { places.next } else { 0 };
        places.next = (place + length).next_multiple_of(SPACING);
        places.by_name.insert(name.to_owned(), place);
        place
    }
}

impl Directory for ModelledDirectory {
    fn create(&self, name: &str, length: u64) -> Result<Arc<dyn Device>> {
        let bytes = self.bytes.create(name, length)?;
        // A device of that name that is gone lay elsewhere.
        self.places.lock().by_name.remove(name);
        Ok(self.modelled(name, bytes))
    }

    fn open(&self, name: &str) -> Result<Arc<dyn Device>> {
        Ok(self.modelled(name, self.bytes.open(name)?))
    }

    fn list(&self) -> Result<Vec<String>> {
        self.bytes.list()
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.bytes.rename(from, to)?;
        let mut places = self.places.lock();
        let place = places.by_name.remove(from);
        places.by_name.remove(to);
        places.by_name.extend(place.map(|place| (to.to_owned(), place)));
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.bytes.remove(name)?;
        self.places.lock().by_name.remove(name);
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        self.hardware.sync(|| self.bytes.sync())
    }

    fn lock(&self) -> Result<DirectoryLock> {
        self.bytes.lock()
    }
}

/// A device whose requests take as long as on the medium of its [`ModelledDirectory`]. Trimming takes no time.
pub struct ModelledDevice {
    bytes: Arc<dyn Device>,
    /// Its first byte on the medium.
    place: u64,
    hardware: Arc<Hardware>,
}

impl ModelledDevice {
    fn request(&self, kind: Kind, offset: u64, length: usize) -> Request {
        Request { kind, position: self.place.saturating_add(offset), length: length as u64 }
    }

    /// True for a transfer that the device below will not refuse for its range: only such a one moves a head.
    fn reaches(&self, offset: u64, length: usize) -> bool {
        offset.checked_add(length as u64).is_some_and(|end| end <= self.bytes.len())
    }

    fn transfer(&self, kind: Kind, offset: u64, length: usize, work: impl FnOnce() -> Result<()>) -> Result<()> {
        if length > 0 && self.reaches(offset, length) {
            self.hardware.serve(&[self.request(kind, offset, length)], work)
        } else {
            work()
        }
    }
}

impl Device for ModelledDevice {
    fn promise(&self) -> Promise {
        self.bytes.promise()
    }

    fn len(&self) -> u64 {
        self.bytes.len()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.transfer(Kind::Read, offset, buffer.len(), || self.bytes.read_at(offset, buffer))
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.transfer(Kind::Write, offset, bytes.len(), || self.bytes.write_at(offset, bytes))
    }

    fn write_durable(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.transfer(Kind::WriteDurable, offset, bytes.len(), || self.bytes.write_durable(offset, bytes))
    }

    fn write_all_durable(&self, writes: &[(u64, &[u8])]) -> Result<()> {
        let work = || self.bytes.write_all_durable(writes);
        if !writes.iter().all(|(offset, bytes)| self.reaches(*offset, bytes.len())) {
            return work();
        }
        let writes = writes.iter().filter(|(_, bytes)| !bytes.is_empty());
        let requests: Vec<Request> =
            writes.map(|(offset, bytes)| self.request(Kind::WriteDurable, *offset, bytes.len())).collect();
        self.hardware.serve(&requests, work)
    }

    fn sync(&self) -> Result<()> {
        self.hardware.sync(|| self.bytes.sync())
    }

    fn lock(&self) -> Result<DirectoryLock> {
        self.bytes.lock()
    }

    fn trim(&self, offset: u64, length: u64) -> Result<()> {
        self.bytes.trim(offset, length)
    }
}

impl fmt::Debug for ModelledDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ModelledDevice({}, {:?})", self.hardware.medium(), self.bytes)
    }
}
