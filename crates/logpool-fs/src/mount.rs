//! A member's file system on a folder.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::{fmt, io};

use ishigaki_logpool::Member;

use crate::inheritance::HandedMount;
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
pub struct Mount {
    fs: Arc<PoolFs>,
    mount: ishigaki_fuse::Mount,
}

impl Mount {
    /// Sees whether a member can be mounted on that folder, and takes away what a process that died has left there.
    pub(crate) fn prepare(path: &Path) -> Result<()> {
        Ok(ishigaki_fuse::Mount::prepare(path)?)
    }

    /// Mounts a member on an empty folder.
    pub fn new(member: Member, path: impl AsRef<Path>, settings: &MountSettings) -> Result<Self> {
        let fs = Arc::new(PoolFs::new(member, settings.access, settings.calendar.clone()));
        let mount = ishigaki_fuse::Mount::new(fs.clone(), path, &how(settings))?;
        Ok(Self { fs, mount })
    }

    /// Goes on with a mount that was handed over. What it had said to the kernel is in `fs`.
    pub(crate) fn go_on(fs: PoolFs, device: OwnedFd, path: &Path, settings: &MountSettings) -> Result<Self> {
        let fs = Arc::new(fs);
        let mount = ishigaki_fuse::Mount::go_on(fs.clone(), device, path, &how(settings))?;
        Ok(Self { fs, mount })
    }

    /// Takes no more requests from now on; those that were taken are answered.
    pub(crate) fn rest(&self) {
        self.mount.rest();
    }

    /// Lets go of the mount, which stays, when all that was taken is answered.
    pub(crate) fn hand_over(self, member: &str) -> io::Result<HandedMount> {
        let Self { fs, mount } = self;
        let path = mount.path().to_owned();
        let device = mount.hand_over();
        match fs.hand_over() {
            Ok((handed, bytes)) => Ok(HandedMount { member: member.to_owned(), path, device, handed, bytes }),
            Err(error) => {
                ishigaki_fuse::give_up(&path, device)?;
                Err(error)
            }
        }
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        self.mount.path()
    }

    /// Whether all requests are answered. Somebody else may have unmounted it.
    pub fn is_alive(&self) -> bool {
        self.mount.is_alive()
    }
}

fn how(settings: &MountSettings) -> ishigaki_fuse::MountSettings {
    ishigaki_fuse::MountSettings { name: FILE_SYSTEM, threads: settings.threads, below_block_device: false }
}

impl fmt::Debug for Mount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.mount.fmt(f)
    }
}
