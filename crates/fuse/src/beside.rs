//! What a file system answers that the library does not know, as `linux/fuse.h` has it.
//!
//! Requests that the library knows go to it; of these here it knows nothing, so they are taken out before. `begin` changes what the
//! library says when a mount begins, `requests` reads and answers the others.

mod begin;
mod requests;

use std::ffi::CStr;
use std::time::Duration;

use fuse_backend_rs::abi::fuse_abi::CreateIn;
use fuse_backend_rs::api::filesystem::{Context, Entry, OpenOptions};
use rustix::fs::Statx;
use rustix::io::Errno;

use crate::Connection;

pub(crate) use begin::begin;
pub(crate) use requests::{answer, is_beside};

/// Programs read and write a file without the file system being asked, once it says so when the file is opened.
pub const PASSTHROUGH: u64 = 1 << 37;
/// Files that are open for direct I/O may be mapped shared.
pub const DIRECT_IO_ALLOW_MMAP: u64 = 1 << 36;
/// [`Beside::set_attribute`] hears of the set-group-ID bit.
pub const SETXATTR_EXT: u64 = 1 << 29;

/// The range of a copy between two open files.
#[derive(Clone, Copy, Debug)]
pub struct Copy {
    /// Node and handle of the file that is read.
    pub from: (u64, u64),
    /// Where reading begins.
    pub from_offset: u64,
    /// Node and handle of the file that is written.
    pub to: (u64, u64),
    /// Where writing begins.
    pub to_offset: u64,
    /// Bytes.
    pub length: u64,
}

/// What is set with an extended attribute.
#[derive(Clone, Copy, Debug)]
pub struct NewAttribute<'a> {
    /// With its prefix.
    pub name: &'a CStr,
    /// Any bytes.
    pub value: &'a [u8],
    /// `XATTR_CREATE`, `XATTR_REPLACE`.
    pub flags: u32,
    /// An access control list by a user who is not in the file's group: the set-group-ID bit goes.
    pub clears_set_group_id: bool,
}

/// A file that was opened.
#[derive(Clone, Copy, Debug)]
pub struct Opened {
    /// By which the kernel speaks of it.
    pub handle: u64,
    /// How it is read and written.
    pub options: OpenOptions,
    /// The number of the file behind it, when it is passed through.
    pub backing: Option<u32>,
}

/// Requests beside those of [`FileSystem`](fuse_backend_rs::api::filesystem::FileSystem). What is not answered here is refused with `ENOSYS`,
/// which the kernel takes for good.
pub trait Beside: Send + Sync {
    /// The mount is there, and its first request comes after this.
    fn mounted(&self, _connection: Connection) {}

    /// Options of those that the kernel offers, beside those of the library.
    fn options(&self, _offered: u64) -> u64 {
        0
    }

    /// Whether [`SETXATTR_EXT`] was agreed upon, so that requests have its form.
    fn is_extended(&self) -> bool {
        false
    }

    /// Makes a file without a name, and opens it.
    fn make_unnamed(&self, _ctx: &Context, _directory: u64, _args: CreateIn) -> Result<(Entry, Opened), Errno> {
        Err(Errno::NOSYS)
    }

    /// Copies between files; how many bytes.
    fn copy(&self, _ctx: &Context, _copy: &Copy) -> Result<u64, Errno> {
        Err(Errno::NOSYS)
    }

    /// Attributes of which others do not tell, as when something was made; for how long the kernel may believe them.
    fn attributes(&self, _ctx: &Context, _node: u64) -> Result<(Statx, Duration), Errno> {
        Err(Errno::NOSYS)
    }

    /// Sets an extended attribute.
    fn set_attribute(&self, _ctx: &Context, _node: u64, _attribute: &NewAttribute<'_>) -> Result<(), Errno> {
        Err(Errno::NOSYS)
    }
}

/// A file system that answers no more than the library knows.
#[derive(Clone, Copy, Debug)]
pub struct Nothing;

impl Beside for Nothing {}
