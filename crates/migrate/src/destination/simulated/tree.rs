//! What is on the simulated medium, and how changes alter it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use super::super::Make;
use crate::source::{Attributes, FileType, Owner, Timestamp};

/// A block with what was written; its allocation is told apart from an earlier one at the same place.
#[derive(Clone)]
pub(super) struct Block {
    pub(super) allocation: u64,
    pub(super) bytes: Arc<Vec<u8>>,
}

#[derive(Clone)]
pub(super) enum Content {
    File(BTreeMap<u64, Block>),
    Directory(BTreeMap<OsString, u64>),
    Symlink(PathBuf),
    Special(FileType, (u32, u32)),
}

#[derive(Clone)]
pub(super) struct Inode {
    pub(super) content: Content,
    pub(super) links: u32,
    pub(super) mode: u32,
    pub(super) owner: Owner,
    pub(super) size: u64,
    pub(super) accessed: Timestamp,
    pub(super) modified: Timestamp,
    pub(super) changed: Timestamp,
    pub(super) xattrs: BTreeMap<OsString, Vec<u8>>,
}

/// A change, whole or not at all.
pub(super) enum Op {
    Make(u64, OsString, u64, Box<Inode>),
    Link(u64, OsString, u64),
    /// With the inode that loses a name.
    Remove(u64, OsString, u64),
    /// With the inode that moves, and the one that it replaces.
    Rename((u64, OsString), (u64, OsString), u64, Option<u64>),
    /// Mode, owner and times.
    Head(u64, Box<Inode>),
    Xattr(u64, OsString, Option<Box<[u8]>>),
    Truncate(u64, u64, u64),
    Punch(u64, Range<u64>, u64),
    /// A block with its data is written back; the file has at least that size then.
    Allocate(u64, u64, Block, u64),
}

impl Op {
    /// The inodes that it changes.
    pub(super) fn inodes(&self) -> Vec<u64> {
        match self {
            Self::Make(directory, _, inode, _)
            | Self::Link(directory, _, inode)
            | Self::Remove(directory, _, inode) => vec![*directory, *inode],
            Self::Rename((from, _), (to, _), moved, replaced) => {
                [*from, *to, *moved].into_iter().chain(*replaced).collect()
            }
            Self::Head(inode, _)
            | Self::Xattr(inode, ..)
            | Self::Truncate(inode, ..)
            | Self::Punch(inode, ..)
            | Self::Allocate(inode, ..) => vec![*inode],
        }
    }
}

#[derive(Clone, Default)]
pub(super) struct Tree {
    inodes: BTreeMap<u64, Inode>,
    allocations: u64,
}

impl Inode {
    pub(super) fn new(what: &Make<'_>, time: Timestamp) -> Self {
        let (content, size) = match what {
            Make::File => (Content::File(BTreeMap::new()), 0),
            Make::Directory => (Content::Directory(BTreeMap::new()), 0),
            Make::Symlink(target) => (Content::Symlink(target.into()), target.as_os_str().len() as u64),
            Make::Special(kind, device) => (Content::Special(*kind, *device), 0),
        };
        let owner = Owner { user: 0, group: 0 };
        let mode = if matches!(content, Content::Directory(_)) { 0o700 } else { 0o600 };
        let (accessed, modified, changed) = (time, time, time);
        Self { content, links: 1, mode, owner, size, accessed, modified, changed, xattrs: BTreeMap::new() }
    }

    /// Without content and extended attributes.
    pub(super) fn head(&self) -> Self {
        Self { content: Content::Special(FileType::Fifo, (0, 0)), xattrs: BTreeMap::new(), ..*self }
    }

    pub(super) fn file_type(&self) -> FileType {
        match &self.content {
            Content::File(_) => FileType::Regular,
            Content::Directory(_) => FileType::Directory,
            Content::Symlink(_) => FileType::Symlink,
            Content::Special(kind, _) => *kind,
        }
    }

    pub(super) fn attributes(&self, number: u64) -> Attributes {
        Attributes {
            file_type: self.file_type(),
            mode: self.mode,
            owner: self.owner,
            links: self.links,
            size: self.size,
            device: if let Content::Special(_, device) = self.content { device } else { (0, 0) },
            id: (0, number),
            accessed: self.accessed,
            modified: self.modified,
            changed: self.changed,
            created: None,
        }
    }

    pub(super) fn read(&self, offset: u64, buffer: &mut [u8], block: u64) -> usize {
        let Content::File(blocks) = &self.content else { return 0 };
        let length = self.size.saturating_sub(offset).min(buffer.len() as u64) as usize;
        for (at, byte) in (offset..).zip(&mut buffer[..length]) {
            *byte = blocks.get(&(at / block)).map_or(0, |found| found.bytes[(at % block) as usize]);
        }
        length
    }

    pub(super) fn next_data(&self, offset: u64, block: u64) -> Option<Range<u64>> {
        let Content::File(blocks) = &self.content else { return None };
        let first = *blocks.range(offset / block..).next()?.0;
        let mut end = first + 1;
        while blocks.contains_key(&end) {
            end += 1;
        }
        let range = (first * block).max(offset)..(end * block).min(self.size);
        (!range.is_empty()).then_some(range)
    }

    pub(super) fn blocks(&self) -> Option<&BTreeMap<u64, Block>> {
        match &self.content {
            Content::File(blocks) => Some(blocks),
            _ => None,
        }
    }
}

/// Makes zeros of a part of a block.
fn blank(blocks: &mut BTreeMap<u64, Block>, number: u64, part: Range<usize>) {
    if let Some(found) = blocks.get_mut(&number) {
        Arc::make_mut(&mut found.bytes)[part].fill(0);
    }
}

impl Tree {
    pub(super) fn with_root(root: u64) -> Self {
        let mut tree = Self::default();
        tree.inodes.insert(root, Inode::new(&Make::Directory, Timestamp { seconds: 0, nanos: 0 }));
        tree
    }

    pub(super) fn inode(&self, number: u64) -> Option<&Inode> {
        self.inodes.get(&number)
    }

    /// Blocks of all files that have names.
    pub(super) fn allocated(&self) -> u64 {
        let named = self.inodes.values().filter(|inode| inode.links > 0);
        named.filter_map(Inode::blocks).map(|blocks| blocks.len() as u64).sum()
    }

    /// Puts bytes into blocks, which are not durable by that; their numbers.
    pub(super) fn write(&mut self, number: u64, offset: u64, bytes: &[u8], block: u64) -> Vec<u64> {
        let mut written = Vec::new();
        let Some(inode) = self.inodes.get_mut(&number) else { return written };
        let Content::File(blocks) = &mut inode.content else { return written };
        let end = offset + bytes.len() as u64;
        for at in offset / block..end.div_ceil(block) {
            self.allocations += 1;
            let fresh = || Block { allocation: self.allocations, bytes: Arc::new(vec![0; block as usize]) };
            let target = Arc::make_mut(&mut blocks.entry(at).or_insert_with(fresh).bytes);
            let (from, to) = (offset.max(at * block), end.min((at + 1) * block));
            let part = &bytes[(from - offset) as usize..(to - offset) as usize];
            target[(from - at * block) as usize..(to - at * block) as usize].copy_from_slice(part);
            written.push(at);
        }
        inode.size = inode.size.max(end);
        written
    }

    /// What changes survive a cut as they were logged must apply to what survived; what does not fit any more is left out.
    pub(super) fn apply(&mut self, op: &Op) {
        match op {
            Op::Make(directory, name, number, inode) => {
                self.inodes.insert(*number, (**inode).clone());
                self.insert(*directory, name, *number);
            }
            Op::Link(directory, name, number) => {
                self.insert(*directory, name, *number);
                self.with(*number, |inode| inode.links += 1);
            }
            Op::Remove(directory, name, _) => self.remove(*directory, name),
            Op::Rename(from, to, ..) => {
                self.remove(to.0, &to.1);
                if let Some(moved) = self.names(from.0).and_then(|names| names.remove(&from.1)) {
                    self.insert(to.0, &to.1, moved);
                }
            }
            Op::Head(number, head) => self.with(*number, |inode| {
                (inode.mode, inode.owner) = (head.mode, head.owner);
                (inode.accessed, inode.modified, inode.changed) = (head.accessed, head.modified, head.changed);
            }),
            Op::Xattr(number, name, Some(value)) => self.with(*number, |inode| {
                inode.xattrs.insert(name.clone(), value.to_vec());
            }),
            Op::Xattr(number, name, None) => self.with(*number, |inode| {
                inode.xattrs.remove(name);
            }),
            Op::Truncate(number, size, block) => self.with(*number, |inode| {
                inode.size = *size;
                if let Content::File(blocks) = &mut inode.content {
                    blocks.retain(|&at, _| at < size.div_ceil(*block));
                    blank(blocks, size / block, (size % block) as usize..*block as usize);
                }
            }),
            Op::Punch(number, range, block) => self.with(*number, |inode| {
                let Content::File(blocks) = &mut inode.content else { return };
                for at in range.start / block..range.end.min(inode.size).div_ceil(*block) {
                    let (from, to) = (range.start.max(at * block), range.end.min((at + 1) * block));
                    if to - from == *block {
                        blocks.remove(&at);
                    } else {
                        blank(blocks, at, (from - at * block) as usize..(to - at * block) as usize);
                    }
                }
            }),
            Op::Allocate(number, at, block, size) => self.with(*number, |inode| {
                if let Content::File(blocks) = &mut inode.content {
                    blocks.insert(*at, block.clone());
                    inode.size = inode.size.max(*size);
                }
            }),
        }
    }

    /// Takes the data of a block that has not moved since.
    pub(super) fn overwrite(&mut self, number: u64, at: u64, block: &Block) {
        self.with(number, |inode| {
            if let Content::File(blocks) = &mut inode.content
                && let Some(found) = blocks.get_mut(&at)
                && found.allocation == block.allocation
            {
                found.bytes = block.bytes.clone();
            }
        });
    }

    /// Forgets what has no name.
    pub(super) fn drop_orphans(&mut self) {
        self.inodes.retain(|_, inode| inode.links > 0);
    }

    fn with(&mut self, number: u64, what: impl FnOnce(&mut Inode)) {
        if let Some(inode) = self.inodes.get_mut(&number) {
            what(inode);
        }
    }

    fn names(&mut self, directory: u64) -> Option<&mut BTreeMap<OsString, u64>> {
        match &mut self.inodes.get_mut(&directory)?.content {
            Content::Directory(names) => Some(names),
            _ => None,
        }
    }

    fn insert(&mut self, directory: u64, name: &OsString, number: u64) {
        if let Some(names) = self.names(directory) {
            names.insert(name.clone(), number);
        }
    }

    fn remove(&mut self, directory: u64, name: &OsString) {
        if let Some(number) = self.names(directory).and_then(|names| names.remove(name)) {
            self.with(number, |inode| inode.links -= 1);
        }
    }
}
