//! A round: everything that a member has changed since the last one goes home, in large writes, and then the ledger says so.
//!
//! 1. A snapshot of the image, in memory, up to some entry; requests go on meanwhile.
//! 2. The log is durable up to that entry. Nothing goes home before.
//! 3. An intent is written: which blocks are written over, and their new checksums.
//! 4. Extents with changes are written, in the order of their places, as many at once as lie beside each other; then synced.
//!    A block that does not change keeps its checksum, and where it does not fit that, its bytes: no round makes damage valid.
//! 5. Both copies of the ledger are written. From then on the log is not needed for these entries.
//!
//! New extents are taken from what the ledger on the medium does not have. Where that is not enough, because files were
//! removed since, a ledger is written first that has let go of their extents; the entries that removed them are in the log.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ishigaki_base::crc32c;
use ishigaki_device::{AlignedBuffer, Device};

use super::{EXTENT, Home};
use crate::format::{BLOCKS, Extent, Intent, Ledger, LedgerFile, NewSums};
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
        let mut extents = contents.extents_with_losses();
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

fn sum((_, content): &Dirty) -> u32 {
    content.as_ref().map_or_else(|| Extent::zeros(0).sums[0], |content| crc32c(content))
}

/// An extent to be written.
struct Due<'a> {
    place: u32,
    /// It is there already: what is not dirty stays.
    over: bool,
    file: usize,
    index: u64,
    /// Dirty blocks, with their checksums.
    blocks: Vec<(&'a Dirty, u32)>,
}

/// What a round has done.
#[derive(Debug, Default)]
pub(crate) struct Brought {
    /// The extents of each file.
    pub(crate) extents: BTreeMap<FileId, Vec<Option<Extent>>>,
    /// Blocks that it has met and left as they were, since they do not fit their checksums: by file, its index in the file.
    pub(crate) damaged: Vec<(FileId, u64)>,
}

/// Extents that lie beside each other, as they are to be written.
struct Row {
    bytes: AlignedBuffer,
    extents: Vec<Extent>,
    /// Blocks of the row that are not to be written, ascending.
    kept: Vec<usize>,
}

impl Home {
    /// Steps 3 to 5 of a round.
    pub(crate) fn bring(&self, snapshot: &Snapshot) -> Result<Brought> {
        let (mut dues, wanted) = Self::dues(snapshot);
        self.give_places(snapshot, &mut dues, wanted)?;
        dues.sort_by_key(|due| due.place);
        self.intend(snapshot, &dues)?;
        let mut extents: Vec<_> = snapshot.files.iter().map(|file| file.extents.clone()).collect();
        let mut rest = &dues[..];
        let (mut touched, mut damaged): (Vec<Arc<dyn Device>>, _) = (Vec::new(), Vec::new());
        while !rest.is_empty() {
            let (run, behind) = rest.split_at(self.run_length(rest));
            let (device, row) = self.write(snapshot, run)?;
            for (due, extent) in run.iter().zip(row.extents) {
                extents[due.file][due.index as usize] = Some(extent);
            }
            damaged.extend(row.kept.iter().map(|block| {
                let due = &run[block / BLOCKS];
                (snapshot.files[due.file].file, due.index * BLOCKS as u64 + (block % BLOCKS) as u64)
            }));
            if touched.last().is_none_or(|last| !Arc::ptr_eq(last, &device)) {
                touched.push(device);
            }
            rest = behind;
        }
        touched.iter().try_for_each(|device| device.sync())?;
        self.note(snapshot, &extents)?;
        Ok(Brought { extents: snapshot.files.iter().map(|file| file.file).zip(extents).collect(), damaged })
    }

    /// All extents to be written, and how many of them have no place yet.
    fn dues(snapshot: &Snapshot) -> (Vec<Due<'_>>, usize) {
        let (mut dues, mut wanted) = (Vec::new(), 0);
        for (number, file) in snapshot.files.iter().enumerate() {
            for (index, blocks) in file.due() {
                let place = file.extents.get(index as usize).copied().flatten().map(|extent| extent.place);
                wanted += usize::from(place.is_none());
                let blocks = blocks.into_iter().map(|dirty| (dirty, sum(dirty))).collect();
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

    /// Says what is about to be written over.
    fn intend(&self, snapshot: &Snapshot, dues: &[Due<'_>]) -> Result<()> {
        let mut sums = BTreeMap::new();
        for due in dues.iter().filter(|due| due.over) {
            let new: &mut NewSums = sums.entry(due.place).or_default();
            due.blocks.iter().for_each(|((block, _), sum)| new[*block as usize % BLOCKS] = Some(*sum));
        }
        if sums.is_empty() {
            return Ok(());
        }
        let (log, member, base) = {
            let current = self.current.lock();
            (current.log, current.member, current.entries)
        };
        self.ledgers.intend(&Intent { log, member, base, entries: snapshot.entries, sums })
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

    /// Writes extents that lie beside each other.
    fn write(&self, snapshot: &Snapshot, run: &[Due<'_>]) -> Result<(Arc<dyn Device>, Row)> {
        let (device, at) = self.device(run[0].place)?;
        let bytes = AlignedBuffer::zeroed(run.len() * EXTENT as usize);
        let mut row = Row { bytes, extents: Vec::with_capacity(run.len()), kept: Vec::new() };
        for (number, due) in run.iter().enumerate() {
            self.fill(&snapshot.files[due.file], due, number, &mut row)?;
        }
        let mut from = 0;
        for kept in row.kept.iter().copied().chain([run.len() * BLOCKS]) {
            let (begin, end) = (from * BLOCK as usize, kept * BLOCK as usize);
            if begin < end {
                device.write_at(at + begin as u64, &row.bytes[begin..end])?;
            }
            from = kept + 1;
        }
        Ok((device, row))
    }

    /// Makes one extent of a row.
    fn fill(&self, file: &FileSnapshot, due: &Due<'_>, number: usize, row: &mut Row) -> Result<()> {
        let begin = number * EXTENT as usize;
        let bytes = &mut row.bytes[begin..begin + EXTENT as usize];
        let mut extent = Extent::zeros(due.place);
        let mut changes = [false; BLOCKS];
        if due.over {
            let old = file.extents.get(due.index as usize).copied().flatten();
            extent = old.ok_or_else(|| Error::corrupt(format!("extent {} is no file's", due.place)))?;
            let valid = (file.valid.saturating_sub(due.index * EXTENT).min(EXTENT) / BLOCK) as usize;
            for (block, changes) in changes.iter_mut().enumerate().skip(valid) {
                extent.set(block, Extent::zeros(due.place).sums[block]);
                *changes = true;
            }
        }
        for ((block, content), sum) in &due.blocks {
            let within = *block as usize % BLOCKS;
            changes[within] = true;
            if let Some(content) = content {
                bytes[within * BLOCK as usize..(within + 1) * BLOCK as usize].copy_from_slice(content);
            }
            extent.set(within, *sum);
        }
        if due.over && changes.contains(&false) {
            let mut old = AlignedBuffer::zeroed(EXTENT as usize);
            let (device, at) = self.device(due.place)?;
            let is_readable = device.read_at(at, &mut old).is_ok();
            for block in (0..BLOCKS).filter(|&block| !changes[block]) {
                let range = block * BLOCK as usize..(block + 1) * BLOCK as usize;
                if is_readable && crc32c(&old[range.clone()]) == extent.sums[block] {
                    bytes[range.clone()].copy_from_slice(&old[range]);
                } else {
                    row.kept.push(number * BLOCKS + block);
                }
            }
        }
        row.extents.push(extent);
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
