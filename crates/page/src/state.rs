//! Which page file one is, and how many appends it has: what its owner may know of it from elsewhere.
//!
//! A manifest fits its checksum also where it is another file's, or an older copy of the file's own. Only one who has
//! noted what was current can tell: [`State::check`].

use ishigaki_device::Directory;

use crate::error::{Error, Result};
use crate::manifest::Manifest;
use crate::reader::read_manifest;

/// Which page file, with how many appends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// What tells the file from all others: drawn at random when it was made.
    pub identity: u64,
    /// How many appends became current since.
    pub appends: u64,
}

impl State {
    pub(crate) fn of(manifest: &Manifest) -> Self {
        Self { identity: manifest.file, appends: manifest.appends }
    }

    /// Refuses a state of the file of that name that can not follow on one which is known.
    ///
    /// # Errors
    ///
    /// [`Error::Foreign`] if it is another file's, [`Error::Outdated`] if it has fewer appends.
    pub fn check(self, file: &str, known: Self) -> Result<()> {
        let file = file.to_owned();
        if self.identity != known.identity {
            return Err(Error::Foreign { file, found: self.identity, known: known.identity });
        }
        if self.appends < known.appends {
            return Err(Error::Outdated { file, found: self.appends, known: known.appends });
        }
        Ok(())
    }
}

/// The state of a file, as a reader sees it: a power cut may take the last append back, if that was not answered.
///
/// # Errors
///
/// As [`Reader::open`](crate::Reader::open).
pub fn state(directory: &dyn Directory, file: &str) -> Result<State> {
    Ok(State::of(&read_manifest(directory, file)?))
}

/// The state of a file, made durable for a caller that notes it. A writer that was killed between the rename of a manifest and the sync
/// of its name leaves an append that every reader sees and a power cut may take back: a note of that would refuse the file for ever.
///
/// # Errors
///
/// As [`Reader::open`](crate::Reader::open), and when the directory can not be synced.
pub fn durable_state(directory: &dyn Directory, file: &str) -> Result<State> {
    let state = state(directory, file)?;
    match directory.sync() {
        // A medium that is only read has nothing in flight.
        Ok(()) | Err(ishigaki_device::Error::ReadOnly { .. }) => Ok(state),
        Err(error) => Err(error.into()),
    }
}
