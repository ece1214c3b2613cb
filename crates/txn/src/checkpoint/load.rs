//! Loading: parts are read side by side, and their rows go into the tables as if they were replayed.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;

use ishigaki_device::{AlignedBuffer, Directory, Error as DeviceError, MAX_BLOCK_SIZE};
use parking_lot::Mutex;

use super::files::part_name;
use super::manifest::Manifest;
use super::page::{self, Identity};
use crate::database::Replay;
use crate::{Error, Result};

/// Puts the rows of a checkpoint into the tables, with several threads.
pub(crate) fn load(directory: &dyn Directory, manifest: &Manifest, replay: &Replay, threads: usize) -> Result<()> {
    let loading = Loading { directory, manifest, replay, rows: AtomicU64::new(0), next: AtomicUsize::new(0) };
    let (failed, failure) = (AtomicBool::new(false), Mutex::new(None));
    let work = || {
        let mut buffer = AlignedBuffer::zeroed(0);
        while !failed.load(Ordering::Relaxed) {
            let part = loading.next.fetch_add(1, Ordering::Relaxed);
            if part >= manifest.parts.len() {
                return;
            }
            if let Err(error) = loading.load_part(part, &mut buffer) {
                failed.store(true, Ordering::Relaxed);
                failure.lock().get_or_insert(error);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads.min(manifest.parts.len()) {
            scope.spawn(work);
        }
        work();
    });
    if let Some(error) = failure.into_inner() {
        return Err(match error {
            Error::Corrupt { reason, .. } => Error::damaged(reason),
            other => other,
        });
    }
    let rows = loading.rows.into_inner();
    if rows != manifest.rows {
        return Err(Error::damaged(format!("it should have {} rows and has {rows}", manifest.rows)));
    }
    Ok(())
}

struct Loading<'a> {
    directory: &'a dyn Directory,
    manifest: &'a Manifest,
    replay: &'a Replay,
    rows: AtomicU64,
    /// The next part that nobody has taken.
    next: AtomicUsize,
}

impl Loading<'_> {
    fn load_part(&self, place: usize, buffer: &mut AlignedBuffer) -> Result<()> {
        let part = self.manifest.parts[place];
        let damaged = |why: &str| Error::damaged(format!("{}: {why}", part_name(self.manifest.number, place)));
        let device = self.directory.open(&part_name(self.manifest.number, place)).map_err(|error| match error {
            DeviceError::NotFound { .. } => damaged("is missing"),
            DeviceError::Invalid { reason, .. } | DeviceError::Damaged { reason, .. } => damaged(&reason),
            other => other.into(),
        })?;
        if device.len() < part.length {
            return Err(damaged("is cut short"));
        }
        let length = part.length as usize;
        if buffer.len() < length {
            *buffer = AlignedBuffer::zeroed(length.next_multiple_of(MAX_BLOCK_SIZE));
        }
        device.read_at(0, &mut buffer[..length.next_multiple_of(device.promise().block_size)])?;

        let before: u64 = self.manifest.parts[..place].iter().map(|part| u64::from(part.pages)).sum();
        let mut rest = &buffer[..length];
        for page in before..before + u64::from(part.pages) {
            let (found, behind) = page::decode(rest).map_err(|why| damaged(&why))?;
            let identity = Identity { log: self.manifest.log, checkpoint: self.manifest.number, page };
            if found.identity != identity {
                return Err(damaged("a page belongs somewhere else"));
            }
            let rows = found.rows().map(|row| row.map_err(|why| damaged(&why)));
            self.replay.restore(found.table, rows)?;
            self.rows.fetch_add(u64::from(found.rows), Ordering::Relaxed);
            rest = behind;
        }
        if rest.is_empty() { Ok(()) } else { Err(damaged("there is something behind its last page")) }
    }
}
