//! What the kernel knows and has open, for another process that goes on with the mount.
//!
//! Whatever a number or a handle stands for is in the pool, which the other process opens: all but the bytes of files without
//! a name, which are in no log. They are handed over as well.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ishigaki_logpool::{File, Kind, Member};
use parking_lot::{Mutex, RwLock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::bytes::Open;
use super::tree::{HandedTree, Tree, file_of, number_of};
use super::{Listed, PoolFs};
use crate::errno::answer;
use crate::{Access, Calendar};

/// The most bytes of files without a name that are handed over.
const MOST_NAMELESS: usize = 1 << 30;

/// A mount's side of a conversation with the kernel, written down.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Handed {
    tree: HandedTree,
    /// Handle, number of the file, and the flags that it was opened with.
    files: Vec<(u64, u64, u32)>,
    listings: Vec<(u64, Vec<HandedName>)>,
    next_handle: u64,
    nameless: Vec<Nameless>,
}

/// A name in a directory that is open.
#[derive(Debug, Serialize, Deserialize)]
struct HandedName {
    name: Vec<u8>,
    number: u64,
    is_directory: bool,
}

/// A file without a name. The bytes of its blocks follow each other, beside the table.
#[derive(Debug, Serialize, Deserialize)]
struct Nameless {
    number: u64,
    length: u64,
    /// Those that are not zero.
    blocks: Vec<u64>,
}

impl Nameless {
    /// Reads one into `bytes`.
    fn read(number: u64, file: &File, bytes: &mut Vec<u8>) -> io::Result<Self> {
        let length = file.length().map_err(answer)?;
        let mut blocks = Vec::new();
        let mut block = vec![0; Member::BLOCK as usize];
        for index in 0..length.div_ceil(Member::BLOCK) {
            let read = file.read(index * Member::BLOCK, &mut block).map_err(answer)?;
            block[read..].fill(0);
            if block.iter().any(|&byte| byte != 0) {
                blocks.push(index);
                bytes.extend_from_slice(&block);
                if bytes.len() > MOST_NAMELESS {
                    return Err(Errno::FBIG.into());
                }
            }
        }
        Ok(Self { number, length, blocks })
    }

    /// Gives it to a member, from the beginning of `bytes`.
    fn adopt(self, member: &Member, bytes: &mut &[u8]) -> io::Result<File> {
        let mut blocks = Vec::with_capacity(self.blocks.len());
        for block in self.blocks {
            let (first, rest) = bytes.split_at_checked(Member::BLOCK as usize).ok_or(Errno::BADMSG)?;
            blocks.push((block, first.to_vec()));
            *bytes = rest;
        }
        member.adopt(file_of(self.number)?, self.length, blocks).map_err(answer)
    }
}

impl PoolFs {
    /// Writes down what the kernel knows, and gives the bytes that are nowhere else. No request is under way.
    pub(crate) fn hand_over(&self) -> io::Result<(Handed, Vec<u8>)> {
        let mut bytes = Vec::new();
        let nameless = self.tree.lock().nameless();
        let nameless = nameless
            .iter()
            .map(|(number, node)| Nameless::read(*number, &node.file, &mut bytes))
            .collect::<Result<_, _>>()?;
        let files = self.files.read();
        let files =
            files.iter().map(|(&handle, open)| (handle, number_of(open.node.file.id()), open.flags())).collect();
        let name = |listed: &Listed| HandedName {
            name: listed.name.clone(),
            number: listed.number,
            is_directory: listed.kind == Kind::Directory,
        };
        let listings = self.listings.read();
        let listings = listings.iter().map(|(&handle, names)| (handle, names.iter().map(name).collect())).collect();
        let next_handle = self.next_handle.load(Ordering::Relaxed);
        Ok((Handed { tree: self.tree.lock().handed(), files, listings, next_handle, nameless }, bytes))
    }

    /// Serves a member to a kernel that knows all this of it.
    pub(crate) fn from_handed(
        member: Member,
        access: Access,
        calendar: Calendar,
        handed: Handed,
        mut bytes: &[u8],
    ) -> io::Result<Self> {
        let mut nameless = HashMap::new();
        for file in handed.nameless {
            nameless.insert(file.number, file.adopt(&member, &mut bytes)?);
        }
        let tree = Tree::from_handed(handed.tree, |number, path| match path {
            Some(path) => {
                let file = member.open(path).map_err(answer)?;
                if number_of(file.id()) == number { Ok(file) } else { Err(Errno::STALE.into()) }
            }
            None => nameless.remove(&number).ok_or_else(|| Errno::STALE.into()),
        })?;
        let mut files = HashMap::new();
        for (handle, number, flags) in handed.files {
            let node = tree.file(number)?.ok_or(Errno::ISDIR)?;
            files.insert(handle, Arc::new(Open::new(node, flags)));
        }
        let listed = |HandedName { name, number, is_directory }| Listed {
            name,
            number,
            kind: if is_directory { Kind::Directory } else { Kind::File },
        };
        let listing =
            |(handle, names): (u64, Vec<HandedName>)| (handle, Arc::new(names.into_iter().map(listed).collect()));
        Ok(Self {
            member,
            access,
            calendar,
            tree: Mutex::new(tree),
            moves: RwLock::default(),
            files: RwLock::new(files),
            listings: RwLock::new(handed.listings.into_iter().map(listing).collect()),
            next_handle: AtomicU64::new(handed.next_handle),
        })
    }
}
