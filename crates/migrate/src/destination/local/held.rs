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
    /// The descriptor reads and writes the file's data.
    is_data: bool,
}

/// A descriptor of a file's data.
pub(super) enum Data<'a> {
    Own(BorrowedFd<'a>),
    Opened(OwnedFd),
}

impl AsFd for Data<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Own(descriptor) => *descriptor,
            Self::Opened(descriptor) => descriptor.as_fd(),
        }
    }
}

impl Held {
    pub(super) fn new(descriptor: OwnedFd) -> io::Result<Self> {
        let node = NodeId(stat::of(descriptor.as_fd())?.id.1);
        Ok(Self { descriptor: Arc::new(descriptor), node, is_data: false })
    }

    /// By a descriptor that reads and writes the file's data.
    pub(super) fn with_data(descriptor: OwnedFd) -> io::Result<Self> {
        Ok(Self { is_data: true, ..Self::new(descriptor)? })
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
    pub(super) fn data(&self) -> io::Result<Data<'_>> {
        if self.is_data {
            return Ok(Data::Own(self.descriptor.as_fd()));
        }
        self.reopen(OFlags::RDWR | OFlags::NOATIME).map(Data::Opened)
    }
}

impl AsFd for Held {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}
