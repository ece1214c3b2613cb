//! Arrivals that have not shown yet who they are: few at a time, and the newest ones.
//!
//! A peer that connects and says nothing costs a thread and a socket until its time for the handshake (with TLS, if there is
//! any) is over. The door lets in a few such arrivals at a time. When one more comes, the door closes the one that has taken
//! the longest: a client that means well is done within milliseconds, so silent peers push out each other and never it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ishigaki_fabric::ArrivalCloser;
use parking_lot::{Condvar, Mutex};

/// How long an arrival waits for the threads of those before it that were closed.
const PATIENCE: Duration = Duration::from_millis(200);

/// The arrivals of a node.
#[derive(Debug)]
pub(super) struct Door {
    most: usize,
    state: Mutex<State>,
    left: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// By number, so in the order in which they came.
    greeting: BTreeMap<u64, ArrivalCloser>,
    /// Threads that greet or are about to end.
    threads: usize,
    closed: bool,
}

impl Door {
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, state: Mutex::default(), left: Condvar::new() })
    }

    /// Lets an arrival in, which is greeted until the step is dropped. Nothing: the node stops.
    pub(super) fn enter(self: &Arc<Self>, number: u64, closer: ArrivalCloser) -> Option<Step> {
        let mut state = self.state.lock();
        while state.greeting.len() >= self.most
            && let Some((_, oldest)) = state.greeting.pop_first()
        {
            oldest.close();
        }
        while state.threads >= 2 * self.most && !state.closed {
            // A thread whose socket was closed ends at once; for want of processors not so soon.
            if self.left.wait_for(&mut state, PATIENCE).timed_out() {
                break;
            }
        }
        if state.closed {
            return None;
        }
        state.greeting.insert(number, closer);
        state.threads += 1;
        Some(Step { door: Arc::clone(self), number })
    }

    /// Closes all that are being greeted; none is let in any more.
    pub(super) fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        std::mem::take(&mut state.greeting).values().for_each(ArrivalCloser::close);
        self.left.notify_all();
    }
}

/// An arrival that is being greeted.
#[derive(Debug)]
pub(super) struct Step {
    door: Arc<Door>,
    number: u64,
}

impl Drop for Step {
    fn drop(&mut self) {
        let mut state = self.door.state.lock();
        state.greeting.remove(&self.number);
        state.threads -= 1;
        self.door.left.notify_all();
    }
}
