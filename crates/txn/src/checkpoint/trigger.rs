//! The thread that makes checkpoints by itself.
//!
//! It looks at the checkpointer only, never at the database; so it does not keep one open.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use ishigaki_base::clock::{Clock, SystemClock};
use ishigaki_device::Error as DeviceError;
use parking_lot::Mutex;

use super::Checkpointer;
use crate::Result;

/// How often it looks by itself.
const TICK: Duration = Duration::from_secs(1);

/// How long it leaves things alone after a checkpoint that failed.
const PAUSE: Duration = Duration::from_mins(1);

/// The running thread. Stop the checkpointer first, then this.
#[derive(Debug)]
pub(crate) struct Trigger(Mutex<Option<JoinHandle<()>>>);

impl Trigger {
    pub(crate) fn start(checkpointer: &Arc<Checkpointer>) -> Result<Self> {
        let checkpointer = Arc::clone(checkpointer);
        let thread =
            thread::Builder::new().name("ishigaki-checkpoint".to_owned()).spawn(move || watch(&checkpointer)).map_err(
                |source| DeviceError::Io { name: "checkpoint".to_owned(), operation: "start of its thread", source },
            )?;
        Ok(Self(Mutex::new(Some(thread))))
    }

    /// Has it look now: the log has grown, or somebody waits for the space that a checkpoint makes.
    pub(crate) fn look(&self) {
        if let Some(thread) = &*self.0.lock() {
            thread.thread().unpark();
        }
    }

    /// Waits until the thread has ended.
    pub(crate) fn stop(&self) {
        let thread = self.0.lock().take();
        if let Some(thread) = thread {
            thread.thread().unpark();
            if thread.join().is_err() {
                tracing::error!("the thread that makes checkpoints panicked");
            }
        }
    }
}

fn watch(checkpointer: &Checkpointer) {
    let clock = SystemClock::new();
    let interval = checkpointer.settings().interval;
    let mut last = clock.now();
    let mut not_before = last;
    while !checkpointer.is_stopping() {
        checkpointer.relieve();
        let now = clock.now();
        if now >= not_before && checkpointer.is_due(now.saturating_sub(last)) {
            match checkpointer.run() {
                Ok(_) => {}
                Err(_) if checkpointer.check_open().is_err() => return,
                Err(error) => {
                    tracing::warn!(%error, "no checkpoint could be made");
                    not_before = clock.now() + PAUSE;
                }
            }
            last = clock.now();
        }
        thread::park_timeout(TICK.min(interval.max(Duration::from_millis(1))));
    }
}
