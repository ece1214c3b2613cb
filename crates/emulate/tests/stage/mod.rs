//! An emulated disk for as long as a test runs, and what stands on it.

#![allow(dead_code, reason = "each test uses its part")]

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use ishigaki_base::ByteSize;
use ishigaki_base::random::Seed;
use ishigaki_device::{AlignedBuffer, DriveSettings, Medium, SsdSettings};
use ishigaki_emulate::EmulatedDisk;
use rustix::fs::OFlags;

/// Says why a test does nothing, or nothing if it can emulate. What needs more programs names them.
pub(crate) fn can_emulate(test: &str, programs: &[&str]) -> bool {
    let is_there = |path: &str| OpenOptions::new().read(true).write(true).open(path).is_ok();
    let missing = programs.iter().find(|program| !Path::new(program).exists());
    let reason = if !rustix::process::geteuid().is_root() {
        "it takes root".to_owned()
    } else if let Some(device) = ["/dev/fuse", "/dev/loop-control"].into_iter().find(|device| !is_there(device)) {
        format!("{device} can not be opened")
    } else if let Some(program) = missing {
        format!("there is no {program}")
    } else {
        return true;
    };
    // Past the capture of a test's output.
    let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: {reason}");
    false
}

/// A disk on a folder; both go when the test ends, however it does.
pub(crate) struct Stage {
    // In the order in which they go.
    mounted: Option<PathBuf>,
    pub(crate) disk: EmulatedDisk,
    folder: tempfile::TempDir,
}

pub(crate) fn settings(medium: &str, size: ByteSize) -> DriveSettings {
    DriveSettings::new(medium.parse().unwrap(), size)
}

/// An SSD that takes hardly any time, for tests that are not about time.
pub(crate) fn swift(size: ByteSize) -> DriveSettings {
    let instant = std::time::Duration::from_micros(1);
    let ssd = SsdSettings { program: instant, read: instant, sync: instant, ..SsdSettings::default() };
    DriveSettings::new(Medium::Ssd(ssd), size)
}

impl Stage {
    pub(crate) fn new(settings: DriveSettings) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["disk", "root"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        let disk = EmulatedDisk::new(settings, &folder.path().join("disk")).unwrap();
        Self { mounted: None, disk, folder }
    }

    /// Where the disk is emulated.
    pub(crate) fn at(&self) -> PathBuf {
        self.folder.path().join("disk")
    }

    /// Where its file system is mounted.
    pub(crate) fn root(&self) -> PathBuf {
        self.folder.path().join("root")
    }

    pub(crate) fn device(&self, flags: OFlags) -> File {
        open(self.disk.device(), flags)
    }

    pub(crate) fn make_ext4(&self) {
        run("mkfs.ext4", &["-q", "-F", self.disk.device().to_str().unwrap()]);
    }

    pub(crate) fn mount(&mut self) {
        run("mount", &[self.disk.device().to_str().unwrap(), self.root().to_str().unwrap()]);
        self.mounted = Some(self.root());
    }

    pub(crate) fn unmount(&mut self) {
        if let Some(root) = self.mounted.take() {
            run("umount", &[root.to_str().unwrap()]);
        }
    }

    /// Cuts the power, takes the file system away as a host that is gone does, and turns the power on.
    pub(crate) fn power_cycle(&mut self, seed: Seed) -> u64 {
        let lost = self.disk.drive().cut_power(seed);
        self.unmount();
        self.disk.drive().restore_power();
        lost
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if let Some(root) = self.mounted.take() {
            let _ = Command::new("umount").arg("-l").arg(root).status();
        }
    }
}

/// Opens a file to read and write, makes it if it is not there.
pub(crate) fn open(path: &Path, flags: OFlags) -> File {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .custom_flags(flags.bits().cast_signed())
        .open(path)
        .unwrap()
}

pub(crate) fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

pub(crate) fn filled(length: usize, byte: u8) -> AlignedBuffer {
    let mut buffer = AlignedBuffer::zeroed(length);
    buffer.fill(byte);
    buffer
}
