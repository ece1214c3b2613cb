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
use rustix::fs::Statx;

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
    /// The range becomes zeros.
    Zero(Range<u64>),
    /// The file has this size from now on; what is behind the old one is zeros.
    Resize(u64),
    /// Room is reserved, and the file may become larger. No byte changes.
    Reserve(Range<u64>),
}

/// Does the request itself, once.
pub type Act<'a> = &'a mut dyn FnMut() -> io::Result<()>;

/// Does the request itself, once, and says how many bytes it has written, which may be fewer than it wanted.
pub type WriteAct<'a> = &'a mut dyn FnMut() -> io::Result<u64>;

/// Brings what a request needs.
///
/// *Threads*: any number. An error is what the program gets; `EIO` where something can not be had. Where a method takes an [`Act`], what it
/// copies does not come over what the act does, and what the act has done counts as here; where it fails before, it does not call the act.
pub trait Arrivals: Send + Sync {
    /// Whether nothing is missing of anything, for good, so that the door need not ask.
    fn is_over(&self) -> bool;

    /// Whether nothing is missing of this file, for good: its bytes and attributes are all here.
    fn is_normal(&self, file: Object<'_>) -> io::Result<bool>;

    /// A request needs a directory's names or attributes. Once they are here, they are for good, and are not asked for again.
    fn names_needed(&self, directory: Object<'_>, cancel: &Cancel) -> io::Result<()>;

    /// A request is about to add a name to a directory, or to take one from it.
    fn names_change(&self, directory: Object<'_>, cancel: &Cancel) -> io::Result<()>;

    /// A request moves a name by `act`, or gives an object another one.
    fn moving(&self, act: Act<'_>) -> io::Result<()>;

    /// Whether the inode of that number has a name that programs do not see, so that the destination counts one more than they have.
    fn has_hidden_name(&self, number: u64) -> bool;

    /// What programs see of a file's attributes, where it differs from what the destination has.
    fn seen(&self, file: Object<'_>, attributes: &mut Statx) -> io::Result<()>;

    /// A request needs the extended attributes of a file.
    fn extras_needed(&self, file: Object<'_>, cancel: &Cancel) -> io::Result<()>;

    /// A request changes attributes of a file by `act`.
    fn attributes_change(&self, file: Object<'_>, cancel: &Cancel, act: Act<'_>) -> io::Result<()>;

    /// A request reads these bytes of a file, as far as the file goes.
    fn bytes_needed(&self, file: Object<'_>, range: Range<u64>, cancel: &Cancel) -> io::Result<()>;

    /// A request gives every byte of a range of a file by `act`, or fewer from its beginning on. How many of them count: the program is told of
    /// no others, for what it has written of a block that is not here may be lost.
    fn write(&self, file: Object<'_>, range: Range<u64>, cancel: &Cancel, act: WriteAct<'_>) -> io::Result<u64>;

    /// A request changes a file's bytes in another way by `act`.
    fn change(&self, file: Object<'_>, change: &Change, cancel: &Cancel, act: Act<'_>) -> io::Result<()>;

    /// The first range of a file at or behind `offset` that is not known to be a hole; `None` if there is none.
    fn next_data(&self, file: Object<'_>, offset: u64) -> io::Result<Option<Range<u64>>>;

    /// Whether programs do not see that extended attribute.
    fn hides_extra(&self, name: &[u8]) -> bool;

    /// Whether programs do not see that name of the root directory.
    fn hides_name(&self, name: &[u8]) -> bool;
}

/// Nothing is missing.
#[derive(Clone, Copy, Debug, Default)]
pub struct AllHere;

impl Arrivals for AllHere {
    fn is_over(&self) -> bool {
        true
    }

    fn is_normal(&self, _: Object<'_>) -> io::Result<bool> {
        Ok(true)
    }

    fn names_needed(&self, _: Object<'_>, _: &Cancel) -> io::Result<()> {
        Ok(())
    }

    fn names_change(&self, _: Object<'_>, _: &Cancel) -> io::Result<()> {
        Ok(())
    }

    fn moving(&self, act: Act<'_>) -> io::Result<()> {
        act()
    }

    fn has_hidden_name(&self, _: u64) -> bool {
        false
    }

    fn seen(&self, _: Object<'_>, _: &mut Statx) -> io::Result<()> {
        Ok(())
    }

    fn extras_needed(&self, _: Object<'_>, _: &Cancel) -> io::Result<()> {
        Ok(())
    }

    fn attributes_change(&self, _: Object<'_>, _: &Cancel, act: Act<'_>) -> io::Result<()> {
        act()
    }

    fn bytes_needed(&self, _: Object<'_>, _: Range<u64>, _: &Cancel) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, _: Object<'_>, _: Range<u64>, _: &Cancel, act: WriteAct<'_>) -> io::Result<u64> {
        act()
    }

    fn change(&self, _: Object<'_>, _: &Change, _: &Cancel, act: Act<'_>) -> io::Result<()> {
        act()
    }

    fn next_data(&self, _: Object<'_>, offset: u64) -> io::Result<Option<Range<u64>>> {
        Ok(Some(offset..u64::MAX))
    }

    fn hides_extra(&self, _: &[u8]) -> bool {
        false
    }

    fn hides_name(&self, _: &[u8]) -> bool {
        false
    }
}
