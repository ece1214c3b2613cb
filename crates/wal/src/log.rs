//! The log as a whole: its streams, its watermark, and how it opens, fails and closes.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use ishigaki_base::random::Seed;
use ishigaki_base::{Generation, LogId, Lsn, Position, StreamId};
use ishigaki_device::{AlignedBuffer, Device, Directory, MAX_BLOCK_SIZE, SECTOR};
use parking_lot::Mutex;

use crate::background::Background;
use crate::epoch::Epochs;
use crate::format::{CONTROL, Control, parse_segment_name};
use crate::herald::Herald;
use crate::keeper;
use crate::recovery::{self, Recovered, Replay};
use crate::stream::{State, refuse};
use crate::watermark::Watermark;
use crate::{Changes, CommitRule, Error, LogKind, Progress, Receipt, Recovery, Result, Settings, Sink, Stream};

/// The parallel write-ahead log.
///
/// Records are opaque bytes. Each gets an LSN, the order of all records over all streams, and goes into one stream's
/// buffer; a record is durable once the watermark has reached its LSN.
///
/// *Threads*: everything takes `&self` and may be called from any number of threads. *Drop* closes the log as
/// [`close`](Self::close) does, without telling of errors. *A crash* at any moment loses nothing that a
/// [`Stream::wait`] returned `Ok` for; the next [`open`](Self::open) replays it. *The first failed write or sync* closes
/// the log for good.
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
    control: Arc<dyn Device>,
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
    pub(crate) directory: Arc<dyn Directory>,
    pub(crate) settings: Settings,
    pub(crate) log: LogId,
    pub(crate) generation: Generation,
    /// The first LSN of this generation.
    pub(crate) base: Lsn,
    pub(crate) chunk_limit: usize,
    pub(crate) block_size: usize,
    pub(crate) watermark: Watermark,
    pub(crate) streams: Vec<State>,
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
    /// Opens the log of a directory and recovers it; makes one where there is none. `replay` is given every record that
    /// survived, once, in LSN order. The caller holds the directory's lock.
    ///
    /// Recovery keeps every record up to the first LSN that no stream has. What it drops was never acknowledged and can
    /// never come back: a new generation, durable before the first append, voids it.
    pub fn open(
        directory: Arc<dyn Directory>,
        settings: Settings,
        replay: Replay<'_>,
    ) -> Result<(Arc<Self>, Recovery)> {
        let limit = settings.chunk_limit();
        Self::begin(directory, settings, |directory, control| recovery::recover(directory, control, limit, replay))
    }

    /// [`open`](Self::open) as fast as the device allows: the streams are read side by side by
    /// [`Settings::recovery_threads`], and the records that survived go to the `sink` from all of these threads, in any
    /// order. The same records are kept.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::collections::BTreeMap;
    /// use std::sync::{Arc, Mutex};
    /// use ishigaki_base::Position;
    /// use ishigaki_device::MemoryDirectory;
    /// use ishigaki_wal::{Log, Progress, Settings, Sink};
    ///
    /// struct Texts(Mutex<BTreeMap<Position, Vec<u8>>>);
    ///
    /// impl Sink for Texts {
    ///     fn take(
    ///         &self,
    ///         position: Position,
    ///         payload: &[u8],
    ///     ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    ///         self.0.lock().map_err(|_| "another thread has panicked")?.insert(position, payload.to_vec());
    ///         Ok(())
    ///     }
    /// }
    ///
    /// let directory = Arc::new(MemoryDirectory::new());
    /// let (log, _) = Log::open(directory.clone(), Settings::default(), &mut |_, _| Ok(()))?;
    /// for text in ["to be", "or not to be"] {
    ///     log.assign().append(text.as_bytes())?;
    /// }
    /// log.close()?;
    ///
    /// let texts = Texts(Mutex::default());
    /// let (_, recovery) = Log::recover(directory, Settings::default(), &texts, &Progress::default())?;
    /// assert_eq!((recovery.records, texts.0.into_inner()?.len()), (2, 2));
    /// # Ok(())
    /// # }
    /// ```
    pub fn recover(
        directory: Arc<dyn Directory>,
        settings: Settings,
        sink: &dyn Sink,
        progress: &Progress,
    ) -> Result<(Arc<Self>, Recovery)> {
        let (limit, threads) = (settings.chunk_limit(), settings.recovery_threads);
        Self::begin(directory, settings, |directory, control| {
            recovery::recover_in_parallel(directory, control, limit, threads, sink, progress)
        })
    }

    fn begin(
        directory: Arc<dyn Directory>,
        settings: Settings,
        recover: impl FnOnce(&dyn Directory, &Control) -> Result<Recovered>,
    ) -> Result<(Arc<Self>, Recovery)> {
        settings.validate()?;
        let control_device = open_control(directory.as_ref())?;
        // A process may have died between a rename or creation and its sync; what is seen here must stay.
        directory.sync()?;
        let control = read_control(control_device.as_ref())?;
        let Recovered { next, tails, report } = recover(directory.as_ref(), &control)?;

        // From here on a failure is found by the next opening: the log does not count as closed cleanly any more.
        let generation = control.generation.next();
        let opened = Control { generation, base: next, clean: None, ..control };
        write_control(control_device.as_ref(), &opened)?;
        let chunk_limit = settings.chunk_limit();
        let mut streams = Vec::new();
        for id in (0..settings.streams).map(StreamId) {
            let tail = tails.iter().find(|tail| tail.stream == id);
            streams.push(recovery::resume(directory.as_ref(), id, tail, &settings, next)?);
        }
        tracing::info!(log = %control.log, %generation, first = %next, records = report.records, "log opened");

        let (background, kind) = (settings.background, settings.kind);
        let shared = Arc::new_cyclic(|myself| Shared {
            myself: myself.clone(),
            directory,
            log: control.log,
            generation,
            base: next,
            chunk_limit,
            block_size: control_device.promise().block_size,
            watermark: Watermark::new(settings.streams, next),
            heralds: streams.iter().map(|_| Herald::default()).collect(),
            streams,
            epochs: Epochs::of(kind, background, next),
            failure: OnceLock::new(),
            closed: AtomicBool::new(false),
            keeper_sleeps: AtomicBool::new(false),
            keeper_wakes: OnceLock::new(),
            settings,
        });
        let mut threads = Vec::new();
        if background {
            threads.push(keeper::start(&shared)?);
            if let LogKind::Epoch { time } = kind {
                threads.push(Epochs::start(&shared, time)?);
            }
        }
        let (assigned, ended) = (AtomicUsize::new(0), Mutex::new(None));
        let log = Self { shared, control: control_device, assigned, ended, threads };
        Ok((Arc::new(log), Recovery { generation, ..report }))
    }

    /// A handle on a stream for one more session; streams are given out in turn.
    pub fn assign(&self) -> Stream {
        let place = self.assigned.fetch_add(1, Ordering::Relaxed) % self.shared.streams.len();
        Stream::new(self.shared.clone(), place)
    }

    /// A handle on the stream of that number.
    pub fn stream(&self, id: StreamId) -> Option<Stream> {
        let place = usize::from(id.0);
        (place < self.shared.streams.len()).then(|| Stream::new(self.shared.clone(), place))
    }

    /// The records from that LSN on that are durable with everything before them, in LSN order: those up to the
    /// [`watermark`](Self::watermark) of this moment. Whoever wants to follow the log asks again with the LSN after the last
    /// one given. The log stays in use meanwhile.
    pub fn changes(&self, from: Lsn) -> Result<Changes<'_>> {
        // The watermark first: what it covers is on the medium by now.
        let up_to = self.shared.observe();
        Changes::up_to(self.shared.directory.as_ref(), from, Some(up_to))
    }

    /// Every record with an LSN up to this one is durable.
    pub fn watermark(&self) -> Lsn {
        self.shared.observe()
    }

    /// The largest LSN drawn so far.
    pub fn last_drawn(&self) -> Lsn {
        self.shared.watermark.last_drawn()
    }

    /// Whether every record with an LSN up to `lsn` is durable. Never waits.
    pub fn is_durable(&self, lsn: Lsn) -> bool {
        self.shared.watermark.reached() >= lsn || self.shared.observe() >= lsn
    }

    /// Whether [`Stream::settle`] would return at once with success. Never waits.
    pub fn has_settled(&self, receipt: &Receipt) -> bool {
        self.shared.is_acknowledged(receipt)
    }

    /// Why the log takes no more records, when it has failed.
    pub fn failure(&self) -> Option<Error> {
        self.shared.failure.get().cloned()
    }

    /// Returns when everything drawn so far is durable.
    pub fn flush(&self) -> Result<()> {
        self.shared.make_durable(0, self.last_drawn())
    }

    /// Flushes, takes no more records, and notes the end of the log durably: a log that was closed must be found whole.
    pub fn close(&self) -> Result<()> {
        let mut ended = self.ended.lock();
        ended.get_or_insert_with(|| self.end()).clone()
    }

    fn end(&self) -> Result<()> {
        self.shared.closed.store(true, Ordering::SeqCst);
        self.threads.iter().for_each(Background::stop);
        // A draw that was past the door still holds its stream's lock; after these it has its record in the buffer.
        self.shared.streams.iter().for_each(State::wake_all);
        let flushed = self.shared.check_alive().and_then(|()| self.flush());
        if let (Some(epochs), Ok(())) = (&self.shared.epochs, &flushed) {
            epochs.end(self.last_drawn());
        }
        self.shared.heralds.iter().for_each(Herald::stop);
        // Whoever opens the log next must not find one of our writes still on its way.
        self.shared.streams.iter().for_each(State::come_to_rest);
        flushed.and_then(|()| self.shared.check_alive())?;
        let shared = &self.shared;
        let (log, generation, base) = (shared.log, shared.generation, shared.base);
        write_control(self.control.as_ref(), &Control { log, generation, base, clean: Some(self.last_drawn()) })
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
        self.epochs.iter().for_each(Epochs::wake_all);
        self.failure.get().cloned().unwrap_or(failure)
    }

    /// The watermark; it stands still once the log has failed.
    pub(crate) fn observe(&self) -> Lsn {
        if self.failure.get().is_some() { self.watermark.reached() } else { self.watermark.observe() }
    }

    /// See [`Stream::wait`].
    pub(crate) fn wait(&self, own: usize, lsn: Lsn) -> Result<()> {
        match &self.epochs {
            Some(epochs) => epochs.wait(self, lsn),
            None => self.make_durable(own, lsn),
        }
    }

    /// Makes everything up to `lsn` durable, beginning with the stream of place `own`.
    pub(crate) fn make_durable(&self, own: usize, lsn: Lsn) -> Result<()> {
        if self.watermark.reached() >= lsn {
            return Ok(());
        }
        let lsn = lsn.min(self.watermark.last_drawn());
        self.streams[own].flush(self, lsn)?;
        loop {
            // The order matters: nothing that is settled after a failure is acknowledged.
            let reached = self.observe();
            self.check_alive()?;
            if reached >= lsn {
                return Ok(());
            }
            for stream in self.streams.iter().filter(|stream| self.watermark.bound(stream.id()) <= lsn) {
                stream.flush(self, lsn)?;
            }
        }
    }

    /// See [`Stream::settle`].
    pub(crate) fn acknowledge(&self, own: usize, receipt: &Receipt) -> Result<()> {
        if self.waits_for_all() {
            return self.wait(own, receipt.lsn());
        }
        if receipt.position != Position::NONE {
            let state = &self.streams[usize::from(receipt.position.stream().0)];
            if state.standing().durable() < receipt.position.lsn() {
                state.flush(self, receipt.position.lsn())?;
            }
        }
        receipt.dependencies.iter().try_for_each(|position| self.settle(position))?;
        // The order matters: nothing that is settled after a failure is acknowledged.
        self.check_alive()
    }

    /// Whether [`acknowledge`](Self::acknowledge) would return at once with success.
    pub(crate) fn is_acknowledged(&self, receipt: &Receipt) -> bool {
        let (lsn, own) = (receipt.position.lsn(), usize::from(receipt.position.stream().0));
        match &self.epochs {
            Some(epochs) => epochs.ended() >= receipt.lsn(),
            None if self.waits_for_all() => {
                self.watermark.reached() >= receipt.lsn() || self.observe() >= receipt.lsn()
            }
            None => {
                self.streams[own].standing().durable() >= lsn
                    && receipt.dependencies.iter().all(|position| self.has_settled(position))
            }
        }
    }

    /// Whether a commit waits for everything with a smaller LSN.
    fn waits_for_all(&self) -> bool {
        self.settings.commit == CommitRule::Watermark || self.epochs.is_some()
    }

    /// Closed by its owner.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// Returns when that record is durable with all that it depends on.
    pub(crate) fn settle(&self, position: Position) -> Result<()> {
        match self.streams.get(usize::from(position.stream().0)) {
            Some(state) => state.settle(self, position.lsn()),
            // Of a stream that there was before this generation: recovery has kept it.
            None => Ok(()),
        }
    }

    /// Whether that record is durable with all that it depends on. Never waits.
    pub(crate) fn has_settled(&self, position: Position) -> bool {
        let state = self.streams.get(usize::from(position.stream().0));
        state.is_none_or(|state| state.standing().settled() >= position.lsn())
    }

    /// The stream of that place, or another one if its device slot is taken and the other one's is free.
    pub(crate) fn least_busy(&self, place: usize) -> &State {
        let own = &self.streams[place];
        if !own.is_busy() {
            return own;
        }
        let (before, after) = self.streams.split_at(place);
        after.iter().chain(before).find(|state| !state.is_busy()).unwrap_or(own)
    }

    /// Leaves a stream's free slot to its own thread. False if it must not have one.
    pub(crate) fn hand_over(&self, stream: StreamId) -> bool {
        let place = usize::from(stream.0);
        self.settings.background && self.heralds[place].take_over(&self.myself, self.is_closed(), place)
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

/// The control block's device; makes the log's first one in a directory that has no log.
fn open_control(directory: &dyn Directory) -> Result<Arc<dyn Device>> {
    let names = directory.list()?;
    let mut control = Control {
        log: LogId(Seed::from_entropy().0),
        generation: Generation(0),
        base: Lsn::FIRST,
        clean: Some(Lsn::ZERO),
    };
    if names.iter().any(|name| name == CONTROL) {
        let device = directory.open(CONTROL)?;
        control = read_control(device.as_ref())?;
        if control.generation > Generation(0) {
            return Ok(device);
        }
        // The log was never opened: the sync of this name may have failed, and then no later one helps. It is made again.
    } else if let Some(segment) = names.iter().find(|name| parse_segment_name(name).is_some()) {
        return Err(Error::Corrupt { stream: None, what: format!("there is {segment} but no {CONTROL}") });
    }
    // Born under another name, so that a control block is always a whole one.
    let unborn = format!("{CONTROL}.new");
    if names.contains(&unborn) {
        directory.remove(&unborn)?;
    }
    let device = directory.create(&unborn, MAX_BLOCK_SIZE as u64)?;
    write_control(device.as_ref(), &control)?;
    directory.rename(&unborn, CONTROL)?;
    directory.sync()?;
    Ok(device)
}

pub(crate) fn read_control(device: &dyn Device) -> Result<Control> {
    if device.len() < MAX_BLOCK_SIZE as u64 {
        return Err(Error::Corrupt { stream: None, what: format!("{CONTROL} is too short") });
    }
    let mut block = AlignedBuffer::zeroed(MAX_BLOCK_SIZE);
    device.read_at(0, &mut block)?;
    Control::decode(&block[..SECTOR])
}

fn write_control(device: &dyn Device, control: &Control) -> Result<()> {
    let mut block = AlignedBuffer::zeroed(device.promise().block_size);
    control.encode(&mut block[..SECTOR]);
    Ok(device.write_durable(0, &block)?)
}
