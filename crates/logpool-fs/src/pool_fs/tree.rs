//! What the kernel knows: a number for each file and directory that it has asked for, until it forgets them.
//!
//! A file's number is made of the pool's own, and the same in every mount. Directories have numbers of this mount's.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::Arc;
use std::time::SystemTime;

use ishigaki_logpool::{File, FileId};
use parking_lot::Mutex;
use rustix::io::Errno;

mod handed;

pub(crate) use handed::{HandedTree, file_of};

/// The root's number.
pub(crate) const ROOT: u64 = 1;

/// A file that the kernel knows, or has open. As long as it is here, it lives without a name, too.
#[derive(Debug)]
pub(crate) struct FileNode {
    pub(crate) file: File,
    pub(crate) modified: Mutex<SystemTime>,
}

#[derive(Debug)]
struct Node {
    /// `None` once it has no name any more.
    path: Option<String>,
    /// `None` for a directory.
    file: Option<Arc<FileNode>>,
    /// How often the kernel was told of it.
    lookups: u64,
}

/// What the kernel knows.
#[derive(Debug)]
pub(crate) struct Tree {
    nodes: HashMap<u64, Node>,
    directories: BTreeMap<String, u64>,
    next_directory: u64,
    /// Of files that the kernel has forgotten.
    times: BTreeMap<u64, SystemTime>,
    /// Second names of files, which the pool does not know: their file's number.
    pub(crate) second: BTreeMap<String, u64>,
    /// The time of what has not changed since.
    pub(crate) began: SystemTime,
}

/// A file's number: even, and not the root's.
pub(crate) fn number_of(file: FileId) -> u64 {
    (u64::from(file.0) + 1) * 2
}

impl Tree {
    pub(crate) fn new(began: SystemTime) -> Self {
        let root = Node { path: Some(String::new()), file: None, lookups: 1 };
        Self {
            nodes: HashMap::from([(ROOT, root)]),
            directories: BTreeMap::from([(String::new(), ROOT)]),
            next_directory: ROOT + 2,
            times: BTreeMap::new(),
            second: BTreeMap::new(),
            began,
        }
    }

    fn node(&self, number: u64) -> io::Result<&Node> {
        self.nodes.get(&number).ok_or_else(|| Errno::STALE.into())
    }

    /// The file of that number; `None` for a directory.
    pub(crate) fn file(&self, number: u64) -> io::Result<Option<Arc<FileNode>>> {
        Ok(self.node(number)?.file.clone())
    }

    /// Its path within the member, as long as it has a name. The root's is empty.
    pub(crate) fn path(&self, number: u64) -> io::Result<String> {
        self.node(number)?.path.clone().ok_or_else(|| Errno::NOENT.into())
    }

    /// The number of a directory that the kernel knows.
    pub(crate) fn directory(&self, path: &str) -> Option<u64> {
        self.directories.get(path).copied()
    }

    /// How many names a file has.
    pub(crate) fn links(&self, number: u64) -> u32 {
        let has_name = self.nodes.get(&number).is_some_and(|node| node.path.is_some());
        u32::from(has_name) + self.second.values().filter(|other| **other == number).count() as u32
    }

    /// The kernel is told of a file.
    pub(crate) fn enter_file(&mut self, path: &str, file: File) -> (u64, Arc<FileNode>) {
        let number = number_of(file.id());
        let modified = self.times.remove(&number).unwrap_or(self.began);
        let node = self.nodes.entry(number).or_insert_with(|| Node {
            path: Some(path.to_owned()),
            file: Some(Arc::new(FileNode { file, modified: Mutex::new(modified) })),
            lookups: 0,
        });
        node.lookups += 1;
        (number, node.file.clone().expect("even numbers are those of files"))
    }

    /// The kernel is told of a file once more that it knows.
    pub(crate) fn enter_again(&mut self, number: u64) -> io::Result<Arc<FileNode>> {
        let node = self.nodes.get_mut(&number).ok_or(Errno::STALE)?;
        node.lookups += 1;
        node.file.clone().ok_or_else(|| Errno::STALE.into())
    }

    /// The kernel is told of a directory.
    pub(crate) fn enter_directory(&mut self, path: &str) -> u64 {
        let number = *self.directories.entry(path.to_owned()).or_insert(self.next_directory);
        if number == self.next_directory {
            self.next_directory += 2;
        }
        let node = self.nodes.entry(number).or_insert(Node { path: Some(path.to_owned()), file: None, lookups: 0 });
        node.lookups += 1;
        number
    }

    /// The kernel forgets. What it held is given back, for the caller to drop without the lock.
    pub(crate) fn forget(&mut self, number: u64, count: u64) -> Option<Arc<FileNode>> {
        let node = self.nodes.get_mut(&number).filter(|_| number != ROOT)?;
        node.lookups = node.lookups.saturating_sub(count);
        // A second name is known by its file's number alone.
        if node.lookups > 0 || self.second.values().any(|other| *other == number) {
            return None;
        }
        let Node { path, file, .. } = self.nodes.remove(&number)?;
        match (&path, &file) {
            (Some(_), Some(file)) => {
                self.times.insert(number, *file.modified.lock());
            }
            (Some(path), None) => {
                self.directories.remove(path);
            }
            (None, _) => {}
        }
        file
    }

    /// Whoever had that path has no name any more.
    pub(crate) fn lose(&mut self, path: &str) {
        self.directories.remove(path);
        self.nodes.values_mut().filter(|node| node.path.as_deref() == Some(path)).for_each(|node| node.path = None);
    }

    /// A file that is not known any more, if it was, needs no time.
    pub(crate) fn forget_time(&mut self, number: u64) {
        self.times.remove(&number);
    }

    /// A file or directory, with all below it, has another path.
    pub(crate) fn rename(&mut self, from: &str, to: &str) {
        let moved = |path: &str| moved(path, from, to);
        for path in self.nodes.values_mut().filter_map(|node| node.path.as_mut()) {
            if let Some(moved) = moved(path) {
                *path = moved;
            }
        }
        let of = |map: &mut BTreeMap<String, u64>| {
            *map =
                std::mem::take(map).into_iter().map(|(path, number)| (moved(&path).unwrap_or(path), number)).collect();
        };
        of(&mut self.directories);
        of(&mut self.second);
    }
}

/// A path below another that is renamed.
fn moved(path: &str, from: &str, to: &str) -> Option<String> {
    let below = path.strip_prefix(from)?;
    (below.is_empty() || below.starts_with('/')).then(|| [to, below].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_below_a_renamed_directory_moves_along_and_nothing_else_does() {
        assert_eq!(moved("a/b", "a", "c").as_deref(), Some("c/b"));
        assert_eq!(moved("a", "a", "c/d").as_deref(), Some("c/d"));
        assert_eq!(moved("ab", "a", "c"), None);
        assert_eq!(moved("b/a", "a", "c"), None);
    }

    #[test]
    fn a_directory_keeps_its_number_until_it_is_forgotten() {
        let mut tree = Tree::new(SystemTime::UNIX_EPOCH);
        let number = tree.enter_directory("a");
        assert_eq!(tree.enter_directory("a"), number);
        tree.rename("a", "b");
        assert_eq!((tree.path(number).unwrap().as_str(), tree.directory("a")), ("b", None));
        tree.forget(number, 1);
        assert_eq!(tree.directory("b"), Some(number));
        tree.forget(number, 1);
        assert_eq!(tree.directory("b"), None);
        assert_ne!(tree.enter_directory("b"), number);
    }
}
