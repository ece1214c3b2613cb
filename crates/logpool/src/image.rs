//! What the engine knows of a member's files: the state after all of its entries so far.
//!
//! Live requests are checked, become an entry, and then change the image; recovery changes it by the same entries read
//! back. So both come to the same, and what is read is consistent with everything accepted, durable or not.
//!
//! Parts: [`names`] are paths, [`contents`] the bytes of one file over what is at home, [`compare`] finds what a write
//! changes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::format::{Change, Extent, Ledger, Node, Run};
use crate::home::{Base, EXTENT};
use crate::{Error, FileId, Result};

mod compare;
mod contents;
mod names;

pub(crate) use compare::{BLOCK, changed_runs};
pub(crate) use contents::{Contents, Piece, Unreadable, Version};
pub(crate) use names::Names;

/// A member's files.
#[derive(Clone, Debug, Default)]
pub(crate) struct Image {
    pub(crate) names: Names,
    files: BTreeMap<FileId, Opened>,
    /// The number of the next file.
    pub(crate) next_file: u32,
    /// Of the last change.
    version: Version,
    /// Changes up to here are home.
    home: Version,
    /// Blocks that are home and in memory, oldest first.
    clean: VecDeque<(FileId, u64)>,
}

/// A file, and who uses it.
#[derive(Clone, Debug)]
struct Opened {
    contents: Contents,
    /// A file without a name goes with its last user.
    users: u32,
    has_name: bool,
}

impl Image {
    /// What a ledger says.
    pub(crate) fn at_home(ledger: &Ledger) -> Self {
        let mut image = Self { next_file: ledger.next_file, ..Self::default() };
        ledger.directories.iter().for_each(|path| image.names.set(path, None));
        for file in &ledger.files {
            image.names.set(&file.path, Some(file.file));
            image.insert(file.file, Contents::at_home(file.length, file.extents.clone(), 0));
        }
        image
    }

    fn insert(&mut self, file: FileId, contents: Contents) {
        self.files.insert(file, Opened { contents, users: 0, has_name: true });
        self.next_file = self.next_file.max(file.0.saturating_add(1));
    }

    /// Takes in a file without a name that an earlier image had. It is not in use yet.
    pub(crate) fn adopt(&mut self, file: FileId, length: u64, blocks: Vec<(u64, Vec<u8>)>) {
        let mut contents = Contents::at_home(length, Vec::new(), self.home);
        for (block, bytes) in blocks {
            contents.hold(block, &bytes);
        }
        self.files.insert(file, Opened { contents, users: 0, has_name: false });
    }

    /// A file's bytes. A file of a name is always there; one without lives as long as its users.
    pub(crate) fn contents(&self, file: FileId) -> Result<&Contents> {
        self.files.get(&file).map(|opened| &opened.contents).ok_or_else(|| gone(file))
    }

    pub(crate) fn contents_mut(&mut self, file: FileId) -> Result<&mut Contents> {
        self.files.get_mut(&file).map(|opened| &mut opened.contents).ok_or_else(|| gone(file))
    }

    /// Whether changes of that file concern anybody after a crash.
    pub(crate) fn has_name(&self, file: FileId) -> bool {
        self.files.get(&file).is_some_and(|opened| opened.has_name)
    }

    /// Every extent at home that a file without a name still needs.
    pub(crate) fn orphaned_extents(&self) -> impl Iterator<Item = Extent> {
        let orphans = self.files.values().filter(|opened| !opened.has_name);
        orphans.flat_map(|opened| opened.contents.extents().iter().copied().flatten())
    }

    /// Extents that the files' lengths ask for.
    pub(crate) fn extents(&self) -> u64 {
        self.files.values().map(|opened| opened.contents.length().div_ceil(EXTENT)).sum()
    }

    /// Bytes of blocks in memory that are not home.
    pub(crate) fn dirty_bytes(&self) -> u64 {
        self.files.values().map(|opened| opened.contents.dirty_bytes()).sum()
    }

    /// The moment of the last change.
    pub(crate) fn version(&self) -> Version {
        self.version
    }

    /// Somebody uses the file.
    pub(crate) fn take(&mut self, file: FileId) {
        if let Some(opened) = self.files.get_mut(&file) {
            opened.users += 1;
        }
    }

    /// And does not any more.
    pub(crate) fn give_back(&mut self, file: FileId) {
        let Some(opened) = self.files.get_mut(&file) else { return };
        opened.users -= 1;
        if opened.users == 0 && !opened.has_name {
            self.files.remove(&file);
        }
    }

    fn lose_name(&mut self, file: Option<FileId>) {
        let Some((file, opened)) = file.and_then(|file| Some((file, self.files.get_mut(&file)?))) else { return };
        opened.has_name = false;
        if opened.users == 0 {
            self.files.remove(&file);
        }
    }

    /// Makes the change of an entry. What it covers in part is read from home where that is not known yet; nothing fails
    /// after that was [prepared](Contents::prepare).
    pub(crate) fn apply(&mut self, base: &dyn Base, change: &Change<'_>) -> Result<()> {
        self.version += 1;
        let version = self.version;
        match change {
            Change::Data { file, offset, length, runs } => {
                let contents = self.contents_mut(*file)?;
                // Runs that touch cover blocks together.
                for row in runs.chunk_by(|run, next| run.at + run.length == next.at) {
                    let length = row.iter().map(|run| run.length).sum();
                    contents.prepare(base, offset + row[0].at, length)?;
                }
                for Run { at, length, bytes } in runs {
                    match bytes {
                        Some(bytes) => contents.put(offset + at, bytes, version),
                        None => contents.zero(offset + at, *length, version),
                    }
                }
                contents.extend(offset + length);
            }
            Change::Zero { file, offset, length, keep_length } => {
                let contents = self.contents_mut(*file)?;
                let end = offset + length;
                if !keep_length {
                    contents.extend(end);
                }
                let end = end.min(contents.length());
                if *offset < end {
                    contents.prepare(base, *offset, end - offset)?;
                    contents.zero(*offset, end - offset, version);
                }
            }
            Change::Truncate { file, length } => self.truncate(base, *file, *length)?,
            Change::Create { path, file } => {
                if let Some(file) = file.filter(|file| file.0 < self.next_file) {
                    return Err(Error::invalid(format!("there was a file number {file} before")));
                }
                self.names.create(path, *file)?;
                if let Some(file) = file {
                    self.insert(*file, Contents::at_home(0, Vec::new(), self.home));
                }
            }
            Change::Rename { from, to } => {
                let replaced = self.names.rename(from, to)?;
                self.lose_name(replaced);
            }
            Change::Remove { path } => {
                let removed = self.names.remove(path)?;
                self.lose_name(removed);
            }
            Change::Restate { nodes, .. } => self.restate(base, nodes)?,
            Change::Restated => {}
        }
        Ok(())
    }

    /// Writes bytes of which these runs are changes; the blocks that they cover in part are in memory. The same as applying
    /// the runs' entry, and needs no home.
    pub(crate) fn write(&mut self, file: FileId, offset: u64, bytes: &[u8], runs: &[Run<'_>]) -> Result<()> {
        self.version += 1;
        let version = self.version;
        let contents = self.contents_mut(file)?;
        let mut at = 0;
        let mut runs = runs.iter().peekable();
        while at < bytes.len() as u64 {
            let next = (((offset + at) / BLOCK + 1) * BLOCK - offset).min(bytes.len() as u64);
            while runs.next_if(|run| run.at + run.length <= at).is_some() {}
            if runs.peek().is_some_and(|run| run.at < next) {
                contents.put(offset + at, &bytes[at as usize..next as usize], version);
            }
            at = next;
        }
        contents.extend(offset + bytes.len() as u64);
        Ok(())
    }

    /// The bytes that a change will make zero, clipped to what the file will be.
    pub(crate) fn zeroed(&self, change: &Change<'_>) -> Result<Option<(FileId, u64, u64)>> {
        let (file, from, to) = match change {
            Change::Zero { file, offset, length, keep_length } => {
                let old = self.contents(*file)?.length();
                (file, *offset, if *keep_length { old.min(offset + length) } else { offset + length })
            }
            Change::Truncate { file, length } => {
                let old = self.contents(*file)?.length();
                (file, *length, old.min(length.next_multiple_of(BLOCK)))
            }
            _ => return Ok(None),
        };
        Ok((from < to).then(|| (*file, from, to - from)))
    }

    fn truncate(&mut self, base: &dyn Base, file: FileId, length: u64) -> Result<()> {
        let version = self.version;
        let contents = self.contents_mut(file)?;
        if length < contents.length() {
            contents.prepare(base, length, contents.length().min(length.next_multiple_of(BLOCK)) - length)?;
        }
        contents.truncate(length, version);
        Ok(())
    }

    /// The names are these and no others; the bytes of the files follow.
    fn restate(&mut self, base: &dyn Base, nodes: &[Node]) -> Result<()> {
        let mut names = Names::default();
        let mut seen = BTreeSet::new();
        for node in nodes {
            // In the order of paths a directory comes before what is in it.
            names.create(&node.path, node.file.map(|(file, _)| file))?;
            if node.file.is_some_and(|(file, _)| !seen.insert(file)) {
                return Err(Error::invalid(format!("`{}` is a second name of a file", node.path)));
            }
        }
        let lost: Vec<FileId> =
            self.names.iter().filter_map(|(_, file)| file).filter(|file| names.path_of(*file).is_none()).collect();
        for file in lost {
            self.lose_name(Some(file));
        }
        self.names = names;
        for (file, length) in nodes.iter().filter_map(|node| node.file) {
            if !self.files.contains_key(&file) {
                self.insert(file, Contents::at_home(0, Vec::new(), self.home));
            }
            self.truncate(base, file, length)?;
        }
        Ok(())
    }

    /// All names, as a restatement has them.
    pub(crate) fn nodes(&self) -> Vec<Node> {
        let length = |file| self.files.get(&file).map_or(0, |opened| opened.contents.length());
        let node = |(path, file): (&str, Option<FileId>)| Node {
            path: path.to_owned(),
            file: file.map(|file| (file, length(file))),
        };
        self.names.iter().map(node).collect()
    }

    /// The entries of a round that was cut off are made.
    pub(crate) fn prove(&mut self) {
        self.files.values_mut().for_each(|opened| opened.contents.prove());
    }

    /// Files that have a name or a user.
    pub(crate) fn all_files(&self) -> impl Iterator<Item = FileId> {
        self.files.keys().copied()
    }

    /// What home has of a block is damaged, and memory has it: it goes home once more.
    pub(crate) fn freshen(&mut self, file: FileId, piece: Piece) -> bool {
        self.version += 1;
        let version = self.version;
        self.contents_mut(file).is_ok_and(|contents| contents.freshen(piece, version))
    }

    /// A round begins.
    pub(crate) fn round_begins(&mut self) {
        self.files.values_mut().for_each(|opened| opened.contents.round_begins());
    }

    /// A round has brought home everything up to `home`; where to is said for each file that had a name then. At most
    /// `cache` bytes of blocks that are home stay in memory.
    pub(crate) fn round_ended(
        &mut self,
        home: Version,
        extents: &mut dyn FnMut(FileId) -> Option<Vec<Option<Extent>>>,
        cache: u64,
    ) {
        self.home = home;
        for (&file, opened) in &mut self.files {
            if let Some(extents) = extents(file) {
                let clean = opened.contents.round_ended(home, extents);
                self.clean.extend(clean.into_iter().map(|block| (file, block)));
            }
        }
        while self.clean.len() as u64 * BLOCK > cache
            && let Some((file, block)) = self.clean.pop_front()
        {
            if let Some(opened) = self.files.get_mut(&file) {
                opened.contents.forget(block);
            }
        }
    }
}

fn gone(file: FileId) -> Error {
    Error::NotFound { name: format!("file number {file}") }
}
