//! Where callers find the answers to what they have asked.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use super::held;

/// Why a connection is no more.
#[derive(Clone, Debug)]
pub(in crate::source) struct Lost {
    /// The server breaks the protocol; else the network or the server are away.
    pub(in crate::source) broken: bool,
    pub(in crate::source) reason: Arc<str>,
}

/// The ticket of a request, and its answer or why it has none.
pub(in crate::source) type Letter<A> = (u64, Result<A, Lost>);

/// Where a caller finds the answers to its requests, by the tickets that it gave them.
pub(in crate::source) struct Mailbox<A> {
    letters: Mutex<VecDeque<Letter<A>>>,
    arrived: Condvar,
}

impl<A> Default for Mailbox<A> {
    fn default() -> Self {
        Self { letters: Mutex::default(), arrived: Condvar::new() }
    }
}

impl<A> Mailbox<A> {
    pub(in crate::source) fn put(&self, ticket: u64, letter: Result<A, Lost>) {
        held(&self.letters).push_back((ticket, letter));
        self.arrived.notify_one();
    }

    /// The next answer; `None` if none comes in that time.
    pub(in crate::source) fn take(&self, wait: Duration) -> Option<Letter<A>> {
        let mut letters = held(&self.letters);
        if letters.is_empty() && !wait.is_zero() {
            (letters, _) = self.arrived.wait_timeout(letters, wait).unwrap_or_else(PoisonError::into_inner);
        }
        letters.pop_front()
    }
}
