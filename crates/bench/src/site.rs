//! A fresh directory below the given one, gone at the end.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::{Error, Result};

/// Whoever has that many in one place has not cleaned up.
const MOST: u32 = 10_000;

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
        let mut number = 1;
        loop {
            let path = data.join(format!("bench-{workload}-{}-{number}", std::process::id()));
            match fs::create_dir(&path) {
                Ok(()) => return Ok(Self { path, keep: AtomicBool::new(false) }),
                // Another one of this process, or one that was kept.
                Err(error) if error.kind() == ErrorKind::AlreadyExists && number < MOST => number += 1,
                Err(error) => return Err(failed(&path, "making a fresh directory")(error)),
            }
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_in_one_place_are_not_in_each_others_way() {
        let place = tempfile::tempdir().unwrap();
        let sites = [(); 2].map(|()| Site::new(place.path(), "both").unwrap());
        assert_ne!(sites[0].path(), sites[1].path());
        drop(sites);
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
    }
}
