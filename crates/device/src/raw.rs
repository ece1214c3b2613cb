//! A directory without a file system: named regions of one device.
//!
//! The device begins with two copies of a table of names (`docs/format/raw.md`); behind them lie the regions, each one
//! contiguous run of bytes. A name change is made in memory; [`sync`](Directory::sync) writes the whole table, first over
//! the older copy and then over the other. So a torn table leaves a whole one, every sync is atomic, and once it has
//! returned both copies are the same: one of them may rot.
//!
//! A creation takes the first free run that is long enough and fills it with durable zeros before anybody can name it. The
//! space of a removed region is given back (trimmed, where the medium takes it) and used again when the removal is durable
//! and its last user has let go.
//!
//! What is written beside each other here shares one medium. So a sync of one region is a sync of the device, and a
//! durable write or sync that fails is everybody's failure: from then on nothing is said to be durable any more, until the
//! device is opened anew.
//!
//! Parts: [`table`] is the bytes of a copy, [`copies`] reads and writes both, [`space`] knows which runs are free,
//! [`medium`] is the device with its failures, [`region`] what users read and write.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::request::{check_name, whole_blocks};
use crate::{Device, Directory, DirectoryLock, Error, Result};
use copies::Copies;
use medium::Medium;
use region::{RawDevice, Region};
use space::Space;
use table::{Entry, MOST, Table};

mod copies;
#[cfg(fuzzing)]
pub mod fuzz;
mod medium;
mod region;
mod space;
mod table;
#[cfg(test)]
mod tests;

/// A directory on one device: a raw block device ([`FileDevice::open_path`](crate::FileDevice::open_path)), a file, or
/// any other. Clones are handles to the same one.
///
/// Safe to share between threads; a sync of names keeps other name changes waiting, nothing else. Dropping it changes
/// nothing on the device: names that were not synced are gone, as after a crash.
///
/// It takes its device for itself ([`Device::lock`]) for as long as it or one of its devices lives. Over a device that can
/// not be locked, make no second one.
///
/// ```
/// use ishigaki_device::{Directory, MemoryDirectory, RawDirectory};
///
/// let device = MemoryDirectory::new().create("disk", 1 << 20)?;
/// let directory = RawDirectory::format(device.clone())?;
/// directory.create("log", 64 << 10)?;
/// directory.sync()?;
/// drop(directory);
/// assert_eq!(RawDirectory::open(device)?.list()?, ["log"]);
/// # Ok::<(), ishigaki_device::Error>(())
/// ```
#[derive(Clone)]
pub struct RawDirectory {
    shared: Arc<Shared>,
}

struct Shared {
    medium: Arc<Medium>,
    space: Arc<Space>,
    /// Held while the table is written, so that no change gets lost between two syncs.
    names: Mutex<Names>,
    locked: AtomicBool,
}

/// What everyone sees, and what a power cut may bring back.
struct Names {
    visible: BTreeMap<String, Arc<Region>>,
    /// Without a name since the last sync: their space is taken until their removal is durable.
    leaving: Vec<Arc<Region>>,
    copies: Copies,
}

impl RawDirectory {
    /// Makes an empty directory on a blank device.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] when the device is too small, or when there is anything but zeros where a table, a partition
    /// table or a file system would be: in its first 512 KiB and its last 64 KiB.
    pub fn format(device: Arc<dyn Device>) -> Result<Self> {
        let medium = Medium::new(device)?;
        copies::check_blank(&medium)?;
        Self::formatted(medium)
    }

    /// Makes an empty directory on a device, whatever it holds: that is lost.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] when the device is too small.
    pub fn format_anyway(device: Arc<dyn Device>) -> Result<Self> {
        Self::formatted(Medium::new(device)?)
    }

    fn formatted(medium: Medium) -> Result<Self> {
        let copies = Copies::format(&medium)?;
        Self::over(medium, copies, Table::default())
    }

    /// Opens the directory on a device.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] when the device was never formatted; [`Error::Damaged`] when neither copy of the table is whole
    /// or the table makes no sense; [`Error::Locked`] when another process has it.
    pub fn open(device: Arc<dyn Device>) -> Result<Self> {
        let medium = Medium::new(device)?;
        let (copies, table) = Copies::open(&medium)?;
        Self::over(medium, copies, table)
    }

    fn over(medium: Medium, copies: Copies, table: Table) -> Result<Self> {
        let medium = Arc::new(medium);
        let space = Arc::new(Space::new(table::DATA, medium.device().len()));
        let mut visible = BTreeMap::new();
        for Entry { name, start, length } in table.entries {
            let region = Region::at(&medium, &space, start, length)?;
            visible.insert(name, Arc::new(region));
        }
        let names = Mutex::new(Names { visible, leaving: Vec::new(), copies });
        Ok(Self { shared: Arc::new(Shared { medium, space, names, locked: AtomicBool::new(false) }) })
    }

    fn handle(name: &str, region: &Arc<Region>) -> Arc<dyn Device> {
        Arc::new(RawDevice::new(name, Arc::clone(region)))
    }
}

impl Names {
    /// Gives a region a name. Whoever had it leaves.
    fn name(&mut self, name: &str, region: Arc<Region>) {
        self.leaving.extend(self.visible.insert(name.to_owned(), region));
    }

    /// Takes a name away.
    fn take(&mut self, name: &str) -> Result<Arc<Region>> {
        self.visible.remove(name).ok_or_else(|| Error::NotFound { name: name.to_owned() })
    }

    fn table(&self) -> Table {
        let entry = |(name, region): (&String, &Arc<Region>)| Entry {
            name: name.clone(),
            start: region.start(),
            length: region.length(),
        };
        Table { entries: self.visible.iter().map(entry).collect() }
    }
}

impl Directory for RawDirectory {
    fn create(&self, name: &str, length: u64) -> Result<Arc<dyn Device>> {
        check_name(name)?;
        let Shared { medium, space, names, .. } = &*self.shared;
        let length = whole_blocks(name, length, medium.device().promise().block_size)?;
        let check = |names: &Names| match names.visible.len() {
            _ if names.visible.contains_key(name) => Err(Error::AlreadyExists { name: name.to_owned() }),
            // The table has no room for it, which is the medium's space too.
            MOST.. => Err(Error::NoSpace { name: name.to_owned(), needed: length }),
            _ => Ok(()),
        };
        // Only to spare the zeros; the naming below decides.
        check(&names.lock())?;
        let region = Arc::new(Region::take(medium, space, name, length)?);
        region.fill_with_zeros()?;
        let mut names = names.lock();
        check(&names)?;
        names.name(name, Arc::clone(&region));
        Ok(Self::handle(name, &region))
    }

    fn open(&self, name: &str) -> Result<Arc<dyn Device>> {
        check_name(name)?;
        let names = self.shared.names.lock();
        let region = names.visible.get(name).ok_or_else(|| Error::NotFound { name: name.to_owned() })?;
        let block = self.shared.medium.device().promise().block_size as u64;
        if region.length().is_multiple_of(block) {
            return Ok(Self::handle(name, region));
        }
        let reason = format!(
            "its length of {} bytes is not a multiple of the medium's block size {block}; it comes from a medium with \
             smaller blocks",
            region.length()
        );
        Err(Error::Damaged { name: name.to_owned(), reason })
    }

    fn list(&self) -> Result<Vec<String>> {
        Ok(self.shared.names.lock().visible.keys().cloned().collect())
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        check_name(from)?;
        check_name(to)?;
        let mut names = self.shared.names.lock();
        let region = names.take(from)?;
        names.name(to, region);
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<()> {
        check_name(name)?;
        let mut names = self.shared.names.lock();
        let region = names.take(name)?;
        names.leaving.push(region);
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        let mut names = self.shared.names.lock();
        let table = names.table();
        names.copies.write(&self.shared.medium, &table)?;
        // No table on the medium leads to them any more.
        for region in names.leaving.drain(..) {
            region.give_back_at_the_end();
        }
        Ok(())
    }

    fn lock(&self) -> Result<DirectoryLock> {
        if self.shared.locked.swap(true, Ordering::Acquire) {
            return Err(Error::Locked {
                directory: format!("{:?}", self.shared.medium.device()),
                holder: Some(format!("pid {}", std::process::id())),
            });
        }
        Ok(DirectoryLock::new(RawLock { shared: Arc::clone(&self.shared) }))
    }
}

impl fmt::Debug for RawDirectory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RawDirectory({:?})", self.shared.medium.device())
    }
}

/// Gives the directory free when it is dropped.
struct RawLock {
    shared: Arc<Shared>,
}

impl Drop for RawLock {
    fn drop(&mut self) {
        self.shared.locked.store(false, Ordering::Release);
    }
}
