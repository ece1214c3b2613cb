//! Destinations on small file systems of their own.

use std::fs::File;
use std::path::Path;
use std::process::Command;

use ishigaki_base::ByteSize;
use rustix::mount::{UnmountFlags, unmount};

use crate::stage::{Stage, skip};

/// Makes a file system, as small as it can be, and with few inodes where it has a fixed number: the program with its words.
pub(crate) struct Kind {
    make: &'static [&'static str],
    size: ByteSize,
}

pub(crate) const EXT4: Kind =
    Kind { make: &["mkfs.ext4", "-q", "-F", "-m", "0", "-N", "128"], size: ByteSize::mib(16) };
pub(crate) const XFS: Kind = Kind { make: &["mkfs.xfs", "-q"], size: ByteSize::mib(300) };
pub(crate) const BTRFS: Kind = Kind { make: &["mkfs.btrfs", "-q"], size: ByteSize::mib(256) };

/// A small file system on a folder, for as long as a test runs.
pub(crate) struct Disk<'a>(&'a Path);

impl<'a> Disk<'a> {
    pub(crate) fn new(test: &str, stage: &'a Stage, kind: &Kind) -> Option<Self> {
        let image = stage.held.path().join("image");
        File::create(&image).and_then(|file| file.set_len(kind.size.as_u64())).unwrap();
        let is_made = |program: &str| {
            let made = Command::new(program).args(&kind.make[1..]).arg(&image).status();
            made.is_ok_and(|status| status.success())
        };
        let is_mounted = || {
            let mounted = Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&stage.new).status();
            mounted.is_ok_and(|status| status.success())
        };
        let program = kind.make[0];
        if (is_made(program) || is_made(&format!("/sbin/{program}"))) && is_mounted() {
            return Some(Self(&stage.new));
        }
        skip(test, &format!("it takes {program} and loop devices"))
    }
}

impl Drop for Disk<'_> {
    fn drop(&mut self) {
        let _ = unmount(self.0, UnmountFlags::DETACH);
    }
}
