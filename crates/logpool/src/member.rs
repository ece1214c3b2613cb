//! A member: one database server's own files, and nobody else's.

use std::sync::Arc;

use crate::format::Change;
use crate::{Error, File, FileId, MemberStatistics, Profile, Quota, Result, paths};

mod checkpoint;
mod damage;
mod nameless;
mod request;
mod resident;
mod state;

pub use damage::Scrubbed;
pub(crate) use resident::Resident;
pub(crate) use state::State;

/// A handle on a member. Cheap to clone; any number of threads may use it.
///
/// Names are changed at once and become durable by [`sync`](Self::sync), or by any durable request of the member: its
/// entries are durable in the order in which they were accepted, names and bytes alike. Paths are plain names with single
/// slashes between them.
#[derive(Clone, Debug)]
pub struct Member {
    resident: Arc<Resident>,
}

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A file.
    File,
    /// A directory.
    Directory,
}

/// What is known of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// What it stands for.
    pub kind: Kind,
    /// Bytes of the file.
    pub length: u64,
    /// The file's number; `None` for a directory.
    pub file: Option<FileId>,
}

impl Member {
    pub(crate) fn new(resident: Arc<Resident>) -> Self {
        Self { resident }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.resident.name()
    }

    /// Makes an empty file and opens it.
    pub fn create(&self, path: &str) -> Result<File> {
        let file = self.resident.make(path, true)?.ok_or_else(|| Error::IsDirectory { name: path.to_owned() })?;
        Ok(File::new(self.resident.clone(), file))
    }

    /// Opens a file.
    pub fn open(&self, path: &str) -> Result<File> {
        let mut state = self.resident.state()?;
        let file = state.image.names.file(path)?;
        state.image.take(file);
        drop(state);
        Ok(File::new(self.resident.clone(), file))
    }

    /// Makes an empty directory.
    pub fn create_directory(&self, path: &str) -> Result<()> {
        self.resident.make(path, false).map(|_| ())
    }

    /// Gives a file or directory another name. A file that had the new name is gone, as is an empty directory if a
    /// directory takes its name.
    pub fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.resident.rename(from, to)
    }

    /// Removes a file or an empty directory. A file that is open stays as it is for those who have it, until they let go.
    pub fn remove(&self, path: &str) -> Result<()> {
        self.resident.change_names(|state| {
            state.image.names.check_remove(path)?;
            Ok(Some(Change::Remove { path: path.to_owned() }))
        })
    }

    /// The names within a directory, or within the member itself with `None`, sorted.
    pub fn list(&self, directory: Option<&str>) -> Result<Vec<(String, Kind)>> {
        let state = self.resident.state()?;
        let names = state.image.names.within(directory)?;
        Ok(names.into_iter().map(|(name, file)| (name, file.map_or(Kind::Directory, |_| Kind::File))).collect())
    }

    /// What is known of a name.
    pub fn metadata(&self, path: &str) -> Result<Metadata> {
        let state = self.resident.state()?;
        match state.image.names.get(path) {
            None => Err(Error::NotFound { name: path.to_owned() }),
            Some(None) => Ok(Metadata { kind: Kind::Directory, length: 0, file: None }),
            Some(&Some(file)) => {
                let length = state.image.contents(file)?.length();
                Ok(Metadata { kind: Kind::File, length, file: Some(file) })
            }
        }
    }

    /// Returns when every change of the member, of names and of bytes, is durable.
    pub fn sync(&self) -> Result<()> {
        self.resident.sync()
    }

    /// The kind of server that it is for.
    pub fn profile(&self) -> Profile {
        self.resident.profile()
    }

    /// Its limits.
    pub fn quota(&self) -> Quota {
        self.resident.quota()
    }

    /// Why it takes no more requests, if so: the log's failure, its home's, or the pool's end.
    pub fn failure(&self) -> Option<Error> {
        self.resident.state().err()
    }

    /// What it has done and what it takes.
    pub fn statistics(&self) -> MemberStatistics {
        self.resident.statistics()
    }
}

impl Resident {
    /// Makes a name. A file has a user then.
    fn make(&self, path: &str, is_file: bool) -> Result<Option<FileId>> {
        paths::check(path)?;
        let mut made = None;
        self.change_names(|state| {
            state.image.names.check_create(path)?;
            if state.image.names.len() as u64 >= self.quota().files.into() {
                return Err(self.full(format!("it has {} files and directories; remove some", self.quota().files)));
            }
            if is_file && state.image.next_file == u32::MAX {
                return Err(self.full("it has used up the numbers of files".to_owned()));
            }
            made = is_file.then_some(FileId(state.image.next_file));
            Ok(Some(Change::Create { path: path.to_owned(), file: made }))
        })?;
        Ok(made)
    }
}
