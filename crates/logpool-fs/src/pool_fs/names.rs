//! Names: finding, making, renaming, removing, listing.
//!
//! A second name of a file is known here alone. Making one gives the file the new name in the pool, at once and durably with
//! the next sync, and keeps the old one beside it until it is removed: what a server means by it is a rename that replaces
//! nothing, and that is what it gets, whenever power goes.

use std::ffi::CStr;
use std::io;
use std::sync::Arc;

use fuse_backend_rs::api::filesystem::{DirEntry, Entry};
use ishigaki_logpool::{Error, Kind};
use rustix::fs::{FileType, OFlags, RenameFlags};
use rustix::io::Errno;

use super::tree::{FileNode, ROOT, number_of};
use super::{LONGEST_NAME, Listed, PoolFs};
use crate::errno::answer;

/// `d_ino` of what has no number yet.
const UNKNOWN: u64 = 0xffff_ffff;

/// As the kernel calls them.
const DT_DIRECTORY: u32 = 4;
const DT_FILE: u32 = 8;

impl PoolFs {
    /// The path of a name in a directory.
    fn path_in(&self, parent: u64, name: &CStr) -> io::Result<String> {
        let name = name.to_str().map_err(|_| Errno::INVAL)?;
        let parent = self.tree.lock().path(parent)?;
        let path = if parent.is_empty() { name.to_owned() } else { [&parent, "/", name].concat() };
        if path.len() as u64 > LONGEST_NAME { Err(Errno::NAMETOOLONG.into()) } else { Ok(path) }
    }

    pub(super) fn find(&self, parent: u64, name: &CStr) -> io::Result<Entry> {
        let _still = self.moves.read();
        let path = self.path_in(parent, name)?;
        let second = self.tree.lock().second.get(&path).copied();
        if let Some(number) = second {
            let node = self.tree.lock().enter_again(number)?;
            return self.file_entry(number, &node);
        }
        match self.member.metadata(&path).map_err(answer)?.kind {
            Kind::Directory => Ok(self.directory_entry(&path)),
            Kind::File => self.enter(&path).map(|(entry, _)| entry),
        }
    }

    /// Tells the kernel of a file that is there.
    fn enter(&self, path: &str) -> io::Result<(Entry, Arc<FileNode>)> {
        let file = self.member.open(path).map_err(answer)?;
        let (number, node) = self.tree.lock().enter_file(path, file);
        Ok((self.file_entry(number, &node)?, node))
    }

    fn file_entry(&self, number: u64, node: &FileNode) -> io::Result<Entry> {
        match self.file_attributes(number, node) {
            Ok(attributes) => Ok(self.entry(&attributes)),
            Err(error) => {
                // The kernel hears of the error only.
                drop(self.tree.lock().forget(number, 1));
                Err(error)
            }
        }
    }

    fn directory_entry(&self, path: &str) -> Entry {
        let number = self.tree.lock().enter_directory(path);
        self.entry(&self.directory_attributes(number))
    }

    fn refuse_second(&self, path: &str, errno: Errno) -> io::Result<()> {
        if self.tree.lock().second.contains_key(path) { Err(errno.into()) } else { Ok(()) }
    }

    pub(super) fn make_file(&self, parent: u64, name: &CStr, flags: u32) -> io::Result<(Entry, Arc<FileNode>)> {
        let _still = self.moves.read();
        let path = self.path_in(parent, name)?;
        self.refuse_second(&path, Errno::EXIST)?;
        match self.member.create(&path) {
            Ok(file) => {
                let (number, node) = self.tree.lock().enter_file(&path, file);
                *node.modified.lock() = self.calendar.now();
                Ok((self.file_entry(number, &node)?, node))
            }
            Err(Error::Exists { .. }) if flags & OFlags::EXCL.bits() == 0 => self.enter(&path),
            Err(error) => Err(answer(error)),
        }
    }

    /// As `mknod` makes them: plain files only.
    pub(super) fn make_node(&self, parent: u64, name: &CStr, mode: u32) -> io::Result<Entry> {
        if FileType::from_raw_mode(mode) != FileType::RegularFile {
            return Err(Errno::PERM.into());
        }
        self.make_file(parent, name, OFlags::EXCL.bits()).map(|(entry, _)| entry)
    }

    pub(super) fn make_directory(&self, parent: u64, name: &CStr) -> io::Result<Entry> {
        let _still = self.moves.read();
        let path = self.path_in(parent, name)?;
        self.refuse_second(&path, Errno::EXIST)?;
        self.member.create_directory(&path).map_err(answer)?;
        Ok(self.directory_entry(&path))
    }

    pub(super) fn remove_file(&self, parent: u64, name: &CStr) -> io::Result<()> {
        let _alone = self.moves.write();
        let path = self.path_in(parent, name)?;
        if self.tree.lock().second.remove(&path).is_some() {
            return Ok(());
        }
        let metadata = self.member.metadata(&path).map_err(answer)?;
        let number = number_of(metadata.file.ok_or(Errno::ISDIR)?);
        // A file with a second name goes on under that one.
        let second = self.tree.lock().second.iter().find(|(_, other)| **other == number).map(|(path, _)| path.clone());
        if let Some(second) = second {
            self.member.rename(&path, &second).map_err(answer)?;
            let mut tree = self.tree.lock();
            tree.second.remove(&second);
            tree.rename(&path, &second);
            return Ok(());
        }
        self.member.remove(&path).map_err(answer)?;
        let mut tree = self.tree.lock();
        tree.lose(&path);
        tree.forget_time(number);
        Ok(())
    }

    pub(super) fn remove_directory(&self, parent: u64, name: &CStr) -> io::Result<()> {
        let _alone = self.moves.write();
        let path = self.path_in(parent, name)?;
        self.refuse_second(&path, Errno::NOTDIR)?;
        if self.member.metadata(&path).map_err(answer)?.kind == Kind::File {
            return Err(Errno::NOTDIR.into());
        }
        let below = [&path, "/"].concat();
        if self.tree.lock().second.keys().any(|second| second.starts_with(&below)) {
            return Err(Errno::NOTEMPTY.into());
        }
        self.member.remove(&path).map_err(answer)?;
        self.tree.lock().lose(&path);
        Ok(())
    }

    pub(super) fn change_name(&self, from: (u64, &CStr), to: (u64, &CStr), flags: u32) -> io::Result<()> {
        let _alone = self.moves.write();
        let (from, to) = (self.path_in(from.0, from.1)?, self.path_in(to.0, to.1)?);
        let replaced = match self.member.metadata(&to) {
            Ok(metadata) => Some(metadata),
            Err(Error::NotFound { .. }) => None,
            Err(error) => return Err(answer(error)),
        };
        match RenameFlags::from_bits_retain(flags) {
            flags if flags.is_empty() => {}
            RenameFlags::NOREPLACE => {
                if replaced.is_some() || self.tree.lock().second.contains_key(&to) {
                    return Err(Errno::EXIST.into());
                }
            }
            _ => return Err(Errno::INVAL.into()),
        }
        if from == to {
            return Ok(());
        }
        // What is not durable has no name to give away.
        self.refuse_second(&from, Errno::BUSY)?;
        self.refuse_second(&to, Errno::BUSY)?;
        let replaced = replaced.and_then(|metadata| metadata.file).map(number_of);
        if replaced.is_some_and(|number| self.tree.lock().second.values().any(|other| *other == number)) {
            return Err(Errno::BUSY.into());
        }
        self.member.rename(&from, &to).map_err(answer)?;
        let mut tree = self.tree.lock();
        tree.lose(&to);
        if let Some(number) = replaced {
            tree.forget_time(number);
        }
        tree.rename(&from, &to);
        Ok(())
    }

    /// Gives a file another name beside the one that it has.
    pub(super) fn second_name(&self, number: u64, parent: u64, name: &CStr) -> io::Result<Entry> {
        let _alone = self.moves.write();
        let to = self.path_in(parent, name)?;
        self.refuse_second(&to, Errno::EXIST)?;
        let (from, is_file) = {
            let tree = self.tree.lock();
            (tree.path(number)?, tree.file(number)?.is_some())
        };
        if !is_file {
            return Err(Errno::PERM.into());
        }
        match self.member.metadata(&to) {
            Ok(_) => return Err(Errno::EXIST.into()),
            Err(Error::NotFound { .. }) => {}
            Err(error) => return Err(answer(error)),
        }
        self.member.rename(&from, &to).map_err(answer)?;
        let node = {
            let mut tree = self.tree.lock();
            tree.rename(&from, &to);
            tree.second.insert(from, number);
            tree.enter_again(number)?
        };
        self.file_entry(number, &node)
    }

    /// The names in a directory, itself and its parent first.
    pub(super) fn list(&self, directory: u64) -> io::Result<Vec<Listed>> {
        let _still = self.moves.read();
        let path = self.tree.lock().path(directory)?;
        let names = self.member.list((!path.is_empty()).then_some(path.as_str())).map_err(answer)?;
        let tree = self.tree.lock();
        let parent = match path.rsplit_once('/') {
            Some((parent, _)) => tree.directory(parent).unwrap_or(UNKNOWN),
            None => ROOT,
        };
        let mut listing: Vec<Listed> = [(".", directory), ("..", parent)]
            .map(|(name, number)| Listed { name: name.into(), number, kind: Kind::Directory })
            .into();
        let full = |name: &str| if path.is_empty() { name.to_owned() } else { [&path, "/", name].concat() };
        for (name, kind) in names {
            let number = match kind {
                Kind::Directory => tree.directory(&full(&name)),
                Kind::File => self.member.metadata(&full(&name)).ok().and_then(|known| known.file).map(number_of),
            };
            listing.push(Listed { name: name.into_bytes(), number: number.unwrap_or(UNKNOWN), kind });
        }
        for (second, &number) in &tree.second {
            let (parent, name) = second.rsplit_once('/').unwrap_or(("", second));
            if parent == path {
                listing.push(Listed { name: name.into(), number, kind: Kind::File });
            }
        }
        Ok(listing)
    }

    /// Gives the names of an open directory from the one of that number on.
    pub(super) fn tell_names(
        &self,
        directory: u64,
        handle: u64,
        offset: u64,
        add: &mut dyn FnMut(DirEntry<'_>) -> io::Result<usize>,
    ) -> io::Result<()> {
        if offset == 0 {
            // Read from the beginning once more, it shows what is there now.
            let now = Arc::new(self.list(directory)?);
            *self.listings.write().get_mut(&handle).ok_or(Errno::BADF)? = now;
        }
        let listing = self.listings.read().get(&handle).cloned().ok_or(Errno::BADF)?;
        for (index, listed) in listing.iter().enumerate().skip(usize::try_from(offset).unwrap_or(usize::MAX)) {
            let type_ = if listed.kind == Kind::Directory { DT_DIRECTORY } else { DT_FILE };
            let entry = DirEntry { ino: listed.number, offset: index as u64 + 1, type_, name: &listed.name };
            if add(entry)? == 0 {
                break;
            }
        }
        Ok(())
    }
}
