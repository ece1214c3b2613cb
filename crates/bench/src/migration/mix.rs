//! Mixed work on a tree, after filebench's file server: threads that create, write, append, read, look at and delete files.
//!
//! In a loop, a thread creates a file and writes all of it, appends to the next of its files, reads another one whole, asks for the attributes of a third,
//! and deletes the file that it created in the loop before. No file belongs to two threads, so that it is known what must be there at the end.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::tree::Tree;
use super::{io, wrong};
use crate::{Error, Result};

/// What is added to a file at a time.
const ADDED: [u8; 16 << 10] = [0xa5; 16 << 10];
/// Operations of a loop.
const OPERATIONS: usize = 5;

#[derive(Clone, Copy, Debug)]
pub(super) struct Mix<'a> {
    pub(super) tree: &'a Tree,
    /// The work is on so many of the tree's first files.
    pub(super) files: usize,
    pub(super) threads: usize,
    /// Of each thread.
    pub(super) loops: usize,
}

impl Mix<'_> {
    /// How many operations all threads do.
    pub(super) fn operations(&self) -> usize {
        self.threads * self.loops * OPERATIONS
    }

    /// Numbers of the files that are one thread's.
    fn own(&self, thread: usize) -> Vec<usize> {
        (thread..self.files).step_by(self.threads).collect()
    }

    /// Does all of it below a directory that has the tree.
    pub(super) fn run(&self, root: &Path) -> Result<Duration> {
        if self.files < self.threads {
            return Err(Error::invalid("files", format!("{} threads have {} files", self.threads, self.files)));
        }
        let bytes: u64 = self.tree.files[..self.files].iter().map(|(_, bytes)| bytes).sum();
        let whole = vec![0x5a; bytes as usize / self.files];
        let began = Instant::now();
        std::thread::scope(|scope| {
            let start = |thread| {
                let whole = whole.as_slice();
                scope.spawn(move || self.work(thread, root, whole))
            };
            let threads: Vec<_> = (0..self.threads).map(start).collect();
            let end = || wrong(root, "a thread of the work has panicked".to_owned());
            threads.into_iter().try_for_each(|thread| thread.join().unwrap_or_else(|_| Err(end())))
        })?;
        Ok(began.elapsed())
    }

    fn work(&self, thread: usize, root: &Path, whole: &[u8]) -> Result<()> {
        let own = self.own(thread);
        let path = |at: usize| root.join(&self.tree.files[own[at % own.len()]].0);
        let mut created: Option<PathBuf> = None;
        for number in 0..self.loops {
            let new = path(number).with_file_name(format!("new {thread} {number}"));
            let mut file = File::create_new(&new).map_err(failed(&new, "creating"))?;
            file.write_all(whole).map_err(failed(&new, "writing"))?;
            drop(file);
            let grown = path(number);
            let file = OpenOptions::new().append(true).open(&grown);
            file.and_then(|mut file| file.write_all(&ADDED)).map_err(failed(&grown, "appending to"))?;
            let read = path(number + own.len() / 2);
            let found = fs::read(&read).map_err(failed(&read, "reading"))?;
            let least = self.tree.files[own[(number + own.len() / 2) % own.len()]].1;
            if (found.len() as u64) < least {
                return Err(wrong(&read, format!("it has {} bytes, and had {least}", found.len())));
            }
            let seen = path(number.wrapping_mul(7));
            fs::metadata(&seen).map_err(failed(&seen, "looking at"))?;
            if let Some(old) = created.replace(new) {
                fs::remove_file(&old).map_err(failed(&old, "deleting"))?;
            }
        }
        created.map_or(Ok(()), |old| fs::remove_file(&old).map_err(failed(&old, "deleting")))
    }

    /// Whether each file has what it had and what was added, and nothing else is there.
    pub(super) fn check(&self, root: &Path) -> Result<()> {
        for thread in 0..self.threads {
            let own = self.own(thread);
            for (at, number) in own.iter().enumerate() {
                let path = root.join(&self.tree.files[*number].0);
                let found = fs::read(&path).map_err(failed(&path, "reading"))?;
                let times = self.loops / own.len() + usize::from(at < self.loops % own.len());
                let before = self.tree.content(*number);
                let is_grown =
                    |added: &[u8]| added.len() == times * ADDED.len() && added.iter().all(|byte| *byte == ADDED[0]);
                if !found.strip_prefix(before.as_slice()).is_some_and(is_grown) {
                    return Err(wrong(&path, format!("it is not what it was and {times} times what was added")));
                }
            }
        }
        let mut directories = self.tree.directories.clone();
        directories.push(PathBuf::new());
        let mut entries = 0;
        for directory in directories {
            let path = root.join(directory);
            entries += fs::read_dir(&path).map_err(failed(&path, "listing"))?.count();
        }
        let expected = self.tree.files.len() + self.tree.directories.len();
        if entries != expected {
            return Err(wrong(root, format!("it has {entries} names, and should have {expected}")));
        }
        Ok(())
    }
}

fn failed(path: &Path, operation: &'static str) -> impl Fn(std::io::Error) -> Error {
    move |source| io(path, operation, source)
}

#[cfg(test)]
mod tests {
    use ishigaki_base::random::Seed;

    use super::super::tree::{Shape, Shrink};
    use super::*;

    #[test]
    fn the_work_leaves_what_it_added_and_the_check_sees_when_it_does_not() {
        let held = tempfile::tempdir().expect("a directory");
        let tree = Tree::new(Shape::Office, Shrink { files: 10_000.0, bytes: 1000.0 }, Seed(3)).with_large(1, 100);
        tree.write(held.path()).expect("writes");
        let mix = Mix { tree: &tree, files: tree.files.len() - 1, threads: 2, loops: 20 };
        assert_eq!(mix.operations(), 200);
        mix.run(held.path()).expect("works");
        mix.check(held.path()).expect("all is as it must be");
        let more = held.path().join("one more");
        fs::write(&more, b"").expect("writes");
        assert!(mix.check(held.path()).expect_err("a name too many").to_string().contains("names"));
        fs::remove_file(&more).expect("removes");
        let path = held.path().join(&tree.files[0].0);
        let length = fs::metadata(&path).expect("is there").len();
        OpenOptions::new().write(true).open(&path).expect("opens").set_len(length - 1).expect("cuts");
        assert!(mix.check(held.path()).expect_err("a byte is missing").to_string().contains("added"));
    }
}
