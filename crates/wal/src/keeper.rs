//! The background thread: writes groups that nobody waits for, and prepares segments ahead.
//!
//! Acknowledgement never depends on it. It ticks only while some stream holds records; after a quiet while it sleeps until
//! the next append nudges it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};

use ishigaki_device::Error as DeviceError;
use parking_lot::Mutex;

use crate::Result;
use crate::log::Shared;

/// Ticks without work after which the thread falls asleep.
const QUIET_TICKS: u32 = 100;

/// The running thread; stopped by [`stop`](Self::stop).
#[derive(Debug)]
pub(crate) struct Keeper {
    stopping: Arc<AtomicBool>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Keeper {
    pub(crate) fn start(shared: &Arc<Shared>) -> Result<Self> {
        let stopping = Arc::new(AtomicBool::new(false));
        let (weak, stop) = (Arc::downgrade(shared), stopping.clone());
        let thread = thread::Builder::new()
            .name("ishigaki-log".to_owned())
            .spawn(move || keep(&weak, &stop))
            .map_err(|source| DeviceError::Io { name: "log".to_owned(), operation: "start of its thread", source })?;
        let _ = shared.keeper_wakes.set(thread.thread().clone());
        Ok(Self { stopping, thread: Mutex::new(Some(thread)) })
    }

    /// Ends the thread and waits for it.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.lock().take() {
            thread.thread().unpark();
            if thread.join().is_err() {
                tracing::error!("the log's background thread panicked");
            }
        }
    }
}

/// Half of `group.time` is one tick: a group is written at the second tick that sees it.
fn keep(shared: &Weak<Shared>, stopping: &AtomicBool) {
    let mut quiet = 0;
    while !stopping.load(Ordering::SeqCst) {
        let Some(shared) = shared.upgrade() else { return };
        let mut busy = false;
        for stream in &shared.streams {
            busy |= stream.tick(&shared);
            stream.prepare_segment(&shared);
        }
        quiet = if busy { 0 } else { quiet + 1 };
        let tick = shared.settings.group.time / 2;
        if quiet < QUIET_TICKS {
            drop(shared);
            thread::park_timeout(tick);
        } else {
            sleep(shared, stopping);
            quiet = 0;
        }
    }
}

/// Sleeps until a nudge. The flag is up before the last look at the streams: an append either is seen by that look or
/// sees the flag.
fn sleep(shared: Arc<Shared>, stopping: &AtomicBool) {
    shared.keeper_sleeps.store(true, Ordering::SeqCst);
    let busy = shared.streams.iter().any(|stream| stream.tick(&shared));
    if busy || stopping.load(Ordering::SeqCst) {
        shared.keeper_sleeps.store(false, Ordering::SeqCst);
        return;
    }
    drop(shared);
    thread::park();
}
