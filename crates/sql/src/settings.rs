//! How a database is opened.

use std::num::NonZeroUsize;

use ishigaki_base::ByteSize;

/// Settings of a [`Database`](crate::Database). The defaults work.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The engine below: its log, the memory of the tables, how long to wait for a lock.
    pub txn: ishigaki_txn::Settings,
    /// What all statements that run at one time may use together for sorting, grouping, joining and for rows on their way
    /// into a table. Nothing is spilled to disk: a statement that needs more fails and says so.
    pub query_memory: ByteSize,
    /// Threads that run statements; `None` takes as many as the machine has cores.
    pub threads: Option<NonZeroUsize>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { txn: ishigaki_txn::Settings::default(), query_memory: ByteSize::gib(2), threads: None }
    }
}
