//! What the kernel tells about the queue of a block device, in `/sys/dev/block`.

use std::fs;
use std::os::fd::AsFd;

use rustix::fs::{Dev, FileType};

/// The queue of a block device, by the device's number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queue {
    device: Dev,
}

impl Queue {
    /// Of the block device itself, or of the one that a file lies on as far as its file system says so.
    pub(super) fn of(file: impl AsFd) -> rustix::io::Result<Self> {
        let status = rustix::fs::fstat(file)?;
        let is_raw = FileType::from_raw_mode(status.st_mode) == FileType::BlockDevice;
        Ok(Self { device: if is_raw { status.st_rdev } else { status.st_dev } })
    }

    /// True when a durable write is one command of the drive and needs no flush of its cache: the drive has forced unit
    /// access, or no cache that loses power. `None` where the kernel does not tell.
    pub(super) fn writes_through(self) -> Option<bool> {
        let fua = self.number("fua")? > 0;
        Some(fua || self.attribute("write_cache")?.trim() == "write through")
    }

    /// True when a hole punched into the device gives the space back. It can not be tried without losing something.
    pub(super) fn discards(self) -> bool {
        let any = |name| self.number(name).is_some_and(|bytes| bytes > 0);
        any("discard_max_bytes") && any("write_zeroes_max_bytes")
    }

    fn number(self, name: &str) -> Option<u64> {
        self.attribute(name)?.trim().parse().ok()
    }

    fn attribute(self, name: &str) -> Option<String> {
        let (major, minor) = (rustix::fs::major(self.device), rustix::fs::minor(self.device));
        let device = format!("/sys/dev/block/{major}:{minor}");
        // A partition has its queue one floor up, with the whole disk.
        ["", "/.."].iter().find_map(|up| fs::read_to_string(format!("{device}{up}/queue/{name}")).ok())
    }
}
