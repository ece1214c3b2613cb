//! What could not be read of a database's files, told apart from what is damaged there.
//!
//! Verification and salvage go on behind whatever they can not read. What they then say of it sounds like damage, although the
//! bytes may be as they were: the medium failed, or this process may not read them. [`Sources`] notes which it was.

use ishigaki_device::{Directory, Error as DeviceError, ReadingDirectory};
use ishigaki_wal::Damage;

use crate::{Error, Result};

/// The directories of a database while it is read.
pub(crate) struct Sources<'a> {
    pub(crate) tables: ReadingDirectory<'a>,
    pub(crate) log: ReadingDirectory<'a>,
}

impl<'a> Sources<'a> {
    pub(crate) fn new(tables: &'a dyn Directory, log: &'a dyn Directory) -> Self {
        Self { tables: ReadingDirectory::new(tables), log: ReadingDirectory::new(log) }
    }

    /// Takes those damages away that only say that the medium failed to read, and gives these failures, each once.
    ///
    /// # Errors
    ///
    /// [`Error::Device`] if the operating system refused to read anything: then nothing is known of it.
    pub(crate) fn settle(&self, damages: &mut Vec<Damage>) -> Result<Vec<Damage>> {
        if let Some(refusal) = self.tables.refusal().or_else(|| self.log.refusal()) {
            return Err(refusal.into());
        }
        let mut unread: Vec<Damage> = Vec::new();
        for failed in self.tables.unread().into_iter().chain(self.log.unread()) {
            let offset = failed.bytes.map(|(first, _)| first);
            // Where reading stopped is the last place before it of which anything is said.
            let is_said_of_it = |damage: &Damage| {
                damage.file == failed.device
                    && damage.offset.is_none_or(|at| failed.bytes.is_none_or(|(_, last)| at <= last))
            };
            let said = damages.iter().enumerate().filter(|(_, damage)| is_said_of_it(damage));
            let said = said.max_by_key(|(_, damage)| damage.offset).map(|(place, _)| place);
            said.map(|place| damages.remove(place));
            unread.push(Damage { file: failed.device, offset, what: failed.what });
        }
        Ok(unread)
    }

    /// Why a copy could not be made: a failed read rather than what is missing because of it.
    pub(crate) fn cause(&self, error: Error) -> Error {
        let failure: Option<DeviceError> = self.tables.failure().or_else(|| self.log.failure());
        failure.map_or(error, Error::from)
    }
}
