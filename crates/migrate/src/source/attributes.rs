//! What an object of a source says of itself.

use std::ffi::OsString;
use std::path::PathBuf;

/// The kind of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileType {
    /// A file with data.
    Regular,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A block device.
    BlockDevice,
    /// A character device.
    CharDevice,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
}

/// A moment: seconds since 1970 began in UTC, and nanoseconds within the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    /// Negative before 1970.
    pub seconds: i64,
    /// Below 1,000,000,000.
    pub nanos: u32,
}

/// The user and the group that own an object, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Owner {
    /// The user.
    pub user: u32,
    /// The group.
    pub group: u32,
}

/// What every listing or attribute request tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Attributes {
    /// What it is.
    pub file_type: FileType,
    /// Permissions with set-user-ID, set-group-ID and sticky bits: below `0o10000`.
    pub mode: u32,
    /// By whom it is owned; of no meaning where the source knows no [owners](super::Capabilities::owners).
    pub owner: Owner,
    /// Names that it has.
    pub links: u32,
    /// In bytes; of a symbolic link, of its target.
    pub size: u64,
    /// Major and minor number of a device.
    pub device: (u32, u32),
    /// The file system within the source and the object's number in it: equal for two names of one object.
    pub id: (u64, u64),
    /// Last access.
    pub accessed: Timestamp,
    /// Last change of the data.
    pub modified: Timestamp,
    /// Last change of data or attributes, by the source's own clock.
    pub changed: Timestamp,
    /// When it was made, where the source knows that.
    pub created: Option<Timestamp>,
}

/// By what a change at the source is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stamp {
    /// The object's number.
    pub id: u64,
    /// In bytes.
    pub size: u64,
    /// Last change of the data.
    pub modified: Timestamp,
    /// Last change of data or attributes.
    pub changed: Timestamp,
}

impl Attributes {
    /// By what a later change is noticed.
    pub fn stamp(&self) -> Stamp {
        Stamp { id: self.id.1, size: self.size, modified: self.modified, changed: self.changed }
    }
}

/// What takes requests of its own to be told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extras {
    /// The target of a symbolic link.
    pub target: Option<PathBuf>,
    /// Extended attributes by their full names, as Linux has them: `user.…`, `system.posix_acl_access`, and Windows' access control lists as Samba
    /// stores them, `security.NTACL`.
    pub attributes: Vec<(OsString, Vec<u8>)>,
}
