//! What the library does not know.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fuse_backend_rs::abi::fuse_abi::CreateIn;
use fuse_backend_rs::api::filesystem::{Context, Entry};
use ishigaki_fuse::{Beside, Connection, Copy, DIRECT_IO_ALLOW_MMAP, NewAttribute, Opened, PASSTHROUGH, SETXATTR_EXT};
use rustix::fs::{Mode, OFlags, Statx, openat};
use rustix::io::Errno;

use super::DoorFs;
use crate::caller;

/// What a request that fails is answered.
#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn errno(error: std::io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}

impl Beside for DoorFs {
    fn mounted(&self, connection: Connection) {
        let _ = self.connection.set(connection);
    }

    fn options(&self, offered: u64) -> u64 {
        self.agree((offered & PASSTHROUGH != 0, offered & SETXATTR_EXT != 0));
        PASSTHROUGH | SETXATTR_EXT | DIRECT_IO_ALLOW_MMAP
    }

    fn is_extended(&self) -> bool {
        self.extended.load(Ordering::Acquire)
    }

    fn make_unnamed(&self, ctx: &Context, directory: u64, args: CreateIn) -> Result<(Entry, Opened), Errno> {
        caller::any()?;
        let place = self.directory(directory).map_err(errno)?;
        caller::maker(ctx, args.mode, args.umask)?;
        let asked = OFlags::from_bits_retain(args.flags);
        let own = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC | (asked & OFlags::EXCL);
        let made = openat(&place, c".", own, Mode::from_raw_mode(args.mode))?;
        let (identity, found) = self.volume.identify(&made)?;
        let held = self.volume.reopen(made.as_fd(), OFlags::PATH)?;
        self.nodes.give(identity);
        self.nodes.orphan(identity, std::sync::Arc::new(held.into()));
        self.open_made((identity, found, made), args.flags).map_err(errno)
    }

    fn copy(&self, ctx: &Context, copy: &Copy) -> Result<u64, Errno> {
        self.copy_bytes(ctx, copy).map_err(errno)
    }

    fn attributes(&self, _ctx: &Context, node: u64) -> Result<(Statx, Duration), Errno> {
        self.tell_attributes(node).map_err(errno)
    }

    fn set_attribute(&self, ctx: &Context, node: u64, attribute: &NewAttribute<'_>) -> Result<(), Errno> {
        self.set_extra(ctx, node, attribute).map_err(errno)
    }
}
