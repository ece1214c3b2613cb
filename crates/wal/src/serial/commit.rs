//! The commit thread (flush pipelining, Aether section 4): writes as soon as somebody waits, and what arrives meanwhile next.
//!
//! No timer stands before a commit. What nobody waits for is written when a group's caps are reached; with nothing in the
//! buffer the thread sleeps.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use super::{Context, SerialLog};
use crate::background::Background;
use crate::log::Shared;
use crate::{Result, Settings};

/// How often the commit thread gives its core away before it dozes: those whom its last chunk woke may have work for it.
const LULL: u32 = 4;

/// Starts the commit thread. Unlike the log's other threads it keeps what is shared alive; closing the log ends it.
pub(crate) fn start(shared: &Arc<Shared>) -> Result<Background> {
    Background::start("ishigaki-commit", Arc::downgrade(shared), |shared, stopping| {
        if let Some(shared) = shared.upgrade()
            && let Some(serial) = &shared.serial
        {
            serial.commit(&*shared, stopping);
        }
    })
}

impl SerialLog {
    /// The commit thread: takes turns until `stopping`, after which it is to be unparked.
    pub(crate) fn commit(&self, ctx: &impl Context, stopping: &AtomicBool) {
        let _post = Post::take(self);
        let mut lull = 0;
        while !stopping.load(Ordering::SeqCst) {
            if ctx.check_alive().is_err() {
                self.alarm.doze();
                if !stopping.load(Ordering::SeqCst) {
                    self.alarm.listen(None);
                }
            } else if self.is_due(ctx.settings()) {
                lull = if matches!(self.turn(ctx), Ok(true)) { 0 } else { lull + 1 };
                let_others_copy(lull);
            } else if lull < LULL {
                lull += 1;
                thread::yield_now();
            } else {
                self.rest(ctx, stopping);
                lull = 0;
            }
        }
    }

    /// Whether somebody waits for what is in the buffer, or a group's caps are reached.
    fn is_due(&self, settings: &Settings) -> bool {
        self.wanted.0.load(Ordering::SeqCst) > self.durable().0
            || self.short_of_space.load(Ordering::SeqCst)
            || self.caps_are_reached(settings)
    }

    /// Sleeps until something is due. What nobody waits for is written when the group's time is over.
    fn rest(&self, ctx: &impl Context, stopping: &AtomicBool) {
        let settings = ctx.settings();
        let deep = self.try_fall_asleep();
        if !deep {
            self.alarm.doze();
        }
        if self.is_due(settings) || stopping.load(Ordering::SeqCst) || ctx.check_alive().is_err() {
            self.alarm.stay_awake();
            return;
        }
        let rung = self.alarm.listen((!deep).then_some(settings.group.time));
        if !rung && !deep {
            // A failure is told to whoever waits.
            let _ = self.turn(ctx);
        }
    }

    /// With nothing in the buffer there is no time to keep. True when that is so.
    fn try_fall_asleep(&self) -> bool {
        let Some(buffer) = self.buffer.0.try_lock() else { return false };
        let empty = buffer.next - 1 == self.durable().0;
        if empty {
            self.alarm.fall_asleep();
        }
        empty
    }
}

/// Gives way after turns that found nothing complete: somebody is at copying his record.
fn let_others_copy(in_vain: u32) {
    match in_vain {
        0 => {}
        1..100 => thread::yield_now(),
        // He has a draw and takes his time.
        _ => thread::sleep(Duration::from_micros(50)),
    }
}

/// The commit thread's post. When it is left, also by a panic, those who wait take the turns themselves.
struct Post<'a>(&'a SerialLog);

impl<'a> Post<'a> {
    fn take(log: &'a SerialLog) -> Self {
        log.alarm.hang(thread::current());
        log.staffed.store(true, Ordering::SeqCst);
        Self(log)
    }
}

impl Drop for Post<'_> {
    fn drop(&mut self) {
        self.0.staffed.store(false, Ordering::SeqCst);
        self.0.wake_all();
    }
}
