//! The server that is being replaced: what the engine asks of it, whatever protocol it speaks.
//!
//! A [`Source`] is only read, and reading changes nothing there, not even a time of last access. Its methods block the calling thread;
//! many threads call at a time, and an implementation keeps many requests under way at once. A call that waits for a slow or absent server
//! ends when its [`Cancel`] says so.
//!
//! An object is named by a [`Location`]: the path below the source's root, and a handle where the protocol has one. The path is enough;
//! the handle spares a lookup for each component.
//!
//! Parts: `attributes` is what an object says of itself, `cancel` ends calls, `error` is what can go wrong, `names` gives each name of a
//! directory once, `deferred` is a source that is opened when it is needed, `detached` one whose calls may hang in the kernel; `url`, `socket` and `multiplex` are what addresses and connections have in common; `spread` does without them. Sources:
//! `nfs` is a server that speaks NFS version 3, `smb` one that speaks SMB 2.1 to 3.1.1, `path` a directory that is mounted here, `simulated` one in
//! memory for tests.

mod attributes;
mod cancel;
pub mod deferred;
pub mod detached;
mod error;
mod multiplex;
mod names;
pub mod nfs;
pub mod path;
pub mod simulated;
pub mod smb;
mod socket;
mod spread;
mod url;

use std::ffi::OsString;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

pub(crate) use attributes::Identity;
pub use attributes::{Attributes, Extras, FileType, Owner, Stamp, Timestamp};
pub use cancel::Cancel;
pub use error::{Error, ErrorKind, Result};
pub(crate) use spread::spread;

/// A call that takes longer waits for something far away, or for a disk: others could be under way meanwhile.
pub(crate) const NEAR: Duration = Duration::from_millis(2);

/// Where an object lies at the source.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Location {
    /// Below the source's root, without a leading slash; empty for the root itself. Any bytes but NUL, of any length.
    pub path: PathBuf,
    /// By which the source finds the object without its path (an NFS file handle); empty where the protocol has none or it is not known.
    pub handle: Box<[u8]>,
}

/// An object in a directory of the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// One component, never `.` or `..`, without a slash.
    pub name: OsString,
    /// Empty where the protocol has none.
    pub handle: Box<[u8]>,
    /// `None` where a listing does not carry them; [`Source::attributes`] gives them.
    pub attributes: Option<Attributes>,
}

/// What a source can tell, so that the engine need not ask for what is never there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Owners are numbers of users and groups.
    pub owners: bool,
    /// [`Extras::attributes`] may hold something: extended attributes or access control lists.
    pub extras: bool,
    /// [`Source::next_data`] knows holes.
    pub holes: bool,
    /// The most bytes that one request reads; larger reads are several requests.
    pub read_size: usize,
    /// Requests that it is worth to have under way at a time.
    pub parallel: usize,
}

/// What comes of a call for each of so many: what it gives, or for each why it could not be made.
pub(crate) fn of_each<T>(many: usize, results: Result<Vec<Result<T>>>) -> Vec<Result<T>> {
    results.unwrap_or_else(|error| (0..many).map(|_| Err(error.clone())).collect())
}

/// What takes requests of its own, and what the object said of itself behind that.
pub type ToldExtras = (Extras, Option<Attributes>);

/// A server or directory that is read.
///
/// *Threads*: any number. *Drop* closes connections. *A restart of the server* is waited for, or is [`ErrorKind::Unavailable`]: then
/// the engine asks again later.
pub trait Source: Send + Sync {
    /// As a person names it: `nfs://old/home`.
    fn name(&self) -> String;

    /// What it can tell.
    fn capabilities(&self) -> Capabilities;

    /// Whether calls may hang in the kernel, whatever their [`Cancel`] says. It may be another answer after [`root`](Self::root) and [`reopen`](Self::reopen),
    /// which may hang in any case.
    fn may_hang(&self) -> bool {
        false
    }

    /// The root of what is migrated, with its attributes.
    ///
    /// # Errors
    ///
    /// Of any kind.
    fn root(&self, cancel: &Cancel) -> Result<(Location, Attributes)>;

    /// Looks anew where the source's name leads: what was found there is not the source. Nothing to do where each call finds its way by the
    /// name.
    ///
    /// # Errors
    ///
    /// Of any kind; then it is as before.
    fn reopen(&self, _cancel: &Cancel) -> Result<()> {
        Ok(())
    }

    /// The objects of a directory, in pages, in any order; each name once. A page is given to `take` as soon as it is there. `take` may end
    /// the listing by an error, which is returned.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Gone`] if there is no such directory; what `take` returns; others.
    fn list(&self, directory: &Location, cancel: &Cancel, take: &mut dyn FnMut(Vec<Entry>) -> Result<()>)
    -> Result<()>;

    /// What an object says of itself now. Symbolic links are not followed.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Gone`] if there is no such object; others.
    fn attributes(&self, object: &Location, cancel: &Cancel) -> Result<Attributes>;

    /// The target of a symbolic link, extended attributes, access control lists; and what the object says of itself behind that, where the
    /// protocol tells both at once.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Gone`] if there is no such object; others.
    fn extras_told(&self, object: &Location, cancel: &Cancel) -> Result<ToldExtras>;

    /// [`extras_told`](Self::extras_told) of many objects, whose kinds the caller knows, with as many requests under way as the source can take. One result
    /// for each, in order.
    fn extras_of_told(&self, objects: &[(&Location, FileType)], cancel: &Cancel) -> Vec<Result<ToldExtras>> {
        objects.iter().map(|(object, _)| self.extras_told(object, cancel)).collect()
    }

    /// The extras of [`extras_told`](Self::extras_told) alone.
    ///
    /// # Errors
    ///
    /// Those of it.
    fn extras(&self, object: &Location, cancel: &Cancel) -> Result<Extras> {
        Ok(self.extras_told(object, cancel)?.0)
    }

    /// The extras of [`extras_of_told`](Self::extras_of_told) alone.
    fn extras_of(&self, objects: &[(&Location, FileType)], cancel: &Cancel) -> Vec<Result<Extras>> {
        self.extras_of_told(objects, cancel).into_iter().map(|told| Ok(told?.0)).collect()
    }

    /// Reads a file from `offset` on until the buffer is full or the file ends; how many bytes were read.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Gone`] if there is no such file; others. What the buffer holds then is of no meaning.
    fn read(&self, file: &Location, offset: u64, buffer: &mut [u8], cancel: &Cancel) -> Result<usize>;

    /// Reads many small files, each from its beginning into its own buffer as [`read`](Self::read) does, with as many requests under way as the
    /// source can take. One result for each file, in order.
    fn read_files(&self, files: &mut [(&Location, &mut [u8])], cancel: &Cancel) -> Vec<Result<usize>> {
        files.iter_mut().map(|(file, buffer)| self.read(file, 0, buffer, cancel)).collect()
    }

    /// [`read`](Self::read), and what the file says of itself behind that, where the protocol tells with the data: it spares the engine
    /// a request by which it would learn whether the file is still the one that it knows.
    ///
    /// # Errors
    ///
    /// Those of `read`.
    fn read_told(
        &self,
        file: &Location,
        offset: u64,
        buffer: &mut [u8],
        cancel: &Cancel,
    ) -> Result<(usize, Option<Attributes>)> {
        Ok((self.read(file, offset, buffer, cancel)?, None))
    }

    /// [`read_files`](Self::read_files), and what each file says of itself behind that, where the protocol tells with the data.
    fn read_files_told(
        &self,
        files: &mut [(&Location, &mut [u8])],
        cancel: &Cancel,
    ) -> Vec<Result<(usize, Option<Attributes>)>> {
        self.read_files(files, cancel).into_iter().map(|read| Ok((read?, None))).collect()
    }

    /// The first range at or behind `offset` that may hold anything but zeros; `None` if only zeros follow. A source that knows no
    /// holes says that everything does.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Gone`] if there is no such file; others.
    fn next_data(&self, _file: &Location, offset: u64, _cancel: &Cancel) -> Result<Option<Range<u64>>> {
        Ok(Some(offset..u64::MAX))
    }
}
