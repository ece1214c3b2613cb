//! A file system of memory.

use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::Result;
use crate::error::failed;

/// A file system of memory that is mounted; *drop* takes it away, with all that is in it.
#[derive(Debug)]
pub struct Memory {
    root: PathBuf,
}

impl Memory {
    /// Mounts one on a folder. Everybody may pass through it.
    pub fn new(root: &Path) -> Result<Self> {
        let mounted = mount("ishigaki-servers", root, "tmpfs", MountFlags::empty(), c"mode=0755");
        mounted.map_err(|errno| failed(root, "mounting memory")(errno.into()))?;
        Ok(Self { root: root.to_owned() })
    }

    /// Where it is mounted.
    pub fn root(&self) -> &Path {
        &self.root
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // Somebody else may have unmounted it.
        let _ = unmount(&self.root, UnmountFlags::DETACH);
    }
}
