//! The way from the destination's root down to an object.

use std::io;
use std::path::{Component, Path};

use super::{Doing, Engine, Result};
use crate::destination::Destination;
use crate::source::{Cancel, FileType};

const DOING: &str = "looking for a path";

impl<D: Destination> Engine<D> {
    /// The object of a path below the destination, if one is there.
    pub(super) fn object_at(&self, path: &Path) -> Result<Option<D::Object>> {
        self.go_down(path, |_| Ok(()))
    }

    /// The same. Directories above it are listed first, as they are for a client: a crash may have taken the listing of one of them back, and whatever makes that
    /// again may remove what lies below.
    pub(super) fn descend(&self, path: &Path, cancel: &Cancel) -> Result<Option<D::Object>> {
        self.go_down(path, |directory| self.list_if_directory(directory, cancel).map(drop))
    }

    /// Whether it is a directory, which is listed then: a client may have put a file there.
    pub(super) fn list_if_directory(&self, object: &D::Object, cancel: &Cancel) -> Result<bool> {
        if self.is_listed(object) {
            return Ok(true);
        }
        let is_directory = self.destination.status(object).doing(DOING)?.file_type == FileType::Directory;
        if is_directory {
            self.look_into_for_crawler(object, cancel)?;
        }
        Ok(is_directory)
    }

    fn go_down(&self, path: &Path, mut enter: impl FnMut(&D::Object) -> Result<()>) -> Result<Option<D::Object>> {
        let mut object = self.destination.root();
        for part in path.components() {
            let Component::Normal(name) = part else { return Ok(None) };
            enter(&object)?;
            object = match self.destination.lookup(&object, name) {
                Ok(Some(next)) => next,
                Ok(None) => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::NotADirectory => return Ok(None),
                Err(error) => return Err(error).doing(DOING),
            };
        }
        Ok(Some(object))
    }
}
