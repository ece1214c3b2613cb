//! Queries over many storage nodes, on Ballista.
//!
//! ```text
//!   ishigaki sql --cluster            ishigaki cluster             ishigaki node --executor, beside the pages
//!   plan ─▶ PushScan ─▶ Distribute ──▶ Scheduler: stages ─ Locality ─▶ Executor: OrdersExec ─▶ the node's own worker
//!                          ▲                                             │  shuffles between executors
//!                          └───────────────── rows ◀─────────────────────┘
//! ```
//!
//! The client plans a query like any other: analyzer, optimizer, and pushed scans with their partial aggregates. What comes
//! behind the last rule travels: [`Distribute`] writes each fragment into the plan itself
//! ([`OrdersExec`](ishigaki_scan::OrdersExec)) and hands the physical plan to the scheduler. So nothing depends on rules
//! that the scheduler has, and its adaptive planning, which makes plans anew and knows no rules of ours, has no part in it.
//! The [`Scheduler`] cuts the plan into stages and sends each partition to the executor beside its pages; an [`Executor`]
//! has the storage node beside it do the fragment, joins and aggregates the rest.
//!
//! Every executor tells each second that it is there. If a node is lost, what it had done is done again elsewhere, and its fragments by a node that has a replica of the page
//! file, if there is one; else the query fails and says which location is missing.
//!
//! Ballista's connections are neither encrypted nor authenticated: whoever reaches a scheduler or an executor can run what he
//! likes there. Whoever starts one decides on which network it listens.
//!
//! Everything is behind the feature `ballista`.

#![cfg(feature = "ballista")]

mod beat;
mod client;
mod codec;
mod executor;
mod locality;
mod scheduler;

use ballista_core::error::BallistaError;
use ishigaki_base::ErrorKind;

pub use client::Distribute;
pub use executor::{Executor, ExecutorSettings};
pub use scheduler::Scheduler;

/// The result of starting something.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a scheduler or an executor does not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An address that is none, or that can not be listened at.
    #[error("{address}: {source}")]
    Address {
        /// As it was given.
        address: String,
        /// What is wrong with it.
        source: std::io::Error,
    },
    /// No threads, or no folder for shuffled rows.
    #[error("{what}: {source}")]
    System {
        /// What was to be had.
        what: &'static str,
        /// Why it was not.
        source: std::io::Error,
    },
    /// The scheduler is not there.
    #[error(
        "the scheduler at {address} does not take this node in: {reason}; start it first: ishigaki cluster --listen {address}"
    )]
    NoScheduler {
        /// Where it should be.
        address: String,
        /// What happened.
        reason: String,
    },
    /// Ballista's word.
    #[error("{0}")]
    Ballista(#[from] BallistaError),
}

impl Error {
    /// What the caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Address { .. } => ErrorKind::Invalid,
            Self::System { .. } | Self::NoScheduler { .. } | Self::Ballista(_) => ErrorKind::Unavailable,
        }
    }
}
