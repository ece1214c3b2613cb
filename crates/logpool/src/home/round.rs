//! A round: everything that a member has changed since the last one goes home, in large writes, and then the ledger says so.
//!
//! 1. A snapshot of the image, in memory, up to some entry; requests go on meanwhile.
//! 2. The log is durable up to that entry. Nothing goes home before.
//! 3. Extents with changes are written, in the order of their places, as many at once as lie beside each other; then synced.
//! 4. Both copies of the ledger are written. From then on the log is not needed for these entries.
//!
//! New extents are taken from what the ledger on the medium does not have. Where that is not enough, because files were
//! removed since, a ledger is written first that has let go of their extents; the entries that removed them are in the log.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ishigaki_base::crc32c;
use ishigaki_device::{AlignedBuffer, Device};

use super::{EXTENT, Home};
use crate::format::{Extent, Ledger, LedgerFile};
use crate::image::{BLOCK, Contents, Image, Version};
use crate::{Error, FileId, Result};

/// Bytes written at once.
const WRITE: u64 = 1 << 20;

/// A block as a snapshot has it: its index in the file and its bytes, `None` for zeros.
type Dirty = (u64, Option<Arc<[u8]>>);

/// A member's files at some moment.
#[derive(Debug)]
pub(crate) struct Snapshot {
    /// The last entry that is in it.
    pub(crate) entries: u64,
    /// The moment.
    pub(crate) version: Version,
    next_file: u32,
    directories: Vec<String>,
    files: Vec<FileSnapshot>,
    /// Places that files without a name still read from.
    orphaned: BTreeSet<u32>,
}

/// A file in a snapshot.
#[derive(Debug)]
pub(crate) struct FileSnapshot {
    path: String,
    file: FileId,
    length: u64,
    extents: Vec<Option<Extent>>,
    /// Up to where the extents count.
    valid: u64,
    dirty: Vec<Dirty>,
}

impl Snapshot {
    /// Of an image after that entry.
    pub(crate) fn of(image: &Image, entries: u64) -> Result<Self> {
        let (mut directories, mut files) = (Vec::new(), Vec::new());
        for (path, file) in image.names.iter() {
            match file {
                None => directories.push(path.to_owned()),
                Some(file) => files.push(FileSnapshot::of(path, file, image.contents(file)?)),
            }
        }
        let orphaned = image.orphaned_extents().map(|extent| extent.place).collect();
        let (version, next_file) = (image.version(), image.next_file);
        Ok(Self { entries, version, next_file, directories, files, orphaned })
    }
}

impl FileSnapshot {
    fn of(path: &str, file: FileId, contents: &Contents) -> Self {
        let dirty = contents.dirty_blocks().map(|(block, bytes)| (block, bytes.clone())).collect();
        let mut extents = contents.extents().to_vec();
        extents.resize(contents.length().div_ceil(EXTENT) as usize, None);
        for (index, extent) in extents.iter_mut().enumerate() {
            if index as u64 * EXTENT >= contents.valid() {
                *extent = None;
            }
        }
        Self { path: path.to_owned(), file, length: contents.length(), extents, valid: contents.valid(), dirty }
    }

    /// The extents that must be written, with their dirty blocks.
    fn due(&self) -> BTreeMap<u64, Vec<&Dirty>> {
        let mut due: BTreeMap<u64, Vec<&Dirty>> = BTreeMap::new();
        for dirty in &self.dirty {
            due.entry(dirty.0 * BLOCK / EXTENT).or_default().push(dirty);
        }
        let has_place = |index: u64| self.extents.get(index as usize).copied().flatten().is_some();
        // Zeros need no place of their own.
        due.retain(|&index, blocks| has_place(index) || blocks.iter().any(|(_, bytes)| bytes.is_some()));
        let boundary = self.valid / EXTENT;
        if !self.valid.is_multiple_of(EXTENT) && has_place(boundary) {
            due.entry(boundary).or_default();
        }
        due
    }
}

/// An extent to be written.
struct Due<'a> {
    place: u32,
    /// It is there already: what is not dirty stays.
    over: bool,
    file: usize,
    index: u64,
    blocks: Vec<&'a Dirty>,
}

impl Home {
    /// Steps 3 and 4 of a round. Gives the extents of each file.
    pub(crate) fn bring(&self, snapshot: &Snapshot) -> Result<BTreeMap<FileId, Vec<Option<Extent>>>> {
        let (mut dues, wanted) = Self::dues(snapshot);
        self.give_places(snapshot, &mut dues, wanted)?;
        dues.sort_by_key(|due| due.place);
        let mut extents: Vec<_> = snapshot.files.iter().map(|file| file.extents.clone()).collect();
        let mut rest = &dues[..];
        let mut touched: Vec<Arc<dyn Device>> = Vec::new();
        while !rest.is_empty() {
            let (run, behind) = rest.split_at(self.run_length(rest));
            let (device, crcs) = self.write(snapshot, run)?;
            for (due, crc) in run.iter().zip(crcs) {
                extents[due.file][due.index as usize] = Some(Extent { place: due.place, crc });
            }
            if touched.last().is_none_or(|last| !Arc::ptr_eq(last, &device)) {
                touched.push(device);
            }
            rest = behind;
        }
        touched.iter().try_for_each(|device| device.sync())?;
        self.note(snapshot, &extents)?;
        Ok(snapshot.files.iter().map(|file| file.file).zip(extents).collect())
    }

    /// All extents to be written, and how many of them have no place yet.
    fn dues(snapshot: &Snapshot) -> (Vec<Due<'_>>, usize) {
        let (mut dues, mut wanted) = (Vec::new(), 0);
        for (number, file) in snapshot.files.iter().enumerate() {
            for (index, blocks) in file.due() {
                let place = file.extents.get(index as usize).copied().flatten().map(|extent| extent.place);
                wanted += usize::from(place.is_none());
                dues.push(Due { place: place.unwrap_or(u32::MAX), over: place.is_some(), file: number, index, blocks });
            }
        }
        (dues, wanted)
    }

    fn give_places(&self, snapshot: &Snapshot, dues: &mut [Due<'_>], wanted: usize) -> Result<()> {
        let mut free = self.free(snapshot, wanted);
        if free.len() < wanted {
            self.let_go(snapshot)?;
            free = self.free(snapshot, wanted);
        }
        if free.len() < wanted {
            return Err(Error::corrupt(format!("the home of `{}` has fewer extents than were reserved", self.name)));
        }
        let new = dues.iter_mut().filter(|due| !due.over);
        new.zip(free).for_each(|(due, place)| due.place = place);
        Ok(())
    }

    /// The lowest places that nobody has.
    fn free(&self, snapshot: &Snapshot, wanted: usize) -> Vec<u32> {
        let used = self.current.lock().places();
        let all = (self.bytes() / EXTENT) as u32;
        let is_free = |place: &u32| !used.contains(place) && !snapshot.orphaned.contains(place);
        (0..all).filter(is_free).take(wanted).collect()
    }

    /// Writes the ledger on the medium again, without the extents that the snapshot has no use for.
    fn let_go(&self, snapshot: &Snapshot) -> Result<()> {
        let kept: BTreeSet<u32> =
            snapshot.files.iter().flat_map(|file| file.extents.iter().flatten()).map(|extent| extent.place).collect();
        let mut ledger = self.ledger();
        for extent in ledger.files.iter_mut().flat_map(|file| &mut file.extents) {
            if extent.is_some_and(|extent| !kept.contains(&extent.place)) {
                *extent = None;
            }
        }
        self.write_ledger(ledger)
    }

    /// How many of the next extents lie beside each other.
    fn run_length(&self, dues: &[Due<'_>]) -> usize {
        let per_region = (self.region / EXTENT) as u32;
        let first = dues[0].place;
        let beside = |(number, due): &(usize, &Due<'_>)| {
            due.place - first == *number as u32
                && due.place / per_region == first / per_region
                && (*number as u64) < WRITE / EXTENT
        };
        dues.iter().enumerate().take_while(beside).count()
    }

    /// Writes extents that lie beside each other; gives their checksums.
    fn write(&self, snapshot: &Snapshot, run: &[Due<'_>]) -> Result<(Arc<dyn Device>, Vec<u32>)> {
        let (device, at) = self.device(run[0].place)?;
        let mut buffer = AlignedBuffer::zeroed(run.len() * EXTENT as usize);
        let mut crcs = Vec::with_capacity(run.len());
        for (due, bytes) in run.iter().zip(buffer.chunks_exact_mut(EXTENT as usize)) {
            self.fill(&snapshot.files[due.file], due, bytes)?;
            crcs.push(crc32c(bytes));
        }
        device.write_at(at, &buffer)?;
        Ok((device, crcs))
    }

    /// The bytes of an extent.
    fn fill(&self, file: &FileSnapshot, due: &Due<'_>, bytes: &mut [u8]) -> Result<()> {
        if due.over && due.blocks.len() < (EXTENT / BLOCK) as usize {
            let (device, at) = self.device(due.place)?;
            let mut old = AlignedBuffer::zeroed(EXTENT as usize);
            device.read_at(at, &mut old)?;
            bytes.copy_from_slice(&old);
            let valid = file.valid.saturating_sub(due.index * EXTENT).min(EXTENT) as usize;
            bytes[valid..].fill(0);
        }
        for (block, content) in &due.blocks {
            let at = (block * BLOCK - due.index * EXTENT) as usize;
            let target = &mut bytes[at..at + BLOCK as usize];
            match content {
                Some(content) => target.copy_from_slice(content),
                None => target.fill(0),
            }
        }
        Ok(())
    }

    fn note(&self, snapshot: &Snapshot, extents: &[Vec<Option<Extent>>]) -> Result<()> {
        let files = snapshot.files.iter().zip(extents).map(|(file, extents)| LedgerFile {
            path: file.path.clone(),
            file: file.file,
            length: file.length,
            extents: extents.clone(),
        });
        self.write_ledger(Ledger {
            entries: snapshot.entries,
            next_file: snapshot.next_file,
            directories: snapshot.directories.clone(),
            files: files.collect(),
            ..self.ledger()
        })
    }
}
