//! Room on the medium, promised before an LSN is drawn.
//!
//! Whatever has an LSN must find a place, however its records are cut into chunks. A bound for the worst cut, a chunk for
//! each record, would ask for many times the room that is ever used. So the promise is smaller: what is drawn and not yet
//! written fits *if it is written in full chunks and one that is not*. The writer keeps it: it writes a chunk that is not
//! full only if the rest would still fit behind it; if not, it waits until the rest is complete as well, which takes a few
//! instructions of those who copy, and nobody can add to the rest meanwhile without new room.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use ishigaki_base::{ErrorKind, StreamId};
use parking_lot::Mutex;

use super::Context;
use crate::format::{CHUNK_HEADER, RECORD_HEADER};
use crate::segment::{Pen, Segment};
use crate::space::Need;
use crate::{Error, Result};

/// What may still be drawn.
#[derive(Debug)]
pub(crate) struct Room {
    stream: StreamId,
    chunk_limit: u64,
    budget: Mutex<Budget>,
    /// Index of the next segment to make; held while it is made.
    making: Mutex<u64>,
    /// Bytes promised for which nobody was held back yet.
    unpaid: AtomicU64,
    /// Somebody waits for room because the log is full.
    is_wanted: AtomicBool,
}

#[derive(Debug)]
struct Budget {
    /// Bytes of chunks that certainly fit into what is left of the segments.
    room: u64,
    /// Bytes of records for which that is enough: outstanding ones must stay below.
    ceiling: u64,
    /// Bytes of records that have been promised room and are not being written yet.
    outstanding: u64,
    /// Segments that the pen does not have yet.
    spares: Vec<Segment>,
    /// The pen was past the middle of its last segment: time to make the next one.
    runs_short: bool,
}

impl Room {
    pub(crate) fn new(stream: StreamId, pen: &Pen, next_segment: u64, chunk_limit: usize) -> Self {
        let chunk_limit = chunk_limit as u64;
        let room = pen.room(chunk_limit as usize);
        let budget = Budget {
            room,
            ceiling: ceiling(chunk_limit, room),
            outstanding: 0,
            spares: Vec::new(),
            runs_short: pen.runs_short(),
        };
        Self {
            stream,
            chunk_limit,
            budget: Mutex::new(budget),
            making: Mutex::new(next_segment),
            unpaid: AtomicU64::new(0),
            is_wanted: AtomicBool::new(false),
        }
    }

    /// Promises room for `bytes` more, and makes segments for it if it must. A full medium and a full log are errors of kind
    /// `Exhausted`; nothing is promised then. Never waits for a trim: its callers have others wait behind them.
    pub(crate) fn promise(&self, ctx: &impl Context, bytes: u64) -> Result<()> {
        while !self.try_promise(bytes) {
            self.extend(ctx, bytes)?;
        }
        self.unpaid.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Returns when `bytes` more could have been promised: after a trim, if the log is full.
    pub(crate) fn wait_for(&self, ctx: &impl Context, bytes: u64) -> Result<()> {
        let began = Instant::now();
        loop {
            // Both before the look: whatever makes room after it tells so.
            let changes = ctx.pool().changes();
            self.is_wanted.store(true, Ordering::SeqCst);
            match self.extend(ctx, bytes) {
                Err(Error::Full { .. }) => ctx.pool().wait(changes, began)?,
                extended => return extended,
            }
        }
    }

    /// Makes segments until `bytes` more fit.
    fn extend(&self, ctx: &impl Context, bytes: u64) -> Result<()> {
        loop {
            let next = self.making.lock();
            if self.budget.lock().fits(bytes) {
                return Ok(());
            }
            self.add_segment(ctx, next, Need::Append)?;
        }
    }

    /// Bytes that were promised since this was asked last.
    pub(crate) fn unpaid(&self) -> u64 {
        self.unpaid.swap(0, Ordering::Relaxed)
    }

    fn try_promise(&self, bytes: u64) -> bool {
        let mut budget = self.budget.lock();
        let fits = budget.fits(bytes);
        if fits {
            budget.outstanding += bytes;
        }
        fits
    }

    /// Takes a promise back that was not used.
    pub(crate) fn take_back(&self, bytes: u64) {
        self.budget.lock().outstanding -= bytes;
    }

    /// Makes the next segment; `next` is the locked number of it.
    fn add_segment(&self, ctx: &impl Context, mut next: parking_lot::MutexGuard<'_, u64>, need: Need) -> Result<()> {
        // Under the lock: nobody makes a segment for a log that has come to rest.
        ctx.check_open()?;
        match ctx.pool().take(self.stream, *next, need) {
            Ok(segment) => {
                *next += 1;
                let mut budget = self.budget.lock();
                let room = budget.room + (segment.device.len() - self.chunk_limit);
                budget.set_room(self.chunk_limit, room);
                budget.spares.push(segment);
                Ok(())
            }
            // A full medium is no failure of the log: what has an LSN has its room. Anything else leaves unknown state.
            Err(error) if error.kind() == ErrorKind::Exhausted => Err(error),
            Err(error) => {
                drop(next);
                Err(ctx.fail(error))
            }
        }
    }

    /// Makes a segment ahead of need when the current one is half full. A full medium is left for
    /// [`promise`](Self::promise) to report.
    pub(crate) fn prepare_segment(&self, ctx: &impl Context) {
        // Once a turn: where there is no space, trying again and again would not make any.
        if !std::mem::take(&mut self.budget.lock().runs_short) {
            return;
        }
        let Some(next) = self.making.try_lock() else { return };
        if ctx.check_open().is_err() {
            return;
        }
        match self.add_segment(ctx, next, Need::Ahead) {
            Ok(()) => {}
            // Nothing was tried: the next turn may find more.
            Err(Error::Full { .. }) => self.budget.lock().runs_short = true,
            Err(error) => tracing::warn!(%error, stream = %self.stream, "no segment could be prepared ahead"),
        }
    }

    /// Gives the pen the segments that were made for it.
    pub(crate) fn hand_over(&self, pen: &mut Pen) {
        pen.extend(self.budget.lock().spares.drain(..));
    }

    /// Whether chunks of `length` bytes that hold `bytes` of what was promised may be written now. If so they count as
    /// written.
    pub(crate) fn admit(&self, length: usize, bytes: u64) -> bool {
        let mut budget = self.budget.lock();
        let rest = budget.outstanding - bytes;
        let room = budget.room.saturating_sub(length as u64);
        let admitted = rest == 0 || rest < ceiling(self.chunk_limit, room);
        if admitted {
            budget.set_room(self.chunk_limit, room);
            budget.outstanding = rest;
        }
        admitted
    }

    /// After chunks: what is left is known exactly again. True when it is time to make a segment.
    pub(crate) fn settle(&self, ctx: &impl Context, pen: &Pen) -> bool {
        let mut budget = self.budget.lock();
        let limit = self.chunk_limit;
        let spare: u64 = budget.spares.iter().map(|segment| segment.device.len() - limit).sum();
        budget.set_room(limit, pen.room(limit as usize) + spare);
        budget.runs_short = pen.runs_short() && budget.spares.is_empty();
        let runs_short = budget.runs_short;
        drop(budget);
        if self.is_wanted.swap(false, Ordering::SeqCst) {
            ctx.pool().wake_all();
        }
        runs_short
    }

    /// Returns when nobody makes a segment, and lets go of those not used.
    pub(crate) fn come_to_rest(&self) {
        let _resting = self.making.lock();
        self.budget.lock().spares.clear();
    }
}

impl Budget {
    fn fits(&self, bytes: u64) -> bool {
        self.outstanding + bytes < self.ceiling
    }

    fn set_room(&mut self, chunk_limit: u64, room: u64) {
        self.room = room;
        self.ceiling = ceiling(chunk_limit, room);
    }
}

/// Bytes of records below which `room` bytes are enough, in full chunks and one that is not. A full chunk may leave as
/// much unused as a record's header has bytes, since that is not split.
fn ceiling(chunk_limit: u64, room: u64) -> u64 {
    let per_chunk = chunk_limit - (CHUNK_HEADER + RECORD_HEADER) as u64;
    room / chunk_limit * per_chunk
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::Settings;
    use crate::space::{Pool, Spares};
    use ishigaki_device::{Directory, MemoryDirectory};

    const LIMIT: usize = 4096;
    /// Bytes of records that a full chunk certainly holds.
    const PER_CHUNK: u64 = (LIMIT - CHUNK_HEADER - RECORD_HEADER) as u64;

    /// Room for three chunks.
    fn room() -> Room {
        let directory = Arc::new(MemoryDirectory::new());
        let device = directory.create("wal-000-00000000", 4 * LIMIT as u64).unwrap();
        let pool = Arc::new(Pool::new(directory, &Settings::default(), Spares::default()));
        let pen = Pen::new([Segment { index: 0, device }].into(), 0, 0, pool);
        Room::new(StreamId(0), &pen, 1, LIMIT)
    }

    #[test]
    fn no_more_is_promised_than_fits_in_full_chunks_and_one_that_is_not() {
        let room = room();
        assert!(room.try_promise(3 * PER_CHUNK - 1));
        assert!(!room.try_promise(1));
        room.take_back(10);
        assert!(room.try_promise(10) && !room.try_promise(1));
    }

    #[test]
    fn a_chunk_that_is_not_full_waits_when_the_rest_would_not_fit_behind_it() {
        let room = room();
        assert!(room.try_promise(3 * PER_CHUNK - 1));
        assert!(!room.admit(512, 100), "its padding would be missing at the end");
        assert!(room.admit(LIMIT, PER_CHUNK), "a full chunk wastes nothing");
        assert!(!room.admit(512, 100));
        assert!(room.admit(2 * LIMIT, 2 * PER_CHUNK - 1), "with nothing behind it any chunk may be written");
    }

    #[test]
    fn padding_is_spent_where_there_is_room_for_it_and_not_promised_again() {
        let room = room();
        assert!(room.try_promise(200));
        assert!(room.admit(512, 100) && room.admit(512, 100));
        // Of three chunks' room a quarter of one is gone.
        assert!(!room.try_promise(2 * PER_CHUNK));
        assert!(room.try_promise(2 * PER_CHUNK - 1));
    }
}
