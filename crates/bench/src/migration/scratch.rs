//! The directory of a measurement. Everything in it goes with it, also when this process is killed; a later measurement removes what is left where all
//! processes have ended at once.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::caretaker::Caretaker;
use crate::{Error, Result};

/// What such directories are called, before the number of their process.
const NAME: &str = "ishigaki-migration-";
/// A file in one whose data is wrong, so that a person can have a closer look.
const KEPT: &str = "kept-for-a-closer-look";

/// Unmounts what a killed process has mounted below a directory, and removes that. The servers that it has started end at the same time, and may write to
/// the last.
const CLEAR: &str = r#"
for turn in $(seq 100); do
    while read -r _ at _; do
        at=$(printf '%b' "$at")
        case $at in "$1"/*) umount --lazy "$at" ;; esac
    done </proc/self/mounts
    chattr -R -f -i "$1"
    rm -rf --one-file-system "$1" && exit
    sleep 0.1
done
"#;

#[derive(Debug)]
pub(super) struct Scratch {
    path: PathBuf,
    keep: bool,
    // Sent away when all is gone, or is to stay.
    _caretaker: Caretaker,
}

impl Scratch {
    /// A new one there, after those of processes that are gone were removed.
    pub(super) fn new(below: &Path) -> Result<Self> {
        remove_left(below);
        let path = below.join(format!("{NAME}{}", std::process::id()));
        let failed = |source| Error::Io { path: path.clone(), operation: "making a scratch directory", source };
        fs::create_dir(&path).map_err(failed)?;
        let canonical = fs::canonicalize(&path).map_err(failed)?;
        let caretaker = Caretaker::start(CLEAR, &[canonical.as_os_str()])?;
        Ok(Self { path, keep: false, _caretaker: caretaker })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Leaves everything where it is, for longer than this process.
    pub(super) fn keep(&mut self) {
        self.keep = true;
        let _ = fs::write(self.path.join(KEPT), "");
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !self.keep {
            remove(&self.path);
        }
    }
}

/// Removes the directories whose process is gone, unless they are kept.
fn remove_left(below: &Path) {
    let Ok(entries) = fs::read_dir(below) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(NAME)?.parse::<u32>().ok());
        let is_left = number.is_some_and(|number| !Path::new("/proc").join(number.to_string()).exists());
        if is_left && !entry.path().join(KEPT).exists() {
            remove(&entry.path());
        }
    }
}

/// Unmounts what is mounted below a directory, and removes it. A mount that stays keeps the directory: what it shows is not ours to remove.
fn remove(directory: &Path) {
    for mount in mounts_below(directory).into_iter().rev() {
        let _ = Command::new("umount").arg("--lazy").arg(mount).stdin(Stdio::null()).stderr(Stdio::null()).status();
    }
    if mounts_below(directory).is_empty() {
        open_again(directory);
        let _ = fs::remove_dir_all(directory);
    }
}

/// Has folders be removable that a migration was served on: a service that ends before its migration leaves them immutable.
pub(super) fn open_again(directory: &Path) {
    let mut change = Command::new("chattr");
    let _ = change.args(["-R", "-f", "-i"]).arg(directory).stdin(Stdio::null()).stderr(Stdio::null()).status();
}

/// In the order in which they were mounted.
fn mounts_below(directory: &Path) -> Vec<PathBuf> {
    let directory = fs::canonicalize(directory).unwrap_or_else(|_| directory.to_owned());
    let points = ishigaki_fuse::mounted().unwrap_or_default().into_iter().map(|mounted| mounted.at);
    points.filter(|path| path.starts_with(&directory)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_measurement_removes_what_a_killed_one_has_left_and_nothing_else() {
        let held = tempfile::tempdir().expect("a directory");
        let mut gone = Command::new("sh").args(["-c", ""]).spawn().expect("runs");
        gone.wait().expect("ends");
        let left = |name: String| {
            let path = held.path().join(name);
            fs::create_dir_all(path.join("to-1/directory")).expect("makes");
            path
        };
        let killed = left(format!("{NAME}{}", gone.id()));
        let others = [left(format!("{NAME}1")), left("another".to_owned()), left(format!("{NAME}it"))];
        let scratch = Scratch::new(held.path()).expect("makes");
        assert!(!killed.exists(), "its process is gone");
        assert!(others.iter().all(|other| other.join("to-1/directory").exists()));
        let own = scratch.path().to_owned();
        drop(scratch);
        assert!(!own.exists());
    }

    #[test]
    fn what_is_kept_stays_for_a_person() {
        let held = tempfile::tempdir().expect("a directory");
        let mut scratch = Scratch::new(held.path()).expect("makes");
        scratch.keep();
        let path = scratch.path().to_owned();
        drop(scratch);
        let mut gone = Command::new("sh").args(["-c", ""]).spawn().expect("runs");
        gone.wait().expect("ends");
        let as_of_another = held.path().join(format!("{NAME}{}", gone.id()));
        fs::rename(&path, &as_of_another).expect("renames");
        remove_left(held.path());
        assert!(as_of_another.exists());
    }
}
