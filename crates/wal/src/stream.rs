//! One stream: its buffer, its device slot, and how a group gets from the one to the other.
//!
//! A record goes into the open [`Group`] under the stream's lock, together with the drawing of its LSN. The stream has one
//! device slot, the [`Pen`]. Whoever needs a record durable and finds the slot free takes pen and group and writes, in
//! its own thread and without the lock; what arrives meanwhile is the next group. When a group is durable, those who wait
//! for it wake, and one of those who wait for the next: that one writes. So flushing clocks itself: nobody waits for a
//! timer or a group to fill, nobody wakes in vain, and a lone session's commit is one device write.

mod drawn;
mod handle;
mod room;

use std::mem::replace;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ishigaki_base::{Lsn, StreamId};
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::bell::Bell;
use crate::buffer::Group;
use crate::dependencies::Standing;
use crate::log::Shared;
use crate::segment::{Pen, Segment};
use crate::{Error, Result};
pub(crate) use drawn::Drawn;
pub use handle::Stream;

/// So many records in a group are a crowd. If one waits behind a group the stream's own thread takes over: it pays that the
/// slot is never idle while one waiter wakes another. And what comes while one is being written stays in its stream.
const CROWD: usize = 4;

/// Where a write takes longer, the stream's own thread does it for those who do not wait for it. It takes some microseconds
/// to wake a thread.
const LONG_WRITE: Duration = Duration::from_micros(20);

/// Groups that may pile up behind a busy device before whoever adds to them is slowed down.
const PILED_GROUPS: u64 = 4;

/// The state of one stream.
#[derive(Debug)]
pub(crate) struct State {
    id: StreamId,
    inner: Mutex<Inner>,
    /// Rings when a group has been written, each bell for every fourth group: for all who wait for it. When the slot is
    /// free, the next one rings for one of those who wait for the next group.
    written: [Bell; 4],
    /// Told when the slot is free, a segment made, or the log has failed.
    changed: Condvar,
    /// Tasks wait for its records, not threads: a hint.
    awaited: AtomicBool,
    /// How far the stream is durable and settled.
    standing: Standing,
    /// Records that are being written, zero while the slot is free: a hint for those who may choose another stream.
    under_way: AtomicUsize,
    /// Bytes of records that nobody has been held back for yet.
    unpaid: AtomicU64,
}

/// What the stream's lock guards. While it is held, this stream's bound in the watermark does not change.
#[derive(Debug)]
struct Inner {
    /// Records that have an LSN and are not being written yet.
    open: Group,
    /// The number of the open group. The one before it is being written while the slot is taken.
    number: u64,
    slot: Slot,
    /// Segments made for the pen while it was away.
    spares: Vec<Segment>,
    /// Bytes that records may still cost before another segment must be made. Recomputed when the pen comes back.
    room: u64,
    /// What the open group has cost so far.
    cost: u64,
    /// Since when the open group is not empty.
    since: Instant,
    /// How long a write takes: a mean in which each write counts for an eighth.
    write_time: Duration,
    /// Index of the next segment to make.
    next_segment: u64,
    /// Another thread is making that segment at the moment.
    making_segment: bool,
    /// The pen was past the middle of its last segment when it last came back: time to make the next one.
    runs_short: bool,
    /// The log's background thread has seen the open group before: it is at least one tick old.
    seen: bool,
}

/// The device slot of a stream.
#[derive(Debug)]
enum Slot {
    /// Whoever needs something durable takes the pen and writes.
    Free(Pen),
    /// A group is on its way to the medium.
    Taken,
    /// The log has failed or closed; nobody writes any more.
    Gone,
}

impl Slot {
    fn is_free(&self) -> bool {
        matches!(self, Self::Free(_))
    }

    fn is_taken(&self) -> bool {
        matches!(self, Self::Taken)
    }
}

impl State {
    /// A stream that goes on where `pen` stands; `next_segment` is the index of the segment to make next, `next` the first
    /// LSN that will be drawn.
    pub(crate) fn new(id: StreamId, pen: Pen, next_segment: u64, chunk_limit: usize, next: Lsn) -> Self {
        let (room, runs_short) = (pen.room(chunk_limit), pen.runs_short());
        let inner = Inner {
            open: Group::new(chunk_limit),
            number: 0,
            slot: Slot::Free(pen),
            spares: Vec::new(),
            room,
            cost: 0,
            since: Instant::now(),
            write_time: Duration::ZERO,
            next_segment,
            making_segment: false,
            runs_short,
            seen: false,
        };
        Self {
            id,
            inner: Mutex::new(inner),
            written: Default::default(),
            changed: Condvar::new(),
            awaited: AtomicBool::new(false),
            standing: Standing::new(id, next.previous()),
            under_way: AtomicUsize::new(0),
            unpaid: AtomicU64::new(0),
        }
    }

    pub(crate) fn id(&self) -> StreamId {
        self.id
    }

    /// Wakes everybody who waits for something of this stream. Taking the lock first leaves no gap between somebody's
    /// last look and his falling asleep.
    pub(crate) fn wake_all(&self) {
        drop(self.inner.lock());
        self.changed.notify_all();
        self.written.iter().for_each(Bell::ring);
    }

    /// Returns when nobody writes to the stream's segments or makes one any more, and lets go of them. The log takes no
    /// more records, so that nobody begins again.
    pub(crate) fn come_to_rest(&self) {
        let mut inner = self.inner.lock();
        while inner.slot.is_taken() || inner.making_segment {
            self.changed.wait(&mut inner);
        }
        inner.slot = Slot::Gone;
        inner.spares.clear();
    }

    /// Returns when every record of *this* stream that has an LSN up to `lsn` by now is durable.
    pub(crate) fn flush(&self, shared: &Shared, mut lsn: Lsn) -> Result<()> {
        while shared.watermark.bound(self.id) <= lsn {
            let inner = self.inner.lock();
            shared.check_alive()?;
            // What is drawn later is not waited for: else a stream that is never idle would hold the caller for ever.
            lsn = lsn.min(self.standing.drawn());
            if shared.watermark.bound(self.id) > lsn {
                break;
            }
            if inner.slot.is_free() {
                self.write_group(shared, inner);
            } else {
                let number = if lsn < inner.open.first() { inner.number - 1 } else { inner.number };
                let bell = self.bell(number);
                let rings = bell.rings();
                drop(inner);
                bell.wait(rings);
            }
        }
        Ok(())
    }

    /// Returns when every record of this stream with an LSN up to `lsn`, which it has drawn, is durable with all that it
    /// depends on.
    pub(crate) fn settle(&self, shared: &Shared, lsn: Lsn) -> Result<()> {
        debug_assert!(lsn <= self.standing.drawn());
        while self.standing.settled() < lsn {
            if self.standing.durable() < lsn {
                self.flush(shared, lsn)?;
            }
            let Some(blocking) = self.standing.advance(|position| shared.has_settled(position)) else { continue };
            // They have smaller LSNs than what waits for them: this comes to an end.
            blocking.iter().try_for_each(|position| shared.settle(position))?;
        }
        Ok(())
    }

    pub(crate) fn standing(&self) -> &Standing {
        &self.standing
    }

    /// Whether no group is on its way to the medium. A hint: it may have changed when it is looked at.
    pub(crate) fn is_free(&self) -> bool {
        self.under_way.load(Ordering::Relaxed) == 0
    }

    /// Whether a group is on its way that is no crowd. A hint, too.
    pub(crate) fn writes_for_few(&self) -> bool {
        (1..CROWD).contains(&self.under_way.load(Ordering::Relaxed))
    }

    /// Sees to it that the group is written if its caps are reached and the slot is free; slows the caller down when groups
    /// pile up.
    ///
    /// A group that has as many records as it should goes on gathering until that took as long as a write takes: with
    /// sessions that do not wait, a slow device gets few large writes instead of many small ones, and no record waits more
    /// than twice as long as it had to. Where nothing happens in the background nothing depends on time.
    pub(crate) fn pace(&self, shared: &Shared) {
        let caps = &shared.settings.group;
        let mut inner = self.inner.lock();
        if inner.open.records() < caps.transactions && inner.open.bytes() < caps.bytes.0 {
            return;
        }
        while inner.slot.is_taken()
            && inner.open.bytes() >= caps.bytes.0.saturating_mul(PILED_GROUPS)
            && shared.check_alive().is_ok()
        {
            self.changed.wait(&mut inner);
        }
        if inner.open.is_empty() || !inner.slot.is_free() {
            return;
        }
        let gathers = inner.open.bytes() < caps.bytes.0 && inner.since.elapsed() < inner.write_time;
        if gathers && shared.settings.background {
            return;
        }
        let leaves = !self.writes_for_tasks(shared, &inner) && inner.write_time > LONG_WRITE;
        drop(inner);
        if !leaves || !shared.hand_over(self.id) {
            self.write_waiting(shared, false);
        }
    }

    /// Holds the caller back as far as the log's space asks for it. To be called without any lock.
    pub(crate) fn pay(&self, shared: &Shared) {
        shared.pool.pace(self.unpaid.swap(0, Ordering::Relaxed), || shared.check_open().is_ok());
    }

    /// One tick of the background thread: writes a group that was there at the tick before. True when the stream holds
    /// anything.
    pub(crate) fn tick(&self, shared: &Shared) -> bool {
        let mut inner = self.inner.lock();
        if inner.open.is_empty() {
            return inner.slot.is_taken();
        }
        if inner.seen && inner.slot.is_free() && shared.check_alive().is_ok() {
            self.write_group(shared, inner);
        } else {
            inner.seen = true;
        }
        true
    }

    /// Notes who waits for records of this stream these days: tasks, or threads.
    pub(crate) fn note_waiting(&self, as_task: bool) {
        if self.awaited.load(Ordering::Relaxed) != as_task {
            self.awaited.store(as_task, Ordering::Relaxed);
        }
    }

    /// Whether tasks write by themselves. Then nobody else should: whom another thread wakes is served later by many an
    /// executor than whom its own has made ready.
    fn writes_for_tasks(&self, shared: &Shared, inner: &Inner) -> bool {
        self.awaited.load(Ordering::Relaxed) && inner.write_time < shared.settings.hold
    }

    /// See [`Shared::write_briefly`].
    pub(crate) fn write_briefly(&self, shared: &Shared) -> bool {
        let inner = self.inner.lock();
        let goes = !inner.open.is_empty() && inner.slot.is_free() && self.writes_for_tasks(shared, &inner);
        if !goes || shared.check_alive().is_err() {
            return false;
        }
        self.write_group(shared, inner);
        true
    }

    fn bell(&self, number: u64) -> &Bell {
        &self.written[number as usize % self.written.len()]
    }

    /// Writes groups as long as there are any, if nobody else is at it.
    pub(crate) fn write_on(&self, shared: &Shared) {
        self.write_waiting(shared, true);
    }

    /// Writes the open group, or all that come, if there is any and nobody else is at it.
    fn write_waiting(&self, shared: &Shared, all: bool) {
        let inner = self.inner.lock();
        if !inner.open.is_empty() && inner.slot.is_free() && shared.check_alive().is_ok() {
            self.write_groups(shared, inner, all);
        }
    }

    /// Writes the open group and lets go of the slot. If a crowd has gathered meanwhile, the stream's own thread takes
    /// over; else one of those who wait.
    fn write_group<'a>(&'a self, shared: &Shared, inner: MutexGuard<'a, Inner>) {
        self.write_groups(shared, inner, false);
    }

    fn write_groups<'a>(&'a self, shared: &Shared, mut inner: MutexGuard<'a, Inner>, all: bool) {
        let Slot::Free(mut pen) = replace(&mut inner.slot, Slot::Taken) else {
            unreachable!("callers have seen, under this lock, that the slot is free");
        };
        loop {
            let number = inner.number;
            let Some(mut inner_again) = self.write_one(shared, inner, &mut pen) else { return };
            if !all || inner_again.open.is_empty() {
                let crowd = inner_again.open.records() >= CROWD && !self.writes_for_tasks(shared, &inner_again);
                inner_again.slot = Slot::Free(pen);
                self.under_way.store(0, Ordering::Relaxed);
                self.changed.notify_all();
                drop(inner_again);
                // The next writer first, so that the device is idle no longer than it must.
                if !crowd || !shared.hand_over(self.id) {
                    self.bell(number + 1).ring_for_one();
                }
                return self.bell(number).ring();
            }
            self.bell(number).ring();
            self.changed.notify_all();
            inner = inner_again;
        }
    }

    /// Writes the open group with the pen, without the lock, and settles the bound. `None` when the log has failed.
    fn write_one<'a>(
        &'a self,
        shared: &Shared,
        mut inner: MutexGuard<'a, Inner>,
        pen: &mut Pen,
    ) -> Option<MutexGuard<'a, Inner>> {
        pen.extend(inner.spares.drain(..));
        let last = inner.open.last();
        inner.number += 1;
        self.under_way.store(inner.open.records(), Ordering::Relaxed);
        let mut blocks = inner.open.take();
        inner.cost = 0;
        inner.seen = false;
        drop(inner);

        let header = shared.chunk_header(self.id, shared.observe());
        let begun = Instant::now();
        let written = pen.write(&mut blocks, header, last);
        let took = begun.elapsed();
        if let Err(error) = written {
            // The bound stays where it is and the pen is gone: nothing of this stream is ever acknowledged again.
            shared.fail(error);
            self.inner.lock().slot = Slot::Gone;
            self.wake_all();
            return None;
        }
        self.standing.written(last);
        self.standing.advance(|position| shared.has_settled(position));

        let mut inner = self.inner.lock();
        inner.write_time = (inner.write_time * 7 + took) / 8;
        let left = (!inner.open.is_empty()).then(|| inner.open.first());
        shared.watermark.settle(self.id, left);
        inner.open.recycle(blocks);
        let spare: u64 = inner.spares.iter().map(|segment| segment.device.len() - shared.chunk_limit as u64).sum();
        inner.room = (pen.room(shared.chunk_limit) + spare).saturating_sub(inner.cost);
        inner.runs_short = pen.runs_short() && inner.spares.is_empty();
        Some(inner)
    }
}

/// The error of a log that takes no more records, if it is such a one.
pub(crate) fn refuse(failure: Option<&Error>, closed: bool) -> Result<()> {
    match failure {
        Some(error) => Err(error.clone()),
        None if closed => Err(Error::Closed),
        None => Ok(()),
    }
}
