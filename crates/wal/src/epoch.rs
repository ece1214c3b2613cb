//! Acknowledgement by epochs (Silo: Tu et al., SOSP 2013): the third point of comparison, for latency.
//!
//! Sessions append to their streams as in the parallel log, and full groups are written as ever. But nobody who waits writes
//! anything: a thread ends an epoch now and then, makes every stream durable, and answers everybody at once. That spares
//! the device small writes, and costs each commit half an epoch on average.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use ishigaki_base::Lsn;
use parking_lot::{Condvar, Mutex};

use crate::background::Background;
use crate::log::Shared;
use crate::{LogKind, Result};

/// Who waits for the end of an epoch, and the thread that ends them.
#[derive(Debug)]
pub(crate) struct Epochs {
    /// Everything up to here was made durable by an epoch that has ended.
    ended: Mutex<Lsn>,
    changed: Condvar,
}

impl Epochs {
    /// `None` unless the log acknowledges by epochs and may have threads.
    pub(crate) fn of(kind: LogKind, background: bool, next: Lsn) -> Option<Self> {
        let is_wanted = background && matches!(kind, LogKind::Epoch { .. });
        is_wanted.then(|| Self { ended: Mutex::new(next.previous()), changed: Condvar::new() })
    }

    /// Starts the thread.
    pub(crate) fn start(shared: &Arc<Shared>, time: Duration) -> Result<Background> {
        Background::start("ishigaki-epoch", Arc::downgrade(shared), move |shared, stopping| run(shared, stopping, time))
    }

    /// The last LSN of the last epoch that has ended.
    pub(crate) fn ended(&self) -> Lsn {
        *self.ended.lock()
    }

    /// Returns when an epoch has ended that has all that is drawn by now with LSNs up to `lsn`, or the log has failed.
    pub(crate) fn wait(&self, shared: &Shared, lsn: Lsn) -> Result<()> {
        let lsn = lsn.min(shared.last_drawn());
        let mut ended = self.ended.lock();
        while *ended < lsn {
            shared.check_alive()?;
            self.changed.wait(&mut ended);
        }
        Ok(())
    }

    /// Everything up to `lsn` is durable: answers those who wait.
    pub(crate) fn end(&self, lsn: Lsn) {
        let mut ended = self.ended.lock();
        *ended = lsn.max(*ended);
        drop(ended);
        self.changed.notify_all();
    }

    /// Makes everybody look again.
    pub(crate) fn wake_all(&self) {
        drop(self.ended.lock());
        self.changed.notify_all();
    }
}

fn run(shared: &Weak<Shared>, stopping: &AtomicBool, time: Duration) {
    while !stopping.load(Ordering::SeqCst) {
        thread::park_timeout(time);
        let Some(shared) = shared.upgrade() else { return };
        let lsn = shared.watermark.last_drawn();
        // A failure has closed the log and told everybody already.
        if let (Some(epochs), Ok(())) = (&shared.epochs, shared.make_durable(0, lsn)) {
            epochs.end(lsn);
        }
    }
}
