//! A fresh directory below the given one, gone at the end.

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};

use crate::{Error, Result};

/// Removed with everything in it when dropped, unless it was to be kept.
pub(super) struct Site {
    path: PathBuf,
    keep: Cell<bool>,
}

impl Site {
    pub(super) fn new(data: &Path) -> Result<Self> {
        let failed = |path: &Path, operation| {
            let path = path.to_owned();
            move |source| Error::Io { path, operation, source }
        };
        fs::create_dir_all(data).map_err(failed(data, "making the directory"))?;
        let path = data.join(format!("bench-commit-{}", std::process::id()));
        fs::create_dir(&path).map_err(failed(&path, "making a fresh directory"))?;
        Ok(Self { path, keep: Cell::new(false) })
    }

    /// A directory of this name in it; the engine or the device makes it.
    pub(super) fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Leaves everything where it is.
    pub(super) fn keep(&self) {
        self.keep.set(true);
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if !self.keep.get() {
            // Nothing more can be done about what can not be removed; the name says whose it was.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}
