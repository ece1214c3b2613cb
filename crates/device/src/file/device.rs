//! One file or raw block device.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use ishigaki_base::ByteSize;
use rustix::fs::{CWD, FileType, OFlags, SeekFrom};
use rustix::io::{Errno, ReadWriteFlags};

use super::access::{self, Access, Caching};
use super::lock;
use super::queue::Queue;
use super::{Calls, Run, Transfer, failed, read_only, refused};
use crate::device::write_zeros;
use crate::request::Bounds;
use crate::{Device, DirectoryLock, Error, MAX_BLOCK_SIZE, Promise, Result};

/// A file of fixed length or a raw block device. Closed when dropped; safe to share between threads.
///
/// [`write_durable`](Device::write_durable) is one system call (`RWF_DSYNC`), which the kernel turns into one write with
/// forced unit access where the medium has it, else into a write and a flush. Several runs at once
/// ([`write_all_durable`](Device::write_all_durable)) share one flush where a flush is needed. A write that the promise
/// calls atomic is asked for as such (`RWF_ATOMIC`), and fails where the medium would not keep that promise. After a [`trim`](Device::trim) of a file its
/// next writes there take space anew: they may fail for want of it and are slower than writes to space that was never
/// given back.
pub struct FileDevice {
    file: OwnedFd,
    name: String,
    length: u64,
    promise: Promise,
    transfer: Arc<dyn Transfer>,
    /// See [`Device::writes_through`].
    ///
    /// The kernel is asked when a write wants to know: a file that is only read is opened without.
    writes_through: OnceLock<Option<bool>>,
    /// The kernel takes `RWF_DSYNC` for this file.
    synchronous_writes: AtomicBool,
    /// The medium has refused a trim that its description promised.
    trim_refused: AtomicBool,
    /// It was opened for reading alone.
    only_reads: bool,
}

/// Which lengths a file may have that is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Length {
    /// Whole blocks.
    OfADevice,
    /// Any. Its whole blocks are there to be read, and nothing can be written.
    Any,
}

impl FileDevice {
    /// Opens a file or a raw block device by its path. A block device that is mounted or otherwise in use is refused with
    /// [`Error::Locked`], and so is a second opening of it.
    pub fn open_path(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(path.as_ref(), Arc::new(Calls))
    }

    /// The same for a user who only reads: it is opened for reading alone.
    pub fn open_path_to_read(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_as(path.as_ref(), Access::ReadOnly, Arc::new(Calls))
    }

    /// The same with another way for the bytes.
    pub(crate) fn open_with(path: &Path, transfer: Arc<dyn Transfer>) -> Result<Self> {
        Self::open_as(path, Access::ReadWrite, transfer)
    }

    fn open_as(path: &Path, wanted: Access, transfer: Arc<dyn Transfer>) -> Result<Self> {
        let status = rustix::fs::stat(path).map_err(|errno| refused(path, "open", 0, errno))?;
        // On a block device alone, `O_EXCL` means: not while it is in use.
        let flags = match FileType::from_raw_mode(status.st_mode) {
            FileType::BlockDevice => OFlags::EXCL,
            _ => OFlags::empty(),
        };
        let open = |access| access::open(CWD, path, flags, access, Caching::Avoided);
        let opened = match open(wanted) {
            // What lies where nothing can be written is there to be read.
            Err(errno) if access::is_read_only(errno) => open(Access::ReadOnly),
            opened => opened,
        };
        let (file, caching) = opened.map_err(|errno| match errno {
            Errno::BUSY => Error::Locked { directory: path.display().to_string(), holder: None },
            errno => refused(path, "open", 0, errno),
        })?;
        if caching == Caching::Used {
            access::warn_about_cache(path);
        }
        Self::opened(file, caching, path, Length::OfADevice, transfer)
    }

    /// A file that was opened just now.
    pub(super) fn opened(
        file: OwnedFd,
        caching: Caching,
        path: &Path,
        wanted: Length,
        transfer: Arc<dyn Transfer>,
    ) -> Result<Self> {
        let io = |operation| move |errno: Errno| failed(path, operation, errno);
        let name = path.display().to_string();
        let status = rustix::fs::fstat(&file).map_err(io("open"))?;
        match FileType::from_raw_mode(status.st_mode) {
            FileType::BlockDevice => {
                let promise = access::promise_of_raw(&file, caching).map_err(io("probe"))?;
                let end = rustix::fs::seek(&file, SeekFrom::End(0)).map_err(io("find the end"))?;
                Ok(Self::new(file, name, end - end % promise.block_size as u64, promise, transfer))
            }
            FileType::RegularFile => {
                let length = status.st_size.cast_unsigned();
                let promise = access::promise_of_file(&file, length, caching).map_err(io("probe"))?;
                let block = promise.block_size as u64;
                if wanted == Length::Any {
                    let mut remains =
                        Self::new(file, name, length - length % block, Promise { trim: false, ..promise }, transfer);
                    remains.only_reads = true;
                    return Ok(remains);
                }
                if !length.is_multiple_of(block) {
                    let reason = format!(
                        "its length of {length} bytes is not a multiple of the medium's block size {block}; it was cut \
                         short or made longer, or comes from a medium with smaller blocks"
                    );
                    return Err(Error::Damaged { name, reason });
                }
                Ok(Self::new(file, name, length, promise, transfer))
            }
            _ => Err(Error::Invalid { name, reason: "is neither a file nor a block device".to_owned() }),
        }
    }

    /// A file of which everything is known.
    pub(super) fn new(file: OwnedFd, name: String, length: u64, promise: Promise, transfer: Arc<dyn Transfer>) -> Self {
        let (synchronous_writes, trim_refused) = (AtomicBool::new(true), AtomicBool::new(false));
        let only_reads = access::only_reads(&file);
        let writes_through = OnceLock::new();
        Self { file, name, length, promise, transfer, writes_through, synchronous_writes, trim_refused, only_reads }
    }

    /// Makes everything durable, the length included.
    pub(super) fn sync_all(&self) -> Result<()> {
        rustix::fs::fsync(&self.file).map_err(|errno| self.failed("sync", errno))
    }

    /// Its path, as it was opened.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What tells it from every other file of this host as long as it is there: the number of its file system and its own
    /// there.
    pub fn identity(&self) -> Result<(u64, u64)> {
        let status = rustix::fs::fstat(&self.file).map_err(|errno| self.failed("open", errno))?;
        Ok((status.st_dev, status.st_ino))
    }

    /// Refuses a transfer that no device like this could serve.
    pub(crate) fn check_transfer(&self, offset: u64, memory: &[u8]) -> Result<()> {
        self.bounds().check_transfer(offset, memory)
    }

    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    fn bounds(&self) -> Bounds<'_> {
        Bounds { name: &self.name, block_size: self.promise.block_size, length: self.length }
    }

    fn failed(&self, operation: &'static str, source: impl Into<io::Error>) -> Error {
        failed(Path::new(&self.name), operation, source)
    }

    /// A write as the medium is to be asked for it: as one that is whole or not at all where that is promised.
    fn run<'a>(&self, offset: u64, bytes: &'a [u8], flags: ReadWriteFlags) -> Run<'a> {
        let atomic = self.any_is_atomic(&[(offset, bytes)]);
        Run { offset, bytes, flags: if atomic { flags | RWF_ATOMIC } else { flags } }
    }

    fn any_is_atomic(&self, writes: &[(u64, &[u8])]) -> bool {
        writes.iter().any(|(offset, bytes)| is_atomic(self.promise.atomic_write, *offset, bytes.len()))
    }

    /// Writes runs, beside each other where the transfer can.
    fn write(&self, writes: &[(u64, &[u8])], flags: ReadWriteFlags) -> rustix::io::Result<()> {
        match writes {
            [(offset, bytes)] => self.transfer.write(&self.file, &[self.run(*offset, bytes, flags)]),
            writes => {
                let runs: Vec<Run> = writes.iter().map(|(offset, bytes)| self.run(*offset, bytes, flags)).collect();
                self.transfer.write(&self.file, &runs)
            }
        }
    }

    /// True when these writes had better be synchronous, each for itself, than followed by one sync: when there is only
    /// one, or when no write costs a flush of the drive's cache.
    fn synchronously(&self, count: usize) -> bool {
        self.synchronous_writes.load(Ordering::Relaxed) && (count == 1 || self.writes_through() == Some(true))
    }

    fn is_shorter_than(&self, end: u64) -> bool {
        let status = rustix::fs::fstat(&self.file);
        status.is_ok_and(|status| {
            FileType::from_raw_mode(status.st_mode) == FileType::RegularFile && status.st_size.cast_unsigned() < end
        })
    }

    fn check_writable(&self, operation: &'static str) -> Result<()> {
        if self.only_reads { Err(read_only(Path::new(&self.name), operation, Errno::ROFS)) } else { Ok(()) }
    }

    fn write_failed(&self, writes: &[(u64, &[u8])]) -> impl FnOnce(Errno) -> Error {
        let needed = writes.iter().map(|(_, bytes)| bytes.len() as u64).sum();
        move |errno| refused(Path::new(&self.name), "write", needed, errno)
    }

    /// Makes a hole, whose blocks the medium has back.
    fn punch(&self, offset: u64, length: u64) -> Result<(), Errno> {
        rustix::io::retry_on_intr(|| rustix::fs::fallocate(&self.file, access::PUNCH, offset, length))
    }
}

impl Device for FileDevice {
    fn promise(&self) -> Promise {
        self.promise
    }

    fn writes_through(&self) -> Option<bool> {
        *self.writes_through.get_or_init(|| Queue::of(&self.file).ok().and_then(|queue| queue.writes_through()))
    }

    fn len(&self) -> u64 {
        self.length
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.bounds().check_transfer(offset, buffer)?;
        self.transfer.read(&self.file, offset, buffer).map_err(|errno| match errno {
            // Another process has cut the file short. Of a file that is long enough the kernel says by it that the medium failed.
            Errno::NODATA if self.is_shorter_than(offset + buffer.len() as u64) => {
                self.failed("read", io::ErrorKind::UnexpectedEof)
            }
            errno => self.failed("read", errno),
        })
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.bounds().check_transfer(offset, bytes)?;
        self.check_writable("write")?;
        let writes = [(offset, bytes)];
        self.write(&writes, ReadWriteFlags::empty()).map_err(self.write_failed(&writes))
    }

    fn write_durable(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.write_all_durable(&[(offset, bytes)])
    }

    fn write_all_durable(&self, writes: &[(u64, &[u8])]) -> Result<()> {
        self.bounds().check_transfers(writes)?;
        if writes.is_empty() {
            return Ok(());
        }
        self.check_writable("write")?;
        if self.synchronously(writes.len()) {
            match self.write(writes, ReadWriteFlags::DSYNC) {
                Err(Errno::OPNOTSUPP | Errno::NOSYS) if !self.any_is_atomic(writes) => {
                    if self.synchronous_writes.swap(false, Ordering::Relaxed) {
                        tracing::warn!(device = %self.name, "no synchronous writes here; each becomes a write and a sync");
                    }
                }
                outcome => return outcome.map_err(self.write_failed(writes)),
            }
        }
        self.write(writes, ReadWriteFlags::empty()).map_err(self.write_failed(writes))?;
        self.sync()
    }

    fn sync(&self) -> Result<()> {
        // Not again after an interruption: a sync that failed once must not be made to succeed.
        rustix::fs::fdatasync(&self.file).map_err(|errno| self.failed("sync", errno))
    }

    fn lock(&self) -> Result<DirectoryLock> {
        lock::take_device(&self.file, &self.name)
    }

    fn trim(&self, offset: u64, length: u64) -> Result<()> {
        self.bounds().check_range(offset, length)?;
        if !self.promise.trim || length == 0 {
            return Ok(());
        }
        match self.punch(offset, length) {
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

    fn zero(&self, offset: u64, length: u64) -> Result<()> {
        self.bounds().check_range(offset, length)?;
        if length == 0 {
            return Ok(());
        }
        self.check_writable("write")?;
        // A hole of a file reads as zeros, and so does that of a block device, by the kernel's word.
        match self.punch(offset, length) {
            Ok(()) => Ok(()),
            Err(Errno::OPNOTSUPP) => write_zeros(self, offset, length),
            Err(errno) => Err(self.failed("write", errno)),
        }
    }
}

impl fmt::Debug for FileDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FileDevice({}, {})", self.name, ByteSize(self.length))
    }
}

/// `RWF_ATOMIC` of `linux/fs.h`: all or nothing, and an error where that can not be had.
const RWF_ATOMIC: ReadWriteFlags = ReadWriteFlags::from_bits_retain(0x40);

/// True for a write that has to be asked for as atomic, because it is larger than a sector and yet promised to be whole.
fn is_atomic(promised: usize, offset: u64, length: usize) -> bool {
    (MAX_BLOCK_SIZE..=promised).contains(&length) && length.is_power_of_two() && offset.is_multiple_of(length as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AlignedBuffer;

    #[test]
    fn runs_written_together_are_there_with_one_flush_and_with_none() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        file.as_file().set_len(65536).expect("its length");
        let mut device = FileDevice::open_path(file.path()).expect("opened");
        for (byte, writes_through) in [(1, None), (2, Some(false)), (3, Some(true))] {
            device.writes_through = OnceLock::from(writes_through);
            assert_eq!(device.synchronously(2), writes_through == Some(true));
            assert!(device.synchronously(1), "a lone write is always synchronous");
            let mut block = AlignedBuffer::zeroed(4096);
            block.fill(byte);
            device.write_all_durable(&[(0, &block), (8192, &block)]).expect("written");
            let mut back = AlignedBuffer::zeroed(12288);
            device.read_at(0, &mut back).expect("read");
            assert_eq!((back[0], back[4095], back[4096], back[8192]), (byte, byte, 0, byte));
        }
    }

    #[test]
    fn a_write_that_can_not_be_kept_whole_as_promised_fails() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        file.as_file().set_len(65536).expect("its length");
        let mut device = FileDevice::open_path(file.path()).expect("opened");
        let block = AlignedBuffer::zeroed(MAX_BLOCK_SIZE);
        device.write_durable(0, &block).expect("written");
        if device.promise.atomic_write >= MAX_BLOCK_SIZE {
            // Here the promise is kept; a block is enough to show that the kernel takes the flag.
            return;
        }
        device.promise.atomic_write = MAX_BLOCK_SIZE;
        for outcome in [device.write_durable(0, &block), device.write_at(0, &block)] {
            assert!(matches!(outcome, Err(Error::Io { operation: "write", .. })), "{outcome:?}");
        }
        assert!(device.synchronously(1), "it is not the synchronous write that was refused");
        device.write_durable(0, &block[..crate::SECTOR]).expect("a sector is whole anyway");
    }

    #[test]
    fn a_write_is_asked_for_as_atomic_where_that_is_promised_of_it() {
        assert!(is_atomic(65536, 0, 4096) && is_atomic(65536, 65536, 65536) && is_atomic(4096, 8192, 4096));
        for (promised, offset, length) in [
            (512, 0, 4096),
            (65536, 4096, 8192),
            (65536, 0, 12288),
            (65536, 0, 2048),
            (65536, 0, 131_072),
            (65536, 0, 0),
        ] {
            assert!(!is_atomic(promised, offset, length), "{length} at {offset} of {promised}");
        }
    }
}
