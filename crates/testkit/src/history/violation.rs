//! What a history can be refused for, in words a person can follow.

use std::fmt;

use super::{Dependency, Key, Operation, Seen, TransactionId, Version};

/// Why a history is not serializable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// A committed transaction saw a version of an aborted one (Adya's G1a).
    AbortedRead {
        /// Who saw it.
        reader: TransactionId,
        /// Where.
        operation: Operation,
        /// What.
        version: Version,
    },
    /// A committed transaction saw a version that its writer replaced later (Adya's G1b).
    IntermediateRead {
        /// Who saw it.
        reader: TransactionId,
        /// Where.
        operation: Operation,
        /// What.
        version: Version,
    },
    /// A committed transaction saw a version that its writer took back before it committed.
    UndoneRead {
        /// Who saw it.
        reader: TransactionId,
        /// Where.
        operation: Operation,
        /// What.
        version: Version,
    },
    /// A committed transaction saw something that nobody wrote to that key.
    NeverWritten {
        /// Who saw it.
        reader: TransactionId,
        /// Where.
        operation: Operation,
        /// Of which key.
        key: Key,
        /// What.
        saw: Seen,
    },
    /// A transaction did not see its own last write of a key.
    OwnWriteMissed {
        /// Who missed it.
        reader: TransactionId,
        /// Where.
        operation: Operation,
        /// Of which key.
        key: Key,
        /// What it saw instead.
        saw: Seen,
    },
    /// A scan returned its rows out of order, twice, or from outside its range.
    DisorderedScan {
        /// Who scanned.
        reader: TransactionId,
        /// The scan.
        operation: Operation,
    },
    /// Two writers were given the same place in the commit order.
    SharedPlace {
        /// The place.
        place: u64,
        /// One of them.
        first: TransactionId,
        /// The other.
        second: TransactionId,
    },
    /// Transactions depend on each other in a circle: no serial order explains what they saw.
    Cycle(Vec<Edge>),
    /// Too many ways to explain unseen versions; the history is too large for a verdict.
    Undecided {
        /// How many were tried.
        tried: usize,
    },
}

/// One dependency of a cycle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    /// Who comes first.
    pub from: TransactionId,
    /// Who comes after.
    pub to: TransactionId,
    /// Why.
    pub dependency: Dependency,
    /// Over which key; `None` for an order in time.
    pub key: Option<Key>,
    /// What the first did.
    pub from_operation: Option<Operation>,
    /// What the other did.
    pub to_operation: Option<Operation>,
}

impl fmt::Display for Edge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} --{}--> {}", self.from, self.dependency, self.to)?;
        if let Some(key) = self.key {
            write!(f, "  over key {key}")?;
        }
        if let (Some(from), Some(to)) = (&self.from_operation, &self.to_operation) {
            write!(f, " ({}: {from}; {}: {to})", self.from, self.to)?;
        }
        Ok(())
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AbortedRead { reader, operation, version } => {
                write!(f, "{reader} committed after it saw {version} of an aborted transaction: {operation}")
            }
            Self::IntermediateRead { reader, operation, version } => {
                write!(f, "{reader} saw {version}, which its writer replaced before it committed: {operation}")
            }
            Self::UndoneRead { reader, operation, version } => {
                write!(f, "{reader} saw {version}, which its writer took back: {operation}")
            }
            Self::NeverWritten { reader, operation, key, saw } => {
                write!(f, "{reader} saw {saw} under key {key}, where nobody wrote it: {operation}")
            }
            Self::OwnWriteMissed { reader, operation, key, saw } => {
                write!(f, "{reader} saw {saw} under key {key} and not its own last write: {operation}")
            }
            Self::DisorderedScan { reader, operation } => {
                write!(f, "{reader} got rows out of order, twice or from outside the range: {operation}")
            }
            Self::SharedPlace { place, first, second } => {
                write!(f, "{first} and {second} both committed at {place}")
            }
            Self::Cycle(edges) => {
                write!(f, "no serial order explains {} transactions:", edges.len())?;
                edges.iter().try_for_each(|edge| write!(f, "\n  {edge}"))
            }
            Self::Undecided { tried } => {
                write!(f, "no verdict after {tried} ways to explain unseen versions; record shorter histories")
            }
        }
    }
}

impl std::error::Error for Violation {}
