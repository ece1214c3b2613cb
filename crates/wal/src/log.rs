//! The log as a whole: its streams, its watermark, and how it opens, fails and closes.

mod acknowledging;
mod opening;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use ishigaki_base::{Generation, LogId, Lsn, Position, StreamId};
use parking_lot::Mutex;

use crate::background::Background;
use crate::control::ControlBlock;
use crate::epoch::Epochs;
use crate::format::{ChunkHeader, NO_RECORD};
use crate::herald::Herald;
use crate::serial::{self, SerialLog};
use crate::space::{Pool, Space};
use crate::stream::{State, refuse};
use crate::watermark::Watermark;
use crate::{Changes, Error, Receipt, Result, Settings, Start, Stream};

/// The parallel write-ahead log.
///
/// Records are opaque bytes. Each gets an LSN, the order of all records over all streams, and goes into one stream's
/// buffer; a record is durable once the watermark has reached its LSN.
///
/// *Threads*: everything takes `&self` and may be called from any number of threads. *Drop* closes the log as
/// [`close`](Self::close) does, without telling of errors. *A crash* at any moment loses nothing that a
/// [`Stream::wait`] returned `Ok` for; the next [`open`](Self::open) replays it. *The first failed write or sync*
/// closes the log for good.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::sync::Arc;
/// use ishigaki_device::MemoryDirectory;
/// use ishigaki_wal::{Log, Settings};
///
/// let directory = Arc::new(MemoryDirectory::new());
/// let (log, _) = Log::open(directory.clone(), Settings::default(), &mut |_, _| Ok(()))?;
/// let stream = log.assign();
/// let lsn = stream.append(b"to be or not to be")?;
/// stream.wait(lsn)?;
/// log.close()?;
///
/// let mut seen = Vec::new();
/// Log::open(directory, Settings::default(), &mut |record, payload| Ok(seen.push((record.lsn(), payload.to_vec()))))?;
/// assert_eq!(seen, [(lsn, b"to be or not to be".to_vec())]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Log {
    shared: Arc<Shared>,
    control: ControlBlock,
    /// One trim at a time, and none once the log is closed.
    trimming: Mutex<()>,
    /// Sessions assigned so far.
    assigned: AtomicUsize,
    /// How closing went, once it is over.
    ended: Mutex<Option<Result<()>>>,
    /// Threads that run as long as the log is open.
    threads: Vec<Background>,
}

/// What the log, its streams' handles and its background thread share.
#[derive(Debug)]
pub(crate) struct Shared {
    /// For threads that must not hold the log open.
    myself: Weak<Self>,
    pub(crate) pool: Arc<Pool>,
    pub(crate) settings: Settings,
    pub(crate) log: LogId,
    pub(crate) generation: Generation,
    /// The first LSN of this generation.
    pub(crate) base: Lsn,
    pub(crate) chunk_limit: usize,
    pub(crate) block_size: usize,
    pub(crate) watermark: Watermark,
    /// None in a serial log.
    pub(crate) streams: Vec<State>,
    pub(crate) serial: Option<SerialLog>,
    /// Where the log acknowledges by epochs.
    pub(crate) epochs: Option<Epochs>,
    /// By stream: who waits without a thread.
    pub(crate) heralds: Vec<Herald>,
    /// The first failure, which closes the log for good.
    failure: OnceLock<Error>,
    /// Closed by its owner.
    closed: AtomicBool,
    /// Set by the background thread when it sleeps for lack of work.
    pub(crate) keeper_sleeps: AtomicBool,
    pub(crate) keeper_wakes: OnceLock<std::thread::Thread>,
}

impl Log {
    /// A handle on a stream for one more session; [`Settings::streams`] are given out in turn.
    pub fn assign(&self) -> Stream {
        let given = self.shared.heralds.len().min(self.shared.settings.streams.into());
        let place = self.assigned.fetch_add(1, Ordering::Relaxed) % given;
        Stream::new(self.shared.clone(), place)
    }

    /// A handle on the stream of that number.
    pub fn stream(&self, id: StreamId) -> Option<Stream> {
        let place = usize::from(id.0);
        (place < self.shared.heralds.len()).then(|| Stream::new(self.shared.clone(), place))
    }

    /// Its identity.
    pub fn id(&self) -> LogId {
        self.shared.log
    }

    /// The records from that LSN on that are durable with everything before them, in LSN order: those up to the
    /// [`watermark`](Self::watermark) of this moment. Whoever wants to follow the log asks again with the LSN after the last
    /// one given. The log stays in use meanwhile, and may be trimmed.
    ///
    /// # Errors
    ///
    /// [`Error::Trimmed`] when the log begins behind that LSN, or comes to do so before the records are given.
    pub fn changes(&self, from: Lsn) -> Result<Changes<'_>> {
        // The watermark first: what it covers is on the medium by now.
        let up_to = self.shared.observe();
        Changes::of_log_in_use(self.shared.pool.directory(), &self.control, from, up_to)
    }

    /// Every record with an LSN up to this one is durable.
    pub fn watermark(&self) -> Lsn {
        self.shared.observe()
    }

    /// The largest LSN drawn so far.
    pub fn last_drawn(&self) -> Lsn {
        self.shared.last_drawn()
    }

    /// Whether every record with an LSN up to `lsn` is durable. Never waits.
    pub fn is_durable(&self, lsn: Lsn) -> bool {
        self.shared.reaches(lsn)
    }

    /// Whether [`Stream::settle`] would return at once with success. Never waits.
    pub fn has_settled(&self, receipt: &Receipt) -> bool {
        self.shared.is_acknowledged(receipt)
    }

    /// Whether that record itself is durable, whatever it depends on: it may not be acknowledged for that alone. Never
    /// waits.
    pub fn has_written(&self, position: Position) -> bool {
        match self.shared.streams.get(usize::from(position.stream().0)) {
            Some(state) => state.standing().durable() >= position.lsn(),
            None => self.is_durable(position.lsn()),
        }
    }

    /// Why the log takes no more records, when it has failed.
    pub fn failure(&self) -> Option<Error> {
        self.shared.failure.get().cloned()
    }

    /// Returns when everything drawn so far is durable.
    pub fn flush(&self) -> Result<()> {
        self.shared.make_durable(0, self.last_drawn())
    }

    /// From where the log will be needed once everything drawn so far has its effects elsewhere.
    pub fn here(&self) -> Start {
        Start { generation: self.shared.generation, lsn: self.last_drawn().next() }
    }

    /// From where the log is needed, and can be read: everything before was given free.
    pub fn start(&self) -> Start {
        self.control.contents().start
    }

    /// What the log takes on its medium.
    pub fn space(&self) -> Space {
        self.shared.pool.space()
    }

    /// Takes all the space that the log may have, so that no other user of the medium gets it. Best with
    /// [`Settings::trim`] off, which gives space back.
    ///
    /// # Errors
    ///
    /// When the medium has not so much. The log then takes a segment after the other, as before.
    pub fn reserve(&self) -> Result<()> {
        self.shared.pool.reserve()
    }

    /// Gives everything free that lies before `to`: all of it has its effects elsewhere, durably. From now on the log opens
    /// [from there](Self::open_from), and segments that hold nothing else are used again.
    ///
    /// Makes durable what lies before, then notes `to` durably, then frees segments and blanks some of them; so it does as
    /// much I/O as it frees, in the caller's thread, while others append. A point before an earlier trim is no error.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for a point that the log has not reached, or that lies before its generation. Any failure of the medium closes the log.
    pub fn trim(&self, to: Start) -> Result<()> {
        let _one_at_a_time = self.trimming.lock();
        let shared = &self.shared;
        shared.check_open()?;
        let was_there = if to.generation < shared.generation { to.lsn <= shared.base } else { to.lsn >= shared.base };
        if to > self.here() || !was_there {
            let (base, here) = (shared.base, self.here());
            let reason = format!("the log can not be trimmed to {to}: it has come from {base} to {here}");
            return Err(Error::Invalid { reason });
        }
        if to.generation == shared.generation {
            shared.make_durable(0, to.lsn.previous())?;
        }
        let start = to.max(self.control.contents().start);
        let noted = self.control.update(|control| control.start = start);
        let freed = noted.and_then(|()| shared.pool.free(start)).and_then(|()| shared.pool.blank_spares());
        freed.map_err(|error| shared.fail(error))
    }

    /// Flushes, takes no more records, and notes the end of the log durably: a log that was closed must be found whole.
    pub fn close(&self) -> Result<()> {
        let mut ended = self.ended.lock();
        ended.get_or_insert_with(|| self.end()).clone()
    }

    fn end(&self) -> Result<()> {
        let shared = &self.shared;
        shared.closed.store(true, Ordering::SeqCst);
        shared.pool.wake_all();
        drop(self.trimming.lock());
        self.threads.iter().for_each(Background::stop);
        // A draw that was past the door still holds its stream's lock; after these it has its record in the buffer.
        self.shared.streams.iter().for_each(State::wake_all);
        self.shared.serial.iter().for_each(SerialLog::bar);
        let flushed = self.shared.check_alive().and_then(|()| self.flush());
        if let (Some(epochs), Ok(())) = (&self.shared.epochs, &flushed) {
            epochs.end(self.last_drawn());
        }
        self.shared.heralds.iter().for_each(Herald::stop);
        // Whoever opens the log next must not find one of our writes still on its way.
        self.shared.streams.iter().for_each(State::come_to_rest);
        self.shared.serial.iter().for_each(SerialLog::come_to_rest);
        flushed.and_then(|()| shared.check_alive())?;
        self.control.update(|control| control.clean = Some(self.last_drawn()))
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            tracing::warn!(%error, "the log could not be closed cleanly");
        }
    }
}

impl Shared {
    /// Fails once the log has failed.
    pub(crate) fn check_alive(&self) -> Result<()> {
        refuse(self.failure.get(), false)
    }

    /// Fails once the log has failed or was closed.
    pub(crate) fn check_open(&self) -> Result<()> {
        refuse(self.failure.get(), self.closed.load(Ordering::SeqCst))
    }

    /// Closes the log for good and tells everybody who waits. The first failure counts.
    pub(crate) fn fail(&self, error: Error) -> Error {
        let failure = match error {
            Error::Device(cause) => Error::Failed { cause },
            other => other,
        };
        if self.failure.set(failure.clone()).is_ok() {
            tracing::error!(error = %failure, "the log failed and is closed");
        }
        self.streams.iter().for_each(State::wake_all);
        self.serial.iter().for_each(SerialLog::wake_all);
        self.pool.wake_all();
        self.epochs.iter().for_each(Epochs::wake_all);
        self.failure.get().cloned().unwrap_or(failure)
    }

    /// The largest LSN drawn so far.
    pub(crate) fn last_drawn(&self) -> Lsn {
        self.serial.as_ref().map_or_else(|| self.watermark.last_drawn(), SerialLog::last_drawn)
    }

    /// Whether every record with an LSN up to `lsn` is durable.
    fn reaches(&self, lsn: Lsn) -> bool {
        match &self.serial {
            Some(serial) => serial.durable() >= lsn,
            None => self.watermark.reached() >= lsn || self.observe() >= lsn,
        }
    }

    /// The watermark; it stands still once the log has failed.
    pub(crate) fn observe(&self) -> Lsn {
        if let Some(serial) = &self.serial {
            return serial.durable();
        }
        if self.failure.get().is_some() { self.watermark.reached() } else { self.watermark.observe() }
    }

    /// Closed by its owner.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// The stream of that place; or a free one if that one is writing for a few. For many it pays to share one write: what
    /// comes now has more company in its own stream's next group than a write of its own would be worth.
    pub(crate) fn least_busy(&self, place: usize) -> &State {
        let own = &self.streams[place];
        if !own.writes_for_few() {
            return own;
        }
        let (before, after) = self.streams.split_at(place);
        after.iter().chain(before).find(|state| state.is_free()).unwrap_or(own)
    }

    /// The header of a chunk to be written now; its block knows what is missing.
    pub(crate) fn chunk_header(&self, stream: StreamId, watermark: Lsn) -> ChunkHeader {
        ChunkHeader {
            block: 0,
            rule: self.settings.commit,
            stream,
            batch: 0,
            log: self.log,
            generation: self.generation,
            base: self.base,
            sequence: 0,
            watermark,
            payload: 0,
            first_record: NO_RECORD,
            payload_crc: 0,
        }
    }

    /// Notes who waits for records of that stream these days: tasks, or threads.
    pub(crate) fn note_waiting(&self, receipt: &Receipt, as_task: bool) {
        if let Some(stream) = self.streams.get(usize::from(receipt.position.stream().0)) {
            stream.note_waiting(as_task);
        }
    }

    /// Writes what the stream of that place holds, if that can be done at once and takes no longer than a task may hold its
    /// executor up. Where another thread writes or decides, it is left to that one.
    pub(crate) fn write_briefly(&self, place: usize) -> bool {
        self.epochs.is_none() && self.streams.get(place).is_some_and(|stream| stream.write_briefly(self))
    }

    /// Leaves a stream's free slot to its own thread. False if it has none that could be relied on.
    pub(crate) fn hand_over(&self, stream: StreamId) -> bool {
        let place = usize::from(stream.0);
        self.settings.background && self.heralds[place].take_over(&self.myself, place)
    }

    /// Wakes the background thread if it sleeps for lack of work.
    pub(crate) fn nudge(&self) {
        if self.keeper_sleeps.load(Ordering::Relaxed)
            && self.keeper_sleeps.swap(false, Ordering::SeqCst)
            && let Some(thread) = self.keeper_wakes.get()
        {
            thread.unpark();
        }
    }
}

impl serial::Context for Shared {
    fn check_alive(&self) -> Result<()> {
        self.check_alive()
    }

    fn check_open(&self) -> Result<()> {
        self.check_open()
    }

    fn fail(&self, error: Error) -> Error {
        self.fail(error)
    }

    fn runs_short(&self) {
        self.nudge();
    }

    fn pool(&self) -> &Pool {
        &self.pool
    }

    fn settings(&self) -> &Settings {
        &self.settings
    }

    fn chunk_header(&self, stream: StreamId, watermark: Lsn) -> ChunkHeader {
        self.chunk_header(stream, watermark)
    }
}
