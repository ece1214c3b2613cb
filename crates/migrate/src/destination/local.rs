//! A directory of this host: ext4, xfs, btrfs or tmpfs.
//!
//! Everything is done on descriptors, so a path may have any length, and what clients rename meanwhile changes nothing. Root is needed: for
//! extended attributes below `trusted.`, for owners, and to read without touching times of access.
//!
//! [`Local::check`] tries on the file system itself what the engine builds on.
//!
//! Parts: `held` is an inode with a descriptor.

mod held;

use std::ffi::{OsStr, OsString};
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI32, Ordering};

use rustix::fs::{Advice, AtFlags, FallocateFlags, Mode, OFlags, RenameFlags, SeekFrom, XattrFlags};
use rustix::io::Errno;

use super::{Destination, Make, Name, NodeId};
use crate::source::path::stat;
use crate::source::{Attributes, FileType, Owner, Timestamp};

pub use held::Held;

/// What an extended attribute, or the list of their names, may hold on Linux.
const XATTR_MOST: usize = 64 << 10;
const EXT4: u64 = 0xEF53;
const XFS: u64 = 0x5846_5342;
const TMPFS: u64 = 0x0102_1994;

/// A directory, and the file system that it is in.
///
/// *Threads*: any number. *Drop* closes it.
pub struct Local {
    root: Held,
    /// The same directory, open for `syncfs`.
    readable: OwnedFd,
    block: u64,
    ordered: bool,
    /// The system's number of the error of the first sync that failed; 0 while none has.
    unsynced: AtomicI32,
}

impl Local {
    /// The directory of that path.
    ///
    /// # Errors
    ///
    /// Of the system, if there is no such directory.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = Held::new(rustix::fs::open(path, flags, Mode::empty())?)?;
        let readable = root.reopen(OFlags::RDONLY | OFlags::DIRECTORY)?;
        let block = rustix::fs::fstatvfs(&readable)?.f_frsize;
        let kind = rustix::fs::fstatfs(&readable)?.f_type as u64;
        Ok(Self { root, readable, block, ordered: [EXT4, XFS, TMPFS].contains(&kind), unsynced: AtomicI32::new(0) })
    }

    /// Tries what the engine builds on, with a file that has no name: holes are told from data, block by block, and records
    /// can be kept.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::Unsupported`] with what the file system does otherwise; errors of the system.
    pub fn check(&self, attribute: &OsStr) -> io::Result<()> {
        let refuse = |why: &str| {
            let message = format!("the file system can not be migrated into: {why}; use ext4, xfs or btrfs, as root");
            Err(io::Error::new(io::ErrorKind::Unsupported, message))
        };
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let file = match rustix::fs::openat(&self.root, ".", flags, Mode::from_raw_mode(0o600)) {
            Ok(file) => Held::with_data(file)?,
            Err(Errno::OPNOTSUPP) => return refuse("it has no files without a name"),
            Err(error) => return Err(error.into()),
        };
        match self.set_xattr(&file, attribute, &[1; 100]) {
            Err(error) if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) => {
                return Err(error);
            }
            Err(error) => return refuse(&format!("it does not take the attribute {}: {error}", attribute.display())),
            Ok(()) => self.remove_xattr(&file, attribute)?,
        }
        let at = (8 << 20) / self.block * self.block;
        self.truncate(&file, 2 * at)?;
        if self.next_data(&file, 0)?.is_some() {
            return refuse("a larger size makes data of holes");
        }
        self.write_at(&file, at, &vec![1; self.block as usize])?;
        if self.next_data(&file, 0)? != Some(at..at + self.block) {
            return refuse("a written block makes data of holes beside it");
        }
        self.sync(&file)?;
        if self.next_data(&file, 0)? != Some(at..at + self.block) || self.next_data(&file, at + self.block)?.is_some() {
            return refuse("holes beside data are lost when it is synced");
        }
        self.punch(&file, at..at + self.block)?;
        if self.next_data(&file, 0)?.is_some() {
            return refuse("a punched hole is data");
        }
        self.truncate(&file, at + 1)?;
        if self.next_data(&file, 0)?.is_some() {
            return refuse("a smaller size makes data of holes");
        }
        self.write_at(&file, at, &[1])?;
        self.punch(&file, 0..at + self.block)?;
        if self.next_data(&file, 0)?.is_some() {
            return refuse("a hole that is punched at the end is data");
        }
        Ok(())
    }

    /// The system tells of data that it could not write once only, and drops or keeps it as if it were written: after that no sync proves anything.
    fn synced(&self, sync: impl FnOnce() -> rustix::io::Result<()>) -> io::Result<()> {
        let failed = self.unsynced.load(Ordering::Acquire);
        let failed = if failed == 0 { sync().err().map_or(0, Errno::raw_os_error) } else { failed };
        if failed == 0 {
            return Ok(());
        }
        self.unsynced.store(failed, Ordering::Release);
        let error = io::Error::from_raw_os_error(failed);
        Err(io::Error::other(format!(
            "{error}: the file system could not write what it had taken, so what is copied may not be on its disk. Look at the disk, end the \
             service, unmount and mount the file system, and start the service again: what is not on the disk is copied again"
        )))
    }

    /// An inode of this file system by a descriptor of it, of any kind.
    ///
    /// # Errors
    ///
    /// Of the system.
    pub fn hold(&self, descriptor: OwnedFd) -> io::Result<Held> {
        Held::new(descriptor)
    }
}

fn time(at: Timestamp) -> rustix::fs::Timespec {
    rustix::fs::Timespec { tv_sec: at.seconds, tv_nsec: at.nanos.into() }
}

fn kind(file_type: FileType) -> rustix::fs::FileType {
    match file_type {
        FileType::Regular => rustix::fs::FileType::RegularFile,
        FileType::Directory => rustix::fs::FileType::Directory,
        FileType::Symlink => rustix::fs::FileType::Symlink,
        FileType::BlockDevice => rustix::fs::FileType::BlockDevice,
        FileType::CharDevice => rustix::fs::FileType::CharacterDevice,
        FileType::Fifo => rustix::fs::FileType::Fifo,
        FileType::Socket => rustix::fs::FileType::Socket,
    }
}

impl Destination for Local {
    type Object = Held;

    fn block_size(&self) -> u64 {
        self.block
    }

    fn is_ordered(&self) -> bool {
        self.ordered
    }

    fn root(&self) -> Held {
        self.root.clone()
    }

    fn id(&self, object: &Held) -> NodeId {
        object.node()
    }

    fn lookup(&self, directory: &Held, name: &OsStr) -> io::Result<Option<Held>> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::openat(directory, name, flags, Mode::empty()) {
            Ok(found) => Held::new(found).map(Some),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn names(&self, directory: &Held) -> io::Result<Vec<Name>> {
        let opened = directory.reopen(OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOATIME)?;
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::new(opened)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            let name = OsString::from_vec(name.to_vec());
            let file_type = match entry.file_type() {
                rustix::fs::FileType::RegularFile => FileType::Regular,
                rustix::fs::FileType::Directory => FileType::Directory,
                rustix::fs::FileType::Symlink => FileType::Symlink,
                rustix::fs::FileType::BlockDevice => FileType::BlockDevice,
                rustix::fs::FileType::CharacterDevice => FileType::CharDevice,
                rustix::fs::FileType::Fifo => FileType::Fifo,
                rustix::fs::FileType::Socket => FileType::Socket,
                // The file system does not keep kinds beside names.
                rustix::fs::FileType::Unknown => match self.lookup(directory, &name)? {
                    Some(found) => self.status(&found)?.file_type,
                    None => continue,
                },
            };
            names.push(Name { name, node: NodeId(entry.ino()), file_type });
        }
        Ok(names)
    }

    fn make(&self, directory: &Held, name: &OsStr, what: Make<'_>) -> io::Result<Held> {
        let (private, own) = (Mode::from_raw_mode(0o600), Mode::from_raw_mode(0o700));
        match what {
            Make::File => {
                let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                return Held::with_data(rustix::fs::openat(directory, name, flags | OFlags::NOATIME, private)?);
            }
            Make::Directory => rustix::fs::mkdirat(directory, name, own)?,
            Make::Symlink(target) => rustix::fs::symlinkat(target, directory, name)?,
            Make::Special(file_type, (major, minor)) => {
                rustix::fs::mknodat(directory, name, kind(file_type), private, rustix::fs::makedev(major, minor))?;
            }
        }
        self.lookup(directory, name)?.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn link(&self, object: &Held, directory: &Held, name: &OsStr) -> io::Result<()> {
        // By the name that /proc gives it: to link a descriptor itself asks for one more capability.
        let path = object.path();
        Ok(rustix::fs::linkat(rustix::fs::CWD, path, directory, name, AtFlags::SYMLINK_FOLLOW)?)
    }

    fn unlink(&self, directory: &Held, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(directory, name, AtFlags::empty())?)
    }

    fn remove_directory(&self, directory: &Held, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(directory, name, AtFlags::REMOVEDIR)?)
    }

    fn rename(&self, from: (&Held, &OsStr), to: (&Held, &OsStr)) -> io::Result<()> {
        Ok(rustix::fs::renameat(from.0, from.1, to.0, to.1)?)
    }

    fn move_to_free(&self, from: (&Held, &OsStr), to: (&Held, &OsStr)) -> io::Result<()> {
        Ok(rustix::fs::renameat_with(from.0, from.1, to.0, to.1, RenameFlags::NOREPLACE)?)
    }

    fn status(&self, object: &Held) -> io::Result<Attributes> {
        Ok(stat::of(object.as_fd())?)
    }

    fn target(&self, link: &Held) -> io::Result<PathBuf> {
        let target = rustix::fs::readlinkat(link, "", Vec::new())?;
        Ok(OsString::from_vec(target.into_bytes()).into())
    }

    fn set_owner(&self, object: &Held, owner: Owner) -> io::Result<()> {
        let (user, group) = (rustix::fs::Uid::from_raw(owner.user), rustix::fs::Gid::from_raw(owner.group));
        Ok(rustix::fs::chownat(object, "", Some(user), Some(group), AtFlags::EMPTY_PATH)?)
    }

    fn set_mode(&self, object: &Held, mode: u32) -> io::Result<()> {
        Ok(rustix::fs::chmod(object.path(), Mode::from_raw_mode(mode))?)
    }

    fn set_times(&self, object: &Held, accessed: Timestamp, modified: Timestamp) -> io::Result<()> {
        let times = rustix::fs::Timestamps { last_access: time(accessed), last_modification: time(modified) };
        Ok(rustix::fs::utimensat(object, "", &times, AtFlags::EMPTY_PATH)?)
    }

    fn xattr(&self, object: &Held, name: &OsStr) -> io::Result<Option<Vec<u8>>> {
        // Most records fit, and most objects have none: one call then.
        let mut short = [0; 512];
        match rustix::fs::getxattr(object.path(), name, &mut short[..]) {
            Ok(length) => return Ok(Some(short[..length].to_vec())),
            Err(Errno::NODATA | Errno::OPNOTSUPP) => return Ok(None),
            Err(Errno::RANGE) => {}
            Err(error) => return Err(error.into()),
        }
        let mut long = vec![0; XATTR_MOST];
        match rustix::fs::getxattr(object.path(), name, &mut long[..]) {
            Ok(length) => {
                long.truncate(length);
                Ok(Some(long))
            }
            Err(Errno::NODATA) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn xattrs(&self, object: &Held) -> io::Result<Vec<OsString>> {
        let mut list = vec![0; XATTR_MOST];
        let length = match rustix::fs::listxattr(object.path(), &mut list[..]) {
            Err(Errno::OPNOTSUPP) => 0,
            length => length?,
        };
        let names = list[..length].split(|&byte| byte == 0).filter(|name| !name.is_empty());
        Ok(names.map(|name| OsStr::from_bytes(name).to_owned()).collect())
    }

    fn set_xattr(&self, object: &Held, name: &OsStr, value: &[u8]) -> io::Result<()> {
        Ok(rustix::fs::setxattr(object.path(), name, value, XattrFlags::empty())?)
    }

    fn remove_xattr(&self, object: &Held, name: &OsStr) -> io::Result<()> {
        match rustix::fs::removexattr(object.path(), name) {
            Err(Errno::NODATA) => Ok(()),
            done => Ok(done?),
        }
    }

    fn read_at(&self, file: &Held, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let opened = file.data()?;
        let mut read = 0;
        while read < buffer.len() {
            match rustix::io::pread(&opened, &mut buffer[read..], offset + read as u64) {
                Ok(0) => break,
                Ok(more) => read += more,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(read)
    }

    fn write_at(&self, file: &Held, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let opened = file.data()?;
        let mut written = 0;
        while written < bytes.len() {
            match rustix::io::pwrite(&opened, &bytes[written..], offset + written as u64) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(more) => written += more,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn truncate(&self, file: &Held, size: u64) -> io::Result<()> {
        Ok(rustix::fs::ftruncate(file.data()?, size)?)
    }

    fn punch(&self, file: &Held, range: Range<u64>) -> io::Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        Ok(rustix::fs::fallocate(file.data()?, how, range.start, range.end - range.start)?)
    }

    /// What was written and is not yet on the medium stays remembered.
    fn forget_read(&self, file: &Held) -> io::Result<()> {
        Ok(rustix::fs::fadvise(file.data()?, 0, None, Advice::DontNeed)?)
    }

    fn next_data(&self, file: &Held, offset: u64) -> io::Result<Option<Range<u64>>> {
        let opened = file.data()?;
        let start = match rustix::fs::seek(&opened, SeekFrom::Data(offset)) {
            Ok(start) => start,
            Err(Errno::NXIO) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        match rustix::fs::seek(&opened, SeekFrom::Hole(start)) {
            Ok(end) => Ok(Some(start..end)),
            // The file became shorter meanwhile.
            Err(Errno::NXIO) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn sync(&self, object: &Held) -> io::Result<()> {
        let opened = object.reopen(OFlags::RDONLY)?;
        self.synced(|| rustix::fs::fsync(&opened))
    }

    fn sync_all(&self) -> io::Result<()> {
        self.synced(|| rustix::fs::syncfs(&self.readable))
    }
}

impl AsFd for Local {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.readable.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sync_that_has_failed_fails_ever_after() {
        let folder = tempfile::tempdir().expect("a directory");
        let local = Local::open(folder.path()).expect("opens");
        local.sync_all().expect("syncs");
        let failed = local.synced(|| Err(Errno::IO)).expect_err("fails");
        assert!(failed.to_string().contains("unmount and mount"), "{failed}");
        local.sync_all().expect_err("the system has told of it once");
        local.sync(&local.root()).expect_err("the system has told of it once");
        Local::open(folder.path()).expect("opens").sync_all().expect("another process");
    }
}
