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

/// How many of so many slots are kept free.
pub(crate) fn wanted(slots: usize) -> usize {
    (slots / SHARE).clamp(1, MOST)
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
        while core.free.lock().len() < wanted(core.slots.len()) && core.bell.lock().is_some() {
            match core.make_free() {
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
