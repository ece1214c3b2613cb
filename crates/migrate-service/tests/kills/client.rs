//! A client, which works in a directory of its own and remembers what it was told to be done.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use super::Load;
use super::model::{Known, Model, Op, names};

pub(crate) struct Client {
    own: PathBuf,
    model: Model,
    random: fastrand::Rng,
    /// What it does not know to be done.
    under_way: Option<Op>,
    keeps: Keeps,
}

/// What there is of a client's changes after an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keeps {
    /// All that it was told to be done.
    Everything,
    /// What it has synced, so that it syncs each change before the next one.
    Synced,
    /// The same, and perhaps an old name: when a file moves from one directory to another, and only the new one was synced, btrfs goes on with both
    /// names of it. The new one is in its log then, and that the old one is gone is not.
    SyncedAndOldNames,
}

impl Client {
    pub(crate) fn new(own: PathBuf, model: Model, keeps: Keeps, random: fastrand::Rng) -> Self {
        Self { own, model, random, under_way: None, keeps }
    }

    /// Works until it meets an error, which the end of the service has to be.
    pub(crate) fn work(&mut self, at: &Path, load: &Load<'_>) {
        let root = at.join(&self.own);
        while !load.ends.load(Ordering::Acquire) || self.random.u8(..50) > 0 {
            if self.random.u8(..4) == 0 && !self.read_one(&root, load) {
                return;
            }
            let Some(op) = self.model.draw(&mut self.random) else { continue };
            let durably = self.keeps != Keeps::Everything || self.random.u8(..4) == 0;
            if let Err(error) = op.perform(&root, durably) {
                assert!(load.ends.load(Ordering::Acquire), "{op:?}: {error}");
                self.under_way = Some(op);
                return;
            }
            if !load.has_power() {
                self.under_way = Some(op);
                return;
            }
            self.model.apply(&op);
            load.done.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Reads one of its files; whether it could.
    fn read_one(&mut self, root: &Path, load: &Load<'_>) -> bool {
        let files: Vec<_> = self.model.names.iter().collect();
        let (path, number) = files[self.random.usize(..files.len())];
        match fs::read(root.join(path)) {
            Ok(bytes) if load.has_power() => self.expect(path, &self.model.files[number], &bytes),
            Ok(_) => return false,
            Err(error) => {
                assert!(load.ends.load(Ordering::Acquire), "{}: {error}", path.display());
                return false;
            }
        }
        true
    }

    fn expect(&self, path: &Path, known: &Known, bytes: &[u8]) {
        if known.bytes == bytes {
            return;
        }
        let others: Vec<usize> =
            (0..known.bytes.len().min(bytes.len())).filter(|&at| known.bytes[at] != bytes[at]).collect();
        let told = |at: &usize| format!("at {at} {} and not {}", bytes[*at], known.bytes[*at]);
        panic!(
            "{}/{}: {} bytes and not {}, {} others from {:?} to {:?}, touched {}",
            self.own.display(),
            path.display(),
            bytes.len(),
            known.bytes.len(),
            others.len(),
            others.first().map(told),
            others.last().map(told),
            known.touched
        );
    }

    /// Finds what it left, after an end. It looks at all that it has changed, and at some of the rest, or at everything.
    pub(crate) fn look(&mut self, at: &Path, everything: bool) {
        let root = at.join(&self.own);
        let seen = names(&root);
        let before = self.model.clone();
        let op = self.under_way.take();
        if let Some(op) = &op {
            let mut after = before.clone();
            match op {
                Op::Rename(from, to) if self.may_have_both(from, to, &root) => {
                    after.apply(&Op::Link(from.clone(), to.clone()));
                }
                op => after.apply(op),
            }
            if after.has(&seen) {
                self.model = after;
            }
        }
        assert!(self.model.has(&seen), "{}: {op:?}: {seen:?} and not {:?}", self.own.display(), self.model.names);
        let changed = match &op {
            Some(Op::Create(path, _) | Op::Write(path, ..) | Op::Resize(path, _)) => {
                self.model.names.get(path).copied()
            }
            _ => None,
        };
        for (path, number) in self.model.names.clone() {
            let after = self.model.files[&number].clone();
            if !everything && !after.touched && self.random.u8(..20) > 0 {
                continue;
            }
            let bytes = fs::read(root.join(&path)).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            if changed == Some(number) {
                let before = before.files.get(&number).cloned().unwrap_or_default();
                if let Some(other) = other_than(&bytes, &before.bytes, &after.bytes) {
                    panic!("{}: {op:?}: {other}", path.display());
                }
                self.model.files.insert(number, Known { bytes, touched: true });
            } else {
                self.expect(&path, &after, &bytes);
            }
        }
    }

    /// Whether a move that was under way has left the file with both names.
    fn may_have_both(&self, from: &Path, to: &Path, root: &Path) -> bool {
        let number = |path: &Path| fs::symlink_metadata(root.join(path)).ok().map(|found| found.ino());
        self.keeps == Keeps::SyncedAndOldNames
            && from.parent() != to.parent()
            && number(from).is_some_and(|it| number(to) == Some(it))
    }

    /// What it never changed has the source's times and mode.
    pub(crate) fn compare_untouched(&self, old: &Path, new: &Path) {
        let told = |root: &Path, path: &Path| {
            let found = fs::metadata(root.join(&self.own).join(path)).unwrap();
            (found.mtime(), found.mtime_nsec(), found.mode(), found.uid(), found.size())
        };
        let untouched = |(path, number): &(&PathBuf, &u64)| {
            !self.model.files[number].touched && old.join(&self.own).join(path).exists()
        };
        let mut compared = 0;
        for (path, number) in self.model.names.iter().filter(untouched) {
            // It may have got the name of another one.
            if fs::read(old.join(&self.own).join(path)).unwrap() == self.model.files[number].bytes {
                assert_eq!(told(old, path), told(new, path), "{}", path.display());
                compared += 1;
            }
        }
        println!(
            "client {}: {} files, {compared} of them as at the source",
            self.own.display(),
            self.model.names.len()
        );
    }
}

/// The first byte that is neither as before nor as after, or the size.
fn other_than(seen: &[u8], before: &[u8], after: &[u8]) -> Option<String> {
    let byte = |of: &[u8], at: usize| of.get(at).copied().unwrap_or(0);
    let sizes = before.len().min(after.len())..=before.len().max(after.len());
    if !sizes.contains(&seen.len()) {
        return Some(format!("{} bytes and not {sizes:?}", seen.len()));
    }
    let is_other = |at: &usize| seen[*at] != byte(before, *at) && seen[*at] != byte(after, *at);
    let others: Vec<usize> = (0..seen.len()).filter(is_other).collect();
    let told = |at: &usize| format!("at {at} {} and not {} or {}", seen[*at], byte(before, *at), byte(after, *at));
    let (first, last) = (others.first().map(told)?, others.last().map(told)?);
    Some(format!("of {} bytes, {} before, {} others, from {first} to {last}", seen.len(), before.len(), others.len()))
}
