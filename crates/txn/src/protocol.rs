//! The seam of concurrency control: what a transaction asks of a protocol, and what it keeps to itself.
//!
//! A [`Protocol`] value lives as long as its transaction. It decides what may be read, who may write, and whether the
//! transaction may commit; it keeps its state in the words that records and tables carry for it. Outside of it, and the
//! same for every protocol: the write set and reading one's own writes, redo encoding, the log, memory, tickets, and the
//! table of tables.
//!
//! ```text
//! begin ── read / scan / reserve / monopolize …  ── prepare ── decide ── (LSN drawn) ── install each write ── release
//!                                                └────────────────── abort ────────────────────────────────── release
//! ```
//!
//! Nothing in the trait says that a read locks: an optimistic protocol (`TicToc`) only remembers what it saw and decides in
//! `decide`, after it has locked in `prepare` what `reserve` merely looked up. What must hold, whoever implements it: from
//! `decide` until `release`, no conflicting transaction may get past its own `decide`; then the order of LSNs, drawn in
//! between, is a serialization order (invariant 1 of the log).
//!
//! [`locking`] is strict two-phase locking with wait-die, [`tictoc`] is optimistic; [`chosen`] calls the one that the database
//! was opened with.

mod chosen;
mod kind;
mod locking;
mod patience;
mod tictoc;

use std::fmt;
use std::ops::ControlFlow;

use ishigaki_base::Position;
use ishigaki_wal::Dependencies;

use crate::Result;
use crate::key::{Key, KeyRange};
use crate::memory::Purse;
use crate::record::{Record, Value};
use crate::records::RecordId;
use crate::table::{Table, TableRef};
use crate::version::Retired;

pub(crate) use chosen::Chosen;
pub use kind::ProtocolKind;
pub(crate) use locking::{Ranges, RecordLock};
pub(crate) use patience::{Interrupt, Patience, Pauses, Unblock, Whose};
pub(crate) use tictoc::Held;
pub(crate) use tictoc::absences::Absences;
#[cfg(test)]
pub(crate) use tictoc::word::LAST;
pub(crate) use tictoc::word::{Stamp, Timestamp, Word};

/// What the model checker gets to see.
pub(crate) mod model {
    pub use super::tictoc::absences::Absences;
    pub use super::tictoc::word::{Refused, Stamp, Timestamp, Word};
}

/// How long a transaction has been trying, relative to the others: smaller is older, and older ones win conflicts.
///
/// A transaction that is run again after a conflict should keep its age
/// ([`Session::begin_with_age`](crate::Session::begin_with_age)): sooner or later it is the oldest, and then nobody can
/// make it give way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Age(pub(crate) u64);

/// The identity of a running transaction: its age, made unique. Never zero and never `u64::MAX`.
///
/// The low bits tell attempts apart, so that two transactions that were wrongly given the same age are still two.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TransactionId(u64);

impl TransactionId {
    const ATTEMPT_BITS: u32 = 16;

    /// Of the first attempt. Ages count from one, and 2^48 of them last for centuries.
    pub(crate) fn first(age: Age) -> Self {
        Self(age.0 << Self::ATTEMPT_BITS)
    }

    /// Of a later attempt, the `number`-th of all that are repeated.
    pub(crate) fn again(age: Age, number: u64) -> Self {
        let attempts = (1 << Self::ATTEMPT_BITS) - 1;
        Self(Self::first(age).0 | (1 + number % attempts))
    }

    /// As a number that is never zero.
    pub(crate) fn get(self) -> u64 {
        self.0
    }

    pub(crate) fn age(self) -> Age {
        Age(self.0 >> Self::ATTEMPT_BITS)
    }
}

impl fmt::Debug for TransactionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "T{}.{}", self.age().0, self.0 & 0xffff)
    }
}

/// What a transaction is about to do to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Intent {
    /// Store a value, whatever is there.
    Put,
    /// Store a value if there is none. The presence told is a read: it must hold until the end.
    Insert,
    /// Remove what is there. The presence told is a read, as for `Insert`.
    Delete,
}

/// What [`Protocol::reserve`] found.
#[derive(Debug)]
pub(crate) struct Reserved {
    /// The key's record; it may be an absent one.
    pub(crate) record: RecordId,
    /// Whether the key has a committed value.
    pub(crate) present: bool,
}

/// Who is shown keys and values, until it breaks.
pub(crate) type Visit<'a> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'a;

/// Concurrency control on behalf of one transaction.
pub(crate) trait Protocol: Sized + Send {
    /// The limits of this transaction's waits.
    fn patience(&mut self) -> &mut Patience;

    /// Reads the committed value of a key; `visit` is called exactly once if this succeeds.
    fn read<R>(&mut self, table: &TableRef, key: &[u8], visit: impl FnOnce(Option<&[u8]>) -> R) -> Result<R>;

    /// Says which keys are likely to be used next. Nothing is read by that.
    fn prefetch(&mut self, table: &TableRef, keys: &[impl AsRef<[u8]>]);

    /// Shows the committed values of a range in key order until `visit` breaks. What was shown, and what was not there up
    /// to the point where it broke, is read.
    fn scan(&mut self, table: &TableRef, range: KeyRange<'_>, visit: &mut Visit<'_>) -> Result<()>;

    /// Gets the right to write a key, now or in `prepare`. `None` only for `Intent::Delete` of a key that is not there.
    /// A new record has room for a value of so many bytes; its memory is spent from `purse` and handed over to the table.
    fn reserve(
        &mut self,
        table: &TableRef,
        key: &Key,
        room: usize,
        intent: Intent,
        purse: &mut Purse,
    ) -> Result<Option<Reserved>>;

    /// Gets a whole table for this transaction alone.
    fn monopolize(&mut self, table: &TableRef) -> Result<()>;

    /// Makes sure that nobody else writes what this transaction is going to write: as many records as `count` says, those of
    /// which `is_written` is true. It may have reserved more than that, and taken the writes back since.
    fn prepare(&mut self, count: usize, is_written: impl Fn(&Table, &Key, RecordId) -> bool) -> Result<()>;

    /// Decides whether the transaction may commit, with a timestamp of at least `floor` where the protocol has them. After
    /// this succeeded nothing but the log can refuse it; then it may be asked again.
    fn decide(&mut self, _floor: Timestamp) -> Result<()> {
        Ok(())
    }

    /// What was decided.
    fn timestamp(&self) -> Timestamp {
        0
    }

    /// Notes that the transaction has seen something that is durable only with that record of the log.
    fn depend(&mut self, position: Position);

    /// Notes that the transaction has seen that something is not in a table.
    fn depend_on_absence(&mut self, table: &Table) {
        table.deletions().for_each(|position| self.depend(position));
    }

    /// The records of the log that anything read so far depends on.
    fn depends_on(&self) -> &Dependencies;

    /// Makes one write to a record visible, at that place of the log; returns what it replaced, if that lay outside
    /// of the record.
    fn install(&mut self, record: Record<'_>, value: Option<Value<'_>>, position: Position) -> Option<Retired>;

    /// A table that this transaction has made becomes visible, with all that was written to it.
    fn installed_table(&mut self, _: &Table) {}

    /// A table is about to be found by nobody any more. Whoever misses it then has learned something of the `system` table.
    fn dropping_table(&mut self, _system: &Table) {}

    /// Whether everything read so far fits together, so that what follows from it is so. Where reads lock, it does.
    fn is_consistent(&mut self) -> bool {
        true
    }

    /// Lets go of everything, after all writes were installed or none. `dropped` says which monopolized tables are gone
    /// for good.
    fn release(&mut self, dropped: impl Fn(&Table) -> bool);
}
