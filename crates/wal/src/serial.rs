//! The serial log: one shared buffer, one place on the medium, one thread that writes. The parallel log's rival.
//!
//! ```text
//!  session ─┐ meet at the buffer's lock          ┌ copies ┐
//!  session ─┼─▶ one goes for all: LSNs and space ┼ copies ┼─▶ ring ─▶ commit thread ─▶ chunk ─▶ segments of stream 0
//!  session ─┘                                    └ copies ┘               │
//!                                                                         └─▶ wakes whose record is durable
//! ```
//!
//! It is built after Aether (Johnson, Pandis, Stoica, Athanassoulis, Ailamaki, VLDB 2010), the baseline of paper 1, and
//! means to be as strong as that design allows:
//!
//! - *Scalable log buffer*: a thread that finds the lock free goes alone; those that meet there consolidate
//!   ([`array`]), so that the lock is taken once for all of them. They copy side by side into the [`ring`], and no thread
//!   waits for another one's copy: groups are put in order by whoever empties the buffer.
//! - *Early lock release* is the engine's: [`append`](SerialLog::append) gives the LSN before anything is durable.
//! - *Flush pipelining*: one thread runs [`commit`](SerialLog::commit). It writes as soon as somebody waits and its device
//!   is free, and what arrives meanwhile goes with the next chunk ([`writer`]).
//!
//! What lies on the medium is stream 0 of a log with one stream. LSNs are dense and in buffer order, so the largest durable
//! one says everything: there is no watermark to compute.

mod alarm;
pub(crate) mod array;
mod commit;
mod draw;
pub(crate) mod ring;
mod room;
mod waiters;
mod writer;

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;

use ishigaki_base::{Lsn, StreamId};
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::format::{ChunkHeader, Kind, LONGEST_RECORD};
use crate::segment::Pen;
use crate::space::Pool;
use crate::{Error, Result, Settings};
use alarm::Alarm;
use array::{Array, Gathered, Place, Releases};
pub(crate) use commit::start;
pub(crate) use draw::Draw;
use ring::{Ring, WORD};
use room::Room;
use waiters::Waiters;
use writer::{Writer, put_header, words_of};

/// Groups that may be in the buffer; as many of the smallest records as would fill half of it.
const GROUPS: usize = 1 << 16;

/// Slots in which groups gather. While one copies, others take the next; with all of them busy one queues for the lock.
const SLOTS: usize = 4;

/// What the serial log needs to know of the log that it belongs to.
pub(crate) trait Context: Sync {
    /// Fails once the log has failed.
    fn check_alive(&self) -> Result<()>;
    /// Fails once the log has failed or was closed.
    fn check_open(&self) -> Result<()>;
    /// Closes the log for good; calls [`SerialLog::wake_all`]. The first failure counts and is given back.
    fn fail(&self, error: Error) -> Error;
    /// Where segments come from.
    fn pool(&self) -> &Pool;
    /// The caps of a group and the length of a segment.
    fn settings(&self) -> &Settings;
    /// The header of a chunk of that stream, with that watermark.
    fn chunk_header(&self, stream: StreamId, watermark: Lsn) -> ChunkHeader;
    /// Has [`SerialLog::prepare_segment`] called soon, by a thread that has the time.
    fn runs_short(&self);
}

/// One shared log buffer with a consolidation array, and what writes it.
///
/// *Threads*: any number may append and wait; one may run [`commit`](Self::commit). Without one, whoever waits takes the
/// turns himself. *Drop* forgets what is not written. *After a crash* the medium shows a prefix of the records, with all
/// that [`wait`](Self::wait) returned `Ok` for in it.
#[derive(Debug)]
pub(crate) struct SerialLog {
    ring: Ring,
    array: Array,
    releases: Releases,
    /// *The buffer's lock*: LSNs and space are given out under it.
    buffer: Line<Mutex<Buffer>>,
    drawn: Line<Drawn>,
    writer: Line<Mutex<Writer>>,
    written: Line<Written>,
    room: Room,
    /// The largest LSN that anybody waits for.
    wanted: Line<AtomicU64>,
    waiters: Waiters,
    alarm: Alarm,
    /// Whoever holds the buffer's lock waits for space in it.
    short_of_space: AtomicBool,
    space: (Mutex<()>, Condvar),
    /// A thread runs [`commit`](Self::commit).
    staffed: AtomicBool,
    /// Records of more words than this go into the buffer piece by piece.
    longest_piece: u64,
}

/// Something on a cache line of its own.
#[derive(Debug)]
#[repr(align(128))]
struct Line<T>(T);

/// What the buffer's lock guards.
#[derive(Debug)]
struct Buffer {
    /// The LSN to draw next. It is drawn after its room on the medium and its space in the buffer are there.
    next: u64,
    /// The position to give out next.
    position: u64,
    /// The ticket of the next group.
    ticket: u64,
    /// Positions below this may be given out: as far as was last looked.
    space_until: u64,
    /// Tickets below this may be given out.
    tickets_until: u64,
}

/// How far the buffer has been given out; written under its lock, read by anybody.
#[derive(Debug)]
struct Drawn {
    last: AtomicU64,
    position: AtomicU64,
}

/// How far it has been emptied; written by whoever takes a turn.
#[derive(Debug)]
struct Written {
    /// Every record up to this LSN is durable. It stands still once the log has failed.
    durable: AtomicU64,
    /// The position before which everything is durable.
    position: AtomicU64,
    /// The position before which the buffer is free again.
    freed: AtomicU64,
    /// The ticket before which tickets are free again.
    tickets: AtomicU64,
}

impl SerialLog {
    /// The stream of the serial log.
    pub(crate) const STREAM: StreamId = StreamId(0);

    /// A log that goes on where `pen` stands, with the LSN `next`. `next_segment` is the index of the segment to make
    /// next; `capacity` the bytes of the buffer, at least 1 KiB, rounded up to a power of two.
    pub(crate) fn new(pen: Pen, next_segment: u64, next: Lsn, chunk_limit: usize, capacity: usize) -> Self {
        let ring = Ring::new((capacity / WORD).max(128));
        let releases = Releases::new(GROUPS.min(ring.capacity() as usize / 2));
        let longest_piece = ring.capacity() / 4;
        let buffer = Buffer {
            next: next.0,
            position: 0,
            ticket: 0,
            space_until: ring.capacity(),
            tickets_until: releases.capacity(),
        };
        let last = next.previous().0;
        Self {
            array: Array::new(SLOTS, longest_piece),
            buffer: Line(Mutex::new(buffer)),
            drawn: Line(Drawn { last: AtomicU64::new(last), position: AtomicU64::new(0) }),
            room: Room::new(Self::STREAM, &pen, next_segment, chunk_limit),
            writer: Line(Mutex::new(Writer::new(pen, next, chunk_limit))),
            written: Line(Written {
                durable: AtomicU64::new(last),
                position: AtomicU64::new(0),
                freed: AtomicU64::new(0),
                tickets: AtomicU64::new(0),
            }),
            wanted: Line(AtomicU64::new(last)),
            waiters: Waiters::default(),
            alarm: Alarm::default(),
            short_of_space: AtomicBool::new(false),
            space: (Mutex::new(()), Condvar::new()),
            staffed: AtomicBool::new(false),
            longest_piece,
            ring,
            releases,
        }
    }

    /// Every record up to this LSN is durable.
    pub(crate) fn durable(&self) -> Lsn {
        Lsn(self.written.0.durable.load(Ordering::SeqCst))
    }

    /// The largest LSN drawn so far.
    pub(crate) fn last_drawn(&self) -> Lsn {
        Lsn(self.drawn.0.last.load(Ordering::SeqCst))
    }

    /// Draws an LSN and puts the record into the buffer. Nothing is written to the medium here (a segment may be made, when
    /// none was prepared), so a caller may hold locks; but it waits while the buffer is full.
    ///
    /// Errors come before there is an LSN: a full medium ([`Error::Device`] of kind `Exhausted`), a full log ([`Error::Full`],
    /// at once), or a log that is closed.
    pub(crate) fn append(&self, ctx: &impl Context, payload: &[u8]) -> Result<Lsn> {
        ctx.check_open()?;
        let words = words_of(payload.len());
        if words > self.longest_piece {
            return Ok(self.draw(ctx, payload.len())?.record(payload));
        }
        if let Some(buffer) = self.buffer.0.try_lock() {
            return self.append_alone(ctx, buffer, payload);
        }
        if let Some(lsn) = self.append_together(ctx, words, payload) {
            return Ok(lsn);
        }
        self.append_alone(ctx, self.buffer.0.lock(), payload)
    }

    /// Draws an LSN for a record of at most `payload` bytes that is not decided yet. Others go on, but nothing behind this
    /// LSN becomes durable before the [`Draw`] is used or dropped; so its holder must not wait for the log meanwhile.
    pub(crate) fn draw<'a, C: Context>(&'a self, ctx: &'a C, payload: usize) -> Result<Draw<'a, C>> {
        ctx.check_open()?;
        if payload as u64 > LONGEST_RECORD {
            return Err(Error::Invalid {
                reason: format!("a record has at most {LONGEST_RECORD} bytes, not {payload}"),
            });
        }
        Draw::new(self, ctx, payload)
    }

    /// Returns when a record of `payload` bytes could have been appended. Holds nothing while it waits for a trim.
    pub(crate) fn wait_for_room(&self, ctx: &impl Context, payload: usize) -> Result<()> {
        // What was promised and is not needed comes back with the next chunks.
        if self.staffed.load(Ordering::SeqCst) {
            self.wanted.0.fetch_max(self.last_drawn().0, Ordering::SeqCst);
            self.alarm.ring();
        } else {
            self.turn(ctx)?;
        }
        self.room.wait_for(ctx, words_of(payload) * WORD as u64)
    }

    fn append_alone(&self, ctx: &impl Context, mut buffer: MutexGuard<'_, Buffer>, payload: &[u8]) -> Result<Lsn> {
        let words = words_of(payload.len());
        let place = self.reserve(ctx, &mut buffer, Gathered { records: 1, words })?;
        drop(buffer);
        self.fill(place.position, Lsn(place.first), Kind::Payload, payload);
        self.releases.release(place.ticket, place.position + words);
        Ok(Lsn(place.first))
    }

    /// As one of a group. `None` when there is none to join, or there was no place for it.
    fn append_together(&self, ctx: &impl Context, words: u64, payload: &[u8]) -> Option<Lsn> {
        let seat = self.array.join(first_slot(), words)?;
        if seat.leads() {
            let mut buffer = self.buffer.0.lock();
            let gathered = self.array.close(&seat);
            match self.reserve(ctx, &mut buffer, gathered) {
                Ok(place) => self.array.place(&seat, place),
                // Each member finds its own reason, or less room than all of them need.
                Err(_) => self.array.refuse(&seat),
            }
        }
        let place = self.array.wait(&seat)?;
        let lsn = Lsn(place.first + seat.index);
        self.fill(place.position + seat.offset, lsn, Kind::Payload, payload);
        if let Some(end) = self.array.leave(seat, place) {
            self.releases.release(place.ticket, end);
        }
        Some(lsn)
    }

    fn fill(&self, position: u64, lsn: Lsn, kind: Kind, payload: &[u8]) {
        put_header(&self.ring, position, lsn, kind, payload.len());
        self.ring.write(position + writer::HEADER_WORDS, payload);
    }

    /// Room on the medium, space in the buffer, and only then LSNs, for a group.
    fn reserve(&self, ctx: &impl Context, buffer: &mut Buffer, group: Gathered) -> Result<Place> {
        // Under the lock: whoever closes the log takes it once, and then flushes.
        ctx.check_open()?;
        let bytes = group.words * WORD as u64;
        self.room.promise(ctx, bytes)?;
        if let Err(error) = self.find_space(ctx, buffer, group.words).and_then(|()| ctx.check_open()) {
            self.room.take_back(bytes);
            return Err(error);
        }
        let first = self.draw_lsns(buffer, group.records);
        let (position, ticket) = self.take_space(buffer, group.words);
        Ok(Place { position, first, ticket })
    }

    fn draw_lsns(&self, buffer: &mut Buffer, records: u64) -> u64 {
        let first = buffer.next;
        buffer.next += records;
        self.drawn.0.last.store(buffer.next - 1, Ordering::Release);
        self.alarm.nudge();
        first
    }

    /// Gives out space that [`find_space`](Self::find_space) has found: its position and ticket.
    fn take_space(&self, buffer: &mut Buffer, words: u64) -> (u64, u64) {
        let taken = (buffer.position, buffer.ticket);
        buffer.position += words;
        buffer.ticket += 1;
        self.drawn.0.position.store(buffer.position, Ordering::Relaxed);
        taken
    }

    /// Returns when the buffer has space for a group of that many words. Fails when the log does.
    fn find_space(&self, ctx: &impl Context, buffer: &mut Buffer, words: u64) -> Result<()> {
        if self.has_space(buffer, words) {
            return Ok(());
        }
        while !self.look_for_space(buffer, words) {
            ctx.check_alive()?;
            if self.staffed.load(Ordering::SeqCst) {
                self.sleep_for_space(ctx, buffer, words);
            } else if !self.turn(ctx)? {
                thread::yield_now();
            }
        }
        Ok(())
    }

    fn has_space(&self, buffer: &mut Buffer, words: u64) -> bool {
        (buffer.position + words <= buffer.space_until && buffer.ticket < buffer.tickets_until)
            || self.look_for_space(buffer, words)
    }

    fn look_for_space(&self, buffer: &mut Buffer, words: u64) -> bool {
        buffer.space_until = self.written.0.freed.load(Ordering::SeqCst) + self.ring.capacity();
        buffer.tickets_until = self.written.0.tickets.load(Ordering::SeqCst) + self.releases.capacity();
        buffer.position + words <= buffer.space_until && buffer.ticket < buffer.tickets_until
    }

    /// Returns when there may be more space than before.
    fn sleep_for_space(&self, ctx: &impl Context, buffer: &mut Buffer, words: u64) {
        let mut space = self.space.0.lock();
        // All under the lock: whoever frees space, fails the log or leaves the post tells after this. Space is told of once,
        // be it enough or not; so the wish must not be older than the look.
        self.short_of_space.store(true, Ordering::SeqCst);
        self.alarm.ring();
        if !self.look_for_space(buffer, words) && ctx.check_alive().is_ok() && self.staffed.load(Ordering::SeqCst) {
            self.space.1.wait(&mut space);
        }
    }

    /// Returns when every record up to `lsn` is durable: only then may a commit be acknowledged. Errors once the log has
    /// failed.
    pub(crate) fn wait(&self, ctx: &impl Context, lsn: Lsn) -> Result<()> {
        if self.durable() >= lsn {
            return Ok(());
        }
        let lsn = lsn.min(self.last_drawn());
        loop {
            // The order matters: nothing that is written after a failure is acknowledged.
            let durable = self.durable();
            ctx.check_alive()?;
            if durable >= lsn {
                return Ok(());
            }
            if self.staffed.load(Ordering::SeqCst) {
                self.wanted.0.fetch_max(lsn.0, Ordering::SeqCst);
                self.alarm.ring();
                let over =
                    || self.durable() >= lsn || ctx.check_alive().is_err() || !self.staffed.load(Ordering::SeqCst);
                self.waiters.sleep(lsn, over);
            } else if !self.turn(ctx)? {
                thread::yield_now();
            }
        }
    }

    /// To be called after [`append`](Self::append), when locks are released: has the buffer written if a group's caps are
    /// reached.
    pub(crate) fn pace(&self, ctx: &impl Context) {
        if !self.caps_are_reached(ctx.settings()) {
            return;
        }
        if self.staffed.load(Ordering::Relaxed) {
            self.alarm.ring();
        } else if ctx.check_alive().is_ok() {
            // A failure is told to whoever waits.
            let _ = self.turn(ctx);
        }
    }

    fn caps_are_reached(&self, settings: &Settings) -> bool {
        let records = self.drawn.0.last.load(Ordering::Relaxed).saturating_sub(self.durable().0);
        let words = self.drawn.0.position.load(Ordering::Relaxed);
        let words = words.saturating_sub(self.written.0.position.load(Ordering::Relaxed));
        let caps = &settings.group;
        records >= caps.transactions as u64 || words * WORD as u64 >= caps.bytes.0
    }

    /// One turn: writes what is complete, as far as a batch of chunks holds, durably, and wakes who waited for it. False when there
    /// is nothing to write, or nothing that may be written before more is complete.
    pub(crate) fn turn(&self, ctx: &impl Context) -> Result<bool> {
        let mut writer = self.writer.0.lock();
        let writer = &mut *writer;
        ctx.check_alive()?;
        if let Err(defect) = writer.stage(&self.ring, &self.releases) {
            writer.pen = None;
            return Err(ctx.fail(defect));
        }
        self.free(writer);
        let staged = writer.staged * WORD as u64;
        if writer.blocks.is_empty() {
            self.room.take_back(staged);
            writer.staged = 0;
            return Ok(false);
        }
        let begun = writer.begun();
        let Some(pen) = &mut writer.pen else { return Err(Error::Closed) };
        self.room.hand_over(pen);
        let length = writer.blocks.iter().map(|block| block.length(pen.block_size())).sum();
        if !self.room.admit(length, staged) {
            return Ok(false);
        }
        if let Err(error) = pen.write(&mut writer.blocks, ctx.chunk_header(Self::STREAM, self.durable()), begun) {
            // The pen is gone and `durable` stands still: nothing is ever acknowledged again.
            writer.pen = None;
            return Err(ctx.fail(error));
        }
        if self.room.settle(ctx, pen) {
            ctx.runs_short();
        }
        writer.clear();
        ctx.check_alive()?;
        self.written.0.position.store(writer.cursor, Ordering::Relaxed);
        self.written.0.durable.store(writer.last().0, Ordering::SeqCst);
        self.waiters.wake(writer.last());
        Ok(true)
    }

    /// Tells that the buffer has space again.
    fn free(&self, writer: &Writer) {
        self.written.0.tickets.store(writer.ticket, Ordering::SeqCst);
        self.written.0.freed.store(writer.cursor, Ordering::SeqCst);
        if self.short_of_space.load(Ordering::SeqCst) && self.short_of_space.swap(false, Ordering::SeqCst) {
            self.tell_of_space();
        }
    }

    fn tell_of_space(&self) {
        drop(self.space.0.lock());
        self.space.1.notify_all();
    }

    /// Holds the caller back as far as the log's space asks for it. To be called without any lock.
    pub(crate) fn pay(&self, ctx: &impl Context) {
        ctx.pool().pace(self.room.unpaid(), || ctx.check_open().is_ok());
    }

    /// Makes a segment ahead of need. For another thread than the commit thread, which is not to stand still meanwhile.
    pub(crate) fn prepare_segment(&self, ctx: &impl Context) {
        self.room.prepare_segment(ctx);
    }

    /// Tells everybody that something is over: the log has failed, or its thread is to stop.
    pub(crate) fn wake_all(&self) {
        self.waiters.wake_all();
        self.tell_of_space();
        self.alarm.ring();
    }

    /// Returns when everybody who was past the door when the log was closed has drawn.
    pub(crate) fn bar(&self) {
        drop(self.buffer.0.lock());
    }

    /// Returns when nobody writes to the segments or makes one any more, and lets go of them. The log takes no more
    /// records, so that nobody begins again.
    pub(crate) fn come_to_rest(&self) {
        self.writer.0.lock().pen = None;
        self.room.come_to_rest();
    }
}

/// Where a thread looks for a group first. Few threads meet in one slot; on a large machine they would only fight for it.
fn first_slot() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static NUMBER: usize = THREADS.fetch_add(1, Ordering::Relaxed);
    }
    const THREADS_OF_A_SLOT: usize = 16;
    NUMBER.with(|number| number / THREADS_OF_A_SLOT % SLOTS)
}
