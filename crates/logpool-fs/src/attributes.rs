//! What programs see of a file beside its bytes: the owner, modes and times.

use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use fuse_backend_rs::abi::fuse_abi::stat64;
use fuse_backend_rs::api::filesystem::Entry;

/// Whose the files of a member are. Nobody else can open them, root excepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The number of the user.
    pub user: u32,
    /// The number of the group.
    pub group: u32,
}

impl Access {
    /// Of whoever runs this process.
    pub fn own() -> Self {
        Self { user: rustix::process::geteuid().as_raw(), group: rustix::process::getegid().as_raw() }
    }
}

/// Tells the time of day.
#[derive(Clone)]
pub struct Calendar(Arc<dyn Fn() -> SystemTime + Send + Sync>);

impl Calendar {
    /// By that function, such as [`SystemTime::now`].
    pub fn new(now: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    pub(crate) fn now(&self) -> SystemTime {
        self.0()
    }
}

impl fmt::Debug for Calendar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Calendar")
    }
}

/// The bits of a mode that say who may do what.
pub(crate) const PERMISSIONS: u32 = 0o7777;

const FILE: u32 = 0o100_600;
const DIRECTORY: u32 = 0o040_700;

/// Bytes of a block, as programs are told. Servers write multiples of it.
pub(crate) const BLOCK: u64 = 4096;

/// In what `st_blocks` counts.
const UNIT: u64 = 512;

/// Of a file or directory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attributes {
    pub(crate) number: u64,
    /// Of a file; a directory has none.
    pub(crate) length: Option<u64>,
    pub(crate) links: u32,
    pub(crate) modified: SystemTime,
}

impl Attributes {
    pub(crate) fn mode(&self) -> u32 {
        if self.length.is_some() { FILE } else { DIRECTORY }
    }

    /// As the kernel has them.
    pub(crate) fn stat(&self, access: Access) -> stat64 {
        // All zero.
        let mut stat = Entry::default().attr;
        let since = self.modified.duration_since(UNIX_EPOCH).unwrap_or_default();
        let length = self.length.unwrap_or_default();
        stat.st_ino = self.number;
        stat.st_mode = self.mode();
        stat.st_nlink = self.links.into();
        (stat.st_uid, stat.st_gid) = (access.user, access.group);
        stat.st_size = length as i64;
        stat.st_blksize = BLOCK as i64;
        stat.st_blocks = length.div_ceil(UNIT) as i64;
        (stat.st_mtime, stat.st_mtime_nsec) = (since.as_secs() as i64, since.subsec_nanos().into());
        (stat.st_ctime, stat.st_ctime_nsec) = (stat.st_mtime, stat.st_mtime_nsec);
        (stat.st_atime, stat.st_atime_nsec) = (stat.st_mtime, stat.st_mtime_nsec);
        stat
    }
}
