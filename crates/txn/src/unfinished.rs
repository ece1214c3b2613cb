//! A directory in which a database is being made of another one: by a backup or a salvage.
//!
//! A device named `unfinished` is there, durably, before anything else, and goes last. Until then the directory is no
//! database: opening it is refused, for it would show a part of the rows as if that were all.

use std::sync::Arc;

use ishigaki_device::Directory;
use ishigaki_wal::Progress;

use crate::apart::NOTE;
use crate::checkpoint::files::MANIFEST;
use crate::{Database, Error, Result, Settings};

/// The device that says so.
const MARK: &str = "unfinished";

/// A directory in which a database is being made. Dropping it leaves the directory refused by [`Database::open_in`].
#[derive(Debug)]
pub struct Unfinished {
    directory: Arc<dyn Directory>,
}

impl Unfinished {
    /// Begins one in an empty directory.
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check).
    pub fn begin(directory: Arc<dyn Directory>) -> Result<Self> {
        Self::check(directory.as_ref())?;
        directory.create(MARK, 1)?;
        directory.sync()?;
        Ok(Self { directory })
    }

    /// Whether one can be begun there. Nothing is made.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidSetting`] if anything is in the directory.
    pub fn check(directory: &dyn Directory) -> Result<()> {
        let names = directory.list()?;
        if let Some(name) = names.first() {
            let reason = if names.iter().any(|name| name == MARK) {
                Error::Unfinished.to_string()
            } else {
                format!("a database is made in an empty directory, and there is `{name}` in this one; name another one")
            };
            return Err(Error::InvalidSetting { reason });
        }
        Ok(())
    }

    /// Where it is.
    pub fn directory(&self) -> &Arc<dyn Directory> {
        &self.directory
    }

    /// Opens what is there so far.
    pub fn open(&self, settings: Settings) -> Result<Database> {
        Database::open_unfinished(self.directory.clone(), settings, &Progress::default())
    }

    /// The database is whole from now on.
    pub fn finish(self) -> Result<()> {
        self.directory.remove(MARK)?;
        Ok(self.directory.sync()?)
    }
}

/// Whether a database, whole or damaged, is in a directory: files of a log, of a checkpoint, or the note of a log that lies apart.
///
/// # Errors
///
/// [`Error::Unfinished`] if one was being made there; reading the directory may fail.
pub fn is_database(directory: &dyn Directory) -> Result<bool> {
    refuse(directory)?;
    let is_of_one = |name: &String| name.starts_with("wal-") || name.starts_with(MANIFEST) || name == NOTE;
    Ok(directory.list()?.iter().any(is_of_one))
}

/// Refuses a directory in which a database was being made and is not whole.
pub(crate) fn refuse(directory: &dyn Directory) -> Result<()> {
    if directory.list()?.iter().any(|name| name == MARK) { Err(Error::Unfinished) } else { Ok(()) }
}
