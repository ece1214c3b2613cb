//! The [`Directory`] trait: named devices, and when a name is durable.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use crate::{Device, Result};

/// Held while a directory (or a device) belongs to one user alone; dropping it, or the death of its process, gives the directory free.
#[derive(Debug)]
pub struct DirectoryLock {
    /// Whatever the implementation keeps to hold its lock.
    _held: Box<dyn Any + Send + Sync>,
}

impl DirectoryLock {
    /// A lock that lasts as long as `held` lives.
    pub fn new(held: impl Any + Send + Sync) -> Self {
        Self { _held: Box::new(held) }
    }
}

/// What keeps others from changing a directory while it is read.
#[derive(Debug)]
pub enum ReadLock {
    /// The directory's lock: no other process has it open.
    Sole(DirectoryLock),
    /// This process can write nothing there. No other process can lock the directory meanwhile; others may read it, too.
    Shared(DirectoryLock),
    /// This process can write nothing there, and there is no lock to be taken, since none was ever made.
    Nothing,
    /// The same two, of a directory that is opened for reading alone although this process could write there.
    Reader(Option<DirectoryLock>),
}

/// A flat set of named devices.
///
/// Names are ASCII letters, digits, `.`, `-` and `_`, at most 100 bytes, do not begin with a dot, and are not `LOCK`. A
/// device's own bytes obey its own syncs; its *name* is durable only after [`sync`](Directory::sync) of the directory.
/// Until then a power cut may undo any subset of the creations, renames and removals, in any order; each of them is undone
/// as a whole.
pub trait Directory: Send + Sync + Debug {
    /// Makes a device of `length` bytes, all zero. Its zeros, its space and its length are durable when this returns; its
    /// name is not. The length is rounded up to whole blocks. A creation that fails leaves no name behind.
    fn create(&self, name: &str, length: u64) -> Result<Arc<dyn Device>>;

    /// The same, as fast as the medium can set space aside: a file system need not write the zeros that are read, and the first
    /// write of a block may change more than its bytes. No write within the length lacks space later, unless it was given
    /// back by a trim before.
    fn reserve(&self, name: &str, length: u64) -> Result<Arc<dyn Device>> {
        self.create(name, length)
    }

    /// How many bytes more its devices may take, as far as the medium tells: `None` where it does not. Another user of the medium may
    /// take them first.
    fn room(&self) -> Result<Option<u64>> {
        Ok(None)
    }

    /// Refuses, before the first of them is made, devices of `needed` bytes together for which the medium has no room: other users
    /// of the medium would find it full until the last one is refused. `name` stands for all of them.
    fn check_room(&self, name: &str, needed: u64) -> Result<()> {
        match self.room()? {
            Some(room) if room < needed => Err(crate::Error::NoSpace { name: name.to_owned(), needed }),
            _ => Ok(()),
        }
    }

    /// Makes a device longer, and opens it. Its bytes stay, and zeros follow; its space and its length are durable when this returns. Handles that are open keep the
    /// length that they have. A power cut, or a failure, leaves the old length or the new one.
    ///
    /// A medium that can not do it refuses, as the implementation given here does.
    fn grow(&self, name: &str, length: u64) -> Result<Arc<dyn Device>> {
        let reason = format!("no device can be made {length} bytes long once it is there");
        Err(crate::Error::Invalid { name: name.to_owned(), reason })
    }

    /// Opens a device for reading and writing.
    fn open(&self, name: &str) -> Result<Arc<dyn Device>>;

    /// Opens what is left of a device that something has cut short or made longer, to read it: its whole blocks, even where
    /// its length is that of no device and [`open`](Self::open) refuses it as damaged. For getting out of a damaged device
    /// what it still has; nothing can be written to it.
    fn open_remains(&self, name: &str) -> Result<Arc<dyn Device>> {
        self.open(name)
    }

    /// The names, sorted.
    fn list(&self) -> Result<Vec<String>>;

    /// Gives a device another name; a device that had that name is gone. Seen at once and whole, durable after `sync`.
    fn rename(&self, from: &str, to: &str) -> Result<()>;

    /// Removes a name. The device lives until its last user lets go.
    fn remove(&self, name: &str) -> Result<()>;

    /// Returns when every creation, rename and removal before it is durable.
    fn sync(&self) -> Result<()>;

    /// Takes the directory for one user alone, over all processes. A second one gets [`crate::Error::Locked`] at once, and
    /// [`crate::Error::ReadOnly`] a user who can write nothing there.
    fn lock(&self) -> Result<DirectoryLock>;

    /// The same for a user who only reads, also where nothing can be written.
    fn lock_to_read(&self) -> Result<ReadLock> {
        self.lock().map(ReadLock::Sole)
    }
}
