//! Recovery at the speed of the device: the streams are read side by side, and the records go to the engine above from several
//! threads, in any order. What is kept is exactly what the [merge](super::merge) keeps.
//!
//! ```text
//!  medium ── fetch ──▶ stretches ── walk ──▶ batches ── judge ──▶ jobs ── give ──▶ Sink::take
//!            any thread  read ahead   checksums,         in the       any thread,
//!                                     records            crew's lock  any order
//! ```
//!
//! - *Fetch* reads ahead of where a stream stands: waiting for the device and nothing else.
//! - *Walk* ([`lane`]) goes over one stretch of one stream, checks its chunks, and notes where its records lie: a
//!   [`Batch`](batch::Batch). One thread at a time per stream.
//! - *Judging* ([`court`]) finds out which records of all the batches so far are certainly kept, or certainly dropped. Most are
//!   decided by the watermarks in chunk headers a little further on, whole batches at a time.
//! - *Give* hands kept records to the sink, out of the memory they were read into.
//!
//! The [`crew`] is the threads and their queue. Work is taken from the stream that stands at the smallest LSN, so that
//! streams stay close together: what waits for a decision is what one stream is ahead of another, and memory is bounded by
//! that. Nobody ever waits for a decision while there is something to read, and when all is read everything is decided; so
//! any number of threads, one included, comes to the end.

mod batch;
mod court;
mod crew;
mod lane;
mod seen;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU64, Ordering};

use ishigaki_base::{Lsn, Position};
use ishigaki_device::Directory;

use super::tail::Tail;
use super::{Recovered, Recovery, list_streams};
use crate::Result;
use crate::format::Control;
use crew::Crew;

/// Takes the records that survived, from several threads at once and in any order; each record once.
///
/// The LSNs say how the records are to be ordered: what counts is the last writer, not the last one to be taken. When the
/// recovery fails, records may have been given that are not in the log; what was made of them is to be thrown away.
pub trait Sink: Sync {
    /// Takes a record. An error ends the recovery with [`Error::Replay`](crate::Error::Replay).
    fn take(
        &self,
        position: Position,
        payload: &[u8],
    ) -> std::result::Result<(), Box<dyn std::error::Error + Send + Sync>>;

    /// Every record with an LSN below this has been taken: nothing older comes any more. Told from time to time, by any
    /// thread; two threads may tell it in either order, and then the smaller LSN says nothing new.
    fn passed(&self, below: Lsn) {
        let _ = below;
    }
}

/// How far a recovery has come. To be looked at from another thread.
#[derive(Debug, Default)]
pub struct Progress {
    read: AtomicU64,
    total: AtomicU64,
}

impl Progress {
    /// Bytes that have been read, or need not be.
    pub fn read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// Bytes of the whole log, with segments that are blank; 0 until that is known.
    pub fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    fn expect(&self, bytes: u64) {
        self.total.fetch_add(bytes, Ordering::Relaxed);
    }

    fn advance(&self, bytes: u64) {
        self.read.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// Gives what survived to the sink, with that many threads, and makes every stream's end durable and blank behind it.
pub(crate) fn recover(
    directory: &dyn Directory,
    control: &Control,
    chunk_limit: usize,
    threads: usize,
    sink: &dyn Sink,
    progress: &Progress,
) -> Result<Recovered> {
    let (found, mut tails) = read(directory, control, threads, sink, progress)?;
    for tail in &mut tails {
        tail.settle(directory, control.clean.is_some(), chunk_limit)?;
    }
    let report = Recovery {
        records: found.records,
        bytes: found.bytes,
        dropped: found.dropped,
        cut: found.cut,
        generation: control.generation,
        streams: tails.len() as u16,
        clean: control.clean.is_some(),
    };
    Ok(Recovered { next: found.next, tails, report })
}

/// What was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Found {
    next: Lsn,
    cut: Lsn,
    records: u64,
    dropped: u64,
    bytes: u64,
}

/// Reads everything and changes nothing.
fn read(
    directory: &dyn Directory,
    control: &Control,
    threads: usize,
    sink: &dyn Sink,
    progress: &Progress,
) -> Result<(Found, Vec<Tail>)> {
    let streams = list_streams(directory)?;
    let crew = Crew::new(directory, control, &streams, threads, sink, progress)?;
    let read = crew.work()?;
    let found = Found {
        next: read.court.finish(control)?,
        cut: read.court.cut(),
        records: read.records,
        dropped: read.court.dropped(),
        bytes: read.chunks.iter().map(super::chunks::ChunkReader::bytes).sum(),
    };
    sink.passed(found.next);
    let tails = read.chunks.into_iter().map(super::chunks::ChunkReader::into_tail).collect::<Result<_>>()?;
    Ok((found, tails))
}
