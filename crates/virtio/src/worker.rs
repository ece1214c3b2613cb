//! What answers requests: one for all threads of a machine.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::time::Instant;

use parking_lot::Mutex;

use crate::pace::Pace;
use crate::queue::{Chain, Job};
use crate::{Requests, When};

pub(crate) struct Worker {
    requests: Arc<dyn Requests>,
    /// A request has panicked, and what it has left is not known; or the guest does not keep to the rules.
    is_broken: Arc<AtomicBool>,
    /// Whether requests are refused from now on.
    refuses: Box<dyn Fn() -> bool + Send + Sync>,
    pace: Pace,
}

impl Worker {
    pub(crate) fn new(
        requests: Arc<dyn Requests>,
        is_broken: Arc<AtomicBool>,
        refuses: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Self {
        Self { requests, is_broken, refuses: Box::new(refuses), pace: Pace::new() }
    }

    /// The work of a thread: answers what is handed over.
    pub(crate) fn run(&self, jobs: &Mutex<Receiver<Job>>) {
        loop {
            let next = jobs.lock().recv();
            let Ok(Job { chain, queue, is_quick }) = next else { return };
            queue.done(chain.head_index(), self.answer(&chain, is_quick));
        }
    }

    /// Whether nothing slow is needed for a request.
    pub(crate) fn is_quick(&self, chain: &Chain) -> bool {
        catch_unwind(AssertUnwindSafe(|| self.requests.is_quick(chain))).unwrap_or(false)
    }

    /// Whether such ones take less time than handing them over.
    pub(crate) fn is_at_pace(&self) -> bool {
        self.pace.is_quick()
    }

    /// Answers a request; the pace follows those that are quick.
    pub(crate) fn answer(&self, chain: &Chain, is_quick: bool) -> Option<u32> {
        let when = if (self.refuses)() { When::Refusing } else { When::Serving };
        let begun = is_quick.then(Instant::now);
        let answered = catch_unwind(AssertUnwindSafe(|| self.requests.answer(chain, when)));
        if let Some(begun) = begun {
            self.pace.took(begun.elapsed());
        }
        answered.unwrap_or_else(|_| {
            tracing::error!("a request panicked; the virtual machine gets nothing any more");
            self.is_broken.store(true, Ordering::SeqCst);
            None
        })
    }
}
