//! The requests that the library knows; the work is in the other parts.
//!
//! `flush` is left out: it would say that a program closes a file, for locks and caches, which are the kernel's.

use std::ffi::CStr;
use std::io;
use std::time::Duration;

use fuse_backend_rs::abi::fuse_abi::{CreateIn, WRITE_KILL_PRIV, stat64, statvfs64};
use fuse_backend_rs::api::filesystem::{
    Context, DirEntry, Entry, FileSystem, FsOptions, GetxattrReply, ListxattrReply, OpenOptions, SetattrValid,
    ZeroCopyReader, ZeroCopyWriter,
};
use ishigaki_fuse::{NewAttribute, empty_statvfs};
use rustix::fs::{AtFlags, fstatvfs};

use super::{DoorFs, attributes};
use crate::opens::Handle;

impl FileSystem for DoorFs {
    type Inode = u64;
    type Handle = u64;

    fn init(&self, _capable: FsOptions) -> io::Result<FsOptions> {
        Ok(FsOptions::ASYNC_READ
            | FsOptions::ASYNC_DIO
            | FsOptions::ATOMIC_O_TRUNC
            | FsOptions::BIG_WRITES
            | FsOptions::CACHE_SYMLINKS
            | FsOptions::DONT_MASK
            | FsOptions::DO_READDIRPLUS
            | FsOptions::READDIRPLUS_AUTO
            | FsOptions::EXPORT_SUPPORT
            | FsOptions::HANDLE_KILLPRIV_V2
            | FsOptions::HAS_RESEND
            | FsOptions::INIT_EXT
            | FsOptions::MAX_PAGES
            | FsOptions::PARALLEL_DIROPS
            | FsOptions::POSIX_ACL)
    }

    fn lookup(&self, _: &Context, parent: u64, name: &CStr) -> io::Result<Entry> {
        self.find_name(parent, name)
    }

    fn forget(&self, _: &Context, node: u64, count: u64) {
        if self.nodes.forget(node, count) {
            self.let_go(node);
        }
    }

    fn getattr(&self, _: &Context, node: u64, _: Option<u64>) -> io::Result<(stat64, Duration)> {
        let (found, belief) = self.tell_attributes(node)?;
        Ok((attributes::stat(&found), belief))
    }

    fn setattr(
        &self,
        ctx: &Context,
        node: u64,
        new: stat64,
        _: Option<u64>,
        valid: SetattrValid,
    ) -> io::Result<(stat64, Duration)> {
        self.change_attributes(ctx, node, &new, valid)
    }

    fn readlink(&self, _: &Context, node: u64) -> io::Result<Vec<u8>> {
        self.target(node)
    }

    fn symlink(&self, ctx: &Context, target: &CStr, parent: u64, name: &CStr) -> io::Result<Entry> {
        self.make_symlink(ctx, parent, name, target)
    }

    fn mknod(&self, ctx: &Context, parent: u64, name: &CStr, mode: u32, rdev: u32, mask: u32) -> io::Result<Entry> {
        self.make_node(ctx, parent, name, (mode, rdev, mask))
    }

    fn mkdir(&self, ctx: &Context, parent: u64, name: &CStr, mode: u32, mask: u32) -> io::Result<Entry> {
        self.make_directory(ctx, parent, name, (mode, mask))
    }

    fn unlink(&self, _: &Context, parent: u64, name: &CStr) -> io::Result<()> {
        self.remove_name(parent, name, AtFlags::empty())
    }

    fn rmdir(&self, _: &Context, parent: u64, name: &CStr) -> io::Result<()> {
        self.remove_name(parent, name, AtFlags::REMOVEDIR)
    }

    fn rename(&self, ctx: &Context, old: u64, old_name: &CStr, new: u64, name: &CStr, flags: u32) -> io::Result<()> {
        self.move_name(ctx, (old, old_name), (new, name), flags)
    }

    fn link(&self, ctx: &Context, node: u64, parent: u64, name: &CStr) -> io::Result<Entry> {
        self.add_name(ctx, node, parent, name)
    }

    fn open(
        &self,
        ctx: &Context,
        node: u64,
        flags: u32,
        fuse_flags: u32,
    ) -> io::Result<(Option<u64>, OpenOptions, Option<u32>)> {
        let opened = self.open_file(ctx, node, flags, fuse_flags)?;
        Ok((Some(opened.handle), opened.options, opened.backing))
    }

    fn create(
        &self,
        ctx: &Context,
        parent: u64,
        name: &CStr,
        args: CreateIn,
    ) -> io::Result<(Entry, Option<u64>, OpenOptions, Option<u32>)> {
        let made = self.make_file(ctx, parent, name, (args.flags, args.mode, args.umask))?;
        let (entry, opened) = self.open_made(made, args.flags)?;
        Ok((entry, Some(opened.handle), opened.options, opened.backing))
    }

    fn read(
        &self,
        _: &Context,
        node: u64,
        handle: u64,
        to: &mut dyn ZeroCopyWriter,
        size: u32,
        offset: u64,
        _: Option<u64>,
        _: u32,
    ) -> io::Result<usize> {
        self.read_bytes((node, Handle(handle)), to, size, offset)
    }

    fn write(
        &self,
        ctx: &Context,
        node: u64,
        handle: u64,
        from: &mut dyn ZeroCopyReader,
        size: u32,
        offset: u64,
        _: Option<u64>,
        _: bool,
        _: u32,
        fuse_flags: u32,
    ) -> io::Result<usize> {
        let clears = fuse_flags & WRITE_KILL_PRIV != 0;
        self.write_bytes(ctx, (node, Handle(handle)), from, (size, offset), clears)
    }

    fn fsync(&self, _: &Context, node: u64, only_data: bool, handle: u64) -> io::Result<()> {
        self.make_durable(node, Handle(handle), only_data)
    }

    fn fallocate(&self, ctx: &Context, node: u64, handle: u64, mode: u32, offset: u64, length: u64) -> io::Result<()> {
        self.allocate(ctx, (node, Handle(handle)), mode, (offset, length))
    }

    fn lseek(&self, _: &Context, node: u64, handle: u64, offset: u64, whence: u32) -> io::Result<u64> {
        self.seek((node, Handle(handle)), offset, whence)
    }

    fn release(&self, _: &Context, node: u64, _: u32, handle: u64, _: bool, _: bool, _: Option<u64>) -> io::Result<()> {
        self.close(node, Handle(handle));
        Ok(())
    }

    fn statfs(&self, _: &Context, _: u64) -> io::Result<statvfs64> {
        let found = fstatvfs(self.volume.root())?;
        let mut stat = empty_statvfs()?;
        (stat.f_bsize, stat.f_frsize, stat.f_namemax) = (found.f_bsize, found.f_frsize, found.f_namemax);
        (stat.f_blocks, stat.f_bfree, stat.f_bavail) = (found.f_blocks, found.f_bfree, found.f_bavail);
        (stat.f_files, stat.f_ffree, stat.f_favail) = (found.f_files, found.f_ffree, found.f_favail);
        Ok(stat)
    }

    fn setxattr(&self, ctx: &Context, node: u64, name: &CStr, value: &[u8], flags: u32) -> io::Result<()> {
        // Of kernels that do not tell whether the set-group-ID bit goes.
        self.set_extra(ctx, node, &NewAttribute { name, value, flags, clears_set_group_id: false })
    }

    fn getxattr(&self, _: &Context, node: u64, name: &CStr, size: u32) -> io::Result<GetxattrReply> {
        self.read_extra(node, name, size)
    }

    fn listxattr(&self, ctx: &Context, node: u64, size: u32) -> io::Result<ListxattrReply> {
        self.list_extras(ctx, node, size)
    }

    fn removexattr(&self, _: &Context, node: u64, name: &CStr) -> io::Result<()> {
        self.remove_extra(node, name)
    }

    fn opendir(&self, _: &Context, node: u64, _: u32) -> io::Result<(Option<u64>, OpenOptions)> {
        let (handle, options) = self.open_directory(node)?;
        Ok((Some(handle.0), options))
    }

    fn readdir(
        &self,
        _: &Context,
        node: u64,
        handle: u64,
        size: u32,
        offset: u64,
        take: &mut dyn FnMut(DirEntry<'_>) -> io::Result<usize>,
    ) -> io::Result<()> {
        self.list_names((node, Handle(handle)), (size, offset), take)
    }

    fn readdirplus(
        &self,
        _: &Context,
        node: u64,
        handle: u64,
        size: u32,
        offset: u64,
        take: &mut dyn FnMut(DirEntry<'_>, Entry) -> io::Result<usize>,
    ) -> io::Result<()> {
        self.list_entries((node, Handle(handle)), (size, offset), take)
    }

    fn fsyncdir(&self, _: &Context, node: u64, _: bool, handle: u64) -> io::Result<()> {
        self.make_names_durable(node, Handle(handle))
    }

    fn releasedir(&self, _: &Context, node: u64, _: u32, handle: u64) -> io::Result<()> {
        self.close(node, Handle(handle));
        Ok(())
    }
}
