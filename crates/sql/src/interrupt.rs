//! Cancelling a statement and watching it from outside, for instance from a Ctrl-C handler and a progress bar.
//!
//! A [`CancelHandle`] sets a flag that the engine looks at while it waits for locks and while it scans, and wakes the task
//! that drives the statement, which then drops what DataFusion was doing. [`Progress`] is a few counters that `COPY` moves.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::Notify;

use crate::{Error, Result};

/// Cancels the statement that a session is running. Cheap to clone, usable from any thread.
#[derive(Clone, Debug, Default)]
pub struct CancelHandle {
    flag: Arc<AtomicBool>,
    wake: Arc<Notify>,
}

impl CancelHandle {
    /// Cancels the statement that runs now: it fails with [`Error::Cancelled`] and has no effect. Does nothing when no
    /// statement runs. A commit whose record is already in the log is not taken back.
    pub fn cancel(&self) {
        self.flag.store(true, Ordering::Release);
        self.wake.notify_waiters();
    }

    /// Forgets earlier cancellations; a statement begins.
    pub(crate) fn reset(&self) {
        self.flag.store(false, Ordering::Release);
    }

    /// The flag that the engine looks at.
    pub(crate) fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.flag)
    }

    /// An error when the statement was cancelled.
    pub(crate) fn check(&self) -> Result<()> {
        if self.flag.load(Ordering::Acquire) { Err(Error::Cancelled) } else { Ok(()) }
    }

    /// Runs `work` until it is done or the statement is cancelled.
    pub(crate) async fn guard<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        // Register before looking at the flag, or a cancellation between the two would be slept through.
        let woken = self.wake.notified();
        tokio::pin!(woken);
        woken.as_mut().enable();
        self.check()?;
        tokio::select! {
            biased;
            () = &mut woken => Err(Error::Cancelled),
            result = work => result,
        }
    }
}

/// How far a `COPY` is. Cheap to clone; reading it takes no lock.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    counters: Arc<Counters>,
}

#[derive(Debug, Default)]
struct Counters {
    bytes: AtomicU64,
    total_bytes: AtomicU64,
    rows: AtomicU64,
}

impl Progress {
    /// Bytes of the file read or written so far.
    pub fn bytes(&self) -> u64 {
        self.counters.bytes.load(Ordering::Relaxed)
    }

    /// Size of the file that is read; 0 when it is not known, as for a file that is being written.
    pub fn total_bytes(&self) -> u64 {
        self.counters.total_bytes.load(Ordering::Relaxed)
    }

    /// Rows read or written so far.
    pub fn rows(&self) -> u64 {
        self.counters.rows.load(Ordering::Relaxed)
    }

    /// Back to zero, for work on `total_bytes`.
    pub(crate) fn begin(&self, total_bytes: u64) {
        self.counters.bytes.store(0, Ordering::Relaxed);
        self.counters.rows.store(0, Ordering::Relaxed);
        self.counters.total_bytes.store(total_bytes, Ordering::Relaxed);
    }

    /// `bytes` and `rows` are done in all.
    pub(crate) fn set(&self, bytes: u64, rows: u64) {
        self.counters.bytes.store(bytes, Ordering::Relaxed);
        self.counters.rows.store(rows, Ordering::Relaxed);
    }
}
