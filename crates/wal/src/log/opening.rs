//! How a log opens: it is recovered, in one of two ways, and gets a new generation to append to.

use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, OnceLock};

use ishigaki_base::{ErrorKind, Generation, LogId, Position, StreamId};
use ishigaki_device::Directory;
use parking_lot::Mutex;

use super::{Log, Shared};
use crate::control::{self, ControlBlock};
use crate::epoch::Epochs;
use crate::format::Control;
use crate::herald::Herald;
use crate::keeper;
use crate::recovery::{self, Fit, Recovered, Replay, Tail};
use crate::serial::{self, SerialLog};
use crate::space::{Pool, Spares};
use crate::stream::State;
use crate::watermark::Watermark;
use crate::{Error, LogKind, Progress, Recovery, Result, Settings, Sink, Start};

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
        Self::open_from(directory, settings, Start::default(), replay)
    }

    /// Opens a log whose records before `from` are not needed: `replay` is given only those from there on, or from where
    /// the log was trimmed to, whichever is later. [`Recovery::start`] says which. The log is as good as trimmed then.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open), and [`Error::Corrupt`] when the log ends in an older generation than that of `from`.
    pub fn open_from(
        directory: Arc<dyn Directory>,
        settings: Settings,
        from: Start,
        replay: Replay<'_>,
    ) -> Result<(Arc<Self>, Recovery)> {
        Self::open_keeping(directory, settings, from, from, replay)
    }

    /// [`open_from`](Self::open_from), which trims the log to no later point than `keep`, so that it can still be opened from
    /// there another time; unless more than [`Space::easy`](crate::Space::easy) would be live then, or the medium has no space
    /// for a segment without what lies before `from`. [`Log::start`] says how it is.
    ///
    /// # Errors
    ///
    /// As [`open_from`](Self::open_from).
    pub fn open_keeping(
        directory: Arc<dyn Directory>,
        settings: Settings,
        from: Start,
        keep: Start,
        replay: Replay<'_>,
    ) -> Result<(Arc<Self>, Recovery)> {
        Self::begin(directory, settings, from, keep, |directory, control, start| {
            recovery::recover(directory, control, start, replay)
        })
    }

    /// [`open_from`](Self::open_from) as fast as the device allows: the streams are read side by side by
    /// [`Settings::recovery_threads`], and the records that survived go to the `sink` from all of these threads, in any
    /// order. The same records are kept.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::collections::BTreeMap;
    /// use std::sync::{Arc, Mutex};
    /// use ishigaki_base::Position;
    /// use ishigaki_device::MemoryDirectory;
    /// use ishigaki_wal::{Log, Progress, Settings, Sink, Start};
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
    /// let progress = Progress::default();
    /// let (_, recovery) = Log::recover(directory, Settings::default(), Start::default(), &texts, &progress)?;
    /// assert_eq!((recovery.records, texts.0.into_inner()?.len()), (2, 2));
    /// # Ok(())
    /// # }
    /// ```
    pub fn recover(
        directory: Arc<dyn Directory>,
        settings: Settings,
        from: Start,
        sink: &dyn Sink,
        progress: &Progress,
    ) -> Result<(Arc<Self>, Recovery)> {
        Self::recover_keeping(directory, settings, from, from, sink, progress)
    }

    /// [`recover`](Self::recover), which keeps the log from `keep` on as [`open_keeping`](Self::open_keeping) does.
    ///
    /// # Errors
    ///
    /// As [`open_from`](Self::open_from).
    pub fn recover_keeping(
        directory: Arc<dyn Directory>,
        settings: Settings,
        from: Start,
        keep: Start,
        sink: &dyn Sink,
        progress: &Progress,
    ) -> Result<(Arc<Self>, Recovery)> {
        let threads = settings.recovery_threads;
        Self::begin(directory, settings, from, keep, |directory, control, start| {
            recovery::recover_in_parallel(directory, control, start, threads, sink, progress)
        })
    }

    /// The identity of the log of a directory that nobody has open, if there is one.
    pub fn identity(directory: &dyn Directory) -> Result<Option<LogId>> {
        control::identity(directory)
    }

    /// From where the log of a directory is there, which nobody has open, if there is one.
    pub fn beginning(directory: &dyn Directory) -> Result<Option<Start>> {
        control::beginning(directory)
    }

    /// Makes an empty log of that identity, durably, so that somebody who knows it can tell this log from others; one that is
    /// there already stays.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] if there is another one.
    pub fn make(directory: &dyn Directory, log: LogId) -> Result<()> {
        let found = ControlBlock::open_or_make(directory, log)?.contents().log;
        if found == log {
            return Ok(());
        }
        Err(Error::Invalid { reason: format!("log {log} can not be made where log {found} is") })
    }

    fn begin(
        directory: Arc<dyn Directory>,
        settings: Settings,
        from: Start,
        keep: Start,
        recover: impl FnOnce(&dyn Directory, &Control, Start) -> Result<Recovered>,
    ) -> Result<(Arc<Self>, Recovery)> {
        settings.validate()?;
        let control_block = ControlBlock::open(directory.as_ref())?;
        // A process may have died between a rename or creation and its sync; what is seen here must stay.
        directory.sync()?;
        let control = control_block.contents();
        control.check_reached(from)?;
        if control.generation == Generation::MAX {
            return Err(used_up());
        }
        let start = from.max(control.start);
        let kept = keep.min(start).max(control.start);
        let mut spares = Spares::survey(directory.as_ref(), control.clean.is_some())?;
        let chunk_limit = settings.chunk_limit();
        let fit = Fit { chunk_limit, segment: settings.segment.0 };
        let mut recovered = recover(directory.as_ref(), &control, start)?;
        recovered.settle(directory.as_ref(), &control, fit, &mut spares)?;
        let Recovered { next, tails, report } = recovered;
        if next > Position::MAX_LSN || tails.iter().any(Tail::is_used_up) {
            return Err(used_up());
        }

        // From here on a failure is found by the next opening: the log does not count as closed cleanly any more.
        let generation = control.generation.next();
        control_block
            .update(|control| *control = Control { generation, base: next, clean: None, start: kept, ..*control })?;
        let pool = Arc::new(Pool::new(directory, &settings, spares));
        for tail in &tails {
            tail.count(&pool, settings.all_streams(), fit);
        }
        // What a trim had left to do when it was cut off.
        pool.free(kept)?;
        let mut keeps_more = kept < start;
        let mut give_up = || -> Result<bool> {
            if !std::mem::take(&mut keeps_more) {
                return Ok(false);
            }
            control_block.update(|control| control.start = start)?;
            pool.free(start)?;
            Ok(true)
        };
        if pool.is_tight() {
            give_up()?;
        }
        pool.bear_with_what_is_there();
        let (mut streams, mut serial) = (Vec::new(), None);
        for id in (0..settings.all_streams()).map(StreamId) {
            let tail = tails.iter().find(|tail| tail.stream == id);
            let (pen, next_segment) = match recovery::resume(&pool, id, tail, fit) {
                Err(error) if error.kind() == ErrorKind::Exhausted && give_up()? => {
                    recovery::resume(&pool, id, tail, fit)
                }
                resumed => resumed,
            }?;
            if settings.kind == LogKind::Serial {
                let capacity = settings.shared_buffer();
                serial = Some(SerialLog::new(pen, next_segment, next, chunk_limit, capacity));
            } else {
                streams.push(State::new(id, pen, next_segment, chunk_limit, next));
            }
        }
        tracing::info!(log = %control.log, %generation, first = %next, records = report.records, "log opened");

        let (background, kind) = (settings.background, settings.kind);
        let shared = Arc::new_cyclic(|myself| Shared {
            myself: myself.clone(),
            pool,
            log: control.log,
            generation,
            base: next,
            chunk_limit,
            block_size: control_block.block_size(),
            watermark: Watermark::new(settings.all_streams(), next),
            heralds: (0..settings.all_streams()).map(|_| Herald::default()).collect(),
            streams,
            serial,
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
            if kind == LogKind::Serial {
                threads.push(serial::start(&shared)?);
            }
        }
        let (assigned, ended) = (AtomicUsize::new(0), Mutex::new(None));
        let trimming = Mutex::new(());
        let log = Self { shared, control: control_block, trimming, assigned, ended, threads };
        Ok((Arc::new(log), Recovery { generation, ..report }))
    }
}

fn used_up() -> Error {
    let reason =
        "the log has used up its numbers (LSNs, generations, or chunks of a stream); copy its data into a new database"
            .to_owned();
    Error::Invalid { reason }
}
