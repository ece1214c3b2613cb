//! One file or raw block device.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, FileType, OFlags, SeekFrom};
use rustix::io::{Errno, IoSlice, ReadWriteFlags};

use super::access::{self, Caching};
use super::{failed, refused};
use crate::request::Bounds;
use crate::{Device, Error, Promise, Result};

/// A file of fixed length or a raw block device. Closed when dropped; safe to share between threads.
///
/// [`write_durable`](Device::write_durable) is one system call (`RWF_DSYNC`), which the kernel turns into one write with
/// forced unit access where the medium has it, else into a write and a flush. After a [`trim`](Device::trim) of a file its
/// next writes there take space anew: they may fail for want of it and are slower than writes to space that was never
/// given back.
#[derive(Debug)]
pub struct FileDevice {
    file: OwnedFd,
    name: String,
    length: u64,
    promise: Promise,
    /// The kernel takes `RWF_DSYNC` for this file.
    synchronous_writes: AtomicBool,
    /// The medium has refused a trim that its description promised.
    trim_refused: AtomicBool,
}

impl FileDevice {
    /// Opens a file or a raw block device by its path. A block device that is mounted or otherwise in use is refused with
    /// [`Error::Locked`], and so is a second opening of it.
    pub fn open_path(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let status = rustix::fs::stat(path).map_err(|errno| refused(path, "open", 0, errno))?;
        // On a block device alone, `O_EXCL` means: not while it is in use.
        let flags = match FileType::from_raw_mode(status.st_mode) {
            FileType::BlockDevice => OFlags::EXCL,
            _ => OFlags::empty(),
        };
        let (file, caching) = access::open(CWD, path, flags, Caching::Avoided).map_err(|errno| match errno {
            Errno::BUSY => Error::Locked { directory: path.display().to_string(), holder: None },
            errno => refused(path, "open", 0, errno),
        })?;
        if caching == Caching::Used {
            access::warn_about_cache(path);
        }
        Self::opened(file, caching, path)
    }

    /// A file that was opened just now.
    pub(super) fn opened(file: OwnedFd, caching: Caching, path: &Path) -> Result<Self> {
        let io = |operation| move |errno: Errno| failed(path, operation, errno);
        let name = path.display().to_string();
        let status = rustix::fs::fstat(&file).map_err(io("open"))?;
        match FileType::from_raw_mode(status.st_mode) {
            FileType::BlockDevice => {
                let promise = access::promise_of_raw(&file, caching).map_err(io("probe"))?;
                let end = rustix::fs::seek(&file, SeekFrom::End(0)).map_err(io("find the end"))?;
                Ok(Self::new(file, name, end - end % promise.block_size as u64, promise))
            }
            FileType::RegularFile => {
                let length = status.st_size.cast_unsigned();
                let promise = access::promise_of_file(&file, length, caching).map_err(io("probe"))?;
                if !length.is_multiple_of(promise.block_size as u64) {
                    let block = promise.block_size;
                    let reason = format!(
                        "its length of {length} bytes is not a multiple of the medium's block size {block}; it was cut \
                         short or comes from a medium with smaller blocks"
                    );
                    return Err(Error::Invalid { name, reason });
                }
                Ok(Self::new(file, name, length, promise))
            }
            _ => Err(Error::Invalid { name, reason: "is neither a file nor a block device".to_owned() }),
        }
    }

    /// A file of which everything is known.
    pub(super) fn new(file: OwnedFd, name: String, length: u64, promise: Promise) -> Self {
        let trim_refused = AtomicBool::new(false);
        Self { file, name, length, promise, synchronous_writes: AtomicBool::new(true), trim_refused }
    }

    /// Makes everything durable, the length included.
    pub(super) fn sync_all(&self) -> Result<()> {
        rustix::fs::fsync(&self.file).map_err(|errno| self.failed("sync", errno))
    }

    fn bounds(&self) -> Bounds<'_> {
        Bounds { name: &self.name, block_size: self.promise.block_size, length: self.length }
    }

    fn failed(&self, operation: &'static str, source: impl Into<io::Error>) -> Error {
        failed(Path::new(&self.name), operation, source)
    }

    /// Writes all of `bytes`, however many calls that takes.
    fn write_all(&self, mut offset: u64, mut bytes: &[u8], flags: ReadWriteFlags) -> rustix::io::Result<()> {
        while !bytes.is_empty() {
            let written = match rustix::io::pwritev2(&self.file, &[IoSlice::new(bytes)], offset, flags) {
                // The medium takes nothing and does not say why.
                Ok(0) => return Err(Errno::IO),
                Ok(written) => written,
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(errno),
            };
            bytes = &bytes[written..];
            offset += written as u64;
        }
        Ok(())
    }

    fn write_failed(&self, bytes: &[u8]) -> impl FnOnce(Errno) -> Error {
        let needed = bytes.len() as u64;
        move |errno| refused(Path::new(&self.name), "write", needed, errno)
    }
}

impl Device for FileDevice {
    fn promise(&self) -> Promise {
        self.promise
    }

    fn len(&self) -> u64 {
        self.length
    }

    fn read_at(&self, mut offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.bounds().check_transfer(offset, buffer)?;
        let mut rest = buffer;
        while !rest.is_empty() {
            let read = match rustix::io::pread(&self.file, &mut *rest, offset) {
                // Somebody has cut the file short.
                Ok(0) => return Err(self.failed("read", io::ErrorKind::UnexpectedEof)),
                Ok(read) => read,
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(self.failed("read", errno)),
            };
            rest = &mut rest[read..];
            offset += read as u64;
        }
        Ok(())
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.bounds().check_transfer(offset, bytes)?;
        self.write_all(offset, bytes, ReadWriteFlags::empty()).map_err(self.write_failed(bytes))
    }

    fn write_durable(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.bounds().check_transfer(offset, bytes)?;
        if self.synchronous_writes.load(Ordering::Relaxed) {
            match self.write_all(offset, bytes, ReadWriteFlags::DSYNC) {
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                    if self.synchronous_writes.swap(false, Ordering::Relaxed) {
                        tracing::warn!(device = %self.name, "no synchronous writes here; each becomes a write and a sync");
                    }
                }
                outcome => return outcome.map_err(self.write_failed(bytes)),
            }
        }
        self.write_all(offset, bytes, ReadWriteFlags::empty()).map_err(self.write_failed(bytes))?;
        self.sync()
    }

    fn write_all_durable(&self, writes: &[(u64, &[u8])]) -> Result<()> {
        self.bounds().check_transfers(writes)?;
        writes.iter().try_for_each(|(offset, bytes)| self.write_durable(*offset, bytes))
    }

    fn sync(&self) -> Result<()> {
        // Not again after an interruption: a sync that failed once must not be made to succeed.
        rustix::fs::fdatasync(&self.file).map_err(|errno| self.failed("sync", errno))
    }

    fn trim(&self, offset: u64, length: u64) -> Result<()> {
        self.bounds().check_range(offset, length)?;
        if !self.promise.trim || length == 0 {
            return Ok(());
        }
        match rustix::io::retry_on_intr(|| rustix::fs::fallocate(&self.file, access::PUNCH, offset, length)) {
            Ok(()) => Ok(()),
            Err(Errno::OPNOTSUPP) => {
                if !self.trim_refused.swap(true, Ordering::Relaxed) {
                    tracing::warn!(device = %self.name, "the medium does not take space back, although it says that it would");
                }
                Ok(())
            }
            Err(errno) => Err(self.failed("trim", errno)),
        }
    }
}
