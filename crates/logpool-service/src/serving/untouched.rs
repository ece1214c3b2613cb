//! What a service that is refused takes back: a data directory is as it was before, if there was no pool in it.
//!
//! A pool is made by serving it. Where that is refused, for an address that is taken or a medium that is too small, the log and the
//! homes that were made up to then are of no use, and their space may be what the next try wants.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A data directory that was empty, or not there.
pub(super) struct Untouched {
    data: PathBuf,
    /// The first folder above it, or itself, that was not there.
    missing: Option<PathBuf>,
}

impl Untouched {
    /// `None` if anything is in it already: then nothing is ever taken back.
    pub(super) fn of(data: &Path) -> Option<Self> {
        let data = std::path::absolute(data).ok()?;
        let missing = data.ancestors().take_while(|folder| !folder.exists()).last().map(Path::to_owned);
        if missing.is_none() && fs::read_dir(&data).ok()?.next().is_some() {
            return None;
        }
        Some(Self { data, missing })
    }

    /// Removes what came into it since. Whatever can not be removed stays, and is named.
    pub(super) fn take_back(self) {
        if let Ok(folder) = fs::metadata(&self.data) {
            clear(&self.data, folder.dev());
        }
        if let Some(missing) = self.missing {
            for folder in self.data.ancestors().take_while(|folder| folder.starts_with(&missing)) {
                remove(folder, fs::remove_dir(folder));
            }
        }
    }
}

/// Empties a folder of a file system. What is mounted in it stays.
fn clear(folder: &Path, device: u64) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let removed = match entry.metadata() {
            Ok(found) if found.dev() != device => continue,
            Ok(found) if found.is_dir() => {
                clear(&path, device);
                fs::remove_dir(&path)
            }
            Ok(_) => fs::remove_file(&path),
            Err(error) => Err(error),
        };
        remove(&path, removed);
    }
}

fn remove(path: &Path, removed: std::io::Result<()>) {
    match removed {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            tracing::warn!(path = %path.display(), %error, "what a refused service has made is still there");
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use ishigaki_base::ByteSize;

    use super::*;
    use crate::{Config, Serving};

    #[test]
    fn only_what_came_into_an_empty_directory_is_taken_back() {
        let place = tempfile::tempdir().expect("a place for temporary files");
        let (full, empty, new) = (place.path().join("full"), place.path().join("empty"), place.path().join("a/b"));
        fs::create_dir(&full).and_then(|()| fs::write(full.join("file"), "mine")).expect("made");
        fs::create_dir(&empty).expect("made");
        assert!(Untouched::of(&full).is_none());
        for data in [&empty, &new] {
            let untouched = Untouched::of(data).expect("nothing is there");
            fs::create_dir_all(data.join("folder"))
                .and_then(|()| fs::write(data.join("folder/file"), "ours"))
                .expect("made");
            untouched.take_back();
        }
        assert_eq!(fs::read_dir(&empty).expect("it was there").count(), 0);
        assert!(!place.path().join("a").exists() && full.join("file").exists());
    }

    #[test]
    fn a_new_pool_that_is_refused_leaves_nothing() {
        let place = tempfile::tempdir().expect("a place for temporary files");
        let (new, empty) = (place.path().join("a/new"), place.path().join("empty"));
        fs::create_dir(&empty).expect("made");
        for data in [&new, &empty] {
            for refusal in ["log", "metrics"] {
                let mut config = Config::new(data.clone(), Vec::new());
                match refusal {
                    "log" => config.log = Some(ByteSize(1 << 52)),
                    _ => config.metrics = Some("192.0.2.1:1".to_owned()),
                }
                let error = Serving::start(&config).map(drop).expect_err("it can not be had");
                assert!(!error.to_string().is_empty());
                assert!(!place.path().join("a").exists(), "{refusal}: {error}");
                assert_eq!(fs::read_dir(&empty).expect("it was there").count(), 0, "{refusal}: {error}");
            }
        }
    }
}
