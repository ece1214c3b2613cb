//! What the kernel tells about the queue of a block device, in `/sys/dev/block`.

use std::fs;
use std::os::fd::AsFd;
use std::path::PathBuf;

use rustix::fs::FileType;

/// The queue of a block device.
#[derive(Debug)]
pub(super) struct Queue {
    /// The device's folder in `/sys`.
    device: PathBuf,
}

impl Queue {
    /// Of the block device itself, or of the one that a file lies on as far as its file system says so.
    pub(super) fn of(file: impl AsFd) -> rustix::io::Result<Self> {
        let status = rustix::fs::fstat(file)?;
        let is_raw = FileType::from_raw_mode(status.st_mode) == FileType::BlockDevice;
        let number = if is_raw { status.st_rdev } else { status.st_dev };
        let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
        Ok(Self { device: format!("/sys/dev/block/{major}:{minor}").into() })
    }

    /// True when a durable write is one command of the drive and needs no flush of its cache: the drive has forced unit
    /// access, or no cache that loses power. `None` where the kernel does not tell.
    pub(super) fn writes_through(&self) -> Option<bool> {
        let fua = self.number("fua")? > 0;
        Some(fua || self.attribute("write_cache")?.trim() == "write through")
    }

    /// True when a hole punched into the device gives the space back. It can not be tried without losing something.
    pub(super) fn discards(&self) -> bool {
        let any = |name| self.number(name).is_some_and(|bytes| bytes > 0);
        any("discard_max_bytes") && any("write_zeroes_max_bytes")
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.attribute(name)?.trim().parse().ok()
    }

    fn attribute(&self, name: &str) -> Option<String> {
        // A partition has its queue one floor up, with the whole disk.
        ["queue", "../queue"].iter().find_map(|queue| fs::read_to_string(self.device.join(queue).join(name)).ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk with a partition and these attributes of its queue.
    fn partition(attributes: &[(&str, &str)]) -> (tempfile::TempDir, Queue) {
        let disk = tempfile::tempdir().expect("a place for temporary files");
        for folder in ["queue", "part1"] {
            fs::create_dir(disk.path().join(folder)).expect("made");
        }
        for (name, value) in attributes {
            fs::write(disk.path().join("queue").join(name), format!("{value}\n")).expect("written");
        }
        let device = disk.path().join("part1");
        (disk, Queue { device })
    }

    #[test]
    fn a_drive_writes_through_by_forced_unit_access_or_without_a_cache() {
        for (fua, cache, expected) in
            [("1", "write back", true), ("0", "write through", true), ("0", "write back", false)]
        {
            let (_disk, queue) = partition(&[("fua", fua), ("write_cache", cache)]);
            assert_eq!(queue.writes_through(), Some(expected), "{fua}, {cache}");
        }
        let (_disk, queue) = partition(&[]);
        assert_eq!(queue.writes_through(), None, "nobody says so");
    }

    #[test]
    fn a_drive_discards_when_it_takes_both_ways_of_it() {
        for (discard, zeroes, expected) in [("4096", "4096", true), ("0", "4096", false), ("4096", "0", false)] {
            let (_disk, queue) = partition(&[("discard_max_bytes", discard), ("write_zeroes_max_bytes", zeroes)]);
            assert_eq!(queue.discards(), expected, "{discard}, {zeroes}");
        }
    }
}
