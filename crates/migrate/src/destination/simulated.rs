//! A file system in memory that loses power.
//!
//! It behaves as Linux' journaling file systems do, and no better. A kill of the process loses nothing. A [power cut](Simulated::cut_power)
//! loses what no sync made durable, by chance:
//!
//! - Of the changes of names, attributes, extended attributes and sizes a prefix survives, in the order in which they were made; if it is
//!   [unordered](Simulated::unordered), a prefix of each inode's own changes.
//! - Data is allocated late: when a block is written back, at any moment, it takes its place among those changes, with its data. So a
//!   block is a hole or holds what was written.
//! - A block that was allocated before may hold its old or its new data.
//!
//! It can be [zeroing](Simulated::zeroing), as btrfs is, and have [no room](Simulated::set_room) for more, with what ext4 does then.
//!
//! [`stop_at`](Simulated::stop_at) fails all changes from a chosen one on, so that a test can cut at each of them. Inode numbers never repeat.
//!
//! Parts: `tree` is what is on the medium, `journal` what a cut leaves of it.

mod journal;
mod tree;

use std::ffi::{OsStr, OsString};
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ishigaki_base::random::Seed;

use self::journal::Journal;
use self::tree::{Content, Inode, Op, Tree};
use super::{CAPABILITIES, Destination, Make, Name, NodeId};
use crate::source::{Attributes, FileType, Owner, Timestamp};

const BLOCK: u64 = 4096;
const ROOT: u64 = 2;
/// What extended attributes of one inode may take together, as ext4's one block.
const XATTR_ROOM: usize = 3900;

/// The file system. Clones are one.
#[derive(Clone)]
pub struct Simulated {
    shared: Arc<Mutex<Medium>>,
    ordered: bool,
    zeroing: bool,
}

struct Medium {
    now: Tree,
    journal: Option<Journal>,
    /// Seconds of its clock: each change is one.
    clock: i64,
    next_inode: u64,
    changes: u64,
    stop_at: u64,
    /// So many blocks may be allocated.
    room: u64,
}

fn missing(what: &OsStr) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("no {} here", what.display()))
}

impl Simulated {
    /// An empty one that never loses power: it keeps no account of what is durable.
    pub fn new() -> Self {
        Self::with(None, true)
    }

    /// An empty one that can lose power.
    pub fn perishable(seed: Seed) -> Self {
        Self::with(Some(seed), true)
    }

    /// The same; it keeps the order of one inode's changes only, and says so.
    #[must_use]
    pub fn unordered(mut self) -> Self {
        self.ordered = false;
        if let Some(journal) = &mut self.lock().journal {
            journal.keeps_no_order();
        }
        self
    }

    /// The same; when a file becomes larger, the rest of the block in which it ended becomes data.
    #[must_use]
    pub fn zeroing(mut self) -> Self {
        self.zeroing = true;
        self
    }

    /// From now on no more than so many blocks of data are allocated. A write for which there is no room fails; what room there is goes to its first
    /// blocks, which become zeros, as far as the file has that size.
    pub fn set_room(&self, blocks: u64) {
        self.lock().room = blocks;
    }

    fn with(seed: Option<Seed>, ordered: bool) -> Self {
        let now = Tree::with_root(ROOT);
        let journal = seed.map(|seed| Journal::new(seed, now.clone()));
        let medium = Medium {
            now,
            journal,
            clock: 1_000_000,
            next_inode: ROOT + 1,
            changes: 0,
            stop_at: u64::MAX,
            room: u64::MAX,
        };
        Self { shared: Arc::new(Mutex::new(medium)), ordered, zeroing: false }
    }

    /// Changes that were asked for so far.
    pub fn changes(&self) -> u64 {
        self.lock().changes
    }

    /// From the `change`-th change on everything fails, as if the machine stood still.
    pub fn stop_at(&self, change: u64) {
        self.lock().stop_at = change;
    }

    /// Goes on after [`stop_at`](Self::stop_at), with nothing lost: a process was killed.
    pub fn go_on(&self) {
        self.lock().stop_at = u64::MAX;
    }

    /// Loses power and has it again; by chance that which is not durable is lost.
    ///
    /// # Panics
    ///
    /// If it was not made [perishable](Self::perishable).
    pub fn cut_power(&self) {
        let medium = &mut *self.lock();
        medium.stop_at = u64::MAX;
        medium.now = medium.journal.as_mut().expect("made to lose power").cut(&medium.now);
    }

    fn lock(&self) -> MutexGuard<'_, Medium> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at an inode.
    fn look<T>(&self, inode: NodeId, what: impl FnOnce(&Tree, &Inode) -> io::Result<T>) -> io::Result<T> {
        let medium = self.lock();
        if medium.changes >= medium.stop_at {
            return Err(io::Error::other("the machine stands still"));
        }
        let found = medium.now.inode(inode.0).ok_or_else(|| missing(OsStr::new("such inode")))?;
        what(&medium.now, found)
    }

    /// Makes a change, which `what` decides on.
    fn change<T>(&self, what: impl FnOnce(&mut Medium) -> io::Result<T>) -> io::Result<T> {
        let medium = &mut *self.lock();
        if medium.changes >= medium.stop_at {
            return Err(io::Error::other("the machine stands still"));
        }
        medium.changes += 1;
        medium.clock += 1;
        let done = what(medium);
        if let Some(journal) = &mut medium.journal {
            journal.write_back_by_chance(&medium.now);
        }
        done
    }
}

impl Default for Simulated {
    fn default() -> Self {
        Self::new()
    }
}

impl Medium {
    fn apply(&mut self, op: Op) {
        self.now.apply(&op);
        if let Some(journal) = &mut self.journal {
            journal.log(op);
        }
    }

    fn time(&self) -> Timestamp {
        Timestamp { seconds: self.clock, nanos: 1 }
    }

    fn inode(&self, inode: NodeId) -> io::Result<&Inode> {
        self.now.inode(inode.0).ok_or_else(|| missing(OsStr::new("such inode")))
    }

    /// The inode's attributes were changed by `what`.
    fn set(&mut self, inode: NodeId, what: impl FnOnce(&mut Inode)) -> io::Result<()> {
        let mut head = self.inode(inode)?.head();
        what(&mut head);
        head.changed = self.time();
        self.apply(Op::Head(inode.0, Box::new(head)));
        Ok(())
    }

    /// Bytes, size or owner change: the file's capabilities go, as Linux has it.
    fn lose_capabilities(&mut self, inode: NodeId) -> io::Result<()> {
        let name = OsStr::new(CAPABILITIES);
        if self.inode(inode)?.xattrs.contains_key(name) {
            self.apply(Op::Xattr(inode.0, name.to_owned(), None));
        }
        Ok(())
    }

    /// Puts bytes into the page cache.
    fn put(&mut self, file: NodeId, offset: u64, bytes: &[u8]) {
        let written = self.now.write(file.0, offset, bytes, BLOCK);
        if let Some(journal) = &mut self.journal {
            journal.dirty(file.0, written);
        }
    }

    /// Makes data of the rest of the block in which a file ended that was so large, up to `end`.
    fn zero_rest(&mut self, file: NodeId, size: u64, end: u64) {
        let end = end.min(size.next_multiple_of(BLOCK));
        if size < end {
            self.put(file, size, &vec![0; (end - size) as usize]);
        }
    }

    /// Whether there is room for a write. If not, what there is becomes zeros.
    fn take_room(&mut self, file: NodeId, offset: u64, length: u64) -> io::Result<()> {
        if self.room == u64::MAX {
            return Ok(());
        }
        let inode = self.inode(file)?;
        let (blocks, size) = (inode.blocks(), inode.size);
        let wanted = offset / BLOCK..(offset + length).div_ceil(BLOCK);
        let fresh: Vec<u64> = wanted.filter(|at| blocks.is_some_and(|blocks| !blocks.contains_key(at))).collect();
        let free = self.room.saturating_sub(self.now.allocated());
        if fresh.len() as u64 <= free {
            return Ok(());
        }
        for at in fresh.into_iter().take(free as usize) {
            let end = size.min((at + 1) * BLOCK);
            if at * BLOCK < end {
                self.put(file, at * BLOCK, &vec![0; (end - at * BLOCK) as usize]);
            }
        }
        Err(io::ErrorKind::StorageFull.into())
    }

    fn touch(&mut self, inode: NodeId) -> io::Result<()> {
        let time = self.time();
        self.set(inode, |inode| inode.modified = time)
    }

    fn entry(&self, directory: NodeId, name: &OsStr) -> io::Result<Option<u64>> {
        match &self.inode(directory)?.content {
            Content::Directory(names) => Ok(names.get(name).copied()),
            _ => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    fn free_name(&self, directory: NodeId, name: &OsStr) -> io::Result<()> {
        if name.len() > 255 {
            return Err(io::ErrorKind::InvalidFilename.into());
        }
        match self.entry(directory, name)? {
            Some(_) => Err(io::ErrorKind::AlreadyExists.into()),
            None => Ok(()),
        }
    }

    fn remove(&mut self, directory: NodeId, name: &OsStr, inode: u64) -> io::Result<()> {
        self.apply(Op::Remove(directory.0, name.to_owned(), inode));
        self.touch(directory)
    }
}

impl Destination for Simulated {
    type Object = NodeId;

    fn block_size(&self) -> u64 {
        BLOCK
    }

    fn is_ordered(&self) -> bool {
        self.ordered
    }

    fn root(&self) -> NodeId {
        NodeId(ROOT)
    }

    fn id(&self, object: &NodeId) -> NodeId {
        *object
    }

    fn lookup(&self, directory: &NodeId, name: &OsStr) -> io::Result<Option<NodeId>> {
        self.look(*directory, |_, inode| match &inode.content {
            Content::Directory(names) => Ok(names.get(name).copied().map(NodeId)),
            _ => Err(io::ErrorKind::NotADirectory.into()),
        })
    }

    fn names(&self, directory: &NodeId) -> io::Result<Vec<Name>> {
        self.look(*directory, |tree, inode| {
            let Content::Directory(names) = &inode.content else { return Err(io::ErrorKind::NotADirectory.into()) };
            let kind = |inode: &u64| tree.inode(*inode).map_or(FileType::Regular, Inode::file_type);
            Ok(names
                .iter()
                .map(|(name, inode)| Name { name: name.clone(), node: NodeId(*inode), file_type: kind(inode) })
                .collect())
        })
    }

    fn make(&self, directory: &NodeId, name: &OsStr, what: Make<'_>) -> io::Result<NodeId> {
        self.change(|medium| {
            medium.free_name(*directory, name)?;
            let number = medium.next_inode;
            medium.next_inode += 1;
            let inode = Inode::new(&what, medium.time());
            medium.apply(Op::Make(directory.0, name.to_owned(), number, Box::new(inode)));
            medium.touch(*directory)?;
            Ok(NodeId(number))
        })
    }

    fn link(&self, object: &NodeId, directory: &NodeId, name: &OsStr) -> io::Result<()> {
        self.change(|medium| {
            medium.free_name(*directory, name)?;
            medium.inode(*object)?;
            medium.apply(Op::Link(directory.0, name.to_owned(), object.0));
            medium.touch(*directory)
        })
    }

    fn unlink(&self, directory: &NodeId, name: &OsStr) -> io::Result<()> {
        self.change(|medium| {
            let inode = medium.entry(*directory, name)?.ok_or_else(|| missing(name))?;
            match medium.inode(NodeId(inode))?.content {
                Content::Directory(_) => Err(io::ErrorKind::IsADirectory.into()),
                _ => medium.remove(*directory, name, inode),
            }
        })
    }

    fn remove_directory(&self, directory: &NodeId, name: &OsStr) -> io::Result<()> {
        self.change(|medium| {
            let inode = medium.entry(*directory, name)?.ok_or_else(|| missing(name))?;
            match &medium.inode(NodeId(inode))?.content {
                Content::Directory(names) if names.is_empty() => medium.remove(*directory, name, inode),
                Content::Directory(_) => Err(io::ErrorKind::DirectoryNotEmpty.into()),
                _ => Err(io::ErrorKind::NotADirectory.into()),
            }
        })
    }

    fn rename(&self, from: (&NodeId, &OsStr), to: (&NodeId, &OsStr)) -> io::Result<()> {
        self.change(|medium| {
            let moved = medium.entry(*from.0, from.1)?.ok_or_else(|| missing(from.1))?;
            let replaced = medium.entry(*to.0, to.1)?;
            if let Some(replaced) = replaced {
                if replaced == moved {
                    return Ok(());
                }
                if let Content::Directory(names) = &medium.inode(NodeId(replaced))?.content
                    && !names.is_empty()
                {
                    return Err(io::ErrorKind::DirectoryNotEmpty.into());
                }
            }
            medium.apply(Op::Rename((from.0.0, from.1.to_owned()), (to.0.0, to.1.to_owned()), moved, replaced));
            medium.touch(*from.0)?;
            medium.touch(*to.0)
        })
    }

    fn move_to_free(&self, from: (&NodeId, &OsStr), to: (&NodeId, &OsStr)) -> io::Result<()> {
        self.change(|medium| {
            let moved = medium.entry(*from.0, from.1)?.ok_or_else(|| missing(from.1))?;
            medium.free_name(*to.0, to.1)?;
            medium.apply(Op::Rename((from.0.0, from.1.to_owned()), (to.0.0, to.1.to_owned()), moved, None));
            medium.touch(*from.0)?;
            medium.touch(*to.0)
        })
    }

    fn status(&self, object: &NodeId) -> io::Result<Attributes> {
        self.look(*object, |_, inode| Ok(inode.attributes(object.0)))
    }

    fn target(&self, link: &NodeId) -> io::Result<PathBuf> {
        self.look(*link, |_, inode| match &inode.content {
            Content::Symlink(target) => Ok(target.clone()),
            _ => Err(io::ErrorKind::InvalidInput.into()),
        })
    }

    fn set_owner(&self, object: &NodeId, owner: Owner) -> io::Result<()> {
        self.change(|medium| {
            medium.lose_capabilities(*object)?;
            medium.set(*object, |inode| inode.owner = owner)
        })
    }

    fn set_mode(&self, object: &NodeId, mode: u32) -> io::Result<()> {
        self.change(|medium| medium.set(*object, |inode| inode.mode = mode))
    }

    fn set_times(&self, object: &NodeId, accessed: Timestamp, modified: Timestamp) -> io::Result<()> {
        self.change(|medium| medium.set(*object, |inode| (inode.accessed, inode.modified) = (accessed, modified)))
    }

    fn xattr(&self, object: &NodeId, name: &OsStr) -> io::Result<Option<Vec<u8>>> {
        self.look(*object, |_, inode| Ok(inode.xattrs.get(name).cloned()))
    }

    fn xattrs(&self, object: &NodeId) -> io::Result<Vec<OsString>> {
        self.look(*object, |_, inode| Ok(inode.xattrs.keys().cloned().collect()))
    }

    fn set_xattr(&self, object: &NodeId, name: &OsStr, value: &[u8]) -> io::Result<()> {
        self.change(|medium| {
            let xattrs = &medium.inode(*object)?.xattrs;
            let others = xattrs.iter().filter(|(other, _)| *other != name);
            let room: usize = others.map(|(name, value)| name.len() + value.len()).sum();
            if room + name.len() + value.len() > XATTR_ROOM {
                return Err(io::ErrorKind::StorageFull.into());
            }
            medium.apply(Op::Xattr(object.0, name.to_owned(), Some(value.into())));
            medium.set(*object, |_| {})
        })
    }

    fn remove_xattr(&self, object: &NodeId, name: &OsStr) -> io::Result<()> {
        self.change(|medium| {
            medium.inode(*object)?;
            medium.apply(Op::Xattr(object.0, name.to_owned(), None));
            medium.set(*object, |_| {})
        })
    }

    fn read_at(&self, file: &NodeId, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.look(*file, |_, inode| Ok(inode.read(offset, buffer, BLOCK)))
    }

    fn write_at(&self, file: &NodeId, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.change(|medium| {
            medium.lose_capabilities(*file)?;
            let size = medium.inode(*file)?.size;
            if self.zeroing && offset > size {
                medium.zero_rest(*file, size, offset);
            }
            medium.take_room(*file, offset, bytes.len() as u64)?;
            medium.put(*file, offset, bytes);
            medium.touch(*file)
        })
    }

    fn truncate(&self, file: &NodeId, size: u64) -> io::Result<()> {
        self.change(|medium| {
            medium.lose_capabilities(*file)?;
            let before = medium.inode(*file)?.size;
            medium.apply(Op::Truncate(file.0, size, BLOCK));
            if self.zeroing && size > before {
                medium.zero_rest(*file, before, size);
            }
            medium.touch(*file)
        })
    }

    fn punch(&self, file: &NodeId, range: Range<u64>) -> io::Result<()> {
        self.change(|medium| {
            medium.lose_capabilities(*file)?;
            medium.apply(Op::Punch(file.0, range, BLOCK));
            medium.touch(*file)
        })
    }

    fn forget_read(&self, _: &NodeId) -> io::Result<()> {
        Ok(())
    }

    fn next_data(&self, file: &NodeId, offset: u64) -> io::Result<Option<Range<u64>>> {
        self.look(*file, |_, inode| Ok(inode.next_data(offset, BLOCK)))
    }

    fn sync(&self, object: &NodeId) -> io::Result<()> {
        self.change(|medium| {
            if let Some(journal) = &mut medium.journal {
                journal.sync(&medium.now, Some(object.0));
            }
            Ok(())
        })
    }

    fn sync_all(&self) -> io::Result<()> {
        self.change(|medium| {
            if let Some(journal) = &mut medium.journal {
                journal.sync(&medium.now, None);
            }
            Ok(())
        })
    }
}
