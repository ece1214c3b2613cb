//! Files and raw block devices of the operating system.
//!
//! [`FileDirectory`] keeps each device as a file of its own name, read and written past the page cache (`O_DIRECT`) where
//! the file system takes it; where it does not, it says so once and its devices say so in their promise. Beside the devices
//! lie only the file `LOCK` and, for as long as a creation lasts, a hidden temporary file.
//!
//! A creation fills a temporary file with zeros, syncs it, and only then gives it its name: whoever sees the name finds the
//! length and the zeros. Because no block of it is unwritten any more, a later synchronous write carries no metadata of the
//! file system. What a crashed creation leaves is removed by the next one who locks the directory.
//!
//! Parts: [`device`] is one file, [`transfer`] how bytes get there, [`access`] opens a path and finds out what it promises,
//! [`queue`] is what the kernel says about the medium below, [`lock`] keeps others out.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ishigaki_base::random::Seed;
use rustix::fs::{AtFlags, Dir, FallocateFlags, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use crate::request::{check_longer, check_name, whole_blocks};
use crate::{AlignedBuffer, Device, Directory, DirectoryLock, Error, ReadLock, Result};
use access::Caching;
use device::Length;

mod access;
mod confined;
mod device;
mod lock;
mod queue;
#[cfg(test)]
mod tests;
mod transfer;

pub use access::Access;
pub use device::FileDevice;
pub(crate) use transfer::{Calls, Run, Transfer};

/// How a temporary file's name ends; it begins with a dot.
const TEMPORARY: &str = ".tmp";

/// How many bytes of zeros a creation writes at once.
const FILL: usize = 1 << 20;

/// Whether a new file's zeros are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Filling {
    Written,
    Reserved,
}

/// A directory of a file system, each device a file in it. Clones are handles to the same one.
///
/// Whether two processes may use it at a time is up to them: [`lock`](Directory::lock) it before the first change.
#[derive(Clone, Debug)]
pub struct FileDirectory {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    handle: OwnedFd,
    caching: Caching,
    access: Access,
    /// No name leads out of the directory.
    confined: bool,
    transfer: Arc<dyn Transfer>,
    /// It was said that the file system refuses `O_DIRECT`.
    warned: AtomicBool,
}

impl FileDirectory {
    /// Opens a directory. Makes it, durably, and the directories above it, if it is missing.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(path.as_ref(), Arc::new(Calls))
    }

    /// The same with another way for the bytes.
    pub(crate) fn open_with(path: &Path, transfer: Arc<dyn Transfer>) -> Result<Self> {
        Self::open_cached(path, Caching::Avoided, transfer)
    }

    /// Opens a directory that is there already, to read what lies in it: every file is opened for reading alone, and nothing in the
    /// directory is changed, its lock file included.
    pub fn to_read(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle = rustix::fs::open(path, flags, Mode::empty()).map_err(|errno| refused(path, "open", 0, errno))?;
        Ok(Self::of(path, handle, Caching::Avoided, (Access::ReadOnly, false), Arc::new(Calls)))
    }

    fn open_cached(path: &Path, caching: Caching, transfer: Arc<dyn Transfer>) -> Result<Self> {
        make_directory(path).map_err(|source| failed(path, "create directory", source))?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle = rustix::fs::open(path, flags, Mode::empty()).map_err(|errno| failed(path, "open", errno))?;
        Ok(Self::of(path, handle, caching, (Access::ReadWrite, false), transfer))
    }

    fn of(
        path: &Path,
        handle: OwnedFd,
        caching: Caching,
        (access, confined): (Access, bool),
        transfer: Arc<dyn Transfer>,
    ) -> Self {
        let (path, warned) = (path.to_owned(), AtomicBool::new(false));
        Self { shared: Arc::new(Shared { path, handle, caching, access, confined, transfer, warned }) }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    fn path_of(&self, name: &str) -> PathBuf {
        self.shared.path.join(name)
    }

    /// Opens the file of that name with the wanted caching, and says once if it can not be had.
    fn open_file(&self, name: &str, flags: OFlags) -> rustix::io::Result<(OwnedFd, Caching)> {
        let Shared { handle, access, caching: wanted, confined, .. } = &*self.shared;
        let flags = if *confined { flags | OFlags::NOFOLLOW } else { flags };
        let open = |access| access::open(handle, Path::new(name), flags, access, *wanted);
        let (file, caching) = match open(*access) {
            // What lies where nothing can be written is there to be read.
            Err(errno) if access::is_read_only(errno) && !flags.contains(OFlags::CREATE) && !self.is_writable() => {
                open(Access::ReadOnly)
            }
            opened => opened,
        }?;
        if caching != self.shared.caching && !self.shared.warned.swap(true, Ordering::Relaxed) {
            access::warn_about_cache(&self.shared.path);
        }
        Ok((file, caching))
    }

    /// Makes the file of the temporary name, `length` bytes of zeros rounded up, durable; returns it as a device. Where the
    /// file system sets the space aside, the zeros are written only if that is wanted.
    fn fill(&self, temporary: &str, name: &str, length: u64, filling: Filling) -> Result<FileDevice> {
        let path = self.path_of(name);
        let (file, caching) = self
            .open_file(temporary, OFlags::CREATE | OFlags::EXCL)
            .map_err(|errno| refused(&path, "create", length, errno))?;
        let promise = access::promise_of_new(&file, caching).map_err(|errno| failed(&path, "probe", errno))?;
        let length = whole_blocks(name, length, promise.block_size)?;
        let refused = |operation| move |errno| refused(&self.path_of(name), operation, length, errno);
        rustix::fs::ftruncate(&file, length).map_err(refused("set length"))?;
        let mut is_set_aside = length == 0;
        if length > 0 {
            match rustix::io::retry_on_intr(|| rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, length)) {
                Ok(()) => is_set_aside = true,
                // The zeros below take the space as well, only in more pieces.
                Err(Errno::OPNOTSUPP) => {}
                Err(errno) => return Err(refused("allocate")(errno)),
            }
        }
        let transfer = Arc::clone(&self.shared.transfer);
        let device = FileDevice::new(file, path.display().to_string(), length, promise, transfer);
        let zeros = AlignedBuffer::zeroed(FILL);
        let mut offset = if filling == Filling::Reserved && is_set_aside { length } else { 0 };
        while offset < length {
            let size = (length - offset).min(FILL as u64);
            device.write_at(offset, &zeros[..size as usize])?;
            offset += size;
        }
        device.sync_all()?;
        Ok(device)
    }

    /// Gives a finished temporary file its name, unless the name is taken.
    fn publish(&self, temporary: &str, name: &str) -> Result<()> {
        let handle = &self.shared.handle;
        let mut outcome = rustix::fs::renameat_with(handle, temporary, handle, name, RenameFlags::NOREPLACE);
        if matches!(outcome, Err(Errno::INVAL | Errno::NOSYS)) {
            // Not every file system knows a rename that replaces nothing, but a link never does.
            outcome = rustix::fs::linkat(handle, temporary, handle, name, AtFlags::empty());
            self.discard(temporary);
        }
        outcome.map_err(|errno| refused(&self.path_of(name), "create", 0, errno))
    }

    /// Removes a temporary file. That it stays is no harm: the next one who locks the directory tries again.
    fn discard(&self, temporary: &str) {
        let _ = rustix::fs::unlinkat(&self.shared.handle, temporary, AtFlags::empty());
    }

    /// Whether this process may make and remove files there.
    fn is_writable(&self) -> bool {
        self.why_read_only().is_none()
    }

    /// Why this process may make and remove no files there.
    fn why_read_only(&self) -> Option<Errno> {
        let wanted = rustix::fs::Access::WRITE_OK;
        let outcome = rustix::fs::accessat(&self.shared.handle, ".", wanted, AtFlags::EACCESS);
        outcome.err().filter(|&errno| access::is_read_only(errno))
    }

    /// The names of all files.
    fn files(&self) -> Result<Vec<String>> {
        let listed = |errno: Errno| failed(&self.shared.path, "list", errno);
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.shared.handle).map_err(listed)? {
            let entry = entry.map_err(listed)?;
            if entry.file_type() != FileType::Directory
                && let Ok(name) = entry.file_name().to_str()
            {
                names.push(name.to_owned());
            }
        }
        names.sort_unstable();
        Ok(names)
    }
}

impl FileDirectory {
    /// [`Directory::create`] with its type.
    pub(crate) fn create_file(&self, name: &str, length: u64) -> Result<FileDevice> {
        self.make_file(name, length, Filling::Written)
    }

    /// [`Directory::reserve`] with its type.
    pub(crate) fn reserve_file(&self, name: &str, length: u64) -> Result<FileDevice> {
        self.make_file(name, length, Filling::Reserved)
    }

    fn make_file(&self, name: &str, length: u64, filling: Filling) -> Result<FileDevice> {
        check_name(name)?;
        let path = self.path_of(name);
        // Only to spare the zeros; the publication decides.
        if rustix::fs::accessat(&self.shared.handle, name, rustix::fs::Access::EXISTS, AtFlags::empty()).is_ok() {
            return Err(Error::AlreadyExists { name: path.display().to_string() });
        }
        // At random, because a process with our number may have left files here, and we may hold this directory twice.
        let temporary = format!(".{name}.{:016x}{TEMPORARY}", Seed::from_entropy().0);
        let filled = self.fill(&temporary, name, length, filling);
        match filled.and_then(|device| self.publish(&temporary, name).map(|()| device)) {
            Ok(device) => Ok(device),
            Err(error) => {
                self.discard(&temporary);
                Err(error)
            }
        }
    }

    /// [`Directory::open`] with its type.
    pub fn open_device(&self, name: &str) -> Result<FileDevice> {
        self.open_as(name, Length::OfADevice)
    }

    fn grow_file(&self, name: &str, length: u64) -> Result<FileDevice> {
        let device = self.open_device(name)?;
        let length = whole_blocks(name, length, device.promise().block_size)?;
        let path = self.path_of(name);
        check_longer(name, device.len(), length)?;
        // The space comes before the length: a file that can not have it stays as it is.
        let more = length - device.len();
        if more == 0 {
            return Ok(device);
        }
        let reserve = |flags| {
            let file = device.as_fd();
            rustix::io::retry_on_intr(|| rustix::fs::fallocate(file, flags, device.len(), more))
        };
        let reserved = reserve(FallocateFlags::KEEP_SIZE).and_then(|()| reserve(FallocateFlags::empty()));
        reserved.map_err(|errno| refused(&path, "allocate", more, errno))?;
        device.sync_all()?;
        drop(device);
        self.open_device(name)
    }

    fn open_as(&self, name: &str, length: Length) -> Result<FileDevice> {
        check_name(name)?;
        let path = self.path_of(name);
        self.check_confined(name)?;
        let (file, caching) =
            self.open_file(name, OFlags::empty()).map_err(|errno| refused(&path, "open", 0, errno))?;
        FileDevice::opened(file, caching, &path, length, Arc::clone(&self.shared.transfer))
    }
}

impl Directory for FileDirectory {
    fn create(&self, name: &str, length: u64) -> Result<Arc<dyn Device>> {
        Ok(Arc::new(self.create_file(name, length)?))
    }

    fn reserve(&self, name: &str, length: u64) -> Result<Arc<dyn Device>> {
        Ok(Arc::new(self.reserve_file(name, length)?))
    }

    fn room(&self) -> Result<Option<u64>> {
        let figures = rustix::fs::fstatvfs(&self.shared.handle)
            .map_err(|errno| refused(&self.shared.path, "look at the free space of", 0, errno))?;
        Ok(Some(figures.f_bavail.saturating_mul(figures.f_frsize)))
    }

    fn grow(&self, name: &str, length: u64) -> Result<Arc<dyn Device>> {
        Ok(Arc::new(self.grow_file(name, length)?))
    }

    fn open(&self, name: &str) -> Result<Arc<dyn Device>> {
        Ok(Arc::new(self.open_device(name)?))
    }

    fn open_remains(&self, name: &str) -> Result<Arc<dyn Device>> {
        Ok(Arc::new(self.open_as(name, Length::Any)?))
    }

    fn list(&self) -> Result<Vec<String>> {
        Ok(self.files()?.into_iter().filter(|name| check_name(name).is_ok()).collect())
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        check_name(from)?;
        check_name(to)?;
        rustix::fs::renameat(&self.shared.handle, from, &self.shared.handle, to)
            .map_err(|errno| refused(&self.path_of(from), "rename", 0, errno))
    }

    fn remove(&self, name: &str) -> Result<()> {
        check_name(name)?;
        rustix::fs::unlinkat(&self.shared.handle, name, AtFlags::empty())
            .map_err(|errno| refused(&self.path_of(name), "remove", 0, errno))
    }

    fn sync(&self) -> Result<()> {
        rustix::fs::fsync(&self.shared.handle).map_err(|errno| failed(&self.shared.path, "sync", errno))
    }

    fn lock(&self) -> Result<DirectoryLock> {
        if let Some(errno) = self.why_read_only() {
            // Also where the lock's own file could be written: no other can be made.
            return Err(read_only(&self.shared.path, "lock", errno));
        }
        let lock = lock::FileLock::take(&self.shared.handle, &self.shared.path)?;
        // Nobody else creates anything now, so whatever looks unfinished is abandoned.
        for name in self.files()? {
            if name.starts_with('.') && name.ends_with(TEMPORARY) {
                self.discard(&name);
            }
        }
        Ok(DirectoryLock::new(lock))
    }

    fn lock_to_read(&self) -> Result<ReadLock> {
        let is_writable = self.is_writable();
        if is_writable && self.shared.access == Access::ReadWrite {
            return self.lock().map(ReadLock::Sole);
        }
        let lock = lock::FileLock::share(&self.shared.handle, &self.shared.path)?;
        if is_writable {
            return Ok(ReadLock::Reader(lock.map(DirectoryLock::new)));
        }
        Ok(lock.map_or(ReadLock::Nothing, |lock| ReadLock::Shared(DirectoryLock::new(lock))))
    }
}

/// Makes a directory and those above it, and their names durable.
fn make_directory(path: &Path) -> io::Result<()> {
    let parent = match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => return Ok(()),
    };
    let mut was_there = false;
    let mut builder = fs::DirBuilder::new();
    builder.mode(0o700);
    match builder.create(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            make_directory(parent)?;
            builder.create(path)?;
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => was_there = true,
        outcome => outcome?,
    }
    // Even if it was there: whoever made it may have died before this.
    match fs::File::open(parent) {
        Ok(parent) => match parent.sync_all() {
            // A medium that is only read has nothing to sync, and some say so.
            Err(error) if was_there && has_nothing_to_sync(&error) => Ok(()),
            synced => synced,
        },
        // Then it is not ours to sync, and was not ours to make.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        Err(error) => Err(error),
    }
}

fn has_nothing_to_sync(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::InvalidInput)
}

/// The operating system's error as one of ours, for what it says about the request.
fn refused(path: &Path, operation: &'static str, needed: u64, errno: Errno) -> Error {
    let name = path.display().to_string();
    match errno {
        Errno::NOENT => Error::NotFound { name },
        Errno::EXIST => Error::AlreadyExists { name },
        Errno::NOSPC | Errno::DQUOT | Errno::FBIG => Error::NoSpace { name, needed },
        _ => failed(path, operation, errno),
    }
}

/// The operating system's error as a failure of the medium.
fn failed(path: &Path, operation: &'static str, source: impl Into<io::Error>) -> Error {
    let (name, source) = (path.display().to_string(), source.into());
    match source.kind() {
        io::ErrorKind::ReadOnlyFilesystem => Error::ReadOnly { name, operation, source },
        _ => Error::Io { name, operation, source },
    }
}

/// What can not be done where nothing can be written.
fn read_only(path: &Path, operation: &'static str, source: impl Into<io::Error>) -> Error {
    Error::ReadOnly { name: path.display().to_string(), operation, source: source.into() }
}
