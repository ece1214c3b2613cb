//! A member as a directory of devices: for an engine of ours, whose log is then one more member's.
//!
//! An engine asks for less than a member gives: entries of a member are durable in their order, so a sync of anything makes
//! everything before it durable, names as well.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ishigaki_base::ErrorKind;
use ishigaki_device::{
    Device, Directory, DirectoryLock, Error as DeviceError, MAX_BLOCK_SIZE, Promise, Result as DeviceResult, SECTOR,
    check_name, check_transfer,
};
use parking_lot::Mutex;

use crate::{Durability, Error, File, Kind, Member};

/// A member's files as devices. Clones are the same directory, and one of their users can lock it.
///
/// A device's blocks have 512 bytes: the pool logs the bytes that changed, so larger ones would gain nothing. Directories of the
/// member are not shown. A limit of the member is [`ishigaki_device::Error::NoSpace`], which names it.
///
/// An engine takes a write of its log that fails for the end of that log. So where a member has no room for now, because its home
/// or another one does not keep up, a write waits, [five minutes](Self::PATIENCE) at most, as a write to a slow disk does. It ends
/// earlier where the pool is closed or fails, or the member does.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::sync::Arc;
/// use ishigaki_device::{AlignedBuffer, Directory, MemoryDirectory};
/// use ishigaki_logpool::{MemberDirectory, MemberSettings, Pool, Settings};
///
/// let pool = Pool::open_together(Arc::new(MemoryDirectory::new()), Settings::default())?;
/// let directory = MemberDirectory::new(pool.add("orders", MemberSettings::default())?);
/// let device = directory.create("wal-0", 1 << 20)?;
/// device.write_durable(512, &AlignedBuffer::zeroed(512))?;
/// assert_eq!(directory.list()?, ["wal-0"]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct MemberDirectory {
    member: Member,
    is_locked: Arc<AtomicBool>,
    /// Held while a device is made.
    births: Arc<Mutex<()>>,
    patience: Duration,
}

/// What a device is called until it is whole. Others can not be called so.
const UNBORN: &str = ".unborn";

impl MemberDirectory {
    /// Of a member that nobody else uses.
    pub fn new(member: Member) -> Self {
        Self { member, is_locked: Arc::default(), births: Arc::default(), patience: Self::PATIENCE }
    }

    /// How long a write waits for room that the member does not have for now.
    pub const PATIENCE: Duration = Duration::from_mins(5);

    /// With another time than [`PATIENCE`](Self::PATIENCE).
    #[must_use]
    pub fn with_patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// Makes a file of zeros. Its name and its length are two entries of the log, and a crash may come between them; so it has a
    /// name that no device can have until its bytes are durable.
    fn bear(&self, name: &str, length: u64) -> Result<File, Error> {
        if self.member.metadata(UNBORN).is_ok() {
            self.member.remove(UNBORN)?;
        }
        let file = self.member.create(UNBORN)?;
        file.zero(0, length, false, Durability::Now)?;
        self.member.rename(UNBORN, name)?;
        Ok(file)
    }

    fn device(&self, name: &str, file: File) -> DeviceResult<Arc<dyn Device>> {
        // What was written by others may end within a block.
        let length = file.length().map_err(|error| of_device(error, name, "open", 0))? / SECTOR as u64 * SECTOR as u64;
        Ok(Arc::new(MemberDevice { name: name.to_owned(), file, length, patience: self.patience }))
    }
}

impl Directory for MemberDirectory {
    fn create(&self, name: &str, length: u64) -> DeviceResult<Arc<dyn Device>> {
        check_name(name)?;
        let rounded = length.checked_next_multiple_of(SECTOR as u64).ok_or_else(|| DeviceError::Invalid {
            name: name.to_owned(),
            reason: format!("a length of {length} bytes is too large"),
        })?;
        let failed = |error| of_device(error, name, "create", rounded);
        let _one = self.births.lock();
        if self.member.metadata(name).is_ok() {
            return Err(DeviceError::AlreadyExists { name: name.to_owned() });
        }
        match self.bear(name, rounded) {
            Ok(file) => self.device(name, file),
            Err(error) => {
                // A pool that has failed refuses that, too, and the next creation finds what is left.
                let _ = self.member.remove(UNBORN);
                Err(failed(error))
            }
        }
    }

    fn open(&self, name: &str) -> DeviceResult<Arc<dyn Device>> {
        check_name(name)?;
        self.device(name, self.member.open(name).map_err(|error| of_device(error, name, "open", 0))?)
    }

    fn list(&self) -> DeviceResult<Vec<String>> {
        let names = self.member.list(None).map_err(|error| of_device(error, self.member.name(), "list", 0))?;
        let files = names.into_iter().filter(|(name, kind)| *kind == Kind::File && check_name(name).is_ok());
        Ok(files.map(|(name, _)| name).collect())
    }

    fn rename(&self, from: &str, to: &str) -> DeviceResult<()> {
        check_name(from)?;
        check_name(to)?;
        self.member.rename(from, to).map_err(|error| of_device(error, from, "rename", 0))
    }

    fn remove(&self, name: &str) -> DeviceResult<()> {
        check_name(name)?;
        self.member.remove(name).map_err(|error| of_device(error, name, "remove", 0))
    }

    fn sync(&self) -> DeviceResult<()> {
        self.member.sync().map_err(|error| of_device(error, self.member.name(), "sync", 0))
    }

    fn lock(&self) -> DeviceResult<DirectoryLock> {
        if self.is_locked.swap(true, Ordering::Acquire) {
            return Err(DeviceError::Locked { directory: format!("member {}", self.member.name()), holder: None });
        }
        Ok(DirectoryLock::new(Held(self.is_locked.clone())))
    }
}

/// Gives the directory free when it is dropped.
struct Held(Arc<AtomicBool>);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// A file of a member.
#[derive(Debug)]
struct MemberDevice {
    name: String,
    file: File,
    length: u64,
    patience: Duration,
}

impl MemberDevice {
    fn check(&self, offset: u64, memory: &[u8]) -> DeviceResult<()> {
        check_transfer(&self.name, SECTOR, self.length, offset, memory)
    }

    fn write(&self, offset: u64, bytes: &[u8], durability: Durability) -> DeviceResult<()> {
        self.file
            .patiently(self.patience, || self.file.write(offset, bytes, durability))
            .map_err(|error| of_device(error, &self.name, "write", bytes.len() as u64))
    }
}

impl Device for MemberDevice {
    fn promise(&self) -> Promise {
        // What lies within a block of the pool's is one entry; `direct` says that no cache of ours is in between.
        Promise { block_size: SECTOR, atomic_write: MAX_BLOCK_SIZE, direct: true, trim: true }
    }

    fn len(&self) -> u64 {
        self.length
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> DeviceResult<()> {
        self.check(offset, buffer)?;
        let failed = |error| of_device(error, &self.name, "read", 0);
        if self.file.read(offset, buffer).map_err(failed)? == buffer.len() {
            return Ok(());
        }
        let reason = "it has become shorter than when it was opened".to_owned();
        Err(DeviceError::Damaged { name: self.name.clone(), reason })
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> DeviceResult<()> {
        self.check(offset, bytes)?;
        self.write(offset, bytes, Durability::Later)
    }

    fn write_durable(&self, offset: u64, bytes: &[u8]) -> DeviceResult<()> {
        self.check(offset, bytes)?;
        self.write(offset, bytes, Durability::Now)
    }

    fn write_all_durable(&self, writes: &[(u64, &[u8])]) -> DeviceResult<()> {
        writes.iter().try_for_each(|(offset, bytes)| self.check(*offset, bytes))?;
        writes.iter().try_for_each(|(offset, bytes)| self.write(*offset, bytes, Durability::Later))?;
        self.sync()
    }

    fn sync(&self) -> DeviceResult<()> {
        let synced = self.file.patiently(self.patience, || self.file.sync(true));
        synced.map_err(|error| of_device(error, &self.name, "sync", 0))
    }

    fn trim(&self, offset: u64, length: u64) -> DeviceResult<()> {
        // Its blocks are zero from then on, so that zeros which are written there change nothing, and nothing is logged.
        if !offset.is_multiple_of(SECTOR as u64) || !length.is_multiple_of(SECTOR as u64) {
            let reason = format!("a trim of {length} bytes from {offset} is not one of whole blocks");
            return Err(DeviceError::Invalid { name: self.name.clone(), reason });
        }
        let end = offset.checked_add(length).filter(|&end| end <= self.length).ok_or_else(|| DeviceError::Invalid {
            name: self.name.clone(),
            reason: format!("a trim of {length} bytes from {offset} reaches past the end"),
        })?;
        self.file
            .patiently(self.patience, || self.file.zero(offset, end - offset, true, Durability::Later))
            .map_err(|error| of_device(error, &self.name, "trim", length))
    }
}

/// The pool's error as one of a device of that name.
fn of_device(error: Error, name: &str, operation: &'static str, needed: u64) -> DeviceError {
    let name = name.to_owned();
    match error {
        full if full.kind() == ErrorKind::Exhausted => DeviceError::NoSpace { name: format!("{name}: {full}"), needed },
        Error::NotFound { .. } => DeviceError::NotFound { name },
        Error::Exists { .. } => DeviceError::AlreadyExists { name },
        Error::NotEmpty { .. }
        | Error::IsDirectory { .. }
        | Error::NotDirectory { .. }
        | Error::Invalid { .. }
        | Error::Version { .. } => DeviceError::Invalid { name, reason: error.to_string() },
        Error::Corrupt { .. } => DeviceError::Damaged { name, reason: error.to_string() },
        other => DeviceError::Io { name, operation, source: io::Error::other(other) },
    }
}

#[cfg(test)]
mod tests;
