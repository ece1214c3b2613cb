//! The numbers that the kernel knows, for another process that goes on with the mount.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::Arc;
use std::time::SystemTime;

use ishigaki_logpool::{File, FileId};
use parking_lot::Mutex;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::{FileNode, Node, Tree};

/// A tree, written down.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct HandedTree {
    nodes: Vec<HandedNode>,
    next_directory: u64,
    times: BTreeMap<u64, SystemTime>,
    second: BTreeMap<String, u64>,
    began: SystemTime,
}

/// A file or directory in it.
#[derive(Debug, Serialize, Deserialize)]
struct HandedNode {
    number: u64,
    path: Option<String>,
    /// Of a file.
    modified: Option<SystemTime>,
    lookups: u64,
}

/// The file of a number.
pub(crate) fn file_of(number: u64) -> io::Result<FileId> {
    let file = (number / 2).checked_sub(1).filter(|_| number.is_multiple_of(2));
    Ok(FileId(file.and_then(|file| u32::try_from(file).ok()).ok_or(Errno::STALE)?))
}

impl Tree {
    /// Writes it down.
    pub(crate) fn handed(&self) -> HandedTree {
        let node = |(&number, node): (&u64, &Node)| HandedNode {
            number,
            path: node.path.clone(),
            modified: node.file.as_ref().map(|file| *file.modified.lock()),
            lookups: node.lookups,
        };
        HandedTree {
            nodes: self.nodes.iter().map(node).collect(),
            next_directory: self.next_directory,
            times: self.times.clone(),
            second: self.second.clone(),
            began: self.began,
        }
    }

    /// The files without a name.
    pub(crate) fn nameless(&self) -> Vec<(u64, Arc<FileNode>)> {
        let nameless = self.nodes.iter().filter(|(_, node)| node.path.is_none());
        nameless.filter_map(|(number, node)| Some((*number, node.file.clone()?))).collect()
    }

    /// The same tree over another pool's files, each of which is opened by its number and path.
    pub(crate) fn from_handed(
        handed: HandedTree,
        mut open: impl FnMut(u64, Option<&str>) -> io::Result<File>,
    ) -> io::Result<Self> {
        let HandedTree { nodes: handed, next_directory, times, second, began } = handed;
        let (mut nodes, mut directories) = (HashMap::new(), BTreeMap::new());
        for HandedNode { number, path, modified, lookups } in handed {
            let mut file = None;
            if let Some(modified) = modified {
                let opened = open(number, path.as_deref())?;
                file = Some(Arc::new(FileNode { file: opened, modified: Mutex::new(modified) }));
            } else {
                directories.extend(path.clone().map(|path| (path, number)));
            }
            nodes.insert(number, Node { path, file, lookups });
        }
        Ok(Self { nodes, directories, next_directory, times, second, began })
    }
}
