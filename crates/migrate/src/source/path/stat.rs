//! What the kernel says of objects, in the words of sources.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Statx, StatxFlags, StatxTimestamp};
use rustix::io::Errno;

use crate::source::{Attributes, Error, ErrorKind, FileType, Owner, Timestamp};

/// The attributes of an open object.
pub(crate) fn of(object: impl AsFd) -> Result<Attributes, Errno> {
    asked(object, OsStr::new(""), AtFlags::EMPTY_PATH)
}

/// The attributes of an object in an open directory.
pub(super) fn of_entry(directory: &OwnedFd, name: &OsStr) -> Result<Attributes, Errno> {
    asked(directory, name, AtFlags::empty())
}

fn asked(from: impl AsFd, name: &OsStr, flags: AtFlags) -> Result<Attributes, Errno> {
    let flags = flags | AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    loop {
        match rustix::fs::statx(&from, name, flags, StatxFlags::BASIC_STATS | StatxFlags::BTIME) {
            Err(Errno::INTR) => {}
            answer => return answer.and_then(|answer| attributes(&answer)),
        }
    }
}

fn attributes(stat: &Statx) -> Result<Attributes, Errno> {
    let mode = u32::from(stat.stx_mode);
    let file_type = match rustix::fs::FileType::from_raw_mode(mode) {
        rustix::fs::FileType::RegularFile => FileType::Regular,
        rustix::fs::FileType::Directory => FileType::Directory,
        rustix::fs::FileType::Symlink => FileType::Symlink,
        rustix::fs::FileType::BlockDevice => FileType::BlockDevice,
        rustix::fs::FileType::CharacterDevice => FileType::CharDevice,
        rustix::fs::FileType::Fifo => FileType::Fifo,
        rustix::fs::FileType::Socket => FileType::Socket,
        // No file system that Linux mounts has others; a broken FUSE server may.
        rustix::fs::FileType::Unknown => return Err(Errno::IO),
    };
    Ok(Attributes {
        file_type,
        mode: mode & 0o7777,
        owner: Owner { user: stat.stx_uid, group: stat.stx_gid },
        links: stat.stx_nlink,
        size: stat.stx_size,
        device: (stat.stx_rdev_major, stat.stx_rdev_minor),
        id: (rustix::fs::makedev(stat.stx_dev_major, stat.stx_dev_minor), stat.stx_ino),
        accessed: moment(stat.stx_atime),
        modified: moment(stat.stx_mtime),
        changed: moment(stat.stx_ctime),
        created: (stat.stx_mask & StatxFlags::BTIME.bits() != 0).then(|| moment(stat.stx_btime)),
    })
}

fn moment(time: StatxTimestamp) -> Timestamp {
    Timestamp { seconds: time.tv_sec, nanos: time.tv_nsec.min(999_999_999) }
}

/// The kernel's refusal as an error of the source.
pub(super) fn failed(action: &str, path: &Path, errno: Errno) -> Error {
    let kind = match errno {
        // A symbolic link was put in the way, or a mount point was taken away.
        Errno::NOENT | Errno::NOTDIR | Errno::ISDIR | Errno::LOOP | Errno::XDEV | Errno::STALE | Errno::NXIO => {
            ErrorKind::Gone
        }
        Errno::ACCESS | Errno::PERM => ErrorKind::Denied,
        Errno::NOSYS => ErrorKind::Invalid,
        Errno::NOTCONN
        | Errno::CONNABORTED
        | Errno::CONNREFUSED
        | Errno::CONNRESET
        | Errno::HOSTDOWN
        | Errno::HOSTUNREACH
        | Errno::NETDOWN
        | Errno::NETUNREACH
        | Errno::TIMEDOUT
        | Errno::AGAIN
        | Errno::NOMEM
        | Errno::MFILE
        | Errno::NFILE
        | Errno::INTR => ErrorKind::Unavailable,
        _ => ErrorKind::Broken,
    };
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let remedy = match kind {
        ErrorKind::Denied => "; run as a user who may read all of the source, root best",
        ErrorKind::Invalid => "; Linux 5.6 or newer has the calls that this needs",
        _ => "",
    };
    Error::new(kind, format!("cannot {action} {}: {errno}{remedy}", path.display()))
}
