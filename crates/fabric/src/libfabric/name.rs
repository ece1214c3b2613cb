//! Names for endpoints in shared memory, which nobody else has, and what dead processes have left under such names.
//!
//! Libfabric's provider shm names an endpoint after the process's number and keeps its memory in a file of that name. A process
//! that is killed leaves the file, and one that is given the same number later finds its name taken. So we give names: a random
//! one for each endpoint, with a file of our own beside the provider's, which is *claimed* by a lock that ends with the process.
//!
//! ```text
//!   /dev/shm/ishigaki-1234-8f0c…         the claim, locked for as long as the endpoint lives
//!   /dev/shm/ishigaki-1234-8f0c…:0:0     the provider's, for user 0
//! ```
//!
//! Whoever claims a name removes what is claimed by nobody any more. The number in a name is for people who look there; what tells
//! whether somebody lives is the lock, which holds also between containers that share the folder and not their processes.

use std::collections::HashSet;
use std::fmt::Write;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use crate::region::random;

/// Where the C library keeps shared memory, on Linux.
const FOLDER: &str = "/dev/shm";

/// What all our names begin with.
const PREFIX: &str = "ishigaki-";

/// How often a name is made; another process takes one for a dead one's only in the moment before it is locked.
const ATTEMPTS: usize = 8;

/// A name that is ours until this is dropped. To be dropped after the endpoint that has it.
#[derive(Debug)]
pub(crate) struct Name {
    path: PathBuf,
    word: String,
    /// Locked.
    _claim: OwnedFd,
}

impl Name {
    /// Makes a name, and removes what the dead have left.
    pub(crate) fn claim() -> Result<Self, String> {
        Self::claim_in(Path::new(FOLDER))
    }

    fn claim_in(folder: &Path) -> Result<Self, String> {
        sweep(folder);
        for _ in 0..ATTEMPTS {
            let mut word = format!("{PREFIX}{}-", std::process::id());
            for byte in random::<8>().map_err(|error| error.to_string())? {
                // A string takes everything.
                let _ = write!(word, "{byte:02x}");
            }
            let path = folder.join(&word);
            let failed = |errno: Errno| format!("{} can not be made: {errno}", path.display());
            let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
            let claim = rustix::fs::openat(CWD, &path, flags, Mode::RUSR | Mode::WUSR).map_err(failed)?;
            match rustix::fs::flock(&claim, FlockOperation::NonBlockingLockExclusive) {
                // Unless somebody was quicker, and has removed it.
                Ok(()) if rustix::fs::fstat(&claim).map_err(failed)?.st_nlink > 0 => {
                    return Ok(Self { path, word, _claim: claim });
                }
                Ok(()) | Err(Errno::WOULDBLOCK) => {}
                Err(errno) => return Err(failed(errno)),
            }
        }
        Err(format!("no name can be claimed in {}", folder.display()))
    }

    /// What the provider is to call its endpoint.
    pub(crate) fn word(&self) -> &str {
        &self.word
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        // If it can not be removed now, the next one that claims a name does it.
        let _ = rustix::fs::unlink(&self.path);
    }
}

/// Removes what is claimed by nobody. Errors are passed over: it may be another user's, or somebody else has been quicker.
fn sweep(folder: &Path) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    let mut living = HashSet::new();
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str().filter(|name| name.starts_with(PREFIX)) else { continue };
        let word = name.split(':').next().unwrap_or(name);
        if living.contains(word) {
            continue;
        }
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        // Kept open, and so locked, until everything is removed.
        let _claim = match rustix::fs::openat(CWD, folder.join(word), flags, Mode::empty()) {
            Ok(claim) if rustix::fs::flock(&claim, FlockOperation::NonBlockingLockExclusive).is_ok() => Some(claim),
            // The claim comes first and goes last: without it there is no endpoint.
            Err(Errno::NOENT) => None,
            _ => {
                living.insert(word.to_owned());
                continue;
            }
        };
        let _ = rustix::fs::unlink(folder.join(name));
        tracing::debug!(name, "what a dead process had left was removed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(folder: &Path) -> HashSet<String> {
        let entries = std::fs::read_dir(folder).expect("listed");
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("a name")).collect()
    }

    #[test]
    fn names_differ_and_are_gone_when_they_are_dropped() {
        let folder = tempfile::tempdir().expect("a folder");
        let claim = || Name::claim_in(folder.path()).expect("claimed");
        let (one, other) = (claim(), claim());
        assert_ne!(one.word(), other.word());
        assert_eq!(files(folder.path()), HashSet::from([one.word().to_owned(), other.word().to_owned()]));
        drop((one, other));
        assert!(files(folder.path()).is_empty());
        assert!(Name::claim_in(&folder.path().join("nowhere")).expect_err("no folder").contains("nowhere"));
    }

    #[test]
    fn what_nobody_claims_is_removed_and_nothing_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let living = Name::claim_in(folder.path()).expect("claimed");
        let beside = format!("{}:0:0", living.word());
        let dead = ["ishigaki-1-00", "ishigaki-1-00:0:0", "ishigaki-1-00:0:1", "ishigaki-2-00:0:0"];
        let others = ["1234:0:0", "ishigak", "PostgreSQL.1"];
        for name in dead.iter().chain(&others).copied().chain([&beside[..]]) {
            std::fs::write(folder.path().join(name), b"").expect("written");
        }
        let another = Name::claim_in(folder.path()).expect("claimed");
        let left = [living.word(), &beside, another.word()].into_iter().chain(others);
        assert_eq!(files(folder.path()), left.map(str::to_owned).collect());
    }
}
