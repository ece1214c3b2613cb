//! What a file system asks of the kernel: to pass reads and writes through to a file, and to forget what it was told.

use std::ffi::CStr;
use std::fs::File;
use std::io::{self, IoSlice};
use std::os::fd::AsFd;
use std::sync::Arc;

use fuse_backend_rs::api::filesystem::OpenOptions;

use crate::backing;

/// `enum fuse_notify_code`.
const INVAL_INODE: i32 = 2;
const INVAL_ENTRY: i32 = 3;
const RESEND: i32 = 7;

/// The kernel's side of a mount. Clones are one.
#[derive(Clone, Debug)]
pub struct Connection {
    device: Arc<File>,
}

impl Connection {
    pub(crate) fn new(device: &File) -> io::Result<Self> {
        Ok(Self { device: Arc::new(device.try_clone()?) })
    }

    /// Gives the kernel a file by which it reads and writes itself. It keeps it until [`release`](Self::release), and for as long as a file
    /// that was opened with it is open; with the rights that this thread has now.
    ///
    /// # Errors
    ///
    /// Where the kernel can not, this process may not, or the file lies on a file system that lies on others.
    pub fn pass_through(&self, file: impl AsFd) -> rustix::io::Result<u32> {
        backing::open(self.device.as_fd(), file.as_fd())
    }

    /// Files are opened no more with that one.
    ///
    /// # Errors
    ///
    /// When the kernel knows no such file.
    pub fn release(&self, backing: u32) -> rustix::io::Result<()> {
        backing::close(self.device.as_fd(), backing)
    }

    /// Has the kernel forget attributes and pages of a node.
    ///
    /// # Errors
    ///
    /// `ENOENT` when it knows no such node.
    pub fn forget_node(&self, node: u64) -> io::Result<()> {
        self.invalidate(node, 0)
    }

    /// Has the kernel forget attributes of a node, but no pages: a request that is about the node may ask for that.
    ///
    /// # Errors
    ///
    /// `ENOENT` when it knows no such node.
    pub fn forget_attributes(&self, node: u64) -> io::Result<()> {
        self.invalidate(node, -1)
    }

    /// Pages from `offset` on; none if it is negative.
    fn invalidate(&self, node: u64, offset: i64) -> io::Result<()> {
        let length = 0_i64;
        self.notify(INVAL_INODE, &[&node.to_ne_bytes(), &offset.to_ne_bytes(), &length.to_ne_bytes()])
    }

    /// Has the kernel forget what a name leads to.
    ///
    /// # Errors
    ///
    /// `ENOENT` when it knows no such directory or name.
    pub fn forget_name(&self, directory: u64, name: &CStr) -> io::Result<()> {
        let length = name.count_bytes() as u32;
        let parts = [&directory.to_ne_bytes()[..], &length.to_ne_bytes(), &[0; 4], name.to_bytes_with_nul()];
        self.notify(INVAL_ENTRY, &parts)
    }

    /// Has the kernel send again all that was taken and not answered.
    pub(crate) fn send_again(&self) -> io::Result<()> {
        self.notify(RESEND, &[])
    }

    fn notify(&self, code: i32, parts: &[&[u8]]) -> io::Result<()> {
        let length = 16 + parts.iter().map(|part| part.len()).sum::<usize>() as u32;
        let header = [&length.to_ne_bytes()[..], &code.to_ne_bytes(), &[0; 8]].concat();
        let slices: Vec<_> = std::iter::once(&header[..]).chain(parts.iter().copied()).map(IoSlice::new).collect();
        rustix::io::writev(&*self.device, &slices)?;
        Ok(())
    }
}

/// That a file is read and written by what was [given](Connection::pass_through) to the kernel.
pub fn passed_through() -> OpenOptions {
    backing::option()
}
