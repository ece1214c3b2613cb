//! The space of a log: how much it takes, how it is used again, and what happens when it runs out.
//!
//! ```text
//!                  take: blank it, rename it                    the pen goes on to the next segment
//!   spares ─────────────────────────────────▶ written by a stream ─────────────────────────────────▶ retired
//!     ▲                                                                                                 │
//!     └──── free: renamed, lowest index first, when a trim says that nothing in it is needed ───────────┘
//! ```
//!
//! All segments together stay within a bound. *Live* are those that streams have; only a trim makes them fewer. When they
//! become many, sessions are slowed down, in [`Pool::pace`], where they hold no locks: the less there is left, the
//! more, so that the log's growth meets the speed of whoever trims ([`throttle`]). One segment per stream is kept from that,
//! for those who hold locks already; only when that is gone too does an append wait, for a time, and then fail. Who holds
//! something that a trim needs is refused instead, and waits when it has let go of that
//! ([`Stream::try_append_after`](crate::Stream::try_append_after)).
//!
//! A segment is freed in three steps, each durable before the next: the start is in the control block, the segment is
//! renamed to a spare, its bytes are blanked. Of one stream the lowest segment goes first, and no second one before that is
//! durable: whatever a power cut undoes, there is never a hole in a stream's numbers.

mod reserving;
mod spares;
mod throttle;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ishigaki_base::{ByteSize, ErrorKind, StreamId};
use ishigaki_device::Directory;
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::format::segment_name;
use crate::segment::Segment;
use crate::{Error, Result, Settings, Start};
pub(crate) use spares::Spares;
use spares::{Spare, blank};
use throttle::Throttle;

/// Spares that one trim blanks, per stream; the others are blanked when they are taken.
const BLANKED_PER_TRIM: usize = 4;

/// Waiting for a trim so long is told in the program's log.
const WARN_AFTER: Duration = Duration::from_secs(1);

/// What a log takes on its medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Bytes of all segments, spares included.
    pub used: ByteSize,
    /// What `used` stays within. It may begin beyond when the setting was made smaller or the number of streams larger.
    pub bound: ByteSize,
    /// Bytes of the segments of streams: they hold records or are about to. Only a trim makes them fewer.
    pub live: ByteSize,
    /// While no more bytes than these are live, nobody is slowed down. A trim should come before.
    pub easy: ByteSize,
}

/// Why somebody wants a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// To have it ready. Never waits.
    Ahead,
    /// A record can not be appended without, or a stream not be opened.
    Append,
}

/// A segment that a stream writes no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Retired {
    pub(crate) index: u64,
    pub(crate) length: u64,
    /// No record in it lies behind this one; the beginning of all if it holds none.
    pub(crate) last: Start,
}

/// All segments of an open log, but for those that the pens hold.
#[derive(Debug)]
pub(crate) struct Pool {
    directory: Arc<dyn Directory>,
    /// Bytes of a segment made now.
    length: u64,
    streams: usize,
    /// Bytes that all segments may take.
    bound: u64,
    /// Whether spares are given back to the medium before they are used again.
    trim: bool,
    /// How long somebody waits for a trim.
    patience: Duration,
    throttle: Throttle,
    inner: Mutex<Inner>,
    /// Bytes of the streams' segments. Changed under the lock, read without it.
    live: AtomicU64,
    /// Of these, so many are not held against anybody: when the log was opened, it was longer than it may be now.
    borne: AtomicU64,
    /// Told when there may be space again.
    changed: Condvar,
}

/// What the pool's lock guards. Nobody waits for the medium under it.
#[derive(Debug)]
struct Inner {
    /// Bytes of all segments, those included that are being made.
    used: u64,
    spares: Spares,
    /// In the order of their indexes.
    retired: BTreeMap<StreamId, VecDeque<Retired>>,
    /// Until when the slowed sessions have paid.
    due: Instant,
    /// How often segments were freed; after each time everybody goes on.
    freed: u64,
    /// How often anything changed that somebody may wait for.
    changes: u64,
    /// Somebody has waited for a trim in vain, since the last one that freed anything. Nobody waits again.
    given_up: bool,
    /// And it was told.
    warned: bool,
}

/// Where a segment comes from.
enum Source {
    Blank(Spare),
    Soiled(Spare),
    New,
}

impl Pool {
    /// Of a log that has no stream yet.
    pub(crate) fn new(directory: Arc<dyn Directory>, settings: &Settings, spares: Spares) -> Self {
        let (bound, length) = (settings.bound(), settings.segment.0);
        let inner = Inner {
            used: spares.bytes(),
            spares,
            retired: BTreeMap::new(),
            due: Instant::now(),
            freed: 0,
            changes: 0,
            given_up: false,
            warned: false,
        };
        Self {
            directory,
            length,
            streams: settings.all_streams().into(),
            bound,
            trim: settings.trim,
            patience: settings.space_wait,
            throttle: Throttle::new(bound - length * u64::from(settings.all_streams())),
            inner: Mutex::new(inner),
            live: AtomicU64::new(0),
            borne: AtomicU64::new(0),
            changed: Condvar::new(),
        }
    }

    /// What the log takes.
    pub(crate) fn space(&self) -> Space {
        let inner = self.inner.lock();
        let live = self.live.load(Ordering::Relaxed);
        let easy = ByteSize(self.throttle.easy());
        Space { used: ByteSize(inner.used), bound: ByteSize(self.bound), live: ByteSize(live), easy }
    }

    /// Where the log is.
    pub(crate) fn directory(&self) -> &dyn Directory {
        self.directory.as_ref()
    }

    /// Bytes that the log may take.
    pub(crate) fn bound(&self) -> u64 {
        self.bound
    }

    /// Counts a segment that a stream was found with.
    pub(crate) fn count(&self, length: u64) {
        let mut inner = self.inner.lock();
        inner.used += length;
        self.live.fetch_add(length, Ordering::Relaxed);
    }

    /// Says how much longer than its bound the log may be until a trim makes it shorter; nothing else raises the bound. If
    /// the log is longer already, because it was given more space or larger segments when it was last opened, sessions would all
    /// have to wait for a trim: so it may grow as if it were at ease. Else each stream may have the segment that it opens with.
    pub(crate) fn bear_with_what_is_there(&self) {
        let live = self.live.load(Ordering::Relaxed);
        let opened = live + self.length * self.streams as u64;
        let borne = if live > self.bound { live - self.throttle.easy() } else { opened.saturating_sub(self.bound) };
        self.borne.store(borne, Ordering::Relaxed);
    }

    /// Whether so much is live that sessions are slowed down.
    pub(crate) fn is_tight(&self) -> bool {
        self.live.load(Ordering::Relaxed) > self.throttle.easy()
    }

    /// Live bytes that count against the bound.
    fn counted(&self) -> u64 {
        self.live.load(Ordering::Relaxed).saturating_sub(self.borne.load(Ordering::Relaxed))
    }

    /// The stream writes that segment no more, and all that is in it is durable or about to be. Called in the order of the
    /// indexes.
    pub(crate) fn retire(&self, stream: StreamId, segment: Retired) {
        self.inner.lock().retired.entry(stream).or_default().push_back(segment);
    }

    /// A blank segment for the stream, its name durable. Never waits for a trim: at the bound it is [`Error::Full`].
    ///
    /// Any error but those of the kind `Exhausted` leaves unknown state.
    pub(crate) fn take(&self, stream: StreamId, index: u64, need: Need) -> Result<Segment> {
        let source = self.source(&mut self.inner.lock(), need);
        let Some(source) = source else { return Err(self.full()) };
        let made = self.make(&source, stream, index);
        if made.is_err() {
            let mut inner = self.inner.lock();
            self.live.fetch_sub(self.length, Ordering::Relaxed);
            match source {
                Source::New => inner.used -= self.length,
                Source::Blank(spare) | Source::Soiled(spare) => inner.spares.soiled.push(spare),
            }
        }
        made
    }

    fn make(&self, source: &Source, stream: StreamId, index: u64) -> Result<Segment> {
        let spare = match source {
            Source::New => return Segment::create(self.directory.as_ref(), stream, index, self.length),
            Source::Blank(spare) => spare,
            Source::Soiled(spare) => {
                blank(self.directory.open(&spare.name)?.as_ref(), self.trim)?;
                spare
            }
        };
        let name = segment_name(stream, index);
        self.directory.rename(&spare.name, &name)?;
        self.directory.sync()?;
        tracing::debug!(%stream, index, spare = spare.name, "spare segment used");
        Ok(Segment { index, device: self.directory.open(&name)? })
    }

    fn full(&self) -> Error {
        Error::Full { live: self.live.load(Ordering::Relaxed), bound: self.bound }
    }

    /// How often something has changed; to be read before what [`wait`](Self::wait) is to wait for is looked at.
    pub(crate) fn changes(&self) -> u64 {
        self.inner.lock().changes
    }

    /// Returns when there may be space that there was not after so many changes. [`Error::Full`] when that has taken too
    /// long since `began`.
    pub(crate) fn wait(&self, changes: u64, began: Instant) -> Result<()> {
        let mut inner = self.inner.lock();
        while inner.changes == changes {
            if !self.wait_for_trim(&mut inner, began) {
                return Err(self.full());
            }
        }
        Ok(())
    }

    /// Where the next segment comes from, if there may be one. It counts from now on.
    fn source(&self, inner: &mut Inner, need: Need) -> Option<Source> {
        let live = self.live.load(Ordering::Relaxed) + self.length;
        let borne = self.borne.load(Ordering::Relaxed);
        if need == Need::Ahead && live.saturating_sub(borne) > self.throttle.end() {
            return None;
        }
        let source = if let Some(spare) = inner.spares.take_blank(self.length) {
            Source::Blank(spare)
        } else if let Some(spare) = inner.spares.take_soiled(self.length) {
            Source::Soiled(spare)
        } else if inner.used + self.length <= self.bound + borne {
            inner.used += self.length;
            Source::New
        } else {
            return None;
        };
        self.live.store(live, Ordering::Relaxed);
        Some(source)
    }

    /// Waits until something has changed. False when that has taken too long since `began`.
    fn wait_for_trim(&self, inner: &mut MutexGuard<'_, Inner>, began: Instant) -> bool {
        let waited = began.elapsed();
        if inner.given_up || waited >= self.patience {
            inner.given_up = true;
            return false;
        }
        if waited >= WARN_AFTER && !inner.warned {
            inner.warned = true;
            let (live, bound) = (ByteSize(self.live.load(Ordering::Relaxed)), ByteSize(self.bound));
            tracing::warn!(%live, %bound, "the log is full, and sessions wait for a checkpoint that lets it be trimmed");
        }
        let until = if waited < WARN_AFTER { self.patience.min(WARN_AFTER) } else { self.patience };
        self.changed.wait_for(inner, until.saturating_sub(waited));
        true
    }

    /// Holds back somebody who has appended so many bytes, as far as the space that is left asks for it. `is_open` says
    /// whether the log still takes records.
    pub(crate) fn pace(&self, bytes: u64, is_open: impl Fn() -> bool) {
        if !self.throttle.slows(self.counted()) {
            return;
        }
        let mut inner = self.inner.lock();
        let began = Instant::now();
        let freed = inner.freed;
        let live = self.counted();
        if live < self.throttle.end() {
            inner.due = inner.due.max(began) + self.throttle.toll(live, bytes).min(self.patience);
        }
        let mine = inner.due.min(began + self.patience);
        while inner.freed == freed && is_open() {
            if self.counted() >= self.throttle.end() {
                if !self.wait_for_trim(&mut inner, began) {
                    return;
                }
            } else if mine.saturating_duration_since(Instant::now()) < Throttle::GRAIN {
                return;
            } else {
                self.changed.wait_until(&mut inner, mine);
            }
        }
    }

    /// Makes everybody who waits look again.
    pub(crate) fn wake_all(&self) {
        self.inner.lock().changes += 1;
        self.changed.notify_all();
    }

    /// Takes the segments from the streams that hold nothing at or behind the start. That one must be durable in the
    /// control block. One caller at a time; after an error the state is unknown.
    pub(crate) fn free(&self, start: Start) -> Result<()> {
        loop {
            let round = self.next_round(start);
            if round.is_empty() {
                return self.remove_surplus();
            }
            for (stream, segment, name) in &round {
                self.directory.rename(&segment_name(*stream, segment.index), name)?;
            }
            // Before the next ones of the same streams, and before any of these is blanked.
            self.directory.sync()?;
            let mut inner = self.inner.lock();
            for (stream, Retired { index, length, .. }, name) in round {
                tracing::debug!(%stream, index, spare = name, "segment freed");
                self.live.fetch_sub(length, Ordering::Relaxed);
                inner.spares.soiled.push(Spare { name, length });
            }
            inner.freed += 1;
            let beyond = self.live.load(Ordering::Relaxed).saturating_sub(self.throttle.easy());
            self.borne.fetch_min(beyond, Ordering::Relaxed);
            (inner.given_up, inner.warned, inner.due) = (false, false, Instant::now());
            drop(inner);
            self.wake_all();
        }
    }

    /// The lowest segment of each stream, if it is to be freed, with its name as a spare.
    fn next_round(&self, start: Start) -> Vec<(StreamId, Retired, String)> {
        let mut inner = self.inner.lock();
        let Inner { retired, spares, .. } = &mut *inner;
        let freed = retired.iter_mut().filter_map(|(stream, row)| {
            row.pop_front_if(|segment| segment.last < start).map(|segment| (*stream, segment, spares.next_name()))
        });
        freed.collect()
    }

    /// Removes spares of another length than segments have now, and those beyond the bound.
    fn remove_surplus(&self) -> Result<()> {
        let mut removed = 0;
        loop {
            let mut inner = self.inner.lock();
            let too_many = inner.used > self.bound + self.borne.load(Ordering::Relaxed);
            let Some(spare) = inner.spares.take_if(|spare| too_many || spare.length != self.length) else { break };
            inner.used -= spare.length;
            drop(inner);
            self.directory.remove(&spare.name)?;
            removed += 1;
        }
        if removed > 0 {
            self.directory.sync()?;
            self.wake_all();
        }
        Ok(())
    }

    /// Blanks some spares, so that nobody has to who takes them.
    pub(crate) fn blank_spares(&self) -> Result<()> {
        let most = BLANKED_PER_TRIM * self.streams;
        loop {
            let mut inner = self.inner.lock();
            if inner.spares.blank.len() >= most {
                return Ok(());
            }
            let Some(spare) = inner.spares.take_soiled(self.length) else { return Ok(()) };
            drop(inner);
            let blanked = self.directory.open(&spare.name).and_then(|device| blank(device.as_ref(), self.trim));
            let mut inner = self.inner.lock();
            match blanked {
                Ok(()) => inner.spares.blank.push(spare),
                Err(error) => {
                    inner.spares.soiled.push(spare);
                    // The medium may have given the space that was trimmed to others.
                    return if error.kind() == ErrorKind::Exhausted { Ok(()) } else { Err(error.into()) };
                }
            }
            drop(inner);
            self.wake_all();
        }
    }
}
