//! The log's own threads: started with a body, stopped and waited for.
//!
//! None of them holds the log open: a body gets a weak reference and ends when the log is gone.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle, Thread};

use ishigaki_device::Error as DeviceError;
use parking_lot::Mutex;

use crate::Result;
use crate::log::Shared;

/// A running thread; stopped by [`stop`](Self::stop).
#[derive(Debug)]
pub(crate) struct Background {
    stopping: Arc<AtomicBool>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Background {
    /// Starts a thread of that name. `body` returns soon after the flag is raised and the thread unparked.
    pub(crate) fn start(
        name: &str,
        shared: Weak<Shared>,
        body: impl FnOnce(&Weak<Shared>, &AtomicBool) + Send + 'static,
    ) -> Result<Self> {
        let stopping = Arc::new(AtomicBool::new(false));
        let stop = stopping.clone();
        let thread = thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || body(&shared, &stop))
            .map_err(|source| DeviceError::Io { name: "log".to_owned(), operation: "start of its thread", source })?;
        Ok(Self { stopping, thread: Mutex::new(Some(thread)) })
    }

    /// A handle to unpark it by; `None` once it was stopped.
    pub(crate) fn thread(&self) -> Option<Thread> {
        self.thread.lock().as_ref().map(|thread| thread.thread().clone())
    }

    /// Wakes it, if it sleeps.
    pub(crate) fn wake(&self) {
        if let Some(thread) = &*self.thread.lock() {
            thread.thread().unpark();
        }
    }

    /// Ends the thread and waits for it.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        let Some(thread) = self.thread.lock().take() else { return };
        thread.thread().unpark();
        // The last user of the log may be this very thread.
        if thread.thread().id() != thread::current().id() && thread.join().is_err() {
            tracing::error!("a background thread of the log panicked");
        }
    }
}
