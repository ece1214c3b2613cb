//! The new server's file system: what the engine asks of it.
//!
//! An [`Object`](Destination::Object) holds an inode, not a name: it goes on being that inode whatever clients rename or unlink. Symbolic links are never
//! followed.
//!
//! What the engine builds on, and `Local` checks before a migration begins:
//!
//! - A block of a file is a hole or holds what was written to it, also after a power cut: a file system that allocates late or marks
//!   blocks as unwritten until their data is durable does so (ext4, xfs, btrfs). Making a file smaller, or larger, allocates nothing, but the
//!   rest of the block in which it ended may become data, all zeros, when it becomes larger (btrfs).
//! - A write that fails may make data, all zeros, of any block that it was to write (ext4, where room ends). Nothing else does.
//! - A sync that has failed fails ever after: what it was to make durable may be lost, although it can still be read.
//! - Where it says that it is [ordered](Destination::is_ordered), changes of names, attributes and sizes survive a power cut as a prefix
//!   of the order in which they were made.
//!
//! Parts: `local` is a directory of this host, `simulated` one in memory that loses power.

pub mod local;
pub mod simulated;

use std::ffi::{OsStr, OsString};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::source::{Attributes, FileType, Owner, Timestamp};

/// What a program may do when it is started from a file, as an extended attribute. It goes when the file's bytes, size or owner change, whoever
/// changes them.
pub const CAPABILITIES: &str = "security.capability";

/// The number of an inode of the destination. It is that inode's own as long as an [`Object`](Destination::Object) holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u64);

/// An entry of a directory of the destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// One component, never `.` or `..`.
    pub name: OsString,
    /// The inode that it names.
    pub node: NodeId,
    /// The kind of that.
    pub file_type: FileType,
}

/// What [`Destination::make`] makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Make<'a> {
    /// An empty file.
    File,
    /// An empty directory.
    Directory,
    /// A symbolic link with that target.
    Symlink(&'a Path),
    /// A device, pipe or socket, with major and minor number.
    Special(FileType, (u32, u32)),
}

/// A file system, used from its root directory down.
///
/// *Threads*: any number. *Errors* are those of the system calls; an error of kind [`io::ErrorKind::NotFound`] says that a name is not there.
pub trait Destination: Send + Sync + 'static {
    /// Holds an inode; clones hold the same.
    type Object: Clone + Send + Sync + 'static;

    /// Bytes of a block: allocation is by multiples of it.
    fn block_size(&self) -> u64;
    /// Whether changes of names, attributes and sizes survive a power cut in their order.
    fn is_ordered(&self) -> bool;
    /// The root directory.
    fn root(&self) -> Self::Object;
    /// The inode's number.
    fn id(&self, object: &Self::Object) -> NodeId;

    /// The object of that name; `None` if there is no such name.
    fn lookup(&self, directory: &Self::Object, name: &OsStr) -> io::Result<Option<Self::Object>>;
    /// All names of a directory. Reading them changes no time of access.
    fn names(&self, directory: &Self::Object) -> io::Result<Vec<Name>>;
    /// Makes an object that root alone may use. The name must be free.
    fn make(&self, directory: &Self::Object, name: &OsStr, what: Make<'_>) -> io::Result<Self::Object>;
    /// Gives an object another name. The name must be free.
    fn link(&self, object: &Self::Object, directory: &Self::Object, name: &OsStr) -> io::Result<()>;
    /// Removes the name of anything but a directory.
    fn unlink(&self, directory: &Self::Object, name: &OsStr) -> io::Result<()>;
    /// Removes an empty directory.
    fn remove_directory(&self, directory: &Self::Object, name: &OsStr) -> io::Result<()>;
    /// Moves a name; what had the new name is replaced.
    fn rename(&self, from: (&Self::Object, &OsStr), to: (&Self::Object, &OsStr)) -> io::Result<()>;
    /// Moves a name. The new name must be free.
    fn move_to_free(&self, from: (&Self::Object, &OsStr), to: (&Self::Object, &OsStr)) -> io::Result<()>;

    /// What the object says of itself.
    fn status(&self, object: &Self::Object) -> io::Result<Attributes>;
    /// The target of a symbolic link.
    fn target(&self, link: &Self::Object) -> io::Result<PathBuf>;
    /// Sets user and group.
    fn set_owner(&self, object: &Self::Object, owner: Owner) -> io::Result<()>;
    /// Sets permissions; of anything but a symbolic link.
    fn set_mode(&self, object: &Self::Object, mode: u32) -> io::Result<()>;
    /// Sets the times of last access and last change of data.
    fn set_times(&self, object: &Self::Object, accessed: Timestamp, modified: Timestamp) -> io::Result<()>;

    /// The value of an extended attribute, if it has one.
    fn xattr(&self, object: &Self::Object, name: &OsStr) -> io::Result<Option<Vec<u8>>>;
    /// The names of all extended attributes.
    fn xattrs(&self, object: &Self::Object) -> io::Result<Vec<OsString>>;
    /// Sets an extended attribute. [`io::ErrorKind::StorageFull`] if the inode has no room for so much, or the file system.
    fn set_xattr(&self, object: &Self::Object, name: &OsStr, value: &[u8]) -> io::Result<()>;
    /// Removes an extended attribute, if it is there.
    fn remove_xattr(&self, object: &Self::Object, name: &OsStr) -> io::Result<()>;

    /// Reads from `offset` on until the buffer is full or the file ends; how many bytes were read. Changes no time of access.
    fn read_at(&self, file: &Self::Object, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;
    /// Writes all bytes at `offset`.
    fn write_at(&self, file: &Self::Object, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Sets the size of a file.
    fn truncate(&self, file: &Self::Object, size: u64) -> io::Result<()>;
    /// Makes the range zeros, and its whole blocks holes. The size stays.
    fn punch(&self, file: &Self::Object, range: Range<u64>) -> io::Result<()>;
    /// Forgets what was merely read of a file. Blocks that a file system has reserved and not written, as a power cut leaves them, it may take
    /// for data as long as it remembers the zeros that were read there.
    fn forget_read(&self, file: &Self::Object) -> io::Result<()>;
    /// The first range at or behind `offset` that is allocated and holds what was written; `None` if there is none.
    fn next_data(&self, file: &Self::Object, offset: u64) -> io::Result<Option<Range<u64>>>;

    /// Makes an object with its data and attributes durable.
    fn sync(&self, object: &Self::Object) -> io::Result<()>;
    /// Makes everything durable.
    fn sync_all(&self) -> io::Result<()>;
}
