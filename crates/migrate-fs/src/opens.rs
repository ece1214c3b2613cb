//! What programs have open, and whether the kernel or the door reads and writes it.
//!
//! A file of which nothing is missing is *passed through*: the kernel reads and writes the destination's file itself. Any other is
//! *served*, for direct I/O: nothing of it is in the kernel's cache, so that it can be passed through when all have closed it. The kernel
//! refuses to pass through what it may have cached pages of, and a served file that is mapped has some; therefore a file that is
//! open and served is served to programs, too, that open it then.
//!
//! Programs open the same files again and again, so a file that was passed through and is closed stays *ready*: the kernel keeps its number,
//! and the next open costs the destination nothing. It is let go when its last name goes, when the kernel forgets it, and when too
//! many are ready.
//!
//! A handle tells how it was opened, so that a process that takes over the mount opens the file again when a request needs it. What has to be handed
//! over is [`Record`]s: the kernel passes all opens of a file through one and the same number.

use std::collections::VecDeque;
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

/// Files of a shard that stay ready.
const READY: usize = 64;

/// What a handle says of itself in its low byte.
const ACCESS: u64 = 3;
const READ_AND_WRITE: u64 = 2;
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

    /// Whether a program may write the file by a mapping, which takes the right to read it, too.
    pub(crate) fn may_map(self) -> bool {
        self.0 & ACCESS == READ_AND_WRITE && self.0 & DIRECTORY == 0
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
    /// Opens that may write by a mapping.
    pub(crate) mappers: u32,
    /// By which the kernel knows the file that it passes through to.
    pub(crate) backing: Option<u32>,
    /// It is among those that were closed.
    is_queued: bool,
}

impl Record {
    /// With so many opens that are passed through and served, and that may write by a mapping.
    pub(crate) fn of((passed, served, mappers): (u32, u32, u32), backing: Option<u32>) -> Self {
        Self { passed, served, mappers, backing, is_queued: false }
    }

    fn is_open(&self) -> bool {
        self.passed > 0 || self.served > 0
    }
}

/// The files of a shard.
#[derive(Debug, Default)]
struct Records {
    all: HashMap<u64, Record>,
    /// Those that were closed, in that order. Some may be open again, or gone.
    ready: VecDeque<u64>,
}

/// All that is open.
#[derive(Debug)]
pub(crate) struct Opens {
    next: AtomicU64,
    records: [Mutex<Records>; SHARDS],
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

    fn records_of(&self, node: u64) -> &Mutex<Records> {
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
        let mut records = self.records_of(node).lock();
        let record = records.all.entry(node).or_default();
        let backing = match *record {
            Record { backing: Some(backing), .. } => Some(backing),
            Record { served: 1.., .. } => None,
            _ => match pass() {
                Ok(backing) => backing,
                Err(errno) => {
                    if *record == Record::default() {
                        records.all.remove(&node);
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
        let handle = self.handle(bits);
        record.mappers += u32::from(handle.may_map());
        drop(records);
        Ok((handle, backing))
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

    /// A program closes a file. `keeps` says whether a file that was passed through stays ready.
    pub(crate) fn close(
        &self,
        node: u64,
        handle: Handle,
        connection: Option<&Connection>,
        keeps: impl FnOnce() -> bool,
    ) {
        let open = self.files_of(handle).write().remove(&handle.0);
        drop(open);
        if handle.0 & DIRECTORY != 0 {
            return;
        }
        let mut records = self.records_of(node).lock();
        let Records { all, ready } = &mut *records;
        let Some(record) = all.get_mut(&node) else { return };
        record.mappers = record.mappers.saturating_sub(u32::from(handle.may_map()));
        if handle.is_passed_through() {
            record.passed = record.passed.saturating_sub(1);
        } else {
            record.served = record.served.saturating_sub(1);
        }
        if record.is_open() {
            return;
        }
        if record.backing.is_some() && keeps() {
            if !record.is_queued {
                record.is_queued = true;
                ready.push_back(node);
            }
            if ready.len() > READY {
                shrink(all, ready, connection);
            }
        } else {
            let backing = record.backing;
            all.remove(&node);
            release(backing, connection);
        }
    }

    /// The file is about to go, or the kernel knows it no more: it stays ready no longer.
    pub(crate) fn forget(&self, node: u64, connection: Option<&Connection>) {
        let mut records = self.records_of(node).lock();
        if records.all.get(&node).is_some_and(|record| !record.is_open()) {
            let backing = records.all.remove(&node).and_then(|record| record.backing);
            release(backing, connection);
        }
    }

    /// No file stays ready.
    pub(crate) fn forget_all(&self, connection: Option<&Connection>) {
        for records in &self.records {
            let mut records = records.lock();
            for (_, record) in records.all.extract_if(|_, record| !record.is_open()) {
                release(record.backing, connection);
            }
            records.ready.clear();
        }
    }

    /// Whether the kernel reads and writes the file itself for some program.
    pub(crate) fn is_passed_through(&self, node: u64) -> bool {
        self.records_of(node).lock().all.get(&node).is_some_and(|record| record.passed > 0)
    }

    /// Whether a program may write the file by a mapping, of which the kernel tells nothing.
    pub(crate) fn may_be_mapped(&self, node: u64) -> bool {
        self.records_of(node).lock().all.get(&node).is_some_and(|record| record.mappers > 0)
    }

    /// How many files were passed through and served since the beginning.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.passed.load(Ordering::Relaxed), self.served.load(Ordering::Relaxed))
    }

    /// What another process must know: the next handle, and a record of each open file.
    pub(crate) fn hand_over(&self) -> (u64, Vec<(u64, Record)>) {
        let mut all = Vec::new();
        for records in &self.records {
            all.extend(records.lock().all.iter().map(|(&node, &record)| (node, record)));
        }
        (self.next.load(Ordering::Relaxed), all)
    }

    pub(crate) fn take_over(&self, records: Vec<(u64, Record)>) {
        for (node, record) in records {
            self.records_of(node).lock().all.insert(node, record);
        }
    }
}

/// Lets go of the half of those that were closed first. Those that are open again come back when they are closed.
fn shrink(all: &mut HashMap<u64, Record>, ready: &mut VecDeque<u64>, connection: Option<&Connection>) {
    for node in ready.drain(..READY / 2) {
        match all.get_mut(&node) {
            Some(record) if record.is_open() => record.is_queued = false,
            Some(_) => release(all.remove(&node).and_then(|record| record.backing), connection),
            None => {}
        }
    }
}

fn release(backing: Option<u32>, connection: Option<&Connection>) {
    if let (Some(backing), Some(connection)) = (backing, connection)
        && let Err(errno) = connection.release(backing)
    {
        tracing::debug!(backing, %errno, "the kernel does not know a file that was passed through");
    }
}

/// How the kernel is to treat a file that was opened. With `asks`, what is passed through is read and written by requests all the same, and
/// mapped directly.
pub(crate) fn options(backing: Option<u32>, asks: bool, caches: bool) -> OpenOptions {
    match backing {
        Some(_) if asks => passed_through() | OpenOptions::DIRECT_IO,
        Some(_) => passed_through(),
        None if caches => OpenOptions::KEEP_CACHE,
        None => OpenOptions::DIRECT_IO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_ready(opens: &Opens, node: u64) -> bool {
        opens.records_of(node).lock().all.get(&node).is_some_and(|record| record.backing.is_some())
    }

    fn opened(opens: &Opens, node: u64, flags: OFlags, backing: Option<u32>) -> (Handle, Option<u32>) {
        opens.open(node, flags.bits(), || Ok(backing)).expect("it opens")
    }

    #[test]
    fn all_opens_of_a_file_are_passed_through_by_one_number() {
        let opens = Opens::new(1);
        let (one, first) = opened(&opens, 9, OFlags::RDONLY, Some(4));
        let (two, second) = opened(&opens, 9, OFlags::RDWR, Some(5));
        assert_eq!((first, second), (Some(4), Some(4)));
        opens.close(9, two, None, || true);
        assert_eq!(opened(&opens, 9, OFlags::RDONLY, Some(6)).1, Some(4));
        opens.close(9, one, None, || true);
        assert_eq!(opens.hand_over().1, [(9, Record { passed: 1, backing: Some(4), ..Record::default() })]);
    }

    #[test]
    fn a_file_may_be_mapped_while_it_is_open_for_reading_and_writing() {
        let opens = Opens::new(1);
        let open = |flags| opened(&opens, 9, flags, Some(4)).0;
        let writes = open(OFlags::WRONLY);
        assert!(!opens.may_be_mapped(9));
        let (one, two) = (open(OFlags::RDWR), open(OFlags::RDWR));
        assert!(opens.may_be_mapped(9));
        opens.close(9, one, None, || true);
        opens.close(9, writes, None, || true);
        assert!(opens.may_be_mapped(9));
        opens.close(9, two, None, || true);
        assert!(!opens.may_be_mapped(9));
    }

    #[test]
    fn a_file_that_was_passed_through_stays_ready_until_it_is_forgotten() {
        let opens = Opens::new(1);
        let (one, _) = opened(&opens, 9, OFlags::RDONLY, Some(4));
        opens.close(9, one, None, || true);
        assert!(is_ready(&opens, 9));
        let (one, backing) = opened(&opens, 9, OFlags::RDONLY, Some(5));
        assert_eq!(backing, Some(4));
        opens.forget(9, None);
        assert!(is_ready(&opens, 9), "it is open");
        opens.close(9, one, None, || true);
        opens.forget(9, None);
        assert!(!is_ready(&opens, 9));
        let (one, _) = opened(&opens, 9, OFlags::RDONLY, Some(6));
        opens.close(9, one, None, || false);
        assert!(!is_ready(&opens, 9), "its last name has gone while it was open");
    }

    #[test]
    fn no_more_than_so_many_files_stay_ready_however_often_each_is_opened() {
        let opens = Opens::new(1);
        let nodes = || (0..3 * READY as u64).map(|number| number * SHARDS as u64);
        for node in nodes() {
            for _ in 0..5 {
                let (handle, _) = opened(&opens, node, OFlags::RDONLY, Some(node as u32));
                opens.close(node, handle, None, || true);
            }
        }
        let ready: Vec<_> = nodes().filter(|&node| is_ready(&opens, node)).collect();
        assert!((READY / 2..=READY).contains(&ready.len()), "{}", ready.len());
        assert_eq!(ready.last().copied(), nodes().next_back());
        // One that is open meanwhile stays.
        let (handle, _) = opened(&opens, ready[0], OFlags::RDONLY, None);
        for node in nodes().rev() {
            let (handle, _) = opened(&opens, node, OFlags::RDONLY, Some(1));
            opens.close(node, handle, None, || true);
        }
        assert!(is_ready(&opens, ready[0]));
        opens.close(ready[0], handle, None, || true);
        opens.forget_all(None);
        assert!(nodes().all(|node| !is_ready(&opens, node)));
    }

    #[test]
    fn what_is_served_is_served_until_all_have_closed_it() {
        let opens = Opens::new(1);
        let (one, backing) = opened(&opens, 9, OFlags::RDONLY, None);
        assert_eq!(backing, None);
        let (two, backing) = opened(&opens, 9, OFlags::RDONLY, Some(4));
        assert_eq!(backing, None);
        opens.close(9, one, None, || true);
        opens.close(9, two, None, || true);
        assert_eq!(opened(&opens, 9, OFlags::RDONLY, Some(4)).1, Some(4));
    }

    #[test]
    fn a_handle_tells_how_it_was_opened() {
        let opens = Opens::new(1);
        for flags in [OFlags::RDONLY, OFlags::WRONLY | OFlags::DSYNC, OFlags::RDWR | OFlags::SYNC] {
            assert_eq!(opened(&opens, 9, flags, None).0.flags(), flags);
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
