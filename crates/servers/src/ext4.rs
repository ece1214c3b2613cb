//! An ext4 on a block device.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::mount::{UnmountFlags, unmount};

use crate::error::failed;
use crate::running::PATIENCE;
use crate::user::run;
use crate::{Error, Result};

/// A file system that is mounted; *drop* takes it away, from those who use it as well.
#[derive(Debug)]
pub struct Ext4 {
    device: PathBuf,
    root: PathBuf,
}

impl Ext4 {
    /// Makes one on a block device, which loses all it had, and mounts it on a folder.
    pub fn new(device: &Path, root: &Path) -> Result<Self> {
        run(Command::new("mkfs.ext4").args(["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"]).arg(device))?;
        let made = Self { device: device.to_owned(), root: root.to_owned() };
        made.mount()?;
        Ok(made)
    }

    /// Mounts the one that is on a block device.
    pub fn existing(device: &Path, root: &Path) -> Result<Self> {
        let there = Self { device: device.to_owned(), root: root.to_owned() };
        there.mount()?;
        Ok(there)
    }

    /// Where it is mounted.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Mounts it once more.
    pub fn mount(&self) -> Result<()> {
        run(Command::new("mount").arg(&self.device).arg(&self.root)).map(drop)
    }

    /// Unmounts it, as soon as nobody uses it.
    pub fn unmount(&self) -> Result<()> {
        let began = Instant::now();
        while let Err(errno) = unmount(&self.root, UnmountFlags::empty()) {
            if began.elapsed() > PATIENCE {
                return Err(failed(&self.root, "unmounting it")(errno.into()));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Has its checker mend it; it is not mounted.
    pub fn mend(&self) -> Result<()> {
        let mut checker = Command::new("fsck.ext4");
        let output =
            checker.arg("-p").arg(&self.device).output().map_err(failed(&self.device, "starting fsck.ext4"))?;
        // 1: mended, and nothing to ask anybody about.
        if output.status.code().is_some_and(|code| code <= 1) {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        Err(Error::Program { program: "fsck.ext4".to_owned(), said })
    }

    /// Makes everything that was written to it durable.
    pub fn sync(&self) -> Result<()> {
        run(Command::new("sync").arg("-f").arg(&self.root)).map(drop)
    }
}

impl Drop for Ext4 {
    fn drop(&mut self) {
        // It may not be mounted any more.
        let _ = unmount(&self.root, UnmountFlags::DETACH);
    }
}
