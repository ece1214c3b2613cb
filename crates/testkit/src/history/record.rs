//! Recording: a [`Recorder`] shared by all threads, one [`Trace`] per transaction.
//!
//! Moments come from one counter. A trace draws its first before the engine begins the transaction and its last after the
//! engine's commit returned, so that an order of moments is an order in time, never the other way round.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::{History, Key, Operation, Outcome, Seen, Transaction, TransactionId, Version};

/// Collects the traces of one run. Shared by reference between threads.
#[derive(Debug, Default)]
pub struct Recorder {
    ids: AtomicU32,
    moments: AtomicU64,
    transactions: Mutex<Vec<Transaction>>,
}

impl Recorder {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// A trace for one attempt at a transaction; to be called before the engine's own `begin`.
    pub fn begin(&self) -> Trace<'_> {
        let id = TransactionId(self.ids.fetch_add(1, Ordering::Relaxed));
        let began = self.moment();
        let transaction = Transaction { id, began, ended: began, operations: Vec::new(), outcome: Outcome::Aborted };
        Trace { recorder: self, id, writes: 0, transaction: Some(transaction) }
    }

    /// What was recorded. Traces that are still open (in threads that are gone for good) are missing; drop them first.
    pub fn finish(self) -> History {
        History { transactions: self.transactions.into_inner().unwrap_or_else(PoisonError::into_inner) }
    }

    fn moment(&self) -> u64 {
        self.moments.fetch_add(1, Ordering::SeqCst)
    }
}

/// What one transaction did and saw. Dropping it records the transaction as aborted.
#[derive(Debug)]
pub struct Trace<'a> {
    recorder: &'a Recorder,
    id: TransactionId,
    writes: u32,
    /// `None` once the end was recorded.
    transaction: Option<Transaction>,
}

impl Trace<'_> {
    /// Whose trace it is.
    pub fn id(&self) -> TransactionId {
        self.id
    }

    /// It read `key` and found `value`.
    pub fn read(&mut self, key: Key, value: Option<&[u8]>) {
        let saw = value.map_or(Seen::Absent, see);
        self.note(Operation::Read { key, saw });
    }

    /// It learned whether `key` is there, but not which version: an insert refused, a deletion that counts.
    pub fn exists(&mut self, key: Key, present: bool) {
        let saw = if present { Seen::Present } else { Seen::Absent };
        self.note(Operation::Read { key, saw });
    }

    /// It scanned `range` to its end and found exactly `rows`. A scan that broke off early ends after its last row.
    pub fn scan<'v>(&mut self, range: Range<Key>, rows: impl IntoIterator<Item = (Key, &'v [u8])>) {
        let saw = rows.into_iter().map(|(key, value)| (key, see(value))).collect();
        self.note(Operation::Scan { range, saw });
    }

    /// It writes `key`. The answer is the value to write; it names this write.
    pub fn write(&mut self, key: Key) -> Vec<u8> {
        let version = self.next_version();
        self.writes += 1;
        self.note(Operation::Write { key, version });
        version.to_value()
    }

    /// The value that the next [`write`](Self::write) will give, for a write that may turn out not to happen.
    pub fn next_value(&self) -> Vec<u8> {
        self.next_version().to_value()
    }

    /// It deletes `key`.
    pub fn delete(&mut self, key: Key) {
        self.writes += 1;
        self.note(Operation::Delete { key });
    }

    /// A moment to go back to.
    pub fn savepoint(&self) -> TraceSavepoint {
        TraceSavepoint(self.transaction.as_ref().map_or(0, |transaction| transaction.operations.len()))
    }

    /// It took back all that it had written since then.
    pub fn roll_back_to(&mut self, TraceSavepoint(to): TraceSavepoint) {
        self.note(Operation::RollBack { to });
    }

    /// Its commit returned. `place` is its place in the commit order, different for any two that wrote: the commit LSN.
    pub fn commit(mut self, place: u64) {
        self.end(Outcome::Committed(place));
    }

    /// It rolled back or failed; same as dropping the trace.
    pub fn abort(self) {}

    fn next_version(&self) -> Version {
        Version { writer: self.id(), write: self.writes }
    }

    fn note(&mut self, operation: Operation) {
        if let Some(transaction) = &mut self.transaction {
            transaction.operations.push(operation);
        }
    }

    fn end(&mut self, outcome: Outcome) {
        if let Some(mut transaction) = self.transaction.take() {
            transaction.ended = self.recorder.moment();
            transaction.outcome = outcome;
            self.recorder.transactions.lock().unwrap_or_else(PoisonError::into_inner).push(transaction);
        }
    }
}

impl Drop for Trace<'_> {
    fn drop(&mut self) {
        self.end(Outcome::Aborted);
    }
}

/// A moment of a trace: see [`Trace::savepoint`].
#[derive(Clone, Copy, Debug)]
pub struct TraceSavepoint(usize);

fn see(value: &[u8]) -> Seen {
    Version::from_value(value).map_or_else(|| Seen::Garbage(value.to_vec()), Seen::Version)
}
