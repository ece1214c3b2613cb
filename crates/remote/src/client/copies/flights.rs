//! Reads that are on their way to fill missing pages, so that nobody asks for a page that somebody else is already waiting for.
//!
//! The first reader that misses a page *leads*: it asks the node, for a run of such pages at once. Others *join*: they wait until
//! the flight has landed and take their part of what it brought.
//!
//! ```text
//!   leader   lead(pages) ── asks the node ──▶ keeps what may be kept ── land(bytes) ──▶ │
//!   joiner        join(page) ── waits ────────────────────────────────────────────────▶ │ copies its part
//! ```
//!
//! *When a flight may be joined.* What it brings was true at the node at some moment since it began. If that was after the
//! joiner's own read began, the joiner may have it like any answer. If it was before, nothing may have changed in between: so a
//! flight is joined only while a copy that had been made of it could be used, that is, with a lease, and with the file's
//! number unmoved since the flight began. What changes later is none of the joiner's business: its read had begun by then. A
//! flight that may not be joined any more is given a successor, which others join.
//!
//! *What goes wrong.* A flight that fails, or whose leader panics, is dropped without landing: the others wake up and each of them
//! reads for itself, outside of any flight. So an error is told to those alone whose own request has failed, and nobody waits for
//! more than one leader.
//!
//! *Who waits.* Nobody waits for a flight while leading one that has not ended; so no two can wait for each other.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;
use std::sync::Arc;

use ishigaki_device::AlignedBuffer;
use parking_lot::{Condvar, Mutex};

use super::Noted;

/// All flights of a client.
#[derive(Debug, Default)]
pub(super) struct Flights {
    /// By file and page.
    under_way: Mutex<HashMap<(u64, u64), Arc<Flight>>>,
}

/// A read that is on its way.
#[derive(Debug)]
pub(in crate::client) struct Flight {
    /// What was noted before it began.
    noted: Noted,
    outcome: Mutex<Outcome>,
    ended: Condvar,
}

#[derive(Clone, Debug)]
enum Outcome {
    UnderWay,
    /// All that it brought, and at which byte of the file that begins.
    Landed(u64, Arc<AlignedBuffer>),
    Failed,
}

/// What is to be done about a page that was missing.
#[derive(Debug)]
pub(in crate::client) enum Claim {
    /// Ours to read, and others may wait for it.
    Lead,
    /// Somebody else reads it.
    Join(Arc<Flight>),
    /// Somebody else has just read it.
    Found(Arc<[u8]>),
}

/// The right and the duty to end a flight. Dropped before it has landed, it has failed.
#[derive(Debug)]
pub(in crate::client) struct Lead<'a> {
    flights: &'a Flights,
    flight: Arc<Flight>,
    pages: Range<u64>,
}

impl Flights {
    /// A flight that has no pages yet and begins at the page `first`.
    pub(super) fn begin(&self, noted: Noted, first: u64) -> Lead<'_> {
        let flight = Flight { noted, outcome: Mutex::new(Outcome::UnderWay), ended: Condvar::new() };
        Lead { flights: self, flight: Arc::new(flight), pages: first..first }
    }
}

impl Lead<'_> {
    /// Takes the next page along, unless it is on another flight that can be joined, or is not missing any more.
    pub(super) fn claim(&mut self, find: impl FnOnce(u64, u64) -> Option<Arc<[u8]>>) -> Claim {
        let (file, page) = (self.flight.noted.file, self.pages.end);
        let mut under_way = self.flights.under_way.lock();
        if let Some(flight) = under_way.get(&(file, page)).filter(|flight| flight.noted == self.flight.noted) {
            return Claim::Join(Arc::clone(flight));
        }
        // A flight makes its copies before it ends, so whoever came too late to join it finds them now.
        if let Some(bytes) = find(file, page) {
            return Claim::Found(bytes);
        }
        under_way.insert((file, page), Arc::clone(&self.flight));
        self.pages.end += 1;
        Claim::Lead
    }

    pub(in crate::client) fn pages(&self) -> Range<u64> {
        self.pages.clone()
    }

    /// What was noted before it began.
    pub(in crate::client) fn noted(&self) -> Noted {
        self.flight.noted
    }

    /// Its bytes are there, from this byte of the file on; copies have been made of them if that was right.
    pub(in crate::client) fn land(self, begin: u64, bytes: &Arc<AlignedBuffer>) {
        *self.flight.outcome.lock() = Outcome::Landed(begin, Arc::clone(bytes));
    }
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        let mut outcome = self.flight.outcome.lock();
        if matches!(*outcome, Outcome::UnderWay) {
            *outcome = Outcome::Failed;
        }
        drop(outcome);
        self.flight.ended.notify_all();
        let mut under_way = self.flights.under_way.lock();
        for page in self.pages.clone() {
            if let Entry::Occupied(entry) = under_way.entry((self.flight.noted.file, page))
                // It may have a successor.
                && Arc::ptr_eq(entry.get(), &self.flight)
            {
                entry.remove();
            }
        }
    }
}

impl Flight {
    /// Waits until it has ended: what it brought and where that begins, unless it has failed. Not for who leads another one.
    pub(in crate::client) fn wait(&self) -> Option<(u64, Arc<AlignedBuffer>)> {
        let mut outcome = self.outcome.lock();
        loop {
            match &*outcome {
                Outcome::UnderWay => self.ended.wait(&mut outcome),
                Outcome::Landed(begin, bytes) => return Some((*begin, Arc::clone(bytes))),
                Outcome::Failed => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests;
