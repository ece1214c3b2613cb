//! Files and raw block devices by `io_uring`: many writes in flight for one system call.
//!
//! Names, locking, creation, promises, syncs and trims are those of [`FileDirectory`] and [`FileDevice`]; only the way of
//! several writes at once differs ([`Device::write_all_durable`]): all are submitted together, the drive works on them
//! beside each other, and where it needs a flush one serves all.
//!
//! A lone transfer stays a system call. By a ring it would take as long on an idle machine; but the flush behind a
//! synchronous write would be made by a thread of the kernel's instead of the caller's, and that thread has to get a
//! processor first: on a busy machine it took 4 ms in place of 0.1. For the same reason syncs are system calls.
//!
//! Any number of threads may call at once. Each call takes a ring for itself out of a pool, or makes one if none is idle,
//! and waits with no lock held; so there are as many rings as calls were ever under way together. Buffers registered with
//! the kernel and rings bound to one thread were tried and left out: they made no difference beside the time of a drive.
//!
//! Parts: [`pool`] has the idle rings and sees every byte through, [`queue`] is one ring. Beside them, [`reads`] keeps many
//! reads in flight for one thread. Those two hold the only unsafe code.

use std::io;
use std::path::Path;
use std::sync::Arc;

use rustix::io::Errno;

use crate::{Device, Directory, DirectoryLock, Error, FileDevice, FileDirectory, Promise, ReadLock, Result};
use pool::Pool;

pub use reads::{Landed, Reads};

mod pool;
mod queue;
mod reads;
#[cfg(test)]
mod tests;

/// A [`FileDirectory`] whose devices write several runs at once by `io_uring`. Clones are handles to the same one.
///
/// A directory made by one is a directory of the other.
///
/// ```
/// # let place = tempfile::tempdir().expect("a place");
/// use ishigaki_device::{AlignedBuffer, Directory, Error, RingDirectory};
///
/// let directory = match RingDirectory::open(place.path()) {
///     Err(Error::NoRing { .. }) => return Ok(()), // the kernel has none or does not let us
///     opened => opened?,
/// };
/// let device = directory.create("log", 1 << 20)?;
/// let (one, two) = (AlignedBuffer::zeroed(4096), AlignedBuffer::zeroed(8192));
/// device.write_all_durable(&[(0, &one), (65536, &two)])?;
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct RingDirectory {
    files: FileDirectory,
}

impl RingDirectory {
    /// Opens a directory. Makes it, durably, and the directories above it, if it is missing.
    ///
    /// # Errors
    ///
    /// [`Error::NoRing`] where the kernel has no `io_uring` or does not let this process use it.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        Ok(Self { files: FileDirectory::open_with(path, rings(path)?)? })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.files.path()
    }
}

impl Directory for RingDirectory {
    fn create(&self, name: &str, length: u64) -> Result<Arc<dyn Device>> {
        Ok(Arc::new(RingDevice { file: self.files.create_file(name, length)? }))
    }

    fn grow(&self, name: &str, length: u64) -> Result<Arc<dyn Device>> {
        self.files.grow(name, length)?;
        self.open(name)
    }

    fn open(&self, name: &str) -> Result<Arc<dyn Device>> {
        Ok(Arc::new(RingDevice { file: self.files.open_device(name)? }))
    }

    fn open_remains(&self, name: &str) -> Result<Arc<dyn Device>> {
        self.files.open_remains(name)
    }

    fn list(&self) -> Result<Vec<String>> {
        self.files.list()
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.files.rename(from, to)
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.files.remove(name)
    }

    fn sync(&self) -> Result<()> {
        self.files.sync()
    }

    fn lock(&self) -> Result<DirectoryLock> {
        self.files.lock()
    }

    fn lock_to_read(&self) -> Result<ReadLock> {
        self.files.lock_to_read()
    }
}

/// A [`FileDevice`] that writes several runs at once by `io_uring`. Closed when dropped; safe to share between threads.
#[derive(Debug)]
pub struct RingDevice {
    file: FileDevice,
}

impl RingDevice {
    /// Opens a file or a raw block device by its path, as [`FileDevice::open_path`] does.
    ///
    /// # Errors
    ///
    /// As there, and [`Error::NoRing`] where the kernel has no `io_uring` or does not let this process use it.
    pub fn open_path(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        Ok(Self { file: FileDevice::open_with(path, rings(path)?)? })
    }
}

impl Device for RingDevice {
    fn promise(&self) -> Promise {
        self.file.promise()
    }

    fn writes_through(&self) -> Option<bool> {
        self.file.writes_through()
    }

    fn len(&self) -> u64 {
        self.file.len()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.file.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.file.write_at(offset, bytes)
    }

    fn write_durable(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.file.write_durable(offset, bytes)
    }

    fn write_all_durable(&self, writes: &[(u64, &[u8])]) -> Result<()> {
        self.file.write_all_durable(writes)
    }

    fn sync(&self) -> Result<()> {
        self.file.sync()
    }

    fn lock(&self) -> Result<DirectoryLock> {
        self.file.lock()
    }

    fn trim(&self, offset: u64, length: u64) -> Result<()> {
        self.file.trim(offset, length)
    }

    fn zero(&self, offset: u64, length: u64) -> Result<()> {
        self.file.zero(offset, length)
    }
}

/// A pool with its first ring in it, so that a kernel without any is found out at once.
fn rings(path: &Path) -> Result<Arc<Pool>> {
    match Pool::new() {
        Ok(pool) => Ok(Arc::new(pool)),
        Err(errno) => Err(Error::NoRing {
            name: path.display().to_string(),
            source: io::Error::from(errno),
            remedy: remedy(errno),
        }),
    }
}

/// What to do about a ring that can not be had.
fn remedy(errno: Errno) -> &'static str {
    match errno {
        Errno::NOSYS => "the kernel or the sandbox has none; use a plain directory of files",
        Errno::PERM | Errno::ACCESS => {
            "it is forbidden: set the sysctl kernel.io_uring_disabled to 0 and allow it in the container's seccomp \
             profile, or use a plain directory of files"
        }
        Errno::NOMEM => "raise the limit of locked memory (ulimit -l), or use a plain directory of files",
        Errno::MFILE | Errno::NFILE => "raise the limit of open files (ulimit -n)",
        _ => "use a plain directory of files",
    }
}
