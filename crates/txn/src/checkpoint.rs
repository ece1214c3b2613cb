//! Checkpoints: what the tables hold, written while transactions run, so that the log need not be kept and replayed whole.
//!
//! ```text
//!  commits:      ──┬──────┬───────┬────────┬─────┬───────▶  log
//!                  │gates │       │        │     │
//!  checkpoint:   start ─ walk all tables, page by page ─ flush the log ─ manifest becomes current ─ old parts go
//!                                 │
//!  opening:      load the pages ─ replay the log from start: where a row is older than the log, the log wins
//! ```
//!
//! The walk is *fuzzy*: it takes no locks and sees a row as it was before or after a commit that happens meanwhile. That does
//! no harm, because of four things in this order:
//!
//! 1. [`gates`]: at one moment no commit is between drawing its LSN and installing its last write. Every record below
//!    `start` is then in the tables, and whatever changes later has its record in the log at `start` or behind it.
//! 2. A row's value and the place of its record in the log are read as one. So the replay of the record that made the row
//!    changes nothing, and that of a later one puts it right.
//! 3. Only then the log is flushed: no row on the medium is of a transaction that could still be lost. (Early lock release
//!    shows values whose records are not durable yet; values of transactions that did not commit are never in a table.)
//! 4. Only then the manifest becomes current, by one rename ([`files`]). Before that nothing has happened, whatever fails.
//!
//! Commits go first: while there are any, a checkpoint works a seventh of the time ([`throttle`]), unless the log would be
//! full before it is done.
//!
//! The one before is kept with its log as long as there is space ([`held`]).
//!
//! Parts: [`page`] and [`manifest`] are the format, [`parts`] and [`load`] write and read it, [`throttle`] limits the
//! writing, [`trigger`] is the thread that does it in time.

pub(crate) mod files;
#[cfg(fuzzing)]
pub(crate) mod fuzz;
mod gates;
mod held;
pub(crate) mod leftovers;
mod load;
mod manifest;
mod page;
mod parts;
mod throttle;
mod trigger;

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use ishigaki_base::clock::{Clock, SystemClock};
use ishigaki_base::{ErrorKind, Generation, Lsn};
use ishigaki_device::Directory;
use ishigaki_wal::{Log, Start};
use parking_lot::Mutex;

use crate::copied::Copied;
use crate::record::outside_cost;
use crate::rows::behind;
use crate::table::{Table, TableId, Tables};
use crate::{CheckpointSettings, Error, Result};
use files::Unpublished;
pub(crate) use files::{clean_up, current, previous};
pub(crate) use gates::Gates;
use held::Held;
pub(crate) use load::load;
pub(crate) use manifest::Manifest;
use page::Draft;
use parts::Parts;
use throttle::{Commits, Throttle};
pub(crate) use trigger::Trigger;

/// Bytes at which a page is full.
const PAGE: usize = 64 << 10;

/// Keys that a walk looks at before it lets go of the index for a moment, so that memory can be reclaimed.
const STRIDE: usize = 1024;

/// The least a part may be limited to.
const LEAST_PART: u64 = 4096;

/// A checkpoint that was made.
#[derive(Clone, Debug)]
pub struct CheckpointReport {
    /// Counts checkpoints, those included that came to nothing.
    pub number: u64,
    /// Where the log goes on. What it holds before this is not needed any more.
    pub start: Start,
    /// The last record that may be in the checkpoint.
    pub end: Lsn,
    /// Rows written, names of tables among them.
    pub rows: u64,
    /// Bytes of all pages.
    pub bytes: u64,
    /// Files.
    pub parts: usize,
    /// Time from beginning to end.
    pub elapsed: Duration,
}

/// How far a running checkpoint is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointProgress {
    /// Rows written so far, names of tables aside.
    pub rows: u64,
    /// Rows that there will be, as far as can be told from the memory that they take; zero at the very beginning.
    pub estimated_rows: u64,
}

/// How often the log's space is looked at while one stream fills it.
const LOOKS: u64 = 16;

/// Makes checkpoints of one database, one at a time.
#[derive(Debug)]
pub(crate) struct Checkpointer {
    directory: Arc<dyn Directory>,
    log: Arc<Log>,
    tables: Arc<Tables>,
    /// Every commit goes through one.
    pub(crate) gates: Gates,
    generation: Generation,
    settings: CheckpointSettings,
    clock: SystemClock,
    /// The number of the next checkpoint. Locked while that is made.
    turn: Mutex<u64>,
    /// The checkpoints that there are. Locked after `turn`, and only for a moment.
    held: Mutex<Held>,
    stopping: AtomicBool,
    progress: Progress,
    /// Bytes of redo that no checkpoint holds: replayed at opening, less what went through the gates when the last one
    /// began. Wraps around.
    beyond: AtomicU64,
    /// Of the last checkpoint.
    bytes: AtomicU64,
}

/// Counts as a checkpoint goes on.
#[derive(Debug, Default)]
struct Progress {
    running: AtomicBool,
    rows: AtomicU64,
    /// Memory of what was seen, and of all tables when it began; the system table is in none of these.
    seen: AtomicU64,
    all: AtomicU64,
}

/// What opening a database found and did before.
#[derive(Debug)]
pub(crate) struct Before {
    /// That is open now.
    pub(crate) generation: Generation,
    /// The largest number of a checkpoint.
    pub(crate) number: u64,
    /// The current checkpoint.
    pub(crate) current: Option<Manifest>,
    /// The one before, if it is kept.
    pub(crate) previous: Option<Manifest>,
    /// Bytes of redo that were replayed.
    pub(crate) replayed: u64,
}

impl Checkpointer {
    pub(crate) fn new(
        directory: Arc<dyn Directory>,
        log: Arc<Log>,
        tables: Arc<Tables>,
        streams: u16,
        settings: CheckpointSettings,
        before: Before,
    ) -> Self {
        let step = log.space().bound.0 / LOOKS;
        let bytes = before.current.as_ref().map_or(0, Manifest::bytes);
        Self {
            directory,
            log,
            tables,
            gates: Gates::new(streams, step),
            generation: before.generation,
            settings,
            clock: SystemClock::new(),
            turn: Mutex::new(before.number + 1),
            held: Mutex::new(Held { current: before.current, previous: before.previous }),
            stopping: AtomicBool::new(false),
            progress: Progress::default(),
            beyond: AtomicU64::new(before.replayed),
            bytes: AtomicU64::new(bytes),
        }
    }

    /// Makes a checkpoint; waits for one that is being made first. After an error the one before is still current and
    /// nothing else has changed.
    pub(crate) fn run(&self) -> Result<CheckpointReport> {
        let mut turn = self.turn.lock();
        self.check_open()?;
        let number = *turn;
        *turn += 1;
        self.progress.begin(&self.tables);
        let made = self.make(number);
        self.progress.running.store(false, Ordering::Relaxed);
        let report = made?;
        tracing::info!(number, rows = report.rows, bytes = report.bytes, elapsed = ?report.elapsed, "checkpoint");
        Ok(report)
    }

    /// Where checkpoints are.
    pub(crate) fn directory(&self) -> &Arc<dyn Directory> {
        &self.directory
    }

    /// Lets no checkpoint begin, waits for one that is being made, and keeps those that there are.
    pub(crate) fn hold(&self) -> impl Sized + '_ {
        (self.turn.lock(), self.held.lock())
    }

    /// How far the running checkpoint is.
    pub(crate) fn progress(&self) -> Option<CheckpointProgress> {
        self.progress.running.load(Ordering::Relaxed).then(|| self.progress.now())
    }

    /// Makes a running checkpoint fail, waits until it has, and lets no other begin.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        drop(self.turn.lock());
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    fn settings(&self) -> &CheckpointSettings {
        &self.settings
    }

    /// Whether it is time for a checkpoint, `since` after the last one.
    fn is_due(&self, since: Duration) -> bool {
        let redo = self.beyond.load(Ordering::Relaxed).wrapping_add(self.gates.bytes());
        if redo > 0 && self.is_tight() {
            return true;
        }
        // A checkpoint writes everything: it waits until the log is at least as long.
        let enough = self.settings.log_bytes.as_u64().max(self.bytes.load(Ordering::Relaxed));
        redo >= enough || (redo > 0 && since >= self.settings.interval)
    }

    fn check_open(&self) -> Result<()> {
        if self.stopping.load(Ordering::SeqCst) {
            return Err(Error::Log(ishigaki_wal::Error::Closed));
        }
        self.log.failure().map_or(Ok(()), |failure| Err(Error::Log(failure)))
    }

    fn make(&self, number: u64) -> Result<CheckpointReport> {
        let began = self.clock.now();
        self.relieve();
        let (last, redo) = self.gates.while_still(|| (self.log.last_drawn(), self.gates.bytes()));
        let start = Start { generation: self.generation, lsn: last.next() };
        let directory = self.directory.as_ref();
        let mut written = self.write(number, start);
        if written.as_ref().is_err_and(|error| error.kind() == ErrorKind::Exhausted) {
            files::discard(directory, number);
            // The one before may take the space that this one needs.
            if self.give_up_previous() {
                written = self.write(number, start);
            }
        }
        let manifest = match written {
            Ok(manifest) => manifest,
            Err(error) => {
                files::discard(directory, number);
                return Err(error);
            }
        };
        let (rows, bytes, parts, end) = (manifest.rows, manifest.bytes(), manifest.parts.len(), manifest.end);
        let mut held = self.held.lock();
        let keeps = self.keep_current(&held);
        match files::publish(directory, &manifest, || self.check_open()) {
            Ok(()) => {}
            Err(Unpublished::Not(error)) => {
                files::discard(directory, number);
                return Err(error);
            }
            Err(Unpublished::Unknown(error)) => return Err(error),
        }
        self.beyond.store(redo.wrapping_neg(), Ordering::Relaxed);
        self.bytes.store(bytes, Ordering::Relaxed);
        held.previous = held.current.replace(manifest).filter(|_| keeps);
        self.settle(&mut held)?;
        let elapsed = self.clock.now().saturating_sub(began);
        Ok(CheckpointReport { number, start, end, rows, bytes, parts, elapsed })
    }

    /// Writes all parts, and makes durable in the log what they show.
    fn write(&self, number: u64, start: Start) -> Result<Manifest> {
        let beside = Beside { checkpointer: self, live: self.log.space().live.0 };
        let throttle = Throttle::new(&self.clock, self.settings.throttle, &self.stopping, &beside);
        let limit = self.settings.part.as_u64().max(LEAST_PART) as usize;
        let mut parts = Parts::new(self.directory.as_ref(), throttle, self.log.id(), number, limit);
        let mut rows = self.write_table(self.tables.system(), &mut parts)?;
        for id in self.tables.ids() {
            // A table that was dropped meanwhile, was so by a record that will be replayed.
            if let Some(table) = self.tables.get(id) {
                rows += self.write_table(&table, &mut parts)?;
            }
        }
        let parts = parts.finish()?;
        let (next_table, end) = (self.tables.unused_id(), self.log.last_drawn());
        self.log.flush()?;
        Ok(Manifest { log: self.log.id(), number, start, end, rows, next_table, parts })
    }

    /// Writes the rows of one table in key order; says how many.
    fn write_table(&self, table: &Table, parts: &mut Parts<'_>) -> Result<u64> {
        let mut page = Draft::default();
        let (mut rows, mut reached, mut copied) = (0, None, Copied::borrow());
        let before = self.progress.rows.load(Ordering::Relaxed);
        loop {
            let range =
                reached.as_ref().map_or((Bound::Unbounded, Bound::Unbounded), |key| behind(key, Bound::Unbounded));
            let (mut looked_at, mut seen) = (0, 0);
            let walked = table.rows.walk(range, None, |key, (id, record), guard| {
                if let Some(row) = record.settled(&mut copied, guard) {
                    page.push(row.position.lsn(), key, row.value);
                    seen += table.cost(id.bytes()) + outside_cost(record, row.value);
                }
                looked_at += 1;
                if looked_at == STRIDE || page.len() >= PAGE {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            });
            reached = match walked {
                ControlFlow::Break((key, ..)) => Some(key),
                ControlFlow::Continue(()) => None,
            };
            if page.len() >= PAGE || (reached.is_none() && page.rows() > 0) {
                parts.add(&mut page, table.id)?;
                rows += u64::from(page.rows());
                page.clear(2 * PAGE);
            }
            let is_system = table.id == TableId::SYSTEM;
            if !is_system {
                self.progress.rows.store(before + rows, Ordering::Relaxed);
                self.progress.seen.fetch_add(seen, Ordering::Relaxed);
            }
            let is_gone = !is_system && self.tables.get(table.id).is_none();
            if reached.is_none() || is_gone {
                return Ok(rows);
            }
            std::thread::yield_now();
            parts.give_way();
            // Else commits would be slowed down until this checkpoint is done.
            self.relieve();
        }
    }
}

/// The commits beside a checkpoint.
struct Beside<'a> {
    checkpointer: &'a Checkpointer,
    /// Bytes of the log when it began.
    live: u64,
}

impl Commits for Beside<'_> {
    fn count(&self) -> u64 {
        self.checkpointer.gates.bytes()
    }

    /// Of what the log may grow before commits are slowed down, it has taken more than the checkpoint has done of its work.
    fn is_urgent(&self) -> bool {
        let space = self.checkpointer.log.space();
        let Progress { seen, all, .. } = &self.checkpointer.progress;
        let left = space.easy.0.saturating_sub(self.live);
        let taken = space.live.0.saturating_sub(self.live);
        let (seen, all) = (seen.load(Ordering::Relaxed), all.load(Ordering::Relaxed));
        left == 0 || u128::from(taken) * u128::from(all) > u128::from(left) * u128::from(seen)
    }
}

impl Progress {
    fn begin(&self, tables: &Tables) {
        let all = |sum: u64, id| sum.saturating_add(tables.get(id).map_or(0, |table| table.record_bytes()));
        self.all.store(tables.ids().into_iter().fold(0, all), Ordering::Relaxed);
        self.rows.store(0, Ordering::Relaxed);
        self.seen.store(0, Ordering::Relaxed);
        self.running.store(true, Ordering::Relaxed);
    }

    fn now(&self) -> CheckpointProgress {
        let rows = self.rows.load(Ordering::Relaxed);
        let (seen, all) = (self.seen.load(Ordering::Relaxed), self.all.load(Ordering::Relaxed));
        let estimate = if seen == 0 { 0.0 } else { rows as f64 * (all as f64 / seen as f64) };
        CheckpointProgress { rows, estimated_rows: rows.max(estimate as u64) }
    }
}
