//! A simulated medium that loses power, fails and forgets, all by a seed.
//!
//! # What an engine must survive
//!
//! The faults are stated here first; the code below does these and no others.
//!
//! *Sectors.* The medium writes sectors of [`SECTOR`] bytes whole, whatever the block size.
//!
//! - A power cut finds, for every sector with writes in flight, its last durable bytes or those of **any** of these writes,
//!   each sector on its own: writes are torn, lost and reordered.
//! - A sync makes durable all that was written before it; a `write_durable` its own bytes only.
//! - The runs of a `write_all_durable` are in flight all at once until it returns, and durable together then; or one is
//!   durable before the next begins, as a setting says.
//! - A write that fails has reached any subset of its sectors. What it reached is in flight.
//! - A sync that fails leaves what was in flight **lost**: reads still see it, a power cut may still find it, but no later
//!   sync makes it durable, although it reports success. Only writing the sector again helps.
//! - Trimmed sectors read as zeros, as what they held, or as garbage until they are written again. The trim itself is in
//!   flight until the next sync.
//! - A flipped bit at rest stays flipped until its sector is written again.
//!
//! *Names.* A creation makes the bytes, zeros, and the length durable, but not the name.
//!
//! - Creations, renames and removals since the last directory sync survive a power cut each or not, in any combination. One
//!   rename is atomic: both of its names change or neither. A device has one name at most: should a rename survive that
//!   follows a lost one, the device leaves the name that it durably had.
//! - A directory sync that fails leaves these changes lost, as above.
//! - The space of a removed device is free when the removal is durable and its last user has let go.
//!
//! *The machine.* The power is cut **at** an operation: that one happens as if it were in flight, fails, and so does
//! everything after it. A process that dies without its machine loses nothing but its locks: what was in flight is seen by
//! the next process and stays in flight.
//!
//! Not simulated: misdirected writes, two media that fail together, reads that lie while the power stays on, time.
//!
//! # How it is used
//!
//! Run a workload, count its [`operations`](SimDirectory::operations), then run it once for each of them with
//! [`Fault::PowerCut`] there, and open [`survivors`](SimDirectory::survivors) with as many seeds as you have time for. The
//! same seed and the same calls give the same result; with several threads the calls' order is the threads' own.
//!
//! Parts: [`contents`] is one device's sectors, [`names`] the directory's entries, [`fault`] what goes wrong and when, [`chance`] the odds,
//! [`medium`] joins them under one lock; this file and [`device`] are the traits on top.

use std::fmt;
use std::sync::Arc;

use ishigaki_base::ByteSize;
use ishigaki_base::random::Seed;
use parking_lot::Mutex;

use crate::request::{check_name, is_block_size, whole_blocks};
use crate::{Device, Directory, DirectoryLock, Error, Result, SECTOR};

mod chance;
mod contents;
mod device;
mod fault;
mod medium;
mod names;
#[cfg(test)]
mod tests;

pub(crate) use chance::Chance;
pub use device::SimDevice;
pub use fault::Fault;
use medium::Medium;

/// How a [`SimDirectory`] behaves.
#[derive(Clone, Debug)]
pub struct SimSettings {
    /// Decides what failing writes reach and what trimmed sectors hold. What survives a power cut is decided by the seed
    /// given to [`SimDirectory::survivors`].
    pub seed: Seed,
    /// The block size of its devices, as a [`crate::Promise`] allows it.
    pub block_size: usize,
    /// Whether the runs of a `write_all_durable` are in flight all at once, as by a ring, and one operation; else each is
    /// a `write_durable` of its own.
    pub runs_at_once: bool,
    /// How much all devices together may hold; unlimited when `None`.
    pub capacity: Option<ByteSize>,
    /// What goes wrong; more can be added by [`SimDirectory::inject`].
    pub faults: Vec<Fault>,
}

impl Default for SimSettings {
    /// Seed 0, blocks of 512 bytes, runs at once, no limit, no faults.
    fn default() -> Self {
        Self { seed: Seed(0), block_size: SECTOR, runs_at_once: true, capacity: None, faults: Vec::new() }
    }
}

/// A directory on a simulated medium. Clones are handles to the same one.
///
/// ```
/// use ishigaki_base::random::Seed;
/// use ishigaki_device::{AlignedBuffer, Directory, Error, Fault, SimDirectory};
///
/// let directory = SimDirectory::with_seed(Seed(1));
/// let device = directory.create("log", 4096)?;
/// directory.sync()?;
/// directory.inject(Fault::PowerCut { operation: directory.operations() });
/// assert!(matches!(device.write_at(0, &AlignedBuffer::zeroed(512)), Err(Error::PowerCut { .. })));
/// assert_eq!(directory.survivors(Seed(2)).list()?, ["log"]);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone)]
pub struct SimDirectory {
    medium: Arc<Mutex<Medium>>,
}

impl SimDirectory {
    /// An empty directory.
    ///
    /// # Panics
    ///
    /// If the block size is not one that a [`crate::Promise`] may name.
    pub fn new(settings: SimSettings) -> Self {
        assert!(is_block_size(settings.block_size), "{} is no block size", settings.block_size);
        Self::over(Medium::new(settings))
    }

    /// An empty directory of that seed, everything else by default.
    pub fn with_seed(seed: Seed) -> Self {
        Self::new(SimSettings { seed, ..SimSettings::default() })
    }

    /// The name of [`medium`](Self::medium)'s device.
    pub const MEDIUM: &'static str = "medium";

    /// One device for something that wants a whole medium, as a [`RawDirectory`](crate::RawDirectory) does: opens the
    /// device [`MEDIUM`](Self::MEDIUM), or makes it with so many bytes, its name durable.
    pub fn medium(&self, length: u64) -> Result<Arc<dyn Device>> {
        match self.open(Self::MEDIUM) {
            Err(Error::NotFound { .. }) => {
                let device = self.create(Self::MEDIUM, length)?;
                self.sync()?;
                Ok(device)
            }
            opened => opened,
        }
    }

    fn over(medium: Medium) -> Self {
        Self { medium: Arc::new(Mutex::new(medium)) }
    }

    /// Plans one more fault. One whose moment has passed never comes.
    pub fn inject(&self, fault: Fault) {
        self.medium.lock().inject(fault);
    }

    /// How many operations there were: writes, syncs and trims of devices; creations, renames, removals and syncs of the
    /// directory. Several runs written at once are one operation and one write. The next one has this index. Requests that
    /// were refused before they reached the medium do not count.
    pub fn operations(&self) -> u64 {
        self.medium.lock().counts().operations
    }

    /// How many writes there were, durable ones included.
    pub fn writes(&self) -> u64 {
        self.medium.lock().counts().writes
    }

    /// How many syncs there were, of devices and of the directory.
    pub fn syncs(&self) -> u64 {
        self.medium.lock().counts().syncs
    }

    /// How many reads there were.
    pub fn reads(&self) -> u64 {
        self.medium.lock().counts().reads
    }

    /// Cuts the power between two operations. Does nothing when it is off already.
    pub fn power_cut_now(&self) {
        self.medium.lock().cut();
    }

    /// False after a power cut.
    pub fn power_is_on(&self) -> bool {
        self.medium.lock().power_is_on()
    }

    /// What a machine finds when the power comes back, chosen by the seed among all that the faults allow. Cuts the power
    /// of this directory if it was on: it and its devices are dead. May be asked again with another seed.
    ///
    /// The survivors have this directory's settings but no faults, count from zero, and hold nothing in flight.
    #[must_use]
    pub fn survivors(&self, seed: Seed) -> Self {
        let mut medium = self.medium.lock();
        medium.cut();
        Self::over(medium.survivors(seed))
    }

    /// What the next process finds after this one died and the machine did not: everything written, still in flight where
    /// it was, and no locks. This directory and its devices are dead, as after a power cut.
    ///
    /// The new directory has no faults and counts from zero.
    #[must_use]
    pub fn process_crash(&self) -> Self {
        let mut medium = self.medium.lock();
        let successor = medium.successor();
        medium.cut();
        Self::over(successor)
    }

    /// Flips a bit at rest: bit `bit` (0 is the lowest, 7 the highest) of the byte at `offset`, whether or not the power is
    /// on. It is flipped in all that the sector may hold.
    pub fn flip_bit(&self, name: &str, offset: u64, bit: u8) -> Result<()> {
        let mut medium = self.medium.lock();
        let id = medium.find(name)?;
        let contents = medium.contents_mut(id);
        if offset >= contents.length() || bit > 7 {
            return Err(Error::Invalid {
                name: name.to_owned(),
                reason: format!("there is no bit {bit} at offset {offset} of {} bytes", contents.length()),
            });
        }
        contents.flip_bit(offset, bit);
        Ok(())
    }

    /// Every device with its length in bytes, sorted by name.
    pub fn devices(&self) -> Vec<(String, u64)> {
        self.medium.lock().devices()
    }

    /// The offsets of the sectors that were ever written or trimmed, ascending; all others are zero. Where a flipped bit
    /// is worth the trouble.
    pub fn written(&self, name: &str) -> Result<Vec<u64>> {
        let mut medium = self.medium.lock();
        let id = medium.find(name)?;
        Ok(medium.contents_mut(id).written())
    }

    fn hand_out(&self, medium: &mut Medium, name: &str, id: medium::Id) -> Arc<dyn Device> {
        medium.take_handle(id);
        Arc::new(SimDevice::new(
            Arc::clone(&self.medium),
            id,
            name.to_owned(),
            medium.contents_mut(id).length(),
            medium.settings().block_size,
        ))
    }
}

impl Directory for SimDirectory {
    fn create(&self, name: &str, length: u64) -> Result<Arc<dyn Device>> {
        check_name(name)?;
        let mut medium = self.medium.lock();
        let length = whole_blocks(name, length, medium.settings().block_size)?;
        let id = medium.create(name, length)?;
        Ok(self.hand_out(&mut medium, name, id))
    }

    fn grow(&self, name: &str, length: u64) -> Result<Arc<dyn Device>> {
        check_name(name)?;
        let mut medium = self.medium.lock();
        let length = whole_blocks(name, length, medium.settings().block_size)?;
        let id = medium.grow(name, length)?;
        Ok(self.hand_out(&mut medium, name, id))
    }

    fn open(&self, name: &str) -> Result<Arc<dyn Device>> {
        check_name(name)?;
        let mut medium = self.medium.lock();
        medium.check_power(name)?;
        let id = medium.find(name)?;
        Ok(self.hand_out(&mut medium, name, id))
    }

    fn list(&self) -> Result<Vec<String>> {
        let medium = self.medium.lock();
        medium.check_power("directory")?;
        Ok(medium.devices().into_iter().map(|(name, _)| name).collect())
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        check_name(from)?;
        check_name(to)?;
        self.medium.lock().rename(from, to)
    }

    fn remove(&self, name: &str) -> Result<()> {
        check_name(name)?;
        self.medium.lock().remove(name)
    }

    fn sync(&self) -> Result<()> {
        self.medium.lock().sync_names()
    }

    fn lock(&self) -> Result<DirectoryLock> {
        self.medium.lock().take_lock()?;
        Ok(DirectoryLock::new(SimLock { directory: self.clone() }))
    }
}

impl fmt::Debug for SimDirectory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let medium = self.medium.lock();
        f.debug_struct("SimDirectory")
            .field("settings", medium.settings())
            .field("counts", &medium.counts())
            .field("power_is_on", &medium.power_is_on())
            .field("devices", &medium.devices())
            .finish_non_exhaustive()
    }
}

/// Gives the directory free when it is dropped.
#[derive(Debug)]
struct SimLock {
    directory: SimDirectory,
}

impl Drop for SimLock {
    fn drop(&mut self) {
        self.directory.medium.lock().give_lock_back();
    }
}
