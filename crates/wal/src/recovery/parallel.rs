//! Recovery at the speed of the device: the streams are read side by side, and the records go to the engine above from
//! several threads, in any order. What is kept is exactly what the [merge](mod@super::merge) keeps.
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
//! - *Judging* ([`court`]) finds out which records of all the batches so far are certainly kept, or certainly dropped.
//!   Most are decided by the watermarks in chunk headers a little further on, whole batches at a time.
//! - *Give* hands kept records to the sink, out of the memory they were read into.
//!
//! The [`crew`] is the threads and their queue. Work is taken from the stream that stands at the smallest LSN, so that
//! streams stay close together: what waits for a decision is what one stream is ahead of another, and memory is bounded
//! by that. Nobody ever waits for a decision while there is something to read, and when all is read everything is
//! decided; so any number of threads, one included, comes to the end.

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
use crate::format::Control;
use crate::{Result, Start};
use crew::Crew;
use lane::Lane;

/// Takes the records that survived, from several threads at once and in any order; each record once.
///
/// The LSNs say how the records are to be ordered: what counts is the last writer, not the last one to be taken. When
/// the recovery fails, what the sink was given and told may be wrong; what it made of that is to be thrown away.
pub trait Sink: Sync {
    /// Takes a record. An error ends the recovery with [`Error::Replay`](crate::Error::Replay).
    fn take(
        &self,
        position: Position,
        payload: &[u8],
    ) -> std::result::Result<(), Box<dyn std::error::Error + Send + Sync>>;

    /// Every record with an LSN below this that there is was given: the calls of [`take`](Self::take) with such a one have
    /// returned, and there will be no more of them. Told from time to time, by any thread; two threads may tell it in
    /// either order, and then the smaller LSN says nothing new.
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

    /// So many bytes more are to be read.
    pub fn expect(&self, bytes: u64) {
        self.total.fetch_add(bytes, Ordering::Relaxed);
    }

    /// So many bytes more have been read.
    pub fn advance(&self, bytes: u64) {
        self.read.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// Gives what survived from `start` on to the sink, with that many threads.
pub(crate) fn recover(
    directory: &dyn Directory,
    control: &Control,
    start: Start,
    threads: usize,
    sink: &dyn Sink,
    progress: &Progress,
) -> Result<Recovered> {
    let (found, tails) = read(directory, control, start, threads, sink, progress)?;
    let report = Recovery {
        start,
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
    start: Start,
    threads: usize,
    sink: &dyn Sink,
    progress: &Progress,
) -> Result<(Found, Vec<Tail>)> {
    let streams = list_streams(directory, control)?;
    let crew = Crew::new(directory, control, start, &streams, threads, sink, progress)?;
    let read = crew.work()?;
    let found = Found {
        next: read.court.finish(control)?,
        cut: read.court.cut(),
        records: read.records,
        dropped: read.court.dropped(),
        bytes: read.lanes.iter().map(|lane| lane.chunks.bytes()).sum(),
    };
    sink.passed(found.next);
    let tails = read.lanes.into_iter().map(Lane::into_tail).collect::<Result<_>>()?;
    Ok((found, tails))
}
