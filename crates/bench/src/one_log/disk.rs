//! The disk on which logs are: an emulated one with a file system, or a folder of a real one.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use ishigaki_base::ByteSize;
use ishigaki_device::Medium;
use ishigaki_servers::Ext4;
use rustix::fs::{FallocateFlags, fallocate};

use super::Disk;
use super::usage::Counts;
use crate::serving::Serving;
use crate::site::Site;
use crate::{Error, Result};

/// The size of an emulated disk that has no more than two members' homes, each reserved as a whole, beside what sides lie apart.
pub(crate) const SIZE: ByteSize = ByteSize::gib(4);

/// The size of an emulated disk for so many servers, each with a home.
pub(crate) fn size(servers: usize) -> ByteSize {
    ByteSize::b(SIZE.as_u64() * servers.div_ceil(2).max(1) as u64)
}

/// A real-time priority, the least.
const PRIORITY: &str = "1";

/// A disk that is there; nothing of it is left when it is dropped.
#[derive(Debug)]
pub(crate) enum Standing {
    /// On an emulated drive.
    Emulated {
        // In the order in which they go.
        ext4: Ext4,
        /// Whether the drive's threads come before others.
        real_time: bool,
        size: ByteSize,
        at: PathBuf,
        _drive: Serving,
    },
    /// In a fresh folder.
    Folder(Site),
}

impl Standing {
    /// Makes it for an experiment of that name, emulated ones of that size; mounts go to a folder of the host.
    pub(crate) fn new(
        workload: &'static str,
        disk: &Disk,
        size: ByteSize,
        program: &Path,
        mounts: &Site,
    ) -> Result<Self> {
        match disk {
            Disk::Folder(path) => Ok(Self::Folder(Site::new(path, workload)?)),
            Disk::Emulated(medium) => Self::emulated(medium, size, program, mounts),
        }
    }

    fn emulated(medium: &Medium, size: ByteSize, program: &Path, mounts: &Site) -> Result<Self> {
        let failed = |reason| Error::Process { what: "the emulated disk", reason };
        let (at, root) = (folder(mounts, "drive")?, folder(mounts, "disk")?);
        let mut command = Command::new(program);
        command.args(["media", "emulate", &medium.to_string(), "--json", "--size"]);
        command.arg(format!("{}B", size.as_u64())).arg("--at").arg(&at).process_group(0);
        let drive = Serving::start(command).map_err(failed)?;
        let Some(device) = drive.text("device") else {
            return Err(failed("does not say which block device it is".to_owned()));
        };
        let ext4 = Ext4::new(device.as_ref(), &root)?;
        let real_time = come_first(drive.id());
        Ok(Self::Emulated { ext4, real_time, size, at, _drive: drive })
    }

    /// Where its files are.
    pub(crate) fn root(&self) -> &Path {
        match self {
            Self::Emulated { ext4, .. } => ext4.root(),
            Self::Folder(site) => site.path(),
        }
    }

    /// Whether the drive's threads come before all that is not of real time; `None` if it is no emulated one.
    pub(crate) fn is_real_time(&self) -> Option<bool> {
        match self {
            Self::Emulated { real_time, .. } => Some(*real_time),
            Self::Folder(_) => None,
        }
    }

    /// What it was asked for, if it tells.
    pub(crate) fn counts(&self) -> Option<Counts> {
        match self {
            Self::Emulated { at, .. } => Counts::read(&at.join("status")),
            Self::Folder(_) => None,
        }
    }

    /// Takes room on an emulated disk, so that what is written there next lies apart from what was written before: a tenth of the
    /// disk, or as much as lets so many lie apart. What is on a real one lies where its file system puts it.
    pub(crate) fn space_out(&self, path: &Path, many: usize) -> Result<()> {
        let Self::Emulated { size, .. } = self else { return Ok(()) };
        let room = size.as_u64() / (many as u64 + 2).max(10);
        let failed = |source| Error::Io { path: path.to_owned(), operation: "taking room", source };
        let file = File::create(path).map_err(failed)?;
        fallocate(&file, FallocateFlags::empty(), 0, room).map_err(|errno| failed(errno.into()))
    }

    /// Makes everything durable that was written to it, so that the next to come does not pay for it.
    pub(crate) fn settle(&self) -> Result<()> {
        match self {
            Self::Emulated { ext4, .. } => Ok(ext4.sync()?),
            Self::Folder(_) => Ok(()),
        }
    }
}

/// A new folder of the site's.
pub(crate) fn folder(site: &Site, name: &str) -> Result<PathBuf> {
    let path = site.join(name);
    std::fs::create_dir(&path).map_err(|source| Error::Io {
        path: path.clone(),
        operation: "making a folder",
        source,
    })?;
    Ok(path)
}

/// Puts all threads of a process before those of others, if the host lets us: a drive does not wait for a processor.
fn come_first(process: u32) -> bool {
    let mut command = Command::new("chrt");
    let told = command.args(["--fifo", "--all-tasks", "--pid", PRIORITY, &process.to_string()]).output();
    told.is_ok_and(|output| output.status.success())
}

#[cfg(test)]
mod tests {
    use ishigaki_logpool::Quota;

    use super::*;

    #[test]
    fn an_emulated_disk_has_room_for_the_homes_of_all_servers_and_their_log() {
        let log = ByteSize::mib(64).as_u64();
        for servers in 1..=64 {
            let size = size(servers).as_u64();
            let taken = servers as u64 * Quota::default().home.as_u64() + servers.max(4) as u64 * log;
            // A tenth is for the file system.
            assert!(taken < size / 10 * 9, "{servers} servers");
        }
    }
}
