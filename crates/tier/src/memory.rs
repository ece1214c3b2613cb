//! Memory that outlives a process, but not the power: which blocks are dirty at this moment.
//!
//! What was written and not yet synced is on the fast device, and in the map of the process that wrote it alone. A machine that goes on when that process is killed
//! has been told that it is written, and will ask the next process to sync it. So the dirty blocks of each slot are said here as well, whenever they change:
//!
//! ```text
//!   0  magic u64 │ session u64                                   0 while nothing here is to be believed
//!  16  for each slot: volume u32, chunk u32 │ dirty u64 …        a bit for each block of the chunk
//! ```
//!
//! The map names the session durably before anything here counts. A pool that is opened without this memory, or finds another session in it, begins a new one first: so
//! nothing that is older than the map is ever believed. Each word is stored whole, and what a killed process had half said is of a write that it had not answered.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ishigaki_base::LogId;
use parking_lot::Mutex;
use rustix::fs::{FallocateFlags, OFlags, fallocate, fstatfs};
use vm_memory::{Bytes, FileOffset, MmapRegion, VolatileMemory};

use crate::blocks::Blocks;
use crate::record::{Session, SlotId, VolumeId};
use crate::{BLOCK, Error, Result};

/// `ISHItMEM` as it lies there, and by its last letter the version of the form.
const MAGIC: u64 = u64::from_le_bytes(*b"ISHItME1");
const AT_SESSION: usize = 8;
const HEAD: usize = 16;
const WORD: usize = 8;

/// What `statfs` says of a file system in memory.
const TMPFS: u64 = 0x0102_1994;

/// Where the dirty blocks of a pool are said for the process after this one. Clones are the same place.
#[derive(Clone, Debug)]
pub struct Memory(Place);

#[derive(Clone, Debug)]
enum Place {
    Folder(PathBuf),
    Simulated(Arc<Mutex<Option<Region>>>),
}

impl Memory {
    /// In a folder of a file system in memory, such as `/dev/shm`: a file of the pool's own there.
    pub fn in_folder(folder: impl Into<PathBuf>) -> Self {
        Self(Place::Folder(folder.into()))
    }

    /// In this process, which stands for several. A simulated cut of the power loses it: then there is another one.
    pub fn simulated() -> Self {
        Self(Place::Simulated(Arc::default()))
    }

    /// What the next process finds if this one dies now, of [simulated](Self::simulated) memory.
    #[must_use]
    pub fn copy(&self) -> Self {
        let Place::Simulated(region) = &self.0 else { return self.clone() };
        let copied = region.lock().as_ref().and_then(Region::copy);
        Self(Place::Simulated(Arc::new(Mutex::new(copied))))
    }

    /// Maps it for so many slots.
    pub(crate) fn map(&self, pool: LogId, chunk: u64, slots: u64) -> Result<Region> {
        let words = (chunk / BLOCK).div_ceil(64) as usize;
        let entry = (1 + words) * WORD;
        let length = usize::try_from(slots).ok().and_then(|slots| slots.checked_mul(entry)?.checked_add(HEAD));
        let length = length.ok_or_else(|| Error::invalid(format!("{slots} slots are too many to remember")))?;
        match &self.0 {
            Place::Folder(folder) => {
                let path = folder.join(format!("ishigaki-volumes-{pool}"));
                let told = |cause: io::Error| Error::invalid(format!("{}: {cause}", path.display()));
                let file = open(&path, length as u64).map_err(told)?;
                let length = usize::try_from(file.metadata().map_err(told)?.len()).unwrap_or(length);
                let mapped = MmapRegion::from_file(FileOffset::new(file, 0), length);
                let memory = Arc::new(mapped.map_err(|error| told(io::Error::other(error)))?);
                Ok(Region { memory, entry, length, path: Some(path) })
            }
            Place::Simulated(region) => {
                let mut region = region.lock();
                if let Some(region) = region.as_ref().filter(|region| region.length >= length) {
                    return Ok(region.clone());
                }
                let mapped = MmapRegion::new(length).map_err(|error| Error::invalid(error.to_string()))?;
                Ok(region.insert(Region { memory: Arc::new(mapped), entry, length, path: None }).clone())
            }
        }
    }
}

/// Opens the file, or makes it, all its space reserved: a store into a page for which there is no room would end the process.
fn open(path: &Path, length: u64) -> io::Result<File> {
    let refused = |reason: &str| Err(io::Error::other(reason.to_owned()));
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).mode(0o600).custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
    let file = options.open(path)?;
    if fstatfs(&file)?.f_type.cast_unsigned() != TMPFS {
        return refused("this is no file system in memory (tmpfs), which is lost with the power");
    }
    let of_file = file.metadata()?;
    if !of_file.is_file() || of_file.uid() != rustix::process::geteuid().as_raw() || of_file.mode() & 0o022 != 0 {
        return refused("it belongs to another user, or others may write it");
    }
    fallocate(&file, FallocateFlags::empty(), 0, length.max(of_file.len()))?;
    Ok(file)
}

/// The memory of one pool.
#[derive(Clone)]
pub(crate) struct Region {
    memory: Arc<MmapRegion>,
    /// Bytes of a slot's words.
    entry: usize,
    length: usize,
    /// Its file.
    path: Option<PathBuf>,
}

impl Region {
    /// Its file, if it has one.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// The session of which it is, if it is to be believed.
    pub(crate) fn session(&self) -> Option<Session> {
        let session = self.load(AT_SESSION);
        (self.load(0) == MAGIC && session != 0).then_some(Session(session))
    }

    fn copy(&self) -> Option<Self> {
        let copy = Self { memory: Arc::new(MmapRegion::new(self.length).ok()?), ..self.clone() };
        (0..self.length / WORD * WORD).step_by(WORD).for_each(|at| copy.store(at, self.load(at)));
        Some(copy)
    }

    /// Nothing here is to be believed any more.
    pub(crate) fn end(&self) {
        self.store(AT_SESSION, 0);
    }

    /// Forgets all, for a new session to [begin](Self::begin).
    pub(crate) fn clear(&self) -> Session {
        self.end();
        (HEAD..self.length / WORD * WORD).step_by(WORD).for_each(|at| self.store(at, 0));
        self.store(0, MAGIC);
        Session(fastrand::u64(1..))
    }

    /// The map names the session: what is here counts.
    pub(crate) fn begin(&self, session: Session) {
        self.store(AT_SESSION, session.0);
    }

    /// Slots for which it has room.
    pub(crate) fn slots(&self) -> u32 {
        u32::try_from((self.length - HEAD) / self.entry).unwrap_or(u32::MAX)
    }

    /// The words of one slot.
    pub(crate) fn slot(&self, id: SlotId) -> SlotWords {
        SlotWords { region: self.clone(), begin: HEAD + id.0 as usize * self.entry }
    }

    fn load(&self, at: usize) -> u64 {
        // Every place that is asked for lies in the region.
        self.memory.as_volatile_slice().load(at, Ordering::Acquire).unwrap_or_default()
    }

    fn store(&self, at: usize, value: u64) {
        let stored = self.memory.as_volatile_slice().store(value, at, Ordering::Release);
        debug_assert!(stored.is_ok(), "a word outside");
    }
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Region").field("length", &self.length).finish_non_exhaustive()
    }
}

/// Where one slot's dirty blocks are said. Used under its lock.
#[derive(Debug)]
pub(crate) struct SlotWords {
    region: Region,
    begin: usize,
}

impl SlotWords {
    /// The chunk that it has, and which of its blocks are dirty.
    pub(crate) fn read(&self, chunk: u64) -> ((VolumeId, u32), Blocks) {
        let owner = self.region.load(self.begin);
        let mut blocks = Blocks::none(chunk);
        for (word, at) in blocks.words_mut().iter_mut().zip(self.places()) {
            *word = self.region.load(at);
        }
        ((VolumeId((owner >> 32) as u32), owner as u32), blocks)
    }

    /// It has another chunk. None of its blocks is dirty.
    pub(crate) fn belong(&self, owner: (VolumeId, u32)) {
        self.region.store(self.begin, u64::from(owner.0.0) << 32 | u64::from(owner.1));
    }

    /// These blocks are dirty.
    pub(crate) fn dirty(&self, blocks: &Blocks) {
        for (&word, at) in blocks.words().iter().zip(self.places()) {
            if self.region.load(at) != word {
                self.region.store(at, word);
            }
        }
    }

    fn places(&self) -> impl Iterator<Item = usize> + use<> {
        (self.begin + WORD..self.begin + self.region.entry).step_by(WORD)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHUNK: u64 = 1 << 20;

    #[test]
    fn what_one_process_has_said_the_next_one_finds() {
        let folder = tempfile::tempdir_in("/dev/shm").expect("there is memory");
        let memory = Memory::in_folder(folder.path());
        let first = memory.map(LogId(7), CHUNK, 3).expect("is mapped");
        assert_eq!(first.session(), None);
        let session = first.clear();
        assert_eq!(first.session(), None);
        first.begin(session);
        let mut blocks = Blocks::none(CHUNK);
        blocks.insert(60..200);
        first.slot(SlotId(2)).belong((VolumeId(5), 9));
        first.slot(SlotId(2)).dirty(&blocks);
        drop(first);
        // The fast device has become larger.
        let second = memory.map(LogId(7), CHUNK, 4).expect("is mapped");
        assert_eq!(second.session(), Some(session));
        assert_eq!(second.slot(SlotId(2)).read(CHUNK), ((VolumeId(5), 9), blocks));
        assert!(second.slot(SlotId(1)).read(CHUNK).1.is_empty() && second.slot(SlotId(3)).read(CHUNK).1.is_empty());
        second.end();
        assert_eq!(memory.map(LogId(7), CHUNK, 4).expect("is mapped").session(), None);
        assert_eq!(memory.map(LogId(8), CHUNK, 4).expect("another pool's").session(), None);
    }

    #[test]
    fn what_would_outlive_the_power_or_is_not_ours_is_refused() {
        let folder = tempfile::tempdir_in("/dev/shm").expect("there is memory");
        let path = folder.path().join(format!("ishigaki-volumes-{}", LogId(7)));
        let memory = Memory::in_folder(folder.path());
        std::os::unix::fs::symlink("/etc/passwd", &path).expect("is made");
        assert!(memory.map(LogId(7), CHUNK, 3).is_err());
        std::fs::remove_file(&path).expect("is removed");
        std::fs::write(&path, b"").expect("is made");
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o666)).expect("is changed");
        assert!(memory.map(LogId(7), CHUNK, 3).expect_err("is refused").to_string().contains("others may write it"));
        let error = Memory::in_folder("/proc").map(LogId(7), CHUNK, 3);
        assert!(error.is_err());
    }
}
