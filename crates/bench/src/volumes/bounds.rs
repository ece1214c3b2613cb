//! A bound on the memory of a server's processes and of the page cache of its files, by a control group of the kernel, of either version.

use std::fs;
use std::path::{Path, PathBuf};

use crate::{Error, Result};

/// Where control groups are, by version: the folder, and the file that has the bound.
const VERSIONS: [(&str, &str); 2] =
    [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")];

/// A group of processes; *drop* lets them go, and removes it.
#[derive(Debug)]
pub(super) struct Bounds {
    path: PathBuf,
    limit: &'static str,
}

/// Why there can be none here.
pub(super) fn missing() -> Option<String> {
    match Bounds::new("probe") {
        Ok(_) => None,
        Err(error) => Some(format!("memory can not be bounded here: {error}")),
    }
}

fn failed(path: &Path, operation: &'static str) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Io { path, operation, source }
}

impl Bounds {
    /// One without processes.
    pub(super) fn new(name: &str) -> Result<Self> {
        let is_there = |(root, _): &(&str, &str)| Path::new(root).join("cgroup.procs").exists();
        let (root, limit) = VERSIONS.into_iter().find(is_there).unwrap_or(VERSIONS[1]);
        let path = Path::new(root).join(format!("ishigaki-bench-{}-{name}", std::process::id()));
        fs::create_dir(&path).map_err(failed(&path, "making a control group"))?;
        let bounds = Self { path, limit };
        let file = bounds.path.join(limit);
        if !file.exists() {
            // Version 2 has the controllers that its parent gives.
            let given = Path::new(root).join("cgroup.subtree_control");
            fs::write(&given, "+memory").map_err(failed(&given, "asking for the memory controller"))?;
        }
        fs::metadata(&file).map_err(failed(&file, "looking for the memory controller"))?;
        Ok(bounds)
    }

    /// Takes a process and its children.
    pub(super) fn take(&self, process: u32) -> Result<()> {
        let children = fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap_or_default();
        let file = self.path.join("cgroup.procs");
        fs::write(&file, process.to_string()).map_err(failed(&file, "bounding a server"))?;
        for child in children.split_whitespace() {
            // It may have ended.
            let _ = fs::write(&file, child);
        }
        Ok(())
    }

    /// Bounds what they may use.
    pub(super) fn set(&self, bytes: u64) -> Result<()> {
        let file = self.path.join(self.limit);
        fs::write(&file, bytes.to_string()).map_err(failed(&file, "bounding memory"))
    }
}

impl Drop for Bounds {
    fn drop(&mut self) {
        // Processes that were killed are in it for a moment.
        for _ in 0..100 {
            if fs::remove_dir(&self.path).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}
