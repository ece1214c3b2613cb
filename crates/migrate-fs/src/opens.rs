//! What programs have open, and whether the kernel or the door reads and writes it.
//!
//! A file of which nothing is missing is *passed through*: the kernel reads and writes the destination's file itself. Any other is
//! *served*, for direct I/O: nothing of it is in the kernel's cache, so that it can be passed through when all have closed it. The kernel
//! refuses to pass through what it may have cached pages of, and a served file that is mapped has some; therefore a file that is
//! open and served is served to programs, too, that open it then.
//!
//! A handle tells how it was opened, so that a process that takes over the mount opens the file again when a request needs it. What has to be handed
//! over is [`Record`]s: the kernel passes all opens of a file through one and the same number.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fuse_backend_rs::api::filesystem::OpenOptions;
use hashbrown::HashMap;
use ishigaki_fuse::{Connection, passed_through};
use parking_lot::{Mutex, RwLock};
use rustix::fs::OFlags;
use rustix::io::Result;

const SHARDS: usize = 16;

/// What a handle says of itself in its low byte.
const ACCESS: u64 = 3;
const DATA_SYNC: u64 = 1 << 2;
const SYNC: u64 = 1 << 3;
const PASSED: u64 = 1 << 4;
const DIRECTORY: u64 = 1 << 5;
const BITS: u32 = 8;

/// By which the kernel speaks of something that is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Handle(pub(crate) u64);

impl Handle {
    pub(crate) fn is_passed_through(self) -> bool {
        self.0 & PASSED != 0
    }

    pub(crate) fn writes(self) -> bool {
        self.0 & ACCESS != 0 && self.0 & DIRECTORY == 0
    }

    /// As what it is opened for itself.
    pub(crate) fn flags(self) -> OFlags {
        if self.0 & DIRECTORY != 0 {
            return OFlags::RDONLY | OFlags::DIRECTORY;
        }
        let mut flags = served_access((self.0 & ACCESS) as u32);
        flags.set(OFlags::DSYNC, self.0 & DATA_SYNC != 0);
        if self.0 & SYNC != 0 {
            flags |= OFlags::SYNC;
        }
        flags
    }
}

fn served_access(access: u32) -> OFlags {
    match access {
        0 => OFlags::RDONLY,
        1 => OFlags::WRONLY,
        _ => OFlags::RDWR,
    }
}

/// A file of the destination that is open here.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) file: File,
    /// Of a directory: where it is read is the open file's own.
    pub(crate) listing: Mutex<()>,
}

/// How often a file is open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) passed: u32,
    pub(crate) served: u32,
    pub(crate) writers: u32,
    /// By which the kernel knows the file that it passes through to.
    pub(crate) backing: Option<u32>,
}

/// All that is open.
#[derive(Debug)]
pub(crate) struct Opens {
    next: AtomicU64,
    records: [Mutex<HashMap<u64, Record>>; SHARDS],
    files: [RwLock<HashMap<u64, Arc<Open>>>; SHARDS],
    passed: AtomicU64,
    served: AtomicU64,
}

impl Opens {
    pub(crate) fn new(next: u64) -> Self {
        Self {
            next: AtomicU64::new(next),
            records: Default::default(),
            files: Default::default(),
            passed: AtomicU64::new(0),
            served: AtomicU64::new(0),
        }
    }

    fn record_of(&self, node: u64) -> &Mutex<HashMap<u64, Record>> {
        &self.records[(node % SHARDS as u64) as usize]
    }

    fn files_of(&self, handle: Handle) -> &RwLock<HashMap<u64, Arc<Open>>> {
        &self.files[((handle.0 >> BITS) % SHARDS as u64) as usize]
    }

    fn handle(&self, bits: u64) -> Handle {
        Handle(self.next.fetch_add(1, Ordering::Relaxed) << BITS | bits)
    }

    /// A program opens a file. `pass` gives the destination's file to the kernel, or `None` where it can not be passed through.
    pub(crate) fn open(
        &self,
        node: u64,
        flags: u32,
        pass: impl FnOnce() -> Result<Option<u32>>,
    ) -> Result<(Handle, Option<u32>)> {
        let flags = OFlags::from_bits_retain(flags);
        let mut bits = u64::from(flags.bits()) & ACCESS;
        if flags.contains(OFlags::SYNC) {
            bits |= SYNC;
        } else if flags.contains(OFlags::DSYNC) {
            bits |= DATA_SYNC;
        }
        let mut records = self.record_of(node).lock();
        let record = records.entry(node).or_default();
        let backing = match *record {
            Record { backing: Some(backing), .. } => Some(backing),
            Record { served: 1.., .. } => None,
            _ => match pass() {
                Ok(backing) => backing,
                Err(errno) => {
                    if *record == Record::default() {
                        records.remove(&node);
                    }
                    return Err(errno);
                }
            },
        };
        if backing.is_some() {
            bits |= PASSED;
            record.passed += 1;
            record.backing = backing;
            self.passed.fetch_add(1, Ordering::Relaxed);
        } else {
            record.served += 1;
            self.served.fetch_add(1, Ordering::Relaxed);
        }
        record.writers += u32::from(bits & ACCESS != 0);
        drop(records);
        Ok((self.handle(bits), backing))
    }

    /// A program opens a directory.
    pub(crate) fn open_directory(&self) -> Handle {
        self.handle(DIRECTORY)
    }

    /// The file of a handle, opened by `open` if it is not open here.
    pub(crate) fn file(
        &self,
        handle: Handle,
        open: impl FnOnce() -> std::io::Result<File>,
    ) -> std::io::Result<Arc<Open>> {
        if let Some(open) = self.files_of(handle).read().get(&handle.0) {
            return Ok(open.clone());
        }
        let opened = Arc::new(Open { file: open()?, listing: Mutex::default() });
        Ok(self.files_of(handle).write().entry(handle.0).or_insert(opened).clone())
    }

    /// A program closes a file.
    pub(crate) fn close(&self, node: u64, handle: Handle, connection: Option<&Connection>) {
        let open = self.files_of(handle).write().remove(&handle.0);
        drop(open);
        if handle.0 & DIRECTORY != 0 {
            return;
        }
        let mut records = self.record_of(node).lock();
        let Some(record) = records.get_mut(&node) else { return };
        record.writers = record.writers.saturating_sub(u32::from(handle.writes()));
        if handle.is_passed_through() {
            record.passed = record.passed.saturating_sub(1);
            if record.passed == 0
                && let (Some(backing), Some(connection)) = (record.backing.take(), connection)
                && let Err(errno) = connection.release(backing)
            {
                tracing::debug!(backing, %errno, "the kernel does not know a file that was passed through");
            }
        } else {
            record.served = record.served.saturating_sub(1);
        }
        if record.passed == 0 && record.served == 0 {
            records.remove(&node);
        }
    }

    /// Whether a program has the file open for writing.
    pub(crate) fn is_written(&self, node: u64) -> bool {
        self.record_of(node).lock().get(&node).is_some_and(|record| record.writers > 0)
    }

    /// How many files were passed through and served since the beginning.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.passed.load(Ordering::Relaxed), self.served.load(Ordering::Relaxed))
    }

    /// What another process must know: the next handle, and a record of each open file.
    pub(crate) fn hand_over(&self) -> (u64, Vec<(u64, Record)>) {
        let mut all = Vec::new();
        for records in &self.records {
            all.extend(records.lock().iter().map(|(&node, &record)| (node, record)));
        }
        (self.next.load(Ordering::Relaxed), all)
    }

    pub(crate) fn take_over(&self, records: Vec<(u64, Record)>) {
        for (node, record) in records {
            self.record_of(node).lock().insert(node, record);
        }
    }
}

/// How the kernel is to treat a file that was opened.
pub(crate) fn options(backing: Option<u32>, caches: bool) -> OpenOptions {
    match backing {
        Some(_) => passed_through(),
        None if caches => OpenOptions::KEEP_CACHE,
        None => OpenOptions::DIRECT_IO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(opens: &Opens, flags: OFlags, backing: Option<u32>) -> (Handle, Option<u32>) {
        opens.open(9, flags.bits(), || Ok(backing)).expect("it opens")
    }

    #[test]
    fn all_opens_of_a_file_are_passed_through_by_one_number() {
        let opens = Opens::new(1);
        let (one, first) = opened(&opens, OFlags::RDONLY, Some(4));
        let (two, second) = opened(&opens, OFlags::RDWR, Some(5));
        assert_eq!((first, second), (Some(4), Some(4)));
        assert!(opens.is_written(9));
        opens.close(9, two, None);
        assert!(!opens.is_written(9));
        assert_eq!(opened(&opens, OFlags::RDONLY, Some(6)).1, Some(4));
        opens.close(9, one, None);
        assert_eq!(opens.hand_over().1, [(9, Record { passed: 1, backing: Some(4), ..Record::default() })]);
    }

    #[test]
    fn what_is_served_is_served_until_all_have_closed_it() {
        let opens = Opens::new(1);
        let (one, backing) = opened(&opens, OFlags::RDONLY, None);
        assert_eq!(backing, None);
        let (two, backing) = opened(&opens, OFlags::RDONLY, Some(4));
        assert_eq!(backing, None);
        opens.close(9, one, None);
        opens.close(9, two, None);
        assert_eq!(opened(&opens, OFlags::RDONLY, Some(4)).1, Some(4));
    }

    #[test]
    fn a_handle_tells_how_it_was_opened() {
        let opens = Opens::new(1);
        for flags in [OFlags::RDONLY, OFlags::WRONLY | OFlags::DSYNC, OFlags::RDWR | OFlags::SYNC] {
            assert_eq!(opened(&opens, flags, None).0.flags(), flags);
        }
        assert!(opens.open_directory().flags().contains(OFlags::DIRECTORY));
    }

    #[test]
    fn a_file_that_can_not_be_opened_is_not_counted() {
        let opens = Opens::new(1);
        assert!(opens.open(9, 0, || Err(rustix::io::Errno::MFILE)).is_err());
        assert!(opens.hand_over().1.is_empty());
    }
}
