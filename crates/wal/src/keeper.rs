//! The background thread: writes groups that nobody waits for, and prepares segments ahead.
//!
//! Acknowledgement never depends on it. It ticks only while some stream holds records; after a quiet while it sleeps until
//! the next append nudges it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::thread;

use crate::Result;
use crate::background::Background;
use crate::log::Shared;

/// Ticks without work after which the thread falls asleep.
const QUIET_TICKS: u32 = 100;

/// Starts the thread.
pub(crate) fn start(shared: &Arc<Shared>) -> Result<Background> {
    let keeper = Background::start("ishigaki-log", Arc::downgrade(shared), keep)?;
    if let Some(thread) = keeper.thread() {
        let _ = shared.keeper_wakes.set(thread);
    }
    Ok(keeper)
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
        if let Some(serial) = &shared.serial {
            serial.prepare_segment(&*shared);
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
    if let Some(serial) = &shared.serial {
        serial.prepare_segment(&*shared);
    }
    if busy || stopping.load(Ordering::SeqCst) {
        shared.keeper_sleeps.store(false, Ordering::SeqCst);
        return;
    }
    drop(shared);
    thread::park();
}
