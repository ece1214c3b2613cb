//! A serializability checker that looks at an engine from outside.
//!
//! A [`Recorder`] hands out one [`Trace`] per transaction. The trace makes the values that the transaction writes, each of
//! which names its writer ([`Version`]), and notes which versions its reads and scans saw. The finished [`History`] is then
//! judged after Adya ("Weak Consistency", MIT 1999, chapter 3): a direct serialization graph over the committed transactions
//! with edges
//!
//! - `ww` from the writer of a version to the writer of the next version of the same key,
//! - `wr` from the writer of a version to whoever saw it,
//! - `rw` from whoever saw a version, *or its absence*, to the writer of the next version; every key in the range of a scan
//!   that the scan did not return counts as seen absent, so phantoms are edges like any other,
//! - `rt` from a transaction whose commit returned to every one that began afterwards (at [`Level::Strict`]), or to those of
//!   them that touched a key that one of the two wrote (at [`Level::Recent`]).
//!
//! The history is serializable iff the graph has no cycle and no committed transaction saw a version of an aborted one (G1a), an
//! intermediate version (G1b), one that was taken back by a savepoint or one that was never written, and every transaction saw
//! its own writes. A write that was taken back counts for nothing, and a read between it and its savepoint like any other.
//!
//! # How the order of versions is known
//! The adaptor gives each committed writer its place in the commit order ([`Trace::commit`], in practice the commit LSN).
//! The versions of a key are ordered by their writers' places; a deletion is a version too. Nothing else is taken from that
//! number: if it contradicts what the transactions saw, the graph shows a cycle.
//!
//! # What is not known, and how it is decided
//! A tombstone carries no value, so whoever sees a key absent does not know whether he saw the state before the first
//! insert or one of several deletions; likewise an insert that finds its key there knows no version. The checker asks
//! whether *some* choice leaves the graph without a cycle. Mostly every choice but one closes a cycle at once; the rest is searched
//! by backtracking. So no correct history is refused, and a refused one has no explanation at all.
//!
//! A trace that ends without commit counts as aborted. To judge the final state, let one more transaction scan everything
//! after the others ended, and check at [`Level::Strict`].
//!
//! ```
//! use ishigaki_testkit::history::{Level, Recorder, Violation};
//!
//! let recorder = Recorder::new();
//! let mut first = recorder.begin();
//! let mut second = recorder.begin();
//! first.read(1, None);
//! second.read(1, None); // both saw that key 1 is absent …
//! first.write(1);
//! second.write(1); // … and both wrote it: a lost update
//! first.commit(1);
//! second.commit(2);
//! assert!(matches!(recorder.finish().check(Level::Serializable), Err(Violation::Cycle(_))));
//! ```

mod check;
mod graph;
mod own;
mod record;
#[cfg(test)]
mod tests;
mod violation;

use std::fmt;
use std::ops::Range;

pub use graph::Dependency;
pub use record::{Recorder, Trace, TraceSavepoint};
pub use violation::{Edge, Violation};

/// A key of the history. Engines with byte keys use its big-endian bytes, which keep the order.
pub type Key = u64;

/// One attempt at a transaction; a retry is another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransactionId(pub u32);

impl fmt::Display for TransactionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "T{}", self.0)
    }
}

/// What one write left behind: the `write`-th write (counted from 0, deletions too) of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// Whose write it was.
    pub writer: TransactionId,
    /// Which of its writes.
    pub write: u32,
}

impl Version {
    /// The value that carries this version through an engine.
    pub fn to_value(self) -> Vec<u8> {
        [self.writer.0.to_be_bytes(), self.write.to_be_bytes()].concat()
    }

    /// The version that a value carries; `None` if the value is none of [`to_value`](Self::to_value)'s.
    pub fn from_value(value: &[u8]) -> Option<Self> {
        let (writer, write) = value.split_first_chunk::<4>()?;
        let write = write.try_into().ok()?;
        Some(Self { writer: TransactionId(u32::from_be_bytes(*writer)), write: u32::from_be_bytes(write) })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.writer, self.write)
    }
}

/// What a transaction saw of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// That it is not there.
    Absent,
    /// That it is there; the version is not known.
    Present,
    /// This version.
    Version(Version),
    /// A value that no transaction of this history ever wrote.
    Garbage(Vec<u8>),
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str("absent"),
            Self::Present => f.write_str("present"),
            Self::Version(version) => version.fmt(f),
            Self::Garbage(bytes) => write!(f, "garbage {bytes:02x?}"),
        }
    }
}

/// One operation of a transaction and what came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Saw something of a key.
    Read {
        /// The key.
        key: Key,
        /// What it saw.
        saw: Seen,
    },
    /// Saw all keys of a range: these were there, the others were absent.
    Scan {
        /// The range that was covered to its end.
        range: Range<Key>,
        /// The keys that were there.
        saw: Vec<(Key, Seen)>,
    },
    /// Inserted or replaced a key.
    Write {
        /// The key.
        key: Key,
        /// The version it made.
        version: Version,
    },
    /// Deleted a key.
    Delete {
        /// The key.
        key: Key,
    },
    /// Took back what it had written since an earlier operation. What it had read since then stays read.
    RollBack {
        /// The index of the first operation whose write is taken back.
        to: usize,
    },
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read { key, saw } => write!(f, "read {key} -> {saw}"),
            Self::Scan { range, saw } => {
                write!(f, "scan {}..{} -> [", range.start, range.end)?;
                for (index, (key, seen)) in saw.iter().enumerate() {
                    let comma = if index == 0 { "" } else { ", " };
                    write!(f, "{comma}{key}: {seen}")?;
                }
                f.write_str("]")
            }
            Self::Write { key, version } => write!(f, "write {key} as {version}"),
            Self::Delete { key } => write!(f, "delete {key}"),
            Self::RollBack { to } => write!(f, "take back writes from operation {to} on"),
        }
    }
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It committed at this place of the commit order; the place of one that wrote nothing has no meaning.
    Committed(u64),
    /// It rolled back, failed, or was never heard of again.
    Aborted,
}

/// One transaction as it was seen from outside.
#[derive(Clone, Debug)]
pub struct Transaction {
    /// Who it is.
    pub id: TransactionId,
    /// A moment before it began; moments are counted over the whole history.
    pub began: u64,
    /// A moment after its commit or rollback returned.
    pub ended: u64,
    /// What it did, in order.
    pub operations: Vec<Operation>,
    /// How it ended.
    pub outcome: Outcome,
}

impl fmt::Display for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} [{}..{}]", self.id, self.began, self.ended)?;
        for operation in &self.operations {
            write!(f, " {operation};")?;
        }
        match self.outcome {
            Outcome::Committed(place) => write!(f, " committed at {place}"),
            Outcome::Aborted => f.write_str(" aborted"),
        }
    }
}

/// What a history is held to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Some serial order explains it (Adya's PL-3).
    Serializable,
    /// Some serial order explains it in which nobody misses what somebody had written who had ended when he began: of two
    /// transactions that touch the same key, one of them to write it, the one that had ended comes first. Only those who
    /// have nothing to do with each other directly may come in another order than in time.
    Recent,
    /// Some serial order explains it in which nobody comes before one that had ended when he began.
    Strict,
}

/// All transactions of a run.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// In no particular order.
    pub transactions: Vec<Transaction>,
}

impl History {
    /// Judges the history; the error is the first thing found that no serial order explains.
    pub fn check(&self, level: Level) -> Result<(), Violation> {
        check::check(self, level)
    }

    /// Like [`check`](Self::check), for tests.
    ///
    /// # Panics
    ///
    /// With the violation and the whole history when it is refused.
    pub fn assert(&self, level: Level) {
        if let Err(violation) = self.check(level) {
            panic!("{violation}\nthe history:\n{self}");
        }
    }
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut transactions: Vec<_> = self.transactions.iter().collect();
        transactions.sort_by_key(|transaction| transaction.began);
        transactions.iter().try_for_each(|transaction| writeln!(f, "  {transaction}"))
    }
}
