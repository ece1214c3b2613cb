//! The memory that both sides have: its words, and how bytes get in and out.
//!
//! The other side may write at any moment, so nothing in it is ever looked at in place. Words are atomic, bytes are copied by
//! [`vm_memory`], which has its mappings checked and its accesses volatile; no reference to shared bytes exists.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicU64};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, ftruncate, memfd_create};
use vm_memory::{FileOffset, MmapRegion, VolatileMemory};

use crate::layout::{self, ARMED, MESSAGE, PAYLOAD, POSTED, SIZE, SLOTS};

/// A region, mapped.
#[derive(Debug)]
pub(crate) struct Region {
    map: MmapRegion<()>,
}

impl Region {
    /// Makes one. Nobody can give its file another length, so nobody's accesses ever miss it.
    pub(crate) fn create() -> io::Result<Self> {
        let file = memfd_create("ishigaki-ring", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, SIZE as u64)?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let region = Self::map(file)?;
        region.put(0, &layout::head());
        Ok(region)
    }

    /// Maps one that somebody else has made, if it is what this program knows.
    pub(crate) fn adopt(file: OwnedFd) -> io::Result<Self> {
        let refuse = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
        if !fcntl_get_seals(&file)?.contains(SealFlags::SHRINK) {
            return Err(refuse("the region that was handed over can shrink"));
        }
        let region = Self::map(file)?;
        let expected = layout::head();
        let mut found = [0; 20];
        region.get(0, &mut found);
        if found != expected {
            return Err(refuse("the region that was handed over is of another layout"));
        }
        Ok(region)
    }

    fn map(file: OwnedFd) -> io::Result<Self> {
        let map = MmapRegion::from_file(FileOffset::new(File::from(file), 0), SIZE).map_err(io::Error::other)?;
        Ok(Self { map })
    }

    /// Its file, to be handed over.
    pub(crate) fn file(&self) -> BorrowedFd<'_> {
        self.map.file_offset().expect("it was mapped from a file").file().as_fd()
    }

    /// A bit for each slot with a request that nobody has taken.
    pub(crate) fn posted(&self) -> &AtomicU64 {
        self.map.get_atomic_ref(POSTED).expect("it lies in the head, at a multiple of 8")
    }

    /// 1 when the bell is to be rung for the next request.
    pub(crate) fn armed(&self) -> &AtomicU32 {
        self.map.get_atomic_ref(ARMED).expect("it lies in the head, at a multiple of 4")
    }

    /// A slot's state.
    pub(crate) fn state(&self, slot: usize) -> &AtomicU32 {
        assert!(slot < SLOTS, "there is no slot {slot}");
        self.map.get_atomic_ref(layout::state(slot)).expect("it lies in the head, at a multiple of 4")
    }

    pub(crate) fn request(&self, slot: usize) -> [u8; MESSAGE] {
        self.message(layout::request(slot))
    }

    pub(crate) fn put_request(&self, slot: usize, bytes: &[u8; MESSAGE]) {
        self.put(layout::request(slot), bytes);
    }

    pub(crate) fn answer(&self, slot: usize) -> [u8; MESSAGE] {
        self.message(layout::answer(slot))
    }

    pub(crate) fn put_answer(&self, slot: usize, bytes: &[u8; MESSAGE]) {
        self.put(layout::answer(slot), bytes);
    }

    /// Copies out what a slot carries, from `at` on.
    pub(crate) fn copy_out(&self, slot: usize, at: usize, bytes: &mut [u8]) {
        assert!(slot < SLOTS && at + bytes.len() <= PAYLOAD, "a slot carries {PAYLOAD} bytes");
        self.get(layout::payload(slot) + at, bytes);
    }

    /// Copies bytes into what a slot carries, from `at` on.
    pub(crate) fn copy_in(&self, slot: usize, at: usize, bytes: &[u8]) {
        assert!(slot < SLOTS && at + bytes.len() <= PAYLOAD, "a slot carries {PAYLOAD} bytes");
        self.put(layout::payload(slot) + at, bytes);
    }

    fn message(&self, at: usize) -> [u8; MESSAGE] {
        let mut bytes = [0; MESSAGE];
        self.get(at, &mut bytes);
        bytes
    }

    fn get(&self, at: usize, bytes: &mut [u8]) {
        let copied = self.map.get_slice(at, bytes.len()).expect("callers stay inside").copy_to(bytes);
        debug_assert_eq!(copied, bytes.len(), "it was all there");
    }

    fn put(&self, at: usize, bytes: &[u8]) {
        self.map.get_slice(at, bytes.len()).expect("callers stay inside").copy_from(bytes);
    }
}
