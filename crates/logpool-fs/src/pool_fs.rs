//! The file system of one member. The kernel speaks of numbers, the pool of paths and files; between them is a [`Tree`] of what
//! the kernel knows. Reads, writes and syncs go by handles, and take no lock that a change of names holds.
//!
//! Parts: [`tree`] has the numbers, [`names`] finds, makes, renames and removes, [`bytes`] reads, writes and makes durable,
//! [`handed`] writes all of it down for another process.

use std::collections::HashMap;
use std::ffi::CStr;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fuse_backend_rs::abi::fuse_abi::{CreateIn, stat64, statvfs64};
use fuse_backend_rs::api::filesystem::{
    Context, DirEntry, Entry, FileSystem, FsOptions, OpenOptions, SetattrValid, ZeroCopyReader, ZeroCopyWriter,
};
use ishigaki_fuse::empty_statvfs;
use ishigaki_logpool::{Kind, Member};
use parking_lot::{Mutex, RwLock};
use rustix::io::Errno;

use crate::attributes::{Attributes, BLOCK};
use crate::{Access, Calendar};

mod bytes;
mod handed;
mod names;
mod tree;

use bytes::Open;
pub(crate) use handed::Handed;
use tree::{FileNode, Tree};

/// For how long the kernel may believe what it was told: nobody changes anything but through it.
const BELIEF: Duration = Duration::from_hours(1);

/// The longest name, and the longest path within a member.
const LONGEST_NAME: u64 = 255;

/// The most directories that are open at a time.
const MOST_LISTINGS: usize = 1 << 10;

/// One member as a file system. Any number of threads may ask at a time.
pub struct PoolFs {
    member: Member,
    access: Access,
    calendar: Calendar,
    tree: Mutex<Tree>,
    /// Held by whoever finds or changes names; alone, by whoever may change the paths of others. Taken before the tree.
    moves: RwLock<()>,
    files: RwLock<HashMap<u64, Arc<Open>>>,
    /// Names in a directory as they were when it was opened.
    listings: RwLock<HashMap<u64, Arc<Vec<Listed>>>>,
    next_handle: AtomicU64,
}

/// A name in a listing.
#[derive(Debug)]
struct Listed {
    name: Vec<u8>,
    number: u64,
    kind: Kind,
}

impl PoolFs {
    /// Serves that member.
    pub fn new(member: Member, access: Access, calendar: Calendar) -> Self {
        let tree = Mutex::new(Tree::new(calendar.now()));
        Self {
            member,
            access,
            calendar,
            tree,
            moves: RwLock::default(),
            files: RwLock::default(),
            listings: RwLock::default(),
            next_handle: AtomicU64::new(1),
        }
    }

    /// Forgets what the kernel knew and had open.
    fn forget_all(&self) {
        let _nobody_else = self.moves.write();
        let gone = (
            std::mem::replace(&mut *self.tree.lock(), Tree::new(self.calendar.now())),
            std::mem::take(&mut *self.files.write()),
            std::mem::take(&mut *self.listings.write()),
        );
        // Whoever was the last user of a file without a name goes through the pool.
        drop(gone);
    }

    fn handle(&self) -> u64 {
        self.next_handle.fetch_add(1, Ordering::Relaxed)
    }

    fn open_file(&self, handle: u64) -> io::Result<Arc<Open>> {
        self.files.read().get(&handle).cloned().ok_or_else(|| Errno::BADF.into())
    }

    fn entry(&self, attributes: &Attributes) -> Entry {
        Entry {
            inode: attributes.number,
            attr: attributes.stat(self.access),
            attr_timeout: BELIEF,
            entry_timeout: BELIEF,
            ..Entry::default()
        }
    }

    /// What is known of a file, and how many names it has.
    fn file_attributes(&self, number: u64, node: &FileNode) -> io::Result<Attributes> {
        let links = self.tree.lock().links(number);
        let length = node.file.length().map_err(crate::errno::answer)?;
        Ok(Attributes { number, length: Some(length), links, modified: *node.modified.lock() })
    }

    fn attributes(&self, number: u64) -> io::Result<Attributes> {
        let node = self.tree.lock().file(number)?;
        match node {
            Some(node) => self.file_attributes(number, &node),
            None => Ok(self.directory_attributes(number)),
        }
    }

    fn directory_attributes(&self, number: u64) -> Attributes {
        Attributes { number, length: None, links: 2, modified: self.tree.lock().began }
    }
}

impl fmt::Debug for PoolFs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoolFs").field("member", &self.member.name()).finish_non_exhaustive()
    }
}

/// Says what a request has come to; the work is in the parts.
impl FileSystem for PoolFs {
    type Inode = u64;
    type Handle = u64;

    fn init(&self, capable: FsOptions) -> io::Result<FsOptions> {
        // A machine that starts again, or mounts again, has nothing open any more.
        self.forget_all();
        let wanted = FsOptions::BIG_WRITES | FsOptions::MAX_PAGES | FsOptions::ASYNC_DIO | FsOptions::PARALLEL_DIROPS;
        Ok(capable & wanted)
    }

    fn destroy(&self) {
        self.forget_all();
    }

    fn lookup(&self, _: &Context, parent: u64, name: &CStr) -> io::Result<Entry> {
        self.find(parent, name)
    }

    fn forget(&self, _: &Context, inode: u64, count: u64) {
        let gone = self.tree.lock().forget(inode, count);
        // Whoever was the last user of a file without a name goes through the pool.
        drop(gone);
    }

    fn getattr(&self, _: &Context, inode: u64, _: Option<u64>) -> io::Result<(stat64, Duration)> {
        Ok((self.attributes(inode)?.stat(self.access), BELIEF))
    }

    fn setattr(
        &self,
        _: &Context,
        inode: u64,
        attr: stat64,
        handle: Option<u64>,
        valid: SetattrValid,
    ) -> io::Result<(stat64, Duration)> {
        self.change_attributes(inode, &attr, handle, valid)?;
        Ok((self.attributes(inode)?.stat(self.access), BELIEF))
    }

    fn mknod(&self, _: &Context, inode: u64, name: &CStr, mode: u32, _: u32, _: u32) -> io::Result<Entry> {
        self.make_node(inode, name, mode)
    }

    fn mkdir(&self, _: &Context, parent: u64, name: &CStr, _: u32, _: u32) -> io::Result<Entry> {
        self.make_directory(parent, name)
    }

    fn unlink(&self, _: &Context, parent: u64, name: &CStr) -> io::Result<()> {
        self.remove_file(parent, name)
    }

    fn rmdir(&self, _: &Context, parent: u64, name: &CStr) -> io::Result<()> {
        self.remove_directory(parent, name)
    }

    fn rename(
        &self,
        _: &Context,
        olddir: u64,
        oldname: &CStr,
        newdir: u64,
        newname: &CStr,
        flags: u32,
    ) -> io::Result<()> {
        self.change_name((olddir, oldname), (newdir, newname), flags)
    }

    fn symlink(&self, _: &Context, _: &CStr, _: u64, _: &CStr) -> io::Result<Entry> {
        Err(Errno::PERM.into())
    }

    fn link(&self, _: &Context, inode: u64, newparent: u64, newname: &CStr) -> io::Result<Entry> {
        self.second_name(inode, newparent, newname)
    }

    fn open(&self, _: &Context, inode: u64, flags: u32, _: u32) -> io::Result<(Option<u64>, OpenOptions, Option<u32>)> {
        self.check_room()?;
        let node = self.tree.lock().file(inode)?.ok_or(Errno::ISDIR)?;
        Ok((Some(self.take_handle(node, flags)), OpenOptions::DIRECT_IO, None))
    }

    fn create(
        &self,
        _: &Context,
        parent: u64,
        name: &CStr,
        args: CreateIn,
    ) -> io::Result<(Entry, Option<u64>, OpenOptions, Option<u32>)> {
        self.check_room()?;
        let (entry, node) = self.make_file(parent, name, args.flags)?;
        Ok((entry, Some(self.take_handle(node, args.flags)), OpenOptions::DIRECT_IO, None))
    }

    fn read(
        &self,
        _: &Context,
        _: u64,
        handle: u64,
        w: &mut dyn ZeroCopyWriter,
        size: u32,
        offset: u64,
        _: Option<u64>,
        _: u32,
    ) -> io::Result<usize> {
        self.read_bytes(handle, w, size, offset)
    }

    fn write(
        &self,
        _: &Context,
        _: u64,
        handle: u64,
        r: &mut dyn ZeroCopyReader,
        size: u32,
        offset: u64,
        _: Option<u64>,
        _: bool,
        flags: u32,
        _: u32,
    ) -> io::Result<usize> {
        self.write_bytes(handle, r, size, offset, flags)
    }

    fn fsync(&self, _: &Context, _: u64, datasync: bool, handle: u64) -> io::Result<()> {
        self.open_file(handle)?.node.file.sync(datasync).map_err(crate::errno::answer)
    }

    fn fallocate(&self, _: &Context, _: u64, handle: u64, mode: u32, offset: u64, length: u64) -> io::Result<()> {
        self.allocate(handle, mode, offset, length)
    }

    fn release(&self, _: &Context, _: u64, _: u32, handle: u64, _: bool, _: bool, _: Option<u64>) -> io::Result<()> {
        let gone = self.files.write().remove(&handle);
        drop(gone);
        Ok(())
    }

    fn statfs(&self, _: &Context, _: u64) -> io::Result<statvfs64> {
        let (quota, statistics) = (self.member.quota(), self.member.statistics());
        let mut stat = empty_statvfs()?;
        (stat.f_bsize, stat.f_frsize, stat.f_namemax) = (BLOCK, BLOCK, LONGEST_NAME);
        stat.f_blocks = quota.home.0 / BLOCK;
        stat.f_bfree = quota.home.0.saturating_sub(statistics.home) / BLOCK;
        stat.f_bavail = stat.f_bfree;
        stat.f_files = quota.files.into();
        stat.f_ffree = u64::from(quota.files).saturating_sub(statistics.files);
        stat.f_favail = stat.f_ffree;
        Ok(stat)
    }

    fn opendir(&self, _: &Context, inode: u64, _: u32) -> io::Result<(Option<u64>, OpenOptions)> {
        if self.listings.read().len() >= MOST_LISTINGS {
            return Err(Errno::NFILE.into());
        }
        let listing = self.list(inode)?;
        let handle = self.handle();
        self.listings.write().insert(handle, Arc::new(listing));
        Ok((Some(handle), OpenOptions::empty()))
    }

    fn readdir(
        &self,
        _: &Context,
        inode: u64,
        handle: u64,
        _: u32,
        offset: u64,
        add_entry: &mut dyn FnMut(DirEntry<'_>) -> io::Result<usize>,
    ) -> io::Result<()> {
        self.tell_names(inode, handle, offset, add_entry)
    }

    fn fsyncdir(&self, _: &Context, _: u64, _: bool, _: u64) -> io::Result<()> {
        self.member.sync().map_err(crate::errno::answer)
    }

    fn releasedir(&self, _: &Context, _: u64, _: u32, handle: u64) -> io::Result<()> {
        self.listings.write().remove(&handle);
        Ok(())
    }
}
