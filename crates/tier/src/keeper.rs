//! A thread that keeps some slots free, so that a request that wants one finds it and waits for no disk.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;

use crate::pool::Core;
use crate::{Error, Result};

/// One of how many slots is kept free.
const SHARE: usize = 64;

/// The most slots that are kept free.
const MOST: usize = 32;

/// The same where it is told what leaves: for what is asked for in its place.
const SHARE_TOLD: usize = 16;

/// The most then.
const MOST_TOLD: usize = 64;

/// How many of so many slots are kept free.
fn wanted(slots: usize) -> usize {
    (slots / SHARE).clamp(1, MOST)
}

impl Core {
    /// Slots that are kept free where it is told what leaves.
    pub(crate) fn spare(&self) -> usize {
        (self.slots.len() / SHARE_TOLD).clamp(1, MOST_TOLD)
    }

    /// Whether fewer are free than are kept so.
    fn is_short(&self) -> bool {
        let free = self.free.lock().len();
        free < self.kept_free()
    }

    /// Slots that are kept free now.
    pub(crate) fn kept_free(&self) -> usize {
        if self.order.lock().is_told() { self.spare() } else { wanted(self.slots.len()) }
    }
}

/// The way to ask it.
#[derive(Debug)]
pub(crate) struct Bell(SyncSender<()>);

impl Bell {
    /// Has it look whether slots are to be made free. False when it is not there any more.
    pub(crate) fn ring(&self) -> bool {
        !matches!(self.0.try_send(()), Err(std::sync::mpsc::TrySendError::Disconnected(())))
    }
}

/// The thread. Drop waits until it has ended.
#[derive(Debug)]
pub(crate) struct Keeper {
    core: Weak<Core>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    /// Starts one for a pool.
    pub(crate) fn start(core: &Arc<Core>) -> Result<Self> {
        let (bell, rung) = sync_channel(1);
        *core.bell.lock() = Some(Bell(bell));
        let weak = Arc::downgrade(core);
        let started = std::thread::Builder::new().name("tier-keeper".to_owned()).spawn(move || keep(&weak, &rung));
        let thread = started.map_err(|error| Error::invalid(format!("no thread can be started: {error}")))?;
        Ok(Self { core: Arc::downgrade(core), thread: Some(thread) })
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        // No request rings any more, so it ends.
        if let Some(core) = self.core.upgrade() {
            core.bell.lock().take();
        }
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that keeps slots free has panicked");
        }
    }
}

fn keep(core: &Weak<Core>, rung: &Receiver<()>) {
    while let (Ok(()), Some(core)) = (rung.recv(), core.upgrade()) {
        while core.is_short() && core.bell.lock().is_some() {
            match core.make_free(None) {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(%error, "no slot of the fast device could be made free");
                    break;
                }
            }
        }
    }
}
