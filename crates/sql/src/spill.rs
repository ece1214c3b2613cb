//! Where operators put rows that do not fit into memory: a folder of this process, within a limit.
//!
//! ```text
//!  <directory>/spill-<process>-<number>.lock   locked as long as the process has the database open
//!  <directory>/spill-<process>-<number>/       one file for each run of rows that was spilled
//! ```
//!
//! The folder is made when something is spilled for the first time ([`files`]). It goes when the database is closed, and the directory with it if nothing else is in it and it was not there
//! before. A process that was killed leaves its own behind, with a lock that no process holds any more: the next one that
//! opens a database with the same directory removes it. So databases may share a directory.

mod files;

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

pub use files::Spilled;
pub(crate) use files::{SpillFiles, SpillHold};

/// What names of ours begin with.
const PREFIX: &str = "spill-";
const LOCK: &str = ".lock";

/// How many names are tried.
const NAMES: u32 = 10_000;

/// The folder of one open database. Dropping it removes it.
#[derive(Debug)]
pub(crate) struct SpillFolder {
    folder: PathBuf,
    lock_path: PathBuf,
    /// The directory, if it was made for this folder.
    made: Option<PathBuf>,
    /// Locked.
    _lock: File,
}

impl SpillFolder {
    /// Makes a folder in the directory, which is made if it is not there, and removes what killed processes have left.
    pub(crate) fn make(directory: &Path) -> io::Result<Self> {
        let was_there = directory.exists();
        fs::create_dir_all(directory)?;
        remove_leftovers(directory);
        for number in 0..NAMES {
            let name = format!("{PREFIX}{}-{number}", std::process::id());
            let lock_path = directory.join(format!("{name}{LOCK}"));
            let lock = match File::options().write(true).create_new(true).open(&lock_path) {
                Ok(lock) => lock,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                // The process that had made the directory has removed it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    fs::create_dir_all(directory)?;
                    continue;
                }
                Err(error) => return Err(error),
            };
            // Another process that looks for leftovers may have been faster, and has removed it then.
            if !is_locked_by(&lock)? || !lock_path.exists() {
                continue;
            }
            let folder = directory.join(name);
            fs::create_dir(&folder)?;
            let made = (!was_there).then(|| directory.to_path_buf());
            return Ok(Self { folder, lock_path, made, _lock: lock });
        }
        Err(io::Error::other("every name of a folder to spill to is in use"))
    }

    /// The folder.
    pub(crate) fn path(&self) -> &Path {
        &self.folder
    }
}

impl Drop for SpillFolder {
    fn drop(&mut self) {
        remove(&self.folder, &self.lock_path);
        if let Some(directory) = &self.made {
            // It stays as long as there is something in it.
            let _ = fs::remove_dir(directory);
        }
    }
}

/// Takes the lock of a file; false if another process or handle has it.
fn is_locked_by(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Removes the folders whose processes are gone. What can not be removed is left, and told.
fn remove_leftovers(directory: &Path) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let Some(stem) = name.strip_suffix(LOCK).filter(|stem| stem.starts_with(PREFIX)) else { continue };
        if let Ok(lock) = File::open(&path)
            && is_locked_by(&lock).unwrap_or(false)
        {
            remove(&directory.join(stem), &path);
        }
    }
}

/// The lock last: a folder without one would stay for good.
fn remove(folder: &Path, lock: &Path) {
    let removed = match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => fs::remove_file(lock),
    };
    if let Err(error) = removed {
        tracing::warn!(folder = %folder.display(), %error, "a folder of spilled rows could not be removed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(directory: &Path) -> usize {
        fs::read_dir(directory).unwrap().count()
    }

    #[test]
    fn a_folder_goes_with_its_owner_and_what_a_killed_one_left_goes_with_the_next() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path().join("deep");
        let (first, second) = (SpillFolder::make(&directory).unwrap(), SpillFolder::make(&directory).unwrap());
        assert_ne!(first.path(), second.path());
        fs::write(first.path().join("rows"), b"of a living process").unwrap();
        // As a killed process leaves it: nothing holds the lock.
        let left = directory.join("spill-1-0");
        fs::create_dir(&left).unwrap();
        fs::write(left.join("rows"), b"").unwrap();
        fs::write(directory.join("spill-1-0.lock"), b"").unwrap();
        fs::write(directory.join("of-another-kind"), b"").unwrap();
        let third = SpillFolder::make(&directory).unwrap();
        assert!(!left.exists() && !directory.join("spill-1-0.lock").exists());
        assert!(first.path().join("rows").exists(), "its owner lives");
        drop((first, second, third));
        assert_eq!(names(&directory), 1, "what is not of ours stays, and so does the directory");
        let other = directory.with_extension("other");
        drop(SpillFolder::make(&other).unwrap());
        assert!(!other.exists());
    }
}
