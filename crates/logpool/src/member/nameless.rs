//! Files without a name: they live as long as a process has them open, and no log has their changes. A service that takes the place of
//! another one, under programs that have such files open, is handed their bytes.

use super::Member;
use crate::image::BLOCK;
use crate::{Error, File, FileId, Result};

impl Member {
    /// Bytes of a block of [`adopt`](Self::adopt).
    pub const BLOCK: u64 = BLOCK;

    /// The path of a file; `None` for one without a name, and for one that there is not.
    pub fn path_of(&self, file: FileId) -> Result<Option<String>> {
        Ok(self.resident.state()?.image.names.path_of(file).map(str::to_owned))
    }

    /// Takes in a file without a name, as an earlier pool had it: its length, and the blocks of it that are not zero, each with
    /// its index. They stay in memory until the last user lets go, and count towards no share.
    ///
    /// # Errors
    ///
    /// [`Error::Exists`] for a file that is there, and [`Error::Invalid`] for a number that no file of this member ever had.
    pub fn adopt(&self, file: FileId, length: u64, blocks: Vec<(u64, Vec<u8>)>) -> Result<File> {
        let mut state = self.resident.state()?;
        if state.image.contents(file).is_ok() {
            return Err(Error::Exists { name: format!("file number {file}") });
        }
        if file.0 >= state.image.next_file {
            return Err(Error::invalid(format!("member `{}` never had a file number {file}", self.name())));
        }
        state.image.adopt(file, length, blocks);
        state.image.take(file);
        drop(state);
        Ok(File::new(self.resident.clone(), file))
    }
}
