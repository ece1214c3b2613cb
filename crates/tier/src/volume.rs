//! A volume, and the way of a request to it: chunk by chunk, and within a chunk to where each block is.

mod counts;
mod writing;

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use ishigaki_device::{AlignedBuffer, Device, Promise, SECTOR, check_transfer};
use parking_lot::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::heat::{Heat, Requests, Use};
use crate::map::Known;
use crate::moving::{self, Want};
use crate::pool;
use crate::record::{Record, SlotId, VolumeId};
use crate::slot::Slot;
use crate::streams::Streams;
use crate::{BLOCK, Error, Mode, OnDemand, Result};

use self::counts::Counts;
pub use self::counts::Reads;

/// A volume of a [`Pool`](crate::Pool), as a device. Its blocks are as large as those of the coarser one of its two devices. Clones are handles to the
/// same one.
///
/// *A sync* that succeeds has made durable what was written before, by the rules of the [crate](crate). *A trim* forgets: what was there reads as anything until
/// it is written again. *The first failed write or sync* stops the volume for good.
#[derive(Clone)]
pub struct Volume {
    pub(crate) core: Arc<Core>,
    pub(crate) pool: Arc<pool::Core>,
}

/// What a volume has on the fast device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VolumeFigures {
    /// Its slots.
    pub slots: u64,
    /// Bytes that are there.
    pub valid: u64,
    /// Of these, bytes that are nowhere else.
    pub dirty: u64,
}

/// What its handles share.
pub(crate) struct Core {
    pub(crate) id: VolumeId,
    pub(crate) known: Known,
    pub(crate) slow: Arc<dyn Device>,
    pub(crate) chunks: Vec<Mutex<Chunk>>,
    /// Slots of it that were written, or got blocks, since the last sync.
    pub(crate) touched: Mutex<BTreeSet<SlotId>>,
    /// All of it is to be on the fast device, and stay there.
    pub(crate) pinned: AtomicBool,
    /// The slow device was written since its last sync.
    pub(crate) slow_written: AtomicBool,
    /// One sync at a time.
    pub(crate) settling: Mutex<()>,
    /// Held by every request for as long as it lasts; false when the volume is no more.
    is_open: RwLock<bool>,
    stopped: OnceLock<Error>,
    streams: Mutex<Streams>,
    pub(crate) counts: Counts,
    /// Blocks that were written to the slow device because they were dirty, since the pool was opened.
    pub(crate) went_home: AtomicU64,
}

/// Where a chunk is.
#[derive(Debug, Default)]
pub(crate) struct Chunk {
    /// On the fast device, in part.
    pub(crate) slot: Option<SlotId>,
    /// Requests that write it on the slow device: it gets no slot meanwhile.
    direct: u32,
    heat: Heat,
}

impl Chunk {
    /// Whether requests write it on the slow device.
    pub(crate) fn is_written_directly(&self) -> bool {
        self.direct > 0
    }
}

/// Where a request goes with a chunk.
enum Way<'a> {
    /// To a slot, which stays the chunk's until the request has left it.
    Slot(&'a Slot, SlotId),
    /// To the slow device; a writer has told the chunk.
    Slow,
}

/// A part of a request, within one chunk.
#[derive(Clone, Copy)]
struct Piece {
    chunk: u32,
    /// Where it begins in its chunk, and where in the request.
    within: u64,
    at: usize,
    length: usize,
}

impl Piece {
    /// The blocks that it has a part of.
    fn blocks(self) -> Range<u64> {
        self.within / BLOCK..(self.within + self.length as u64).div_ceil(BLOCK)
    }

    /// What of it lies in a run of blocks: where that begins in its chunk, and which of its bytes they are.
    fn part(self, run: &Range<u64>) -> (u64, Range<usize>) {
        let first = (run.start * BLOCK).max(self.within);
        let end = (run.end * BLOCK).min(self.within + self.length as u64);
        (first, (first - self.within) as usize..(end - self.within) as usize)
    }
}

impl Core {
    pub(crate) fn new(id: VolumeId, known: Known, slow: Arc<dyn Device>, chunk: u64) -> Self {
        let chunks = known.length.div_ceil(chunk);
        Self {
            id,
            slow,
            chunks: (0..chunks).map(|_| Mutex::default()).collect(),
            touched: Mutex::default(),
            pinned: AtomicBool::new(known.pinned),
            known,
            slow_written: AtomicBool::new(false),
            settling: Mutex::default(),
            is_open: RwLock::new(true),
            stopped: OnceLock::new(),
            streams: Mutex::default(),
            counts: Counts::default(),
            went_home: AtomicU64::new(0),
        }
    }

    /// What the map is to say of it, at that length.
    pub(crate) fn known_with(&self, length: u64) -> Known {
        Known { pinned: self.is_pinned(), length, ..self.known.clone() }
    }

    pub(crate) fn record(&self) -> Record {
        self.known_with(self.known.length).record(self.id)
    }

    /// Whether its chunks stay on the fast device.
    pub(crate) fn is_pinned(&self) -> bool {
        self.pinned.load(Ordering::Acquire)
    }

    /// Stops it for good. The first cause counts.
    pub(crate) fn stop(&self, cause: Error) -> Error {
        let stopped = match cause {
            stopped @ Error::Stopped { .. } => stopped,
            cause => Error::Stopped { volume: self.known.name.clone(), cause: Arc::new(cause) },
        };
        if self.stopped.set(stopped.clone()).is_ok() {
            tracing::error!(volume = self.known.name, error = %stopped, "a volume has stopped");
        }
        self.stopped.get().cloned().unwrap_or(stopped)
    }

    pub(crate) fn check(&self) -> Result<()> {
        self.stopped.get().map_or(Ok(()), |stopped| Err(stopped.clone()))
    }

    fn gone(&self) -> Error {
        Error::Gone { volume: self.known.name.clone() }
    }

    /// Begins a request: the volume stays until it ends.
    pub(crate) fn begin(&self) -> Result<RwLockReadGuard<'_, bool>> {
        let is_open = self.is_open.read();
        if !*is_open {
            return Err(self.gone());
        }
        self.check()?;
        Ok(is_open)
    }

    /// Refuses requests from now on; those under way have ended when this returns. While the guard lives, new ones wait.
    pub(crate) fn close(&self) -> Result<Closed<'_>> {
        let is_open = self.is_open.write();
        if !*is_open {
            return Err(self.gone());
        }
        Ok(Closed(is_open))
    }

    /// Notes that a slot is to be settled by the next sync.
    pub(crate) fn touch(&self, slot: SlotId) {
        self.touched.lock().insert(slot);
    }
}

/// Holds a volume's requests back.
pub(crate) struct Closed<'a>(RwLockWriteGuard<'a, bool>);

impl Closed<'_> {
    /// The volume is no more: those who waited are refused.
    pub(crate) fn for_good(mut self) {
        *self.0 = false;
    }
}

impl Volume {
    /// Its name, and that of its slow device.
    pub fn name(&self) -> &str {
        &self.core.known.name
    }

    /// What becomes of its writes.
    pub fn mode(&self) -> Mode {
        self.core.known.mode
    }

    /// Whether all of it is to be on the fast device, and stay there.
    pub fn is_pinned(&self) -> bool {
        self.core.is_pinned()
    }

    /// What of it is on the fast device.
    pub fn figures(&self) -> VolumeFigures {
        let mut figures = VolumeFigures { slots: 0, valid: 0, dirty: 0 };
        for chunk in &self.core.chunks {
            let Some(id) = chunk.lock().slot else { continue };
            let state = self.pool.slots[id.0 as usize].lock();
            figures.slots += 1;
            figures.valid += state.valid.count() * BLOCK;
            figures.dirty += state.dirty.count() * BLOCK;
        }
        figures
    }

    /// Brings all dirty blocks home that are dirty now. They stay on the fast device, too.
    ///
    /// # Errors
    ///
    /// The first failure; it stops the volume.
    pub fn clean(&self) -> Result<()> {
        self.pool.clean_all_of(&self.core)
    }

    /// Bytes that were brought home because they were dirty, since the pool was opened, whatever thread did it.
    pub fn went_home(&self) -> u64 {
        self.core.went_home.load(Ordering::Relaxed) * BLOCK
    }

    /// What requests have read, since the pool was opened.
    pub fn reads(&self) -> Reads {
        self.core.counts.now()
    }

    /// Whether a read, or a write, of a range needs the fast device alone, as things are now, and no record of the map. They may be otherwise at the next moment.
    pub fn is_near(&self, offset: u64, length: u64, writes: bool) -> bool {
        let Some(end) = offset.checked_add(length).filter(|&end| end <= self.core.known.length) else { return false };
        let is_whole = offset.is_multiple_of(BLOCK) && end.is_multiple_of(BLOCK);
        if writes && (self.core.known.mode != Mode::WriteBack || !is_whole) {
            return false;
        }
        self.pieces(offset, length as usize).all(|piece| {
            // It waits for nothing itself.
            let slot = self.core.chunks[piece.chunk as usize].try_lock().and_then(|chunk| chunk.slot);
            let Some(id) = slot else { return false };
            let Some(state) = self.pool.slots[id.0 as usize].try_lock() else { return false };
            let (blocks, is_free) = (piece.blocks(), !state.leaves && !state.claimed.has_any(piece.blocks()));
            let is_open = || {
                let is_open = state.recorded.as_ref().is_some_and(|recorded| recorded.open);
                is_open && self.pool.map.is_durable(state.opened)
            };
            let has_all = || state.valid.missing(blocks.clone()).is_empty();
            is_free && if writes { !state.must_be_open(blocks.clone()) || is_open() } else { has_all() }
        })
    }

    /// Bytes of each chunk that are on the fast device, by number.
    pub fn here(&self) -> Vec<u64> {
        let valid = |slot: Option<SlotId>| slot.map_or(0, |id| self.pool.slots[id.0 as usize].lock().valid.count());
        self.core.chunks.iter().map(|chunk| valid(chunk.lock().slot) * BLOCK).collect()
    }

    /// Requests to each chunk since the pool was opened, by number.
    pub fn requests(&self) -> Vec<Requests> {
        self.core.chunks.iter().map(|chunk| chunk.lock().heat.counts()).collect()
    }

    /// How much each chunk of it was used of late, by number, without those that were not. What was counted counts half after a [half-life](crate::Settings::half_life).
    pub fn uses(&self) -> Vec<(u32, Use)> {
        let chunks = self.core.chunks.iter().zip(0..);
        let uses = chunks.map(|(chunk, number)| (number, chunk.lock().heat.now(&self.pool.clock)));
        uses.filter(|(_, uses)| *uses != Use::default()).collect()
    }

    /// What is on the fast device alone, as offsets and lengths in bytes: what would be lost with it.
    pub fn dirty(&self) -> Vec<Range<u64>> {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for (chunk, number) in self.core.chunks.iter().zip(0_u32..) {
            let Some(id) = chunk.lock().slot else { continue };
            let runs: Vec<_> = self.pool.slots[id.0 as usize].lock().dirty.present().collect();
            for run in runs {
                let (start, end) = (self.home(number) + run.start * BLOCK, self.home(number) + run.end * BLOCK);
                match ranges.last_mut() {
                    Some(last) if last.end == start => last.end = end,
                    _ => ranges.push(start..end),
                }
            }
        }
        ranges
    }

    /// Stops it for good, because of something that its devices do not tell.
    pub fn fail(&self, reason: String) {
        self.core.stop(Error::invalid(reason));
    }

    /// Why it takes nothing more, if it has stopped.
    pub fn failure(&self) -> Option<Error> {
        self.core.check().err()
    }

    fn check_transfer(&self, offset: u64, memory: &[u8]) -> ishigaki_device::Result<()> {
        check_transfer(&self.core.known.name, self.promise().block_size, self.core.known.length, offset, memory)
    }

    /// The length of a range, which lies in the volume.
    fn check_range(&self, offset: u64, length: u64) -> ishigaki_device::Result<usize> {
        let end = offset.checked_add(length).filter(|&end| end <= self.core.known.length);
        end.and_then(|_| usize::try_from(length).ok()).ok_or_else(|| {
            self.invalid(format!("{length} bytes from {offset} are not in a volume of {}", self.core.known.length))
        })
    }

    fn invalid(&self, reason: String) -> ishigaki_device::Error {
        ishigaki_device::Error::Invalid { name: self.core.known.name.clone(), reason }
    }

    fn pieces(&self, offset: u64, length: usize) -> impl Iterator<Item = Piece> + use<> {
        let chunk = self.pool.chunk;
        let mut at = 0;
        std::iter::from_fn(move || {
            let rest = length.checked_sub(at).filter(|&rest| rest > 0)?;
            let place = offset + at as u64;
            let within = place % chunk;
            let piece =
                Piece { chunk: (place / chunk) as u32, within, at, length: rest.min((chunk - within) as usize) };
            at += piece.length;
            Some(piece)
        })
    }

    /// Where the chunk begins on the slow device.
    fn home(&self, chunk: u32) -> u64 {
        u64::from(chunk) * self.pool.chunk
    }

    /// Whether a request is one of a stream that goes past the fast device.
    fn passes(&self, offset: u64, length: usize) -> bool {
        self.pool.bypass < u64::MAX && self.core.streams.lock().note(offset, length as u64) >= self.pool.bypass
    }

    /// The way to a chunk, for a reader.
    fn enter(&self, piece: Piece) -> Way<'_> {
        let mut at = self.core.chunks[piece.chunk as usize].lock();
        at.heat.read(piece.length, &self.pool.clock);
        let Some(id) = at.slot else { return Way::Slow };
        let slot = &self.pool.slots[id.0 as usize];
        let mut state = slot.lock();
        if state.leaves {
            // All that it has is home.
            return Way::Slow;
        }
        state.users += 1;
        drop(state);
        self.pool.order.lock().used(id);
        Way::Slot(slot, id)
    }

    /// The way to a chunk, for a writer. Where `wants` one, it gets a slot if there is any.
    fn enter_to_write(&self, chunk: u32, wants: bool) -> Result<Way<'_>> {
        let mut wants = wants;
        loop {
            let mut at = self.core.chunks[chunk as usize].lock();
            if let Some(id) = at.slot {
                let slot = &self.pool.slots[id.0 as usize];
                let mut state = slot.lock();
                drop(at);
                if state.leaves {
                    // Until the map says durably that the slot holds nothing, the chunk must not be written elsewhere.
                    slot.wait(&mut state);
                    continue;
                }
                state.users += 1;
                state.writers += 1;
                drop(state);
                self.pool.order.lock().used(id);
                return Ok(Way::Slot(slot, id));
            }
            if !wants || at.direct > 0 {
                at.direct += 1;
                return Ok(Way::Slow);
            }
            drop(at);
            wants = self.pool.give(&self.core, chunk, Want::Needed)?;
        }
    }

    /// Reads a piece. Blocks that are not on the fast device come there, if they are to.
    /// Whether it was answered by the fast device alone.
    fn read_piece(&self, piece: Piece, buffer: &mut [u8], fills: bool) -> Result<bool> {
        let way = match self.enter(piece) {
            Way::Slow if fills => {
                let entered = self.pool.enter_to_bring(&self.core, piece.chunk, Want::Welcome)?;
                entered.map_or(Way::Slow, |id| Way::Slot(&self.pool.slots[id.0 as usize], id))
            }
            way => way,
        };
        let Way::Slot(slot, id) = way else {
            let blocks = piece.blocks();
            self.core.counts.read(blocks.end - blocks.start, false);
            self.core.counts.waiting(|| self.core.slow.read_at(self.home(piece.chunk) + piece.within, buffer))?;
            return Ok(false);
        };
        let home = self.home(piece.chunk);
        let runs: Vec<_> = slot.lock().valid.runs(piece.blocks()).collect();
        let mut misses = false;
        let outcome = runs.into_iter().try_for_each(|(run, is_here)| -> Result<()> {
            let (first, part) = piece.part(&run);
            let part = &mut buffer[part];
            self.core.counts.read(run.end - run.start, is_here);
            misses |= !is_here;
            if is_here {
                let read = self.pool.fast.read_at(self.pool.place(id) + first, part);
                read.or_else(|cause| self.read_home(slot, &run, cause, home + first, part)).map_err(Error::from)
            } else if fills {
                let mut blocks = AlignedBuffer::zeroed(((run.end - run.start) * BLOCK) as usize);
                self.core.counts.waiting(|| self.pool.bring(&self.core, id, piece.chunk, run.clone(), &mut blocks))?;
                let begin = (first - run.start * BLOCK) as usize;
                part.copy_from_slice(&blocks[begin..begin + part.len()]);
                Ok(())
            } else {
                Ok(self.core.counts.waiting(|| self.core.slow.read_at(home + first, part))?)
            }
        });
        if misses && fills {
            self.pool.left(&self.core, id);
        } else {
            slot.lock().users -= 1;
        }
        outcome.map(|()| !misses)
    }

    /// Reads what the fast device does not give from the slow one, unless some of it is on the fast one alone.
    fn read_home(
        &self,
        slot: &Slot,
        run: &Range<u64>,
        cause: ishigaki_device::Error,
        place: u64,
        part: &mut [u8],
    ) -> ishigaki_device::Result<()> {
        if slot.lock().dirty.has_any(run.clone()) {
            // Here alone was what it had synced. Writes of others may make the device answer again, with other bytes: nothing of it goes home from here.
            let stopped = self.core.stop(cause.into());
            return Err(self.failed("read", stopped));
        }
        self.pool.tell_lost(&cause);
        self.core.slow.read_at(place, part)
    }

    /// Brings a part of the volume to the fast device, in whole blocks, where there is a slot to be had.
    /// How many bytes have come.
    ///
    /// # Errors
    ///
    /// What the slow device says. What the fast one does not take stays where it is.
    pub fn promote(&self, offset: u64, length: u64) -> Result<u64> {
        let _open = self.core.begin()?;
        let end = offset.saturating_add(length).min(self.core.known.length);
        let length = end.saturating_sub(offset);
        let mut brought = 0;
        for piece in self.pieces(offset, length as usize) {
            brought += self.pool.promote(&self.core, piece.chunk, piece.blocks())? * BLOCK;
        }
        Ok(brought)
    }

    /// Has chunks leave the fast device: what is dirty of them is taken home before. Those that requests are at stay. How many have left.
    ///
    /// # Errors
    ///
    /// What the devices say.
    pub fn demote(&self, chunks: &[u32]) -> Result<usize> {
        let _open = self.core.begin()?;
        let slot = |&chunk: &u32| self.core.chunks.get(chunk as usize).and_then(|chunk| chunk.lock().slot);
        let slots: Vec<_> = chunks.iter().filter_map(slot).collect();
        self.pool.clean(&slots)?;
        slots.chunks(moving::TOGETHER).try_fold(0, |left, some| self.pool.evict(some, None).map(|more| left + more))
    }

    /// What an error of a request becomes: a write that failed stops the volume.
    fn failed(&self, operation: &'static str, cause: Error) -> ishigaki_device::Error {
        let stops = operation != "read" && !matches!(cause, Error::Gone { .. } | Error::Invalid { .. });
        let cause = if stops { self.core.stop(cause) } else { cause };
        let source = io::Error::other(cause);
        ishigaki_device::Error::Io { name: self.core.known.name.clone(), operation, source }
    }
}

impl Device for Volume {
    fn promise(&self) -> Promise {
        let promises = [self.pool.fast.promise(), self.core.slow.promise()];
        let block_size = promises[0].block_size.max(promises[1].block_size);
        let direct = promises.iter().all(|promise| promise.direct);
        Promise { block_size, atomic_write: SECTOR, direct, trim: true }
    }

    fn len(&self) -> u64 {
        self.core.known.length
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> ishigaki_device::Result<()> {
        self.check_transfer(offset, buffer)?;
        let mut read = || {
            let _open = self.core.begin()?;
            let passes = self.passes(offset, buffer.len());
            let fills = self.pool.on_demand != OnDemand::Never && !passes && self.pool.wear.allows();
            let is_hit = self.pieces(offset, buffer.len()).try_fold(true, |is_hit, piece| {
                self.read_piece(piece, &mut buffer[piece.at..piece.at + piece.length], fills).map(|hit| is_hit && hit)
            })?;
            if !passes {
                self.core.counts.answered(is_hit);
            }
            Ok(())
        };
        read().map_err(|cause| self.failed("read", cause))
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> ishigaki_device::Result<()> {
        self.check_transfer(offset, bytes)?;
        let write = || {
            let _open = self.core.begin()?;
            let passes = self.passes(offset, bytes.len());
            self.pieces(offset, bytes.len())
                .try_for_each(|piece| self.write_piece(piece, &bytes[piece.at..piece.at + piece.length], passes))
        };
        write().map_err(|cause| self.failed("write", cause))
    }

    fn sync(&self) -> ishigaki_device::Result<()> {
        let sync = || {
            let _open = self.core.begin()?;
            self.pool.settle(&self.core)?;
            self.pool.keep_short()
        };
        sync().map_err(|cause| self.failed("sync", cause))
    }

    fn trim(&self, offset: u64, length: u64) -> ishigaki_device::Result<()> {
        let length = self.check_range(offset, length)?;
        let trim = || {
            let _open = self.core.begin()?;
            self.pieces(offset, length).try_for_each(|piece| self.trim_piece(piece))
        };
        trim().map_err(|cause| self.failed("trim", cause))
    }

    fn zero(&self, offset: u64, length: u64) -> ishigaki_device::Result<()> {
        let block = self.promise().block_size as u64;
        if !(offset.is_multiple_of(block) && length.is_multiple_of(block)) {
            return Err(self.invalid(format!("{length} bytes from {offset} are not whole blocks of {block}")));
        }
        let length = self.check_range(offset, length)?;
        let zero = || {
            let _open = self.core.begin()?;
            self.pieces(offset, length).try_for_each(|piece| self.zero_piece(piece))
        };
        zero().map_err(|cause| self.failed("write", cause))
    }
}

impl fmt::Debug for Volume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Volume")
            .field("name", &self.core.known.name)
            .field("length", &self.core.known.length)
            .finish_non_exhaustive()
    }
}
