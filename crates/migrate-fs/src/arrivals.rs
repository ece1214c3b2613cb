//! What the door asks of whatever brings files from the old server, before it answers.
//!
//! ```text
//!  request ──▶ door ── needed, changing ──▶ Arrivals      copies what is missing, and keeps account of it
//!                └──▶ the destination's own file system
//! ```
//!
//! A method that waits is called in [`ishigaki_fuse::waiting`]'s way: other requests go on meanwhile. It ends with an error soon after its
//! [`Cancel`] is told: the program has given up, or another process goes on with the mount.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};

use ishigaki_migrate::source::Cancel;

/// An object of the destination, as the door holds it during a request.
#[derive(Clone, Copy, Debug)]
pub struct Object<'a> {
    /// Its inode number. It stays this object's for as long as the request takes.
    pub number: u64,
    /// Opened as a place (`O_PATH`).
    pub place: BorrowedFd<'a>,
}

impl AsFd for Object<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.place
    }
}

/// What a request does to a file's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Every byte of the range is given by the request: written, or made zero.
    Write(Range<u64>),
    /// The file has this size from now on; what is behind the old one is zeros.
    Resize(u64),
    /// Room is reserved, and the file may become larger. No byte changes.
    Reserve(Range<u64>),
}

/// Brings what a request needs.
///
/// *Threads*: any number. An error is what the program gets; `EIO` where something can not be had.
pub trait Arrivals: Send + Sync {
    /// Whether nothing is missing of anything, for good, so that the door need not ask.
    fn is_over(&self) -> bool;

    /// Whether nothing is missing of this object, for good: a file's bytes are all here; a directory's names are, too.
    fn is_normal(&self, object: Object<'_>) -> io::Result<bool>;

    /// Whether all attributes of this object are here, for good.
    fn has_attributes(&self, object: Object<'_>) -> io::Result<bool>;

    /// A request needs a directory's names: it lists them, finds one, or is about to change one.
    fn names_needed(&self, directory: Object<'_>, cancel: &Cancel) -> io::Result<()>;

    /// A request needs all attributes of an object: its size, owner, mode, times, extended attributes.
    fn attributes_needed(&self, object: Object<'_>, cancel: &Cancel) -> io::Result<()>;

    /// A request reads these bytes of a file, as far as the file goes.
    fn bytes_needed(&self, file: Object<'_>, range: Range<u64>, cancel: &Cancel) -> io::Result<()>;

    /// A request changes a file's bytes, by `act`: what this copies does not come over what `act` does, and what `act` has done counts as
    /// here. `act` is called once, or not at all where this fails.
    fn change(
        &self,
        file: Object<'_>,
        change: &Change,
        cancel: &Cancel,
        act: &mut dyn FnMut() -> io::Result<()>,
    ) -> io::Result<()>;

    /// The object's last name is about to be removed.
    fn leaves(&self, object: Object<'_>);

    /// Whether programs do not see that extended attribute.
    fn hides(&self, name: &[u8]) -> bool;
}

/// Nothing is missing.
#[derive(Clone, Copy, Debug, Default)]
pub struct AllHere;

impl Arrivals for AllHere {
    fn is_over(&self) -> bool {
        true
    }

    fn is_normal(&self, _object: Object<'_>) -> io::Result<bool> {
        Ok(true)
    }

    fn has_attributes(&self, _object: Object<'_>) -> io::Result<bool> {
        Ok(true)
    }

    fn names_needed(&self, _directory: Object<'_>, _cancel: &Cancel) -> io::Result<()> {
        Ok(())
    }

    fn attributes_needed(&self, _object: Object<'_>, _cancel: &Cancel) -> io::Result<()> {
        Ok(())
    }

    fn bytes_needed(&self, _file: Object<'_>, _range: Range<u64>, _cancel: &Cancel) -> io::Result<()> {
        Ok(())
    }

    fn change(
        &self,
        _file: Object<'_>,
        _change: &Change,
        _cancel: &Cancel,
        act: &mut dyn FnMut() -> io::Result<()>,
    ) -> io::Result<()> {
        act()
    }

    fn leaves(&self, _object: Object<'_>) {}

    fn hides(&self, _name: &[u8]) -> bool {
        false
    }
}
