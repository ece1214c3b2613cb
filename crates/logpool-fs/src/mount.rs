//! A member's file system on a folder.

use std::fmt;
use std::path::Path;

use ishigaki_logpool::Member;

use crate::{Access, Calendar, PoolFs, Result};

/// What programs see in `/proc/mounts`.
const FILE_SYSTEM: &str = "ishigaki-log";

/// How a member is mounted.
#[derive(Clone, Debug)]
pub struct MountSettings {
    /// Whose the files are.
    pub access: Access,
    /// Requests that are worked on at a time; each takes a thread and 2 MiB.
    pub threads: usize,
    /// For the times of files.
    pub calendar: Calendar,
}

impl MountSettings {
    /// Requests at a time, unless told otherwise: a server writes its log from one thread or two, and reads from others.
    pub const THREADS: usize = 4;
}

/// A mounted member.
///
/// *Drop* unmounts: programs that have files open get `ENOTCONN` from then on. *A crash* of the process leaves a folder that
/// answers so to everybody; the next mount on it puts that right.
pub struct Mount(ishigaki_fuse::Mount);

impl Mount {
    /// Sees whether a member can be mounted on that folder, and takes away what a process that died has left there.
    pub(crate) fn prepare(path: &Path) -> Result<()> {
        Ok(ishigaki_fuse::Mount::prepare(path)?)
    }

    /// Mounts a member on an empty folder.
    pub fn new(member: Member, path: impl AsRef<Path>, settings: &MountSettings) -> Result<Self> {
        let fs = PoolFs::new(member, settings.access, settings.calendar.clone());
        let how =
            ishigaki_fuse::MountSettings { name: FILE_SYSTEM, threads: settings.threads, below_block_device: false };
        Ok(Self(ishigaki_fuse::Mount::new(fs, path, &how)?))
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Whether all requests are answered. Somebody else may have unmounted it.
    pub fn is_alive(&self) -> bool {
        self.0.is_alive()
    }
}

impl fmt::Debug for Mount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
