//! A fresh directory below the given one, gone at the end.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::{Error, Result};

/// Removed with everything in it when dropped, unless it was to be kept.
#[derive(Debug)]
pub(crate) struct Site {
    path: PathBuf,
    keep: AtomicBool,
}

impl Site {
    /// For a workload of that name.
    pub(crate) fn new(data: &Path, workload: &str) -> Result<Self> {
        let failed = |path: &Path, operation| {
            let path = path.to_owned();
            move |source| Error::Io { path, operation, source }
        };
        fs::create_dir_all(data).map_err(failed(data, "making the directory"))?;
        let path = data.join(format!("bench-{workload}-{}", std::process::id()));
        fs::create_dir(&path).map_err(failed(&path, "making a fresh directory"))?;
        Ok(Self { path, keep: AtomicBool::new(false) })
    }

    /// The directory itself.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A directory of this name in it; the engine or the device makes it.
    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Does something there. What was found wrong stays for a closer look.
    pub(crate) fn used_by<T>(self, work: impl FnOnce(&Self) -> Result<T>) -> Result<T> {
        let result = work(&self);
        if matches!(result, Err(Error::Wrong { .. })) {
            self.keep();
        }
        result
    }

    /// Leaves everything where it is.
    pub(crate) fn keep(&self) {
        self.keep.store(true, Ordering::Relaxed);
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if !*self.keep.get_mut() {
            // Nothing more can be done about what can not be removed; the name says whose it was.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}
