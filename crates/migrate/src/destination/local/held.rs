//! An inode with a descriptor.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};

use super::NodeId;
use crate::source::path::stat;

/// Holds an inode, whatever becomes of its names. Clones hold it by the same descriptor.
#[derive(Clone, Debug)]
pub struct Held {
    descriptor: Arc<OwnedFd>,
    node: NodeId,
}

impl Held {
    pub(super) fn new(descriptor: OwnedFd) -> io::Result<Self> {
        let node = NodeId(stat::of(descriptor.as_fd())?.id.1);
        Ok(Self { descriptor: Arc::new(descriptor), node })
    }

    pub(super) fn node(&self) -> NodeId {
        self.node
    }

    /// A name by which system calls that take no descriptor reach the inode; they follow it to the inode itself, and no further.
    pub(super) fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.descriptor.as_raw_fd()).into()
    }

    /// Opens the inode once more, otherwise than it was.
    pub(super) fn reopen(&self, flags: OFlags) -> io::Result<OwnedFd> {
        Ok(rustix::fs::open(self.path(), flags | OFlags::CLOEXEC | OFlags::NOCTTY, Mode::empty())?)
    }

    /// The file's data, to read and write.
    pub(super) fn data(&self) -> io::Result<OwnedFd> {
        self.reopen(OFlags::RDWR | OFlags::NOATIME)
    }
}

impl AsFd for Held {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}
