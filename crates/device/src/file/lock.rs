//! Keeping a second process out of a directory, or of a device that is used as one.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use super::failed;
use crate::request::LOCK_NAME;
use crate::{DirectoryLock, Error, Result};

/// An advisory lock: on the file `LOCK`, which holds the process's number for whoever finds it locked, or on a device
/// itself. The operating system lets go of it when the process dies; the file stays.
#[derive(Debug)]
pub(super) struct FileLock {
    file: OwnedFd,
}

impl FileLock {
    /// Takes the lock or fails at once.
    pub(super) fn take(directory: &OwnedFd, path: &Path) -> Result<Self> {
        let io = |errno: Errno| failed(path, "lock", errno);
        // Never through a link, which would have another file emptied.
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = rustix::fs::openat(directory, LOCK_NAME, flags, Mode::RUSR | Mode::WUSR).map_err(io)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                return Err(Error::Locked { directory: path.display().to_string(), holder: holder(&file) });
            }
            Err(errno) => return Err(io(errno)),
        }
        rustix::fs::ftruncate(&file, 0).map_err(io)?;
        rustix::io::pwrite(&file, format!("{}\n", std::process::id()).as_bytes(), 0).map_err(io)?;
        Ok(Self { file })
    }
}

impl FileLock {
    /// Takes a share of the lock, for a reader who can write nothing there: others may have a share, and none has it alone.
    /// `None` if there is no lock file.
    pub(super) fn share(directory: &OwnedFd, path: &Path) -> Result<Option<Self>> {
        let io = |errno: Errno| failed(path, "lock", errno);
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = match rustix::fs::openat(directory, LOCK_NAME, flags, Mode::empty()) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(io(errno)),
        };
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) {
            Ok(()) => Ok(Some(Self { file })),
            Err(Errno::WOULDBLOCK) => {
                Err(Error::Locked { directory: path.display().to_string(), holder: holder(&file) })
            }
            Err(errno) => Err(io(errno)),
        }
    }
}

/// Takes a file or block device as a whole. Nothing is written there.
pub(super) fn take_device(file: &OwnedFd, name: &str) -> Result<DirectoryLock> {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Err(Error::Locked { directory: name.to_owned(), holder: None }),
        Err(errno) => return Err(failed(Path::new(name), "lock", errno)),
    }
    // The same lock, for as long as the guard lives.
    let file = file.try_clone().map_err(|source| failed(Path::new(name), "lock", source))?;
    Ok(DirectoryLock::new(FileLock { file }))
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // Said outright: a child that another thread is just starting holds the descriptor, too, until it runs its program.
        let _ = rustix::fs::flock(&self.file, FlockOperation::Unlock);
    }
}

/// The process that wrote the lock file, if it can be read and the process lives: one that only reads holds the lock without
/// writing its number.
fn holder(file: &OwnedFd) -> Option<String> {
    let mut text = [0; 32];
    let length = rustix::io::pread(file, &mut text, 0).ok()?;
    let pid: u32 = std::str::from_utf8(&text[..length]).ok()?.trim().parse().ok()?;
    Path::new("/proc").join(pid.to_string()).exists().then(|| format!("pid {pid}"))
}
