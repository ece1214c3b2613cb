//! The names of a member: files and directories by path.

use std::collections::BTreeMap;

use crate::paths::{self, parent};
use crate::{Error, FileId, Result};

/// All names; a directory has no file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Names(BTreeMap<String, Option<FileId>>);

impl Names {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// By path.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, Option<FileId>)> {
        self.0.iter().map(|(path, file)| (path.as_str(), *file))
    }

    /// What a path stands for, if it is there: a file or, with none, a directory.
    pub(crate) fn get(&self, path: &str) -> Option<&Option<FileId>> {
        self.0.get(path)
    }

    /// The file of that path.
    pub(crate) fn file(&self, path: &str) -> Result<FileId> {
        match self.get(path) {
            None => Err(not_found(path)),
            Some(None) => Err(Error::IsDirectory { name: path.to_owned() }),
            Some(Some(file)) => Ok(*file),
        }
    }

    /// The path of that file.
    pub(crate) fn path_of(&self, file: FileId) -> Option<&str> {
        self.iter().find(|(_, other)| *other == Some(file)).map(|(path, _)| path)
    }

    /// The names directly within a directory, or within the member with `None`.
    pub(crate) fn within(&self, directory: Option<&str>) -> Result<Vec<(String, Option<FileId>)>> {
        if let Some(path) = directory
            && self.get(path).ok_or_else(|| not_found(path))?.is_some()
        {
            return Err(Error::NotDirectory { name: path.to_owned() });
        }
        let inside = self.iter().filter(|(path, _)| parent(path) == directory);
        Ok(inside.map(|(path, file)| (path.rsplit('/').next().unwrap_or(path).to_owned(), file)).collect())
    }

    /// Sets a name, whatever there was.
    pub(crate) fn set(&mut self, path: &str, file: Option<FileId>) {
        self.0.insert(path.to_owned(), file);
    }

    fn check_parent(&self, path: &str) -> Result<()> {
        match parent(path).map(|parent| (parent, self.get(parent))) {
            None | Some((_, Some(None))) => Ok(()),
            Some((parent, None)) => Err(not_found(parent)),
            Some((parent, Some(Some(_)))) => Err(Error::NotDirectory { name: parent.to_owned() }),
        }
    }

    /// Whether a name can be made.
    pub(crate) fn check_create(&self, path: &str) -> Result<()> {
        paths::check(path)?;
        self.check_parent(path)?;
        if self.0.contains_key(path) { Err(Error::Exists { name: path.to_owned() }) } else { Ok(()) }
    }

    /// Whether a name can be changed; false if nothing would change.
    pub(crate) fn check_rename(&self, from: &str, to: &str) -> Result<bool> {
        paths::check(to)?;
        let moved = self.get(from).ok_or_else(|| not_found(from))?;
        if from == to {
            return Ok(false);
        }
        self.check_parent(to)?;
        match (moved, self.get(to)) {
            (None, _) if to.starts_with(&format!("{from}/")) => {
                Err(Error::invalid(format!("`{from}` can not go into itself as `{to}`")))
            }
            (None, Some(Some(_))) => Err(Error::NotDirectory { name: to.to_owned() }),
            (Some(_), Some(None)) => Err(Error::IsDirectory { name: to.to_owned() }),
            (None, Some(None)) => self.check_empty(to).map(|()| true),
            _ if self.longest_below(from) + to.len() > paths::LONGEST + from.len() => {
                Err(Error::invalid(format!("a path below `{to}` would have more than 255 bytes")))
            }
            _ => Ok(true),
        }
    }

    fn longest_below(&self, path: &str) -> usize {
        self.below(path).map(String::len).max().unwrap_or(path.len())
    }

    fn below<'a>(&'a self, path: &'a str) -> impl Iterator<Item = &'a String> {
        let inside = move |other: &&String| other.strip_prefix(path).is_some_and(|rest| rest.starts_with('/'));
        self.0.keys().filter(inside)
    }

    fn check_empty(&self, path: &str) -> Result<()> {
        match self.below(path).next() {
            Some(_) => Err(Error::NotEmpty { name: path.to_owned() }),
            None => Ok(()),
        }
    }

    /// Whether a name can be removed; gives its file.
    pub(crate) fn check_remove(&self, path: &str) -> Result<Option<FileId>> {
        let file = *self.get(path).ok_or_else(|| not_found(path))?;
        if file.is_none() {
            self.check_empty(path)?;
        }
        Ok(file)
    }

    /// Makes a name.
    pub(crate) fn create(&mut self, path: &str, file: Option<FileId>) -> Result<()> {
        self.check_create(path)?;
        self.set(path, file);
        Ok(())
    }

    /// Changes a name, and those below it. Gives the file that had the new name.
    pub(crate) fn rename(&mut self, from: &str, to: &str) -> Result<Option<FileId>> {
        if !self.check_rename(from, to)? {
            return Ok(None);
        }
        let below: Vec<String> = self.below(from).cloned().collect();
        for path in below {
            if let (Some(file), Some(rest)) = (self.0.remove(&path), path.strip_prefix(from)) {
                self.0.insert(format!("{to}{rest}"), file);
            }
        }
        let moved = self.0.remove(from).flatten();
        Ok(self.0.insert(to.to_owned(), moved).flatten())
    }

    /// Removes a name. Gives its file.
    pub(crate) fn remove(&mut self, path: &str) -> Result<Option<FileId>> {
        let file = self.check_remove(path)?;
        self.0.remove(path);
        Ok(file)
    }
}

fn not_found(path: &str) -> Error {
    Error::NotFound { name: path.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        let mut names = Names::default();
        names.create("d", None).unwrap();
        names.create("d/a", Some(FileId(1))).unwrap();
        names.create("b", Some(FileId(2))).unwrap();
        names
    }

    #[test]
    fn a_directory_takes_along_what_is_in_it() {
        let mut names = names();
        assert_eq!(names.rename("d", "e").unwrap(), None);
        assert_eq!(names.file("e/a").unwrap(), FileId(1));
        assert!(matches!(names.file("d/a"), Err(Error::NotFound { .. })));
        assert!(matches!(names.remove("e"), Err(Error::NotEmpty { .. })));
        assert!(names.rename("e", "e/inside").is_err());
    }

    #[test]
    fn a_renamed_file_takes_the_place_of_another() {
        let mut names = names();
        assert_eq!(names.rename("d/a", "b").unwrap(), Some(FileId(2)));
        assert_eq!(names.file("b").unwrap(), FileId(1));
        assert_eq!(names.within(None).unwrap(), [("b".to_owned(), Some(FileId(1))), ("d".to_owned(), None)]);
        assert_eq!(names.remove("d").unwrap(), None);
    }

    #[test]
    fn what_can_not_be_is_refused_and_changes_nothing() {
        let mut names = names();
        let before = names.clone();
        assert!(matches!(names.create("b", None), Err(Error::Exists { .. })));
        assert!(matches!(names.create("x/y", None), Err(Error::NotFound { .. })));
        assert!(matches!(names.create("b/y", None), Err(Error::NotDirectory { .. })));
        assert!(matches!(names.rename("b", "d"), Err(Error::IsDirectory { .. })));
        assert!(matches!(names.rename("d", "b"), Err(Error::NotDirectory { .. })));
        assert!(matches!(names.rename("x", "y"), Err(Error::NotFound { .. })));
        assert_eq!(names.rename("b", "b").unwrap(), None);
        assert_eq!(names, before);
    }
}
