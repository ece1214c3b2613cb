//! A file of a member.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::member::Resident;
use crate::{Durability, FileId, Result};

/// An open file. What is read is consistent with everything accepted so far, durable or not.
///
/// A request of up to 256 KiB (or a quarter of the member's share, if that is less) is there whole or not at all after a
/// crash, unless it touches a checkpoint area; a larger one is made of such pieces, in order. Only a file without a name
/// leaves no trace after a crash; it lives as long as somebody has it open.
pub struct File {
    resident: Arc<Resident>,
    file: FileId,
}

impl File {
    /// A user of the file, who was counted.
    pub(crate) fn new(resident: Arc<Resident>, file: FileId) -> Self {
        Self { resident, file }
    }

    /// Its number, which it keeps through renames.
    pub fn id(&self) -> FileId {
        self.file
    }

    /// Bytes of it.
    pub fn length(&self) -> Result<u64> {
        Ok(self.resident.state()?.image.contents(self.file)?.length())
    }

    /// Fills `buffer` from `offset`, as far as the file goes; gives how many bytes that were.
    pub fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.resident.read(self.file, offset, buffer)
    }

    /// Writes bytes; the file grows if they go beyond its end.
    ///
    /// # Errors
    ///
    /// [`Error::Full`](crate::Error::Full) when a limit of the member does not allow it; of a request in several pieces the
    /// first ones may be written then.
    pub fn write(&self, offset: u64, bytes: &[u8], durability: Durability) -> Result<()> {
        self.resident.write(self.file, offset, bytes)?;
        self.settle(durability)
    }

    /// Makes bytes zero, or gives them space beforehand, which is the same here. With `keep_length` the file does not grow.
    pub fn zero(&self, offset: u64, length: u64, keep_length: bool, durability: Durability) -> Result<()> {
        self.resident.zero(self.file, offset, length, keep_length)?;
        self.settle(durability)
    }

    /// Gives it another length. What it grows by is zero.
    pub fn truncate(&self, length: u64, durability: Durability) -> Result<()> {
        self.resident.truncate(self.file, length)?;
        self.settle(durability)
    }

    /// Returns when everything written to it is durable. Its length and its name are, too, with `data_only` or without: the
    /// entries of a member become durable in their order.
    pub fn sync(&self, data_only: bool) -> Result<()> {
        let _ = data_only;
        self.resident.sync()
    }

    /// Tries a request on it again for so long while there is no room for now.
    pub(crate) fn patiently<R>(&self, patience: Duration, request: impl FnMut() -> Result<R>) -> Result<R> {
        self.resident.patiently(patience, request)
    }

    fn settle(&self, durability: Durability) -> Result<()> {
        match durability {
            Durability::Now => self.resident.sync(),
            Durability::Later => {
                self.resident.pace();
                Ok(())
            }
        }
    }
}

impl Drop for File {
    fn drop(&mut self) {
        self.resident.give_back(self.file);
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "File({} of {})", self.file, self.resident.name())
    }
}
